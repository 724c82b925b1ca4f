/* SPDX-License-Identifier: Apache-2.0 */
/* pretokenize.h - cuts normalised text into the words that merges never cross. */
#ifndef MOTE_TOK_PRETOKENIZE_H
#define MOTE_TOK_PRETOKENIZE_H

#include "tok/classes.h"

/* Where the word that begins at `at` < n ends. The text is well-formed UTF-8. */
size_t tok_word_end(const tok_classes *c, const unsigned char *text, size_t n, size_t at);

#endif
