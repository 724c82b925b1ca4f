#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Old CPUs get kernels that they support, and the same bits.
#
# Runs mote under qemu with several CPU models. An unsupported instruction kills the process. So the
# test fails if a wrong level is chosen or if vector instructions get into common code. The logits
# must equal those of the real CPU byte for byte.
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
    *) echo "wrong level on $cpu: '$level'"; exit 1 ;;
    esac
    qemu-x86_64 -cpu $cpu "$mote" logits "$model" --ids $ids --all --out "$work/$cpu.f32" -q
    cmp "$work/real.f32" "$work/$cpu.f32"
    echo "$cpu: $level, same bits"
done
