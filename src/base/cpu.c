/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpu.c - instruction sets of the CPU: levels, what the CPU supports, its name. See cpu.h.
 *
 * On x86-64 an instruction set level needs support by the CPU (CPUID) and by the operating system:
 * XCR0 tells which registers the kernel saves on a context switch. For AMX the process must also
 * request the tile data. On 64-bit ARM the kernel reports both (os_cpu.h).
 */
#include "base/cpu.h"

#include "base/err.h"
#include "base/os_cpu.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* CMake option MOTE_MAX_ISA caps the level, so that tests can run as on an older CPU. */
#ifndef MOTE_MAX_ISA
#define MOTE_MAX_ISA MOTE_ISA_BEST
#endif

/* ---- levels ---- */

static const struct {
    mote_isa isa;
    const char *name;
    const char *architecture; /* NULL: all */
} isa_rows[] = {
    {MOTE_ISA_BEST, "best", NULL},         {MOTE_ISA_REF, "ref", NULL},
    {MOTE_ISA_AVX2, "avx2", "x86-64"},     {MOTE_ISA_AVXVNNI, "avxvnni", "x86-64"},
    {MOTE_ISA_AVX512, "avx512", "x86-64"}, {MOTE_ISA_AMX, "amx", "x86-64"},
    {MOTE_ISA_NEON, "neon", "64-bit ARM"}, {MOTE_ISA_DOTPROD, "dotprod", "64-bit ARM"},
    {MOTE_ISA_I8MM, "i8mm", "64-bit ARM"},
};
enum { N_ISA_ROWS = sizeof isa_rows / sizeof *isa_rows };

/* The levels of this architecture that have kernels, lowest first. */
static const mote_isa levels[] = {
    MOTE_ISA_REF,
#if defined(__x86_64__)
    MOTE_ISA_AVX2, MOTE_ISA_AVXVNNI, MOTE_ISA_AVX512, MOTE_ISA_AMX,
#elif defined(__aarch64__)
    MOTE_ISA_NEON,
    MOTE_ISA_DOTPROD,
    MOTE_ISA_I8MM,
#endif
};
enum { N_LEVELS = sizeof levels / sizeof *levels };
_Static_assert((int)N_LEVELS <= (int)CPU_LEVELS, "CPU_LEVELS is the size of callers' arrays");

const char *mote_isa_name(mote_isa isa)
{
    for (size_t i = 0; i < N_ISA_ROWS; i++)
        if (isa_rows[i].isa == isa)
            return isa_rows[i].name;
    return "unknown";
}

bool mote_isa_parse(const char *name, mote_isa *out)
{
    for (size_t i = 0; i < N_ISA_ROWS; i++)
        if (strcmp(isa_rows[i].name, name) == 0) {
            *out = isa_rows[i].isa;
            return true;
        }
    return false;
}

/* N_LEVELS: not a level of this architecture. */
static size_t level_rank(mote_isa level)
{
    size_t i = 0;
    while (i < N_LEVELS && levels[i] != level)
        i++;
    return i;
}

size_t cpu_list_levels(mote_isa out[CPU_LEVELS])
{
    memcpy(out, levels, sizeof levels);
    return N_LEVELS;
}

bool cpu_level_contains(mote_isa level, mote_isa part)
{
    if (part == MOTE_ISA_AVXVNNI && level != part)
        return false;
    return level_rank(level) < N_LEVELS && level_rank(part) <= level_rank(level);
}

mote_isa cpu_level_above(mote_isa level)
{
    const size_t next = level_rank(level) + 1;
    return next < N_LEVELS ? levels[next] : MOTE_ISA_BEST;
}

mote_status cpu_check_level(mote_isa level, mote_error *err)
{
    char list[CPU_LEVELS * 10] = "";
    if (level == MOTE_ISA_BEST || level_rank(level) < N_LEVELS)
        return MOTE_OK;
    for (size_t i = 0; i < N_LEVELS; i++)
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i > 0 ? ", " : "",
                 mote_isa_name(levels[i]));
    for (size_t i = 0; i < N_ISA_ROWS; i++)
        if (isa_rows[i].isa == level)
            return err_set(err, MOTE_E_ARG,
                           "%s is an instruction set level of %s CPUs; levels of this CPU: %s",
                           isa_rows[i].name, isa_rows[i].architecture, list);
    return err_set(err, MOTE_E_ARG, "%d is not an instruction set level", (int)level);
}

