#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# fpmode_aarch64.sh SOURCE - builds fpmode_ref.c with the reference kernels for this machine and for aarch64, runs the
# second under qemu, and compares the checksums: no floating-point mode of the caller changes a bit, and both
# architectures give the same bits. Exits with 77 if the cross compiler or qemu is missing.
set -eu
src=$1
cross=aarch64-linux-gnu-gcc
command -v $cross >/dev/null && command -v qemu-aarch64 >/dev/null || {
    echo "needs $cross and qemu-aarch64"
    exit 77
}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

build() { # COMPILER OUTPUT
    "$1" -std=c11 -O3 -ffp-contract=off -fno-math-errno -frounding-math -D_GNU_SOURCE -static -Wall -Werror \
        -I"$src/src" -I"$src/include" "$src/tests/isa/fpmode_ref.c" "$src/src/kernels/ref/norm_ref.c" \
        "$src/src/kernels/ref/elementwise_ref.c" "$src/src/kernels/ref/gemm_float_ref.c" \
        "$src/src/kernels/ref/act_ref.c" "$src/src/kernels/ref/reduce_ref.c" -lm -o "$2"
}

build "${CC:-cc}" "$dir/native"
build $cross "$dir/aarch64"
native=$("$dir/native") || { echo "native: $native"; exit 1; }
arm=$(qemu-aarch64 "$dir/aarch64") || { echo "aarch64: $arm"; exit 1; }
echo "native $native, aarch64 $arm"
[ "$native" = "$arm" ]
