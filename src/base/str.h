/* SPDX-License-Identifier: Apache-2.0 */
/* str.h - a string view: not owned, not zero-terminated, may contain zeros. */
#ifndef MOTE_BASE_STR_H
#define MOTE_BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

typedef struct str {
    const char *p;
    size_t n;
} str;

/* Arguments for printf's "%.*s"; cut to 200 bytes. */
#define STR_ARG(s) ((int)((s).n < 200 ? (s).n : 200)), ((s).p)

static inline str str_of(const char *terminated)
{
    return (str){terminated, strlen(terminated)};
}

static inline bool str_eq(str a, str b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

static inline bool str_is(str a, const char *terminated)
{
    return str_eq(a, str_of(terminated));
}

#endif
