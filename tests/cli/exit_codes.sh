#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every exit code of mote, each by a real command. `mote help --man` has the table of their meanings.
. "$(dirname "$0")/lib.sh"
need_model
seen=" "

# code CODE ARGUMENTS...
code() {
    call "$@"
    seen="$seen$1 "
}

code 0 version
echo 'not a setting' >"$work/config"
MOTE_CONFIG=$work/config code 1 doctor -q # a problem
code 2 run --nosuchflag
code 3 run qwen3.5:4b hello
code 4 run "$model" --memory 64MB --context 262144 hello
MOTE_NO_NETWORK=1 code 5 pull qwen3.5:4b # there is no network
HF_ENDPOINT=https://127.0.0.1:1 MOTE_NO_NETWORK='' code 5 pull --retry-wait 0.001 qwen3.5:4b # nothing listens there
head -c 100000 "$model" >"$work/cut.gguf"
code 6 show "$work/cut.gguf"
code 7 ps --host "unix:$work/none"
python3 -c 'print("word " * 3000)' >"$work/long"
code 8 run "$model" --context 256 --file "$work/long"
code 9 run "$model" --seed 1 -n 2 --fail-on-length "Tell me a story."
code 10 run "$model" --seed 1 -n 2 --json-schema '{"type":"array","minItems":50,"items":{"type":"integer"}}' "Count."
MOTE_MODELS=$work/models
export MOTE_MODELS
mkdir "$MOTE_MODELS"
cp "$model" "$MOTE_MODELS/tiny.gguf"
code 11 rm tiny # not a file of the Hugging Face cache
code 12 doctor --report "$work/none/report"

# The manual lists these codes and no other; interrupt.sh shows 130 and 143.
"$MOTE" help --man | sed -n '/^\.Sh EXIT STATUS/,/^\.Sh [^E]/s/^\.It \([0-9]*\).*/\1/p' >"$work/listed"
seen="${seen}130 143 "
[ -s "$work/listed" ] || fail "the manual has no exit codes"
while read -r number; do
    case $seen in *" $number "*) ;; *) fail "no command shows exit code $number" ;; esac
done <"$work/listed"
for number in $seen; do
    grep -qx "$number" "$work/listed" || fail "the manual does not list exit code $number"
done
finish
