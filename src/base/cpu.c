/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpu.c - instruction set of the CPU, its cores and thread affinity. See cpu.h.
 *
 * An instruction set level needs support by the CPU (CPUID) and by the operating system: XCR0 tells
 * which registers the kernel saves on a context switch. For AMX the process must also request the
 * tile data.
 */
#define _GNU_SOURCE
#include "base/cpu.h"

#include <sched.h>
#include <stdio.h>
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

/* ---- topology ----
 *
 * Three sources: the affinity mask, /sys/devices/system/cpu (SMT siblings, capacity, frequency) and
 * the CPU quota of the cgroup. A missing source sets no limit. `sys` is the path of /sys, or of a
 * copy in tests. */

/* Reads the first number of a file in the CPU's directory; `missing` if there is none. */
static long cores_sysfs_number(const char *sys, uint32_t cpu, const char *file, long missing)
{
    char path[512];
    snprintf(path, sizeof path, "%s/devices/system/cpu/cpu%u/%s", sys, cpu, file);
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return missing;
    long value = missing;
    if (fscanf(f, "%ld", &value) != 1)
        value = missing;
    fclose(f);
    return value;
}

/* Relative speed of a core: the scheduler's capacity (big.LITTLE), else the maximum frequency
 * (performance and efficiency cores), else 1. */
static long cores_speed(const char *sys, uint32_t cpu)
{
    long capacity = cores_sysfs_number(sys, cpu, "cpu_capacity", 0);
    return capacity > 0 ? capacity : cores_sysfs_number(sys, cpu, "cpufreq/cpuinfo_max_freq", 1);
}

/* CPU quota of the cgroup in CPUs, rounded up; UINT32_MAX without a quota. */
static uint32_t cores_cgroup_quota(const char *sys)
{
    char path[512];
    snprintf(path, sizeof path, "%s/fs/cgroup/cpu.max", sys);
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return UINT32_MAX;
    long long quota = 0, period = 0;
    int got = fscanf(f, "%lld %lld", &quota, &period);
    fclose(f);
    if (got != 2 || quota <= 0 || period <= 0 || quota / period >= CORES_MAX)
        return UINT32_MAX;
    return (uint32_t)((quota + period - 1) / period);
}

/* Fills value[cpu] with the speed of each allowed CPU; returns the maximum. */
static long cores_measure(const char *sys, const cores_set *allowed, long value[CORES_MAX])
{
    long best = 0;
    for (uint32_t cpu = 0; cpu < CORES_MAX; cpu++)
        if (cores_has(allowed, cpu)) {
            value[cpu] = cores_speed(sys, cpu);
            best = value[cpu] > best ? value[cpu] : best;
        }
    return best;
}

/* Identifies the core of a CPU by its lowest CPU number, allowed or not. */
static uint32_t cores_core_of(const char *sys, uint32_t cpu)
{
    long first = cores_sysfs_number(sys, cpu, "topology/thread_siblings_list", (long)cpu);
    return first >= 0 && first < CORES_MAX ? (uint32_t)first : cpu;
}

void cores_find_in(cores *out, const char *sys, const cores_set *allowed, uint32_t here)
{
    *out = (cores){.here = CORES_MAX};
    long value[CORES_MAX];
    uint16_t index[CORES_MAX]; /* in out->strong, by core */
    cores_set seen = {{0}};
    const long best = cores_measure(sys, allowed, value);
    for (uint32_t cpu = 0; cpu < CORES_MAX; cpu++) {
        if (!cores_has(allowed, cpu))
            continue;
        /* A step ends with its slowest thread. A core with less than 70 % of the maximum speed
         * delays the others more than it contributes. */
        if (value[cpu] * 10 < best * 7) {
            out->weaker = true;
            continue;
        }
        const uint32_t name = cores_core_of(sys, cpu);
        cores_add(&out->cpus, cpu);
        if (!cores_has(&seen, name)) {
            cores_add(&seen, name);
            index[name] = (uint16_t)out->n_strong;
            out->strong[out->n_strong++] = (uint16_t)cpu;
        }
        if (cpu == here)
            out->here = index[name];
    }
    const uint32_t quota = cores_cgroup_quota(sys);
    out->here = out->here < out->n_strong ? out->here : out->n_strong;
    out->quota = quota < out->n_strong;
    out->n = out->quota ? quota : out->n_strong > 0 ? out->n_strong : 1;
}

void cores_find(cores *out)
{
    cpu_set_t mask;
    cores_set allowed = {{0}};
    CPU_ZERO(&mask);
    if (sched_getaffinity(0, sizeof mask, &mask) == 0)
        for (uint32_t cpu = 0; cpu < CORES_MAX && cpu < CPU_SETSIZE; cpu++)
            if (CPU_ISSET(cpu, &mask))
                cores_add(&allowed, cpu);
    const int here = sched_getcpu();
    cores_find_in(out, "/sys", &allowed, here >= 0 ? (uint32_t)here : CORES_MAX);
}

bool cores_hold(pthread_t thread, const cores_set *set)
{
    cpu_set_t mask;
    CPU_ZERO(&mask);
    for (uint32_t cpu = 0; cpu < CORES_MAX && cpu < CPU_SETSIZE; cpu++)
        if (cores_has(set, cpu))
            CPU_SET(cpu, &mask);
    return pthread_setaffinity_np(thread, sizeof mask, &mask) == 0;
}
