#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A CPU without a level never meets its instructions, and gives the same bits.
#
# Runs the program under emulated CPUs of several ages. An instruction the CPU
# does not have kills the process there, so a kernel chosen too boldly, or one
# that leaked into common code, cannot pass. The logits must equal those of the
# real CPU byte for byte.
#
#   old_cpus.sh MOTE MODEL
set -eu
mote=$1 model=$2
command -v qemu-x86_64 >/dev/null || { echo "qemu-x86_64 is not installed"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

ids=17,42,99,7,300,12,5,81
"$mote" logits "$model" --ids $ids --all --out "$work/real.f32" -q
for cpu in Conroe Nehalem Haswell; do
    level=$(qemu-x86_64 -cpu $cpu "$mote" version --json |
        sed -n 's/.*"used":"\([a-z0-9]*\)".*/\1/p')
    case $cpu:$level in
    Conroe:ref | Nehalem:ref | Haswell:avx2) ;;
    *) echo "on a $cpu the level is '$level'"; exit 1 ;;
    esac
    qemu-x86_64 -cpu $cpu "$mote" logits "$model" --ids $ids --all --out "$work/$cpu.f32" -q
    cmp "$work/real.f32" "$work/$cpu.f32"
    echo "$cpu: $level, same bits"
done
