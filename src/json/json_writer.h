/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_writer.h - JSON of replies, written straight into a text.
 *
 * There is no writer object: whether a comma is due is seen from the last byte, since
 * strings are always closed. What comes out has no line breaks, is UTF-8 whatever came in (bad
 * bytes become U+FFFD), and spells U+2028 and U+2029 as escapes, which older readers of
 * scripts take for line ends. Failure is that of the strbuf: sticky, asked for once.
 */
#ifndef MOTE_JSON_JSON_WRITER_H
#define MOTE_JSON_JSON_WRITER_H

#include "json/json.h"

#include <stdint.h>

/* '{' or '[', and the end of it; both as values, so with a comma if one is due. */
void jw_open(strbuf *out, char bracket);
void jw_close(strbuf *out, char bracket);
/* The name of the value that follows. A constant: it is not escaped. */
void jw_key(strbuf *out, const char *name);

void jw_str(strbuf *out, str text);
void jw_text(strbuf *out, const char *terminated); /* NULL: null */
void jw_int(strbuf *out, int64_t n);
void jw_uint(strbuf *out, uint64_t n);
/* The fewest digits that read back as the same number; what JSON cannot spell is null. */
void jw_double(strbuf *out, double x);
void jw_float(strbuf *out, float x);
void jw_bool(strbuf *out, bool b);
void jw_null(strbuf *out);
/* A value that is JSON already, without line breaks. */
void jw_raw(strbuf *out, str json);
/* A value as the client wrote it; NULL: null. */
void jw_node(strbuf *out, const json_node *node);
/* [104, 105]: every byte as a number. */
void jw_bytes(strbuf *out, str bytes);

/* Text for between two quotes that are already there. */
void jw_escaped(strbuf *out, str text);

/* A key and its value. */
void jw_key_str(strbuf *out, const char *name, str text);
void jw_key_text(strbuf *out, const char *name, const char *terminated);
void jw_key_int(strbuf *out, const char *name, int64_t n);
void jw_key_uint(strbuf *out, const char *name, uint64_t n);
void jw_key_double(strbuf *out, const char *name, double x);
void jw_key_float(strbuf *out, const char *name, float x);
void jw_key_bool(strbuf *out, const char *name, bool b);
void jw_key_null(strbuf *out, const char *name);
void jw_key_raw(strbuf *out, const char *name, const char *json);

#endif
