/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_writer.h - writes JSON documents into a strbuf: replies of the server, --json of the
 * commands.
 *
 * There is no writer object. The last byte of the buffer tells whether a comma is due, because
 * every string is closed when a function returns. A caller may therefore take all but the last byte
 * out of the buffer at any time.
 *
 * The output has no line breaks and is valid UTF-8: invalid bytes become U+FFFD. U+2028 and U+2029
 * are escaped, because JavaScript before 2019 treats them as line ends. Out of memory sets
 * `failed` of the strbuf; check it once at the end.
 *
 * This is the only writer of new documents. json_put_* of json.h serialises parsed nodes in the
 * exact format of Python's json.dumps, which prompts need; jw_node uses it for values of a client.
 */
#ifndef MOTE_JSON_JSON_WRITER_H
#define MOTE_JSON_JSON_WRITER_H

#include "json/json.h"

#include <stdint.h>

/* Opens '{' or '[' as a value, with a comma if one is due; closes with '}' or ']'. */
void jw_open(strbuf *out, char bracket);
void jw_close(strbuf *out, char bracket);
/* The name of the next value. It is not escaped, so it must be a constant. */
void jw_key(strbuf *out, const char *name);

void jw_str(strbuf *out, str text);
void jw_text(strbuf *out, const char *terminated); /* NULL: null */
void jw_int(strbuf *out, int64_t n);
void jw_uint(strbuf *out, uint64_t n);
/* The fewest digits that read back as the same number; infinities and NaN become null. */
void jw_double(strbuf *out, double x);
void jw_float(strbuf *out, float x);
void jw_bool(strbuf *out, bool b);
void jw_null(strbuf *out);
/* A value that is already JSON, without line breaks. */
void jw_raw(strbuf *out, str json);
/* A parsed value, with numbers as the client wrote them; NULL: null. */
void jw_node(strbuf *out, const json_node *node);
/* [104,105]: every byte as a number. */
void jw_bytes(strbuf *out, str bytes);

/* Escaped text without quotes. */
void jw_escaped(strbuf *out, str text);

/* jw_key and a value. */
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
