/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_tok.c - any bytes as text: encoded and decoded they are the same text, made
 * well-formed and normalised. Bytes that begin as a GGUF file are opened as a
 * vocabulary instead: an error, or a tokenizer that can be used.
 */
#include "base/mem.h"
#include "fuzz/fuzz.h"
#include "tok/unicode.h"
#include "base/utf8.h"
#include "unit/tok_sample.h"

#include <stdio.h>
#include <stdlib.h>
#include <utf8proc.h>

/* Made with the first input and kept: only the inputs change. */
static tok_sample *sample_file;
static tok *sample;
static tok_classes classes;

static void demand(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "fuzz_tok: %s\n", what);
    abort();
}

static bool same(const void *a, size_t n_a, const void *b, size_t n_b)
{
    return str_eq((str){a, n_a}, (str){b, n_b});
}

static void drop_sample(void)
{
    tok_classes_fini(&classes);
    tok_free(sample);
    tok_sample_free(sample_file);
}

static void make_sample(void)
{
    sample_file = tok_sample_new();
    demand(tok_sample_open(sample_file, &sample, NULL) == MOTE_OK, "the sample does not open");
    demand(tok_classes_init(&classes, NULL) == MOTE_OK, "no memory");
    atexit(drop_sample);
}

/* The text that the ids should give back: repaired, then normalised. */
static void expect(const uint8_t *data, size_t n, tok_buf *out)
{
    tok_buf repaired = {0};
    tok_text_state state = tok_text_scan(&classes, data, n);
    demand(tok_repair(data, n, &repaired, NULL) == MOTE_OK, "no memory");
    demand(state.ill_formed == !same(repaired.p, repaired.n, data, n),
           "mistakes are seen where there are none, or not seen");
    demand(tok_nfc(&classes, repaired.p, repaired.n, out, NULL) == MOTE_OK, "no memory");
    demand(state.active || same(out->p, out->n, repaired.p, repaired.n),
           "text without anything active was changed");
    demand(!tok_text_scan(&classes, out->p, out->n).ill_formed, "normalised text is ill-formed");
    tok_buf_fini(&repaired);
}

/* utf8proc knows a younger Unicode and takes U+11A7 for a Hangul final; but for that its NFC is a
 * second opinion. */
static bool utf8proc_may_judge(const unsigned char *text, size_t n)
{
    size_t bytes;
    for (size_t at = 0; at < n; at += bytes) {
        uint32_t c = utf8_get(text + at, &bytes);
        if (c == 0x11A7 || tok_class(&classes, c) & CLASS_NFC_UNKNOWN)
            return false;
    }
    return true;
}

static void compare_with_utf8proc(const unsigned char *text, size_t n, const tok_buf *got)
{
    utf8proc_uint8_t *other = NULL;
    utf8proc_ssize_t length =
        utf8proc_map(text, (utf8proc_ssize_t)n, &other, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    demand(length >= 0 && same(other, (size_t)length, got->p, got->n),
           "utf8proc normalises otherwise");
    free(other);
}

static void check_normalisation(const uint8_t *data, size_t n, const tok_buf *once)
{
    tok_buf twice = {0};
    demand(tok_nfc(&classes, once->p, once->n, &twice, NULL) == MOTE_OK, "no memory");
    demand(same(twice.p, twice.n, once->p, once->n), "normalising twice is not normalising once");
    tok_buf_fini(&twice);
    if (!tok_text_scan(&classes, data, n).ill_formed && utf8proc_may_judge(data, n))
        compare_with_utf8proc(data, n, once);
}

/* The ids of the text as one text again, by the stream decoder and by whole tokens. */
static void check_decoding(const tok *t, const mote_token *ids, size_t n_ids, const tok_buf *wanted)
{
    mote_text_stream stream = {0};
    char piece[MOTE_PIECE_BYTES];
    size_t at = 0, streamed = 0;
    for (size_t i = 0; i <= n_ids; i++) {
        mote_token id = i < n_ids ? ids[i] : -1;
        size_t n = tok_stream_next(t, &stream, id, piece, sizeof piece);
        demand(n <= wanted->n - streamed && (n == 0 || memcmp(wanted->p + streamed, piece, n) == 0),
               "the stream gives other text");
        streamed += n;
        str bytes = tok_bytes(t, id);
        demand(bytes.n <= wanted->n - at &&
                   (bytes.n == 0 || memcmp(wanted->p + at, bytes.p, bytes.n) == 0),
               "the tokens have other bytes");
        at += bytes.n;
    }
    demand(at == wanted->n && streamed == wanted->n, "some of the text is lost");
}

static void check_text(const tok *t, const uint8_t *data, size_t size, unsigned flags)
{
    str text = {(const char *)data, size};
    size_t n = 0, n_again = 0;
    demand(tok_encode(t, text, flags, NULL, 0, &n, NULL) == MOTE_OK, "no memory");
    mote_token *ids = malloc((n + 1) * sizeof *ids);
    demand(ids != NULL, "no memory");
    ids[n] = -7;
    demand(tok_encode(t, text, flags, ids, n, &n_again, NULL) == MOTE_OK, "no memory");
    demand(n == n_again && ids[n] == -7, "a second call counts otherwise");
    for (size_t i = 0; i < n; i++)
        demand(ids[i] >= 0 && (uint32_t)ids[i] < tok_n_tokens(t), "an id is out of range");
    tok_buf wanted = {0};
    expect(data, size, &wanted);
    /* With added tokens the pieces between them are normalised, not the whole. */
    if (flags == 0 || !tok_text_scan(&classes, data, size).active)
        check_decoding(t, ids, n, &wanted);
    if (flags == 0)
        check_normalisation(data, size, &wanted);
    tok_buf_fini(&wanted);
    free(ids);
}

static void check_vocabulary(const uint8_t *data, size_t size)
{
    static const char text[] = "<|im_start|>user\nhello hello \xC3\xA9 e\xCC\x81 aaaaaaaaabcabc12";
    mote_error err = {0};
    gguf *g;
    tok *t;
    if (gguf_read(&g, data, size, &err) != MOTE_OK)
        return;
    const mote_status status = tok_new(&t, g, &err);
    if (status == MOTE_OK) {
        check_text(t, (const uint8_t *)text, sizeof text - 1, 0);
        check_text(t, (const uint8_t *)text, sizeof text - 1, TOK_CONTROL);
        tok_free(t);
    } else {
        demand(t == NULL && err.status == status && err.text[0] != 0,
               "a failure without its error");
    }
    gguf_free(g);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (sample == NULL)
        make_sample();
    const mem_stats before = mem_count();
    if (size >= 4 && memcmp(data, "GGUF", 4) == 0) {
        check_vocabulary(data, size);
    } else {
        check_text(sample, data, size, 0);
        check_text(sample, data, size, TOK_CONTROL);
    }
    demand(mem_count().blocks == before.blocks, "memory is left behind");
    return 0;
}
