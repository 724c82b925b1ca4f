/* SPDX-License-Identifier: Apache-2.0 */
/* base64.h - Base64 encoder and decoder. */
#ifndef MOTE_BASE_BASE64_H
#define MOTE_BASE_BASE64_H

#include "base/str.h"

/* Appends the encoding: standard alphabet with padding, or with `url` the URL alphabet without. */
void base64_put(strbuf *out, str bytes, bool url);
/* Appends the decoded bytes. Accepts both alphabets, optional padding and white space. False:
 * invalid Base64, or out of memory (out->failed). */
bool base64_get(strbuf *out, str text);

#endif
