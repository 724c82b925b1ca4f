/* SPDX-License-Identifier: Apache-2.0 */
/* nfc.h - makes text well-formed and canonical before it is split. */
#ifndef MOTE_TOK_NFC_H
#define MOTE_TOK_NFC_H

#include "base/str.h"
#include "tok/classes.h"

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
