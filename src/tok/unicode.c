/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unicode.c - character classes, repair of ill-formed UTF-8, and NFC.
 *
 * classes.inc lists runs of code points with their class. Each tok expands the list into a
 * two-stage table (tens of kilobytes, microseconds), so there is no global state. This is the only
 * file that uses utf8proc.
 */
#include "tok/unicode.h"

#include "base/ckd.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <utf8proc.h>

/* 256 * first code point + class, ascending; a run ends where the next one begins. */
static const uint32_t runs[] = {
#include "tok/classes.inc"
};

enum { N_RUNS = sizeof runs / sizeof runs[0], N_CLASSES = 32 };

static uint32_t class_run_start(uint32_t run)
{
    return run < N_RUNS ? runs[run] / 256 : CLASS_CODE_POINTS;
}

/* Blocks with more than one class; these are stored individually. */
static uint32_t class_count_mixed_blocks(void)
{
    uint32_t n = 0, last = UINT32_MAX;
    for (uint32_t run = 0; run < N_RUNS; run++) {
        uint32_t start = class_run_start(run);
        if (start % CLASS_BLOCK != 0 && start / CLASS_BLOCK != last) {
            last = start / CLASS_BLOCK;
            n++;
        }
    }
    return n;
}

/* Fills the block that starts at code point `first` inside `run`; returns the run at its end. */
static uint32_t class_write_block(uint8_t *block, uint32_t first, uint32_t run)
{
    for (uint32_t i = 0; i < CLASS_BLOCK; i++) {
        while (class_run_start(run + 1) <= first + i)
            run++;
        block[i] = (uint8_t)(runs[run] % 256);
    }
    return run;
}

