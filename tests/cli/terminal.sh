#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Output on a real terminal (tmux): the progress line, Ctrl-C, escaped control characters.
. "$(dirname "$0")/lib.sh"
need_model
command -v tmux >/dev/null || { echo "no tmux"; exit 77; }
tmux="tmux -u -S $work/socket -f /dev/null"
$tmux new-session -d -x 100 -y 20 "env LC_ALL=C.UTF-8 PS1=READY: sh" || exit 77
trap '$tmux kill-server 2>/dev/null; rm -rf "$work"' EXIT

i=0
while [ $i -lt 400 ]; do
    echo "Once upon a time a fox came to the town and asked why."
    i=$((i + 1))
done >"$work/long"
printf '#!/bin/sh\nexec "%s" "$@"\n' "$MOTE" >"$work/mote"
chmod +x "$work/mote"

screen() { $tmux capture-pane -p; }
type_line() { $tmux send-keys -l "$1" && $tmux send-keys Enter; }

# shows PATTERN: it appears on the screen within a minute.
shows() {
    tries=0
    until screen | grep -Eq "$1"; do
        tries=$((tries + 1))
        [ $tries -gt 600 ] && { fail "the screen never shows '$1':"; screen; return; }
        sleep 0.1
    done
}

shows READY
slow="run $model --raw --isa ref -t 1 -f $work/long -n 3"
type_line "cd $work; clear"
shows '^READY:'

# The progress line appears, ends with Ctrl-C and is cleared.
type_line "clear; ./mote $slow"
shows 'prefill  [█░]{24}  [0-9 ]+ / [0-9 ]+ tokens   [0-9. ]+ t/s   .* left'
$tmux send-keys C-c
shows 'interrupted during prefill'
type_line 'echo code $?'
shows 'code 130'
screen | grep -q 'prefill  ' && fail "the progress line is still there"

# It is updated by time, not when a step of 512 tokens ends, also in a chat.
type_line "clear; ./mote run $model --isa ref -t 1 -f $work/long -n 3"
shows 'prefill  .* / 6 [0-9]+ tokens   [0-9. ]+ t/s   .* left'
now() { screen | sed -n 's/.*prefill  [█░]*  \([0-9 ]*\) \/ .*/\1/p' | tr -d ' '; }
first=$(now)
tries=0
until [ "$(now)" != "$first" ] || [ $tries -gt 600 ]; do tries=$((tries + 1)) && sleep 0.1; done
[ $((first % 512)) -ne 0 ] || [ $(($(now) % 512)) -ne 0 ] || fail "the progress moves in steps of 512: $first, $(now)"
$tmux send-keys C-c
shows ' interrupted during prefill'

# It uses ASCII without a UTF-8 locale, and has no bar on a narrow screen.
type_line "clear; LC_ALL=C ./mote $slow"
shows 'prefill  \[[#-]{24}\]  [0-9 ]+ / '
$tmux send-keys C-c
shows 'interrupted'
type_line "clear; COLUMNS=50 ./mote $slow"
shows '^prefill  [0-9 ]+ / [0-9 ]+ tokens   [0-9. ]+ t/s'
screen | grep -q '░' && fail "a bar on a narrow screen"
$tmux send-keys C-c
shows 'interrupted'

# No progress line with --no-progress or -q, on a dumb terminal, or if stderr is a file.
for quiet in "./mote $slow --no-progress" "./mote $slow -q" "TERM=dumb ./mote $slow" "./mote $slow 2>err"; do
    type_line "clear; $quiet"
    sleep 3
    screen | grep -q 'prefill  ' && fail "a progress line: $quiet"
    $tmux send-keys C-c
    sleep 0.2
    type_line 'echo code $?'
    shows 'code 130'
done
grep -q 'prefill  ' "$work/err" && fail "a progress line in a file"

# Control characters of a model are escaped.
type_line "clear; ./mote tokenize $model --decode $("$MOTE" tokenize "$model" "$(printf 'a\033[2Jb\rc\302\233d')")"
shows '^a\\x1b\[2Jb\\rc\\u009bd$'

# The progress line is cleared before the answer begins.
head -n 20 "$work/long" >"$work/short"
type_line "clear; ./mote run $model --raw --isa ref -t 1 -f $work/short -n 3"
shows 'prefill  '
shows '^prompt [0-9]+ tokens in .* answer [0-9]+ tokens?'
screen | grep -q 'prefill  ' && fail "the progress line is still shown after prefill"

# The answer and its statistics.
type_line "clear; ./mote run $model --raw -t 1 -n 4 'Once upon a time'; echo code \$?"
shows '^\. One'
shows '^prompt 5 tokens in .* answer 4 tokens in .*cut by --max-tokens'
shows '^code 0'
finish
