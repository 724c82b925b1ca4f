#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# `mote ps` and `mote top` with a real server: tables, JSON, exit codes, and the live screen in tmux.
. "$(dirname "$0")/lib.sh"
need_model
unset MOTE_HOST MOTE_API_KEY
"$MOTE" help serve | grep -q -- --listen || { echo "built without the service"; exit 77; }

# Nobody there, and things that are no addresses.
call 7 ps --host "unix:$work/none"
grep -q 'no server answers' "$work/err" || fail "it does not say that there is no server"
call 7 ps --health --host "unix:$work/none"
call 7 top --host "unix:$work/none"
call 2 ps --host 'a:b:c'

MOTE_API_KEY=secret-of-the-test "$MOTE" serve "$model" --listen "unix:$work/socket" --threads 1 \
    --log off 2>"$work/server.log" &
server=$!
tmux="tmux -u -S $work/tmux -f /dev/null"
trap 'kill $server 2>/dev/null; $tmux kill-server 2>/dev/null; rm -rf "$work"' EXIT
tries=0
until "$MOTE" ps --health --host "unix:$work/socket" 2>/dev/null; do
    tries=$((tries + 1))
    [ $tries -gt 600 ] && { cat "$work/server.log"; echo "the server does not start"; exit 1; }
    sleep 0.1
done

call 11 ps --host "unix:$work/socket"
grep -q 'wants a key' "$work/err" || fail "it does not say that a key is wanted"
echo secret-of-the-test >"$work/key"
MOTE_HOST=unix:$work/socket
export MOTE_HOST
call 0 ps --mem --api-key-file "$work/key"
grep -Eq '^mote-tiny-q4_k_m +[0-9.]+ MB +100% CPU +[0-9]+ +0 of 8, 0 waiting' "$work/out" ||
    fail "the table: $(cat "$work/out")"
grep -q '^NAME .*  SEES  UNTIL$' "$work/out" && grep -q '0 waiting  *yes  *stopped$' "$work/out" ||
    fail "it does not say that the model sees: $(cat "$work/out")"
grep -Eq '^  weights +[0-9.]+ MB$' "$work/out" || fail "no weights: $(cat "$work/out")"
MOTE_API_KEY=secret-of-the-test
export MOTE_API_KEY
call 0 ps --json
json 'd["model"] == "mote-tiny-q4_k_m" and d["memory"]["weights"] > 10**6 and d["streams"] == []'
call 0 top -n 2 -d 0.1
[ "$(wc -l <"$work/out")" -eq 2 ] || fail "top into a file is not a line for each reading"
head -n 1 "$work/out" >"$work/one" && mv "$work/one" "$work/out"
json 'd["parallel"] == 8'

# The screen: an answer that takes a while appears, keys work, the terminal is left as it was.
command -v tmux >/dev/null && command -v curl >/dev/null || finish
$tmux new-session -d -x 110 -y 30 "env LC_ALL=C.UTF-8 PS1=READY: sh" || finish
screen() { $tmux capture-pane -p; }
sees() {
    tries=0
    until screen | grep -Eq "$1"; do
        tries=$((tries + 1))
        [ $tries -gt 600 ] && { fail "the screen never shows '$1':"; screen; return; }
        sleep 0.1
    done
}
sees READY
$tmux send-keys -l "$MOTE top -d 0.2" && $tmux send-keys Enter
sees 'mote 0.1.0  mote-tiny-q4_k_m'
sees 'answers  [█░]{24}  0 of 8: 0 writing'
sees '^pictures 0 looked at'
curl -sN --unix-socket "$work/socket" -H "Authorization: Bearer $MOTE_API_KEY" \
    -H 'Content-Type: application/json' -o "$work/answer" \
    -d '{"model":"x","stream":true,"ignore_eos":true,"max_tokens":30000,"messages":[{"role":"user","content":"Tell me a story."}]}' \
    http://localhost/v1/chat/completions &
curl=$!
sees 'req_[0-9a-f]{10} +[a-z]+ +writing .* [0-9.]+$'
sees '1 of 8: 1 writing'
$tmux send-keys s
sees 'sort \(by written\)'
$tmux send-keys p
sees PAUSED
$tmux send-keys p
kill $curl
sees '1 cancelled'
$tmux send-keys q
sees '^READY:'
screen | grep -q 'answers  ' && fail "the screen was not given back"
$tmux send-keys -l "echo typed" && $tmux send-keys Enter
sees '^typed'
sees 'echo typed'
finish
