/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tok.h - tokenizer: text to token ids and back, with the vocabulary of a GGUF file.
 *
 * A tok is immutable and thread-safe. Encoding needs at most 4 MB of working memory, and a copy of
 * a text that is not well-formed UTF-8 or not in NFC; it frees them before it returns.
 */
#ifndef MOTE_TOK_TOK_H
#define MOTE_TOK_TOK_H

#include "base/err.h"
#include "base/str.h"
#include "gguf/gguf.h"

typedef struct tok tok;

/* Reads the metadata tokenizer.ggml.*; the bytes of the file must outlive the tok. */
mote_status tok_new(tok **out, const gguf *g, mote_error *err);
void tok_free(tok *t);

/* Ids below this have text. Rows of the output matrix above it are padding. */
uint32_t tok_n_tokens(const tok *t);
uint64_t tok_private_bytes(const tok *t);

enum { TOK_CONTROL = 1 }; /* = MOTE_TEXT_CONTROL: recognise added tokens in the text */

/* Writes at most `room` ids and always the full count to *n. */
mote_status tok_encode(const tok *t, str text, unsigned flags, mote_token *ids, size_t room,
                       size_t *n, mote_error *err);

/* The same, and calls `hook` about every 64 KiB of text. MOTE_E_CANCELED: it returned false. */
mote_status tok_encode_with_hook(const tok *t, str text, unsigned flags, mote_token *ids,
                                 size_t room, size_t *n, bool (*hook)(void *ctx), void *ctx,
                                 mote_error *err);

/* The text has at least so many tokens, judged by its length only. */
size_t tok_least_tokens(const tok *t, str text);

/* The bytes of a token: added tokens as their text, unused and invalid ids empty. */
str tok_bytes(const tok *t, mote_token id);
/* Special in the tokenizer of the model: left out of the text of an answer. */
bool tok_is_control(const tok *t, mote_token id);
/* <|im_end|>, <|endoftext|> and the file's eos. */
bool tok_is_end(const tok *t, mote_token id);
/* The id of an added token by its text, e.g. "<think>"; -1: none. */
mote_token tok_find_added(const tok *t, const char *text);

/* Implements mote_text_next. */
size_t tok_stream_next(const tok *t, mote_text_stream *stream, mote_token id, char *text,
                       size_t room);

#endif
