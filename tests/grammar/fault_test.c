/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fault_test.c - every allocation while compiling and using a grammar fails once.
 *
 * Allocation 1 fails, then allocation 2, and so on until a run succeeds. Each failure must be an
 * error, leak nothing and allow nothing: a mask that could not be computed has no bit set.
 */
#include "base/mem.h"
#include "grammar/grammar.h"
#include "grammar/grammar_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_FAULTS = 100000, WORDS = 32 };

static const char schema[] =
    "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\",\"maxLength\":300,\"pattern\":"
    "\"^[a-z]+$\"},"
    "\"b\":{\"oneOf\":[{\"type\":\"number\",\"minimum\":-2.5},{\"type\":\"null\"}]},"
    "\"c\":{\"type\":\"array\",\"items\":{\"enum\":[1,\"x\",true]},\"uniqueItems\":true},"
    "\"d\":{\"not\":{\"type\":\"string\"}},\"e\":{\"$ref\":\"#/properties/a\"}},"
    "\"patternProperties\":{\"^x\":{\"type\":\"integer\",\"multipleOf\":3}},"
    "\"required\":[\"b\",\"c\"],\"maxProperties\":4}";
static const char text[] = "{\"a\":\"foobar\",\"b\":-2.25,\"c\":[\"x\",1],\"xyz\":9}";

static bool no_bits(const uint32_t *bits)
{
    for (int i = 0; i < WORDS; i++)
        if (bits[i] != 0)
            return false;
    return true;
}

/* Matches the text byte by byte, with a mask before every byte, and forks the matcher. */
static mote_status use_grammar(grammar *g, mote_error *err)
{
    grammar_matcher *m, *other = NULL;
    uint32_t bits[WORDS] = {0};
    mote_status status = grammar_matcher_new(&m, g, err);
    for (size_t i = 0; status == MOTE_OK && i < sizeof text - 1; i++) {
        memset(bits, 0xFF, grammar_mask_words(g) * sizeof *bits);
        status = grammar_mask(m, bits, err);
        assert_true(status == MOTE_OK || no_bits(bits));
        if (status == MOTE_OK)
            status = grammar_accept(m, (unsigned char)text[i], err);
        assert_true(status == MOTE_OK || grammar_length(m) == i);
        if (status == MOTE_OK && i == 20)
            status = grammar_matcher_fork(&other, m, err);
    }
    grammar_matcher_free(other);
    grammar_matcher_free(m);
    return status;
}

static mote_status run_schema(mote_error *err)
{
    strbuf warnings = {0};
    grammar *g;
    const schema_options options = {.lenient = true, .warnings = &warnings};
    mote_status status = grammar_of_schema(&g, rig_vocab(), str_of(schema), &options, err);
    assert_true((status == MOTE_OK) == (g != NULL));
    if (status == MOTE_OK)
        status = use_grammar(g, err);
    grammar_free(g);
    strbuf_fini(&warnings);
    return status;
}

static mote_status run_vocab(mote_error *err)
{
    token_trie *v;
    const mote_status status = token_trie_new(&v, &rig_vocab()->source, err);
    assert_true((status == MOTE_OK) == (v != NULL));
    token_trie_free(v);
    return status;
}

static mote_status run_tools(mote_error *err)
{
    json_doc *doc;
    grammar *g = NULL;
    mote_status status = json_doc_read(&doc, str_of(schema), err);
    if (status == MOTE_OK) {
        const grammar_tool tool = {.name = str_of("f"), .parameters = json_doc_root(doc)};
        grammar_builder b;
        grammar_begin(&b, err);
        grammar_add_tool_call(&b, &tool, 1, NULL);
        grammar_add_text_until(&b, str_of("end"));
        status = grammar_finish(&b, rig_vocab(), &g);
    }
    json_doc_free(doc);
    grammar_free(g);
    return status;
}

static mote_status run_gbnf(mote_error *err)
{
    grammar *g;
    mote_status status = grammar_of_gbnf(
        &g, rig_vocab(),
        str_of("root ::= \"{\" (pair (\",\" pair)*)? \"}\" ws\n"
               "pair ::= \"\\\"\" [^\\x00-\\x1F\"]{1,9} \"\\\":\" value\n"
               "value ::= [-.0-9\\u00E9]+ | \"\\\"\" [a-z]* \"\\\"\" | \"[\" list{0,3} \"]\"\n"
               "list ::= (value \",\"?)?\nws ::= | \"\\n\" ws\n"),
        err);
    assert_true((status == MOTE_OK) == (g != NULL));
    if (status == MOTE_OK)
        status = use_grammar(g, err);
    grammar_free(g);
    return status;
}

static void fail_every(mote_status (*act)(mote_error *), const char *name)
{
    rig_vocab();
    const uint64_t blocks = mem_count().blocks;
    for (uint64_t n = 1; n < MAX_FAULTS; n++) {
        mote_error err = {0};
        mem_fail_at(n);
        const mote_status status = act(&err);
        const bool failed = mem_failed();
        mem_fail_at(0);
        if (mem_count().blocks != blocks)
            fail_msg("%s: allocation %u failed and leaked memory", name, (unsigned)n);
        if (!failed) {
            if (status != MOTE_OK)
                fail_msg("%s: %s", name, err.text);
            print_message("%s: %u allocations\n", name, (unsigned)(n - 1));
            return;
        }
        /* Some allocations are caches: their failure is no error. */
        if (status != MOTE_OK && (status != MOTE_E_MEMORY || err.text[0] == 0))
            fail_msg("%s: allocation %u failed: status %d, '%s'", name, (unsigned)n, (int)status,
                     err.text);
    }
    fail_msg("%s never succeeds", name);
}

static void test_schema(void **state)
{
    (void)state;
    fail_every(run_schema, "schema");
}

static void test_vocab(void **state)
{
    (void)state;
    fail_every(run_vocab, "vocabulary");
}

static void test_tools(void **state)
{
    (void)state;
    fail_every(run_tools, "tools");
}

static void test_gbnf(void **state)
{
    (void)state;
    fail_every(run_gbnf, "grammar");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_vocab), cmocka_unit_test(test_schema),
                                       cmocka_unit_test(test_tools), cmocka_unit_test(test_gbnf)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
