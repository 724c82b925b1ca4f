/* SPDX-License-Identifier: Apache-2.0 */
/* names_test.c - model arguments, and the table of known models. */
#include "store/model_name.h"
#include "support/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static known_models known;

static int open_table(void **state)
{
    (void)state;
    mote_error err;
    return known_models_init(&known, &err) == MOTE_OK ? 0 : -1;
}

static int close_table(void **state)
{
    (void)state;
    known_models_fini(&known);
    return 0;
}

/* ---- arguments ---- */

static void known_names(void **state)
{
    (void)state;
    static const struct {
        const char *argument, *row, *quant, *think;
    } cases[] = {
        {"qwen3.5:4b", "qwen3.5:4b", "Q4_K_M", NULL},
        {"QWEN3.5:4B", "qwen3.5:4b", "Q4_K_M", NULL},
        {"qwen3.5:4b-q5_k_m", "qwen3.5:4b", "Q5_K_M", NULL},
        {"qwen3.5:4b-ud-q4_k_xl", "qwen3.5:4b", "UD-Q4_K_XL", NULL},
        {"qwen3.5:4b-small", "qwen3.5:4b", "Q4_K_S", NULL},
        {"qwen3.5:4b-best", "qwen3.5:4b", "Q8_0", NULL},
        {"qwen3.5:0.8b", "qwen3.5:0.8b", "Q8_0", NULL},
        {"qwen3.5:27b-bf16", "qwen3.5:27b", "BF16", NULL},
        {"qwen3.5:4b:nothink", "qwen3.5:4b", "Q4_K_M", "off"},
        {"qwen3.5:4b-q8_0:low", "qwen3.5:4b", "Q8_0", "low"},
        {"qwen3.5:9b:think", "qwen3.5:9b", "Q4_K_M", "on"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        model_name m;
        mote_error err;
        assert_int_equal(model_name_parse(&m, &known, cases[i].argument, &err), MOTE_OK);
        assert_int_equal(m.kind, MODEL_NAME_KNOWN);
        assert_string_equal(m.known->name, cases[i].row);
        assert_string_equal(m.quant, cases[i].quant);
        if (cases[i].think == NULL)
            assert_null(m.think);
        else
            assert_string_equal(m.think, cases[i].think);
    }
}

static void hub_names(void **state)
{
    (void)state;
    static const struct {
        const char *argument, *repo, *revision, *selector;
    } cases[] = {
        {"hf:unsloth/Qwen3.5-4B-GGUF", "unsloth/Qwen3.5-4B-GGUF", "", ""},
        {"hf:a/b:Q8_0", "a/b", "", "Q8_0"},
        {"hf:a/b:BF16/x-00001-of-00002.gguf", "a/b", "", "BF16/x-00001-of-00002.gguf"},
        {"hf:a/b@refs/pr/1:Q8_0", "a/b", "refs/pr/1", "Q8_0"},
        {"hf.co/a/b:Q8_0", "a/b", "", "Q8_0"},
        {"huggingface.co/a/b", "a/b", "", ""},
    };
    static const char *const bad[] = {
        "hf:",
        "hf:a",
        "hf:a/",
        "hf:/b",
        "hf:a/b/c",
        "hf:../b",
        "hf:a/..",
        "hf:a/b--c",
        "hf:a/b:",
        "hf:a/b:../x",
        "hf:a/b:/etc/passwd",
        "hf:a/b:x\\y",
        "hf:a/b@",
        "hf:a/b@../x",
        "hf:a/b:x\n",
        "hf:a/b@main/",
        "hf:.a/b",
        "hf:a/b.",
        "hf:a b/c",
    };
    model_name m;
    mote_error err;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(model_name_parse(&m, &known, cases[i].argument, &err), MOTE_OK);
        assert_int_equal(m.kind, MODEL_NAME_HUB);
        assert_string_equal(m.repo, cases[i].repo);
        assert_string_equal(m.revision, cases[i].revision);
        assert_string_equal(m.selector, cases[i].selector);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(model_name_parse(&m, &known, bad[i], &err), MOTE_E_ARG);
}

static void other_arguments(void **state)
{
    (void)state;
    model_name m;
    mote_error err;
    assert_int_equal(model_name_parse(&m, &known, "qwen3.5", &err), MOTE_OK);
    assert_int_equal(m.kind, MODEL_NAME_FAMILY);
    assert_int_equal(model_name_parse(&m, &known, "qwen3.5:latest", &err), MOTE_OK);
    assert_int_equal(m.kind, MODEL_NAME_FAMILY);
    assert_int_equal(model_name_parse(&m, &known, "qwen3.5:3b", &err), MOTE_E_ARG);
    assert_non_null(strstr(err.text, "qwen3.5:2b, qwen3.5:4b"));
    assert_int_equal(model_name_parse(&m, &known, "qwen3.5:4b-q9", &err), MOTE_E_ARG);
    assert_non_null(strstr(err.text, "q4_k_m"));
    assert_int_equal(model_name_parse(&m, &known, "llama3:8b", &err), MOTE_OK);
    assert_int_equal(m.kind, MODEL_NAME_OTHER);
    assert_int_equal(model_name_parse(&m, &known, "model.gguf", &err), MOTE_OK);
    assert_int_equal(m.kind, MODEL_NAME_PATH);
    assert_int_equal(model_name_parse(&m, &known, "user/model", &err), MOTE_OK);
    assert_int_equal(m.kind, MODEL_NAME_PATH);
    assert_int_equal(model_name_parse(&m, &known, ".", &err), MOTE_OK);
    assert_int_equal(m.kind, MODEL_NAME_PATH);
    assert_int_equal(model_name_parse(&m, &known, "", &err), MOTE_E_ARG);
    char *text = calloc(1, 5001);
    assert_non_null(text);
    memset(text, 'a', 5000);
    assert_int_equal(model_name_parse(&m, &known, text, &err), MOTE_E_ARG);
    free(text);
}

static void names_of_files(void **state)
{
    (void)state;
    char name[MODEL_NAME_BYTES];
    model_name_of_file(name, "/x/Qwen3.5-4B-Q4_K_M.gguf");
    assert_string_equal(name, "qwen3.5-4b-q4_k_m");
    model_name_of_file(name, "A b-00001-of-00003.gguf");
    assert_string_equal(name, "a-b");
}

/* ---- the table ---- */

static mote_status add(known_models *k, const char *text, mote_error *err)
{
    conf_file f;
    const mote_status parsed = conf_file_parse(&f, "models", str_of(text), err);
    if (parsed != MOTE_OK)
        return parsed;
    const mote_status status = known_models_add(k, &f, err);
    conf_file_fini(&f);
    return status;
}

static void users_table(void **state)
{
    (void)state;
    known_models k;
    mote_error err;
    assert_int_equal(known_models_init(&k, &err), MOTE_OK);
    const uint32_t n = k.n;
    assert_int_equal(add(&k,
                         "[qwen3.5:4b]\nrepo = me/Mine\n"
                         "[mote-tiny]\nrepo = mote/tiny\nfile = mote-tiny-{quant}.gguf\n"
                         "quants = Q4_K_M, Q8_0\n",
                         &err),
                     MOTE_OK);
    assert_int_equal(k.n, n + 1);
    const known_model *row = known_models_find(&k, str_of("qwen3.5:4b"));
    assert_string_equal(row->repo, "me/Mine");
    assert_int_equal(row->shape.layers, 32); /* keys that the section does not give stay */
    model_name m;
    assert_int_equal(model_name_parse(&m, &k, "mote-tiny:q8_0", &err), MOTE_OK);
    assert_string_equal(m.quant, "Q8_0");
    char file[KNOWN_PATH_BYTES], name[KNOWN_FULL_NAME_BYTES];
    assert_true(known_file(m.known, m.quant, file));
    assert_string_equal(file, "mote-tiny-Q8_0.gguf");
    known_full_name(m.known, m.quant, name);
    assert_string_equal(name, "mote-tiny-q8_0");
    assert_int_equal(model_name_parse(&m, &k, "mote-tiny", &err), MOTE_OK);
    assert_string_equal(m.quant, "Q4_K_M");
    known_models_fini(&k);
}

static void wrong_tables(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"repo = a/b", "models:1: repo is before the first section"},
        {"[a b]", "models:1: [a b] is no name"},
        {"[x]\nrepos = a/b", "models:2: unknown key repos"},
        {"[x]\nrepo = ../b", "models:2: repo must be OWNER/NAME"},
        {"[x]\nrepo = a/b", "[x] has no file"},
        {"[x]\nrepo = a/b\nfile = /abs.gguf", "file must be a path in the repository"},
        {"[x]\nrepo = a/b\nfile = ../{quant}.gguf", "file must be a path in the repository"},
        {"[x]\nrepo = a/b\nfile = a.gguf\nquants = Q4_K_M Q8_0", "has no {quant}"},
        {"[x]\nrepo = a/b\nfile = a.gguf\nquants = ../x", "no quantisation"},
        {"[x]\nrepo = a/b\nfile = {quant}\nquants = A B\ndefault = C", "not in its quants"},
        {"[qwen3.5:4b]\nbest = Q1", "best = Q1 is not in its quants"},
        {"[qwen3.5:4b]\nlayers = many", "layers must be a number"},
        {"[qwen3.5:4b]\nlayers = 99999999999", "layers must be a number"},
        {"[qwen3.5:4b]\nmmproj = a/../b", "mmproj must be a path"},
        {"[qwen3.5:4b]\nrevision = -x", "revision must be a branch"},
        {"[qwen3.5:4b]\ntied = maybe", "tied must be yes or no"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const uint32_t n = known.n;
        mote_error err;
        assert_int_equal(add(&known, cases[i].text, &err), MOTE_E_FORMAT);
        if (strstr(err.text, cases[i].says) == NULL)
            fail_msg("'%s' is not in '%s'", cases[i].says, err.text);
        assert_int_equal(known.n, n);
    }
}

