#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# --cache-key: the prefix cache on disk and named sessions, encrypted. Each call is a new process.
. "$(dirname "$0")/lib.sh"
need_model
command -v python3 >/dev/null || exit 77
use_disk_cache
key=$work/key

# mote cache key: a new file that only its owner can read, never replaced.
call 2 cache key
call 0 cache key "$key"
[ "$(stat -c %a "$key")" = 600 ] || fail "mode of the key: $(stat -c %a "$key")"
[ "$(wc -c <"$key")" = 65 ] || fail "size of the key"
sum=$(cksum <"$key")
call 2 cache key "$key"
[ "$(cksum <"$key")" = "$sum" ] || fail "a key was replaced"
"$MOTE" cache ls --cache-key "$key" >/dev/null 2>"$work/err"
if grep -q 'this build has no encryption' "$work/err"; then
    grep -q 'libssl-dev' "$work/err" || fail "no advice: $(cat "$work/err")"
    echo "this build has no encryption"
    exit 77
fi

python3 - "$work/system.txt" <<'END'
import sys
open(sys.argv[1], "w").write("Codeword zanzibar. " + " ".join(f"Rule {i}: use {i + 2} short words." for i in range(60)))
END
ask() {
    call 0 run "$model" --json --temp 0 -t 1 -n 24 -s "@$work/system.txt" "$@" "Which rule is the first one?"
}
# found DIRECTORY: the files there that contain the word, or eight tokens in a row of a page of $work/plain.
found() {
    python3 - "$1" "$work/plain" <<'END'
import pathlib, sys
where, plain = (pathlib.Path(a) for a in sys.argv[1:])
parts = [b"zanzibar", b"MOTEKVR"]
for page in plain.glob("prefix/*.p"):
    parts += [page.read_bytes()[208:240]]
assert len(parts) > 4
print(" ".join(str(f) for f in where.rglob("*") if f.is_file() and any(p in f.read_bytes() for p in parts)))
END
}

# Without a key: what the test looks for is there.
ask --session talk
plain=$(content)
mv "$work/cache" "$work/plain"
[ "$(found "$work/plain" | wc -w)" -ge 5 ] || fail "tokens and text are not found: $(found "$work/plain")"

