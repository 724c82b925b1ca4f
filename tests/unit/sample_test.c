/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sample_test.c - every option of the sampler, alone and compared with a reference.
 *
 * The rows are made by hand, except in the comparison with sample_reference.c, which tries all
 * options together on random rows.
 */
#include "unit/sample_reference.h"

#include "base/mem.h"
#include "base/philox.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { N = 1000 }; /* tokens; the row also has padding */

static sample_rig rig;

static int open_rig(void **state)
{
    (void)state;
    rig_open(&rig, N + 24, N, MOTE_ISA_REF);
    return 0;
}

static int close_rig(void **state)
{
    (void)state;
    rig_close(&rig);
    return 0;
}

/* Counts the first n ids over positions 0 to draws - 1. */
static void tally(const mote_sampling *how, uint32_t draws, uint32_t *count, uint32_t n)
{
    memset(count, 0, n * sizeof *count);
    for (uint32_t i = 0; i < draws; i++) {
        rig.in.position = i;
        const mote_token token = rig_pick(&rig, how).token;
        assert_in_range(token, 0, n - 1);
        count[token]++;
    }
}

/* ---- temperature 0 ---- */

static void greedy_takes_the_lowest_id_of_equal_maxima(void **state)
{
    (void)state;
    rig.logits[777] = 3;
    assert_int_equal(rig_pick(&rig, NULL).token, 777);
    rig.logits[255] = 3;
    assert_int_equal(rig_pick(&rig, NULL).token, 255);
    rig.logits[256] = 3;
    assert_int_equal(rig_pick(&rig, NULL).token, 255);
    rig.logits[0] = 3;
    assert_int_equal(rig_pick(&rig, &(mote_sampling){.seed = 9, .draw = 2}).token, 0);
}

static void zeros_of_either_sign_are_equal(void **state)
{
    (void)state;
    for (uint32_t id = 0; id < N; id++)
        rig.logits[id] = -1;
    rig.logits[3] = -0.0f;
    rig.logits[5] = 0.0f;
    rig.logits[700] = -0.0f;
    assert_int_equal(rig_pick(&rig, NULL).token, 3);
    const mote_choice choice = rig_pick(&rig, &(mote_sampling){.top_logprobs = 3});
    assert_int_equal(choice.top[0].token, 3);
    assert_int_equal(choice.top[1].token, 5);
    assert_int_equal(choice.top[2].token, 700);
}

static void padding_is_never_chosen(void **state)
{
    (void)state;
    for (uint32_t id = N; id < rig.in.vocabulary; id++)
        rig.logits[id] = id % 2 ? NAN : 1000;
    rig.logits[N - 1] = 1;
    const mote_choice choice = rig_pick(&rig, &(mote_sampling){.top_logprobs = 2});
    assert_int_equal(choice.token, N - 1);
    assert_float_equal(choice.logprob, 1 - log(exp(1) + N - 1), 1e-5);
    assert_int_equal(choice.top[1].token, 0);
}

/* ---- NaN and infinity ---- */

static void nan_is_never_chosen(void **state)
{
    (void)state;
    for (uint32_t id = 0; id < N; id++)
        rig.logits[id] = id % 3 == 0 ? NAN : -INFINITY;
    rig.logits[401] = -5;
    rig.logits[402] = NAN;
    rig.logits[403] = -6;
    mote_sampling how = {.top_logprobs = 5};
    const mote_choice greedy = rig_pick(&rig, &how);
    assert_int_equal(greedy.token, 401);
    assert_int_equal(greedy.n_top, 2);
    assert_int_equal(greedy.top[1].token, 403);
    how.temperature = 50;
    uint32_t count[N];
    tally(&how, 300, count, N);
    assert_int_equal(count[401] + count[403], 300);
    assert_true(count[401] > 100 && count[403] > 100);
}

static void infinity_counts_as_flt_max(void **state)
{
    (void)state;
    rig.logits[8] = INFINITY;
    rig.logits[9] = INFINITY;
    const mote_choice choice =
        rig_pick(&rig, &(mote_sampling){.temperature = 1, .top_logprobs = 3});
    assert_in_range(choice.token, 8, 9);
    assert_float_equal(choice.logprob, -log(2), 1e-6);
    assert_int_equal(choice.n_top, 3);
    assert_true(choice.top[2].logprob < -1e38f && isfinite(choice.top[2].logprob));
}

