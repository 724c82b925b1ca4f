/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grammar_bench.c - times of grammar compilation and token masks, for bench/grammar_compare.py.
 *
 *   grammar_bench VOCABULARY.gguf [ROUNDS]
 *
 * Reads requests from standard input, each a letter, a length and that many bytes:
 *
 *   S schema   ok MICROSECONDS             | refused MICROSECONDS REASON
 *   G grammar  the same for a GBNF grammar
 *   D text     yes | no                    does the latest schema or grammar accept it?
 *   I text     its token ids, on one line
 *   T text     yes, then nanoseconds of each mask, before every token and at the end | no
 *
 * Objects are open (schema_options.open_objects), as JSON Schema says: documents of validators are
 * compared.
 *
 * Times are CPU time. A compilation is timed until the grammar is ready for its first mask; the
 * best of ROUNDS counts. T compiles a new grammar, so its caches are empty.
 *
 * Built as tests/grammar/grammar_bench.
 */
#include "base/os.h"
#include "gguf/gguf.h"
#include "grammar/grammar.h"
#include "tok/tok.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MAX_INPUT = 1 << 24, MAX_IDS = 1 << 20 };

static const tok *tokenizer;
static token_trie *vocabulary;
static char *schema; /* or grammar */
static size_t schema_bytes;
static bool is_gbnf;
static mote_token *ids;

static int64_t used(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static _Noreturn void die(const char *what, const char *why)
{
    fprintf(stderr, "grammar_bench: %s: %s\n", what, why);
    exit(1);
}

static token_trie_kind kind(const void *ctx, uint32_t id)
{
    const tok *t = ctx;
    if (id >= tok_n_tokens(t) || tok_bytes(t, (mote_token)id).n == 0)
        return TRIE_NEVER;
    if (tok_is_end(t, (mote_token)id))
        return TRIE_END;
    return tok_is_control(t, (mote_token)id) ? TRIE_NEVER : TRIE_TEXT;
}

static str bytes(const void *ctx, uint32_t id)
{
    return tok_bytes(ctx, (mote_token)id);
}

static mote_status compile(grammar **g, mote_error *err)
{
    const str text = {schema, schema_bytes};
    const schema_options options = {.open_objects = true};
    return is_gbnf ? grammar_of_gbnf(g, vocabulary, text, err)
                   : grammar_of_schema(g, vocabulary, text, &options, err);
}

static void time_compilation(int rounds)
{
    int64_t best = INT64_MAX;
    for (int i = 0; i < rounds; i++) {
        mote_error err;
        grammar *g;
        const int64_t start = used();
        const mote_status status = compile(&g, &err);
        const int64_t took = used() - start;
        if (status != MOTE_OK) {
            printf("refused %.1f %s\n", (double)took / 1e3, err.text);
            schema_bytes = 0;
            return;
        }
        best = took < best ? took : best;
        grammar_free(g);
    }
    printf("ok %.1f\n", (double)best / 1e3);
}

static void check(str text)
{
    mote_error err;
    grammar *g;
    bool fits = false;
    if (compile(&g, &err) == MOTE_OK)
        grammar_check(g, text, &fits, &err);
    grammar_free(g);
    puts(fits ? "yes" : "no");
}

static size_t encode(str text)
{
    size_t n;
    mote_error err;
    if (tok_encode(tokenizer, text, 0, ids, MAX_IDS, &n, &err) != MOTE_OK || n > MAX_IDS)
        die("encode", err.text);
    return n;
}

static void print_ids(str text)
{
    const size_t n = encode(text);
    for (size_t i = 0; i < n; i++)
        printf("%" PRId32 " ", ids[i]);
    puts("");
}

static void time_masks(str text)
{
    mote_error err;
    grammar *g;
    grammar_matcher *m = NULL;
    const size_t n = encode(text);
    int64_t *took = calloc(n + 1, sizeof *took);
    if (compile(&g, &err) != MOTE_OK || grammar_matcher_new(&m, g, &err) != MOTE_OK || took == NULL)
        die("masks", err.text);
    uint32_t *bits = malloc(grammar_mask_words(g) * sizeof *bits);
    bool ok = bits != NULL;
    for (size_t i = 0; i <= n && ok; i++) {
        const int64_t start = used();
        ok = grammar_mask(m, bits, &err) == MOTE_OK;
        took[i] = used() - start;
        if (i < n && ok)
            ok = (bits[ids[i] / 32] >> ids[i] % 32 & 1) != 0 &&
                 grammar_accept(m, ids[i], &err) == MOTE_OK;
    }
    if (ok) {
        printf("yes");
        for (size_t i = 0; i <= n; i++)
            printf(" %" PRId64, took[i]);
        puts("");
    } else {
        puts("no");
    }
    free(bits);
    free(took);
    grammar_matcher_free(m);
    grammar_free(g);
}

static void open_vocabulary(const char *path)
{
    mote_error err;
    static os_map map;
    gguf *g;
    tok *t;
    if (os_map_open(&map, path, &err) != MOTE_OK ||
        gguf_read(&g, map.data, map.bytes, &err) != MOTE_OK || tok_new(&t, g, &err) != MOTE_OK)
        die(path, err.text);
    tokenizer = t;
    /* Rows of the model's output: the vocabulary size, padded as in this model family. */
    const uint32_t rows =
        tok_n_tokens(t) < 248320 && tok_n_tokens(t) > 240000 ? 248320 : tok_n_tokens(t);
    const token_trie_source source = {.ctx = t, .n = rows, .kind = kind, .bytes = bytes};
    const int64_t start = used();
    if (token_trie_new(&vocabulary, &source, &err) != MOTE_OK)
        die("vocabulary", err.text);
    fprintf(stderr, "grammar_bench: %u tokens, index made in %.0f ms, %.1f MB\n", rows,
            (double)(used() - start) / 1e6, (double)token_trie_bytes(vocabulary) / 1e6);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        die("usage", "grammar_bench VOCABULARY.gguf [ROUNDS]");
    const int rounds = argc > 2 ? atoi(argv[2]) : 3;
    open_vocabulary(argv[1]);
    ids = malloc(MAX_IDS * sizeof *ids);
    char what;
    size_t n;
    while (scanf(" %c %zu", &what, &n) == 2) {
        char *input = n <= MAX_INPUT ? malloc(n + 1) : NULL;
        getchar();
        if (ids == NULL || input == NULL || fread(input, 1, n, stdin) != n)
            die("request", "cut short");
        if (what == 'S' || what == 'G') {
            is_gbnf = what == 'G';
            free(schema);
            schema = input;
            schema_bytes = n;
            time_compilation(rounds);
            input = NULL;
        } else if (what == 'D') {
            check((str){input, n});
        } else if (what == 'I') {
            print_ids((str){input, n});
        } else {
            time_masks((str){input, n});
        }
        free(input);
        fflush(stdout);
    }
    return 0;
}
