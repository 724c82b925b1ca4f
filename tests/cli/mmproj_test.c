/* SPDX-License-Identifier: Apache-2.0 */
/* mmproj_test.c - the choice of a vision encoder (mmproj) by file name. */
#include "cli/load/media_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_mmproj_choose(void **state)
{
    (void)state;
    static const struct {
        const char *model, *names[4]; /* the first is the best */
    } sound[] = {
        {"Qwen3.5-4B-Q4_K_M.gguf", {"mmproj-anything.gguf"}},
        {"Qwen3.5-4B-Q4_K_M.gguf", {"mmproj-F16.gguf", "mmproj-BF16.gguf", "mmproj-F32.gguf"}},
        {"Qwen3.5-4B-Q4_K_M.gguf", {"mmproj-BF16.gguf", "mmproj-F32.gguf", "mmproj-Q8_0.gguf"}},
        {"F16-model.gguf", {"mmproj-bf16.gguf", "mmproj-f32.gguf"}},
        {"model.gguf", {"mmproj.gguf", "mmproj-other-F16.gguf"}},
        {"Qwen3.5-4B-Q4_K_M.gguf",
         {"mmproj-Qwen3.5-4B-Q8_0.gguf", "mmproj-Qwen3.5-9B-F16.gguf", "mmproj-F16.gguf"}},
        {"qwen3.5-4b-q4_k_m.gguf",
         {"mmproj-Qwen3.5-4B-BF16.gguf", "mmproj-Qwen3.5-4B-F32.gguf", "mmproj-Qwen3.5-BF16.gguf"}},
        {"Qwen3.5-4B-Instruct.gguf",
         {"mmproj-Qwen3.5-4B-it-F32.gguf", "mmproj-Qwen3.5-9B-it-F16.gguf"}},
    };
    static const struct {
        const char *model, *names[2];
    } unclear[] = {
        {"Qwen3.5-2B.gguf", {"mmproj-Qwen3.5-4B-F16.gguf", "mmproj-Qwen3.5-9B-BF16.gguf"}},
        {"x.gguf", {"mmproj-a.gguf", "mmproj-b.gguf"}},
        {"x.gguf", {"mmproj-x-F16.gguf", "mmproj_x_f16.gguf"}},
    };
    size_t rival;
    for (size_t i = 0; i < sizeof sound / sizeof *sound; i++) {
        const char *reversed[4];
        size_t n = 0;
        while (n < 4 && sound[i].names[n] != NULL)
            n++;
        for (size_t k = 0; k < n; k++)
            reversed[k] = sound[i].names[n - 1 - k];
        assert_int_equal(mmproj_choose(sound[i].model, sound[i].names, n, &rival), 0);
        assert_int_equal(rival, n);
        assert_int_equal(mmproj_choose(sound[i].model, reversed, n, &rival), n - 1);
        assert_int_equal(rival, n);
    }
    for (size_t i = 0; i < sizeof unclear / sizeof *unclear; i++) {
        const size_t best = mmproj_choose(unclear[i].model, unclear[i].names, 2, &rival);
        assert_int_equal(best + rival, 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mmproj_choose),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
