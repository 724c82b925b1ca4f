/* SPDX-License-Identifier: Apache-2.0 */
/* grammar_build.c - builds a grammar from parts: texts, schemas, patterns, GBNF, tool calls. */
#include "grammar/grammar.h"

#include "grammar/rules/gbnf.h"
#include "grammar/rules/rules.h"
#include "grammar/rules/regex.h"
#include "base/mem.h"

void grammar_begin(grammar_builder *b, mote_error *err)
{
    *b = (grammar_builder){.fuel = {GRAMMAR_FUEL}, .err = err};
    b->status = rules_new(&b->r, err);
    if (b->status != MOTE_OK)
        return;
    b->rule = rules_add(b->r);
    b->at = rules_start_of(b->r, b->rule);
}

void grammar_compact(grammar_builder *b)
{
    if (b->status == MOTE_OK)
        b->r->compact = true;
}

static void builder_fail(grammar_builder *b, const char *what)
{
    if (b->status == MOTE_OK)
        b->status = err_set(b->err, MOTE_E_ARG, "%s", what);
}

/* ---- parts ---- */

void grammar_add_text(grammar_builder *b, str text)
{
    if (b->status == MOTE_OK)
        b->at = rules_literal(b->r, b->at, text);
}

/* Appends a call of `rule`. */
static void builder_add_rule(grammar_builder *b, uint32_t rule)
{
    const uint32_t next = rules_state(b->r);
    rules_call(b->r, b->at, rule, next);
    b->at = next;
}

void grammar_add_json(grammar_builder *b)
{
    if (b->status == MOTE_OK)
        builder_add_rule(b, json_rules_any(b->r));
}

void grammar_add_json_object(grammar_builder *b)
{
    if (b->status == MOTE_OK)
        builder_add_rule(b, json_rules_any_object(b->r));
}

static schema_options with_fuel(grammar_builder *b, const schema_options *options)
{
    schema_options own = options != NULL ? *options : (schema_options){0};
    own.fuel = &b->fuel;
    return own;
}

void grammar_add_schema(grammar_builder *b, const json_node *schema, const schema_options *options)
{
    uint32_t rule;
    if (b->status != MOTE_OK)
        return;
    const schema_options own = with_fuel(b, options);
    b->status = schema_put(b->r, schema, &own, &rule, b->err);
    if (b->status == MOTE_OK)
        builder_add_rule(b, rule);
}

void grammar_add_schema_text(grammar_builder *b, str schema, const schema_options *options)
{
    uint32_t rule;
    if (b->status != MOTE_OK)
        return;
    const schema_options own = with_fuel(b, options);
    b->status = schema_put_text(b->r, schema, &own, &rule, b->err);
    if (b->status == MOTE_OK)
        builder_add_rule(b, rule);
}

/* Appends a text of the set, and frees the set. */
static void builder_add_set(grammar_builder *b, dfa *set)
{
    const uint32_t next = rules_state(b->r);
    b->status = dfa_put_raw(b->r, set, b->at, next, b->err);
    dfa_fini(set);
    b->at = next;
}

void grammar_add_regex(grammar_builder *b, str pattern)
{
    dfa set;
    if (b->status == MOTE_OK)
        b->status = regex_compile(&set, pattern, REGEX_WHOLE, &b->fuel, b->err);
    if (b->status == MOTE_OK)
        builder_add_set(b, &set);
}

void grammar_add_gbnf(grammar_builder *b, str text)
{
    uint32_t rule;
    if (b->status == MOTE_OK)
        b->status = gbnf_put(b->r, text, &rule, b->err);
    if (b->status == MOTE_OK)
        builder_add_rule(b, rule);
}

void grammar_add_choices(grammar_builder *b, const str *texts, size_t n)
{
    dfa set;
    if (n == 0 || n > GRAMMAR_MAX_CHOICES)
        builder_fail(b, "the list of choices must have 1 to 4,096 entries");
    if (b->status == MOTE_OK)
        b->status = dfa_words(&set, texts, n, &b->fuel, b->err);
    if (b->status == MOTE_OK)
        builder_add_set(b, &set);
}

/* ---- text up to a terminator ---- */

/* Knuth-Morris-Pratt: the last `have` characters are a prefix of `end`. Returns the length of the
 * longest such prefix after one more character. */
static uint32_t next_overlap(str end, uint32_t have, char c)
{
    for (uint32_t n = have + 1; n > 0; n--) {
        /* The last n characters would be end[have - n + 1 .. have) and c. */
        if (end.p[n - 1] == c && memcmp(end.p, end.p + have - (n - 1), n - 1) == 0)
            return n;
    }
    return 0;
}

/* States 0 to n - 1: so many characters of `end` are matched. State n accepts and has no
 * transitions. */
static mote_status build_until(dfa *set, str end, mote_error *err)
{
    for (uint32_t have = 0; have < end.n; have++) {
        TRY(dfa_add_state(set, false, err));
        for (uint32_t c = 0; c < 0x80; c++)
            TRY(dfa_add_range(set, c, c, next_overlap(end, have, (char)c), err));
        TRY(dfa_add_range(set, 0x80, 0xD7FF, 0, err));
        TRY(dfa_add_range(set, 0xE000, DFA_LAST, 0, err));
    }
    return dfa_add_state(set, true, err);
}

