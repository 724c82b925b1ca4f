/* SPDX-License-Identifier: Apache-2.0 */
/* model_match_test.c - which of several models the name in a request means. */
#include "server/models/model_match.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* The models of all cases, in the order of the catalog. */
static const model_names models[] = {
    {"hf:anna/Gull-4B-GGUF:Gull-4B-Q4_K_M.gguf", "anna/Gull-4B-GGUF", "Q4_K_M"},
    {"hf:ben/Gull-4B-GGUF:Gull-4B-Q4_K_M.gguf", "ben/Gull-4B-GGUF", "Q4_K_M"},
    {"hf:ben/Gull-4B-GGUF:Gull-4B-Q8_0.gguf", "ben/Gull-4B-GGUF", "Q8_0"},
    {"hf:ben/Wide-GGUF:parts/Wide-00001-of-00002.gguf", "ben/Wide-GGUF", ""},
    {"hf.co/carl/tern:Q4_0", NULL, ""},
    {"qwen3.5:4b", "unsloth/Qwen3.5-4B-GGUF", "Q4_K_M"},
    {"qwen3.5:4b-q8_0", "unsloth/Qwen3.5-4B-GGUF", "Q8_0"},
    {"plain-file_q4", NULL, ""},
};
enum { N_MODELS = sizeof models / sizeof *models };

static const char *chosen(const char *wanted)
{
    const char *found = "";
    model_match best = MATCH_NONE;
    for (size_t i = 0; i < N_MODELS; i++) {
        const model_match match = model_match_of(&models[i], str_of(wanted));
        if (match > best) {
            best = match;
            found = models[i].name;
        }
    }
    return found;
}

static void names_choose_a_model(void **state)
{
    (void)state;
    static const struct {
        const char *wanted, *found;
    } cases[] = {
        {"hf:anna/Gull-4B-GGUF:Gull-4B-Q4_K_M.gguf", "hf:anna/Gull-4B-GGUF:Gull-4B-Q4_K_M.gguf"},
        {"hf:ben/Gull-4B-GGUF:Gull-4B-Q4_K_M.gguf", "hf:ben/Gull-4B-GGUF:Gull-4B-Q4_K_M.gguf"},
        {"ben/gull-4b-gguf", "hf:ben/Gull-4B-GGUF:Gull-4B-Q4_K_M.gguf"},
        {"BEN/Gull-4B-GGUF:latest", "hf:ben/Gull-4B-GGUF:Gull-4B-Q4_K_M.gguf"},
        {"hf.co/ben/Gull-4B-GGUF:Q8_0", "hf:ben/Gull-4B-GGUF:Gull-4B-Q8_0.gguf"},
        {"huggingface.co/ben/Wide-GGUF", "hf:ben/Wide-GGUF:parts/Wide-00001-of-00002.gguf"},
        {"gull-4b-gguf", "hf:anna/Gull-4B-GGUF:Gull-4B-Q4_K_M.gguf"}, /* no owner: the first */
        {"hf.co/carl/tern:Q4_0", "hf.co/carl/tern:Q4_0"},
        {"carl/tern", "hf.co/carl/tern:Q4_0"},
        {"qwen3.5:4b", "qwen3.5:4b"},
        {"Qwen3.5-4B", "qwen3.5:4b"},
        {"Qwen/Qwen3.5-4B", "qwen3.5:4b"},
        {"qwen3.5", "qwen3.5:4b"},
        {"unsloth/Qwen3.5-4B-GGUF", "qwen3.5:4b"},
        {"unsloth/Qwen3.5-4B-GGUF:q8_0", "qwen3.5:4b-q8_0"},
        {"plain_file-Q4", "plain-file_q4"},
        /* Another owner, another quantisation, no name at all. */
        {"dora/Gull-4B-GGUF", ""},
        {"hf.co/dora/Gull-4B-GGUF:Q4_K_M", ""},
        {"dora/gull", ""},
        {"dora/tern", ""},
        {"anna/Gull-4B-GGUF:Q8_0", ""},
        {"dora/Qwen3.5-4B-GGUF", ""},
        {"anna/", ""},
        {"hf:", ""},
        {"/", ""},
        {":latest", ""},
        {"", ""},
        {"plain-file-q4-and-more", ""},
        {"plain-fil", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (strcmp(chosen(cases[i].wanted), cases[i].found) != 0)
            fail_msg("'%s' means '%s', not '%s'", cases[i].wanted, chosen(cases[i].wanted),
                     cases[i].found);
}

static void names_of_two_owners_do_not_clash(void **state)
{
    (void)state;
    assert_true(model_names_clash("Gull_4b", "gull-4B"));
    assert_true(model_names_clash("hf:ben/gull", "hf.co/ben/Gull:latest"));
    assert_false(model_names_clash("hf:anna/gull:q4", "hf:ben/gull:q4"));
    assert_false(model_names_clash("gull-4b", "gull"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_choose_a_model),
        cmocka_unit_test(names_of_two_owners_do_not_clash),
    };
    return cmocka_run_group_tests_name("model_match", tests, NULL, NULL);
}
