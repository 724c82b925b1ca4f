/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sample_text.h - a text to measure models with, if the user gives none.
 *
 * Short passages of many kinds: prose, facts, conversations, code, JSON, arithmetic, nine languages.
 */
#ifndef MOTE_CONVERT_SAMPLE_TEXT_H
#define MOTE_CONVERT_SAMPLE_TEXT_H

#include "base/str.h"

/* Appends the text. */
void sample_text_put(strbuf *out);

#endif
