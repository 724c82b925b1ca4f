/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sample_draw_test.c - the sampler over many draws and with the full vocabulary.
 *
 * Chi-square of the token frequencies, identical bytes at all ISA levels, long generations, and
 * the time of one call with the vocabulary of the real models.
 */
#include "unit/sample_reference.h"

#include "base/cpu.h"
#include "base/philox.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum { VOCABULARY = 248320, TOKENS = 248077, DRAWS = 20000 };

/* ---- frequencies ---- */

/* Chi-square of the draws from a row of n tokens against the probabilities p[n]. */
static double chi_square(sample_rig *rig, const mote_sampling *how, const double *p, uint32_t n)
{
    uint32_t *count = calloc(n, sizeof *count);
    assert_non_null(count);
    for (uint32_t i = 0; i < DRAWS; i++) {
        rig->in.position = i;
        count[rig_pick(rig, how).token]++;
    }
    double sum = 0;
    for (uint32_t id = 0; id < n; id++) {
        const double expected = p[id] * DRAWS, off = count[id] - expected;
        if (expected > 0)
            sum += off * off / expected;
        else
            assert_int_equal(count[id], 0);
    }
    free(count);
    return sum;
}

/* The 0.1 % point of chi-square is 24.3 with 7 degrees of freedom and 16.3 with 3. The seeds are
 * fixed, so a failure means changed code, not chance. */
static void draws_follow_the_weights(void **state)
{
    (void)state;
    sample_rig rig;
    rig_open(&rig, 8, 8, MOTE_ISA_REF);
    double p[8], sum = 0;
    for (int id = 0; id < 8; id++) {
        rig.logits[id] = (float)(id * 3 % 8) * 0.4f;
        sum += p[id] = exp((double)rig.logits[id] / 0.8);
    }
    for (int id = 0; id < 8; id++)
        p[id] /= sum;
    for (uint64_t seed = 0; seed < 5; seed++) {
        mote_sampling how = {.temperature = 0.8f, .seed = seed};
        assert_true(chi_square(&rig, &how, p, 8) < 24.3);
        how.draw = 1;
        assert_true(chi_square(&rig, &how, p, 8) < 24.3);
    }
    const double uniform[8] = {.125, .125, .125, .125, .125, .125, .125, .125};
    assert_true(chi_square(&rig, &(mote_sampling){.temperature = 0.8f}, uniform, 8) > 1000);
    rig_close(&rig);
}

static void filtered_draws_are_renormalised(void **state)
{
    (void)state;
    sample_rig rig;
    rig_open(&rig, 8, 8, MOTE_ISA_REF);
    double p[8] = {0}, sum = 0;
    for (int id = 0; id < 8; id++)
        rig.logits[id] = -0.3f * (float)id;
    for (int id = 0; id < 4; id++)
        sum += p[id] = exp((double)rig.logits[id]);
    for (int id = 0; id < 4; id++)
        p[id] /= sum;
    mote_sampling top_k = {.temperature = 1, .top_k = 4},
                  min_p = {.temperature = 1, .min_p = 0.35f};
    mote_sampling top_p = {.temperature = 1, .top_p = 0.75f}; /* 1 - e^-1.2 = 0.769 */
    assert_true(chi_square(&rig, &top_k, p, 8) < 16.3);
    assert_true(chi_square(&rig, &min_p, p, 8) < 16.3);
    assert_true(chi_square(&rig, &top_p, p, 8) < 16.3);
    rig_close(&rig);
}

/* With equal weights the id is proportional to the random number, so every id must be reachable.
 * Sums in binary32 would stop growing long before the end of such a row. */
static void flat_row_reaches_every_id(void **state)
{
    (void)state;
    sample_rig rig;
    rig_open(&rig, VOCABULARY, TOKENS, cpu_best_isa());
    for (uint32_t id = 0; id < VOCABULARY; id++)
        rig.logits[id] = id == 0 ? 1.2f : 0; /* all others have weight 0.3, not a round number */
    uint32_t eighths[8] = {0};
    for (uint32_t i = 0; i < 150; i++) {
        rig.in.position = i;
        const mote_choice choice = rig_pick(&rig, &(mote_sampling){.temperature = 1});
        const double unit = (double)philox_unit(0, i, 0);
        assert_float_equal((double)choice.token / TOKENS, unit, 1e-4);
        eighths[(uint64_t)choice.token * 8 / TOKENS]++;
    }
    for (int i = 0; i < 8; i++)
        assert_true(eighths[i] > 5);
    rig_close(&rig);
}

