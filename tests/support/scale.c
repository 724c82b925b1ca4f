/* SPDX-License-Identifier: Apache-2.0 */
/* scale.c - see scale.h. */
#include "support/scale.h"

#include <stdlib.h>

uint64_t test_setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

uint32_t test_scaled(uint32_t n, uint32_t least)
{
    const uint64_t scaled = n * test_setting("MOTE_TEST_SCALE", 100) / 100;
    return scaled < least ? least : (uint32_t)scaled;
}

bool test_is_short(void)
{
    return test_scaled(100, 0) < 50;
}
