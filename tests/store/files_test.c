/* SPDX-License-Identifier: Apache-2.0 */
/* files_test.c - which files of a repository are a model. */
#include "store/hub_files.h"
#include "support/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_FILES = 16 };

/* A listing, a selector and what must be chosen; NULL: none. */
typedef struct choice_case {
    const char *files[MAX_FILES];
    const char *selector;
    const char *weights;
    uint32_t parts;
    const char *mmproj, *mtp;
} choice_case;

static const choice_case cases[] = {
    /* unsloth: the default, mmproj F16 before BF16 */
    {{"README.md", "Qwen3.5-4B-BF16.gguf", "Qwen3.5-4B-Q4_K_M.gguf", "Qwen3.5-4B-Q8_0.gguf",
      "imatrix_unsloth.gguf", "mmproj-BF16.gguf", "mmproj-F16.gguf", "mmproj-F32.gguf"},
     "",
     "Qwen3.5-4B-Q4_K_M.gguf",
     1,
     "mmproj-F16.gguf",
     NULL},
    /* F16 is not BF16 */
    {{"a-BF16.gguf", "a-F16.gguf", "BF16/b-BF16.gguf"}, "f16", "a-F16.gguf", 1, NULL, NULL},
    {{"a-BF16.gguf", "BF16/a-BF16.gguf"}, "BF16", "a-BF16.gguf", 1, NULL, NULL},
    {{"x-UD-Q4_K_XL.gguf", "x-Q4_K_S.gguf"}, "Q4_K_XL", "x-UD-Q4_K_XL.gguf", 1, NULL, NULL},
    {{"x-UD-Q4_K_XL.gguf"}, "ud-q4_k_xl", "x-UD-Q4_K_XL.gguf", 1, NULL, NULL},
    {{"x-IQ4_NL.gguf", "x-Q4_NL.gguf"}, "Q4_NL", "x-Q4_NL.gguf", 1, NULL, NULL},
    /* ggml-org: no Q4_K_M, so Q8_0 */
    {{"x-Q4_0.gguf", "x-Q8_0.gguf", "x-BF16.gguf"}, "", "x-Q8_0.gguf", 1, NULL, NULL},
    {{"x-BF16.gguf", "x-F32.gguf"}, "", "x-BF16.gguf", 1, NULL, NULL},
    /* mradermacher: a dot, and mmproj in the middle */
    {{"Qwen3.5-4B.Q4_K_M.gguf", "Qwen3.5-4B.mmproj-Q8_0.gguf", "Qwen3.5-4B.mmproj-f16.gguf"},
     "q4_k_m",
     "Qwen3.5-4B.Q4_K_M.gguf",
     1,
     "Qwen3.5-4B.mmproj-f16.gguf",
     NULL},
    /* a file name, with and without its directory, in any case */
    {{"d/x-Q8_0.gguf", "x-Q8_0.gguf"}, "d/x-Q8_0.gguf", "d/x-Q8_0.gguf", 1, NULL, NULL},
    {{"d/x-Q8_0.gguf", "y.gguf"}, "X-q8_0.GGUF", "d/x-Q8_0.gguf", 1, NULL, NULL},
    /* split weights in a directory; mmproj and MTP above it */
    {{"BF16/x-BF16-00002-of-00003.gguf", "BF16/x-BF16-00001-of-00003.gguf",
      "BF16/x-BF16-00003-of-00003.gguf", "mmproj-F16.gguf", "mtp-x-BF16.gguf", "mtp-x-Q8_0.gguf",
      "other/mmproj-F16.gguf"},
     "BF16",
     "BF16/x-BF16-00001-of-00003.gguf",
     3,
     "mmproj-F16.gguf",
     "mtp-x-BF16.gguf"},
    {{"BF16/x-BF16-00001-of-00001.gguf"},
     "BF16/x-BF16.gguf",
     "BF16/x-BF16-00001-of-00001.gguf",
     1,
     NULL,
     NULL},
    /* the nearest directory */
    {{"a/x-Q8_0.gguf", "a/mmproj-BF16.gguf", "mmproj-F16.gguf", "b/mmproj-F16.gguf"},
     "",
     "a/x-Q8_0.gguf",
     1,
     "a/mmproj-BF16.gguf",
     NULL},
    /* draft models are not models */
    {{"mtp-Q4_K_M.gguf", "eagle3-Q4_K_M.gguf", "dflash-Q4_K_M.gguf", "x-Q8_0.gguf"},
     "",
     "x-Q8_0.gguf",
     1,
     NULL,
     "mtp-Q4_K_M.gguf"},
};

