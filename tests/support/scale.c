/* SPDX-License-Identifier: Apache-2.0 */
/* scale.c - see scale.h. */
#include "support/scale.h"

#include <stdlib.h>

uint32_t test_scaled(uint32_t n, uint32_t least)
{
    const char *text = getenv("MOTE_TEST_SCALE");
    const uint64_t per_cent = text != NULL ? strtoull(text, NULL, 10) : 100;
    const uint64_t scaled = n * per_cent / 100;
    return scaled < least ? least : (uint32_t)scaled;
}

bool test_is_short(void)
{
    return test_scaled(100, 0) < 50;
}
