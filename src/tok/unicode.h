/* SPDX-License-Identifier: Apache-2.0 */
/*
 * classes.h - what the tokenizer needs to know about a code point.
 *
 * The splitter wants the general category, coarsely; the normaliser wants to
 * know whether it has to look at the code point at all. The reference takes the
 * first from Unicode 16.0 and the second from Unicode 9.0, so does this table.
 */
#ifndef MOTE_TOK_UNICODE_H
#define MOTE_TOK_UNICODE_H

#include "base/err.h"
#include "base/str.h"

enum {
    CLASS_OTHER = 0, /* symbols, punctuation, controls, unassigned */
    CLASS_LETTER = 1,
    CLASS_MARK = 2,
    CLASS_NUMBER = 3,
    CLASS_SPACE = 4,       /* White_Space, CR and LF too */
    CLASS_KIND = 7,        /* mask of the above */
    CLASS_NFC_ACTIVE = 8,  /* NFC may move it, replace it or join it to what stands before it */
    CLASS_NFC_UNKNOWN = 16 /* not in Unicode 9.0: a stranger to NFC, never moved nor joined */
};

enum { CLASS_BLOCK = 128, CLASS_CODE_POINTS = 0x110000 };

/* Two stages: of[block[code point / 128] * 128 + code point % 128]. */
typedef struct tok_classes {
    uint16_t block[CLASS_CODE_POINTS / CLASS_BLOCK];
    uint8_t *of; /* [n_blocks][CLASS_BLOCK]; block 0 is ASCII */
    uint32_t n_blocks;
} tok_classes;

mote_status tok_classes_init(tok_classes *c, mote_error *err);
void tok_classes_fini(tok_classes *c);

static inline unsigned tok_class(const tok_classes *c, uint32_t code_point)
{
    return c
        ->of[(size_t)c->block[code_point / CLASS_BLOCK] * CLASS_BLOCK + code_point % CLASS_BLOCK];
}

/* ---- makes text well-formed and canonical before it is split. ---- */

/* Bytes that grow. All zero is an empty one. */
typedef struct tok_buf {
    unsigned char *p;
    size_t n;
    size_t room;
} tok_buf;

void tok_buf_fini(tok_buf *b);

typedef struct tok_text_state {
    bool ill_formed; /* not UTF-8: needs tok_repair */
    bool active;     /* NFC may change it: needs tok_nfc */
} tok_text_state;

/* One pass over a stranger's text. `active` is right even if the text is ill-formed. */
tok_text_state tok_text_look(const tok_classes *c, const unsigned char *text, size_t n);

/* The text with every mistake replaced by U+FFFD. */
mote_status tok_repair(const unsigned char *text, size_t n, tok_buf *out, mote_error *err);

/* The NFC, as of Unicode 9.0, of well-formed text. Replaces what is in `out`. */
mote_status tok_nfc(const tok_classes *c, const unsigned char *text, size_t n, tok_buf *out,
                    mote_error *err);

#endif
