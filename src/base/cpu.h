/* SPDX-License-Identifier: Apache-2.0 */
/* cpu.h - what this machine can run: instruction-set level and cores. */
#ifndef MOTE_BASE_CPU_H
#define MOTE_BASE_CPU_H

#include <mote.h>

/* The highest level that both the CPU and the operating system offer. Asks the
 * kernel for the AMX tile registers, which is why it is not a pure question. */
mote_isa cpu_best_isa(void);

/* Physical cores worth using: the affinity mask without second hyperthreads and
 * without efficiency cores beside stronger ones, limited by the cgroup's CPU
 * quota. At least 1. */
uint32_t cpu_cores(void);

#endif
