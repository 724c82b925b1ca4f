/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tool_arguments.h - the value of a parameter, from the text a model wrote, by the tool's schema.
 *
 * A model writes parameters as bare text: 30 may be a number or the string "30", and
 * only the schema knows. Of the types it allows, the first that fits is taken, in the
 * order below; a string is the text as it is. A text that fits none stays a string.
 */
#ifndef MOTE_CHAT_PARSE_TOOL_ARGUMENTS_H
#define MOTE_CHAT_PARSE_TOOL_ARGUMENTS_H

#include "json/json.h"

enum {
    CHAT_TYPE_NULL = 1,
    CHAT_TYPE_INTEGER = 2,
    CHAT_TYPE_NUMBER = 4,
    CHAT_TYPE_BOOLEAN = 8,
    CHAT_TYPE_OBJECT = 16,
    CHAT_TYPE_ARRAY = 32,
    CHAT_TYPE_STRING = 64,
    CHAT_TYPE_ANY = 127
};

/* What the schema of a tool's parameters allows for one of them; never 0. Follows type, nullable,
 * enum, const, anyOf, oneOf, allOf and $ref inside the schema, with bounded work. */
unsigned chat_argument_types(const json_node *schema, str name);
/* The parameter is named in `properties`. */
bool chat_argument_declared(const json_node *schema, str name);

/* Writes the value as JSON. false: no allowed type fits, and a string was written. */
bool chat_argument_put(strbuf *out, str text, unsigned types);

/* A Python literal (quotes of either kind, True, None, tuples, commas before a bracket) as JSON;
 * false: it is none, and `out` is then of no use. What comes out still has to be parsed. */
bool chat_python_to_json(strbuf *out, str text);

#endif
