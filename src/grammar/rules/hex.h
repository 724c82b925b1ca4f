/* SPDX-License-Identifier: Apache-2.0 */
/* hex.h - hexadecimal digits of the escapes in patterns and grammars. */
#ifndef MOTE_GRAMMAR_RULES_HEX_H
#define MOTE_GRAMMAR_RULES_HEX_H

#include "base/str.h"

#include <stdint.h>

/* One digit more at the end of *value; false: c is none. */
static inline bool hex_add(uint32_t *value, unsigned char c)
{
    if (c >= '0' && c <= '9')
        *value = *value * 16 + (c - '0');
    else if ((c | 32) >= 'a' && (c | 32) <= 'f')
        *value = *value * 16 + (uint32_t)((c | 32) - 'a' + 10);
    else
        return false;
    return true;
}

/* Exactly n digits of the text, from byte `at` on. */
static inline bool hex_read(str text, size_t at, size_t n, uint32_t *value)
{
    *value = 0;
    for (size_t i = 0; i < n; i++)
        if (at + i >= text.n || !hex_add(value, (unsigned char)text.p[at + i]))
            return false;
    return true;
}

#endif
