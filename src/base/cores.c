/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cores.c - see cores.h.
 *
 * Three sources, each of which may be missing: the affinity mask (a person, a
 * container or a batch system limited the process), /sys/devices/system/cpu (which
 * CPUs are one core, and how strong they are), and the cgroup's CPU quota. What
 * is missing limits nothing.
 */
#define _GNU_SOURCE
#include "base/cores.h"

#include <sched.h>
#include <stdio.h>

/* The first number in a file of the CPU's folder; `missing` if there is none. */
static long cpu_fact(const char *sys, uint32_t cpu, const char *file, long missing)
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

/* How strong a core is, in whatever unit the system knows: the scheduler's
 * capacity (big.LITTLE), else the highest frequency (performance and efficiency
 * cores), else all alike. */
static long strength(const char *sys, uint32_t cpu)
{
    long capacity = cpu_fact(sys, cpu, "cpu_capacity", 0);
    return capacity > 0 ? capacity : cpu_fact(sys, cpu, "cpufreq/cpuinfo_max_freq", 1);
}

/* Whole CPUs of the cgroup's quota, rounded up; UINT32_MAX without one. */
static uint32_t quota_cpus(const char *sys)
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

/* The strongest of the CPUs; value[cpu] is how strong each is. */
static long measure(const char *sys, const cores_set *allowed, long value[CORES_MAX])
{
    long best = 0;
    for (uint32_t cpu = 0; cpu < CORES_MAX; cpu++)
        if (cores_has(allowed, cpu)) {
            value[cpu] = strength(sys, cpu);
            best = value[cpu] > best ? value[cpu] : best;
        }
    return best;
}

/* The core that a CPU belongs to, by the lowest CPU it has, whether we may use that or not. */
static uint32_t core_name(const char *sys, uint32_t cpu)
{
    long first = cpu_fact(sys, cpu, "topology/thread_siblings_list", (long)cpu);
    return first >= 0 && first < CORES_MAX ? (uint32_t)first : cpu;
}

void cores_find_in(cores *out, const char *sys, const cores_set *allowed, uint32_t here)
{
    *out = (cores){.here = CORES_MAX};
    long value[CORES_MAX];
    uint16_t index[CORES_MAX]; /* of a core in `strong`, by its name */
    cores_set seen = {{0}};
    const long best = measure(sys, allowed, value);
    for (uint32_t cpu = 0; cpu < CORES_MAX; cpu++) {
        if (!cores_has(allowed, cpu))
            continue;
        /* A step ends with its slowest thread, so a core with less than 70 % of the
         * strongest one's speed holds the others up more than it helps. */
        if (value[cpu] * 10 < best * 7) {
            out->weaker = true;
            continue;
        }
        const uint32_t name = core_name(sys, cpu);
        cores_add(&out->cpus, cpu);
        if (!cores_has(&seen, name)) {
            cores_add(&seen, name);
            index[name] = (uint16_t)out->n_strong;
            out->strong[out->n_strong++] = (uint16_t)cpu;
        }
        if (cpu == here)
            out->here = index[name];
    }
    const uint32_t quota = quota_cpus(sys);
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
