#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# mote run with the prefix cache on disk: a second process starts from what the first one saved, with the same answer.
. "$(dirname "$0")/lib.sh"
need_model
command -v python3 >/dev/null || exit 77
use_disk_cache
python3 - "$work/system.txt" <<'END'
import sys
open(sys.argv[1], "w").write(" ".join(f"Rule {i}: answer question {i} in {i + 2} short words." for i in range(60)))
END

# ask SYSTEM PROMPT: one answer as JSON; its content, and the tokens reused.
ask() {
    call 0 run "$model" --json --temp 0 -t 1 -n 24 -s "@$1" "$2"
}
records() { ls "$work/cache/prefix" 2>/dev/null | grep -c "\.$1\$"; }

# The first answer computes everything and saves its prompt.
ask "$work/system.txt" "Which rule is the first one?"
json 'd["usage"]["cached_tokens"] == 0 and d["mote"]["cache"] == {"reused": 0, "from": "none"}'
cold=$(content)
[ "$(records s)" -ge 1 ] || fail "no state was saved: $(ls "$work/cache/prefix")"
[ "$(stat -c %a "$work/cache/prefix")" = 700 ] || fail "mode of the directory"
ls "$work/cache/prefix" >"$work/before"

# The second process restores it. The same answer, and a hit writes nothing.
ask "$work/system.txt" "Which rule is the first one?"
json 'd["mote"]["cache"]["from"] == "disk" and d["usage"]["prompt_tokens"] - d["usage"]["cached_tokens"] <= 64'
[ "$(content)" = "$cold" ] || fail "the answer after a restore differs: $(content), not $cold"
ls "$work/cache/prefix" | cmp -s - "$work/before" || fail "a hit changed the directory"

# Another question starts after the system prompt.
ask "$work/system.txt" "How many rules are there?"
json 'd["mote"]["cache"]["from"] == "disk" and d["usage"]["cached_tokens"] >= 256'
with=$(content)
call 0 run "$model" --json --temp 0 -t 1 -n 24 -s "@$work/system.txt" --cache-disk off "How many rules are there?"
json 'd["usage"]["cached_tokens"] == 0 and d["mote"]["cache"]["from"] == "none"'
[ "$(content)" = "$with" ] || fail "the answer without the disk differs"

# Damaged records are a miss and are removed; the answer stays.
for file in "$work"/cache/prefix/*.s; do
    printf 'damaged' | dd of="$file" bs=1 seek=700 conv=notrunc 2>/dev/null
done
ask "$work/system.txt" "Which rule is the first one?"
json 'd["mote"]["cache"]["from"] == "none"'
[ "$(content)" = "$cold" ] || fail "the answer after damage differs"
ask "$work/system.txt" "Which rule is the first one?"
json 'd["mote"]["cache"]["from"] == "disk"'
[ "$(content)" = "$cold" ] || fail "the answer after the repair differs"

# Another KV format has its own records.
call 0 run "$model" --json --temp 0 -t 1 -n 4 --kv f32 -s "@$work/system.txt" "Which rule is the first one?"
json 'd["usage"]["cached_tokens"] == 0'

# So has another adapter, or the same with another scale.
nib=$(dirname "$model")/golden/lora/nib
for lora in "$nib" "$nib=0.5"; do
    call 0 run "$model" --json --temp 0 -t 1 -n 24 --lora "$lora" -s "@$work/system.txt" "Which rule is the first one?"
    json 'd["usage"]["cached_tokens"] == 0 and d["mote"]["cache"]["from"] == "none"'
    adapted=$(content)
    [ "$lora" != "$nib" ] || [ "$adapted" != "$cold" ] || fail "the adapter changes nothing"
    call 0 run "$model" --json --temp 0 -t 1 -n 24 --lora "$lora" -s "@$work/system.txt" "Which rule is the first one?"
    json 'd["mote"]["cache"]["from"] == "disk"'
    [ "$(content)" = "$adapted" ] || fail "the answer with $lora after a restore differs"
done

# A short prompt is not worth a file.
rm -rf "$work/cache"
call 0 run "$model" --temp 0 -t 1 -n 24 "Hello!"
[ "$(records s)" = 0 ] || fail "a short prompt was saved"
# --cache-disk off does not even make the directory.
rm -rf "$work/cache"
call 0 run "$model" --temp 0 -t 1 -n 4 --cache-disk off "Hello!"
[ ! -e "$work/cache" ] || fail "--cache-disk off made a directory"

# Without a usable directory: one note, and an answer.
printf 'file' >"$work/cache"
call 0 run "$model" --temp 0 -t 1 -n 4 "Hello!"
grep -q '^disk cache off: ' "$work/err" || fail "no note: $(cat "$work/err")"
[ -s "$work/out" ] || fail "no answer without the disk"
finish
