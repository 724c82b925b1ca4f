/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tok_sample.h - a small vocabulary in a GGUF file made in memory, for the tokenizer tests.
 *
 * All 256 bytes, what a few merges make, an unused id, some added tokens and an
 * unused tail. A test may change the lists before it makes the file.
 */
#ifndef MOTE_TESTS_UNIT_TOK_SAMPLE_H
#define MOTE_TESTS_UNIT_TOK_SAMPLE_H

#include "support/gguf_build.h"
#include "tok/tok.h"

enum { SAMPLE_MAX_TOKENS = 2048, SAMPLE_MAX_MERGES = 64, SAMPLE_N_MERGES = 20 };

typedef struct tok_sample {
    const char *model, *pre; /* NULL: left out, as everywhere below */
    const char *tokens[SAMPLE_MAX_TOKENS];
    int32_t types[SAMPLE_MAX_TOKENS]; /* 1 normal, 3 control, 4 user-defined, 5 unused */
    uint64_t n_tokens, n_types;       /* 0: left out */
    const char *merges[SAMPLE_MAX_MERGES];
    uint64_t n_merges;
    bool no_merges;
    int64_t eos; /* -1: left out */
    uint32_t first_added;
    char bytes[256][3];                 /* each byte as the character that stands for it */
    char made[SAMPLE_MAX_MERGES][2048]; /* what the merges make */
    test_gguf file;
    gguf *g;
} tok_sample;

/* The sound vocabulary; to be freed with tok_sample_free. */
tok_sample *tok_sample_new(void);
void tok_sample_free(tok_sample *s);

/* Writes the metadata but for what is left out; the caller may write more. */
void tok_sample_begin(tok_sample *s);
/* Reads what was written back as a GGUF. */
void tok_sample_finish(tok_sample *s);
/* Both, and makes a tok of it. */
mote_status tok_sample_open(tok_sample *s, tok **out, mote_error *err);

#endif