# With a key: the same answer, nothing of it in any file, and the next process restores it.
ask --cache-key "$key"
json 'd["mote"]["cache"]["from"] == "none"'
[ "$(content)" = "$plain" ] || fail "the answer with a key differs"
ls "$work/cache/prefix" >"$work/before"
ask --cache-key "$key"
json 'd["mote"]["cache"]["from"] == "disk" and d["usage"]["prompt_tokens"] - d["usage"]["cached_tokens"] <= 64'
[ "$(content)" = "$plain" ] || fail "the answer after a restore differs"
ls "$work/cache/prefix" | cmp -s - "$work/before" || fail "a hit changed the directory"
[ -z "$(found "$work/cache")" ] || fail "readable: $(found "$work/cache")"
for name in $(cd "$work/plain/prefix" && ls ./*.[phse]); do
    [ ! -e "$work/cache/prefix/$name" ] || fail "the name $name does not depend on the key"
done

# Without the key, and with another one: a miss. Nothing is removed.
call 0 cache key "$work/other"
ask
json 'd["mote"]["cache"]["from"] == "none"'
ask --cache-key "$work/other"
json 'd["mote"]["cache"]["from"] == "none"'
[ "$(content)" = "$plain" ] || fail "the answer with another key differs"
MOTE_CACHE_KEY=$key
export MOTE_CACHE_KEY
ask
json 'd["mote"]["cache"]["from"] == "disk"'

# mote cache tells what is encrypted, and verifies with the key.
call 0 cache ls --json
json 'sum(s["encrypted"] and s["readable"] and s["tokens"] > 0 for s in d) >= 1'
json 'sum(s["encrypted"] and not s["readable"] for s in d) >= 1 and sum(not s["encrypted"] for s in d) >= 1'
call 0 cache ls
grep -q ' yes  *(another key: use --cache-key FILE)$' "$work/out" || fail "$(cat "$work/out")"
call 0 cache stats --json
json '0 < d["other_key_records"] < d["encrypted_records"] < d["pages"] + d["states"]'
call 0 cache stats
grep -q '^encrypted  .* of them with another key$' "$work/out" || fail "$(cat "$work/out")"
call 0 cache verify
grep -q 'encrypted with another key, not verified' "$work/err" || fail "$(cat "$work/err")"
grep -q 'are intact, [1-9][0-9]* of them encrypted' "$work/err" || fail "$(cat "$work/err")"
before=$(ls "$work/cache/prefix" | wc -l)
for file in $(cat "$work/before"); do
    case $file in
    *.s) printf 'damage' | dd of="$work/cache/prefix/$file" bs=1 seek=5000 conv=notrunc 2>/dev/null ;;
    esac
done
MOTE_CACHE_KEY=$work/other
call 0 cache verify
[ "$(ls "$work/cache/prefix" | wc -l)" = "$before" ] || fail "another key removed records"
MOTE_CACHE_KEY=$key
call 1 cache verify
grep -q 'tag of its block' "$work/err" || fail "$(cat "$work/err")"
ask
json 'd["mote"]["cache"]["from"] == "none"'
[ "$(content)" = "$plain" ] || fail "the answer after damage differs"
call 0 cache rm --all
ls "$work/cache/prefix" | grep '\.' && fail "rm --all left records"

# Sessions: the file is encrypted, and continues with the key only.
ask --session talk
call 0 session ls --json
json 'len(d) == 1 and d[0]["turns"] == 1 and d[0]["cached_tokens"] >= d[0]["tokens"] - 64'
call 0 session fork talk copy
call 0 run "$model" --json --temp 0 -t 1 -n 8 --session copy "And the second one?"
json 'd["mote"]["cache"]["from"] == "disk"'
[ -z "$(found "$work/cache")" ] || fail "readable: $(found "$work/cache")"
call 0 session export talk
json 'len(d) == 3 and d[0]["content"].startswith("Codeword zanzibar.")'
unset MOTE_CACHE_KEY
call 1 session export talk
grep -q 'encrypted: name its key file with --cache-key FILE' "$work/err" || fail "$(cat "$work/err")"
call 1 run "$model" --session talk "Hello"
call 0 session ls --json
json 'd == []'
call 1 session rm talk
grep -q 'the session talk is encrypted: name its key file with --cache-key FILE' "$work/err" || fail "$(cat "$work/err")"
call 0 session ls --json --cache-key "$key"
json 'len(d) == 2'
# One that was saved without a key is read, and encrypted when it is saved again.
cp "$work/plain/sessions/talk.json" "$work/cache/sessions/old.json"
call 0 run "$model" --json --temp 0 -t 1 -n 8 --session old --cache-key "$key" "And the second one?"
[ -z "$(found "$work/cache")" ] || fail "readable: $(found "$work/cache")"
call 0 session rm old talk copy --cache-key "$key"

# The key comes from the config file, too. A key that cannot be used is an error, before anything is stored.
rm -rf "$work/cache"
printf 'cache-key = %s\n' "$key" >"$work/config"
MOTE_CONFIG=$work/config ask
[ -z "$(found "$work/cache")" ] || fail "the config file: $(found "$work/cache")"
rm -rf "$work/cache"
chmod 644 "$key"
for command in "run $model Hello" "cache ls" "cache verify" "session ls" "serve $model"; do
    # shellcheck disable=SC2086
    call 2 $command --cache-key "$key"
    grep -q "has mode 0644, so other users may read it: run chmod 600 $key" "$work/err" || fail "$(cat "$work/err")"
done
call 2 run "$model" --cache-key "$work/nothing" Hello
printf 'short' >"$work/short"
chmod 600 "$work/short"
call 2 run "$model" --cache-key "$work/short" Hello
grep -q '32 bytes or 64 hexadecimal digits' "$work/err" || fail "$(cat "$work/err")"
[ ! -e "$work/cache" ] || fail "something was stored: $(find "$work/cache")"
finish
