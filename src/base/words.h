/* SPDX-License-Identifier: Apache-2.0 */
/* words.h - splits a line into words. */
#ifndef MOTE_BASE_WORDS_H
#define MOTE_BASE_WORDS_H

#include "base/str.h"

/* Returns the next word and advances *text behind it; empty at the end. */
str words_next(str *text, const char *separators);
/* True if text is not empty and contains only letters, digits and bytes of `allowed`. */
bool words_only(str text, const char *allowed);

#endif
