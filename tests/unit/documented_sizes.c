/* SPDX-License-Identifier: Apache-2.0 */
/*
 * documented_sizes.c - the sizes of recurrent states and sessions in docs/ are those of the code.
 *
 * The memory of a session follows from the sizes of a model (table in docs/model.md). Each sentence
 * below is printed from them and must occur in its page. A state is S and three convolution inputs
 * of all DeltaNet layers; a session is a state and its tail. The argument is the directory docs/.
 */
#include "model/cache_layout.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static const char *docs;

static cache_layout layout_of(uint32_t n_layers, uint32_t n_heads, uint32_t n_kv,
                              uint32_t key_heads, uint32_t value_heads)
{
    const hparams hp = {.n_layers = n_layers,
                        .n_heads = n_heads,
                        .n_kv = n_kv,
                        .key_heads = key_heads,
                        .value_heads = value_heads,
                        .n_attention = n_layers / 4,
                        .n_delta = n_layers - n_layers / 4};
    cache_layout l;
    cache_layout_init(&l, &hp, MOTE_KV_F16, false);
    return l;
}

static void expect_in_page(const char *page, const char *format, double a, double b)
{
    static char text[1 << 18];
    char path[1024], wanted[256];
    snprintf(path, sizeof path, "%s/%s", docs, page);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    const size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = '\0';
    for (char *c = text; *c != '\0'; c++) /* a sentence may continue in the next line */
        *c = *c == '\n' ? ' ' : *c;
    snprintf(wanted, sizeof wanted, format, a, b);
    if (strstr(text, wanted) == NULL)
        fail_msg("%s does not say \"%s\"", page, wanted);
}

static void test_sizes(void **state)
{
    (void)state;
    const double mib = 1 << 20, mb = 1e6;
    const cache_layout small = layout_of(24, 8, 2, 16, 16);  /* 0.8B, 2B */
    const cache_layout large = layout_of(32, 16, 4, 16, 32); /* 4B, 9B */
    const double states[] = {(double)small.state_bytes, (double)large.state_bytes};
    const double sessions[] = {states[0] + (double)small.tail_bytes,
                               states[1] + (double)large.tail_bytes};
    expect_in_page("formats.md", "A state is %.2f MiB (%.2f MiB).", states[0] / mib,
                   states[1] / mib);
    expect_in_page("model.md", "f32 | session | %.0f MiB | %.0f MiB |",
                   (double)small.inputs_at / mib, (double)large.inputs_at / mib);
    expect_in_page("scaling.md", "sessions x (%.0f MB or %.0f MB)", sessions[0] / mb,
                   sessions[1] / mb);
    expect_in_page("scaling.md", "kept states x (%.0f MB or %.0f MB)", states[0] / mb,
                   states[1] / mb);
    expect_in_page("benchmarks.md", "each session %.0f or %.0f MB.", sessions[0] / mb,
                   sessions[1] / mb);
    expect_in_page("benchmarks.md", "read-only address space without memory: %.0f or %.0f MB",
                   states[0] / mb, states[1] / mb);
    /* A slot has a session, an idle session and two more states. */
    expect_in_page("operations.md", "%.0f MB each at 0.8B, %.0f MB at 4B",
                   2 * (sessions[0] + states[0]) / mb, 2 * (sessions[1] + states[1]) / mb);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sizes)};
    docs = argc > 1 ? argv[1] : "docs";
    return cmocka_run_group_tests(tests, NULL, NULL);
}
