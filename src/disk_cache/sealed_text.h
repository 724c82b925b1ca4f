/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sealed_text.h - a text, encrypted as a whole: the files of named sessions.
 *
 *   head      "MOTETXT\n", key_id of the cipher, salt, tag: 64 bytes
 *   text      sealed as one piece; magic and key_id are authenticated with it
 */
#ifndef MOTE_DISK_CACHE_SEALED_TEXT_H
#define MOTE_DISK_CACHE_SEALED_TEXT_H

#include "base/err.h"
#include "base/str.h"
#include "disk_cache/disk_cipher.h"

/* Do the bytes begin like a sealed text? */
bool sealed_text_is(str bytes);
/* Appends the text, sealed. */
mote_status sealed_text_put(strbuf *out, const disk_cipher *cipher, str text, mote_error *err);
/* Replaces a sealed text by the text. MOTE_E_MISMATCH: it has another key, or cipher is NULL.
 * MOTE_E_FORMAT: it is damaged. After an error the contents are undefined. */
mote_status sealed_text_open(strbuf *bytes, const disk_cipher *cipher, mote_error *err);

#endif