static void row_without_numbers_is_an_error(void **state)
{
    (void)state;
    for (uint32_t id = 0; id < N; id++)
        rig.logits[id] = id % 2 ? NAN : -INFINITY;
    mote_choice choice;
    memset(&choice, 0x5a, sizeof choice);
    const mote_choice before = choice;
    mote_error err = {0};
    assert_int_equal(sample_pick(&rig.in, NULL, rig.scratch, &choice, &err), MOTE_E_FORMAT);
    assert_int_equal(err.status, MOTE_E_FORMAT);
    assert_non_null(strstr(err.text, "weights are damaged"));
    assert_memory_equal(&choice, &before, sizeof choice);
    assert_int_equal(sample_pick(&rig.in, NULL, rig.scratch, &choice, NULL), MOTE_E_FORMAT);
}

static void single_token_is_certain(void **state)
{
    (void)state;
    sample_rig one;
    rig_open(&one, 1, 1, MOTE_ISA_REF);
    one.logits[0] = -3;
    const mote_choice choice =
        rig_pick(&one, &(mote_sampling){.temperature = 2, .top_p = 0.5f, .min_p = 1, .top_k = 7});
    assert_int_equal(choice.token, 0);
    assert_true(choice.logprob == 0);
    rig_close(&one);
}

/* ---- bias and penalties ---- */

static void bias_changes_ranks(void **state)
{
    (void)state;
    rig.logits[10] = 5;
    rig.logits[20] = 4;
    const mote_bias away = {10, -100}, up = {30, 100}, back = {30, -98}, half = {20, 0.5f};
    const mote_bias list[] = {away, half, up, back};
    mote_sampling how = {.bias = list, .n_bias = 1};
    assert_int_equal(rig_pick(&rig, &how).token, 20);
    how.n_bias = 3;
    assert_int_equal(rig_pick(&rig, &how).token, 30);
    how.n_bias = 4; /* 30 is listed twice: 100 - 98 = 2 < 4.5 */
    const mote_choice choice = rig_pick(&rig, &how);
    assert_int_equal(choice.token, 20);
    assert_float_equal(choice.logprob, 4 - log(exp(5) + exp(4) + N - 2), 1e-5);
}

static void bias_minus_infinity_excludes(void **state)
{
    (void)state;
    mote_bias list[N];
    for (mote_token id = 0; id < N; id++)
        list[id] = (mote_bias){id, id == 500 ? 0 : -INFINITY};
    rig.logits[500] = -80;
    mote_sampling how = {.bias = list, .n_bias = N, .temperature = 1};
    assert_int_equal(rig_pick(&rig, &how).token, 500);
    list[500].add = -INFINITY;
    mote_error err = {0};
    mote_choice choice;
    assert_int_equal(sample_pick(&rig.in, &how, rig.scratch, &choice, &err), MOTE_E_ARG);
    assert_non_null(strstr(err.text, "no token"));
}

static void penalties_apply_to_generated_tokens(void **state)
{
    (void)state;
    rig.logits[1] = 8;
    rig.logits[2] = 7;
    for (uint32_t id = 3; id < N; id++)
        rig.logits[id] = -1;
    rig.logits[0] = -2;
    const mote_token generated[] = {1, 1, 1, 2, 900000000, -4};
    rig.in.generated = generated;

    mote_sampling presence = {.presence = 1.5f}, frequency = {.frequency = 0.6f};
    assert_int_equal(rig_pick(&rig, &presence).token, 1); /* nothing generated yet */
    rig.in.n_generated = 1;
    assert_int_equal(rig_pick(&rig, &presence).token, 2);
    assert_int_equal(rig_pick(&rig, &frequency).token, 1);
    rig.in.n_generated = 2;
    assert_int_equal(rig_pick(&rig, &frequency).token, 2); /* 8 - 1.2 < 7 */
    rig.in.n_generated = 4;
    assert_int_equal(rig_pick(&rig, &presence).token, 1); /* presence counts once per token */
    rig.in.n_generated = 6;
    assert_int_equal(rig_pick(&rig, &presence).token, 1); /* padding ids are ignored */
}

