/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_print.h - JSON of replies, written straight into a text.
 *
 * There is no writer object: whether a comma is due is seen from the last byte, since
 * strings are always closed. What comes out has no line breaks, is UTF-8 whatever came in (bad
 * bytes become U+FFFD), and spells U+2028 and U+2029 as escapes, which older readers of
 * scripts take for line ends. Failure is that of the strbuf: sticky, asked for once.
 */
#ifndef MOTE_SERVER_JSON_PRINT_H
#define MOTE_SERVER_JSON_PRINT_H

#include "json/json.h"

#include <stdint.h>

/* '{' or '[', and the end of it; both as values, so with a comma if one is due. */
void jp_open(strbuf *out, char bracket);
void jp_close(strbuf *out, char bracket);
/* The name of the value that follows. A constant: it is not escaped. */
void jp_key(strbuf *out, const char *name);

void jp_str(strbuf *out, str text);
void jp_text(strbuf *out, const char *terminated); /* NULL: null */
void jp_int(strbuf *out, int64_t n);
void jp_uint(strbuf *out, uint64_t n);
/* The fewest digits that read back as the same number; what JSON cannot spell is null. */
void jp_double(strbuf *out, double x);
void jp_float(strbuf *out, float x);
void jp_bool(strbuf *out, bool b);
void jp_null(strbuf *out);
/* A value that is JSON already, without line breaks. */
void jp_raw(strbuf *out, str json);
/* A value as the client wrote it; NULL: null. */
void jp_node(strbuf *out, const json_node *node);
/* [104, 105]: every byte as a number. */
void jp_bytes(strbuf *out, str bytes);

/* Text for between two quotes that are already there. */
void jp_escaped(strbuf *out, str text);

/* A key and its value. */
void jp_key_str(strbuf *out, const char *name, str text);
void jp_key_text(strbuf *out, const char *name, const char *terminated);
void jp_key_int(strbuf *out, const char *name, int64_t n);
void jp_key_uint(strbuf *out, const char *name, uint64_t n);
void jp_key_double(strbuf *out, const char *name, double x);
void jp_key_float(strbuf *out, const char *name, float x);
void jp_key_bool(strbuf *out, const char *name, bool b);
void jp_key_null(strbuf *out, const char *name);
void jp_key_raw(strbuf *out, const char *name, const char *json);

#endif
