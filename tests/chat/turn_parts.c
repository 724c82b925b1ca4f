/* SPDX-License-Identifier: Apache-2.0 */
/* turn_parts.c - the parts of a turn that need no model: loop detector, thinking plan, stop
 * strings. */
#include "chat/turn/loop_detector.h"
#include "chat/turn/turn_int.h"
#include "chat/turn/thinking.h"
#include "support/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
/* cmocka needs those before it */
#include <cmocka.h>

enum { MOST = 8192 };
static mote_token tokens[MOST];
static loop_detector guard;

/* A token that never repeats: it depends on its position. */
static mote_token fresh(size_t i)
{
    return (mote_token)(1000 + i * 2654435761u % 200000);
}

/* Feeds tokens[0 .. n). Returns where the detector finds a loop, or n. */
static size_t run_guard(size_t n, bool thinking, loop_detector_kind *kind)
{
    loop_detector_start(&guard, 0, thinking);
    for (size_t i = 0; i < n; i++)
        if ((*kind = loop_detector_add(&guard, tokens, i + 1)) != LOOP_NONE)
            return i + 1;
    return n;
}

/* `lead` fresh tokens, then one period repeated. */
static void fill_cycle(size_t lead, size_t period)
{
    for (size_t i = 0; i < MOST; i++)
        tokens[i] = i < lead + period ? fresh(i) : tokens[i - period];
}

static void exact_cycles_are_found_where_they_begin(void **state)
{
    (void)state;
    static const size_t periods[] = {1, 2, 3, 7, 31, 64, 100, 333, 1024};
    for (size_t i = 0; i < sizeof periods / sizeof *periods; i++)
        for (int thinking = 0; thinking < 2; thinking++) {
            const size_t p = periods[i], least = thinking ? 64 : 128;
            loop_detector_kind kind;
            fill_cycle(100, p);
            const size_t at = run_guard(MOST, thinking, &kind);
            assert_int_equal(kind, LOOP_EXACT);
            assert_int_equal(guard.begin, 100 + p);
            assert_int_equal(at, 100 + p + (2 * p > least ? 2 * p : least));
        }
}

static void repetition_is_suspected_before_it_is_a_loop(void **state)
{
    (void)state;
    fill_cycle(50, 5);
    loop_detector_start(&guard, 0, false);
    for (size_t n = 1; n < 55 + 128; n++) {
        assert_int_equal(loop_detector_add(&guard, tokens, n), LOOP_NONE);
        assert_int_equal(loop_detector_suspects(&guard), n >= 55 + 12 ? n - 55 : 0);
    }
    tokens[55 + 127] = 7; /* the cycle breaks: nothing is suspected */
    loop_detector_add(&guard, tokens, 55 + 128);
    assert_int_equal(loop_detector_suspects(&guard), 0);
}

static void near_cycles_are_found(void **state)
{
    (void)state;
    loop_detector_kind kind;
    fill_cycle(100, 24);
    for (size_t i = 100; i < MOST; i += 24)
        tokens[i] = fresh(i); /* a counter: one token in 24 differs */
    const size_t at = run_guard(MOST, false, &kind);
    assert_int_equal(kind, LOOP_NEAR);
    assert_in_range(at, 300, 700);
    assert_in_range(guard.begin, 100, 160);
}

static void salad_is_found(void **state)
{
    (void)state;
    test_random dice = {5};
    loop_detector_kind kind;
    for (size_t i = 0; i < MOST; i++)
        tokens[i] = i < 300 ? fresh(i) : (mote_token)(test_random_below(&dice, 4));
    const size_t at = run_guard(MOST, false, &kind);
    assert_int_equal(kind, LOOP_SALAD);
    assert_in_range(at, 300, 1400);
}

static void text_without_loops_is_accepted(void **state)
{
    (void)state;
    test_random dice = {9};
    loop_detector_kind kind;
    for (size_t i = 0; i < MOST; i++)
        tokens[i] = (mote_token)(test_random_below(&dice, 50)); /* few words in random order */
    assert_int_equal(run_guard(MOST, false, &kind), MOST);
    for (size_t i = 0; i < MOST; i++)
        tokens[i] = (mote_token)test_random_below(&dice, 6);
    assert_int_equal(run_guard(MOST, false, &kind), MOST);
    /* a table: half of each row is the same, then three quarters */
    for (size_t every = 2; every <= 4; every += 2) {
        for (size_t i = 0; i < MOST; i++)
            tokens[i] = i % every != 0 ? (mote_token)(i % 16) : fresh(i);
        assert_int_equal(run_guard(MOST, true, &kind), MOST);
    }
    /* the same twenty tokens three times, then other tokens */
    fill_cycle(10, 20);
    for (size_t i = 10 + 60; i < MOST; i++)
        tokens[i] = fresh(i);
    assert_int_equal(run_guard(MOST, true, &kind), MOST);
}

