#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# mote compare against logits of mote logits, computed here in Python; a model and itself; limits; files that
# do not compare.
. "$(dirname "$0")/lib.sh"
need_model
text=$DATA/golden/quality/heldout.txt
other=$DATA/mote-tiny-Q8_0.gguf

call 0 compare "$other" "$model" "$text" --context 128 --limit 1 -t 1 --json
cp "$work/out" "$work/one.json"
json 'd["scored"] == 63 and d["a"]["model"] == "mote-tiny-q8_0" and d["b"]["kv"] == "f16"'
json '0 < d["kl_median"] < d["kl_mean"] < d["kl_p999"] == d["kl_max"] and 0.5 < d["same_top"] <= 1'
call 0 compare "$other" "$model" "$text" --context 128 --limit 1 -t 3 --json
cmp "$work/out" "$work/one.json" || fail "threads change the result"
call 0 compare "$model" "$other" "$text" --context 128 --limit 1 --json
json 'd["kl_mean"] != json.load(open("'"$work"'/one.json"))["kl_mean"]'
json 'd["a"]["nll"] == json.load(open("'"$work"'/one.json"))["b"]["nll"]'
call 0 perplexity "$model" "$text" --context 128 --limit 1 --json
json 'd["nll"] == json.load(open("'"$work"'/one.json"))["b"]["nll"]'

# A model and itself: no difference at all, and the limit 0 holds.
call 0 compare "$model" "$model" "$text" --context 128 --limit 1 --json --max-kl 0
json 'd["kl_mean"] == d["kl_max"] == d["kl_mean_error"] == 0 and d["same_top"] == 1 and d["perplexity_ratio"] == 1'
# --kv counts for both, --kv-a and --kv-b for one.
call 10 compare "$model" "$model" "$text" --context 128 --limit 1 --json --kv-b q4_0 --max-kl 0
json 'd["a"]["kv"] == "f16" and d["b"]["kv"] == "q4_0" and d["kl_mean"] > 0'
grep -q "more than --max-kl 0 " "$work/err" || fail "no reason: $(cat "$work/err")"
call 0 compare "$model" "$model" "$text" --context 128 --limit 1 --json --kv q8_0 --kv-a f16
json 'd["a"]["kv"] == "f16" and d["b"]["kv"] == "q8_0"'

if command -v python3 >/dev/null; then
    ids=$("$MOTE" tokenize "$model" - <"$text" | tr ', ' '\n\n' | grep . | head -n 128 | paste -sd, -)
    call 0 logits "$other" --ids "$ids" --all -q --out "$work/a"
    call 0 logits "$model" --ids "$ids" --all -q --out "$work/b"
    python3 - "$work" "$ids" <<'EOP' || fail "the values are not those of the logits"
import array, json, math, statistics, sys
work, ids = sys.argv[1], [int(x) for x in sys.argv[2].split(",")]
def rows(name):
    all_rows = array.array("f")
    all_rows.frombytes(open(f"{work}/{name}", "rb").read())
    for i in range(64, 127):
        row = all_rows[i * 8192:(i + 1) * 8192]
        most = max(row)
        z = most + math.log(math.fsum(math.exp(x - most) for x in row))
        yield i, [x - z for x in row]
kl, same, ratio = [], 0, []
for (i, p), (_, q) in zip(rows("a"), rows("b")):
    kl.append(math.fsum(math.exp(a) * (a - b) for a, b in zip(p, q)))
    same += p.index(max(p)) == q.index(max(q))
    ratio.append(p[ids[i + 1]] - q[ids[i + 1]])
near = lambda a, b: math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-13)
def error(values):
    return statistics.stdev(values) / math.sqrt(len(values))
d = json.load(open(f"{work}/one.json"))
assert near(d["kl_mean"], statistics.fmean(kl)) and near(d["kl_mean_error"], error(kl)), (d, statistics.fmean(kl))
assert near(d["kl_median"], sorted(kl)[31]) and near(d["kl_max"], max(kl))
assert near(d["same_top"], same / 63) and near(d["same_top_error"], math.sqrt(same / 63 * (1 - same / 63) / 62))
assert near(d["perplexity_ratio"], math.exp(statistics.fmean(ratio)))
assert near(d["perplexity_ratio_error"], math.exp(statistics.fmean(ratio)) * error(ratio))
EOP
fi

call 0 compare "$other" "$model" "$text" --context 128 --limit 1
[ "$(wc -l <"$work/out")" -eq 8 ] || fail "the table: $(cat "$work/out")"

call 1 compare "$model" "$DATA/shapes/r3-gqa4-untied.gguf" "$text"
grep -q "only models with the same tokenizer compare \[mismatch\]$" "$work/err" || fail "another tokenizer: $(cat "$work/err")"
call 2 compare "$model" "$model"
call 2 compare "$model" "$model" "$text" --kv-a q5
finish
