#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# mote eval on tasks that mote-tiny passes, all but one: summary, --min, results that continue after a crash, and
# files that are refused. evaluate_test.c has the checks one by one.
. "$(dirname "$0")/lib.sh"
need_model
tasks=$here/eval_tasks.jsonl

call 0 eval "$model" "$tasks" --out "$work/all" --json -t 1
json 'd["passed"] == 20 and d["tasks"] == 21 and abs(d["share"] - 20 / 21) < 1e-12 and d["model"] == "mote-tiny-q4_k_m"'
json '[(c["category"], c["passed"], c["tasks"]) for c in d["categories"]] == [("facts", 9, 9), ("conversation", 1, 1), ("json", 2, 2), ("tools", 2, 2), ("retrieval", 6, 6), ("wrong on purpose", 0, 1)]'
json 'abs(d["share_error"] - (20 / 21 * 1 / 21 / 20) ** 0.5) < 1e-12'
stderr_is ""
[ "$(wc -l <"$work/all")" -eq 22 ] || fail "--out has $(wc -l <"$work/all") lines"
if command -v python3 >/dev/null; then
    python3 - "$work/all" <<'EOP' || fail "the results"
import json, sys
head, *lines = [json.loads(line) for line in open(sys.argv[1])]
assert list(head) == ["eval", "model", "tasks", "think", "max_tokens", "context", "kv", "yarn", "numerics"], head
by_id = {d["id"]: d for d in lines}
assert by_id["tool-call"]["tool_calls"] == [{"name": "get_weather", "arguments": '{"city": "Haldon"}'}], by_id["tool-call"]
assert [d["id"] for d in lines if not d["pass"]] == ["wrong"]
made = [d for d in lines if d["category"] == "retrieval"]
assert [d["id"] for d in made] == [f"code/200/{x}/{i}" for x in ("0.00", "0.50", "1.00") for i in (1, 2)]
assert all(200 < d["prompt_tokens"] < 300 for d in made) and len({d["content"] for d in made}) == 6
EOP
fi

# A second run does nothing, and a run that was cut anywhere ends with the same bytes.
cp "$work/all" "$work/again"
call 0 eval "$model" "$tasks" --out "$work/again"
stderr_is "21 of 21 tasks were done before ($work/again)"
[ "$(tail -n 1 "$work/out" | tr -s ' ')" = "total 20 of 21 95.2 % ± 4.8 %" ] || fail "the table: $(cat "$work/out")"
cmp "$work/all" "$work/again" || fail "a second run changes the results"
for bytes in 0 10 300 1500; do
    head -c $bytes "$work/all" >"$work/cut"
    call 0 eval "$model" "$tasks" --out "$work/cut" -q -t 2
    cmp "$work/all" "$work/cut" || fail "the results after a cut at $bytes bytes differ"
done
rm -f "$work/killed"
timeout -s KILL 0.5 "$MOTE" eval "$model" "$tasks" --out "$work/killed" -q >"$work/out" 2>"$work/err"
call 0 eval "$model" "$tasks" --out "$work/killed" -q
cmp "$work/all" "$work/killed" || fail "the results after a kill differ"

# All parts of a split model count.
"$SPLIT" "$model" "$work/parts" 3 || fail "split"
call 0 eval "$work/parts-00001-of-00003.gguf" "$tasks" --limit 1 --out "$work/split" -q
cp "$work/split" "$work/split.before"
call 0 eval "$work/parts-00002-of-00003.gguf" "$tasks" --limit 1 --out "$work/split" -q
printf '\001' | dd of="$work/parts-00003-of-00003.gguf" bs=1 seek=$(($(wc -c <"$work/parts-00003-of-00003.gguf") - 1)) conv=notrunc 2>/dev/null
call 2 eval "$work/parts-00001-of-00003.gguf" "$tasks" --limit 1 --out "$work/split" -q
grep -q "model differs" "$work/err" || fail "another last part: $(cat "$work/err")"

# Only one run writes a file of results.
if command -v python3 >/dev/null; then
    python3 - "$MOTE" "$model" "$tasks" "$work/all" <<'EOP' || fail "the lock of --out"
