#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# mote pixels: the pixels of an image file; a PPM is only resized; what is no image is refused.
. "$(dirname "$0")/lib.sh"
image=$DATA/mote-tiny-vision/examples/count-1.png
[ -f "$image" ] || { echo "no $image"; exit 77; }

call 0 pixels "$image"
stderr_is ""
cp "$work/out" "$work/seen.ppm"
[ "$(head -n 2 "$work/seen.ppm")" = "P6
256 320" ] || fail "no PPM of 256 x 320: $(head -c 20 "$work/seen.ppm")"
[ "$(wc -c <"$work/seen.ppm")" -eq $((15 + 256 * 320 * 3)) ] || fail "wrong number of bytes"
call 0 pixels --json "$image"
stdout_is '{"width":256,"height":320,"tokens":80}'

# Standard input, and a PPM in the size of the model: the same bytes.
"$MOTE" pixels - <"$image" | cmp -s - "$work/seen.ppm" || fail "stdin gives other pixels"
"$MOTE" pixels - <"$work/seen.ppm" | cmp -s - "$work/seen.ppm" || fail "a PPM is changed"

# A limit, and the resizing of Pillow.
call 0 pixels --image-tokens 64 --json "$image"
stdout_is '{"width":224,"height":256,"tokens":56}'
if python3 -c 'import PIL' 2>/dev/null; then
    python3 - "$image" "$work" <<'PYTHON' || fail "not the pixels of Pillow"
import subprocess, sys, os
from PIL import Image
path, work = sys.argv[1:]
photo = Image.open(path).convert("RGB").resize((901, 707), Image.BILINEAR)
photo.save(work + "/photo.ppm")
photo.save(work + "/photo.png")
want = b"P6\n896 704\n255\n" + photo.resize((896, 704), Image.BICUBIC).tobytes()
for name in ("photo.ppm", "photo.png"):
    assert subprocess.run([os.environ["MOTE"], "pixels", work + "/" + name], stdout=subprocess.PIPE).stdout == want, name
PYTHON
fi

# refused ERROR BYTES: what is not an image file
refused() {
    printf "$2" >"$work/file"
    call 1 pixels "$work/file"
    stdout_is ""
    grep -q "$1" "$work/err" || fail "$2: $(cat "$work/err")"
}
refused "not a JPEG" "text"
refused "not a JPEG" "P6"
for head in 'P6\n' 'P6\n3 3\n255\n' 'P6\n1 1\n255\n1234' 'P6\n1 1\n65535\n123' 'P6\n0 1\n255\n' 'P6\n999999 999999\n255\n123' \
    'P6\n99999999999999 1\n255\n123' 'P6\n1 1\n255' 'P6\n-1 1\n255\n123'; do
    printf "$head" >"$work/file"
    call 6 pixels "$work/file"
    grep -q "not a binary PPM" "$work/err" || fail "$head: $(cat "$work/err")"
done
printf 'P6\n300 1\n255\n%0900d' 0 >"$work/file"
call 2 pixels "$work/file"
grep -q "200" "$work/err" || fail "a side more than 200 times the other: $(cat "$work/err")"
call 1 pixels "$work/none.png"
call 2 pixels
finish
