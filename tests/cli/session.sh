#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Named sessions: mote run --session, mote session ls, rm, fork, export. Each call is a new process.
. "$(dirname "$0")/lib.sh"
need_model
command -v python3 >/dev/null || exit 77
use_disk_cache
long=$(python3 -c 'print(" ".join(f"Item {i} costs {i * 3} coins." for i in range(60)))')

# say NAME PROMPT [FLAG]: one turn of a session, as JSON.
say() {
    name=$1 prompt=$2
    shift 2
    call 0 run "$model" --json --temp 0 -t 1 -n 20 --session "$name" "$@" "$prompt"
}
used() { python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["usage"][sys.argv[2]])' "$work/out" "$1"; }

# Two turns in two processes: the second one restores the first one.
say shop "Remember these prices. $long"
json 'd["usage"]["cached_tokens"] == 0'
before=$(($(used prompt_tokens) + $(used completion_tokens)))
say shop "What does item 2 cost?"
json 'd["mote"]["cache"]["from"] == "disk"'
[ "$(used cached_tokens)" -ge $((before - 64)) ] || fail "reused $(used cached_tokens) of $before tokens"
second=$(content)
[ "$(stat -c %a "$work/cache/sessions")" = 700 ] || fail "mode of the directory"
[ "$(stat -c %a "$work/cache/sessions/shop.json")" = 600 ] || fail "mode of the file"

# The same conversation in one process gives the same answer.
python3 - "$work/cache/sessions/shop.json" "$work/messages.json" <<'END'
import json, sys
d = json.load(open(sys.argv[1]))
assert d["mote_chat"] == 1 and len(d["engine"]) == 32 and d["session"]["model"] and d["session"]["ids"], d.keys()
assert [m["role"] for m in d["messages"]] == ["user", "assistant", "user", "assistant"]
END

# ls: what it has and what needs no prefill.
call 0 session ls --json
json 'len(d) == 1 and d[0]["name"] == "shop" and d[0]["turns"] == 2 and d[0]["messages"] == 4'
json 'd[0]["cached_tokens"] >= d[0]["tokens"] - 64 and d[0]["tokens"] > 256'
call 0 session ls
grep -q '^NAME .*CACHED' "$work/out" && grep -q '^shop ' "$work/out" || fail "$(cat "$work/out")"
call 0 session ls -q
stdout_is shop

# A fork continues from the same tokens; the original does not change.
call 0 session fork shop shop-2
call 2 session fork shop shop-2
sum=$(cksum <"$work/cache/sessions/shop.json")
say shop-2 "And item 3?"
json 'd["mote"]["cache"]["from"] == "disk"'
third=$(content)
[ "$(cksum <"$work/cache/sessions/shop.json")" = "$sum" ] || fail "the fork changed the original"

# Without the disk, and after the cache was lost, the answer is the same.
call 0 session fork shop shop-3
say shop-3 "And item 3?" --cache-disk off
json 'd["usage"]["cached_tokens"] == 0'
[ "$(content)" = "$third" ] || fail "without the disk: '$(content)', not '$third'"
call 0 session fork shop shop-4
mv "$work/cache/prefix" "$work/prefix"
say shop-4 "And item 3?"
json 'd["usage"]["cached_tokens"] == 0'
[ "$(content)" = "$third" ] || fail "with a lost cache: '$(content)', not '$third'"
rm -rf "$work/cache/prefix"
mv "$work/prefix" "$work/cache/prefix"

# export: messages that run --messages reads; the answer continues the same text.
call 0 session export shop "$work/out.json"
call 2 session export shop "$work/out.json"
call 0 session export shop
json '[m["role"] for m in d] == ["user", "assistant", "user", "assistant"] and all("tokens" not in m for m in d)'
json "d[3]['content'] == '''$second'''"
call 0 run "$model" --json --temp 0 -t 1 -n 20 --messages "$work/out.json" --cache-disk off "And item 3?"

# rm: the records of one session go, those that another one needs stay.
call 0 session rm shop-2 shop-3 shop-4
call 0 session ls --json
json 'len(d) == 1 and d[0]["cached_tokens"] >= d[0]["tokens"] - 64'
call 0 session rm shop
grep -q '^removed shop and [1-9][0-9]* records' "$work/err" || fail "$(cat "$work/err")"
ls "$work/cache/prefix" | grep -q '\.[ps]$' && fail "records are left: $(ls "$work/cache/prefix")"
call 1 session rm shop
call 1 session export shop

# Images: the files are read again, and the prompt with them comes from the disk.
golden=$DATA/golden/vision/media
if [ -f "$golden/see0.png" ]; then
    text_model=$model model=$DATA/mote-tiny-BF16.gguf
    cp "$golden/see0.png" "$golden/two0.png" "$golden/two1.png" "$work"
    (cd "$work" && "$MOTE" run "$model" --temp 0 -t 1 -n 20 --session look --image see0.png "Describe it. $long" \
        >/dev/null 2>"$work/err" </dev/null) || fail "a session with an image: $(cat "$work/err")"
    say look "And these?" --image "$work/two0.png" --image "$work/two1.png"
    json 'd["mote"]["cache"]["from"] == "disk" and d["usage"]["cached_tokens"] > 256'
    call 0 session fork look look-2
    say look "What did you see first?"
    json 'd["mote"]["cache"]["from"] == "disk" and d["usage"]["prompt_tokens"] - d["usage"]["cached_tokens"] < 128'
    third=$(content)
    say look-2 "What did you see first?" --cache-disk off
    json 'd["usage"]["cached_tokens"] == 0'
    [ "$(content)" = "$third" ] || fail "with images and without the disk: '$(content)', not '$third'"
    call 0 session ls --json
    json 'd[0]["turns"] == 3'
    call 0 session rm look-2
    rm "$work/two1.png"
    call 1 run "$model" --session look "What did you see first?"
    grep -q 'two1.png' "$work/err" || fail "a lost image is not named: $(cat "$work/err")"
    call 0 session rm look
    model=$text_model
fi

# A session that is opened again has the adapters of the command line.
nib=$(dirname "$model")/golden/lora/nib
for turn in 1 2 3; do
    say nib "Hello!" --lora "$nib" --think off
    [ "$(content)" = "Nib says hello." ] || fail "turn $turn with an adapter: '$(content)'"
done
call 0 session rm nib

# Errors.
call 2 run "$model" --session ../x "Hello"
call 2 run "$model" --session .hidden "Hello"
call 2 session rm
call 2 session frok a b
printf 'no JSON' >"$work/cache/sessions/bad.json"
call 0 session ls
grep -q 'bad.json' "$work/err" || fail "a damaged file is not named: $(cat "$work/err")"
call 6 run "$model" --session bad "Hello"
finish
