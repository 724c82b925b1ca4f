/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cores.h - which CPUs this process may use, which of them are worth using, and
 * keeping a thread to some of them.
 *
 * A CPU is what the scheduler counts; a core may show as several CPUs
 * (hyperthreads). One thread per core is right for arithmetic that fills it.
 */
#ifndef MOTE_BASE_CORES_H
#define MOTE_BASE_CORES_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum { CORES_MAX = 1024 };

/* A set of CPUs, by their numbers. */
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
    uint32_t n;  /* threads worth having, at least 1: strong cores, or the quota if it is less */
    bool weaker; /* beside the strong cores there are others: efficiency cores */
    bool quota;  /* the cgroup grants less time than all strong cores have */
    uint32_t n_strong;
    uint32_t here;              /* the strong core the calling thread is on; n_strong: on none */
    uint16_t strong[CORES_MAX]; /* [n_strong]: of each strong core its first CPU */
    cores_set cpus;             /* all CPUs of the strong cores */
} cores;

/* What the affinity of the calling thread, the system's description and the cgroup leave. */
void cores_find(cores *out);

/* The same for a machine described in another folder than /sys, of whose CPUs `allowed` may be
 * used and the thread is on CPU `here`: for tests. */
void cores_find_in(cores *out, const char *sys, const cores_set *allowed, uint32_t here);

/* Keeps a thread to these CPUs. False: the system refused, and the thread is where it was. */
bool cores_hold(pthread_t thread, const cores_set *set);

#endif
