#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The interactive chat on a real terminal (tmux): typing, multi-line input, pasted text, UTF-8, Ctrl-C,
# resized windows, commands, the history file.
. "$(dirname "$0")/lib.sh"
need_model
. "$here/talk_lib.sh"

begin --temp 0 -t 1
shows '^mote-tiny   8.9 MB   context [0-9 ]+   thinking auto   /help for help'

# A question, its answer, the statistics at the right edge.
type_line "Hello!"
shows '^Hello! How can I help you\?$'
shows '^ +9 tokens   [0-9. ]+ t/s(   drafts [0-9]+/[0-9]+)?   [0-9.]+ %$'
at_prompt

# Thinking is shown between two marker lines, or folded into one; /fold prints it again.
fresh
type_line "/think on"
shows '^thinking on, up to 4 096 tokens$'
type_line "Hello!"
shows '^▸ thinking$'
shows '^▸ thought for [0-9.]+ s$'
at_prompt
type_line "/fold"
shows '^thinking is folded into one line'
fresh
type_line "Hello!"
shows '^▸ thought for [0-9.]+ s \(/fold shows it\)$'
at_prompt
shows_no 'simple question'
fresh
type_line "/fold"
shows '^thinking is shown'
shows '[a-z]+\.$'
type_line "/nothink"
shows '^thinking off'

# UTF-8 input can be typed and edited, also wide characters.
fresh
key -l 'grüße 天空é'
shows '^>>> grüße 天空é$'
key BSpace BSpace
shows '^>>> grüße 天$'
key C-a
key -l 'ß'
shows '^>>> ßgrüße 天$'
fresh

# Multi-line input: a backslash, three quotes, pasted text, Alt-Enter. Only complete messages are sent.
type_line 'one\'
shows '^\.\.\.'
type_line 'two'
at_prompt
fresh
type_line '"""'
type_line '/help'
type_line 'is no command here'
type_line '"""'
at_prompt
shows_no 'another answer to the last question'
fresh
printf 'first line\nsecond \303\274\nthird\n' >"$work/paste"
$tmux load-buffer "$work/paste"
$tmux paste-buffer -p
shows '^third$'
sleep 0.3
shows_no 'tokens   '
key -l ' and more'
key Enter
shows 'tokens   .* t/s'
at_prompt
fresh
key -l 'upper'
key M-Enter
key -l 'lower'
shows '^lower$'
shows_no 'tokens   '
key Enter
shows 'tokens   .* t/s'
at_prompt

# The history keeps whole messages, readable by the owner only.
fresh
key Up
shows '^>>> upper$'
shows '^lower$'
fresh
[ "$(stat -c %a "$work/cache/mote")" = 700 ] || fail "mode of the history directory: $(stat -c %a "$work/cache/mote")"
[ "$(stat -c %a "$work/cache/mote/history")" = 600 ] || fail "mode of the history file: $(stat -c %a "$work/cache/mote/history")"
grep -q 'first.*line.*012second' "$work/cache/mote/history" || fail "$(cat "$work/cache/mote/history")"

# Commands.
type_line "/help"
for name in think nothink fold system set stats model save switch list load retry undo clear help bye; do
    shows "^  /$name "
done
fresh
type_line "/hlep"
shows '^unknown command /hlep; did you mean /help\?'
type_line "/set tempreature 1"
shows '^unknown setting tempreature; did you mean temperature\?'
type_line "/set top_k 1.5"
shows '^top_k must be a number from 0 to 1000000, or default; got .1.5.'
type_line "/set top_k 7"
type_line "/set top_k"
shows '^  top_k +7$'
type_line "/set parameter top_k default"
type_line "/set top_k"
shows '^  top_k +from the preset$'
type_line "/system"
shows '^no system prompt'
type_line "/system Be brief."
shows '^system prompt changed'
type_line "/stats"
shows '^  prompt   [0-9]+ tokens'
shows '^  context  [0-9 ]+ of '
fresh
type_line "/clear"
shows '^new conversation'
type_line "/retry"
shows '^no question to answer again'
type_line "/undo"
shows '^nothing to undo'
type_line "My name is Paul."
shows 't/s'
at_prompt
type_line "/save $work/talk.json"
shows '^saved as '
[ -s "$work/talk.json" ] || fail "nothing was saved"
type_line "/clear"
type_line "/load $work/none.json"
shows '^mote: .*none.json'
type_line "/load $work/talk.json"
shows '^2 messages$'
fresh
type_line "What is my name?"
shows '^.*Paul'
at_prompt
type_line "/retry"
shows 't/s'
at_prompt
type_line "/undo"
shows '^removed the last question and its answer'

# Tab completes commands, their arguments, files and models; several choices are printed.
fresh
key -l '/thi'
key Tab
shows '^>>> /think$'
key -l 'me'
key Tab
shows '^>>> /think medium$'
fresh
key -l '/s'
key Tab
shows '^save  set  stats  switch  system$'
shows '^>>> /s$'
key -l 'et tem'
key Tab
shows '^>>> /set temperature$'
fresh
key -l "/load $work/tal"
key Tab
shows 'talk.json$'
fresh

