/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tok_sample.h - a small vocabulary as a GGUF file in memory, for the tokenizer tests.
 *
 * It has all 256 bytes, the results of 20 merges, an unused id, seven added tokens and an unused
 * tail. A test can change the lists before it builds the file.
 */
#ifndef MOTE_TESTS_UNIT_TOK_SAMPLE_H
#define MOTE_TESTS_UNIT_TOK_SAMPLE_H

#include "support/gguf_build.h"
#include "tok/tok.h"

enum { SAMPLE_MAX_TOKENS = 2048, SAMPLE_MAX_MERGES = 64, SAMPLE_N_MERGES = 20 };

typedef struct tok_sample {
    const char *model, *pre; /* NULL: key omitted */
    const char *tokens[SAMPLE_MAX_TOKENS];
    int32_t types[SAMPLE_MAX_TOKENS]; /* 1 normal, 3 control, 4 user-defined, 5 unused */
    uint64_t n_tokens, n_types;       /* 0: key omitted */
    const char *merges[SAMPLE_MAX_MERGES];
    uint64_t n_merges;
    bool no_merges;
    int64_t eos; /* -1: key omitted */
    uint32_t first_added;
    char bytes[256][3];                 /* each byte in the byte alphabet */
    char made[SAMPLE_MAX_MERGES][2048]; /* results of the merges */
    test_gguf file;
    gguf *g;
} tok_sample;

/* The valid vocabulary. Free with tok_sample_free. */
tok_sample *tok_sample_new(void);
void tok_sample_free(tok_sample *s);

/* Writes the metadata without omitted keys; the caller can add more. */
void tok_sample_begin(tok_sample *s);
/* Finishes the file and reads it as a GGUF. */
void tok_sample_finish(tok_sample *s);
/* begin, finish, then tok_new. */
mote_status tok_sample_open(tok_sample *s, tok **out, mote_error *err);

#endif
