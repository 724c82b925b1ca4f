#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kernels_aarch64.sh SOURCE [PER_CENT] - builds the kernels and their checker for 64-bit ARM and runs them under qemu.
#
# Each CPU model must get its own level and no higher one; an instruction that the model lacks kills the checker. Every
# kernel of every level must equal its reference byte for byte. PER_CENT: share of the cases, 2 if missing. Exits with 77
# if the cross compiler or qemu is missing.
set -eu
src=$1 per_cent=${2:-2}
cross=aarch64-linux-gnu-gcc
command -v $cross >/dev/null && command -v qemu-aarch64 >/dev/null || {
    echo "needs $cross and qemu-aarch64"
    exit 77
}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cache=$(command -v ccache || true)
cd "$src"

# As in src/kernels/CMakeLists.txt: the suffix of a file name decides its flags.
compile() { # FILE
    level=
    case $1 in
    *_dotprod.c) level=-march=armv8.2-a+dotprod ;;
    *_i8mm.c) level=-march=armv8.2-a+dotprod+i8mm ;;
    esac
    $cache $cross -std=c11 -O3 -DNDEBUG -ffp-contract=off -fno-math-errno -D_POSIX_C_SOURCE=200809L -Wall -Wextra \
        -Wshadow -Werror $level -Isrc -Iinclude -Itests -c "$1" -o "$dir/$(basename "$1" .c).o"
}

for file in src/kernels/*.c src/kernels/ref/*.c src/kernels/arm/*.c src/quant/*.c src/base/cpu*.c src/base/cores.c \
    src/base/err.c src/base/os.c src/base/os_linux.c src/base/os_cpu_linux.c \
    tests/support/scale.c tests/kernels/check*.c tests/kernels/slots.c; do
    compile "$file"
done
$cross -static "$dir"/*.o -lm -lpthread -o "$dir/kernel_check"

# CPU, the level it must get, seed
check() {
    MOTE_TEST_SCALE=$per_cent qemu-aarch64 -cpu "$1" "$dir/kernel_check" --seed "$3" >"$dir/out" || {
        grep -v '^ok' "$dir/out"
        echo "failed on $1"
        exit 1
    }
    highest=$(sed -n 's/^ok  *[^ ]* *\([a-z0-9]*\) .*/\1/p' "$dir/out" | sort -u | tr '\n' ' ')
    case $2:$highest in
    neon:"neon ref " | dotprod:"dotprod neon ref " | i8mm:"dotprod i8mm neon ref ") ;;
    *) echo "$1: levels $highest"; exit 1 ;;
    esac
    echo "$1: levels $highest- $(tail -n 1 "$dir/out")"
}
check cortex-a53 neon 1
check cortex-a72 neon 2
check cortex-a76 dotprod 3
check max i8mm 4
