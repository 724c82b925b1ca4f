/* SPDX-License-Identifier: Apache-2.0 */
/* cpu.h - the instruction sets this machine can run. */
#ifndef MOTE_BASE_CPU_H
#define MOTE_BASE_CPU_H

#include <mote.h>

/* The highest level that both the CPU and the operating system offer. Asks the
 * kernel for the AMX tile registers, which is why it is not a pure question. */
mote_isa cpu_best_isa(void);

#endif