static void think_parse_accepts_every_spelling(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        mote_think think;
        uint32_t budget;
    } cases[] = {
        {"auto", MOTE_THINK_AUTO, 0},      {"off", MOTE_THINK_OFF, 0},
        {"none", MOTE_THINK_OFF, 0},       {"NONE", MOTE_THINK_OFF, 0},
        {"false", MOTE_THINK_OFF, 0},      {"no", MOTE_THINK_OFF, 0},
        {"0", MOTE_THINK_OFF, 0},          {"on", MOTE_THINK_ON, 0},
        {"True", MOTE_THINK_ON, 0},        {"yes", MOTE_THINK_ON, 0},
        {"minimal", MOTE_THINK_ON, 256},   {"low", MOTE_THINK_ON, 1024},
        {"Medium", MOTE_THINK_ON, 4096},   {"high", MOTE_THINK_ON, 16384},
        {"xhigh", MOTE_THINK_ON, 32768},   {"max", MOTE_THINK_ON, UINT32_MAX},
        {"-1", MOTE_THINK_ON, UINT32_MAX}, {"1", MOTE_THINK_ON, 1},
        {"800", MOTE_THINK_ON, 800},       {"99999999999", MOTE_THINK_ON, UINT32_MAX},
        {"-0", MOTE_THINK_OFF, 0},
    };
    static const char *const wrong[] = {"", "-", "ton", "o", "offf", "1k", "1 ", " on", "lowest"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mote_think think = MOTE_THINK_AUTO;
        uint32_t budget = 77;
        assert_true(mote_think_parse(cases[i].text, strlen(cases[i].text), &think, &budget));
        assert_int_equal(think, cases[i].think);
        assert_int_equal(budget, cases[i].budget);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        mote_think think;
        uint32_t budget;
        assert_false(mote_think_parse(wrong[i], strlen(wrong[i]), &think, &budget));
    }
}

static void thinking_reserves_tokens_for_the_answer(void **state)
{
    (void)state;
    for (uint32_t most = 1; most < 40000; most += most < 1200 ? 1 : 997)
        for (uint32_t budget = 1; budget < 70000; budget = budget * 3 + 1) {
            const uint32_t closing = budget % 5 * 5;
            const chat_think_plan plan = chat_think_plan_of(budget, most, closing);
            const uint32_t reserve = most / 4 > 256 ? most / 4 : 256;
            assert_true(plan.soft <= plan.budget && plan.budget <= plan.last);
            assert_true(plan.budget <= budget && plan.last < most);
            const uint32_t ends = plan.last > 0 ? plan.last + closing : 0;
            assert_true(ends < most && most - ends >= (reserve < most / 2 ? reserve : most / 2));
        }
    /* half of a short answer, minus closing and grace */
    assert_int_equal(chat_think_plan_of(1000, 200, 0).budget, 75);
    assert_int_equal(chat_think_plan_of(1000, 200, 12).budget, 66);
    assert_int_equal(chat_think_plan_of(1000, 24, 12).last, 0);
    assert_int_equal(chat_think_plan_of(1000, 26, 12).last, 1);
    const chat_think_plan plan = chat_think_plan_of(1000, 4096, 12);
    assert_int_equal(plan.budget, 1000);
    assert_int_equal(plan.soft, 750);
    assert_int_equal(plan.last, 1064);
    assert_true(chat_think_urge(&plan, 749) == 0);
    for (uint32_t used = 750; used < 1064; used++)
        assert_true(chat_think_urge(&plan, used) < chat_think_urge(&plan, used + 1));
}

static bool ends(const char *before, const char *token)
{
    return chat_ends_sentence(str_of(before), str_of(token));
}

static void sentences_end(void **state)
{
    (void)state;
    assert_true(ends("good", "."));
    assert_true(ends("good", "!"));
    assert_true(ends("good", "?\n"));
    assert_true(ends("3", ".\n"));
    assert_true(ends("a", "\xE3\x80\x82"));
    assert_false(ends("3", "."));
    assert_false(ends(".", " and"));
    assert_false(ends("", ""));
}

/* Passes `text` through the stop strings in pieces of `step` bytes. */
static void through_stops(chat_stops *s, const char *text, size_t step, strbuf *out)
{
    const size_t n = strlen(text);
    for (size_t at = 0; at < n; at += step) {
        size_t certain;
        chat_stops_add(s, (str){text + at, n - at < step ? n - at : step}, &certain);
        strbuf_put(out, (str){s->held.p, certain});
        chat_stops_take(s, certain);
    }
    if (!s->hit)
        strbuf_put(out, strbuf_view(&s->held));
}

static void text_ends_before_a_stop_string(void **state)
{
    (void)state;
    static const char *const strings[] = {"END", "\n\n", "ENDLESS"};
    static const struct {
        const char *text, *out;
        int which; /* -1: none */
    } cases[] = {
        {"one END two", "one ", 0},     {"ENENDx", "EN", 0}, {"a\n b\n\nc", "a\n b", 1},
        {"EN\nEN\nE", "EN\nEN\nE", -1}, {"ENDLESS", "", 0},  {"", "", -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t step = 1; step < 8; step++) {
            chat_stops s = {.strings = strings, .n = 3};
            strbuf out = {0};
            through_stops(&s, cases[i].text, step, &out);
            assert_true(str_is(strbuf_view(&out), cases[i].out));
            assert_int_equal(s.hit, cases[i].which >= 0);
            assert_int_equal(s.which, cases[i].which >= 0 ? cases[i].which : 0);
            strbuf_fini(&out);
            strbuf_fini(&s.held);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_cycles_are_found_where_they_begin),
        cmocka_unit_test(repetition_is_suspected_before_it_is_a_loop),
        cmocka_unit_test(near_cycles_are_found),
        cmocka_unit_test(salad_is_found),
        cmocka_unit_test(text_without_loops_is_accepted),
        cmocka_unit_test(think_parse_accepts_every_spelling),
        cmocka_unit_test(thinking_reserves_tokens_for_the_answer),
        cmocka_unit_test(sentences_end),
        cmocka_unit_test(text_ends_before_a_stop_string),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
