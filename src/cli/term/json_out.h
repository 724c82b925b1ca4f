/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_out.h - writes one JSON document, piece by piece, without building it.
 *
 * Commas and nesting are the writer's business. Text that is not UTF-8 comes
 * out with U+FFFD in place of the bad bytes; numbers read back exactly as they
 * were, and those JSON does not have (infinities, NaN) become null.
 */
#ifndef MOTE_CLI_TERM_JSON_OUT_H
#define MOTE_CLI_TERM_JSON_OUT_H

#include "cli/term/output.h"

#include <stdint.h>

enum { JSON_DEPTH = 32 };

typedef struct json {
    cli_out *to;
    unsigned depth;
    bool after_key;
    bool filled[JSON_DEPTH]; /* the object or array at this depth has an entry */
} json;

/* A fresh document is {.to = out}. */
void json_begin_object(json *j);
void json_begin_array(json *j);
/* Ends the innermost object or array; the outermost one also ends the line. */
void json_end_object(json *j);
void json_end_array(json *j);
/* Inside an object: the name of the value that comes next. */
void json_key(json *j, const char *name);

void json_bytes(json *j, const char *text, size_t n);
void json_text(json *j, const char *terminated); /* NULL: null */
void json_u64(json *j, uint64_t n);
void json_i64(json *j, int64_t n);
void json_f64(json *j, double x);
void json_f32(json *j, float x);
void json_bool(json *j, bool b);
void json_absent(json *j);
/* A value that is JSON already. */
void json_raw(json *j, const char *text, size_t n);

/* json_key and a value in one. */
void json_key_text(json *j, const char *name, const char *terminated);
void json_key_u64(json *j, const char *name, uint64_t n);
void json_key_f64(json *j, const char *name, double x);
void json_key_bool(json *j, const char *name, bool b);

#endif
