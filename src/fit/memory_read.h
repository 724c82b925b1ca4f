/* SPDX-License-Identifier: Apache-2.0 */
/* memory_read.h - a bare read of memory by all threads: the limit of the memory bandwidth. */
#ifndef MOTE_FIT_MEMORY_READ_H
#define MOTE_FIT_MEMORY_READ_H

#include "base/pool.h"

/* Reads `bytes` with all threads of the pool, only adding them up. */
void memory_read(pool *threads, const unsigned char *data, uint64_t bytes);

#endif
