/* SPDX-License-Identifier: Apache-2.0 */
/*
 * os_cpu.h - what the system knows about CPUs and where it runs threads.
 *
 * cpu.h is what other directories use. os_cpu_linux.c and os_cpu_macos.c implement this header.
 */
#ifndef MOTE_BASE_OS_CPU_H
#define MOTE_BASE_OS_CPU_H

#include "base/cpu.h"

/* Instruction sets of 64-bit ARM for which the kernel saves the registers. */
typedef struct os_arm_sets {
    bool neon, dotprod, i8mm;
} os_arm_sets;

void os_read_arm_sets(os_arm_sets *out);
/* Requests the tile registers of AMX for this process. False: not granted. */
bool os_allow_amx(void);
/* The name of the CPU. False: the system has no call for it. */
bool os_cpu_name(char out[CPU_NAME_BYTES]);

/* Cores as the system counts them. False: it does not; /sys and the affinity mask say more. */
typedef struct os_core_count {
    uint32_t fast; /* performance cores */
    uint32_t slow; /* efficiency cores */
} os_core_count;

bool os_count_cores(os_core_count *out);
/* Bytes of the largest cache that all fast cores share; 0: unknown. */
uint64_t os_cache_bytes(void);

/* The CPU of the calling thread; CORES_MAX: unknown. */
uint32_t os_cpu_here(void);
/* The CPUs that the calling thread may use. Empty: unknown. */
void os_read_affinity(cores_set *out);
/* False: the system refused, or has no such call. */
bool os_set_affinity(pthread_t thread, const cores_set *set);

#endif
