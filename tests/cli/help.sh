#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Help of the commands at three widths; mote help COMMAND and mote COMMAND --help are the same.
. "$(dirname "$0")/lib.sh"

call 0
stdout_is_file overview.txt
stderr_is ""
cp "$work/out" "$work/overview"
for way in help --help -h; do
    call 0 $way
    cmp -s "$work/out" "$work/overview" || fail "mote $way is not the overview"
done

for command in run tokenize show logits version help; do
    call 0 help $command
    stdout_is_file $command.80.txt
    stderr_is ""
    cp "$work/out" "$work/help"
    call 0 $command --help
    cmp -s "$work/out" "$work/help" || fail "mote $command --help is not mote help $command"
    call 0 $command -h --no-progress
    cmp -s "$work/out" "$work/help" || fail "mote $command -h is not mote help $command"
done

# All widths have the same words. No line is longer than the terminal, except a single word and the
# examples, which are not wrapped.
words() { tr -s ' \n' '\n\n' <"$1" | sort; }
call 0 help run
words "$work/out" >"$work/words"
for columns in 40 200; do
    COLUMNS=$columns
    export COLUMNS
    call 0 help run
    stdout_is_file run.$columns.txt
    words "$work/out" | cmp -s - "$work/words" || fail "the words differ at $columns columns"
    sed '/^Examples/,$d' "$work/out" >"$work/text"
    awk -v most=$columns 'length($0) > most && !/--/ { bad = 1 } END { exit bad }' "$work/text" ||
        fail "a line is longer than $columns columns"
done
unset COLUMNS

call 0 help run --color=always
grep -q "$(printf '\033\\[1mPrompt')" "$work/out" || fail "--color=always shows no bold heading"
NO_COLOR=1 CLICOLOR_FORCE=1 "$MOTE" help run >"$work/out"
grep -q "$(printf '\033')" "$work/out" && fail "NO_COLOR shows colours"
CLICOLOR_FORCE=1 "$MOTE" help run >"$work/out"
grep -q "$(printf '\033')" "$work/out" || fail "CLICOLOR_FORCE shows no colours"

call 0 help --json
json '{c["name"] for c in d["commands"]} >= {"run", "tokenize", "show", "logits", "version", "help"}'
json 'all(set(f) == {"name", "letter", "value", "default", "environment", "repeat", "group", "help"} for c in d["commands"] for f in c["flags"])'
json 'all(len({f["name"] for f in c["flags"]}) == len(c["flags"]) for c in d["commands"])'
json 'all(len([f["letter"] for f in c["flags"] if f["letter"]]) == len({f["letter"] for f in c["flags"] if f["letter"]}) for c in d["commands"])'
finish
