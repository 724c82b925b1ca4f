/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schema.h - compiles a JSON Schema to byte rules.
 *
 * Sound: every text that the rules accept is valid JSON and valid under the schema. Not complete:
 * properties come in the order of the schema (unlisted ones after them), white space is bounded,
 * bounded numbers have no exponent. docs/structured-output.md has the full list. A keyword that
 * cannot be enforced exactly is an error that names it. In lenient mode such a keyword is ignored
 * and reported as a warning.
 *
 * An object with `properties` has no members that no schema declares, unless additionalProperties
 * allows them. JSON Schema allows them by default; models then invent members. See open_objects.
 *
 * Limits: SCHEMA_MAX_BYTES, the nesting depth of json.h, the number of states of rules.h, and fuel
 * for all other work.
 */
#ifndef MOTE_GRAMMAR_SCHEMA_SCHEMA_H
#define MOTE_GRAMMAR_SCHEMA_SCHEMA_H

#include "grammar/rules/dfa.h"
#include "grammar/rules/rules.h"
#include "base/str.h"
#include "json/json.h"

enum {
    SCHEMA_MAX_BYTES = 256 * 1024,
    SCHEMA_MAX_NESTING = 64, /* nested allOf, anyOf, oneOf, not and $ref */
    SCHEMA_MAX_SHAPES = 512, /* alternatives of one value */
    SCHEMA_FUEL = 3500000    /* work of one compilation, see dfa.h */
};

typedef struct schema_options {
    bool lenient;      /* ignore unsupported keywords, with a warning */
    bool open_objects; /* objects without additionalProperties may have undeclared members */
    strbuf *warnings;  /* one line each; may be NULL */
    dfa_fuel *fuel;    /* shared by several schemas of one grammar; NULL: SCHEMA_FUEL */
} schema_options;

/*
 * A rule for the values that satisfy the schema `root`; "#" in a $ref is `root`. The document may
 * be freed after the call.
 *
 * MOTE_E_FORMAT: not a valid schema. MOTE_E_UNSUPPORTED: an unsupported keyword, with its name and
 * JSON pointer. MOTE_E_ARG: a limit was exceeded. rules_finish reports a schema that no value
 * satisfies.
 */
mote_status schema_put(rules *r, const json_node *root, const schema_options *options,
                       uint32_t *rule, mote_error *err);

/*
 * A rule for the arguments of a tool call; `parameters` is the schema of the arguments object.
 * Each argument is "<parameter=NAME>\n", the value, "\n</parameter>\n". Strings are raw text,
 * other values are JSON. Only listed names are allowed, each once, in any order. If the schema has
 * no `properties` and allows additional ones, any name is allowed.
 */
mote_status schema_put_call(rules *r, const json_node *parameters, const schema_options *options,
                            uint32_t *rule, mote_error *err);

/* schema_put from text. */
mote_status schema_put_text(rules *r, str text, const schema_options *options, uint32_t *rule,
                            mote_error *err);

#endif
