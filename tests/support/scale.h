/* SPDX-License-Identifier: Apache-2.0 */
/* scale.h - how much of its work a long test does: MOTE_TEST_SCALE, in per cent. */
#ifndef MOTE_TESTS_SUPPORT_SCALE_H
#define MOTE_TESTS_SUPPORT_SCALE_H

#include <stdbool.h>
#include <stdint.h>

/* So much of n, at least `least`; all of it if the variable is not set. */
uint32_t test_scaled(uint32_t n, uint32_t least);

/* Less than half: a run with sanitizers or at another level, beside one that does everything. It
 * may leave out what takes long and does not depend on what is special about it. */
bool test_is_short(void);

#endif
