#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# mote perplexity against logits of mote logits: the same windows, computed here in Python. The result
# does not depend on threads and instruction set.
. "$(dirname "$0")/lib.sh"
need_model
text=$DATA/golden/quality/heldout.txt

call 0 perplexity "$model" "$text" --context 128 --limit 2 -t 1 --json
cp "$work/out" "$work/one.json"
json 'd["context"] == 128 and d["windows"] == 2 and d["scored"] == 2 * 63 and d["kv"] == "f16" and d["tokens"] == 15999'
for flags in "-t 2" "-t 3" "--isa ref"; do
    # shellcheck disable=SC2086
    call 0 perplexity "$model" "$text" --context 128 --limit 2 --json $flags
    cmp "$work/out" "$work/one.json" || fail "$flags changes the result"
done
call 0 perplexity "$model" "$text" --context 128 --limit 2 --json --kv q4_0
cmp -s "$work/out" "$work/one.json" && fail "--kv q4_0 changes nothing"
"$MOTE" perplexity "$model" - --context 128 --limit 2 -t 1 --json <"$text" | sed 's/"text":"[^"]*"/X/' >"$work/stdin"
sed 's/"text":"[^"]*"/X/' "$work/one.json" | cmp - "$work/stdin" || fail "stdin and a file differ"

# An odd window: the tokens 64 to 125 of 127 predict 65 to 126.
call 0 perplexity "$model" "$text" --context 127 --limit 1 --json
json 'd["scored"] == 63'

if command -v python3 >/dev/null; then
    "$MOTE" tokenize "$model" - <"$text" | tr ', ' '\n\n' | grep . | head -n 256 >"$work/ids"
    for window in 0 1; do
        ids=$(tail -n +$((window * 128 + 1)) "$work/ids" | head -n 128 | paste -sd, -)
        call 0 logits "$model" --ids "$ids" --all -q --out "$work/logits$window"
    done
    python3 - "$work" <<'EOP' || fail "the values are not those of the logits"
import array, json, math, sys
work = sys.argv[1]
ids = [int(x) for x in open(f"{work}/ids")]
nll = []
for window in range(2):
    rows = array.array("f")
    rows.frombytes(open(f"{work}/logits{window}", "rb").read())
    for i in range(64, 127):
        row = rows[i * 8192:(i + 1) * 8192]
        most = max(row)
        nll.append(most + math.log(math.fsum(math.exp(x - most) for x in row)) - row[ids[window * 128 + i + 1]])
mean = math.fsum(nll) / len(nll)
error = math.sqrt(math.fsum((x - mean) ** 2 for x in nll) / (len(nll) - 1) / len(nll))
d = json.load(open(f"{work}/one.json"))
assert math.isclose(d["nll"], mean, rel_tol=1e-12), (d, mean)
assert math.isclose(d["nll_error"], error, rel_tol=1e-10), (d, error)
assert math.isclose(d["perplexity"], math.exp(mean), rel_tol=1e-12)
assert math.isclose(d["perplexity_error"], math.exp(mean) * error, rel_tol=1e-10)
EOP
fi

call 0 perplexity "$model" "$text" --context 128 --limit 2
[ "$(cut -d' ' -f1 "$work/out" | paste -sd' ' -)" = "text scored nll perplexity" ] || fail "the table: $(cat "$work/out")"
grep -q "in 2 windows of 128$" "$work/out" || fail "no windows: $(cat "$work/out")"

printf 'Once upon a time' >"$work/short"
call 2 perplexity "$model" "$work/short"
grep -q "the text has [0-9]* tokens and a window 512" "$work/err" || fail "a short text: $(cat "$work/err")"
call 2 perplexity "$model" "$text" --context 3
call 2 perplexity "$model"
call 1 perplexity "$model" "$work/absent"
call 3 perplexity "$work/absent.gguf" "$text"
finish
