/* SPDX-License-Identifier: Apache-2.0 */
/*
 * encode.c - text to ids, step by step as the reference takes them.
 *
 *   repair      bytes that are not UTF-8 become U+FFFD
 *   added       with TOK_CONTROL, added tokens are cut out of the raw text
 *   normalise   each piece between them, to NFC
 *   split       into words
 *   merge       each word
 *
 * The first and the third copy the text, but only if there is something to do.
 */
#include "tok/bpe.h"
#include "tok/nfc.h"
#include "tok/pretokenize.h"

typedef struct encoder {
    const tok *t;
    bpe words;
    bool active; /* somewhere in the text there is something to normalise */
    tok_buf repaired;
    tok_buf normalised;
} encoder;

/* A piece of text without added tokens, or whose added tokens count as text. */
static mote_status encode_plain(encoder *e, const unsigned char *text, size_t n, mote_error *err)
{
    const tok_classes *c = &e->t->classes;
    if (e->active && tok_text_look(c, text, n).active) {
        TRY(tok_nfc(c, text, n, &e->normalised, err));
        text = e->normalised.p;
        n = e->normalised.n;
    }
    for (size_t at = 0; at < n;) {
        size_t end = tok_word_end(c, text, n, at);
        TRY(bpe_word(&e->words, text + at, end - at, n - at, err));
        at = end;
    }
    return MOTE_OK;
}

static mote_status encode_with_added(encoder *e, const unsigned char *text, size_t n,
                                     mote_error *err)
{
    for (size_t at = 0; at < n;) {
        uint32_t id = 0;
        size_t found = tok_added_find(e->t, text, n, at, &id);
        TRY(encode_plain(e, text + at, found - at, err));
        at = found;
        if (found < n) {
            bpe_put(&e->words, id);
            at += tok_text(e->t, id).n;
        }
    }
    return MOTE_OK;
}

static mote_status encode(encoder *e, const unsigned char *text, size_t n, unsigned flags,
                          mote_error *err)
{
    TRY(bpe_init(&e->words, e->t, n, err));
    tok_text_state state = tok_text_look(&e->t->classes, text, n);
    e->active = state.active;
    if (state.ill_formed) {
        TRY(tok_repair(text, n, &e->repaired, err));
        text = e->repaired.p;
        n = e->repaired.n;
    }
    if (flags & TOK_CONTROL)
        return encode_with_added(e, text, n, err);
    return encode_plain(e, text, n, err);
}

mote_status tok_encode(const tok *t, str text, unsigned flags, mote_token *ids, size_t room,
                       size_t *n, mote_error *err)
{
    *n = 0;
    if (text.n > TOK_MAX_TEXT)
        return err_set(err, MOTE_E_ARG, "a text of %zu bytes is too long: at most %d", text.n,
                       TOK_MAX_TEXT);
    encoder e = {.t = t, .words = {.ids = ids, .room = room}};
    mote_status status = encode(&e, (const unsigned char *)text.p, text.n, flags, err);
    if (status == MOTE_OK)
        *n = e.words.n;
    bpe_fini(&e.words);
    tok_buf_fini(&e.repaired);
    tok_buf_fini(&e.normalised);
    return status;
}
