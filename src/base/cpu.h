/* SPDX-License-Identifier: Apache-2.0 */
/* cpu.h - detection of instruction sets. */
#ifndef MOTE_BASE_CPU_H
#define MOTE_BASE_CPU_H

#include <mote.h>

/* Returns the highest level that the CPU and the operating system both support. Side effect:
 * requests permission for the AMX tile registers from the kernel. */
mote_isa cpu_best_isa(void);

#endif
