/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grammar.h - which tokens may come next, so that an answer has the form it must have.
 *
 * A grammar is a set of rules over bytes, joined to a vocabulary. A matcher is a
 * place in a text: it remembers where it stood after each token, so going back
 * and splitting in two cost nothing. One thread at a time uses a grammar and
 * its matchers; the vocabulary is shared by all.
 *
 * Nothing is ever allowed because something went wrong: a mask that cannot be
 * made is an error, and its bits are all zero.
 */
#ifndef MOTE_GRAMMAR_GRAMMAR_H
#define MOTE_GRAMMAR_GRAMMAR_H

#include "grammar/rules/rules.h"
#include "grammar/token_trie.h"
#include "grammar/schema/schema.h"

typedef struct grammar grammar;
typedef struct grammar_matcher grammar_matcher;

/* Takes the rules, which rules_finish has passed, also when it fails; the vocabulary must
 * outlive it. */
mote_status grammar_new(grammar **out, rules *r, const token_trie *v, mote_error *err);
/* Its matchers must be gone. NULL is allowed. */
void grammar_free(grammar *g);
/* Words of a mask: one bit per token id, bit i % 32 of word i / 32. */
uint32_t grammar_mask_words(const grammar *g);
/* Memory it holds at the moment. */
uint64_t grammar_bytes(const grammar *g);

/* At the beginning of a text. */
mote_status grammar_matcher_new(grammar_matcher **out, grammar *g, mote_error *err);
/* A second one at the same place, with the same past. */
mote_status grammar_matcher_fork(grammar_matcher **out, const grammar_matcher *from,
                                 mote_error *err);
void grammar_matcher_free(grammar_matcher *m);

/* Which tokens may come next: bits[grammar_mask_words]. A token that ends the answer is among
 * them only if the text is complete. MOTE_E_ARG: the text has ended, or no token of the
 * vocabulary fits. */
mote_status grammar_mask(grammar_matcher *m, uint32_t *bits, mote_error *err);

/* Goes on by a token. MOTE_E_ARG: it is not allowed here, and the matcher stays where it was. */
mote_status grammar_accept(grammar_matcher *m, mote_token token, mote_error *err);
bool grammar_allows(grammar_matcher *m, mote_token token);

/* Tokens accepted so far, and back to when there were n of them. */
size_t grammar_length(const grammar_matcher *m);
void grammar_rewind(grammar_matcher *m, size_t n);

/* The text could end here. */
bool grammar_is_complete(const grammar_matcher *m);
/* It has: a token that ends the answer was accepted. */
bool grammar_is_over(const grammar_matcher *m);

/*
 * The bytes that must come next because there is no choice, at most `room`;
 * whole characters only. 0: there is a choice, or the text may end. The caller
 * tokenizes them and appends the tokens without sampling. Its last token is better
 * left to the model, which may know a longer one that begins with it; the others
 * are what the model would have had to write. GRAMMAR_NO_MEMORY: nobody knows.
 */
#define GRAMMAR_NO_MEMORY SIZE_MAX
size_t grammar_forced(grammar_matcher *m, char *out, size_t room);

/* The shortest bytes that make the text complete, at most `room`; whole characters only. 0: it is
 * complete, or none was found with bounded work. */
size_t grammar_shortest(grammar_matcher *m, char *out, size_t room);

/* Is the whole text one that the grammar describes? For tests and for checking results. */
mote_status grammar_check(grammar *g, str text, bool *fits, mote_error *err);

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
