#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# `mote ps`, `top`, `why` and `stop` with a real server, and `env` without one: tables, JSON, exit codes, and the live screen in tmux.
. "$(dirname "$0")/lib.sh"
need_model
unset MOTE_HOST MOTE_API_KEY
export XDG_RUNTIME_DIR="$work"
"$MOTE" help serve | grep -q -- --listen || { echo "built without the server"; exit 77; }

# No server, and invalid addresses.
call 7 ps --host "unix:$work/none"
grep -q 'no server at' "$work/err" || fail "no message about the missing server"
call 7 ps --health --host "unix:$work/none"
call 7 top --host "unix:$work/none"
call 2 ps --host 'a:b:c'

# Control characters in a reply are escaped.
python3 - "$work/liar" <<'PYTHON' &
import os, re, socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1] + ".new")
listener.listen(1)
os.rename(sys.argv[1] + ".new", sys.argv[1])
client, _ = listener.accept()
asked = b""  # the whole request: closing earlier would reset the connection
while not (head := re.match(rb"(?s).*?\ncontent-length: (\d+).*?\r\n\r\n", asked, re.I)) or \
        len(asked) < head.end() + int(head[1]):
    asked += client.recv(4096)
body = br'{"error": {"message": "\u001b[31mred", "code": "\u001b]0;title"}}'
client.sendall(b"HTTP/1.1 409 Conflict\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
PYTHON
tries=0
until [ -S "$work/liar" ] || [ $tries -gt 600 ]; do tries=$((tries + 1)) && sleep 0.1; done
call 1 stop x --host "unix:$work/liar"
stderr_is 'mote: server: \x1b[31mred [\x1b]0;title]'

# Too few file descriptors are reported as such.
for n in 6 7 8 9 10 11 12 64; do
    (ulimit -n $n && exec "$MOTE" serve "$model" --listen "unix:$work/none") 2>"$work/err"
    code=$?
    [ $code -eq 1 ] || [ $code -eq 2 ] || fail "a server with $n descriptors: $code, $(cat "$work/err")"
done
grep -q 'raise `ulimit -n`' "$work/err" || fail "no message about descriptors: $(cat "$work/err")"

# mote env: the output is valid for shells and for the clients.
call 2 env
call 2 env clod
grep -q 'claude, codex' "$work/err" || fail "the supported clients are not listed: $(cat "$work/err")"
call 2 env openai --host unix:/run/mote.sock
call 0 env openai
stdout_is "export OPENAI_BASE_URL='http://127.0.0.1:11435/v1'
export OPENAI_API_KEY='mote'"
call 0 env ollama --host '[::1]:9' --shell powershell
stdout_is "\$env:OLLAMA_HOST = 'http://[::1]:9'
\$env:OLLAMA_API_KEY = 'mote'"
call 0 env anthropic --host 0.0.0.0:80 --json
json 'd == {"client": "anthropic", "place": None, "variables": {"ANTHROPIC_BASE_URL": "http://127.0.0.1:80", "ANTHROPIC_API_KEY": "mote"}}'
call 0 env claude
grep -q MODEL "$work/out" && fail "a model without --model: $(cat "$work/out")"
echo "it's\"\\" >"$work/key"
call 0 env claude --model "a'b" --api-key-file "$work/key"
[ "$(sh -c '. "$1" && echo "$ANTHROPIC_MODEL $ANTHROPIC_AUTH_TOKEN"' - "$work/out")" = "a'b it's\"\\" ] ||
    fail "the shell reads other values: $(cat "$work/out")"
call 0 env claude --model "a'b" --shell fish
grep -qF "set -gx ANTHROPIC_MODEL 'a\'b'" "$work/out" || fail "for fish: $(cat "$work/out")"
call 0 env opencode --api-key-file "$work/key"
json 'd["provider"]["mote"]["options"] == {"baseURL": "http://127.0.0.1:11435/v1", "apiKey": "it'"'"'s\"\\"}'
call 0 env codex
grep -qE "env_key|MOTE_API_KEY" "$work/out" "$work/err" && fail "a key although none is set: $(cat "$work/out" "$work/err")"
grep -q 'codex/config.toml' "$work/err" || fail "the place is not printed: $(cat "$work/err")"
call 0 env codex --api-key-file "$work/key"
grep -q '^env_key = "MOTE_API_KEY"$' "$work/out" || fail "the key is missing: $(cat "$work/out")"
call 0 env cline --model m
grep -q '^Model ID: m$' "$work/out" || fail "for Cline: $(cat "$work/out")"
call 0 env continue
call 0 env openwebui
stderr_is ""

# Coding clients: the context they need, in their settings and in the command for the server.
call 0 env claude
grep -q "^export CLAUDE_CODE_AUTO_COMPACT_WINDOW='65536'$" "$work/out" || fail "no context: $(cat "$work/out")"
stderr_is "claude sends about 21 000 tokens before the first message and needs a context of 65 536 or more:
  mote serve --context 65536 --kv-tokens 98304"
call 0 env codex --host '[::1]:80'
grep -q '^model_context_window = 65536$' "$work/out" || fail "no context: $(cat "$work/out")"
grep -q '^  mote serve --context 65536 --kv-tokens 98304 --listen \[::1\]:80$' "$work/err" || fail "$(cat "$work/err")"
call 0 env opencode
json 'd["provider"]["mote"]["models"]["default"]["limit"]["context"] == 65536'
call 0 env opencode --json
json 'd["context"] == 65536 and d["serve"].startswith("mote serve --context 65536 ")'

# A key file that other users can write gives a warning.
: >"$work/keys" && chmod 666 "$work/keys"
call 2 serve "$model" --api-key-file "$work/keys"
grep -q 'other users can write to .*chmod go-w' "$work/err" || fail "no warning: $(cat "$work/err")"
chmod 600 "$work/keys"
call 2 serve "$model" --api-key-file "$work/keys"
grep -q 'other users can write' "$work/err" && fail "a warning without reason: $(cat "$work/err")"

printf 'secret-of-the-test infer,metrics,admin\nweak-key-of-the-test infer\n' >"$work/keys"
# --listen replaces MOTE_HOST.
MOTE_HOST=unix:$work/unwanted "$MOTE" serve "$model" --listen "unix:$work/socket" --threads 1 --api-key-file "$work/keys" --log off 2>"$work/server.log" &
server=$!
tmux="tmux -u -S $work/tmux -f /dev/null"
trap 'kill $server 2>/dev/null; $tmux kill-server 2>/dev/null; rm -rf "$work"' EXIT
tries=0
until "$MOTE" ps --health --host "unix:$work/socket" 2>/dev/null; do
    tries=$((tries + 1))
    [ $tries -gt 600 ] && { cat "$work/server.log"; echo "the server does not start"; exit 1; }
    sleep 0.1
done

[ -e "$work/unwanted" ] && fail "the server listens on MOTE_HOST although --listen is given: $(cat "$work/server.log")"
call 11 ps --host "unix:$work/socket"
grep -q 'requires an API key' "$work/err" || fail "no message about the missing key"
echo weak-key-of-the-test >"$work/key"
call 11 stop --api-key-file "$work/key" --host "unix:$work/socket"
grep -q 'lacks the scope admin \[scope_missing\]$' "$work/err" || fail "the scope is not named: $(cat "$work/err")"
echo secret-of-the-test >"$work/key"
MOTE_HOST=unix:$work/socket
export MOTE_HOST
call 0 ps --mem --api-key-file "$work/key"
grep -Eq '^mote-tiny-q4_k_m +[0-9.]+ MB +100% CPU +[0-9]+ +0 of 8, 0 queued' "$work/out" ||
    fail "the table: $(cat "$work/out")"
grep -q '^NAME .*  VISION  UNTIL$' "$work/out" && grep -q '0 queued  *yes  *forever$' "$work/out" ||
    fail "the vision column: $(cat "$work/out")"
grep -Eq '^  weights +[0-9.]+ MB$' "$work/out" || fail "no weights: $(cat "$work/out")"
MOTE_API_KEY=secret-of-the-test
export MOTE_API_KEY
call 0 ps --json
json 'd["model"] == "mote-tiny-q4_k_m" and d["memory"]["weights"] > 10**6 and d["streams"] == []'
call 0 top -n 2 -d 0.1
[ "$(wc -l <"$work/out")" -eq 2 ] || fail "top does not write one line per sample into a file"
head -n 1 "$work/out" >"$work/one" && mv "$work/one" "$work/out"
json 'd["parallel"] == 8'

# Unloading by name, all models, an unknown model.
call 3 stop mote-tiny-q8_0
grep -q "model 'mote-tiny-q8_0' not found" "$work/err" || fail "an unknown model: $(cat "$work/err")"
call 0 stop Mote-Tiny
stdout_is "mote-tiny-q4_k_m  unloaded"
call 0 ps
grep -q 'unloaded$' "$work/out" || fail "not unloaded: $(cat "$work/out")"
call 0 stop --json
json 'd == {"unloaded": ["mote-tiny-q4_k_m"]}'

# mote why: the first difference to an earlier prompt.
call 2 why 'req_1/../x'
call 1 why req_0
grep -q 'no stored report for this request id \[not_found\]$' "$work/err" || fail "an unknown id: $(cat "$work/err")"
ask() {
    curl -s --unix-socket "$work/socket" -H "Authorization: Bearer $MOTE_API_KEY" -H 'Content-Type: application/json' \
        -d '{"max_tokens":1,"messages":[{"role":"system","content":"'"$owls"'"},{"role":"user","content":"'"$1"'"}]}' \
        -o "$work/answer" http://localhost/v1/chat/completions
}
if command -v curl >/dev/null; then
    call 1 why
    grep -q 'no request has been answered yet' "$work/err" || fail "before any request: $(cat "$work/err")"
    owls='' && ask 'Hi.' && call 0 why
    grep -q 'a conversation of fewer than 64 tokens is not kept' "$work/out" || fail "a short prompt: $(cat "$work/out")"
    owls=$(printf 'owl %.0s' $(seq 100))
    ducks=$(printf 'duck %.0s' $(seq 100))
    ask "$ducks red\\n$ducks"
    call 0 why
    grep -Eq '^req_[0-9a-f]{24}  mote-tiny-q4_k_m$' "$work/out" || fail "no head: $(cat "$work/out")"
    grep -Eq '^  reused   0 of [0-9]+ tokens \(0 %\)$' "$work/out" || fail "nothing is reused: $(cat "$work/out")"
    grep -q '^  no prompt of this API key was cached' "$work/out" || fail "the empty cache: $(cat "$work/out")"
    grep -q 'first difference' "$work/out" && fail "a difference without an earlier prompt: $(cat "$work/out")"
    ask "$ducks blue $ducks"
    call 0 why
    grep -Eq '^  reused   [0-9]+ of [0-9]+ tokens \([1-9][0-9]? %\)   from ram$' "$work/out" ||
        fail "the reused tokens: $(cat "$work/out")"
    grep -Eq '^  first difference: message 1, token [0-9]+$' "$work/out" && grep -Eq '^    after  ".*duck *"$' "$work/out" &&
        grep -Eq '^    had    " *red\\nduck' "$work/out" && grep -Eq '^    got    " *blue duck' "$work/out" ||
        fail "the differing text: $(cat "$work/out")"
    grep -Eq '^  of these [0-9]+ tokens [0-9]+ can be reused' "$work/out" || fail "the usable tokens: $(cat "$work/out")"
    grep -Eq '^  without it [0-9]+ tokens more would be reused: [0-9.]+ m?s$' "$work/out" || fail "the cost of it: $(cat "$work/out")"
    grep -Eq '^  cost     [0-9]+ tokens prefilled, [0-9.]+ m?s \([0-9 .]+ t/s\)$' "$work/out" || fail "the cost: $(cat "$work/out")"
    grep -q '^  advice   an earlier message was changed' "$work/out" || fail "no advice: $(cat "$work/out")"
    call 0 why "$(sed -n 1s/\ .*//p "$work/out")" --json
    json 'd["cache"]["miss"]["message"] == 1 and d["cache"]["from"] == "ram" and d["cache"]["miss"]["tokens"] > 64'
fi

# The screen of mote top: a running request appears, keys work, the terminal is restored.
command -v tmux >/dev/null && command -v curl >/dev/null || finish
$tmux new-session -d -x 110 -y 30 "env LC_ALL=C.UTF-8 PS1=READY: sh" || finish
screen() { $tmux capture-pane -p; }
shows() {
    tries=0
    until screen | grep -Eq "$1"; do
        tries=$((tries + 1))
        [ $tries -gt 600 ] && { fail "the screen never shows '$1':"; screen; return; }
        sleep 0.1
    done
}
shows READY
$tmux send-keys -l "$MOTE top -d 0.2" && $tmux send-keys Enter
shows 'mote 0.1.0  mote-tiny-q4_k_m'
shows 'slots    [█░]{24}  0 of 8: 0 decode'
shows '^images   0 encoded'
curl -sN --unix-socket "$work/socket" -H "Authorization: Bearer $MOTE_API_KEY" \
    -H 'Content-Type: application/json' -o "$work/answer" \
    -d '{"model":"x","stream":true,"ignore_eos":true,"max_tokens":30000,"messages":[{"role":"user","content":"Tell me a story."}]}' \
    http://localhost/v1/chat/completions &
curl=$!
shows 'req_[0-9a-f]{10} +[a-z]+ +decode .* [0-9.]+$'
shows '1 of 8: 1 decode'
call 1 stop
grep -q "model 'mote-tiny-q4_k_m' has running requests; .* \[model_busy\]$" "$work/err" || fail "a busy model: $(cat "$work/err")"
$tmux send-keys s
shows 'sort \(by generated\)'
$tmux send-keys p
shows PAUSED
$tmux send-keys p
kill $curl
shows '1 aborted'
$tmux send-keys q
shows '^READY:'
screen | grep -q 'slots    ' && fail "the screen was not restored"
$tmux send-keys -l "echo typed" && $tmux send-keys Enter
shows '^typed'
shows 'echo typed'
finish