mote_status tok_classes_init(tok_classes *c, mote_error *err)
{
    uint32_t uniform[N_CLASSES] = {0}; /* block with only this class; 0: not made yet */
    c->n_blocks = class_count_mixed_blocks() + N_CLASSES;
    c->of = mem_new(c->n_blocks, CLASS_BLOCK);
    if (c->of == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: Unicode tables");

    uint32_t run = 0, made = 0;
    for (uint32_t b = 0; b < CLASS_CODE_POINTS / CLASS_BLOCK; b++) {
        uint32_t first = b * CLASS_BLOCK;
        while (class_run_start(run + 1) <= first)
            run++;
        bool mixed = class_run_start(run + 1) < first + CLASS_BLOCK;
        uint32_t class = runs[run] % N_CLASSES;
        if (!mixed && uniform[class] != 0) {
            c->block[b] = (uint16_t)uniform[class];
            continue;
        }
        c->block[b] = (uint16_t)made;
        run = class_write_block(c->of + (size_t)made * CLASS_BLOCK, first, run);
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

/* ---- NFC ----
 *
 * Most text is already in NFC, so text that NFC cannot change is copied. Only a span of active code
 * points (CLASS_NFC_ACTIVE), together with the inert code point before it, is decomposed, reordered
 * and composed. An inert code point has combining class 0 and never composes with its left
 * neighbour, so spans are independent.
 *
 * The reference uses NFC of Unicode 9.0; utf8proc has a newer version. Code points that 9.0 does
 * not know are inert. At the start of a span they are copied, so they are neither reordered nor
 * composed.
 *
 * utf8proc reorders marks by swapping neighbours, which is quadratic: a million marks would take
 * hours. This file sorts them by counting instead. */

enum {
    FEW_MARKS = 16,    /* insertion sort is faster up to here */
    N_COMBINING = 256, /* combining classes */
    MAX_PARTS = 8,     /* more than any canonical decomposition; the longest has 4 */
    FIRST_BUFFER = 4096
};

void tok_buf_fini(tok_buf *b)
{
    mem_free(b->p);
    *b = (tok_buf){0};
}

static mote_status buf_reserve(tok_buf *b, size_t more, mote_error *err)
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
        return err_set(err, MOTE_E_MEMORY, "out of memory: %zu bytes of text", room);
    b->p = p;
    b->room = room;
    return MOTE_OK;
}

static mote_status buf_append(tok_buf *b, const unsigned char *p, size_t n, mote_error *err)
{
    TRY(buf_reserve(b, n, err));
    if (n > 0)
        memcpy(b->p + b->n, p, n);
    b->n += n;
    return MOTE_OK;
}

/* ---- ill-formed UTF-8 ---- */

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

tok_text_state tok_text_scan(const tok_classes *c, const unsigned char *text, size_t n)
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
    TRY(buf_reserve(out, n, err));
    for (size_t at = 0; at < n;) {
        size_t from = at;
        int bytes = 1;
        while (at < n && (bytes = utf8_check(text + at, n - at)) > 0)
            at += (size_t)bytes;
        TRY(buf_append(out, text + from, at - from, err));
        if (at < n) {
            TRY(buf_append(out, UTF8_REPLACEMENT, sizeof UTF8_REPLACEMENT, err));
            at += bytes < 0 ? (size_t)-bytes : n - at;
        }
    }
    return MOTE_OK;
}

/* ---- one span ---- */

/* Code points of the current span. */
typedef struct nfc_span {
    utf8proc_int32_t *c; /* [room] */
    size_t n;
    size_t room;
    utf8proc_int32_t *spare; /* [spare_room], for sorting */
    size_t spare_room;
} nfc_span;

static mote_status nfc_reserve(utf8proc_int32_t **p, size_t *has, size_t room, mote_error *err)
{
    if (room <= *has)
        return MOTE_OK;
    utf8proc_int32_t *moved = mem_resize(*p, *has, room, sizeof *moved);
    if (moved == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: NFC of %zu code points", room);
    *p = moved;
    *has = room;
    return MOTE_OK;
}

/* Canonical combining class. Parts of decompositions are all in Unicode 9.0. */
static unsigned nfc_combining_class(utf8proc_int32_t c)
{
    return (unsigned)utf8proc_get_property(c)->combining_class;
}

static void nfc_order_few(utf8proc_int32_t *c, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        utf8proc_int32_t mark = c[i];
        unsigned class = nfc_combining_class(mark);
        size_t at = i;
        for (; at > 0 && nfc_combining_class(c[at - 1]) > class; at--)
            c[at] = c[at - 1];
        c[at] = mark;
    }
}

static void nfc_order_many(utf8proc_int32_t *c, utf8proc_int32_t *spare, size_t n)
{
    size_t place[N_COMBINING + 1] = {0};
    for (size_t i = 0; i < n; i++)
        place[nfc_combining_class(c[i]) + 1]++;
    for (size_t k = 1; k <= N_COMBINING; k++)
        place[k] += place[k - 1];
    for (size_t i = 0; i < n; i++)
        spare[place[nfc_combining_class(c[i])]++] = c[i];
    memcpy(c, spare, n * sizeof *c);
}

/* Canonical ordering: sorts each run of marks by combining class, stable. */
static mote_status nfc_order_marks(nfc_span *s, mote_error *err)
{
    for (size_t i = 0; i < s->n;) {
        size_t from = i;
        while (i < s->n && nfc_combining_class(s->c[i]) != 0)
            i++;
        if (i - from > FEW_MARKS) {
            TRY(nfc_reserve(&s->spare, &s->spare_room, i - from, err));
            nfc_order_many(s->c + from, s->spare, i - from);
        } else if (i - from > 1) {
            nfc_order_few(s->c + from, i - from);
        }
        if (i == from)
            i++;
    }
    return MOTE_OK;
}

/* Appends the NFC of a span: one inert code point, then active ones. */
static mote_status nfc_append(const tok_classes *c, nfc_span *s, const unsigned char *text,
                              size_t n, tok_buf *out, mote_error *err)
{
    size_t at = 0, bytes;
    uint32_t first = utf8_get(text, &bytes);
    if (tok_class(c, first) & CLASS_NFC_UNKNOWN) {
        TRY(buf_append(out, text, bytes, err));
        at = bytes;
    }
    s->n = 0;
    for (; at < n; at += bytes) {
        const utf8proc_int32_t c32 = (utf8proc_int32_t)utf8_get(text + at, &bytes);
        if (s->room - s->n < MAX_PARTS) /* two bytes a code point: most need no second round */
            TRY(nfc_reserve(&s->c, &s->room, s->n + s->n / 2 + (n - at) / 2 + MAX_PARTS, err));
        utf8proc_ssize_t parts =
            utf8proc_decompose_char(c32, s->c + s->n, (utf8proc_ssize_t)(s->room - s->n),
                                    UTF8PROC_STABLE | UTF8PROC_DECOMPOSE, NULL);
        if (parts < 0 || (size_t)parts > s->room - s->n)
            return err_set(err, MOTE_E_MEMORY, "utf8proc: decomposition is longer than expected");
        s->n += (size_t)parts;
    }
    TRY(nfc_order_marks(s, err));
    utf8proc_ssize_t joined =
        utf8proc_normalize_utf32(s->c, (utf8proc_ssize_t)s->n, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    for (utf8proc_ssize_t i = 0; i < joined; i++) {
        TRY(buf_reserve(out, 4, err));
        out->n += utf8_put(out->p + out->n, (uint32_t)s->c[i]);
    }
    return MOTE_OK;
}

/* ---- the text ---- */

static bool nfc_active_at(const tok_classes *c, const unsigned char *text, size_t at, size_t *bytes)
{
    return (tok_class(c, utf8_get(text + at, bytes)) & CLASS_NFC_ACTIVE) != 0;
}

static mote_status nfc_run(const tok_classes *c, nfc_span *s, const unsigned char *text, size_t n,
                           tok_buf *out, mote_error *err)
{
    size_t copied = 0; /* text before this is already in `out` */
    size_t inert = 0;  /* start of the last inert code point */
    size_t at = 0, bytes;
    while (at < n) {
        if (!nfc_active_at(c, text, at, &bytes)) {
            inert = at;
            at += bytes;
            continue;
        }
        TRY(buf_append(out, text + copied, inert - copied, err));
        while (at < n && nfc_active_at(c, text, at, &bytes))
            at += bytes;
        TRY(nfc_append(c, s, text + inert, at - inert, out, err));
        copied = at; /* an inert code point, or the end */
    }
    return buf_append(out, text + copied, n - copied, err);
}

mote_status tok_nfc(const tok_classes *c, const unsigned char *text, size_t n, tok_buf *out,
                    mote_error *err)
{
    nfc_span s = {0};
    out->n = 0;
    mote_status status = buf_reserve(out, n, err);
    if (status == MOTE_OK && n > 0)
        status = nfc_run(c, &s, text, n, out, err);
    mem_free(s.c);
    mem_free(s.spare);
    return status;
}
