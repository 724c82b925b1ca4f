/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grammar.h - constrained decoding: token masks from grammars.
 *
 * A grammar is a set of byte rules plus the token trie of a model. A matcher is a position in the
 * generated text. It stores the configuration after each token, so rewind and fork are cheap.
 *
 *     grammar_of_schema(&g, trie, schema, NULL, err);     or a grammar_builder, see below
 *     grammar_matcher_new(&m, g, err);
 *     grammar_mask(m, bits, err);                         allowed tokens, one bit each
 *     ... sample with the mask ...
 *     grammar_accept(m, token, err);
 *
 * Fail closed: if a mask cannot be computed, the call returns an error and all bits are zero.
 *
 * Threading: one thread at a time may use a grammar and its matchers. The token trie is read-only
 * and shared.
 */
#ifndef MOTE_GRAMMAR_GRAMMAR_H
#define MOTE_GRAMMAR_GRAMMAR_H

#include "grammar/rules/rules.h"
#include "grammar/token_trie.h"
#include "grammar/schema/schema.h"

typedef struct grammar grammar;
typedef struct grammar_matcher grammar_matcher;

/* Takes ownership of the rules, also on failure; rules_finish must have succeeded. The token trie
 * must outlive the grammar. */
mote_status grammar_new(grammar **out, rules *r, const token_trie *v, mote_error *err);
/* Free its matchers first. NULL is allowed. */
void grammar_free(grammar *g);
/* 32-bit words of a mask. Token i is bit i % 32 of word i / 32. */
uint32_t grammar_mask_words(const grammar *g);
/* Memory in use, in bytes. */
uint64_t grammar_bytes(const grammar *g);

/* A matcher at the start of the text. */
mote_status grammar_matcher_new(grammar_matcher **out, grammar *g, mote_error *err);
/* A copy at the same position with the same history. */
mote_status grammar_matcher_fork(grammar_matcher **out, const grammar_matcher *from,
                                 mote_error *err);
void grammar_matcher_free(grammar_matcher *m);

/* Computes the mask of allowed tokens: bits[grammar_mask_words]. End-of-generation tokens are
 * allowed only if the text is complete. MOTE_E_ARG: the text has ended, or no token is allowed. */
mote_status grammar_mask(grammar_matcher *m, uint32_t *bits, mote_error *err);

/* Advances by a token. MOTE_E_ARG: the token is not allowed; the matcher is unchanged. */
mote_status grammar_accept(grammar_matcher *m, mote_token token, mote_error *err);
bool grammar_allows(grammar_matcher *m, mote_token token);

/* Number of accepted tokens. grammar_rewind goes back to n of them. */
size_t grammar_length(const grammar_matcher *m);
void grammar_rewind(grammar_matcher *m, size_t n);

/* May the text end here? */
bool grammar_is_complete(const grammar_matcher *m);
/* Was an end-of-generation token accepted? */
bool grammar_is_over(const grammar_matcher *m);

/*
 * Jump-forward: the bytes that must follow because the grammar leaves no choice, at most `room`,
 * whole characters only. 0: there is a choice, or the text may end. The caller tokenizes them and
 * appends the tokens without sampling. It should leave the last of these tokens to the model: the
 * model may prefer a longer token that starts with it. *ends: the text is complete after these
 * bytes (which may be none) and nothing can follow; then the last token is no choice either.
 * GRAMMAR_NO_MEMORY: out of memory.
 */
#define GRAMMAR_NO_MEMORY SIZE_MAX
size_t grammar_forced(grammar_matcher *m, char *out, size_t room, bool *ends);

/* The shortest bytes that complete the text, at most `room`, whole characters only. 0: the text is
 * complete, or a bounded search found none. */
size_t grammar_shortest(grammar_matcher *m, char *out, size_t room);

/* Does the grammar accept the whole text? */
mote_status grammar_check(grammar *g, str text, bool *fits, mote_error *err);

/* ---- builder (grammar_build.c): a grammar from parts in sequence ----
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
 *     grammar_finish(&b, trie, &grammar);
 *
 * After the first failure the other calls do nothing, and grammar_finish returns the error.
 * grammar_finish always frees the builder; grammar_abandon frees it without a grammar. */

enum {
    GRAMMAR_MAX_NESTING = 16,   /* grammar_either inside grammar_either */
    GRAMMAR_MAX_CHOICES = 4096, /* of a list */
    GRAMMAR_MAX_TOOLS = 128,
    GRAMMAR_FUEL = 3500000 /* work of all parts together, see dfa.h */
};

typedef struct grammar_builder {
    rules *r;
    uint32_t rule; /* start rule */
    uint32_t at;   /* state after the last part */
    struct {
        uint32_t from, to;
    } open[GRAMMAR_MAX_NESTING];
    uint32_t n_open;
    dfa_fuel fuel;
    mote_status status; /* of the first part that failed */
    mote_error *err;
} grammar_builder;

/* Failures are written to err, which must stay valid until grammar_finish. */
void grammar_begin(grammar_builder *b, mote_error *err);
/* JSON without white space. Call before the first part. */
void grammar_compact(grammar_builder *b);
void grammar_add_text(grammar_builder *b, str text);
/* Any JSON value; any JSON object. */
void grammar_add_json(grammar_builder *b);
void grammar_add_json_object(grammar_builder *b);
/* A value that satisfies a schema. options->fuel is ignored: the builder's fuel is used. */
void grammar_add_schema(grammar_builder *b, const json_node *schema, const schema_options *options);
void grammar_add_schema_text(grammar_builder *b, str schema, const schema_options *options);
/* Text that the expression matches as a whole. */
void grammar_add_regex(grammar_builder *b, str pattern);
/* Text of a GBNF grammar, see gbnf.h. */
void grammar_add_gbnf(grammar_builder *b, str text);
/* One of n texts. */
void grammar_add_choices(grammar_builder *b, const str *texts, size_t n);
/* Any text up to and including the first occurrence of `end`, which is 1 to 256 bytes of ASCII. */
void grammar_add_text_until(grammar_builder *b, str end);

void grammar_either(grammar_builder *b);
void grammar_or(grammar_builder *b);
void grammar_end_either(grammar_builder *b);

/* A tool that can be called. `parameters` is its JSON Schema; NULL: no parameters. */
typedef struct grammar_tool {
    str name;
    const json_node *parameters;
    bool strict; /* an unsupported keyword is an error, not a warning */
} grammar_tool;

/*
 * One call of one of the tools, between "<tool_call>" and "</tool_call>": "\n<function=NAME>\n",
 * its arguments (schema.h), "</function>\n". The model chooses the name; a single name is forced.
 * warnings may be NULL. Each line of it starts with the name of a tool.
 */
void grammar_add_tool_call(grammar_builder *b, const grammar_tool *tools, size_t n,
                           strbuf *warnings);

mote_status grammar_finish(grammar_builder *b, const token_trie *v, grammar **out);
void grammar_abandon(grammar_builder *b);

/* ---- grammars of one part ---- */

/* Any JSON value, or any object if `object` is true. */
mote_status grammar_of_json(grammar **out, const token_trie *v, bool object, mote_error *err);
mote_status grammar_of_schema(grammar **out, const token_trie *v, str schema,
                              const schema_options *options, mote_error *err);
mote_status grammar_of_regex(grammar **out, const token_trie *v, str pattern, mote_error *err);
mote_status grammar_of_gbnf(grammar **out, const token_trie *v, str text, mote_error *err);
mote_status grammar_of_choices(grammar **out, const token_trie *v, const str *texts, size_t n,
                               mote_error *err);

#endif
