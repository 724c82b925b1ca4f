/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cursor.h - bounds-checked reader for untrusted bytes.
 *
 * A read past the end returns false, does not move the cursor and does not write the output.
 * Integers are little-endian.
 */
#ifndef MOTE_BASE_CURSOR_H
#define MOTE_BASE_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct cursor {
    const unsigned char *p;
    size_t n;   /* total bytes */
    size_t pos; /* bytes read */
} cursor;

static inline size_t cursor_left(const cursor *c)
{
    return c->n - c->pos;
}

static inline bool cursor_skip(cursor *c, uint64_t bytes)
{
    if (bytes > cursor_left(c))
        return false;
    c->pos += (size_t)bytes;
    return true;
}

/* A view of the next `bytes` bytes, valid as long as the cursor's memory. */
static inline bool cursor_view(cursor *c, uint64_t bytes, const unsigned char **out)
{
    const unsigned char *at = c->p + c->pos;
    if (!cursor_skip(c, bytes))
        return false;
    *out = at;
    return true;
}

static inline bool cursor_copy(cursor *c, void *out, size_t bytes)
{
    const unsigned char *at;
    if (!cursor_view(c, bytes, &at))
        return false;
    if (bytes > 0)
        memcpy(out, at, bytes);
    return true;
}

/* A plain copy decodes, because mote runs on little-endian machines only (asserted in os.h). */
static inline bool cursor_u8(cursor *c, uint8_t *out)
{
    return cursor_copy(c, out, sizeof *out);
}
static inline bool cursor_u16(cursor *c, uint16_t *out)
{
    return cursor_copy(c, out, sizeof *out);
}
static inline bool cursor_u32(cursor *c, uint32_t *out)
{
    return cursor_copy(c, out, sizeof *out);
}
static inline bool cursor_u64(cursor *c, uint64_t *out)
{
    return cursor_copy(c, out, sizeof *out);
}

#endif