static void repetition_lowers_both_signs(void **state)
{
    (void)state;
    for (uint32_t id = 0; id < N; id++)
        rig.logits[id] = -10;
    rig.logits[1] = 8;
    rig.logits[2] = 5;
    const mote_token generated[] = {1, 1, 4};
    rig.in.generated = generated;
    rig.in.n_generated = 3;
    mote_sampling how = {.repetition = 1.5f};
    assert_int_equal(rig_pick(&rig, &how).token, 1); /* 5.33 */
    how.repetition = 1.7f;
    assert_int_equal(rig_pick(&rig, &how).token, 2); /* 4.7 */
    rig.logits[1] = -1;
    rig.logits[2] = -1.5f;
    assert_int_equal(rig_pick(&rig, &how).token, 2); /* -1.7 */
    how.repetition = 1;
    assert_int_equal(rig_pick(&rig, &how).token, 1);
    how.repetition = 0;
    assert_int_equal(rig_pick(&rig, &how).token, 1);
}

static void huge_values_do_not_overflow(void **state)
{
    (void)state;
    rig.logits[1] = FLT_MAX;
    rig.logits[2] = -FLT_MAX;
    const mote_token generated[] = {1, 2};
    const mote_bias bias[] = {{1, 1e6f}};
    rig.in.generated = generated;
    rig.in.n_generated = 2;
    const mote_choice choice = rig_pick(
        &rig, &(mote_sampling){.temperature = 1, .repetition = 0.01f, .bias = bias, .n_bias = 1});
    assert_int_equal(choice.token, 1);
    assert_true(choice.logprob == 0);
}

/* ---- filters ---- */

static void top_k_keeps_the_first(void **state)
{
    (void)state;
    uint32_t count[N];
    tally(&(mote_sampling){.temperature = 1, .top_k = 5}, 500, count,
          5); /* all equal: ids 0 to 4 */
    rig.logits[600] = 1;
    mote_sampling one = {.temperature = 100, .top_k = 1};
    tally(&one, 20, count, N);
    assert_int_equal(count[600], 20);
}

static void top_p_keeps_the_shortest_prefix(void **state)
{
    (void)state;
    for (uint32_t id = 0; id < N; id++)
        rig.logits[id] = id < 4 ? 0 : -INFINITY; /* four tokens with 1/4 each */
    uint32_t count[4];
    mote_sampling how = {.temperature = 1, .top_p = 0.5f};
    tally(&how, 400, count, 4);
    assert_true(count[0] > 0 && count[1] > 0 && count[2] == 0);
    how.top_p = 0.50001f;
    tally(&how, 400, count, 4);
    assert_true(count[2] > 0 && count[3] == 0);
    how.top_p = 1e-30f;
    tally(&how, 400, count, 4);
    assert_int_equal(count[0], 400);
    how.top_p = 1;
    tally(&how, 400, count, 4);
    assert_true(count[3] > 0);
}

/* After top_k 2 both have 1/2, so top_p 0.6 keeps both. Of all four it would keep three. */
static void top_p_applies_after_top_k(void **state)
{
    (void)state;
    for (uint32_t id = 0; id < N; id++)
        rig.logits[id] = id < 4 ? 0 : -INFINITY;
    uint32_t count[4];
    tally(&(mote_sampling){.temperature = 1, .top_p = 0.4f, .top_k = 2}, 400, count, 4);
    assert_int_equal(count[0], 400);
    tally(&(mote_sampling){.temperature = 1, .top_p = 0.6f, .top_k = 2}, 400, count, 4);
    assert_true(count[1] > 0 && count[2] == 0);
}

static void min_p_is_relative_to_the_best(void **state)
{
    (void)state;
    for (uint32_t id = 0; id < N; id++)
        rig.logits[id] = -4;
    rig.logits[0] = rig.logits[1] = 0;
    rig.logits[2] = -1; /* exp(-1) = 0.37 */
    uint32_t count[N];
    mote_sampling how = {.temperature = 1, .min_p = 0.36f};
    tally(&how, 400, count, 3);
    assert_true(count[2] > 0);
    how.min_p = 0.38f;
    tally(&how, 400, count, 2);
    how.min_p = 1;
    tally(&how, 400, count, 2);
    assert_true(count[1] > 0);
    how.temperature = 2; /* exp(-1/2) = 0.61 */
    how.min_p = 0.6f;
    tally(&how, 400, count, 3);
    assert_true(count[2] > 0);
}

