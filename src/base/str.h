/* SPDX-License-Identifier: Apache-2.0 */
/* str.h - string views, string buffers, words of a line, durations. */
#ifndef MOTE_BASE_STR_H
#define MOTE_BASE_STR_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A string view: not owned, not zero-terminated, may contain zeros. */
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

/* ---- string buffers ----
 *
 * Failure is sticky: after a failed allocation nothing is appended any more. A writer appends
 * without checks and calls strbuf_check once at the end. */

/* Zero-initialised: empty. */
typedef struct strbuf {
    char *p; /* [room], of which n are used; not zero-terminated */
    size_t n;
    size_t room;
    bool failed;
} strbuf;

void strbuf_fini(strbuf *b);

void strbuf_put(strbuf *b, str text);
void strbuf_text(strbuf *b, const char *terminated);
void strbuf_byte(strbuf *b, char byte);

/* Makes room for `bytes` more, so that following appends do not move the text. */
bool strbuf_reserve(strbuf *b, size_t bytes);

static inline str strbuf_view(const strbuf *b)
{
    return (str){b->n > 0 ? b->p : "", b->n};
}

/* MOTE_E_MEMORY if any append has failed. */
mote_status strbuf_check(const strbuf *b, mote_error *err);

/* ---- names in parts ---- */

/* Removes the prefix or the suffix from the text. False: it has none, and stays. */
bool str_take_prefix(str *text, const char *prefix);
bool str_take_suffix(str *text, const char *suffix);
/* Removes a number of at most four digits, without leading zeros, and the dot after it. */
bool str_take_index(str *text, uint32_t *out);

/* ---- words ---- */

/* Returns the next word and advances *text behind it; empty at the end. */
str str_next_word(str *text, const char *separators);
/* True if text is not empty and contains only letters, digits and bytes of `allowed`. */
bool str_has_only(str text, const char *allowed);

/* ---- durations ---- */

/* Accepts "300ms", "1.5h", "5m30s", "90" (seconds) and "-1". False: not a duration. */
bool str_duration(const char *text, double *seconds);

/* ---- sizes ---- */

/* Accepts a decimal number and a unit in any case: "8G", "8GB" (10^9), "8GiB", "8Gi" (2^30), also
 * with K, M and T, and "B". A number without a unit counts in `plain` bytes. False: not a size. */
bool str_size(const char *text, double plain, double *bytes);

#endif
