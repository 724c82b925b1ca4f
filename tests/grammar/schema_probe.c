/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schema_probe.c - the schema compiler behind a pipe, for schema_random.py.
 *
 * Requests on standard input, replies on standard output:
 *
 *   S n   then n bytes of schema    ok STATES WARNINGS | refused STATUS REASON
 *   C n   the same with closed objects, the default; S and L have open ones, as JSON Schema says
 *   L n   the same in lenient mode
 *   D n   then n bytes of text      yes | no             does the latest schema accept it?
 *   W n   n is a seed               text n, then n bytes | open    a random text, or it did not end
 *   M n   then n bytes of text      exact | no           are all masks along the text exact?
 */
#include "grammar/grammar_rig.h"

#include "grammar/schema/schema.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { ROOM = 8192, MAX_INPUT = 1 << 22 };

static grammar *current;

static void probe_compile(str text, bool lenient, bool open)
{
    rules *r;
    uint32_t rule;
    mote_error err;
    strbuf warnings = {0};
    const schema_options options = {
        .lenient = lenient, .open_objects = open, .warnings = &warnings};
    grammar_free(current);
    current = NULL;
    mote_status status = rules_new(&r, &err);
    if (status == MOTE_OK)
        status = schema_put_text(r, text, &options, &rule, &err);
    if (status == MOTE_OK)
        status = rules_finish(r, rule, &err);
    const uint32_t states = status == MOTE_OK ? r->n_nodes : 0;
    if (status == MOTE_OK)
        status = grammar_new(&current, r, rig_vocab(), &err);
    else
        rules_free(r);
    if (status == MOTE_OK)
        printf("ok %" PRIu32 " %zu\n", states, warnings.n);
    else
        printf("refused %s %s\n", mote_status_name(status), err.text);
    strbuf_fini(&warnings);
}

static void probe_check(str text)
{
    bool fits = false;
    mote_error err = {0};
    if (current != NULL && grammar_check(current, text, &fits, &err) != MOTE_OK)
        fprintf(stderr, "schema_probe: %s\n", err.text);
    puts(fits ? "yes" : "no");
}

static void probe_generate(uint64_t seed)
{
    static char text[ROOM];
    size_t n;
    if (current == NULL || !rig_random_text(current, seed, text, ROOM, &n)) {
        puts("open");
        return;
    }
    printf("text %zu\n", n);
    fwrite(text, 1, n, stdout);
}

static char *read_bytes(uint64_t n)
{
    char *bytes = malloc((size_t)n + 1);
    if (n > MAX_INPUT || bytes == NULL || fread(bytes, 1, (size_t)n, stdin) != n)
        exit(1);
    bytes[n] = 0;
    return bytes;
}

static void probe_masks(str text)
{
    bool fits = false;
    if (current == NULL || grammar_check(current, text, &fits, NULL) != MOTE_OK || !fits) {
        puts("no");
        return;
    }
    rig_check_masks(current, text, text.n);
    puts("exact");
}

static void serve_requests(void **state)
{
    char what;
    uint64_t n;
    (void)state;
    while (scanf(" %c %" SCNu64, &what, &n) == 2) {
        if (what == 'W') {
            probe_generate(n);
        } else {
            getchar(); /* the end of the line */
            char *bytes = read_bytes(n);
            const str text = {bytes, (size_t)n};
            if (what == 'D')
                probe_check(text);
            else if (what == 'M')
                probe_masks(text);
            else
                probe_compile(text, what == 'L', what != 'C');
            free(bytes);
        }
        fflush(stdout);
    }
    grammar_free(current);
}

/* The rig reports failures through cmocka, so this runs as a test. */
int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(serve_requests)};
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
