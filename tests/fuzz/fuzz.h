/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz.h - what a fuzz target defines, under the name that libFuzzer looks for. */
#ifndef MOTE_TESTS_FUZZ_FUZZ_H
#define MOTE_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* Always returns 0. A fault is a crash: abort(), or what a sanitizer does. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
