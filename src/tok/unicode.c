/* SPDX-License-Identifier: Apache-2.0 */
/*
 * classes.c - unfolds the list of runs in classes.inc into a two-stage table.
 *
 * The list is what belongs into a repository: short and readable. The table is
 * what belongs under a loop over characters: two loads. It takes some tens of
 * kilobytes and microseconds to make, so each tok makes its own and there is no
 * global state.
 */
#include "tok/unicode.h"

#include "base/ckd.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <utf8proc.h>

/* 256 * first code point + class, ascending; a run ends where the next begins. */
static const uint32_t runs[] = {
#include "tok/classes.inc"
};

enum { N_RUNS = sizeof runs / sizeof runs[0], N_CLASSES = 32 };

static uint32_t run_start(uint32_t run)
{
    return run < N_RUNS ? runs[run] / 256 : CLASS_CODE_POINTS;
}

/* Blocks in which a run begins that is not the block's first: these are written out. */
static uint32_t count_mixed_blocks(void)
{
    uint32_t n = 0, last = UINT32_MAX;
    for (uint32_t run = 0; run < N_RUNS; run++) {
        uint32_t start = run_start(run);
        if (start % CLASS_BLOCK != 0 && start / CLASS_BLOCK != last) {
            last = start / CLASS_BLOCK;
            n++;
        }
    }
    return n;
}

/* Writes out the block beginning at `first`, where `run` holds; returns the run that holds at its
 * end. */
static uint32_t write_block(uint8_t *block, uint32_t first, uint32_t run)
{
    for (uint32_t i = 0; i < CLASS_BLOCK; i++) {
        while (run_start(run + 1) <= first + i)
            run++;
        block[i] = (uint8_t)(runs[run] % 256);
    }
    return run;
}

mote_status tok_classes_init(tok_classes *c, mote_error *err)
{
    uint32_t uniform[N_CLASSES] = {0}; /* the block that is all of one class; 0: not made yet */
    c->n_blocks = count_mixed_blocks() + N_CLASSES;
    c->of = mem_new(c->n_blocks, CLASS_BLOCK);
    if (c->of == NULL)
        return err_set(err, MOTE_E_MEMORY, "no memory for the Unicode tables");

    uint32_t run = 0, made = 0;
    for (uint32_t b = 0; b < CLASS_CODE_POINTS / CLASS_BLOCK; b++) {
        uint32_t first = b * CLASS_BLOCK;
        while (run_start(run + 1) <= first)
            run++;
        bool mixed = run_start(run + 1) < first + CLASS_BLOCK;
        uint32_t class = runs[run] % N_CLASSES;
        if (!mixed && uniform[class] != 0) {
            c->block[b] = (uint16_t)uniform[class];
            continue;
        }
        c->block[b] = (uint16_t)made;
        run = write_block(c->of + (size_t)made * CLASS_BLOCK, first, run);
        if (!mixed)
            uniform[class] = made;
        made++;
    }
    return MOTE_OK;
}

void tok_classes_fini(tok_classes *c)
{
    mem_free(c->of);
    c->of = NULL;
}

/* ---- well-formed, canonical text; the only file that knows utf8proc. Nearly all text is canonical
 * already, so what NFC cannot change is copied. Only a stretch of active code points (classes.h),
 * together with the one inert code point before it that they may join, is taken apart, ordered and
 * put together again: a code point that is not active has combining class 0 and joins nothing on
 * its left, so stretches do not know of each other. The reference uses the NFC of Unicode 9.0,
 * utf8proc a younger one. What 9.0 does not know is inert, hence never inside a stretch; at the
 * head of one it is passed by, so that it neither moves nor joins. utf8proc orders marks by
 * swapping neighbours, which a text of a million marks turns into hours, so the ordering is done
 * here, by counting. ---- */

enum {
    PARTS_PER_BYTE = 2, /* of a canonical decomposition; U+0390, two bytes, has three */
    FEW_MARKS = 16,     /* up to this many, insertion sort is quicker than counting */
    N_COMBINING = 256,  /* combining classes */
    FIRST_BUFFER = 4096
};

