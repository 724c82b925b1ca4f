#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The picture tower beside a model: one, several formats of it, those of other models, and when nobody can tell.
. "$(dirname "$0")/lib.sh"
model=$DATA/mote-tiny-BF16.gguf
tower=$DATA/mmproj-mote-tiny-BF16.gguf
picture=$DATA/golden/vision/media/see0.png
need_model
[ -f "$picture" ] || { echo "there is no $picture"; exit 77; }
ln -s "$model" "$work/tiny-Q4_K_M.gguf"

# towers NAME...: these lie beside the model. The first is one, the others are not: taking them fails.
towers() {
    rm -f "$work"/mmproj*
    ln -s "$tower" "$work/$1"
    shift
    for name in "$@"; do
        echo "no tower" >"$work/$name"
    done
}

# sees NAME...: with these it sees by the first of them; says so if there are several.
sees() {
    towers "$@"
    call 0 run "$work/tiny-Q4_K_M.gguf" --temp 0 --image "$picture" "Describe the picture."
    prints "I see a black star at the bottom."
    found=$(grep -c "^it sees with $1, of $# towers beside it; --mmproj takes another\$" "$work/err")
    [ "$found" -eq $(($# > 1)) ] || fail "of $*: $(cat "$work/err")"
}
sees mmproj.gguf
sees mmproj-F16.gguf mmproj-BF16.gguf mmproj-F32.gguf mmproj-Q8_0.gguf
sees mmproj-tiny-Q8_0.gguf mmproj-small-F16.gguf mmproj-F16.gguf

# Nobody can tell: a question with a picture, and a server, ask; one without a picture is answered.
unclear="mmproj-a.gguf and mmproj-b.gguf lie beside the model: say with --mmproj which is its picture tower, or none"
towers mmproj-a.gguf mmproj-b.gguf
call 2 run "$work/tiny-Q4_K_M.gguf" --temp 0 --image "$picture" "Describe the picture."
grep -qF "mote: $unclear" "$work/err" || fail "$(cat "$work/err")"
call 2 serve "$work/tiny-Q4_K_M.gguf" --listen "unix:$work/socket"
grep -qF "mote: $unclear" "$work/err" || fail "$(cat "$work/err")"
call 0 run "$work/tiny-Q4_K_M.gguf" --temp 0 "Who are you?"
call 0 run "$work/tiny-Q4_K_M.gguf" --temp 0 --mmproj "$work/mmproj-a.gguf" --image "$picture" "Describe the picture."
prints "I see a black star at the bottom."
finish
