/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tok_golden.c - the vocabulary of Qwen 3.5 against the reference tokenizer: every
 * encoding, every decoding, and the bytes of every token.
 */
#include "base/mem.h"
#include "base/os.h"
#include "support/data.h"
#include "support/json.h"
#include "support/sha256.h"
#include "tok/tok.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

enum { N_TOKENS = 248077, FIRST_ADDED = 248044, IM_END = 248046 };

static os_map file;
static gguf *g;
static tok *t;
static double open_seconds;
static uint64_t held;

static int setup(void **state)
{
    (void)state;
    char path[TEST_PATH];
    mote_error err = {0};
    if (!test_data_path(path, "qwen35-vocab.gguf"))
        exit(TEST_SKIPPED);
    if (os_map_open(&file, path, &err) != MOTE_OK ||
        gguf_read(&g, file.data, file.bytes, &err) != MOTE_OK)
        fail_msg("%s", err.text);
    uint64_t before = mem_count().bytes;
    clock_t start = clock();
    if (tok_new(&t, g, &err) != MOTE_OK)
        fail_msg("%s", err.text);
    open_seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    held = mem_count().bytes - before;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tok_free(t);
    gguf_free(g);
    os_map_close(&file);
    return 0;
}

/* Calls check for each line of a file of the data directory; returns how many there were. */
static int each_line(const char *name, void (*check)(const test_json *line))
{
    char path[TEST_PATH];
    size_t bytes;
    int n = 0;
    assert_true(test_data_path(path, name));
    char *text = (char *)test_file_read(path, &bytes), *end = text + bytes;
    assert_non_null(text);
    for (char *at = text; at < end; n++) {
        char *stop = memchr(at, '\n', (size_t)(end - at));
        stop = stop != NULL ? stop : end;
        const test_json *line = test_json_parse(at, (size_t)(stop - at));
        assert_non_null(line);
        check(line);
        test_json_free(line);
        at = stop + 1;
    }
    free(text);
    return n;
}

static void check_case(const test_json *line)
{
    const test_json *ids = test_json_get(line, "ids"), *id = ids + 1;
    str text = test_json_get(line, "text")->text, name = test_json_get(line, "name")->text;
    unsigned flags = test_json_get(line, "special")->truth ? TOK_CONTROL : 0;
    mote_token *got = malloc((3 * text.n + 1) * sizeof *got);
    size_t n = 0;
    assert_non_null(got);
    assert_int_equal(tok_encode(t, text, flags, got, 3 * text.n + 1, &n, NULL), MOTE_OK);
    if (n != ids->n)
        fail_msg("%.*s: %zu ids, not %u", STR_ARG(name), n, ids->n);
    for (size_t i = 0; i < n; i++, id += id->next)
        if (got[i] != (mote_token)id->number)
            fail_msg("%.*s: id %zu is %d, not %.0f", STR_ARG(name), i, got[i], id->number);
    free(got);
}

static void every_case_encodes_as_the_reference(void **state)
{
    (void)state;
    assert_int_equal(each_line("tokenizer/golden/cases.jsonl", check_case), 5025);
}

/* Bytes as hexadecimal digits behind what is there. */
static size_t put_hex(char *out, size_t n, str bytes)
{
    for (size_t i = 0; i < bytes.n; i++)
        n += (size_t)sprintf(out + n, "%02x", (unsigned char)bytes.p[i]);
    return n;
}

static void check_decoding(const test_json *line)
{
    const test_json *ids = test_json_get(line, "ids"), *id = ids + 1;
    str name = test_json_get(line, "name")->text;
    str hex = test_json_get(line, "hex")->text, skip = test_json_get(line, "hex_skip")->text;
    char *all = malloc(hex.n + 512), *shown = malloc(hex.n + 512);
    size_t n_all = 0, n_shown = 0;
    assert_non_null(all);
    assert_non_null(shown);
    for (uint32_t i = 0; i < ids->n; i++, id += id->next) {
        mote_token token = (mote_token)id->number;
        str bytes = tok_bytes(t, token);
        assert_true(n_all + 2 * bytes.n <= hex.n);
        n_all = put_hex(all, n_all, bytes);
        if (!tok_is_control(t, token))
            n_shown = put_hex(shown, n_shown, bytes);
    }
    if (!str_eq((str){all, n_all}, hex) || !str_eq((str){shown, n_shown}, skip))
        fail_msg("%.*s decodes differently", STR_ARG(name));
    free(shown);
    free(all);
}