/* Instruction sets by the level that needs them. Names of ARM sets are those of /proc/cpuinfo. */
static const struct {
    mote_isa level;
    const char *name;
} cpu_sets[] = {
    {MOTE_ISA_AVX2, "AVX"},           {MOTE_ISA_AVX2, "FMA"},         {MOTE_ISA_AVX2, "F16C"},
    {MOTE_ISA_AVX2, "AVX2"},          {MOTE_ISA_AVXVNNI, "AVX_VNNI"}, {MOTE_ISA_AVX512, "AVX512F"},
    {MOTE_ISA_AVX512, "AVX512BW"},    {MOTE_ISA_AVX512, "AVX512DQ"},  {MOTE_ISA_AVX512, "AVX512VL"},
    {MOTE_ISA_AVX512, "AVX512_VNNI"}, {MOTE_ISA_AMX, "AVX512_VBMI"},  {MOTE_ISA_AMX, "GFNI"},
    {MOTE_ISA_AMX, "AMX-TILE"},       {MOTE_ISA_AMX, "AMX-INT8"},     {MOTE_ISA_AMX, "AMX-BF16"},
    {MOTE_ISA_NEON, "asimd"},         {MOTE_ISA_DOTPROD, "asimddp"},  {MOTE_ISA_I8MM, "i8mm"},
};
enum { N_SETS = sizeof cpu_sets / sizeof *cpu_sets, N_ARM_SETS = 3, FIRST_ARM_SET = N_SETS - 3 };

/* Registers by the level that needs them: bits of XCR0. */
static const struct {
    mote_isa level;
    uint64_t bits;
    const char *name;
} cpu_registers[] = {
    {MOTE_ISA_AVX2, 0x6, "AVX"},
    {MOTE_ISA_AVX512, 0xe0, "AVX-512"},
    {MOTE_ISA_AMX, 0x60000, "AMX"},
};
enum { N_REGISTERS = sizeof cpu_registers / sizeof *cpu_registers };

static void lack_add(char *list, size_t room, const char *name)
{
    const size_t n = strlen(list);
    snprintf(list + n, room - n, "%s%s", n > 0 ? ", " : "", name);
}

void cpu_find_lack(cpu_lack *out, const cpu_features *f, mote_isa level)
{
    *out = (cpu_lack){"", ""};
    for (size_t i = 0; i < N_SETS; i++)
        if (cpu_level_contains(level, cpu_sets[i].level) && (f->sets >> i & 1) == 0)
            lack_add(out->sets, sizeof out->sets, cpu_sets[i].name);
    for (size_t i = 0; i < N_REGISTERS; i++)
        if (cpu_level_contains(level, cpu_registers[i].level) &&
            ((f->saved_sets & cpu_registers[i].bits) != cpu_registers[i].bits ||
             (cpu_registers[i].level == MOTE_ISA_AMX && !f->amx_allowed)))
            lack_add(out->registers, sizeof out->registers, cpu_registers[i].name);
}

/* Lists the levels up to `cap` that the features allow, lowest first; returns their number. */
static size_t list_supported(const cpu_features *f, mote_isa cap, mote_isa out[N_LEVELS])
{
    size_t n = 0;
    for (size_t i = 0; i < N_LEVELS && i <= level_rank(cap); i++) {
        cpu_lack lack;
        cpu_find_lack(&lack, f, levels[i]);
        if (lack.sets[0] == '\0' && lack.registers[0] == '\0')
            out[n++] = levels[i];
    }
    return n;
}

mote_isa cpu_level_up_to(const cpu_features *f, mote_isa cap)
{
    mote_isa supported[N_LEVELS];
    return supported[list_supported(f, cap, supported) - 1]; /* ref lacks nothing */
}

mote_isa cpu_level(const cpu_features *f)
{
    return cpu_level_up_to(f, MOTE_ISA_BEST);
}

bool cpu_features_set(cpu_features *f, const char *name, bool has)
{
    for (size_t i = 0; i < N_SETS; i++)
        if (strcmp(cpu_sets[i].name, name) == 0) {
            f->sets = has ? f->sets | 1u << i : f->sets & ~(1u << i);
            return true;
        }
    return false;
}

void cpu_features_fill(cpu_features *f)
{
    *f = (cpu_features){
        .x86 = true, .amx_allowed = true, .sets = (1u << N_SETS) - 1, .saved_sets = ~(uint64_t)0};
}

#if defined(__x86_64__)
#include <cpuid.h>

static uint64_t cpu_read_xcr0(void)
{
    uint32_t lo, hi;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return (uint64_t)hi << 32 | lo;
}

/* The registers of CPUID that cpu_sets refers to. */
typedef struct cpu_leaves {
    uint32_t ecx1, ebx7, ecx7, edx7;
    uint32_t eax7_1; /* leaf 7, subleaf 1 */
} cpu_leaves;

