/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpu.c - see cpu.h.
 *
 * A level counts only with its operating-system half: the CPUID bit says what
 * the silicon has, XCR0 what registers the kernel saves on a context switch,
 * and for AMX the kernel must also grant the tile data to this process.
 */
#define _GNU_SOURCE
#include "base/cpu.h"

#include <string.h>

/* A build may go no higher, so that a fast machine runs every test as a slow one would. */
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

static uint64_t read_xcr0(void)
{
    uint32_t lo, hi;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return (uint64_t)hi << 32 | lo;
}

static bool all_set(uint64_t value, uint64_t bits)
{
    return (value & bits) == bits;
}

static mote_isa detect(void)
{
    uint32_t a, b, c, d;
    const uint32_t ecx1_need = bit_FMA | bit_AVX | bit_F16C | bit_OSXSAVE;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !all_set(c, ecx1_need))
        return MOTE_ISA_REF;
    uint64_t xcr0 = read_xcr0();
    if (!all_set(xcr0, XCR0_AVX) || !__get_cpuid_count(7, 0, &a, &b, &c, &d) ||
        !all_set(b, bit_AVX2))
        return MOTE_ISA_REF;
    const uint32_t ebx7_need = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
    if (!all_set(b, ebx7_need) || !all_set(c, bit_AVX512VNNI) || !all_set(xcr0, XCR0_AVX512))
        return MOTE_ISA_AVX2;
    const uint32_t edx7_need = 1u << 24 | 1u << 25; /* AMX-TILE, AMX-INT8 */
    if (!all_set(d, edx7_need) || !all_set(xcr0, XCR0_AMX) ||
        syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) != 0)
        return MOTE_ISA_AVX512;
    return MOTE_ISA_AMX;
}
#else
static mote_isa detect(void)
{
    return MOTE_ISA_REF;
}
#endif

mote_isa cpu_best_isa(void)
{
    const mote_isa best = detect();
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
