/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cores.c - the topology part of cpu.h: which CPUs get a thread.
 *
 * Three sources: the affinity mask, /sys/devices/system/cpu (SMT siblings, capacity, frequency) and
 * the CPU quota of the cgroup. A missing source sets no limit. `sys` is the path of /sys, or of a
 * copy in tests. A system without these files counts its cores itself (os_cpu.h).
 */
#include "base/os_cpu.h"

#include <stdio.h>

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
static long cores_speed(const char *sys, uint32_t cpu, bool *is_capacity)
{
    long capacity = cores_sysfs_number(sys, cpu, "cpu_capacity", 0);
    *is_capacity = capacity > 0;
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

/* Fills value[cpu] with the speed of each allowed CPU; returns the lowest speed of a performance
 * core. A step ends with its slowest thread, so a core much slower than the fastest delays the
 * others more than it contributes. The limit is 70 % of the highest frequency: efficiency cores also
 * do less per cycle. Capacity counts that, so there the limit is 50 %: the middle cores of a phone
 * have 60 to 90 %, the small ones 15 to 40 %. */
static long cores_measure(const char *sys, const cores_set *allowed, long value[CORES_MAX])
{
    long best = 0;
    bool is_capacity = false;
    for (uint32_t cpu = 0; cpu < CORES_MAX; cpu++)
        if (cores_has(allowed, cpu)) {
            value[cpu] = cores_speed(sys, cpu, &is_capacity);
            best = value[cpu] > best ? value[cpu] : best;
        }
    return is_capacity ? (best + 1) / 2 : (best * 7 + 9) / 10;
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
    const long slowest = cores_measure(sys, allowed, value);
    for (uint32_t cpu = 0; cpu < CORES_MAX; cpu++) {
        if (!cores_has(allowed, cpu))
            continue;
        if (value[cpu] < slowest) {
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

void cores_read_allowed(cores_set *out)
{
    os_read_affinity(out);
}

void cores_from_count(cores *out, uint32_t fast, uint32_t slow)
{
    fast = fast < 1 ? 1 : fast < CORES_MAX ? fast : CORES_MAX;
    *out = (cores){.n = fast, .n_strong = fast, .weaker = slow > 0, .here = fast};
    for (uint32_t i = 0; i < fast; i++)
        out->strong[i] = (uint16_t)i;
}

void cores_find(cores *out)
{
    os_core_count count;
    cores_set allowed;
    if (os_count_cores(&count)) {
        cores_from_count(out, count.fast, count.slow);
        return;
    }
    cores_read_allowed(&allowed);
    cores_find_in(out, "/sys", &allowed, os_cpu_here());
}

bool cores_hold(pthread_t thread, const cores_set *set)
{
    return os_set_affinity(thread, set);
}
