/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpu.c - implements cpu.h.
 *
 * A level needs support by the CPU (CPUID) and by the operating system: XCR0 tells which registers
 * the kernel saves on a context switch. For AMX the process must also request the tile data.
 */
#define _GNU_SOURCE
#include "base/cpu.h"

#include <string.h>

/* CMake option MOTE_MAX_ISA caps the level, so that tests can run as on an older CPU. */
#ifndef MOTE_MAX_ISA
#define MOTE_MAX_ISA MOTE_ISA_AMX
#endif

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    XCR0_AVX = 0x6,
    XCR0_AVX512 = 0xe0,
    XCR0_AMX = 0x60000,
    ARCH_REQ_XCOMP_PERM = 0x1023,
    XFEATURE_XTILEDATA = 18
};

static uint64_t cpu_read_xcr0(void)
{
    uint32_t lo, hi;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return (uint64_t)hi << 32 | lo;
}

static bool cpu_has_bits(uint64_t value, uint64_t bits)
{
    return (value & bits) == bits;
}

static mote_isa cpu_detect(void)
{
    uint32_t a, b, c, d;
    const uint32_t ecx1_need = bit_FMA | bit_AVX | bit_F16C | bit_OSXSAVE;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !cpu_has_bits(c, ecx1_need))
        return MOTE_ISA_REF;
    uint64_t xcr0 = cpu_read_xcr0();
    if (!cpu_has_bits(xcr0, XCR0_AVX) || !__get_cpuid_count(7, 0, &a, &b, &c, &d) ||
        !cpu_has_bits(b, bit_AVX2))
        return MOTE_ISA_REF;
    const uint32_t ebx7_need = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
    if (!cpu_has_bits(b, ebx7_need) || !cpu_has_bits(c, bit_AVX512VNNI) ||
        !cpu_has_bits(xcr0, XCR0_AVX512))
        return MOTE_ISA_AVX2;
    const uint32_t edx7_need = 1u << 24 | 1u << 25; /* AMX-TILE, AMX-INT8 */
    if (!cpu_has_bits(d, edx7_need) || !cpu_has_bits(xcr0, XCR0_AMX) ||
        syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) != 0)
        return MOTE_ISA_AVX512;
    return MOTE_ISA_AMX;
}
#else
static mote_isa cpu_detect(void)
{
    return MOTE_ISA_REF;
}
#endif

mote_isa cpu_best_isa(void)
{
    const mote_isa best = cpu_detect();
    return best < MOTE_MAX_ISA ? best : MOTE_MAX_ISA;
}

static const struct {
    mote_isa isa;
    const char *name;
} isa_names[] = {
    {MOTE_ISA_BEST, "best"},     {MOTE_ISA_REF, "ref"}, {MOTE_ISA_AVX2, "avx2"},
    {MOTE_ISA_AVX512, "avx512"}, {MOTE_ISA_AMX, "amx"},
};

const char *mote_isa_name(mote_isa isa)
{
    for (size_t i = 0; i < sizeof isa_names / sizeof *isa_names; i++)
        if (isa_names[i].isa == isa)
            return isa_names[i].name;
    return "unknown";
}

bool mote_isa_parse(const char *name, mote_isa *out)
{
    for (size_t i = 0; i < sizeof isa_names / sizeof *isa_names; i++)
        if (strcmp(isa_names[i].name, name) == 0) {
            *out = isa_names[i].isa;
            return true;
        }
    return false;
}
