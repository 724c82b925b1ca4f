/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream.c - ids to text, a token at a time.
 *
 * A token is a run of bytes, and a character may be spread over several of
 * them. What may still become a character is held back, at most three bytes;
 * what never can is replaced as soon as that is known, so a piece of text that
 * was given out is final.
 */
#include "tok/parts.h"
#include "base/utf8.h"

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
