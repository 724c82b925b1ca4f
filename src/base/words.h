/* SPDX-License-Identifier: Apache-2.0 */
/* words.h - words of a line, for rules and keys. */
#ifndef MOTE_BASE_WORDS_H
#define MOTE_BASE_WORDS_H

#include "base/str.h"

/* The next word of a text, which is moved behind it; empty at the end. */
str words_next(str *text, const char *separators);
/* At least one byte, and nothing but letters, digits and what is allowed. */
bool words_only(str text, const char *allowed);

#endif
