/* SPDX-License-Identifier: Apache-2.0 */
/* tok_sample.c - see tok_sample.h. */
#include "unit/tok_sample.h"

#include <stdio.h>
#include <stdlib.h>

/* In rank order. "\xC4\xA0" encodes a space, "\xC3\x83" and "\xC2\xA9" the two bytes of U+00E9.
 * The merges of a, b and c overlap, so rank order and tie order matter in long words. */
static const char *const merges[SAMPLE_N_MERGES] = {
    "l l",       "h e",
    "he ll",     "\xC4\xA0 hell",
    "hell o",    "\xC4\xA0hell o",
    "a b",       "b c",
    "a a",       "aa aa",
    "aaaa aaaa", "ab c",
    "c a",       "ca ca",
    "abc abc",   "bc bc",
    "b b",       "\xC3\x83 \xC2\xA9",
    "c c",       "\xC4\xA0 \xC4\xA0",
};

static const struct {
    const char *text;
    int32_t type;
} added[] = {
    {"<|endoftext|>", 3}, {"<|im_start|>", 3}, {"<|im_end|>", 3},        {"<think>", 4},
    {"</think>", 4},      {"<|im", 4},         {"\xC3\xA9!\xC3\xA9", 4},
};

enum { N_ADDED = sizeof added / sizeof added[0], N_TAIL = 9 };

/* Printable Latin-1 characters encode themselves; other bytes map to U+0100 and up. */
static void sample_add_bytes(tok_sample *s)
{
    unsigned next = 256;
    for (unsigned b = 0; b < 256; b++) {
        bool plain = (b > 32 && b < 127) || (b > 160 && b != 173);
        unsigned c = plain ? b : next++;
        char *out = s->bytes[b];
        if (c >= 128)
            *out++ = (char)(0xC0 | c >> 6);
        *out = (char)(c >= 128 ? 0x80 | (c & 63) : c);
    }
}

static void sample_add(tok_sample *s, const char *text, int32_t type)
{
    s->tokens[s->n_tokens] = text;
    s->types[s->n_tokens++] = type;
    s->n_types = s->n_tokens;
}

tok_sample *tok_sample_new(void)
{
    tok_sample *s = calloc(1, sizeof *s);
    if (s == NULL)
        abort();
    s->model = "gpt2";
    s->pre = "qwen35";
    sample_add_bytes(s);
    for (unsigned b = 0; b < 256; b++)
        sample_add(s, s->bytes[b], 1);
    for (unsigned i = 0; i < SAMPLE_N_MERGES; i++) {
        const char *space = strchr(merges[i], ' ');
        s->merges[s->n_merges++] = merges[i];
        snprintf(s->made[i], sizeof s->made[i], "%.*s%s", (int)(space - merges[i]), merges[i],
                 space + 1);
        sample_add(s, s->made[i], 1);
        if (i == 5)
            sample_add(s, "[PAD]", 5);
    }
    s->first_added = (uint32_t)s->n_tokens;
    for (unsigned i = 0; i < N_ADDED; i++)
        sample_add(s, added[i].text, added[i].type);
    for (unsigned i = 0; i < N_TAIL; i++)
        sample_add(s, "[PAD]", 5);
    s->eos = s->first_added + 2;
    return s;
}

void tok_sample_free(tok_sample *s)
{
    gguf_free(s->g);
    test_gguf_free(&s->file);
    free(s);
}

void tok_sample_begin(tok_sample *s)
{
    test_gguf *f = &s->file;
    gguf_free(s->g);
    s->g = NULL;
    test_gguf_free(f);
    test_gguf_begin(f);
    if (s->model != NULL)
        test_gguf_str(f, "tokenizer.ggml.model", s->model);
    if (s->pre != NULL)
        test_gguf_str(f, "tokenizer.ggml.pre", s->pre);
    if (s->n_tokens > 0)
        test_gguf_strs(f, "tokenizer.ggml.tokens", s->tokens, s->n_tokens);
    if (s->n_types > 0)
        test_gguf_i32s(f, "tokenizer.ggml.token_type", s->types, s->n_types);
    if (!s->no_merges)
        test_gguf_strs(f, "tokenizer.ggml.merges", s->merges, s->n_merges);
    if (s->eos >= 0)
        test_gguf_u32(f, "tokenizer.ggml.eos_token_id", (uint32_t)s->eos);
}

void tok_sample_finish(tok_sample *s)
{
    mote_error err;
    test_gguf_finish(&s->file);
    if (gguf_read(&s->g, s->file.bytes, s->file.n, &err) != MOTE_OK) {
        fprintf(stderr, "tok_sample: %s\n", err.text);
        abort();
    }
}

mote_status tok_sample_open(tok_sample *s, tok **out, mote_error *err)
{
    tok_sample_begin(s);
    tok_sample_finish(s);
    return tok_new(out, s->g, err);
}
