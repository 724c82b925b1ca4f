/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grammar_build.h - where grammars come from.
 *
 * Ready-made: any JSON, a JSON Schema, a regular expression, a grammar in GBNF, a list of choices.
 * Or built from parts, one after the other:
 *
 *     grammar_builder b;
 *     grammar_begin(&b, err);
 *     grammar_add_text(&b, "<answer>");
 *     grammar_either(&b);                       either ...
 *     grammar_add_schema(&b, schema, NULL);
 *     grammar_or(&b);                           ... or
 *     grammar_add_text(&b, "none");
 *     grammar_end_either(&b);
 *     grammar_add_text_until(&b, "</answer>");
 *     grammar_finish(&b, vocab, &grammar);
 *
 * A part that fails makes all that follow do nothing, and grammar_finish returns its
 * error. grammar_finish always ends the builder; grammar_abandon does so without one.
 */
#ifndef MOTE_GRAMMAR_GRAMMAR_BUILD_H
#define MOTE_GRAMMAR_GRAMMAR_BUILD_H

#include "grammar/grammar.h"
#include "grammar/schema/schema.h"

enum {
    GRAMMAR_MAX_NESTING = 16,   /* either inside either */
    GRAMMAR_MAX_CHOICES = 4096, /* of a list */
    GRAMMAR_MAX_TOOLS = 128,
    GRAMMAR_FUEL = 3500000 /* work of all parts together, see automaton/chars.h */
};

typedef struct grammar_builder {
    rules *r;
    uint32_t rule; /* of the whole */
    uint32_t at;   /* state behind what was added last */
    struct {
        uint32_t from, to;
    } open[GRAMMAR_MAX_NESTING];
    uint32_t n_open;
    dfa_fuel fuel;
    mote_status status; /* of the first part that failed */
    mote_error *err;
} grammar_builder;

/* Failures are written to err, which must stay until grammar_finish. */
void grammar_begin(grammar_builder *b, mote_error *err);
/* JSON without white space; before the first part. */
void grammar_compact(grammar_builder *b);
void grammar_add_text(grammar_builder *b, str text);
/* Any JSON value; any JSON object. */
void grammar_add_json(grammar_builder *b);
void grammar_add_json_object(grammar_builder *b);
/* A value that satisfies a schema; options' fuel is the builder's. */
void grammar_add_schema(grammar_builder *b, const json_node *schema, const schema_options *options);
void grammar_add_schema_text(grammar_builder *b, str schema, const schema_options *options);
/* Text that the whole expression matches. */
void grammar_add_regex(grammar_builder *b, str pattern);
/* Text of a grammar that is written down, see automaton/gbnf.h. */
void grammar_add_gbnf(grammar_builder *b, str text);
/* One of n texts. */
void grammar_add_choices(grammar_builder *b, const str *texts, size_t n);
/* Any text up to the first time `end` comes, and `end`, at most 256 bytes of ASCII. */
void grammar_add_text_until(grammar_builder *b, str end);

void grammar_either(grammar_builder *b);
void grammar_or(grammar_builder *b);
void grammar_end_either(grammar_builder *b);

/* A tool that can be called: `parameters` is its schema, NULL: no parameters. */
typedef struct grammar_tool {
    str name;
    const json_node *parameters;
    bool strict; /* what its schema says and is not supported is an error, not a warning */
} grammar_tool;

/*
 * One call of one of the tools, from behind "<tool_call>" to before "</tool_call>":
 * "\n<function=NAME>\n", its arguments (schema.h), "</function>\n". With several tools
 * the name is the model's choice; with one it is forced. warnings may be NULL; its lines
 * begin with the name of a tool.
 */
void grammar_add_tool_call(grammar_builder *b, const grammar_tool *tools, size_t n,
                           strbuf *warnings);

mote_status grammar_finish(grammar_builder *b, const token_trie *v, grammar **out);
void grammar_abandon(grammar_builder *b);

/* ---- ready-made ---- */

/* Any JSON value, or any object if `object` is true. */
mote_status grammar_of_json(grammar **out, const token_trie *v, bool object, mote_error *err);
mote_status grammar_of_schema(grammar **out, const token_trie *v, str schema,
                              const schema_options *options, mote_error *err);
mote_status grammar_of_regex(grammar **out, const token_trie *v, str pattern, mote_error *err);
mote_status grammar_of_gbnf(grammar **out, const token_trie *v, str text, mote_error *err);
mote_status grammar_of_choices(grammar **out, const token_trie *v, const str *texts, size_t n,
                               mote_error *err);

#endif