void tok_buf_fini(tok_buf *b)
{
    mem_free(b->p);
    *b = (tok_buf){0};
}

static mote_status reserve(tok_buf *b, size_t more, mote_error *err)
{
    if (more <= b->room - b->n)
        return MOTE_OK;
    size_t room = b->room < FIRST_BUFFER / 2 ? FIRST_BUFFER : 2 * b->room;
    size_t need;
    bool fits = ckd_add_size(b->n, more, &need);
    if (fits && room < need)
        room = need;
    unsigned char *p = fits ? mem_resize(b->p, b->n, room, 1) : NULL;
    if (p == NULL)
        return err_set(err, MOTE_E_MEMORY, "no memory for %zu bytes of text", room);
    b->p = p;
    b->room = room;
    return MOTE_OK;
}

static mote_status append(tok_buf *b, const unsigned char *p, size_t n, mote_error *err)
{
    TRY(reserve(b, n, err));
    if (n > 0)
        memcpy(b->p + b->n, p, n);
    b->n += n;
    return MOTE_OK;
}

/* ---- strangers' bytes ---- */

/* The first byte at or after `at` that is not ASCII, or n. */
static size_t skip_ascii(const unsigned char *text, size_t n, size_t at)
{
    for (; n - at >= 8; at += 8) {
        uint64_t word;
        memcpy(&word, text + at, 8);
        if (word & 0x8080808080808080u)
            break;
    }
    while (at < n && text[at] < 0x80)
        at++;
    return at;
}

tok_text_state tok_text_look(const tok_classes *c, const unsigned char *text, size_t n)
{
    tok_text_state state = {false, false};
    for (size_t at = skip_ascii(text, n, 0); at < n; at = skip_ascii(text, n, at)) {
        int bytes = utf8_check(text + at, n - at);
        if (bytes <= 0) {
            state.ill_formed = true;
            at += bytes < 0 ? (size_t)-bytes : n - at;
            continue;
        }
        if (text[at] >= 0xCC) { /* no code point below U+0300 is active */
            size_t length;
            state.active |= (tok_class(c, utf8_get(text + at, &length)) & CLASS_NFC_ACTIVE) != 0;
        }
        at += (size_t)bytes;
    }
    return state;
}

mote_status tok_repair(const unsigned char *text, size_t n, tok_buf *out, mote_error *err)
{
    out->n = 0;
    TRY(reserve(out, n, err));
    for (size_t at = 0; at < n;) {
        size_t from = at;
        int bytes = 1;
        while (at < n && (bytes = utf8_check(text + at, n - at)) > 0)
            at += (size_t)bytes;
        TRY(append(out, text + from, at - from, err));
        if (at < n) {
            TRY(append(out, UTF8_REPLACEMENT, sizeof UTF8_REPLACEMENT, err));
            at += bytes < 0 ? (size_t)-bytes : n - at;
        }
    }
    return MOTE_OK;
}

/* ---- one stretch ---- */

/* Code points of a stretch while it is worked on. */
typedef struct stretch {
    utf8proc_int32_t *c;     /* [room] */
    utf8proc_int32_t *spare; /* [room], for ordering */
    size_t n;
    size_t room;
} stretch;

static mote_status stretch_reserve(stretch *s, size_t room, mote_error *err)
{
    if (room <= s->room)
        return MOTE_OK;
    mem_free(s->c);
    s->c = mem_new(room, 2 * sizeof *s->c);
    s->room = s->c != NULL ? room : 0;
    s->spare = s->c != NULL ? s->c + room : NULL;
    if (s->c == NULL)
        return err_set(err, MOTE_E_MEMORY, "no memory to normalise %zu code points", room);
    return MOTE_OK;
}

/* Combining class. Parts of decompositions are never unknown to Unicode 9.0. */
static unsigned combining(utf8proc_int32_t c)
{
    return (unsigned)utf8proc_get_property(c)->combining_class;
}

