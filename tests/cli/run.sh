#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# mote run --raw: repeatable answers, all sources of a prompt, all ends of an answer.
. "$(dirname "$0")/lib.sh"
need_model
prompt="Once upon a time"

# Two runs differ only in the timings, and in the drafts, which depend on them.
untimed() { sed 's/"timings":{[^}]*}/"timings":{}/; s/"spec":{[^}]*}/"spec":{}/' "$work/out"; }
call 0 run "$model" --raw "$prompt" -n 12 --json -t 1
stderr_is ""
untimed >"$work/first"
call 0 run "$model" --raw "$prompt" -n 12 --json -t 1
untimed | cmp - "$work/first" || fail "two runs differ"
json 'list(d) == ["model", "content", "finish", "ids", "usage", "timings", "mote"]'
json 'd["usage"] == {"prompt_tokens": 5, "completion_tokens": 12, "total_tokens": 17} and len(d["ids"]) == 12'
json 'd["finish"] == "length" and d["mote"]["stop"] == "max_tokens" and d["mote"]["threads"] == 1'
json 'all(d["timings"][k] >= 0 for k in ("load", "prompt", "answer", "first_token", "total", "prompt_per_second", "answer_per_second"))'
if command -v python3 >/dev/null; then
    python3 -c 'import json, sys
d = json.load(open(sys.argv[1]))
print(",".join(map(str, d["ids"])))
open(sys.argv[2], "w").write(d["content"])' "$work/out" "$work/content" >"$work/ids"
    "$MOTE" tokenize "$model" --decode "$(cat "$work/ids")" | cmp - "$work/content" ||
        fail "the ids do not decode to the text"
fi

# Drafts do not change the answer: greedy, sampled with penalties, ended by a stop string, by the context.
for how in "--temp 0" "--temp 0.8 --seed 3 --repeat-penalty 1.2" "--temp 0 --stop hat" "--temp 0 -c 40"; do
    # shellcheck disable=SC2086
    call 0 run "$model" --raw "$prompt" -n 80 --json -t 1 $how --spec off
    json 'd["mote"]["spec"] == {"drafted": 0, "accepted": 0}'
    untimed >"$work/first"
    for spec in 1 3 8 auto; do
        # shellcheck disable=SC2086
        call 0 run "$model" --raw "$prompt" -n 80 --json -t 1 $how --spec $spec
        untimed | cmp - "$work/first" || fail "--raw $how --spec $spec gives another answer"
        [ $spec = auto ] || json 'd["mote"]["spec"]["drafted"] >= max(1, d["mote"]["spec"]["accepted"])'
    done
done
call 0 run "$model" --raw "$prompt" -n 80 --json -t 1 --spec 3
json 'd["mote"]["spec"]["accepted"] > 20'
call 0 run "$model" --raw "$prompt" -n 80 -t 1 --spec 3
grep -q '^prompt .*   answer 80 tokens in .*   drafts [0-9]*/[0-9]*   cut by --max-tokens$' "$work/err" ||
    fail "report: $(cat "$work/err")"

# A seed gives the same sampled answer with any number of threads.
call 0 run "$model" --raw "$prompt" -n 8 --temp 1.5 --seed 7 -q -t 1
cp "$work/out" "$work/seven"
stderr_is ""
call 0 run "$model" --raw "$prompt" -n 8 --temp 1.5 --seed 7 -q -t 2
cmp "$work/out" "$work/seven" || fail "seed 7 gives two answers"
call 0 run "$model" --raw "$prompt" -n 8 --temp 1.5 --seed 8 -q -t 1
cmp -s "$work/out" "$work/seven" && fail "seed 8 gives the answer of seed 7"

# The prompt: arguments, -p, a pipe, a file, and a pipe after arguments.
call 0 run "$model" --raw -q -n 6 -t 1 "$prompt"
cp "$work/out" "$work/answer"
[ "$(wc -l <"$work/answer")" -eq 1 ] || fail "the answer does not end with one newline"
same_answer() { cmp "$work/out" "$work/answer" || fail "$1: another answer"; }
call 0 run "$model" --raw -q -n 6 -t 1 Once upon a time
same_answer words
call 0 run "$model" --raw -q -n 6 -t 1 -p "$prompt"
same_answer -p
echo "$prompt" | "$MOTE" run "$model" --raw -q -n 6 -t 1 >"$work/out"
same_answer pipe
echo "$prompt" >"$work/prompt"
call 0 run "$model" --raw -q -n 6 -t 1 -f "$work/prompt"
same_answer -f
call 0 run "$model" --raw -q -n 6 -t 1 "$(printf 'Read this.\n\nOnce upon a time')"
cp "$work/out" "$work/answer"
echo "$prompt" | "$MOTE" run "$model" --raw -q -n 6 -t 1 "Read this." >"$work/out"
same_answer "words and pipe"

# Ends: end token, stop string, --max-tokens, full context.
call 0 run "$model" --raw --special --json -t 1 "$(printf '<|im_start|>user\nHello!<|im_end|>\n<|im_start|>assistant\n')"
json 'd["finish"] == "stop" and d["mote"]["stop"] == "end_token" and 7938 not in d["ids"]'
call 0 run "$model" --raw -n 20 --stop "warm hat" --stop zzz --json -t 1 "$prompt"
json 'd["finish"] == "stop" and d["mote"]["stop"] == "stop_text" and d["content"] == ". One morning Paul lost a "'
call 0 run "$model" --raw -n 20 --stop "warm hat" -q -t 1 "$prompt"
stdout_is ". One morning Paul lost a "
call 0 run "$model" --raw -n 10 --stop "hat!" --json -t 1 "$prompt" # held back, and then not needed
json 'd["finish"] == "length" and d["content"] == ". One morning Paul lost a warm hat"'
call 9 run "$model" --raw -n 2 --fail-on-length -q -t 1 "$prompt"
call 9 run "$model" --raw -c 8 --fail-on-length --json -t 1 "$prompt"
json 'd["finish"] == "length" and d["mote"]["stop"] == "context" and d["usage"]["completion_tokens"] == 4'

# Messages on stderr: speed, a hint, details; none with -q.
call 0 run "$model" --raw -n 2 -t 1 "$prompt"
grep -Eq '^prompt 5 tokens in [0-9.]+ s \([0-9 .]+ t/s\)   answer 2 tokens in [0-9.]+ s \([0-9 .]+ t/s\)   cut by --max-tokens$' "$work/err" || fail "$(cat "$work/err")"
call 0 run "$model" --raw -n 1 -t 1 "<|im_start|>"
grep -q 'contains control tokens' "$work/err" || fail "no hint about --special"
call 0 run "$model" --raw -n 1 -t 1 --isa ref -v "$prompt"
grep -q '^mote-tiny   ref, 1 thread   context 4 096' "$work/err" || fail "-v prints no details"

# The environment is the default of a flag.
MOTE_ISA=ref MOTE_THREADS=1 MOTE_CONTEXT=100 "$MOTE" run "$model" --raw --json -n 1 -c 50 "$prompt" >"$work/out" </dev/null
json 'd["mote"]["isa"] == "ref" and d["mote"]["threads"] == 1 and d["mote"]["context"] == 50'

# A closed pipe is not an error.
{ "$MOTE" run "$model" --raw -n 2000 -q -t 1 "$prompt"; echo $? >"$work/code"; } | head -c 1 >"$work/out"
[ "$(cat "$work/code")" = 0 ] || fail "exit code of a closed pipe: $(cat "$work/code")"
finish
