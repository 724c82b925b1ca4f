#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# big_endian.sh SOURCE - a compiler for a big-endian CPU refuses the tree with the reason, and the same compiler accepts
# it for the little-endian CPU. Exits with 77 if the cross compiler is missing.
set -eu
cross=aarch64-linux-gnu-gcc
command -v $cross >/dev/null || { echo "needs $cross"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# The C library of the cross compiler has all headers for big-endian programs except this one.
mkdir "$dir/gnu" && : >"$dir/gnu/stubs-lp64_be.h"
cd "$1"

check() { # FLAG
    $cross "$1" -fsyntax-only -std=c11 -D_POSIX_C_SOURCE=200809L -I"$dir" -Isrc -Iinclude src/base/os.c 2>"$dir/out"
}

check -mlittle-endian || { cat "$dir/out"; echo "refused a little-endian CPU"; exit 1; }
if check -mbig-endian; then
    echo "accepted a big-endian CPU"
    exit 1
fi
grep 'error: static assertion failed: "mote reads its files in place"' "$dir/out" || { cat "$dir/out"; exit 1; }
