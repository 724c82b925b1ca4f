/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_schema.c - fuzzes the schema compiler, and the regex compiler if the input starts with '/'.
 * Built with FUZZ_GBNF (fuzz_gbnf): the GBNF compiler.
 *
 * The result must be an error with a message, or a usable grammar: at every position of a random
 * text some token is allowed, a complete text of a schema is JSON, and each mask equals
 * grammar_allows of every token.
 */
#include "base/mem.h"
#include "base/philox.h"
#include "fuzz/fuzz.h"
#include "grammar/grammar.h"
#include "grammar/grammar_rig.h"

#include <stdio.h>
#include <stdlib.h>

enum { STEPS = 48, ROOM = 4096, WORDS = 32 };

static void demand(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "fuzz_schema: %s\n", what);
    abort();
}

static void check_complete(grammar_matcher *m, str text, bool json)
{
    json_doc *doc;
    if (!json || !grammar_is_complete(m))
        return;
    demand(json_doc_read(&doc, text, NULL) == MOTE_OK, "a complete text is not JSON");
    json_doc_free(doc);
}

static uint32_t choose(grammar_matcher *m, const uint32_t *bits, uint64_t seed, uint64_t step)
{
    uint32_t n = 0, allowed[WORDS * 32];
    const uint32_t tokens = rig_vocab()->source.n;
    for (uint32_t id = 0; id < tokens; id++) {
        const bool in_mask = (bits[id / 32] >> id % 32 & 1) != 0;
        if (step % 8 == 0)
            demand(in_mask == grammar_allows(m, (mote_token)id), "a mask is not exact");
        if (in_mask)
            allowed[n++] = id;
    }
    return allowed[philox(seed, step, 1).word[0] % n];
}

static void walk(grammar *g, uint64_t seed, bool json)
{
    static char text[ROOM];
    size_t n = 0;
    uint32_t bits[WORDS];
    mote_error err = {0};
    grammar_matcher *m;
    demand(grammar_matcher_new(&m, g, &err) == MOTE_OK, "no memory");
    for (uint64_t step = 0; step < STEPS && !grammar_is_over(m); step++) {
        const mote_status status = grammar_mask(m, bits, &err);
        if (status == MOTE_E_FULL || status == MOTE_E_ARG) {
            /* Too ambiguous or too deep: an error, never a dead end. */
            demand(err.text[0] != 0 && err.text[0] != 'n', "the text cannot go on");
            break;
        }
        demand(status == MOTE_OK, err.text);
        const uint32_t id = choose(m, bits, seed, step);
        const str bytes = rig_vocab()->source.bytes(NULL, id);
        demand(grammar_accept(m, (mote_token)id, &err) == MOTE_OK, "an allowed token is refused");
        if (!grammar_is_over(m) && n + bytes.n <= ROOM) {
            memcpy(text + n, bytes.p, bytes.n);
            n += bytes.n;
            check_complete(m, (str){text, n}, json);
        }
    }
    grammar_matcher_free(m);
}

typedef enum form { SCHEMA, LENIENT_SCHEMA, PATTERN, GBNF } form;

static mote_status grammar_of(form as, str text, grammar **g, mote_error *err)
{
    const schema_options options = {.lenient = as == LENIENT_SCHEMA};
    if (as == PATTERN)
        return grammar_of_regex(g, rig_vocab(), text, err);
    if (as == GBNF)
        return grammar_of_gbnf(g, rig_vocab(), text, err);
    return grammar_of_schema(g, rig_vocab(), text, &options, err);
}

static void compile(str text, form as)
{
    mote_error err = {0};
    grammar *g;
    const mote_status status = grammar_of(as, text, &g, &err);
    demand((status == MOTE_OK) == (g != NULL), "a failure with a grammar, or the other way round");
    demand(status == MOTE_OK || (err.status == status && err.text[0] != 0),
           "a failure without its error");
    for (uint64_t seed = 0; g != NULL && seed < 3; seed++)
        walk(g, seed, as < PATTERN);
    grammar_free(g);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    rig_vocab();
    const mem_stats before = mem_count();
#ifdef FUZZ_GBNF
    compile((str){(const char *)data, size}, GBNF);
#else
    const bool pattern = size > 0 && data[0] == '/';
    const str text = {(const char *)data + pattern, size - pattern};
    compile(text, pattern ? PATTERN : SCHEMA);
    if (!pattern)
        compile(text, LENIENT_SCHEMA);
#endif
    demand(mem_count().blocks == before.blocks, "memory is left behind");
    return 0;
}
