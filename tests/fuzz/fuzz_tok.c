/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_tok.c - any bytes as text: encoding and decoding give the same text, repaired and in NFC.
 * Bytes with the GGUF magic are read as a vocabulary: an error, or a usable tokenizer.
 */
#include "base/mem.h"
#include "fuzz/fuzz.h"
#include "tok/unicode.h"
#include "base/utf8.h"
#include "unit/tok_sample.h"

#include <stdio.h>
#include <stdlib.h>
#include <utf8proc.h>

/* Created with the first input and kept for all inputs. */
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

static bool bytes_equal(const void *a, size_t n_a, const void *b, size_t n_b)
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
    demand(tok_sample_open(sample_file, &sample, NULL) == MOTE_OK, "tok_sample_open failed");
    demand(tok_classes_init(&classes, NULL) == MOTE_OK, "out of memory");
    atexit(drop_sample);
}

/* The expected decoded text: repaired, then NFC. */
static void expected_text(const uint8_t *data, size_t n, tok_buf *out)
{
    tok_buf repaired = {0};
    tok_text_state state = tok_text_scan(&classes, data, n);
    demand(tok_repair(data, n, &repaired, NULL) == MOTE_OK, "out of memory");
    demand(state.ill_formed == !bytes_equal(repaired.p, repaired.n, data, n),
           "ill_formed disagrees with tok_repair");
    demand(tok_nfc(&classes, repaired.p, repaired.n, out, NULL) == MOTE_OK, "out of memory");
    demand(state.active || bytes_equal(out->p, out->n, repaired.p, repaired.n),
           "text without NFC-active characters was changed");
    demand(!tok_text_scan(&classes, out->p, out->n).ill_formed, "NFC produced invalid UTF-8");
    tok_buf_fini(&repaired);
}

/* utf8proc uses a newer Unicode version and treats U+11A7 as a Hangul final. For other text its NFC
 * must be equal. */
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
    demand(length >= 0 && bytes_equal(other, (size_t)length, got->p, got->n),
           "utf8proc gives another NFC");
    free(other);
}

static void check_normalisation(const uint8_t *data, size_t n, const tok_buf *once)
{
    tok_buf twice = {0};
    demand(tok_nfc(&classes, once->p, once->n, &twice, NULL) == MOTE_OK, "out of memory");
    demand(bytes_equal(twice.p, twice.n, once->p, once->n), "NFC is not idempotent");
    tok_buf_fini(&twice);
    if (!tok_text_scan(&classes, data, n).ill_formed && utf8proc_may_judge(data, n))
        compare_with_utf8proc(data, n, once);
}

/* Decodes the ids with the stream decoder and by concatenating token bytes. */
static void check_decoding(const tok *t, const mote_token *ids, size_t n_ids, const tok_buf *wanted)
{
    mote_text_stream stream = {0};
    char piece[MOTE_PIECE_BYTES];
    size_t at = 0, streamed = 0;
    for (size_t i = 0; i <= n_ids; i++) {
        mote_token id = i < n_ids ? ids[i] : -1;
        size_t n = tok_stream_next(t, &stream, id, piece, sizeof piece);
        demand(n <= wanted->n - streamed && (n == 0 || memcmp(wanted->p + streamed, piece, n) == 0),
               "the stream decoder gives another text");
        streamed += n;
        str bytes = tok_bytes(t, id);
        demand(bytes.n <= wanted->n - at &&
                   (bytes.n == 0 || memcmp(wanted->p + at, bytes.p, bytes.n) == 0),
               "the token bytes give another text");
        at += bytes.n;
    }
    demand(at == wanted->n && streamed == wanted->n, "decoded text is incomplete");
}

static void check_text(const tok *t, const uint8_t *data, size_t size, unsigned flags)
{
    str text = {(const char *)data, size};
    size_t n = 0, n_again = 0;
    demand(tok_encode(t, text, flags, NULL, 0, &n, NULL) == MOTE_OK, "out of memory");
    mote_token *ids = malloc((n + 1) * sizeof *ids);
    demand(ids != NULL, "out of memory");
    ids[n] = -7;
    demand(tok_encode(t, text, flags, ids, n, &n_again, NULL) == MOTE_OK, "out of memory");
    demand(n == n_again && ids[n] == -7, "a second call gives another count");
    for (size_t i = 0; i < n; i++)
        demand(ids[i] >= 0 && (uint32_t)ids[i] < tok_n_tokens(t), "token id out of range");
    tok_buf wanted = {0};
    expected_text(data, size, &wanted);
    /* With added tokens NFC applies to the text between them, not to the whole. */
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
               "failed without an error text");
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
    demand(mem_count().blocks == before.blocks, "memory leak");
    return 0;
}
