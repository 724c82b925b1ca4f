/* SPDX-License-Identifier: Apache-2.0 */
/* cpu.h - instruction sets, CPU topology and thread affinity. */
#ifndef MOTE_BASE_CPU_H
#define MOTE_BASE_CPU_H

#include <mote.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Returns the highest level that the CPU and the operating system both support. Side effect:
 * requests permission for the AMX tile registers from the kernel. */
mote_isa cpu_best_isa(void);

/* ---- topology ----
 *
 * A CPU is a logical CPU of the operating system. A core may have several (SMT). mote runs one
 * thread per performance core: efficiency cores slow a step down, because it ends with its slowest
 * thread.
 */

enum { CORES_MAX = 1024 };

/* A set of CPU numbers. */
typedef struct cores_set {
    uint64_t bits[CORES_MAX / 64];
} cores_set;

static inline bool cores_has(const cores_set *set, uint32_t cpu)
{
    return cpu < CORES_MAX && (set->bits[cpu / 64] >> cpu % 64 & 1) != 0;
}

static inline void cores_add(cores_set *set, uint32_t cpu)
{
    set->bits[cpu / 64] |= (uint64_t)1 << cpu % 64;
}

typedef struct cores {
    uint32_t n;  /* recommended threads, at least 1: performance cores, or the quota if smaller */
    bool weaker; /* the machine has efficiency cores as well */
    bool quota;  /* the cgroup quota is smaller than the number of performance cores */
    uint32_t n_strong;          /* performance cores */
    uint32_t here;              /* performance core of the calling thread; n_strong: none */
    uint16_t strong[CORES_MAX]; /* [n_strong]: first CPU of each performance core */
    cores_set cpus;             /* all CPUs of the performance cores */
} cores;

/* Reads the affinity mask of the calling thread, /sys and the cgroup quota. */
void cores_find(cores *out);

/* For tests: like cores_find with another directory in place of /sys, the affinity mask `allowed`
 * and the calling thread on CPU `here`. */
void cores_find_in(cores *out, const char *sys, const cores_set *allowed, uint32_t here);

/* Sets the affinity of a thread. False: the system refused; the affinity is unchanged. */
bool cores_hold(pthread_t thread, const cores_set *set);

#endif
