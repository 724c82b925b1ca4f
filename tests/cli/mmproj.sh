#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Finding the vision encoder (mmproj): one file, several formats, files of other models, ambiguous names.
. "$(dirname "$0")/lib.sh"
model=$DATA/mote-tiny-BF16.gguf
mmproj=$DATA/mmproj-mote-tiny-BF16.gguf
image=$DATA/golden/vision/media/see0.png
need_model
[ -f "$image" ] || { echo "no $image"; exit 77; }
ln -s "$model" "$work/tiny-Q4_K_M.gguf"

# place NAME...: puts these files next to the model. Only the first is valid: using another one fails.
place() {
    rm -f "$work"/mmproj*
    ln -s "$mmproj" "$work/$1"
    shift
    for name in "$@"; do
        echo "invalid" >"$work/$name"
    done
}

# chooses NAME...: of these files the first is used, with a note if there are several.
chooses() {
    place "$@"
    call 0 run "$work/tiny-Q4_K_M.gguf" --temp 0 --image "$image" "Describe the picture."
    stdout_is "I see a black star at the bottom."
    found=$(grep -c "^vision encoder: $1, of $# mmproj files; --mmproj selects another\$" "$work/err")
    [ "$found" -eq $(($# > 1)) ] || fail "of $*: $(cat "$work/err")"
}
chooses mmproj.gguf
chooses mmproj-F16.gguf mmproj-BF16.gguf mmproj-F32.gguf mmproj-Q8_0.gguf
chooses mmproj-tiny-Q8_0.gguf mmproj-small-F16.gguf mmproj-F16.gguf

# Ambiguous: an error with an image and for a server; a prompt without an image works.
ambiguous="mmproj-a.gguf and mmproj-b.gguf match the model equally: choose the vision encoder with --mmproj FILE, or --mmproj none"
place mmproj-a.gguf mmproj-b.gguf
call 2 run "$work/tiny-Q4_K_M.gguf" --temp 0 --image "$image" "Describe the picture."
grep -qF "mote: $ambiguous" "$work/err" || fail "$(cat "$work/err")"
call 2 serve "$work/tiny-Q4_K_M.gguf" --listen "unix:$work/socket"
grep -qF "mote: $ambiguous" "$work/err" || fail "$(cat "$work/err")"
call 0 run "$work/tiny-Q4_K_M.gguf" --temp 0 "Who are you?"
call 0 run "$work/tiny-Q4_K_M.gguf" --temp 0 --mmproj "$work/mmproj-a.gguf" --image "$image" "Describe the picture."
stdout_is "I see a black star at the bottom."
finish
