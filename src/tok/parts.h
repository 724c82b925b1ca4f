/* SPDX-License-Identifier: Apache-2.0 */
/* parts.h - what a tok is made of; for the files of this folder only. */
#ifndef MOTE_TOK_PARTS_H
#define MOTE_TOK_PARTS_H

#include "tok/classes.h"
#include "tok/merges.h"
#include "tok/tok.h"

enum {
    TOK_MAX_TOKEN = 1024,  /* bytes of one token; the longest of Qwen 3.5 has 128 */
    TOK_MAX_ADDED = 1024,  /* added tokens; Qwen 3.5 has 33 */
    TOK_MAX_TEXT = 1 << 28 /* bytes of one text: far beyond any context */
};

/* Tokens that are found in the raw text before anything else is done to it. */
typedef struct tok_added {
    uint32_t id;
    bool control;
} tok_added;

struct tok {
    uint32_t n_tokens;
    uint32_t *starts;    /* [n_tokens + 1], of each token's bytes in text */
    unsigned char *text; /* [starts[n_tokens]] */
    uint32_t byte_id[256];
    tok_merges merges;
    tok_classes classes;
    tok_added *added;       /* [n_added], by id */
    uint32_t *by_text;      /* [n_added], numbers of added tokens in the order of their bytes */
    uint32_t n_added;       /* room for this many is held */
    bool starts_added[256]; /* some added token begins with this byte */
    mote_token ends[3];
};

static inline str tok_text(const tok *t, uint32_t id)
{
    return (str){(const char *)t->text + t->starts[id], t->starts[id + 1] - t->starts[id]};
}

/* ---- added.c ---- */

/* Sorts the added tokens by their text and refuses equal ones. */
mote_status tok_added_sort(tok *t, mote_error *err);

/* The first place at or after `at` where an added token stands, the longest one there. Returns n
 * if there is none. */
size_t tok_added_find(const tok *t, const unsigned char *text, size_t n, size_t at, uint32_t *id);

#endif
