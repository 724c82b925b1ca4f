#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Signals: the first one ends a command in order, the second one at once.
. "$(dirname "$0")/lib.sh"
need_model
i=0
while [ $i -lt 400 ]; do
    echo "Once upon a time a fox came to the town and asked why."
    i=$((i + 1))
done >"$work/long"

# A shell starts background jobs with SIGINT ignored; env restores the default.
env --default-signal=INT true 2>/dev/null || { echo "env has no --default-signal"; exit 77; }

# Output of an earlier run must not be mistaken for that of this one.
start() {
    rm -f "$work/out" "$work/err"
    : >"$work/err"
    env --default-signal=INT "$MOTE" "$@" >"$work/out" 2>"$work/err" </dev/null &
    pid=$!
}

# until_true COMMAND...: waits for success, at most a minute.
until_true() {
    tries=0
    until "$@"; do
        tries=$((tries + 1))
        [ $tries -gt 600 ] && { fail "waited too long for: $*"; return; }
        kill -0 $pid 2>/dev/null || { fail "it ended before: $*: $(cat "$work/err")"; return; }
        sleep 0.1
    done
}

ended_with() {
    wait $pid 2>/dev/null
    code=$?
    [ $code -eq "$1" ] || fail "$2: exit code $code, not $1: $(cat "$work/err")"
}

# A negative frequency penalty makes an answer that never ends by itself.
answer_without_end() { start run "$model" --raw --isa ref -v -t 1 --frequency -2 -c 100000 -p Once "$@"; }

# During decode: the output is kept and the line is closed.
answer_without_end
until_true test -s "$work/out"
kill -INT $pid
ended_with 130 "Ctrl-C while answering"
[ "$(tail -c 1 "$work/out" | od -An -c | tr -d ' ')" = '\n' ] || fail "the line is not closed"
grep -q ' interrupted$' "$work/err" || fail "$(cat "$work/err")"

answer_without_end
until_true test -s "$work/out"
kill -TERM $pid
ended_with 143 "SIGTERM while answering"

# During prefill: ends after the running step.
for signal in INT:130 TERM:143; do
    start run "$model" --raw -v -t 1 --isa ref -f "$work/long"
    until_true grep -q "1 thread" "$work/err"
    kill -"${signal%:*}" $pid
    ended_with "${signal#*:}" "SIG${signal%:*} while reading"
    grep -Eq '^prompt [0-9 ]+ of 6 [0-9]+ tokens in [0-9.]+ s \([0-9. ]+ t/s\)   interrupted during prefill$' "$work/err" ||
        fail "$(cat "$work/err")"
    [ -s "$work/out" ] && fail "stdout is not empty"
done

# The JSON document is complete even if the answer is not.
answer_without_end --json
until_true grep -q "1 thread" "$work/err"
sleep 2
kill -INT $pid
ended_with 130 "Ctrl-C with --json"
[ -s "$work/out" ] && json 'd["finish"] == "interrupted" and d["mote"]["stop"] == "interrupt"'

# The same for an answer with a chat template.
chat_without_end() { start run "$model" -v -t 1 --temp 0 --frequency -0.8 --presence 0 --think off --no-loop-guard -p "Count from 1 to 9." "$@"; }
for signal in INT:130 TERM:143; do
    chat_without_end
    until_true test -s "$work/out"
    kill -"${signal%:*}" $pid
    ended_with "${signal#*:}" "SIG${signal%:*} in a conversation"
    [ "$(tail -c 1 "$work/out" | od -An -c | tr -d ' ')" = '\n' ] || fail "the line is not closed"
    grep -q ' interrupted$' "$work/err" || fail "$(cat "$work/err")"
done
# The time of the first output depends on the machine: the delay grows until there is some.
for seconds in 1 5 20; do
    chat_without_end --json
    until_true grep -q "1 thread" "$work/err"
    sleep $seconds
    kill -INT $pid
    ended_with 130 "Ctrl-C in a conversation with --json"
    grep -q '"content": *"1, 2, 3' "$work/out" && break
done
json 'd["finish"] == "interrupted" and d["mote"]["stop"] == "canceled" and d["content"].startswith("1, 2, 3")'
start run "$model" -v -t 1 --isa ref -f "$work/long"
until_true grep -q "1 thread" "$work/err"
kill -INT $pid
ended_with 130 "Ctrl-C while a conversation is read"
[ -s "$work/out" ] && fail "stdout is not empty"
# The speed counts the tokens that were prefilled until then, not the whole prompt.
grep -Eq '^prompt [0-9 ]+ of 6 [0-9]+ tokens in [0-9.]+ s \([0-9. ]+ t/s\)   interrupted during prefill$' "$work/err" ||
    fail "$(cat "$work/err")"
start run "$model" -v -t 1 --isa ref --json -f "$work/long"
until_true grep -q "1 thread" "$work/err"
sleep 0.3
kill -INT $pid
ended_with 130 "Ctrl-C while a conversation is read, with --json"
json 'd["timings"]["prompt_per_second"] * d["timings"]["prompt"] < d["usage"]["prompt_tokens"] / 2'

# A step of several passes ends after the running pass; an incomplete file is not created.
"$MOTE" tokenize "$model" <"$work/long" | cut -d , -f 1-4000 >"$work/ids"
read_much() {
    start logits "$model" -v -t 1 --isa ref --cut 4000 --ids "$(cat "$work/ids")" --out "$work/half.f32"
    until_true grep -q "1 thread" "$work/err"
    sleep 0.1
    kill -INT $pid
}
read_much
ended_with 130 "Ctrl-C in a long step"
[ -e "$work/half.f32" ] && fail "an incomplete file exists"

# The second Ctrl-C does not wait for the running pass, which takes seconds.
gone() { case $(ps -o stat= -p $pid) in '' | Z*) true ;; *) false ;; esac }
obeyed=no
for round in 1 2 3 4; do # the machine may stand still in one
    read_much
    sleep 0.2
    kill -INT $pid
    tries=0
    until gone || [ $tries -gt 20 ]; do
        tries=$((tries + 1))
        sleep 0.1
    done
    gone && obeyed=yes
    ended_with 130 "Ctrl-C twice"
    [ $obeyed = yes ] && break
done
[ $obeyed = yes ] || fail "the second Ctrl-C does not end the process at once"

# Making the texts of retrieval tasks takes minutes; it ends at the next text.
echo '{"id":"a","retrieval":{"tokens":100000,"depths":[0,0.5,1],"cases":1000}}' >"$work/many"
start eval "$model" "$work/many"
sleep 1
kill -INT $pid
tries=0
until gone || [ $tries -gt 200 ]; do
    tries=$((tries + 1))
    sleep 0.1
done
gone || { fail "Ctrl-C while texts are made has no effect"; kill -KILL $pid; }
ended_with 130 "Ctrl-C while texts are made"

# SIGINT stays ignored if the parent ignores it.
(
    trap '' INT
    : >"$work/ignoring"
    exec "$MOTE" run "$model" --raw --isa ref -q -t 1 --frequency -2 -p Once -n 60 >"$work/out" </dev/null
) &
pid=$!
until_true test -e "$work/ignoring"
kill -INT $pid
ended_with 0 "ignored SIGINT"
[ -s "$work/out" ] || fail "an ignored SIGINT ended the answer"
finish