/* ---- ISA levels ---- */

static mote_sampling some_options(uint32_t i)
{
    mote_sampling how = {.temperature = 0.3f * (float)(i % 5), .seed = i, .top_logprobs = i % 21};
    how.top_k = i % 4 == 0 ? 20 : 0;
    how.top_p = i % 3 == 0 ? 0.95f : 0;
    how.min_p = i % 7 == 0 ? 0.01f : 0;
    how.presence = i % 2 ? 1.5f : 0;
    how.repetition = i % 6 == 0 ? 1.1f : 0;
    return how;
}

static void all_isa_levels_give_the_same_bits(void **state)
{
    (void)state;
    const mote_token generated[] = {5, 6, 5, 2000, 19999};
    mote_isa levels[CPU_LEVELS];
    const size_t n_levels = cpu_list_usable(levels);
    for (size_t level = 1; level < n_levels; level++) {
        sample_rig ref, fast;
        rig_open(&ref, 20011, 20003, MOTE_ISA_REF);
        rig_open(&fast, 20011, 20003, levels[level]);
        ref.in.generated = fast.in.generated = generated;
        ref.in.n_generated = fast.in.n_generated = 5;
        for (uint32_t i = 0; i < 200; i++) {
            rig_fill(&ref, i, 2 + (float)(i % 13), i % 5 == 0 ? 2 : 0);
            if (i % 9 == 0)
                ref.logits[i] = i % 2 ? NAN : -INFINITY;
            memcpy(fast.logits, ref.logits, ref.in.vocabulary * sizeof(float));
            const mote_sampling how = some_options(i);
            const mote_choice a = rig_pick(&ref, &how), b = rig_pick(&fast, &how);
            assert_memory_equal(&a, &b, sizeof a);
        }
        rig_close(&ref);
        rig_close(&fast);
    }
}

/* The exact bits of the results. A change of this hash requires a change of MOTE_NUMERICS. */
static void results_are_pinned(void **state)
{
    (void)state;
    const mote_token generated[] = {5, 6, 5, 2000, 1999};
    sample_rig rig;
    rig_open(&rig, 3000, 2999, cpu_best_isa());
    rig.in.generated = generated;
    rig.in.n_generated = 5;
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a over all choices */
    for (uint32_t i = 0; i < 400; i++) {
        rig_fill(&rig, i, 2 + (float)(i % 13), i % 5 == 0 ? 2 : 0);
        rig.in.position = i;
        const mote_sampling how = some_options(i);
        const mote_choice choice = rig_pick(&rig, &how);
        unsigned char bytes[sizeof choice];
        memcpy(bytes, &choice, sizeof choice);
        for (size_t b = 0; b < sizeof bytes; b++)
            hash = (hash ^ bytes[b]) * UINT64_C(1099511628211);
    }
    rig_close(&rig);
    assert_int_equal(hash, UINT64_C(0xb039388cefe9d0e3));
}

/* Every type of draw with the full vocabulary, compared with the full sort of the reference. */
static void full_vocabulary_matches_the_reference(void **state)
{
    (void)state;
    sample_rig rig;
    rig_open(&rig, VOCABULARY, TOKENS, cpu_best_isa());
    uint32_t close_calls = 0;
    for (uint32_t i = 0; i < 24; i++) {
        rig_fill(&rig, i, 2 + (float)(i % 8) * 2, i % 4 == 1 ? 2 : 0);
        rig.in.position = i;
        const mote_sampling how = some_options(i);
        const mote_choice got = rig_pick(&rig, &how);
        const reference_choice want = reference_pick(&rig.in, &how);
        for (uint32_t t = 0; t < got.n_top; t++)
            assert_int_equal(got.top[t].token, want.top[t]);
        if (want.margin < 2e-7)
            close_calls++;
        else
            assert_int_equal(got.token, want.token);
        if (got.token == (mote_token)want.token)
            assert_float_equal(got.logprob, want.logprob, 1e-5);
    }
    print_message("%u of 24 draws skipped: too close to a threshold\n", close_calls);
    assert_true(close_calls < 12);
    rig_close(&rig);
}

