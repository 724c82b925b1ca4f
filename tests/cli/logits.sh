#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Logits are bit-identical for all chunk sizes, threads and instruction sets.
. "$(dirname "$0")/lib.sh"
need_model
ids=39,4638,11,1814,13,3648,6353,6683,5384,264,288,2109,304,266

# write NAME FLAGS...
write() {
    name=$1
    shift
    call 0 logits "$model" --ids "$ids" -q --out "$work/$name" "$@"
    stdout_is ""
    stderr_is ""
}
write whole --all -t 1
[ "$(wc -c <"$work/whole")" -eq $((14 * 8192 * 4)) ] || fail "--all does not write 14 rows of 8192 float32"
write cut1 --all --cut 1 -t 1
write cut7 --all --cut 7 -t 2
write ref --all --isa ref -t 1
for name in cut1 cut7 ref; do
    cmp "$work/whole" "$work/$name" || fail "$name differs"
done
write f32 --all --kv f32 -t 1
cmp -s "$work/whole" "$work/f32" && fail "--kv f32 changes nothing"
write q8_0 --all --kv q8_0
cmp -s "$work/whole" "$work/q8_0" && fail "--kv q8_0 changes nothing"
write q4_0 --all --kv q4_0
cmp -s "$work/q8_0" "$work/q4_0" && fail "--kv q4_0 is --kv q8_0"
write yarn --all --yarn 4 -t 1
cmp -s "$work/whole" "$work/yarn" && fail "--yarn 4 changes nothing"

# Without --all only the last row is written; a pipe gets the same bytes.
write last -t 1
tail -c $((8192 * 4)) "$work/whole" | cmp - "$work/last" || fail "the output is not the last row of --all"
"$MOTE" logits "$model" --ids "$ids" -t 1 --out - >"$work/piped" || fail "--out -"
cmp "$work/piped" "$work/last" || fail "--out - differs"

# A named pipe is written in place: only regular files are replaced.
mkfifo "$work/fifo"
cat "$work/fifo" >"$work/piped" &
call 0 logits "$model" --ids "$ids" -q -t 1 --out "$work/fifo"
if [ -p "$work/fifo" ]; then
    wait
    cmp "$work/piped" "$work/last" || fail "the output of the fifo differs"
else
    kill $!
    fail "--out replaced a fifo"
fi
call 0 logits "$model" --ids 1 --out "$work/note"
stderr_is "1 row of 8192 float32 in $work/note"

# --text and --ids give the same result; the table and the JSON document agree.
call 0 logits "$model" --text "Once upon a" --top 3 -t 1
cp "$work/out" "$work/table"
[ "$(wc -l <"$work/table")" -eq 4 ] || fail "--top 3 is not a heading and 3 lines"
call 0 logits "$model" --ids "$("$MOTE" tokenize "$model" "Once upon a")" --top 3 -t 1
cmp "$work/table" "$work/out" || fail "--ids and --text differ"
call 0 logits "$model" --text "Once upon a" --top 3 -t 1 --json --out "$work/f"
json 'list(d) == ["tokens", "rows", "vocabulary", "out", "top"] and d["rows"] == 1 and len(d["top"]) == 3'
json 'd["top"][0]["logit"] >= d["top"][1]["logit"] >= d["top"][2]["logit"]'
if command -v python3 >/dev/null; then
    python3 - "$work/f" "$work/out" <<'EOF' || fail "--json and the file differ"
import json, struct, sys
row = struct.unpack("<8192f", open(sys.argv[1], "rb").read())
for entry in json.load(open(sys.argv[2]))["top"]:
    assert struct.pack("<f", entry["logit"]) == struct.pack("<f", row[entry["id"]])
assert json.load(open(sys.argv[2]))["top"][0]["id"] == row.index(max(row))
EOF
fi
# A full disk has its own exit code, and no partial file is left.
(trap '' XFSZ && ulimit -f 8 && call 12 logits "$model" --ids 1,2,3 --all --out "$work/large" && [ $failures -eq 0 ]) ||
    fail "full disk: $(cat "$work/err")"
ls "$work" | grep -q '^large' && fail "a partial file is left: $(ls "$work")"
finish