/* Random changes of a valid table never crash, and a refused one changes nothing. */
static void damaged_tables(void **state)
{
    (void)state;
    static const char valid[] = "[mine:1b]\nrepo = a/b\nrevision = main\nfile = x-{quant}.gguf\n"
                                "quants = Q4_K_M Q8_0\ndefault = Q8_0\nmmproj = mmproj.gguf\n"
                                "layers = 24\ntied = yes\n";
    static const char bytes[] = "[]={}#/.:\"\\ \n\t\x01\x7F-aZ9";
    test_random r = {16};
    int refused = 0;
    for (int round = 0; round < 5000; round++) {
        char text[sizeof valid];
        known_models k;
        mote_error err;
        memcpy(text, valid, sizeof valid);
        for (uint64_t n = 1 + test_random_below(&r, 3); n > 0; n--)
            text[test_random_below(&r, sizeof valid - 1)] =
                bytes[test_random_below(&r, sizeof bytes - 1)];
        if (round % 100 == 0)
            text[test_random_below(&r, sizeof valid - 1)] = '\0';
        assert_int_equal(known_models_init(&k, &err), MOTE_OK);
        const uint32_t n = k.n;
        if (add(&k, text, &err) != MOTE_OK) {
            assert_int_equal(k.n, n);
            refused++;
        }
        for (uint32_t i = 0; i < k.n; i++) { /* whatever was accepted is safe to use as a path */
            char file[KNOWN_PATH_BYTES];
            assert_true(hub_repo_valid(str_of(k.rows[i].repo)));
            assert_true(hub_revision_valid(str_of(k.rows[i].revision)));
            for (size_t q = 0; q < k.rows[i].n_quants; q++) {
                assert_true(known_file(&k.rows[i], k.rows[i].quants[q], file));
                assert_true(hub_path_valid(str_of(file)));
            }
        }
        known_models_fini(&k);
    }
    assert_true(refused > 1000 && refused < 5000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_names),     cmocka_unit_test(hub_names),
        cmocka_unit_test(other_arguments), cmocka_unit_test(names_of_files),
        cmocka_unit_test(users_table),     cmocka_unit_test(wrong_tables),
        cmocka_unit_test(damaged_tables),
    };
    return cmocka_run_group_tests(tests, open_table, close_table);
}
