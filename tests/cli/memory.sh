#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A plan that exceeds the memory of the machine is refused with the flag value that fits; a default context is reduced.
# The machine's memory is real, or a bind mount over /proc/meminfo in a mount namespace of its own.
. "$(dirname "$0")/lib.sh"
need_model

# advice FLAG: prints the value that the last error recommends for FLAG.
advice() {
    sed -n "s/.*lower $1 to \([0-9]*\).*/\1/p" "$work/err"
}

# Sizes.
for size in 8 8G 8GB 8GiB 8000MB; do
    call 0 run "$model" hi -n 1 --memory $size -c auto
done
call 2 run "$model" hi --memory 8X
stderr_is "mote: --memory must be a size such as 8GB or 500MB, 10 MB to 66 TB, got '8X' [bad_argument]"
call 2 run "$model" hi -c 0
stderr_is "mote: -c must be auto or a whole number from 1 to 4194304, got '0' [bad_argument]"

# --context that does not fit: the recommended value does, and one page more does not.
call 4 run "$model" hi -c 4194304 --memory 50MB
fits=$(advice --context)
[ "${fits:-0}" -gt 1000 ] || fail "no context recommended: $(cat "$work/err")"
call 0 run "$model" hi -n 1 -c "$fits" --memory 50MB
call 4 run "$model" hi -n 1 -c $((fits + 64)) --memory 50MB
# It was computed without drafts, which are turned off then. A draft length that is set stays.
grep -q '^no drafts (--spec off): 50 MB available (--memory)$' "$work/err" && fail "note although it is refused"
call 0 run "$model" hi -n 1 -c "$fits" --memory 50MB --json
grep -q '^no drafts (--spec off): 50 MB available (--memory)$' "$work/err" || fail "no note: $(cat "$work/err")"
call 4 run "$model" hi -n 1 -c "$fits" --memory 50MB --spec 3
grep -q 'available are 50 MB (--memory); use --spec off \[out_of_memory\]' "$work/err" || fail "$(cat "$work/err")"
call 0 run "$model" hi -n 1 -c "$fits" --memory 50MB --spec off
call 0 run "$model" --raw hi -n 1 -c "$fits" --memory 50MB
call 4 run "$model" hi -c 4194304 --memory 50MB --spec 3
with_drafts=$(advice --context)
[ "${with_drafts:-0}" -lt "$fits" ] || fail "drafts need no memory: $with_drafts"
call 0 run "$model" hi -n 1 -c "$with_drafts" --memory 50MB --spec 3
call 4 run "$model" hi -n 1 -c $((with_drafts + 64)) --memory 50MB --spec 3
# The default context is reduced, and a note says so.
call 0 run "$model" hi -n 1 --memory 50MB
grep -q '^context reduced from 32 768 to .*: 50 MB available (--memory)$' "$work/err" || fail "no note: $(cat "$work/err")"
# Weights that do not fit are not read.
call 4 run "${model%Q4_K_M.gguf}BF16.gguf" hi -n 1 --memory 10MB
grep -q 'the weights need .* available are 10 MB (--memory); use a smaller model \[out_of_memory\]' "$work/err" ||
    fail "weights: $(cat "$work/err")"
call 4 bench "$model" --streams 4000 --memory 1GB
grep -q 'lower --prompt, --depth, --streams or --verify' "$work/err" || fail "bench: $(cat "$work/err")"

"$MOTE" help serve | grep -q -- --listen || finish
# A server that starts nevertheless must not hang the test.
mote=$MOTE
MOTE=$work/mote
printf '#!/bin/sh\nexec timeout 60 "%s" "$@"\n' "$mote" >"$MOTE"
chmod +x "$MOTE"
# No machine has the memory for this.
call 4 serve "$model" --listen "unix:$work/socket" --kv-tokens 4000000000
grep -q 'out of memory: 8 parallel requests with 4000000000 KV positions need .* lower --kv-tokens to' "$work/err" ||
    fail "serve: $(cat "$work/err")"
call 4 serve "$model" --mmproj none --listen "unix:$work/socket" --kv-tokens 200000 --memory 60MB
positions=$(advice --kv-tokens)
call 4 serve "$model" --mmproj none --listen "unix:$work/socket" --kv-tokens "$positions" --memory 60MB --spec 3
grep -q '; use --spec off \[out_of_memory\]' "$work/err" || fail "$(cat "$work/err")"
call 4 serve "$model" --mmproj none --listen "unix:$work/socket" --parallel 256 --memory 50MB
[ "$(advice --parallel)" -lt 256 ] || fail "no --parallel recommended: $(cat "$work/err")"

# A machine with 160 MB.
printf 'MemTotal: 999999999 kB\nMemAvailable: 160000 kB\n' >"$work/meminfo"
space="unshare -m"
[ "$(id -u)" = 0 ] || space="unshare -rm"
small() {
    $space sh -c "mount --bind '$work/meminfo' /proc/meminfo && exec \"\$@\"" sh "$@"
}
small true 2>"$work/err" || { echo "no mount namespaces: $(cat "$work/err")"; finish; }
small "$MOTE" run "$model" hi -c 200000 2>"$work/err"
[ $? -eq 4 ] || fail "200,000 tokens on a machine with 160 MB: $(cat "$work/err")"
grep -q 'available are 154 MB (RAM); lower --context to .*, or set --memory to use more' "$work/err" ||
    fail "run: $(cat "$work/err")"
small "$MOTE" serve "$model" --mmproj none --listen "unix:$work/socket" --kv-tokens 100000 2>"$work/err"
[ $? -eq 4 ] || fail "100,000 KV tokens on a machine with 160 MB: $(cat "$work/err")"
printf 'MemAvailable: 70000 kB\n' >"$work/meminfo"
# shellcheck disable=SC2016
small sh -c 'echo $$ >"$0/pid"; exec "$@"' "$work" "$MOTE" serve "$model" --mmproj none \
    --listen "unix:$work/socket" 2>"$work/err" &
for _ in $(seq 600); do
    grep -q 'listening on' "$work/err" && break
    sleep 0.1
done
kill "$(cat "$work/pid")"
wait
grep -q '^KV cache reduced from 32 768 to [0-9 ]* tokens: 67 MB available (RAM)$' "$work/err" ||
    fail "no note: $(cat "$work/err")"
finish
