#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The chat, as a person at a real terminal (tmux) has it: typing, many lines, pasted text, UTF-8,
# Ctrl-C wherever it can come, a window that changes its size, commands, the history's file.
. "$(dirname "$0")/lib.sh"
need_model
. "$here/talk_lib.sh"

begin --temp 0 -t 1
sees '^mote-tiny   8.9 MB   context [0-9 ]+   thinking auto   /help for help'

# A question, its answer, the figures at the right edge.
type_line "Hello!"
sees '^Hello! How can I help you\?$'
sees '^ +9 tokens   [0-9. ]+ t/s   [0-9.]+ %$'
at_prompt

# Thinking is shown between its two lines, or folded into one; /fold shows what it hid.
fresh
type_line "/think on"
sees '^thinking on, up to 4 096 tokens$'
type_line "Hello!"
sees '^▸ thinking$'
sees '^▸ thought for [0-9.]+ s$'
at_prompt
type_line "/fold"
sees '^thinking is folded into one line'
fresh
type_line "Hello!"
sees '^▸ thought for [0-9.]+ s \(/fold shows it\)$'
at_prompt
misses 'simple question'
fresh
type_line "/fold"
sees '^thinking is shown'
sees '[a-z]+\.$'
type_line "/nothink"
sees '^thinking off'

# UTF-8 goes in and comes back, wide characters too, and can be edited.
fresh
key -l 'grüße 天空é'
sees '^>>> grüße 天空é$'
key BSpace BSpace
sees '^>>> grüße 天$'
key C-a
key -l 'ß'
sees '^>>> ßgrüße 天$'
fresh

# Many lines: a backslash, three quotes, pasted text, Alt-Enter. None is sent half.
type_line 'one\'
sees '^\.\.\.'
type_line 'two'
at_prompt
fresh
type_line '"""'
type_line '/help'
type_line 'is no command here'
type_line '"""'
at_prompt
misses 'another answer to the last question'
fresh
printf 'first line\nsecond \303\274\nthird\n' >"$work/paste"
$tmux load-buffer "$work/paste"
$tmux paste-buffer -p
sees '^third$'
sleep 0.3
misses 'tokens   '
key -l ' and more'
key Enter
sees 'tokens   .* t/s'
at_prompt
fresh
key -l 'upper'
key M-Enter
key -l 'lower'
sees '^lower$'
misses 'tokens   '
key Enter
sees 'tokens   .* t/s'
at_prompt

# The history knows messages as they were, and is for its owner only.
fresh
key Up
sees '^>>> upper$'
sees '^lower$'
fresh
[ "$(stat -c %a "$work/cache/mote")" = 700 ] || fail "the folder of the history: $(stat -c %a "$work/cache/mote")"
[ "$(stat -c %a "$work/cache/mote/history")" = 600 ] || fail "the history: $(stat -c %a "$work/cache/mote/history")"
grep -q 'first.*line.*012second' "$work/cache/mote/history" || fail "$(cat "$work/cache/mote/history")"

# Commands.
type_line "/help"
for name in think nothink fold system set stats save load retry undo clear help bye; do
    sees "^  /$name "
done
fresh
type_line "/hlep"
sees '^unknown command /hlep; did you mean /help\?'
type_line "/set tempreature 1"
sees '^unknown setting tempreature; did you mean temperature\?'
type_line "/set top_k 1.5"
sees '^top_k must be a number from 0 to 1000000, or default; got .1.5.'
type_line "/set top_k 7"
type_line "/set top_k"
sees '^  top_k +7$'
type_line "/set parameter top_k default"
type_line "/set top_k"
sees '^  top_k +from the preset$'
type_line "/system"
sees '^no system prompt'
type_line "/system Be brief."
sees '^system prompt changed'
type_line "/stats"
sees '^  prompt   [0-9]+ tokens'
sees '^  context  [0-9 ]+ of '
fresh
type_line "/clear"
sees '^new conversation'
type_line "/retry"
sees '^no question to answer again'
type_line "/undo"
sees '^nothing to undo'
type_line "My name is Paul."
sees 't/s'
at_prompt
type_line "/save $work/talk.json"
sees '^saved as '
[ -s "$work/talk.json" ] || fail "nothing was saved"
type_line "/clear"
type_line "/load $work/none.json"
sees '^mote: .*none.json'
type_line "/load $work/talk.json"
sees '^2 messages$'
fresh
type_line "What is my name?"
sees '^.*Paul'
at_prompt
type_line "/retry"
sees 't/s'
at_prompt
type_line "/undo"
sees '^removed the last question and its answer'