static void order_few(utf8proc_int32_t *c, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        utf8proc_int32_t mark = c[i];
        unsigned class = combining(mark);
        size_t at = i;
        for (; at > 0 && combining(c[at - 1]) > class; at--)
            c[at] = c[at - 1];
        c[at] = mark;
    }
}

static void order_many(utf8proc_int32_t *c, utf8proc_int32_t *spare, size_t n)
{
    size_t place[N_COMBINING + 1] = {0};
    for (size_t i = 0; i < n; i++)
        place[combining(c[i]) + 1]++;
    for (size_t k = 1; k <= N_COMBINING; k++)
        place[k] += place[k - 1];
    for (size_t i = 0; i < n; i++)
        spare[place[combining(c[i])]++] = c[i];
    memcpy(c, spare, n * sizeof *c);
}

/* Canonical ordering: sorts each run of marks by class; equal ones keep their order. */
static void order_marks(stretch *s)
{
    for (size_t i = 0; i < s->n;) {
        size_t from = i;
        while (i < s->n && combining(s->c[i]) != 0)
            i++;
        if (i - from > FEW_MARKS)
            order_many(s->c + from, s->spare, i - from);
        else if (i - from > 1)
            order_few(s->c + from, i - from);
        if (i == from)
            i++;
    }
}

static mote_status append_normalised(const tok_classes *c, stretch *s, const unsigned char *text,
                                     size_t n, tok_buf *out, mote_error *err)
{
    size_t at = 0, bytes;
    uint32_t first = utf8_get(text, &bytes);
    if (tok_class(c, first) & CLASS_NFC_UNKNOWN) {
        TRY(append(out, text, bytes, err));
        at = bytes;
    }
    TRY(stretch_reserve(s, (n - at) * PARTS_PER_BYTE, err));
    s->n = 0;
    for (; at < n; at += bytes) {
        utf8proc_ssize_t parts = utf8proc_decompose_char(
            (utf8proc_int32_t)utf8_get(text + at, &bytes), s->c + s->n,
            (utf8proc_ssize_t)(s->room - s->n), UTF8PROC_STABLE | UTF8PROC_DECOMPOSE, NULL);
        if (parts < 0 || (size_t)parts > s->room - s->n)
            return err_set(err, MOTE_E_MEMORY, "a character has more parts than Unicode allows");
        s->n += (size_t)parts;
    }
    order_marks(s);
    utf8proc_ssize_t joined =
        utf8proc_normalize_utf32(s->c, (utf8proc_ssize_t)s->n, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    TRY(reserve(out, s->n * 4, err));
    for (utf8proc_ssize_t i = 0; i < joined; i++)
        out->n += utf8_put(out->p + out->n, (uint32_t)s->c[i]);
    return MOTE_OK;
}

/* ---- the text ---- */

static bool active_at(const tok_classes *c, const unsigned char *text, size_t at, size_t *bytes)
{
    return (tok_class(c, utf8_get(text + at, bytes)) & CLASS_NFC_ACTIVE) != 0;
}

static mote_status normalise(const tok_classes *c, stretch *s, const unsigned char *text, size_t n,
                             tok_buf *out, mote_error *err)
{
    size_t copied = 0; /* what is before this stands in `out` */
    size_t inert = 0;  /* the last inert code point; whatever is before an active one is inert */
    size_t at = 0, bytes;
    while (at < n) {
        if (!active_at(c, text, at, &bytes)) {
            inert = at;
            at += bytes;
            continue;
        }
        TRY(append(out, text + copied, inert - copied, err));
        while (at < n && active_at(c, text, at, &bytes))
            at += bytes;
        TRY(append_normalised(c, s, text + inert, at - inert, out, err));
        copied = at; /* an inert one or the end */
    }
    return append(out, text + copied, n - copied, err);
}

mote_status tok_nfc(const tok_classes *c, const unsigned char *text, size_t n, tok_buf *out,
                    mote_error *err)
{
    stretch s = {0};
    out->n = 0;
    mote_status status = reserve(out, n, err);
    if (status == MOTE_OK && n > 0)
        status = normalise(c, &s, text, n, out, err);
    mem_free(s.c);
    return status;
}
