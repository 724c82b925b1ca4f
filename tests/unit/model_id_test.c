/* SPDX-License-Identifier: Apache-2.0 */
/* model_id_test.c - parts of model names; gguf-py of llama.cpp gave the expected values. */
#include "convert/model_id.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

typedef struct expected {
    const char *text;
    uint64_t values;
    const char *parts[6]; /* name, organization, basename, finetune, version, size label */
    const char *title;
} expected;

static const expected rows[] = {
    {"Qwen/Qwen3.5-4B",
     4205751296ull,
     {"Qwen3.5-4B", "Qwen", "Qwen3.5", "", "", "4B"},
     "Qwen3.5 4B"},
    {"Qwen3.5-0.8B", 752393024ull, {"Qwen3.5-0.8B", "", "Qwen3.5", "", "", "0.8B"}, "Qwen3.5 0.8B"},
    {"Qwen/Qwen3.5-27B-Instruct-v2",
     26895998464ull,
     {"Qwen3.5-27B-Instruct-v2", "Qwen", "Qwen3.5", "Instruct", "v2", "27B"},
     "Qwen3.5 27B Instruct v2"},
    {"mote-tiny", 13000000ull, {"mote-tiny", "", "", "", "", ""}, "Mote Tiny"},
    {"my-finetune-4b-32k",
     4205751296ull,
     {"my-finetune-4b-32k", "", "my-finetune", "32k", "", "4B"},
     "My Finetune 4b 32k"},
    {"qwen3.5-4b-chat-Q4_K_M",
     4205751296ull,
     {"qwen3.5-4b-chat-Q4_K_M", "", "qwen3.5", "chat", "", "4B"},
     "Qwen3.5 4b Chat Q4_K_M"},
    {"bloom-7b1", 7100000000ull, {"bloom-7b1", "", "bloom", "", "", "7.1B"}, "Bloom 7b1"},
    {"Mixtral-8x7B-v0.1",
     46000000000ull,
     {"Mixtral-8x7B-v0.1", "", "Mixtral", "", "v0.1", "8x7B"},
     "Mixtral 8x7B v0.1"},
    {"./local/model", 1000ull, {"local/model", "", "", "", "", ""}, "Local/Model"},
    {"a model with spaces-4B",
     4000000000ull,
     {"a model with spaces-4B", "", "", "", "", ""},
     "A Model With Spaces 4B"},
    {"phi-3-mini-4k-instruct",
     3800000000ull,
     {"phi-3-mini-4k-instruct", "", "phi-3", "4k-instruct", "", "mini"},
     "Phi 3 Mini 4k Instruct"},
    {"Qwen3.5-35B-A3B-Base",
     35000000000ull,
     {"Qwen3.5-35B-A3B-Base", "", "Qwen3.5", "Base", "", "35B-A3B"},
     "Qwen3.5 35B A3B Base"},
    {"gpt-2-xl", 1500000000ull, {"gpt-2-xl", "", "gpt-2", "", "", "xl"}, "Gpt 2 Xl"},
    {"x--y-iter20-BF16", 5ull, {"x--y-iter20-BF16", "", "", "", "", ""}, "X Y Iter20 BF16"},
    {"Qwen3.5", 4000000000ull, {"Qwen3.5", "", "", "", "", ""}, "Qwen3.5"},
    {"v1.2-abc3def-small",
     0ull,
     {"v1.2-abc3def-small", "", "v1.2-abc3def", "", "", "small"},
     "v1.2 Abc3Def Small"},
    {"org/", 7ull, {"", "org", "", "", "", ""}, ""},
    {"7B", 7000000000ull, {"7B", "", "", "7B", "", ""}, "7B"},
    {"model_0_8b-0_8b",
     800000000ull,
     {"model_0_8b-0_8b", "", "model_0_8b", "", "", "0.8B"},
     "Model_0_8B 0_8b"},
};

static void names_have_parts(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        model_id id;
        char title[MODEL_ID_BYTES];
        model_id_parse(&id, str_of(rows[i].text), rows[i].values);
        const char *got[6] = {id.name,     id.organization, id.basename,
                              id.finetune, id.version,      id.size_label};
        for (size_t k = 0; k < 6; k++)
            if (strcmp(got[k], rows[i].parts[k]) != 0)
                fail_msg("%s: part %zu is '%s', not '%s'", rows[i].text, k, got[k],
                         rows[i].parts[k]);
        model_id_title(title, id.name);
        assert_string_equal(title, rows[i].title);
    }
}

static void long_names_are_refused(void **state)
{
    (void)state;
    char text[600];
    model_id id;
    for (size_t n = 200; n < sizeof text; n++) {
        memset(text, 'a', n);
        for (size_t i = 2; i < n; i += 3)
            text[i] = '-';
        model_id_parse(&id, (str){text, n}, 0);
        assert_true(strlen(id.name) < MODEL_ID_BYTES && strlen(id.basename) < MODEL_ID_BYTES);
    }
}

static void sizes_have_two_digits(void **state)
{
    (void)state;
    static const struct {
        uint64_t values;
        const char *text;
    } sizes[] = {
        {1ull, "0.00K"},         {999ull, "1.0K"},
        {1000ull, "1.0K"},       {1500ull, "1.5K"},
        {9949ull, "10K"},        {9999ull, "10K"},
        {99999ull, "100K"},      {999999ull, "1000K"},
        {1000000ull, "1000K"},   {1000001ull, "1.0M"},
        {9949999ull, "10M"},     {13000000ull, "13M"},
        {752393024ull, "752M"},  {4205751296ull, "4.2B"},
        {26895998464ull, "27B"}, {1000000000001ull, "1.0T"},
        {95000ull, "95K"},       {9950ull, "10K"},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char text[MODEL_ID_BYTES];
        model_id_size(text, sizes[i].values);
        assert_string_equal(text, sizes[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_have_parts),
        cmocka_unit_test(long_names_are_refused),
        cmocka_unit_test(sizes_have_two_digits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
