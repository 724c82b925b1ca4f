/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schema.h - a JSON Schema as rules over bytes.
 *
 * The rules describe JSON texts that are valid under the schema, and only such.
 * Not every valid text is among them: properties come in the order of the schema
 * (others after them), white space is bounded, bounded numbers have no exponent;
 * docs/structured-output.md lists it all. What constrains and cannot be held
 * exactly is refused by name; in lenient mode it is left out and reported.
 *
 * Limits: text of SCHEMA_MAX_BYTES, which nests as deeply as json.h lets it, the states of
 * rules.h, and fuel for the rest.
 */
#ifndef MOTE_GRAMMAR_SCHEMA_SCHEMA_H
#define MOTE_GRAMMAR_SCHEMA_SCHEMA_H

#include "grammar/rules/dfa.h"
#include "grammar/rules/rules.h"
#include "base/strbuf.h"
#include "json/json.h"

enum {
    SCHEMA_MAX_BYTES = 256 * 1024,
    SCHEMA_MAX_NESTING = 64, /* allOf, anyOf, oneOf, not and $ref inside each other */
    SCHEMA_MAX_SHAPES = 512, /* alternatives of one value */
    SCHEMA_FUEL = 3500000    /* work of one compilation, see chars.h */
};

typedef struct schema_options {
    bool lenient;     /* leave out what is not supported, with a warning */
    strbuf *warnings; /* one line each; may be NULL */
    dfa_fuel *fuel;   /* shared by several schemas of one grammar; NULL: SCHEMA_FUEL */
} schema_options;

/*
 * A rule for the values that satisfy the schema `root`, in which "#" means `root`.
 * The node's document may go afterwards.
 *
 * MOTE_E_FORMAT: it is no schema. MOTE_E_UNSUPPORTED names the keyword and where
 * it stands. MOTE_E_ARG: a limit. Whether anything satisfies it at all, rules_finish
 * says.
 */
mote_status schema_put(rules *r, const json_node *root, const schema_options *options,
                       uint32_t *rule, mote_error *err);

/*
 * A rule for the arguments of a tool call, `parameters` being the schema of the object
 * they make: blocks of "<parameter=NAME>\n", the value, "\n</parameter>\n". A string
 * stands as it is, other values are JSON. Only names the schema lists may come, each once, in any
 * order; if it lists none and forbids none, any name.
 */
mote_status schema_put_call(rules *r, const json_node *parameters, const schema_options *options,
                            uint32_t *rule, mote_error *err);

/* The same as schema_put from text. */
mote_status schema_put_text(rules *r, str text, const schema_options *options, uint32_t *rule,
                            mote_error *err);

#endif