static void every_decoding_gives_the_bytes_of_the_reference(void **state)
{
    (void)state;
    assert_int_equal(each_line("tokenizer/golden/decode.jsonl", check_decoding), 1563);
}

static void all_tokens_have_the_digest_of_the_reference(void **state)
{
    (void)state;
    const test_json *wanted = test_json_data("tokenizer/golden/all_tokens_digest.json");
    test_sha256 sum;
    char hex[65];
    test_sha256_begin(&sum);
    for (mote_token id = 0; id < N_TOKENS; id++) {
        str bytes = tok_bytes(t, id);
        uint32_t n = (uint32_t)bytes.n;
        test_sha256_add(&sum, &n, sizeof n);
        test_sha256_add(&sum, bytes.p, bytes.n);
    }
    test_sha256_end(&sum, hex);
    assert_true(str_is(test_json_get(wanted, "sha256")->text, hex));
    test_json_free(wanted);
}

static void kinds_are_those_of_the_tokenizer(void **state)
{
    (void)state;
    int n_control = 0;
    assert_int_equal(tok_n_tokens(t), N_TOKENS);
    for (mote_token id = 0; id < 248320; id++) {
        /* <tool_call> to </think>, fim_prefix to file_sep included, are not special */
        bool control = id >= FIRST_ADDED && id < N_TOKENS && !(id >= 248058 && id <= 248069);
        assert_int_equal(tok_is_control(t, id), control);
        assert_int_equal(tok_is_end(t, id), id == FIRST_ADDED || id == IM_END);
        n_control += control;
    }
    assert_int_equal(n_control, 21);
    assert_int_equal(tok_find_added(t, "<think>"), 248068);
    assert_int_equal(tok_find_added(t, "<|audio_pad|>"), 248076);
    assert_int_equal(tok_find_added(t, "<|audio_pad|"), -1);
}

/* Plain ASCII comes back as it went in, however its bytes were grouped. */
static void tokens_survive_a_round_trip(void **state)
{
    (void)state;
    int n_checked = 0;
    for (mote_token id = 0; id < FIRST_ADDED; id++) {
        mote_token ids[128];
        char back[128];
        size_t n, n_back = 0;
        str bytes = tok_bytes(t, id);
        bool ascii = true;
        for (size_t i = 0; i < bytes.n; i++)
            ascii &= (unsigned char)bytes.p[i] < 128;
        if (!ascii)
            continue;
        assert_true(bytes.n > 0 && bytes.n <= 128);
        assert_int_equal(tok_encode(t, bytes, 0, ids, 128, &n, NULL), MOTE_OK);
        for (size_t i = 0; i < n; i++) {
            str part = tok_bytes(t, ids[i]);
            assert_true(n_back + part.n <= bytes.n);
            memcpy(back + n_back, part.p, part.n);
            n_back += part.n;
        }
        assert_true(str_eq((str){back, n_back}, bytes));
        n_checked++;
    }
    assert_true(n_checked > 90000);
}

static void opening_holds_what_it_says(void **state)
{
    (void)state;
    print_message("opened in %.0f ms of processor time, holds %.1f MB\n", open_seconds * 1e3,
                  (double)tok_private_bytes(t) / 1e6);
    assert_int_equal(tok_private_bytes(t), held);
    assert_true(held < 10u << 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_case_encodes_as_the_reference),
        cmocka_unit_test(every_decoding_gives_the_bytes_of_the_reference),
        cmocka_unit_test(all_tokens_have_the_digest_of_the_reference),
        cmocka_unit_test(kinds_are_those_of_the_tokenizer),
        cmocka_unit_test(tokens_survive_a_round_trip),
        cmocka_unit_test(opening_holds_what_it_says),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