static void the_smallest_temperature_is_greedy(void **state)
{
    (void)state;
    rig.logits[300] = 1e-3f;
    mote_sampling how = {.temperature = 1e-45f};
    for (rig.in.position = 0; rig.in.position < 50; rig.in.position++)
        assert_int_equal(rig_pick(&rig, &how).token, 300);
}

/* ---- log-probabilities ---- */

static void logprobs_ignore_options(void **state)
{
    (void)state;
    rig_fill(&rig, 5, 6, 0);
    const mote_bias bias[] = {{17, 30}};
    const mote_token generated[] = {17, 18};
    const mote_choice plain = rig_pick(&rig, &(mote_sampling){.top_logprobs = 20});
    rig.in.generated = generated;
    rig.in.n_generated = 2;
    const mote_choice moved = rig_pick(
        &rig,
        &(mote_sampling){
            .top_logprobs = 20, .bias = bias, .n_bias = 1, .temperature = 0.1f, .presence = 2});
    assert_int_equal(moved.token, 17);
    assert_memory_equal(plain.top, moved.top, sizeof plain.top);
    assert_int_equal(plain.token, plain.top[0].token);
    assert_true(plain.logprob == plain.top[0].logprob);
    assert_true(moved.logprob < plain.logprob);
}

static void top_logprobs_are_in_order(void **state)
{
    (void)state;
    rig_fill(&rig, 6, 3, 4);
    const mote_choice choice = rig_pick(&rig, &(mote_sampling){.top_logprobs = 20});
    assert_int_equal(choice.n_top, 20);
    bool equals = false;
    for (uint32_t i = 1; i < choice.n_top; i++) {
        assert_true(choice.top[i - 1].logprob >= choice.top[i].logprob);
        if (choice.top[i - 1].logprob == choice.top[i].logprob) {
            assert_true(choice.top[i - 1].token < choice.top[i].token);
            equals = true;
        }
    }
    assert_true(equals);
    assert_int_equal(rig_pick(&rig, NULL).n_top, 0);
}

/* ---- errors ---- */

static void expect_error(mote_sampling how, const char *word)
{
    mote_error err = {0};
    mote_choice choice;
    const mote_status status = sample_pick(&rig.in, &how, rig.scratch, &choice, &err);
    if (status != MOTE_E_ARG || strstr(err.text, word) == NULL)
        fail_msg("status %d, text '%s', expected '%s'", (int)status, err.text, word);
}

static void options_out_of_range_are_rejected(void **state)
{
    (void)state;
    const float bad[] = {NAN, -0.01f, 100.5f, INFINITY, -INFINITY};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        expect_error((mote_sampling){.temperature = bad[i]}, "temperature must be ");
        expect_error((mote_sampling){.top_p = bad[i]}, "top_p must be ");
        expect_error((mote_sampling){.min_p = bad[i]}, "min_p must be ");
        expect_error((mote_sampling){.repetition = bad[i]}, "repetition must be ");
        if (bad[i] == -0.01f)
            continue;
        expect_error((mote_sampling){.presence = bad[i]}, "presence must be ");
        expect_error((mote_sampling){.frequency = bad[i]}, "frequency must be ");
    }
    expect_error((mote_sampling){.repetition = 0.009f},
                 "repetition must be 0 (off) or 0.01 to 100, got 0.009");
    expect_error((mote_sampling){.top_p = 1.001f}, "top_p must be 0 to 1, got 1.001");
    expect_error((mote_sampling){.top_logprobs = 21}, "top_logprobs must be 0 to 20, got 21");
    expect_error((mote_sampling){.n_bias = 1}, "bias must not be NULL");

    const mote_bias wrong[] = {{N, 0}, {-1, 0}, {5, NAN}, {6, INFINITY}, {7, 2e6f}};
    const char *texts[] = {"must be 0 to 999, got 1000", "got -1",
                           "token 5 must be -1e6 to 1e6 or -infinity, got nan", "token 6",
                           "token 7"};
    for (size_t i = 0; i < 5; i++)
        expect_error((mote_sampling){.bias = &wrong[i], .n_bias = 1}, texts[i]);
}

