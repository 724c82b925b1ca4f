/* SPDX-License-Identifier: Apache-2.0 */
/* embedding.h - vectors as replies want them. */
#ifndef MOTE_SERVER_EMBEDDING_H
#define MOTE_SERVER_EMBEDDING_H

#include "server/answering.h"

/* The first n numbers, scaled to length 1, for mem_free; NULL: no memory. */
float *embedding_unit(const float *from, size_t n);
/* The vectors of all choices, as their `own`, so that they can be printed on the pool
 * (answering_print_aside). *n: numbers of each; 0 or too many: all. false: it failed. */
bool embedding_keep(answering *w, size_t *n);
/* As a JSON value: numbers, or the bytes of little-endian floats in base64. */
void embedding_put(const float *vector, size_t n, strbuf *out);
void embedding_put_base64(const float *vector, size_t n, strbuf *out);

#endif