# Ctrl-C at the prompt clears the line; twice on an empty one leaves, and so does Ctrl-D.
fresh
key -l 'unwanted'
sees '^>>> unwanted'
key C-c
at_prompt
misses 'again or Ctrl-D'
key C-c
sees 'Ctrl-C again or Ctrl-D exits'
key C-c
sees '^READY:$'
type_line 'echo code $?'
sees '^code 0'
begin
key C-d
sees '^READY:'
type_line 'echo code $?'
sees '^code 0'
begin
type_line '/bye'
sees '^READY:'
type_line 'echo code $?'
sees '^code 0'

# An answer without end: a reward for what was said. The window changes its size while it comes, and
# no word is torn, lost or doubled; Ctrl-C stops it and the chat goes on with echo.
begin -t 1 --temp 0 --frequency -0.8 --presence 0 --think off --no-loop-guard
all_lines() { $tmux capture-pane -p -S -20000 | sed '/^$/d'; }
more_lines() {
    wanted=$(($(all_lines | wc -l) + $1))
    tries=0
    until [ "$(all_lines | wc -l)" -ge $wanted ]; do
        tries=$((tries + 1))
        [ $tries -gt 1200 ] && { fail "the answer stands still:"; screen; return; }
        sleep 0.05
    done
}
type_line "Count from 1 to 9."
more_lines 4
$tmux resize-window -x 60 -y 40
more_lines 5
$tmux resize-window -x 130 -y 40
more_lines 4
key C-c
sees ' interrupted   [0-9 ]+ tokens   '
at_prompt
all_lines >"$work/shown"
type_line "/save $work/long.json"
sees '^saved as '
if command -v python3 >/dev/null; then
    python3 -c 'import json, sys
shown = open(sys.argv[1], encoding="utf-8").read().rsplit(">>> Count from 1 to 9.\n", 1)[1]
lines = shown.split("\n")
lines = lines[:next(i for i, line in enumerate(lines) if " interrupted   " in line)]
said = json.load(open(sys.argv[2], encoding="utf-8"))
said = (said["messages"] if isinstance(said, dict) else said)[-1]["content"]
if " ".join(" ".join(lines).split()) != " ".join(said.split()):
    sys.exit("the screen is not the answer: %r, not %r" % (lines, said))
if max(map(len, lines)) <= 100:
    sys.exit("the wider window is not used")' "$work/shown" "$work/long.json" || fail "the screen is not the answer"
fi
key -l 'still here'
sees '^>>> still here$'
key C-c
at_prompt
type_line "/stats"
sees '^  finish   canceled'

# What is typed while an answer comes is not mixed into it and waits for the prompt.
type_line "/clear"
sees '^new conversation'
type_line "/set max_tokens 600"
at_prompt
fresh
type_line "Count from 1 to 9."
sees '^1, 2, 3'
key -l 'in the meantime'
sees '^>>> in the meantime$'
misses '[0-9,] *in the meantime'
key C-c
at_prompt

# SIGTERM leaves in good order.
pid=$($tmux list-panes -F '#{pane_pid}')
kill -TERM "$(ps -o pid= --ppid "$pid" | tr -d ' ')"
sees '^READY:'
type_line 'echo code $?'
sees '^code 143'

# Nothing is kept on request.
rm -rf "$work/cache"
type_line "clear; MOTE_NOHISTORY=1 ./mote run $model -t 1"
at_prompt
type_line "Hello!"
sees 't/s'
at_prompt
key C-d
sees '^READY:'
[ -e "$work/cache/mote/history" ] && fail "MOTE_NOHISTORY=1 keeps a history"

# One answer at a terminal: wrapped, without a prompt after it; no colours with NO_COLOR.
type_line "clear; NO_COLOR=1 ./mote run $model --temp 0 -t 1 --think on 'Hello!'; echo code \$?"
sees '^▸ thought for'
sees '^Hello! How can I help you\?$'
sees '^code 0'
$tmux capture-pane -p -e | grep -q "$(printf '\033\\[2m')" && fail "NO_COLOR shows dim text"
finish