/* ---- token mask ---- */

static void masked_tokens_are_never_chosen(void **state)
{
    (void)state;
    uint32_t allowed[(N + 31) / 32] = {0}, count[N];
    rig_fill(&rig, 3, 4, 0);
    rig.logits[500] = 100;
    mote_sampling how = {.allowed = allowed, .top_logprobs = 3};
    allowed[0] = 1u << 7;
    allowed[31] = 1u << 7; /* 999, the last token */
    rig.logits[999] = rig.logits[7] + 1;
    assert_int_equal(rig_pick(&rig, &how).token, 999);
    allowed[31] = 1u << 8; /* padding is never allowed */
    const mote_choice choice = rig_pick(&rig, &how);
    assert_int_equal(choice.token, 7);
    /* The mask does not change log-probabilities. */
    const mote_choice free_choice = rig_pick(&rig, &(mote_sampling){.top_logprobs = 3});
    assert_int_equal(choice.top[0].token, 500);
    assert_memory_equal(choice.top, free_choice.top, sizeof choice.top);
    assert_float_equal(choice.logprob, rig.logits[7] - 100, 1e-4);

    allowed[3] = 1u << 4 | 1u << 5;
    rig.logits[7] = rig.logits[100] = rig.logits[101] = 0;
    how.temperature = 1;
    tally(&how, 600, count, N);
    assert_int_equal(count[7] + count[100] + count[101], 600);
    assert_true(count[7] > 120 && count[100] > 120 && count[101] > 120);
    how.top_k = 1;
    assert_int_equal(rig_pick(&rig, &how).token, 7);
}

static void bias_cannot_override_the_mask(void **state)
{
    (void)state;
    uint32_t allowed[(N + 31) / 32] = {0};
    const mote_bias bias[] = {{40, 1000}, {8, -INFINITY}};
    const mote_sampling how = {.allowed = allowed, .bias = bias, .n_bias = 2};
    allowed[0] = 1u << 8 | 1u << 9;
    assert_int_equal(rig_pick(&rig, &how).token, 9);
    allowed[0] = 1u << 8;
    expect_error(how, "no token can be sampled");
    allowed[0] = 0;
    expect_error((mote_sampling){.allowed = allowed}, "no token can be sampled");
}

/* ---- comparison with the reference ---- */

static float maybe(uint64_t *seed, float value)
{
    const philox_block r = philox((*seed)++, 1, 2);
    return r.word[0] & 1 ? value * ((float)(r.word[1] >> 8) * 0x1p-24f) : 0;
}

static mote_sampling random_options(uint64_t seed)
{
    uint64_t s = seed * 100;
    mote_sampling how = {.seed = seed, .draw = (uint32_t)(seed & 3)};
    how.temperature = maybe(&s, 2) + maybe(&s, 0.1f);
    how.top_k = (uint32_t)maybe(&s, 40) + (uint32_t)maybe(&s, 700);
    how.top_p = maybe(&s, 1);
    how.min_p = maybe(&s, maybe(&s, 0.5f));
    how.presence = maybe(&s, 4) - maybe(&s, 2);
    how.frequency = maybe(&s, 1) - maybe(&s, 0.5f);
    how.repetition = maybe(&s, 1) > 0 ? 0.5f + maybe(&s, 1) : 0;
    how.top_logprobs = (uint32_t)maybe(&s, 20.99f);
    how.typical_p = maybe(&s, maybe(&s, 1) > 0 ? 1 : 0);
    how.repeat_last = (uint32_t)maybe(&s, 40);
    return how;
}

