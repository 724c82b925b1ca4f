/* SPDX-License-Identifier: Apache-2.0 */
/* base64.h - bytes as letters, and back. */
#ifndef MOTE_BASE_BASE64_H
#define MOTE_BASE_BASE64_H

#include "base/strbuf.h"

/* Appends them with padding; with `url` in the alphabet that addresses can hold, and without. */
void base64_put(strbuf *out, str bytes, bool url);
/* Appends the bytes of a text in either alphabet, padded or not, broken into lines or not. false:
 * it is something else, or there is no memory (out->failed). */
bool base64_get(strbuf *out, str text);

#endif
