#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# mote bench --json: the report says what was measured, where and when; bench/charts reads it.
. "$(dirname "$0")/lib.sh"
need_model

call 0 bench "$model" -p 8 -d 0,16 -b 2 --verify 3 -n 2 -r 1 --json -q
json 'd["model"] == "mote-tiny" and d["quantization"] == "Q4_K_M" and d["file_bytes"] == 8945472'
json 'isinstance(d["cpu"], str) and len(d["date"]) == 10 and d["version"] and d["isa"] and d["threads"] >= 1'
json '[(r["test"], r["size"]) for r in d["results"]] == [("prefill", 8), ("decode", 0), ("decode", 16), ("streams", 2), ("verify", 3), ("first_token", 0)]'
json 'all(r["best_seconds"] > 0 for r in d["results"])'

call 0 bench "$model" -p 8 -d 0 -b 0 -n 2 -r 1 --md -q
grep -q '^| prefill 8 ' "$work/out" || fail "Markdown table"

# Imposed acceptance: all or none of the draft tokens. A draft ends before a multiple of 32.
call 0 bench "$model" -p 0 -d 0 -b 0 --spec 1,3 --accept 1 --spec-streams 1,2 -n 8 -r 2 --json -q
json '[(r["streams"], r["drafts"]) for r in d["speculative"]["results"]] == [(1, 0), (1, 1), (1, 3), (2, 0), (2, 1), (2, 3)]'
json 'all(r["accepted"] == r["drafted"] and r["tokens"] == 8 * r["streams"] + r["accepted"] for r in d["speculative"]["results"])'
json '[r["drafted"] for r in d["speculative"]["results"]] == [0, 8, 23, 0, 16, 46]'
json 'all(r["verify_seconds"] > 0 and r["sample_seconds"] > 0 and r["of_plain"] > 0 for r in d["speculative"]["results"])'
json 'd["speculative"]["draft_head"] and all(r["draft_seconds"] > 0 for r in d["speculative"]["results"] if r["drafts"])'
json '[r["streams"] for r in d["speculative"]["results"] if "block_seconds" in r] == [1, 2]'
call 0 bench "$model" -p 0 -d 0 -b 0 --spec 4 --accept 1,0 --spec-streams 1 -n 8 -r 1 -q
grep -q "acceptance 1,0 imposed" "$work/out" || fail "speculative table"
call 0 bench "$model" -p 0 -d 0 -b 0 --spec 4 --accept 1,0 --spec-streams 1 -n 8 -r 1 --json -q
json 'all(r["accepted"] == (8 if r["drafts"] else 0) for r in d["speculative"]["results"])'
# A draft ends before the next multiple of 32: with 8 drafts from position 8 on, 8, 8 and 4, and then 8, 8, 8 and 4.
call 0 bench "$model" -p 0 -d 0 -b 0 --spec 8 --accept 1 --spec-streams 1 -n 7 -r 1 --json -q
json 'd["speculative"]["results"][1]["drafted"] == 8 + 8 + 4 + 8 + 8 + 8 + 4'
# The oracle keeps to the rates.
call 0 bench "$model" -p 0 -d 0 -b 0 --spec 1 --accept 0.7 --spec-streams 1,4 -n 40 -r 1 --json -q
json 'all(abs(r["accepted"] - 0.7 * r["drafted"]) <= r["streams"] for r in d["speculative"]["results"])'
# An answer that repeats its prompt, token by token as given.
{ seq 1 60; echo "%%"; seq 1 60; } > "$work/text"
call 0 bench "$model" -p 0 -d 0 -b 0 --replay "$work/text" -r 2 --json -q
json 'd["replay"]["tokens"] > 100 and 0 < d["replay"]["steps"] <= d["replay"]["tokens"]'
json 'd["replay"]["accepted"] <= d["replay"]["drafted"] and d["replay"]["steps"] + d["replay"]["accepted"] == d["replay"]["tokens"]'
seq 1 60 > "$work/text"
call 2 bench "$model" -p 0 -d 0 -b 0 --replay "$work/text"
grep -q 'a line "%%" and an answer' "$work/err" || fail "no mark: $(cat "$work/err")"
call 2 bench "$model" --spec 9
grep -q "1 to 8 draft tokens, got 9" "$work/err" || fail "spec 9: $(cat "$work/err")"
call 2 bench "$model" --spec 2 --accept 1.5
grep -q "1 to 8 numbers from 0 to 1" "$work/err" || fail "accept 1.5: $(cat "$work/err")"

call 2 bench "$model" -p 0 -d 0 -b 0 --verify 513 -q
grep -q "at most 512" "$work/err" || fail "verify 513: $(cat "$work/err")"
call 2 bench "$model" -p 8,x
grep -q "prompt must be 1 to 16 whole numbers from 0 to .* such as 128,512, got '8,x'" "$work/err" || fail "bad list"
finish