void grammar_add_text_until(grammar_builder *b, str end)
{
    dfa set = {0};
    bool ascii = end.n > 0 && end.n <= 256;
    for (size_t i = 0; ascii && i < end.n; i++)
        ascii = (unsigned char)end.p[i] < 0x80;
    if (!ascii)
        builder_fail(b, "the terminator of a text must be 1 to 256 bytes of ASCII");
    if (b->status == MOTE_OK)
        b->status = build_until(&set, end, b->err);
    if (b->status == MOTE_OK)
        builder_add_set(b, &set);
    else
        dfa_fini(&set);
}

/* ---- alternatives ---- */

void grammar_either(grammar_builder *b)
{
    if (b->n_open == GRAMMAR_MAX_NESTING)
        builder_fail(b, "grammar alternatives nested more than 16 deep");
    if (b->status != MOTE_OK)
        return;
    b->open[b->n_open].from = b->at;
    b->open[b->n_open++].to = rules_state(b->r);
    grammar_or(b);
}

void grammar_or(grammar_builder *b)
{
    if (b->n_open == 0)
        builder_fail(b, "an alternative of a grammar stands alone");
    if (b->status != MOTE_OK)
        return;
    const uint32_t from = b->open[b->n_open - 1].from;
    if (b->at != from)
        rules_skip(b->r, b->at, b->open[b->n_open - 1].to);
    b->at = rules_state(b->r);
    rules_skip(b->r, from, b->at);
}

void grammar_end_either(grammar_builder *b)
{
    if (b->n_open == 0)
        builder_fail(b, "an alternative of a grammar stands alone");
    if (b->status != MOTE_OK)
        return;
    const uint32_t to = b->open[--b->n_open].to;
    rules_skip(b->r, b->at, to);
    b->at = to;
}

/* ---- tools ---- */

/* Copies lines and puts the name of the tool before each. */
static void copy_tool_warnings(strbuf *out, str name, const strbuf *lines)
{
    out->failed |= lines->failed;
    for (size_t i = 0; i < lines->n; i++) {
        if (i == 0 || lines->p[i - 1] == '\n') {
            strbuf_put(out, name);
            strbuf_text(out, ": ");
        }
        strbuf_byte(out, lines->p[i]);
    }
}

static void add_one_tool(grammar_builder *b, const grammar_tool *tool, strbuf *warnings)
{
    strbuf lines = {0};
    const schema_options options = {
        .lenient = !tool->strict, .warnings = warnings != NULL ? &lines : NULL, .fuel = &b->fuel};
    grammar_add_text(b, tool->name);
    grammar_add_text(b, str_of(">\n"));
    if (b->status != MOTE_OK || tool->parameters == NULL)
        return;
    uint32_t rule;
    b->status = schema_put_call(b->r, tool->parameters, &options, &rule, b->err);
    if (b->status == MOTE_OK)
        builder_add_rule(b, rule);
    if (warnings != NULL)
        copy_tool_warnings(warnings, tool->name, &lines);
    strbuf_fini(&lines);
}

void grammar_add_tool_call(grammar_builder *b, const grammar_tool *tools, size_t n,
                           strbuf *warnings)
{
    if (n == 0 || n > GRAMMAR_MAX_TOOLS)
        builder_fail(b, "the list of tools must have 1 to 128 entries");
    grammar_add_text(b, str_of("\n<function="));
    grammar_either(b);
    for (size_t i = 0; i < n && b->status == MOTE_OK; i++) {
        if (i > 0)
            grammar_or(b);
        add_one_tool(b, &tools[i], warnings);
    }
    grammar_end_either(b);
    grammar_add_text(b, str_of("</function>\n"));
}

/* ---- result ---- */

void grammar_abandon(grammar_builder *b)
{
    rules_free(b->r);
    *b = (grammar_builder){0};
}

mote_status grammar_finish(grammar_builder *b, const token_trie *v, grammar **out)
{
    *out = NULL;
    if (b->n_open > 0)
        builder_fail(b, "grammar_either without grammar_end_either");
    if (b->status == MOTE_OK) {
        rules_skip(b->r, b->at, rules_end_of(b->r, b->rule));
        b->status = rules_finish(b->r, b->rule, b->err);
    }
    const mote_status status = b->status;
    if (status != MOTE_OK) {
        grammar_abandon(b);
        return status;
    }
    rules *r = b->r;
    b->r = NULL;
    return grammar_new(out, r, v, b->err);
}

mote_status grammar_of_json(grammar **out, const token_trie *v, bool object, mote_error *err)
{
    grammar_builder b;
    grammar_begin(&b, err);
    if (object)
        grammar_add_json_object(&b);
    else
        grammar_add_json(&b);
    return grammar_finish(&b, v, out);
}

mote_status grammar_of_schema(grammar **out, const token_trie *v, str schema,
                              const schema_options *options, mote_error *err)
{
    grammar_builder b;
    grammar_begin(&b, err);
    grammar_add_schema_text(&b, schema, options);
    return grammar_finish(&b, v, out);
}

mote_status grammar_of_regex(grammar **out, const token_trie *v, str pattern, mote_error *err)
{
    grammar_builder b;
    grammar_begin(&b, err);
    grammar_add_regex(&b, pattern);
    return grammar_finish(&b, v, out);
}

mote_status grammar_of_gbnf(grammar **out, const token_trie *v, str text, mote_error *err)
{
    grammar_builder b;
    grammar_begin(&b, err);
    grammar_add_gbnf(&b, text);
    return grammar_finish(&b, v, out);
}

mote_status grammar_of_choices(grammar **out, const token_trie *v, const str *texts, size_t n,
                               mote_error *err)
{
    grammar_builder b;
    grammar_begin(&b, err);
    grammar_add_choices(&b, texts, n);
    return grammar_finish(&b, v, out);
}