import fcntl, subprocess, sys
mote, model, tasks, out = sys.argv[1:]
with open(out, "r+") as f:
    fcntl.lockf(f, fcntl.LOCK_EX)
    done = subprocess.run([mote, "eval", model, tasks, "--out", out], capture_output=True, text=True)
assert done.returncode == 11 and "another mote eval writes " in done.stderr, (done.returncode, done.stderr)
EOP
fi

# --limit and --min
call 0 eval "$model" "$tasks" --limit 9 --min 1
[ "$(tr -s ' ' <"$work/out")" = "facts 9 of 9 100.0 % ± 0.0 %" ] || fail "--limit: $(cat "$work/out")"
call 0 eval "$model" "$tasks" --out "$work/again" -q --min 0.95
call 10 eval "$model" "$tasks" --out "$work/again" -q --min 0.96
stderr_is "mote: 0.9524 of the tasks pass, less than --min 0.96 [below_limit]"

# Results of something else are refused, with what differs.
refused() {
    field=$1
    shift
    call 2 eval "$@" --out "$work/again"
    grep -q "has results of another run: $field differs; " "$work/err" || fail "$field: $(cat "$work/err")"
    cmp "$work/all" "$work/again" || fail "refused results are changed"
}
refused model "$DATA/mote-tiny-Q8_0.gguf" "$tasks"
head -n 3 "$tasks" >"$work/few"
refused tasks "$model" "$work/few"
refused kv "$model" "$tasks" --kv f32
refused think "$model" "$tasks" --think on
refused context "$model" "$tasks" --context 2048
refused max_tokens "$model" "$tasks" --max-tokens 99
for text in precious '{"eval":"mote","model":"x"}x' '{"a":1}'; do
    printf '%s' "$text" >"$work/other"
    cp "$work/other" "$work/before"
    call 2 eval "$model" "$tasks" --out "$work/other"
    grep -q "$work/other exists and is not a file of results; give another --out" "$work/err" || fail "$(cat "$work/err")"
    cmp "$work/before" "$work/other" || fail "a file without results is changed: $text"
    echo >>"$work/other"
    call 2 eval "$model" "$tasks" --out "$work/other"
done

# Mistakes in a task file name the line.
wrong() {
    printf '%s\n\n%s\n' "$(head -n 1 "$tasks")" "$2" >"$work/wrong"
    call "$3" eval "$model" "$work/wrong"
    grep -q "$work/wrong: line 3: .*$1" "$work/err" || fail "$2: $(cat "$work/err")"
}
wrong "is used twice" "$(head -n 1 "$tasks")" 2
wrong "either prompt" '{"id":"a","check":{"type":"exact","text":"b"}}' 2
wrong "check.type must be" '{"id":"a","prompt":"b"}' 2
wrong "unknown field promt" '{"id":"a","promt":"b","check":{"type":"exact","text":"b"}}' 2
wrong "id must be" '{"prompt":"b","check":{"type":"exact","text":"b"}}' 2
wrong "does not know the keyword oneOf" '{"id":"a","prompt":"b","check":{"type":"json_schema","schema":{"oneOf":[]}}}' 1
wrong "retrieval needs" '{"id":"a","retrieval":{"tokens":10,"depths":[0]}}' 2
wrong "a depth must be" '{"id":"a","retrieval":{"tokens":100,"depths":[2]}}' 2
for value in 0 -1 1.5 '"9"' 4294967297; do
    wrong "max_tokens must be 1 to" '{"id":"a","prompt":"b","max_tokens":'$value',"check":{"type":"exact","text":"b"}}' 2
done
wrong "system and category must be texts" '{"id":"a","prompt":"b","system":["c"],"check":{"type":"exact","text":"b"}}' 2
wrong "" '{"id":"a"' 6
: >"$work/empty"
call 2 eval "$model" "$work/empty"
call 1 eval "$model" "$work/absent"
call 12 eval "$model" "$tasks" --out "$work/absent/x" -q
# A text longer than the context.
call 8 eval "$model" "$tasks" --context 64 -q
grep -q "^mote: task tool-call: " "$work/err" || fail "a short context: $(cat "$work/err")"
finish