# /model changes the model and keeps the conversation; a wrong file changes nothing.
cp "$work/talk.json" "$work/my talk.json"
type_line "/load \"$work/my talk.json\""
shows '^2 messages; they are prefilled with the next message$'
type_line "/model"
shows "^$model \\(/model MODEL changes it"
type_line "/model $work/none.gguf"
shows '^mote: no such file: '
fresh
key -l '/model mote-tiny-B'
key Tab
shows '^>>> /model /.*mote-tiny-BF16.gguf$'
key Enter
shows '^model mote-tiny; the conversation is prefilled with the next message'
type_line "What is my name?"
shows '^.*Paul'
at_prompt

# Ctrl-C at the prompt clears the line; twice on an empty line it exits, and so does Ctrl-D.
fresh
key -l 'unwanted'
shows '^>>> unwanted'
key C-c
at_prompt
shows_no 'again or Ctrl-D'
key C-c
shows 'Ctrl-C again or Ctrl-D exits'
key C-c
shows '^READY:$'
type_line 'echo code $?'
shows '^code 0'
begin
key C-d
shows '^READY:'
type_line 'echo code $?'
shows '^code 0'
begin
type_line '/bye'
shows '^READY:'
type_line 'echo code $?'
shows '^code 0'

# A negative frequency penalty makes an endless answer. The window is resized during the answer, and no
# word is split, lost or repeated; Ctrl-C stops the answer and the chat continues with echo.
begin -t 1 --temp 0 --frequency -0.8 --presence 0 --think off --no-loop-guard
all_lines() { $tmux capture-pane -p -S -20000 | sed '/^$/d'; }
# Two new lines of this length: the program uses the new width. tmux tells it up to 0.25 s late, in which
# a fast model writes many lines of the old width.
lines_of() {
    before=$(all_lines | grep -cE "$1")
    tries=0
    until [ "$(all_lines | grep -cE "$1")" -ge $((before + 2)) ]; do
        tries=$((tries + 1))
        [ $tries -gt 1200 ] && { fail "no lines that match '$1':"; screen; return; }
        sleep 0.05
    done
}
type_line "Count from 1 to 9."
lines_of '^1, .{80,96}$'
$tmux resize-window -x 60 -y 40
lines_of '^1, .{45,56}$'
$tmux resize-window -x 130 -y 40
lines_of '^1, .{100,126}$'
key C-c
shows ' interrupted   [0-9 ]+ tokens   '
at_prompt
all_lines >"$work/shown"
type_line "/save $work/long.json"
shows '^saved as '
if command -v python3 >/dev/null; then
    python3 -c 'import json, sys
shown = open(sys.argv[1], encoding="utf-8").read().rsplit(">>> Count from 1 to 9.\n", 1)[1]
lines = shown.split("\n")
lines = lines[:next(i for i, line in enumerate(lines) if " interrupted   " in line)]
answer = json.load(open(sys.argv[2], encoding="utf-8"))
answer = (answer["messages"] if isinstance(answer, dict) else answer)[-1]["content"]
if " ".join(" ".join(lines).split()) != " ".join(answer.split()):
    sys.exit("the screen does not show the answer: %r, not %r" % (lines, answer))
if max(map(len, lines)) <= 100:
    sys.exit("the wider window is not used")' "$work/shown" "$work/long.json" || fail "the screen does not show the answer"
fi
key -l 'still here'
shows '^>>> still here$'
key C-c
at_prompt
type_line "/stats"
shows '^  finish   canceled'

# Input typed during an answer is not mixed into it and appears at the next prompt.
type_line "/clear"
shows '^new conversation'
type_line "/set max_tokens 600"
at_prompt
fresh
type_line "Count from 1 to 9."
shows '^1, 2, 3'
key -l 'in the meantime'
shows '^>>> in the meantime$'
shows_no '[0-9,] *in the meantime'
key C-c
at_prompt

# SIGTERM ends the chat in order.
pid=$($tmux list-panes -F '#{pane_pid}')
kill -TERM "$(ps -o pid= --ppid "$pid" | tr -d ' ')"
shows '^READY:'
type_line 'echo code $?'
shows '^code 143'

# MOTE_NOHISTORY=1 keeps no history.
rm -rf "$work/cache"
type_line "clear; MOTE_NOHISTORY=1 MOTE_MODEL=$model ./mote chat -t 1"
at_prompt
type_line "Hello!"
shows 't/s'
at_prompt
key C-d
shows '^READY:'
[ -e "$work/cache/mote/history" ] && fail "MOTE_NOHISTORY=1 keeps a history"

# One answer on a terminal: wrapped, no prompt after it; no colors with NO_COLOR.
type_line "clear; NO_COLOR=1 ./mote run $model --temp 0 -t 1 --think on 'Hello!'; echo code \$?"
shows '^▸ thought for'
shows '^Hello! How can I help you\?$'
shows '^code 0'
$tmux capture-pane -p -e | grep -q "$(printf '\033\\[2m')" && fail "NO_COLOR shows dim text"
finish
