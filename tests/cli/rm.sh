#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# mote rm: which model an argument means, and what the messages say.
. "$(dirname "$0")/lib.sh"
tiny=$DATA/shapes/r1-gqa4-tied.gguf
[ -f "$tiny" ] || { echo "no $tiny"; exit 77; }

# add SIZE REVISION COMMIT FILE: a file of the repository unsloth/Qwen3.5-SIZE-GGUF, as huggingface_hub writes it.
add() {
    repo=$HOME/.cache/huggingface/hub/models--unsloth--Qwen3.5-$1-GGUF
    mkdir -p "$repo/blobs" "$repo/refs" "$repo/snapshots/$3"
    { cat "$tiny"; printf '%s' "$3$4"; } >"$work/file"
    sum=$(sha256sum "$work/file" | cut -d ' ' -f 1)
    mv "$work/file" "$repo/blobs/$sum"
    ln -s "../../blobs/$sum" "$repo/snapshots/$3/$4"
    printf %s "$3" >"$repo/refs/$2"
}
main=0123456789abcdef0123456789abcdef01234567
old=fedcba9876543210fedcba9876543210fedcba98
cache=$HOME/.cache/huggingface/hub/models--unsloth--Qwen3.5-4B-GGUF/snapshots
file=Qwen3.5-4B-Q4_K_M.gguf

# ---- a family is not a model ----

call 3 rm qwen3.5
stderr_is "mote: no model of the family qwen3.5 is installed (mote list shows what is) [not_found]"
add 4B main $main $file
add 0.8B main $main Qwen3.5-0.8B-Q8_0.gguf
call 2 rm qwen3.5
stderr_is "mote: qwen3.5 is a family; installed: qwen3.5:0.8b, qwen3.5:4b; try: mote rm qwen3.5:0.8b [bad_argument]"
call 3 rm qwen3.5:2b
stderr_is "mote: qwen3.5:2b is not installed; installed: qwen3.5:0.8b, qwen3.5:4b [not_found]"
[ -e "$cache/$main/$file" ] || fail "a family was removed"

# ---- a revision is that revision ----

add 4B v1 $old $file
call 3 rm hf:unsloth/Qwen3.5-4B-GGUF@v2
call 3 show hf:unsloth/Qwen3.5-4B-GGUF@v2
[ -e "$cache/$main/$file" ] && [ -e "$cache/$old/$file" ] || fail "an unknown revision removed another one"
call 0 show hf:unsloth/Qwen3.5-4B-GGUF@v1 --json
json "'/$old/' in d['file']"
call 0 show hf:unsloth/Qwen3.5-4B-GGUF@main --json
json "'/$main/' in d['file']"
call 0 rm -y hf:unsloth/Qwen3.5-4B-GGUF@v1
grep -q "^removed hf:unsloth/Qwen3.5-4B-GGUF@v1:$file: 1 file, " "$work/out" || fail "$(cat "$work/out")"
[ -e "$cache/$main/$file" ] || fail "rm of @v1 removed main"
[ -e "$cache/$old/$file" ] && fail "rm of @v1 left it"
add 4B v1 $old $file
# Another reference to a revision is a reason to ask.
call 2 rm hf:unsloth/Qwen3.5-4B-GGUF@v1
call 0 rm hf:unsloth/Qwen3.5-4B-GGUF@main:Q4_K_M
[ -e "$cache/$main/$file" ] && fail "rm of @main left it"
[ -e "$cache/$old/$file" ] || fail "rm of @main removed v1"
finish
