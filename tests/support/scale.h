/* SPDX-License-Identifier: Apache-2.0 */
/* scale.h - the amount of work of long tests: MOTE_TEST_SCALE, in per cent, and numbers of single
 * tests, both from the environment. */
#ifndef MOTE_TESTS_SUPPORT_SCALE_H
#define MOTE_TESTS_SUPPORT_SCALE_H

#include <stdbool.h>
#include <stdint.h>

/* n scaled by MOTE_TEST_SCALE, at least `least`; n if the variable is not set. */
uint32_t test_scaled(uint32_t n, uint32_t least);

/* True below 50 per cent: a run with sanitizers or at a lower ISA level, in addition to a full run.
 * It may skip slow parts that do not depend on sanitizer or ISA level. */
bool test_is_short(void);

/* The number in an environment variable; `otherwise` if it is not set. */
uint64_t test_setting(const char *name, uint64_t otherwise);

#endif
