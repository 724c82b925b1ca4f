/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unicode.h - Unicode data and normalisation for the tokenizer.
 *
 * The pre-tokenizer needs a coarse general category. The normaliser needs to know whether NFC can
 * affect a code point. Like the reference, the table uses Unicode 16.0 for the first and 9.0 for
 * the second.
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
    CLASS_SPACE = 4,       /* White_Space, including CR and LF */
    CLASS_KIND = 7,        /* mask of the above */
    CLASS_NFC_ACTIVE = 8,  /* NFC may reorder, replace or compose it with its left neighbour */
    CLASS_NFC_UNKNOWN = 16 /* not in Unicode 9.0: NFC leaves it unchanged */
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

/* ---- normalisation ---- */

/* A growing byte buffer. Zero-initialised: empty. */
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

/* Classifies a text in one pass. `active` is valid even if the text is ill-formed. */
tok_text_state tok_text_scan(const tok_classes *c, const unsigned char *text, size_t n);

/* Replaces every UTF-8 error by U+FFFD. */
mote_status tok_repair(const unsigned char *text, size_t n, tok_buf *out, mote_error *err);

/* NFC of Unicode 9.0 for well-formed text. Overwrites `out`. */
mote_status tok_nfc(const tok_classes *c, const unsigned char *text, size_t n, tok_buf *out,
                    mote_error *err);

#endif
