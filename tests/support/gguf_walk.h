/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_walk.h - holds a GGUF that was read to everything gguf.h promises about it. */
#ifndef MOTE_TESTS_SUPPORT_GGUF_WALK_H
#define MOTE_TESTS_SUPPORT_GGUF_WALK_H

#include "gguf/gguf.h"

/* Visits every entry, string and tensor, and reads their bytes. NULL: all is well, else what is
 * not. */
const char *test_gguf_fault(const gguf *g, const unsigned char *bytes, uint64_t n);

#endif
