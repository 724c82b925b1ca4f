/* SPDX-License-Identifier: Apache-2.0 */
/* strbuf.c - implements strbuf.h. */
#include "base/strbuf.h"

#include "base/ckd.h"
#include "base/mem.h"

enum { FIRST_ROOM = 256 };

void strbuf_fini(strbuf *b)
{
    mem_free(b->p);
    *b = (strbuf){0};
}

bool strbuf_reserve(strbuf *b, size_t bytes)
{
    size_t needed, doubled;
    if (b->failed)
        return false;
    if (b->room - b->n >= bytes)
        return true;
    if (!ckd_add_size(b->n, bytes, &needed) || !ckd_mul_size(b->room, 2, &doubled)) {
        b->failed = true;
        return false;
    }
    size_t room = doubled > needed ? doubled : needed;
    if (room < FIRST_ROOM)
        room = FIRST_ROOM;
    char *moved = mem_resize(b->p, b->room, room, 1);
    if (moved == NULL) {
        b->failed = true;
        return false;
    }
    b->p = moved;
    b->room = room;
    return true;
}

void strbuf_put(strbuf *b, str text)
{
    if (text.n == 0 || !strbuf_reserve(b, text.n))
        return;
    memcpy(b->p + b->n, text.p, text.n);
    b->n += text.n;
}

void strbuf_text(strbuf *b, const char *terminated)
{
    strbuf_put(b, str_of(terminated));
}

void strbuf_byte(strbuf *b, char byte)
{
    strbuf_put(b, (str){&byte, 1});
}

mote_status strbuf_check(const strbuf *b, mote_error *err)
{
    if (!b->failed)
        return MOTE_OK;
    return err_set(err, MOTE_E_MEMORY, "out of memory: text of more than %zu bytes", b->n);
}