static const struct {
    size_t at; /* in cpu_leaves */
    uint32_t bit;
} set_bits[] = {
    {offsetof(cpu_leaves, ecx1), bit_AVX},      {offsetof(cpu_leaves, ecx1), bit_FMA},
    {offsetof(cpu_leaves, ecx1), bit_F16C},     {offsetof(cpu_leaves, ebx7), bit_AVX2},
    {offsetof(cpu_leaves, eax7_1), 1u << 4},    {offsetof(cpu_leaves, ebx7), bit_AVX512F},
    {offsetof(cpu_leaves, ebx7), bit_AVX512BW}, {offsetof(cpu_leaves, ebx7), bit_AVX512DQ},
    {offsetof(cpu_leaves, ebx7), bit_AVX512VL}, {offsetof(cpu_leaves, ecx7), bit_AVX512VNNI},
    {offsetof(cpu_leaves, ecx7), 1u << 1},      {offsetof(cpu_leaves, ecx7), 1u << 8},
    {offsetof(cpu_leaves, edx7), 1u << 24},     {offsetof(cpu_leaves, edx7), 1u << 25},
    {offsetof(cpu_leaves, edx7), 1u << 22},
};
enum { N_SET_BITS = sizeof set_bits / sizeof *set_bits };
_Static_assert((int)N_SET_BITS == (int)FIRST_ARM_SET, "one row per x86 row of cpu_sets");

void cpu_read_features(cpu_features *out)
{
    const uint32_t hypervisor = 1u << 31;
    cpu_leaves leaves = {0};
    uint32_t a, b, c, d;
    *out = (cpu_features){.x86 = true};
    if (__get_cpuid(1, &a, &b, &c, &d))
        leaves.ecx1 = c;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
        leaves.ebx7 = b;
        leaves.ecx7 = c;
        leaves.edx7 = d;
        if (a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) /* a: the last subleaf */
            leaves.eax7_1 = a;
    }
    out->hypervisor = (leaves.ecx1 & hypervisor) != 0;
    if ((leaves.ecx1 & bit_OSXSAVE) != 0)
        out->saved_sets = cpu_read_xcr0();
    for (size_t i = 0; i < N_SET_BITS; i++) {
        uint32_t value;
        memcpy(&value, (const char *)&leaves + set_bits[i].at, sizeof value);
        if ((value & set_bits[i].bit) != 0)
            out->sets |= 1u << i;
    }
    out->amx_allowed = true;
    if (cpu_level(out) == MOTE_ISA_AMX)
        out->amx_allowed = os_allow_amx();
}

/* The brand string: 16 bytes in each of three leaves, padded with spaces or zeros. */
void cpu_name(char out[CPU_NAME_BYTES])
{
    enum { FIRST_LEAF = 0x80000002, LEAVES = 3 };
    char text[CPU_NAME_BYTES] = "";
    for (uint32_t i = 0; i < LEAVES; i++) {
        uint32_t r[4];
        if (!__get_cpuid(FIRST_LEAF + i, &r[0], &r[1], &r[2], &r[3]))
            break;
        memcpy(text + sizeof r * i, r, sizeof r);
    }
    const char *from = text + strspn(text, " ");
    size_t n = strlen(from);
    while (n > 0 && from[n - 1] == ' ')
        n--;
    memcpy(out, from, n);
    out[n] = '\0';
}
#else

void cpu_read_features(cpu_features *out)
{
    os_arm_sets found;
    os_read_arm_sets(&found);
    const bool has[N_ARM_SETS] = {found.neon, found.dotprod, found.i8mm};
    *out = (cpu_features){0};
    for (size_t i = 0; i < N_ARM_SETS; i++)
        out->sets |= (uint32_t)has[i] << (FIRST_ARM_SET + i);
}

void cpu_name(char out[CPU_NAME_BYTES])
{
    if (!os_cpu_name(out))
        cpu_arm_name_in(out, "");
}
#endif

size_t cpu_list_usable(mote_isa out[CPU_LEVELS])
{
    cpu_features found;
    cpu_read_features(&found);
    return list_supported(&found, MOTE_MAX_ISA, out);
}

mote_isa cpu_best_isa_up_to(mote_isa cap)
{
    cpu_features found;
    cpu_read_features(&found);
    return cpu_level_up_to(&found, level_rank(cap) < level_rank(MOTE_MAX_ISA) ? cap : MOTE_MAX_ISA);
}

mote_isa cpu_best_isa(void)
{
    return cpu_best_isa_up_to(MOTE_ISA_BEST);
}
