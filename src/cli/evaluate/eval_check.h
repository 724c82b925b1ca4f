/* SPDX-License-Identifier: Apache-2.0 */
/*
 * eval_check.h - whether an answer is right: the object "check" of a task of `mote eval`.
 *
 *   {"type": "exact", "text": T}            the answer is T, apart from white space around it
 *   {"type": "contains", "text": T}         T occurs in it
 *   {"type": "regex", "pattern": P}         P matches a part of it
 *   {"type": "choice", "choices": [...], "answer": A}   constrained to the choices, and A
 *   {"type": "json", "value": V}            it is JSON and equals V; the order of members is free
 *   {"type": "json_schema", "schema": S}    it is JSON and S accepts it
 *   {"type": "tool", "calls": [{"name": N, "arguments": {...}}]}   exactly these calls, in this order
 */
#ifndef MOTE_CLI_EVALUATE_EVAL_CHECK_H
#define MOTE_CLI_EVALUATE_EVAL_CHECK_H

#include "base/err.h"
#include "json/json.h"

enum { EVAL_MAX_CALLS = 32 };

typedef struct eval_call {
    strbuf name, arguments;
} eval_call;

typedef struct eval_answer {
    strbuf content;
    eval_call calls[EVAL_MAX_CALLS];
    size_t n_calls; /* also those that do not fit */
} eval_answer;

void eval_answer_fini(eval_answer *a);

/* MOTE_E_ARG: the check is not one of the above; the text names the field. */
mote_status eval_check_valid(const json_node *check, mote_error *err);
/* `check` is valid. */
bool eval_check_passes(const json_node *check, const eval_answer *answer);
/* The choices that constrain the answer, or NULL. */
const json_node *eval_check_choices(const json_node *check);

/* ---- values (eval_json.c) ---- */

/* Numbers are equal by value, objects with the same members in any order. */
bool eval_json_equal(const json_node *a, const json_node *b);
/* MOTE_E_UNSUPPORTED: the schema uses a keyword that eval_schema_accepts does not know. */
mote_status eval_schema_valid(const json_node *schema, mote_error *err);
/* Knows type, enum, const, properties, required, additionalProperties (false), items, minimum,
 * maximum, minItems and maxItems. */
bool eval_schema_accepts(const json_node *schema, const json_node *value);

#endif