static const char *path_or_null(const hub_file *files, int32_t i)
{
    return i == HUB_NO_FILE ? NULL : files[i].path;
}

static void assert_path(const char *got, const char *wanted)
{
    if (wanted == NULL)
        assert_null(got);
    else if (got == NULL)
        fail_msg("nothing instead of %s", wanted);
    else
        assert_string_equal(got, wanted);
}

/* The choice is the same for every order of the listing. */
static void choices(void **state)
{
    (void)state;
    test_random r = {7};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const choice_case *c = &cases[i];
        hub_file files[MAX_FILES];
        size_t n = 0;
        for (; n < MAX_FILES && c->files[n] != NULL; n++)
            files[n] = (hub_file){c->files[n], 1000 + n};
        for (int round = 0; round < 50; round++) {
            hub_choice choice;
            mote_error err;
            for (size_t k = n - 1; k > 0 && round > 0; k--) {
                const size_t other = test_random_below(&r, k + 1);
                const hub_file moved = files[k];
                files[k] = files[other];
                files[other] = moved;
            }
            if (hub_choose_files(&choice, files, n, c->selector, &err) != MOTE_OK)
                fail_msg("case %zu: %s", i, err.text);
            assert_string_equal(files[choice.weights[0]].path, c->weights);
            assert_int_equal(choice.n_weights, c->parts);
            assert_path(path_or_null(files, choice.mmproj), c->mmproj);
            assert_path(path_or_null(files, choice.mtp), c->mtp);
            for (uint32_t p = 0; p < choice.n_weights && c->parts > 1; p++) {
                uint32_t part, parts;
                size_t stem;
                assert_true(hub_split_name(files[choice.weights[p]].path, &part, &parts, &stem));
                assert_int_equal(part, p + 1);
            }
        }
    }
}

static mote_status choose(const char *const *paths, size_t n, const char *selector, mote_error *err)
{
    hub_file files[MAX_FILES];
    hub_choice choice;
    for (size_t i = 0; i < n; i++)
        files[i] = (hub_file){paths[i], 1};
    return hub_choose_files(&choice, files, n, selector, err);
}

static void refusals(void **state)
{
    (void)state;
    mote_error err;
    static const char *const split[] = {"x-00001-of-00003.gguf", "x-00003-of-00003.gguf"};
    assert_int_equal(choose(split, 2, "", &err), MOTE_E_FORMAT);
    assert_non_null(strstr(err.text, "part 2 of 3 is missing"));
    static const char *const later[] = {"x-00002-of-00002.gguf"};
    assert_int_equal(choose(later, 1, "", &err), MOTE_E_ARG);
    static const char *const two[] = {"x-Q4_0.gguf", "x-Q8_0.gguf", "mmproj-F16.gguf"};
    assert_int_equal(choose(two, 3, "Q5_K_M", &err), MOTE_E_ARG);
    assert_non_null(strstr(err.text, "Q4_0"));
    assert_non_null(strstr(err.text, "Q8_0"));
    static const char *const none[] = {"config.json", "mmproj-F16.gguf", "imatrix.gguf"};
    assert_int_equal(choose(none, 3, "", &err), MOTE_E_ARG);
    assert_int_equal(choose(none, 0, "", &err), MOTE_E_ARG);
    static const char *const zero[] = {"x-00000-of-00000.gguf"};
    uint32_t part, parts;
    size_t stem;
    assert_false(hub_split_name(zero[0], &part, &parts, &stem));
    assert_false(hub_split_name("-00001-of-00001.gguf", &part, &parts, &stem));
}

static void quants(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"Qwen3.5-4B-Q4_K_M.gguf", "Q4_K_M"},
        {"Qwen3.5-4B-UD-Q4_K_XL.gguf", "UD-Q4_K_XL"},
        {"d/Name.i1-IQ4_XS.gguf", "IQ4_XS"},
        {"Qwen3.5-4B-UD-IQ2_XXS.gguf", "UD-IQ2_XXS"},
        {"Qwen3.5-9B-NVFP4.gguf", "NVFP4"},
        {"x-bf16-00001-of-00002.gguf", "bf16"},
        {"Qwen3.5-4B.gguf", ""},
        {"BF16/x.gguf", ""},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        char quant[KNOWN_QUANT_BYTES];
        hub_quant_of(pairs[i][0], quant);
        assert_string_equal(quant, pairs[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(choices),
        cmocka_unit_test(refusals),
        cmocka_unit_test(quants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
