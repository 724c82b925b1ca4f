# SPDX-License-Identifier: Apache-2.0
# talk_lib.sh - a real terminal (tmux) for tests of the chat; sourced after lib.sh. It runs a shell in $work,
# where ./mote is the program.
# shellcheck shell=sh disable=SC2154
command -v tmux >/dev/null || { echo "no tmux"; exit 77; }
unset MOTE_THINK MOTE_SPEC MOTE_NOHISTORY MOTE_CACHE
tmux="tmux -u -S $work/socket -f /dev/null"
$tmux start-server \; set-option -g history-limit 20000 \; new-session -d -x 100 -y 40 "env LC_ALL=C.UTF-8 HOME=$work XDG_CACHE_HOME=$work/cache PS1=READY: sh" || exit 77
trap '$tmux kill-server 2>/dev/null; rm -rf "$work"' EXIT
printf '#!/bin/sh\nexec "%s" "$@"\n' "$MOTE" >"$work/mote"
chmod +x "$work/mote"

screen() { $tmux capture-pane -p; }
key() { $tmux send-keys "$@"; }
type_line() { $tmux send-keys -l "$1" && $tmux send-keys Enter; }

# shows PATTERN: it appears on the screen within a minute.
shows() {
    tries=0
    until screen | grep -Eq -- "$1"; do
        tries=$((tries + 1))
        [ $tries -gt 600 ] && { fail "the screen never shows '$1':"; screen; return; }
        sleep 0.1
    done
}
shows_no() { screen | grep -Eq -- "$1" && { fail "the screen shows '$1':"; screen; }; }

# fresh: clears the screen and the line. Typed commands are on the screen too, so patterns for their
# output are anchored at the start of the line.
# Ctrl-C discards typed input that was not read yet, and a prompt on the screen may be an old one. The marker
# %% proves that all earlier input was read; a screen with only the prompt proves that it was cleared.
fresh() {
    key -l '%%'
    shows '%%'
    key C-c
    at_prompt
    key C-l
    shows_only '>>>'
}

shows_only() {
    tries=0
    until [ "$(screen | sed '/^$/d')" = "$1" ]; do
        tries=$((tries + 1))
        [ $tries -gt 600 ] && { fail "the screen shows more than '$1':"; screen; return; }
        sleep 0.1
    done
}

# at_prompt: waits until the last line that is not empty is the prompt.
at_prompt() {
    tries=0
    until [ "$(screen | sed '/^$/d' | tail -n 1)" = '>>>' ]; do
        tries=$((tries + 1))
        [ $tries -gt 600 ] && { fail "no prompt:"; screen; return; }
        sleep 0.1
    done
}

begin() {
    type_line "clear; ./mote run $model $*"
    shows '/help for help'
    at_prompt
}

shows READY
type_line "cd $work; clear"
shows '^READY:'
