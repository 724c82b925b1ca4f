/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tok.c - encoding, incremental decoding, and added tokens.
 *
 * Encoding follows the reference step by step:
 *   1. Bytes that are not UTF-8 become U+FFFD.
 *   2. With TOK_CONTROL, added tokens (<|im_start|>, <think>, ...) are cut out of the text.
 *   3. Each piece between them is normalised to NFC.
 *   4. The pre-tokenizer splits it into words.
 *   5. BPE merges each word.
 * Steps 1 and 3 copy the text only if they change it.
 */
#include "base/utf8.h"
#include "tok/tok_int.h"
#include "tok/unicode.h"

/* ---- added tokens ----
 *
 * The leftmost match wins, and at one position the longest. The search narrows the sorted list byte
 * by byte, so its cost depends on the length of the match and not on the number of added tokens. */

static const unsigned char *added_bytes(const tok *t, uint32_t number, size_t *n)
{
    str text = tok_text(t, t->added[number].id);
    *n = text.n;
    return (const unsigned char *)text.p;
}

static int added_compare(const tok *t, uint32_t a, uint32_t b)
{
    size_t na, nb;
    const unsigned char *pa = added_bytes(t, a, &na), *pb = added_bytes(t, b, &nb);
    int order = memcmp(pa, pb, na < nb ? na : nb);
    return order != 0 ? order : (na > nb) - (na < nb);
}

mote_status tok_added_sort(tok *t, mote_error *err)
{
    for (uint32_t i = 0; i < t->n_added; i++) { /* few, so insertion sort */
        uint32_t at = i;
        for (; at > 0; at--) {
            int order = added_compare(t, t->by_text[at - 1], i);
            if (order == 0)
                return err_set(err, MOTE_E_FORMAT, "added tokens %u and %u have the same text",
                               t->added[t->by_text[at - 1]].id, t->added[i].id);
            if (order < 0)
                break;
            t->by_text[at] = t->by_text[at - 1];
        }
        t->by_text[at] = i;
        size_t n;
        t->starts_added[added_bytes(t, i, &n)[0]] = true;
    }
    return MOTE_OK;
}

/* All texts in by_text[low .. high) are longer than `depth` and equal before it. Returns the first
 * with text[depth] >= byte. */