static void random_options_match_the_reference(void **state)
{
    (void)state;
    mote_token generated[60];
    rig.in.generated = generated;
    uint32_t close_calls = 0, far = 0;
    for (uint64_t seed = 0; seed < 4000; seed++) {
        mote_sampling how = random_options(seed);
        rig_fill(&rig, seed, 1 + (float)(seed % 11), seed % 3 == 0 ? 4 : 0);
        rig.in.position = seed;
        rig.in.n_generated = seed % 60;
        for (size_t i = 0; i < rig.in.n_generated; i++)
            generated[i] = (mote_token)(philox(seed, i, 7).word[0] % (i % 2 ? N : 10));
        const mote_bias bias[] = {{(mote_token)(seed % N), 3}, {11, -2}};
        how.bias = bias;
        how.n_bias = seed % 5 < 3 ? seed % 5 : 0;
        uint32_t allowed[(N + 31) / 32];
        for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++)
            allowed[i] = philox(seed, i, 9).word[0] | (seed % 7 == 0 ? UINT32_MAX : 0);
        how.allowed = seed % 3 == 0 ? allowed : NULL;

        const mote_choice got = rig_pick(&rig, &how);
        const reference_choice want = reference_pick(&rig.in, &how);
        assert_int_equal(got.n_top, want.n_top);
        for (uint32_t i = 0; i < got.n_top; i++) {
            assert_int_equal(got.top[i].token, want.top[i]);
            assert_float_equal(got.top[i].logprob, want.top_logprob[i], 2e-6 * 30);
        }
        far += want.n_kept > 512 && how.temperature > 0;
        if (want.margin < 1e-6) {
            close_calls++;
            continue;
        }
        if (got.token != (mote_token)want.token)
            fail_msg("seed %u: token %d, reference %u of %zu", (unsigned)seed, got.token,
                     want.token, want.n_kept);
        assert_float_equal(got.logprob, want.logprob, 2e-6 * 30);
    }
    print_message("%u draws skipped: too close to a threshold; %u with more than 512 candidates\n",
                  close_calls, far);
    assert_true(close_calls < 100);
    assert_true(far > 100);
}

/* ---- no hidden inputs ---- */

static void only_documented_inputs_matter(void **state)
{
    (void)state;
    rig_fill(&rig, 12, 4, 0);
    mote_token forward[200], backward[200];
    for (int i = 0; i < 200; i++)
        forward[i] = backward[199 - i] = i * i % 97;
    const mote_bias ab[] = {{3, 1}, {4, 2}}, ba[] = {{4, 2}, {3, 1}};
    mote_sampling how = {.temperature = 1.2f, .presence = 1, .frequency = 0.1f, .top_p = 0.97f};
    how.top_logprobs = 4;
    how.n_bias = 2;
    rig.in.n_generated = 200;
    for (uint64_t position = 0; position < 300; position++) {
        rig.in.position = position;
        rig.in.generated = forward;
        how.bias = ab;
        const mote_choice a = rig_pick(&rig, &how);
        memset(rig.scratch, (int)position, sample_scratch_bytes(rig.in.vocabulary));
        for (uint32_t id = N; id < rig.in.vocabulary; id++)
            rig.logits[id] = (float)position;
        rig.in.generated = backward;
        how.bias = ba;
        how.generated_from = position;
        const uint64_t requests = mem_count().requests;
        const mote_choice b = rig_pick(&rig, &how);
        assert_memory_equal(&a, &b, sizeof a);
        assert_int_equal(mem_count().requests, requests);
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_rig, close_rig)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(greedy_takes_the_lowest_id_of_equal_maxima),
        TEST(zeros_of_either_sign_are_equal),
        TEST(padding_is_never_chosen),
        TEST(nan_is_never_chosen),
        TEST(infinity_counts_as_flt_max),
        TEST(row_without_numbers_is_an_error),
        TEST(masked_tokens_are_never_chosen),
        TEST(bias_cannot_override_the_mask),
        TEST(single_token_is_certain),
        TEST(bias_changes_ranks),
        TEST(bias_minus_infinity_excludes),
        TEST(penalties_apply_to_generated_tokens),
        TEST(repetition_lowers_both_signs),
        TEST(huge_values_do_not_overflow),
        TEST(top_k_keeps_the_first),
        TEST(top_p_keeps_the_shortest_prefix),
        TEST(top_p_applies_after_top_k),
        TEST(min_p_is_relative_to_the_best),
        TEST(the_smallest_temperature_is_greedy),
        TEST(logprobs_ignore_options),
        TEST(top_logprobs_are_in_order),
        TEST(options_out_of_range_are_rejected),
        TEST(random_options_match_the_reference),
        TEST(only_documented_inputs_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
