/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reply_json.h - JSON that replies of several APIs share: embeddings and token log-probabilities.
 *
 * Any thread; the functions only append to `out`. An allocation failure sets out->failed.
 */
#ifndef MOTE_SERVER_API_COMMON_REPLY_JSON_H
#define MOTE_SERVER_API_COMMON_REPLY_JSON_H

#include "server/generation/generation.h"

/* The first n numbers scaled to length 1, to be freed with mem_free(); NULL: out of memory. */
float *embedding_unit(const float *from, size_t n);
/* A vector as a JSON array, or as a string: little-endian floats in base64. */
void embedding_put(const float *vector, size_t n, strbuf *out);
void embedding_put_base64(const float *vector, size_t n, strbuf *out);

/* The first n numbers of `from`, scaled to length 1, in one of the two forms. */
void embedding_put_unit(const float *from, size_t n, bool base64, strbuf *out);

/* JSON has no -Infinity, and clients reject null: -9999, as OpenAI sends, for a token that cannot
 * occur. */
float reply_finite_logprob(float logprob);
/* The bytes of a token of the model. */
str reply_token_text(const generation *w, mote_token token);
/* {"token", "logprob", "bytes", "top_logprobs"} of one token. */
void reply_put_token(const generation *w, str text, const mote_choice *m, strbuf *out);
/* Array of the choice's tokens from index `from`. */
void reply_put_logprobs(const choice *c, size_t from, strbuf *out);

#endif