static uint32_t added_lower_bound(const tok *t, uint32_t low, uint32_t high, size_t depth,
                                  unsigned byte)
{
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        size_t n;
        if (added_bytes(t, t->by_text[middle], &n)[depth] < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Finds the longest added token at the start of the text. False: none. */
static bool added_longest_at(const tok *t, const unsigned char *text, size_t n, uint32_t *id)
{
    uint32_t low = 0, high = t->n_added;
    bool found = false;
    for (size_t depth = 0; low < high; depth++) {
        size_t length;
        added_bytes(t, t->by_text[low], &length);
        if (length == depth) { /* the shortest match comes first */
            *id = t->added[t->by_text[low]].id;
            found = true;
            low++;
        }
        if (depth == n)
            break;
        high = added_lower_bound(t, low, high, depth, text[depth] + 1u);
        low = added_lower_bound(t, low, high, depth, text[depth]);
    }
    return found;
}

size_t tok_added_find(const tok *t, const unsigned char *text, size_t n, size_t at, uint32_t *id)
{
    for (; at < n; at++)
        if (t->starts_added[text[at]] && added_longest_at(t, text + at, n - at, id))
            return at;
    return n;
}

mote_token tok_find_added(const tok *t, const char *text)
{
    uint32_t id;
    size_t n = strlen(text);
    if (!added_longest_at(t, (const unsigned char *)text, n, &id) || tok_text(t, id).n != n)
        return -1;
    return (mote_token)id;
}

bool tok_is_control(const tok *t, mote_token id)
{
    uint32_t low = 0, high = t->n_added;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if ((mote_token)t->added[middle].id == id)
            return t->added[middle].control;
        if ((mote_token)t->added[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

/* ---- encoding ---- */

typedef struct encoder {
    const tok *t;
    bpe words;
    bool active; /* NFC may change some part of the text */
    tok_buf repaired;
    tok_buf normalised;
} encoder;

/* Encodes a piece of text; added tokens in it count as text. */
static mote_status encoder_plain(encoder *e, const unsigned char *text, size_t n, mote_error *err)
{
    const tok_classes *c = &e->t->classes;
    if (e->active && tok_text_scan(c, text, n).active) {
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

static mote_status encoder_with_added(encoder *e, const unsigned char *text, size_t n,
                                      mote_error *err)
{
    for (size_t at = 0; at < n;) {
        uint32_t id = 0;
        size_t found = tok_added_find(e->t, text, n, at, &id);
        TRY(encoder_plain(e, text + at, found - at, err));
        at = found;
        if (found < n) {
            bpe_put(&e->words, id);
            at += tok_text(e->t, id).n;
        }
    }
    return MOTE_OK;
}

static mote_status encoder_run(encoder *e, const unsigned char *text, size_t n, unsigned flags,
                               mote_error *err)
{
    TRY(bpe_init(&e->words, e->t, n, err));
    tok_text_state state = tok_text_scan(&e->t->classes, text, n);
    e->active = state.active;
    if (state.ill_formed) {
        TRY(tok_repair(text, n, &e->repaired, err));
        text = e->repaired.p;
        n = e->repaired.n;
    }
    if (flags & TOK_CONTROL)
        return encoder_with_added(e, text, n, err);
    return encoder_plain(e, text, n, err);
}

mote_status tok_encode_with_hook(const tok *t, str text, unsigned flags, mote_token *ids,
                                 size_t room, size_t *n, bool (*hook)(void *ctx), void *ctx,
                                 mote_error *err)
{
    *n = 0;
    if (text.n > TOK_MAX_TEXT)
        return err_set(err, MOTE_E_ARG, "text of %zu bytes is too long; at most %d", text.n,
                       TOK_MAX_TEXT);
    encoder e = {.t = t, .words = {.ids = ids, .room = room, .hook = hook, .hook_ctx = ctx}};
    mote_status status = encoder_run(&e, (const unsigned char *)text.p, text.n, flags, err);
    if (status == MOTE_OK)
        *n = e.words.n;
    bpe_fini(&e.words);
    tok_buf_fini(&e.repaired);
    tok_buf_fini(&e.normalised);
    return status;
}

mote_status tok_encode(const tok *t, str text, unsigned flags, mote_token *ids, size_t room,
                       size_t *n, mote_error *err)
{
    return tok_encode_with_hook(t, text, flags, ids, room, n, NULL, NULL, err);
}

size_t tok_least_tokens(const tok *t, str text)
{
    /* NFC makes a text shorter by at most 3.5: U+1FBE U+0308 U+0301 (7 bytes) to U+0390 (2). */
    enum { NFC_SHRINK = 4 };
    const unsigned char *p = (const unsigned char *)text.p;
    const size_t most =
        (size_t)t->longest * (tok_text_scan(&t->classes, p, text.n).active ? NFC_SHRINK : 1);
    return text.n / most + (text.n % most > 0);
}

/* ---- decoding ----
 *
 * A token is a byte string, and a character may span several tokens. An incomplete character is
 * held back (at most three bytes). An invalid byte is replaced at once, so returned text is final.
 */

enum { MAX_HELD = 3 };

/* The longest piece: every byte is one error. */
_Static_assert((MAX_HELD + TOK_MAX_TOKEN) * sizeof UTF8_REPLACEMENT <= MOTE_PIECE_BYTES,
               "one call always fits");

typedef struct piece {
    char *text;
    size_t room, n;
    bool full; /* a character did not fit; nothing is written after it */
} piece;

static void piece_put(piece *p, const unsigned char *bytes, size_t n)
{
    p->full |= n > p->room - p->n;
    if (p->full)
        return;
    memcpy(p->text + p->n, bytes, n);
    p->n += n;
}

str tok_bytes(const tok *t, mote_token id)
{
    if (id < 0 || (uint32_t)id >= t->n_tokens)
        return (str){"", 0};
    return tok_text(t, (uint32_t)id);
}

size_t tok_stream_next(const tok *t, mote_text_stream *stream, mote_token id, char *text,
                       size_t room)
{
    piece out = {text, room, 0, false};
    unsigned char bytes[MAX_HELD + TOK_MAX_TOKEN];
    size_t n = stream->n_held < MAX_HELD ? stream->n_held : MAX_HELD;
    memcpy(bytes, stream->held, n);
    str token = tok_bytes(t, id);
    memcpy(bytes + n, token.p, token.n);
    n += token.n;

    size_t at = 0;
    while (at < n) {
        int length = utf8_check(bytes + at, n - at);
        if (length == 0 && id >= 0)
            break;
        if (length > 0) {
            piece_put(&out, bytes + at, (size_t)length);
            at += (size_t)length;
        } else { /* invalid, or incomplete at the end of the stream */
            piece_put(&out, UTF8_REPLACEMENT, sizeof UTF8_REPLACEMENT);
            at += length < 0 ? (size_t)-length : n - at;
        }
    }
    stream->n_held = (uint8_t)(n - at);
    memcpy(stream->held, bytes + at, n - at);
    return out.n;
}