/* ---- long generations ---- */

static void penalties_of_long_generations(void **state)
{
    (void)state;
    enum { LONG = 100000 };
    sample_rig rig;
    rig_open(&rig, 5000, 5000, MOTE_ISA_REF);
    rig_fill(&rig, 3, 5, 0);
    mote_token *generated = malloc(LONG * sizeof *generated);
    assert_non_null(generated);
    for (uint32_t i = 0; i < LONG; i++)
        generated[i] = (mote_token)(philox(1, i, 1).word[0] % 4900);
    rig.in.generated = generated;
    rig.in.n_generated = LONG;
    for (uint32_t i = 0; i < 4; i++) {
        rig.in.position = i;
        mote_sampling how = {.temperature = 1, .frequency = 0.25f, .top_k = 30};
        assert_int_equal(rig_pick(&rig, &how).token, reference_pick(&rig.in, &how).token);
    }
    free(generated);
    rig_close(&rig);
}

/* ---- time ---- */

/* CPU time of this thread, so other load matters less. */
static double cpu_seconds(void)
{
    struct timespec t;
    assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t), 0);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double best_time(sample_rig *rig, const mote_sampling *how)
{
    double best = 1e9;
    for (uint32_t i = 0; i < 20; i++) {
        rig->in.position = i;
        const double start = cpu_seconds();
        (void)rig_pick(rig, how);
        const double took = cpu_seconds() - start;
        best = took < best ? took : best;
    }
    return best * 1e3;
}

/* Prints only: times on a shared machine are not reliable. */
static void time_per_call(void **state)
{
    (void)state;
    sample_rig rig;
    rig_open(&rig, VOCABULARY, TOKENS, cpu_best_isa());
    rig_fill(&rig, 1, 8, 0);
    mote_token *generated = malloc(100000 * sizeof *generated);
    assert_non_null(generated);
    for (uint32_t i = 0; i < 100000; i++) { /* like text: some tokens are much more frequent */
        const float u = philox_unit(1, i, 1);
        generated[i] = (mote_token)(u * u * u * u * TOKENS);
    }
    rig.in.generated = generated;

    mote_sampling top_k = {.temperature = 1, .top_k = 20, .top_p = 0.95f, .presence = 2};
    print_message("ms per call, %s, vocabulary %d:\n", mote_isa_name(cpu_best_isa()), VOCABULARY);
    print_message("  greedy                       %.3f\n", best_time(&rig, NULL));
    rig.in.n_generated = 1000;
    print_message("  top_k 20, 1,000 generated    %.3f\n", best_time(&rig, &top_k));
    rig.in.n_generated = 100000;
    print_message("  top_k 20, 100,000 generated  %.3f\n", best_time(&rig, &top_k));
    rig.in.n_generated = 0;
    top_k.top_logprobs = 20;
    print_message("  top_k 20, 20 log-probs       %.3f\n", best_time(&rig, &top_k));
    mote_sampling top_p = {.temperature = 0.3f, .top_p = 0.95f}, plain = {.temperature = 1};
    print_message("  top_p, peaked                %.3f\n", best_time(&rig, &top_p));
    print_message("  temperature only             %.3f\n", best_time(&rig, &plain));
    top_p.temperature = 3;
    print_message("  top_p, nearly flat           %.3f\n", best_time(&rig, &top_p));
    free(generated);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draws_follow_the_weights),
        cmocka_unit_test(filtered_draws_are_renormalised),
        cmocka_unit_test(flat_row_reaches_every_id),
        cmocka_unit_test(all_isa_levels_give_the_same_bits),
        cmocka_unit_test(results_are_pinned),
        cmocka_unit_test(full_vocabulary_matches_the_reference),
        cmocka_unit_test(penalties_of_long_generations),
        cmocka_unit_test(time_per_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
