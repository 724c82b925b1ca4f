/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz.h - entry point of a fuzz target, with the name that libFuzzer expects. */
#ifndef MOTE_TESTS_FUZZ_FUZZ_H
#define MOTE_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* Always returns 0. A fault is reported by a crash: abort(), or a sanitizer. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
