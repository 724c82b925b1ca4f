/* SPDX-License-Identifier: Apache-2.0 */
/*
 * added.c - the added tokens: <|im_start|>, <think> and their like.
 *
 * They are looked for in the text as it came, leftmost first, the longest of
 * several at one place, and only when the caller says that the text may contain
 * them. The sorted list is narrowed byte by byte, so the cost of a place depends
 * on how far the text agrees with some added token and not on their number.
 */
#include "base/utf8.h"
#include "tok/tok_int.h"
#include "tok/unicode.h"

static const unsigned char *bytes_of(const tok *t, uint32_t number, size_t *n)
{
    str text = tok_text(t, t->added[number].id);
    *n = text.n;
    return (const unsigned char *)text.p;
}

static int compare(const tok *t, uint32_t a, uint32_t b)
{
    size_t na, nb;
    const unsigned char *pa = bytes_of(t, a, &na), *pb = bytes_of(t, b, &nb);
    int order = memcmp(pa, pb, na < nb ? na : nb);
    return order != 0 ? order : (na > nb) - (na < nb);
}

mote_status tok_added_sort(tok *t, mote_error *err)
{
    for (uint32_t i = 0; i < t->n_added; i++) { /* few, so insertion sort */
        uint32_t at = i;
        for (; at > 0; at--) {
            int order = compare(t, t->by_text[at - 1], i);
            if (order == 0)
                return err_set(err, MOTE_E_FORMAT, "added tokens %u and %u are the same text",
                               t->added[t->by_text[at - 1]].id, t->added[i].id);
            if (order < 0)
                break;
            t->by_text[at] = t->by_text[at - 1];
        }
        t->by_text[at] = i;
        size_t n;
        t->starts_added[bytes_of(t, i, &n)[0]] = true;
    }
    return MOTE_OK;
}

/* In by_text[low .. high), whose texts are longer than `depth` and agree before it: the first
 * whose byte there is not below `byte`. */
static uint32_t lower_bound(const tok *t, uint32_t low, uint32_t high, size_t depth, unsigned byte)
{
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        size_t n;
        if (bytes_of(t, t->by_text[middle], &n)[depth] < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The longest added token that the text begins with; false: none. */
static bool longest_at(const tok *t, const unsigned char *text, size_t n, uint32_t *id)
{
    uint32_t low = 0, high = t->n_added;
    bool found = false;
    for (size_t depth = 0; low < high; depth++) {
        size_t length;
        bytes_of(t, t->by_text[low], &length);
        if (length == depth) { /* the shortest of those that agree stands first */
            *id = t->added[t->by_text[low]].id;
            found = true;
            low++;
        }
        if (depth == n)
            break;
        high = lower_bound(t, low, high, depth, text[depth] + 1u);
        low = lower_bound(t, low, high, depth, text[depth]);
    }
    return found;
}

size_t tok_added_find(const tok *t, const unsigned char *text, size_t n, size_t at, uint32_t *id)
{
    for (; at < n; at++)
        if (t->starts_added[text[at]] && longest_at(t, text + at, n - at, id))
            return at;
    return n;
}

mote_token tok_find_added(const tok *t, const char *text)
{
    uint32_t id;
    size_t n = strlen(text);
    if (!longest_at(t, (const unsigned char *)text, n, &id) || tok_text(t, id).n != n)
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

/* ---- text to ids, step by step as the reference takes them. repair bytes that are not UTF-8
 * become U+FFFD added with TOK_CONTROL, added tokens are cut out of the raw text normalise each
 * piece between them, to NFC split into words merge each word The first and the third copy the
 * text, but only if there is something to do. ---- */

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

/* ---- ids to text, a token at a time. A token is a run of bytes, and a character may be spread
 * over several of them. What may still become a character is held back, at most three bytes; what
 * never can is replaced as soon as that is known, so a piece of text that was given out is final.
 * ---- */

enum { MAX_HELD = 3 };

/* Every byte a mistake of its own is the longest that a piece can get. */
_Static_assert((MAX_HELD + TOK_MAX_TOKEN) * sizeof UTF8_REPLACEMENT <= MOTE_PIECE_BYTES,
               "a piece of text always has room");

typedef struct piece {
    char *text;
    size_t room, n;
    bool full; /* a character did not fit: nothing after it may be written either */
} piece;

static void put(piece *p, const unsigned char *bytes, size_t n)
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
            put(&out, bytes + at, (size_t)length);
            at += (size_t)length;
        } else { /* a mistake, or a beginning that nothing follows any more */
            put(&out, UTF8_REPLACEMENT, sizeof UTF8_REPLACEMENT);
            at += length < 0 ? (size_t)-length : n - at;
        }
    }
    stream->n_held = (uint8_t)(n - at);
    memcpy(stream->held, bytes + at, n - at);
    return out.n;
}
