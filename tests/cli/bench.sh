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

call 2 bench "$model" -p 0 -d 0 -b 0 --verify 513 -q
grep -q "at most 512" "$work/err" || fail "verify 513: $(cat "$work/err")"
call 2 bench "$model" -p 8,x
grep -q "prompt must be 1 to 16 whole numbers from 0 to .* such as 128,512, got '8,x'" "$work/err" || fail "bad list"
finish
