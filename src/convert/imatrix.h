/* SPDX-License-Identifier: Apache-2.0 */
/*
 * imatrix.h - importance matrices: how much each input of a matrix matters.
 *
 * For each matrix of a model the file has, over the tokens of a text, the sums of the squares of
 * each input. Encoders use the means as weights of errors: an error in a column with large inputs
 * changes the output more.
 *
 * Both file formats of llama.cpp are read: GGUF with the tensors NAME.in_sum2 and NAME.counts, and
 * the older binary format (.dat). The file is untrusted input.
 */
#ifndef MOTE_CONVERT_IMATRIX_H
#define MOTE_CONVERT_IMATRIX_H

#include "base/err.h"
#include "base/str.h"

enum { IMATRIX_MAX_ENTRIES = 65536, IMATRIX_MAX_NAME = 256 };

/* Of one matrix of the model. */
typedef struct imatrix_entry {
    str name;       /* "blk.0.ffn_up.weight" */
    uint64_t n;     /* number of inputs; of several matrices in one tensor, all of them */
    float *weights; /* [n] mean squares: finite, not negative */
} imatrix_entry;

/* Immutable after imatrix_read; any thread. */
typedef struct imatrix imatrix;

/* MOTE_E_FORMAT: not an importance matrix, or a damaged one. */
mote_status imatrix_open(imatrix **out, const char *path, mote_error *err);
/* The same from memory, which may be freed afterwards. */
mote_status imatrix_read(imatrix **out, const void *bytes, uint64_t n_bytes, mote_error *err);
void imatrix_free(imatrix *m);

/* Entries in the order of their names; at least one. */
uint32_t imatrix_n(const imatrix *m);
const imatrix_entry *imatrix_at(const imatrix *m, uint32_t i);
/* NULL: the text did not use this matrix. */
const imatrix_entry *imatrix_find(const imatrix *m, str name);

/* The text that the file was made from, and its number of chunks. Empty and 0: not recorded. */
str imatrix_dataset(const imatrix *m);
uint32_t imatrix_chunks(const imatrix *m);

#endif
