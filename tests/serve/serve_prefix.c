/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serve_prefix.c - what is read once and by whom it may be used again: beginnings of prompts, those
 * who ask the same at once, realms, and what is forgotten first.
 */
#include "serve/serve_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs those before it */
#include <cmocka.h>

enum { CONTEXT = 2048 };

static rig tiny;

/* Asks, waits, lets go; returns how many tokens of the prompt were not read. */
static uint64_t reused(service *s, const question *q, uint64_t realm, sched_reuse *from)
{
    mote_error err;
    asked a;
    said solo;
    sched_job_options o = service_job(s, &a, q);
    o.realm = realm;
    must(service_submit(s, &a, &o, &err), &err);
    service_until_over(s, &a);
    rig_solo(&tiny, q, CONTEXT, &solo);
    same_as_solo(&a, &solo);
    *from = a.result.reuse;
    const uint64_t n = a.said.answer.reused_tokens;
    service_drop(s, &a);
    asked_fini(&a);
    said_fini(&solo);
    return n;
}

static void heads_are_read_once(void **state)
{
    (void)state;
    service s;
    sched_reuse from;
    question first = question_of_words(&tiny, 7, 120, 10, 12),
             second = question_of_words(&tiny, 8, 120, 10, 12);
    const size_t head = first.prompt.marks[0].position;
    assert_true(head > 200);
    service_open(&s, &tiny, (sched_options){.parallel = 2, .context = CONTEXT, .threads = 1});
    assert_int_equal(reused(&s, &first, 1, &from), 0);
    assert_int_equal(from, SCHED_REUSE_NONE);
    assert_true(reused(&s, &second, 1, &from) + 32 > head); /* the system text */
    assert_int_equal(from, SCHED_REUSE_ENDED);
    assert_true(reused(&s, &first, 1, &from) + 64 > first.prompt.n); /* all but its end */
    service_close(&s);
    question_fini(&first);
    question_fini(&second);
}

static void realms_share_nothing(void **state)
{
    (void)state;
    service s;
    sched_reuse from;
    question q = question_of_words(&tiny, 9, 120, 10, 12);
    service_open(&s, &tiny, (sched_options){.parallel = 4, .context = CONTEXT, .threads = 1});
    assert_int_equal(reused(&s, &q, 1, &from), 0);
    assert_int_equal(reused(&s, &q, 2, &from), 0);
    assert_true(reused(&s, &q, 2, &from) > 0);
    assert_int_equal(reused(&s, &q, 3, &from), 0);
    assert_true(reused(&s, &q, 1, &from) > 0);
    service_close(&s);
    question_fini(&q);
}

/* One of each realm at the same moment: none waits for another's reading, none takes from it. */
static void realms_do_not_wait_for_each_other(void **state)
{
    (void)state;
    enum { N = 4 };
    service s;
    asked before[N], a[N];
    mote_error err;
    question q = question_of_words(&tiny, 9, 120, 10, 12),
             hold = question_of_words(&tiny, 18, 0, 3, 1900);
    service_open(&s, &tiny, (sched_options){.parallel = N, .context = CONTEXT, .threads = 1});
    for (size_t i = 0; i < N; i++)
        service_ask_as(&s, &before[i], &hold, 1);
    for (size_t i = 0; i < N; i++)
        service_until_phase(&s, &before[i], SCHED_WRITING);
    for (size_t i = 0; i < N; i++) {
        sched_job_options o = service_job(&s, &a[i], &q);
        o.realm = 10 + i;
        must(service_submit(&s, &a[i], &o, &err), &err);
    }
    for (size_t i = 0; i < N; i++)
        service_drop(&s, &before[i]);
    for (size_t i = 0; i < N; i++)
        service_until_over(&s, &a[i]);
    for (size_t i = 0; i < N; i++) {
        assert_true(a[i].turn <= a[0].turn + N); /* as seats became free */
        assert_int_equal(a[i].said.answer.reused_tokens, 0);
        assert_int_equal(a[i].result.reuse, SCHED_REUSE_NONE);
        service_drop(&s, &a[i]);
        asked_fini(&a[i]);
        asked_fini(&before[i]);
    }
    service_close(&s);
    question_fini(&q);
    question_fini(&hold);
}

/* Five who ask the same at once: one reads, the others wait for it. */
static void the_same_is_not_read_twice(void **state)
{
    (void)state;
    enum { N = 5 };
    service s;
    asked a[N];
    said solo;
    sched_figures f;
    question q = question_of_words(&tiny, 10, 200, 10, 12);
    rig_solo(&tiny, &q, CONTEXT, &solo);
    service_open(&s, &tiny, (sched_options){.parallel = N, .context = CONTEXT, .threads = 1});
    for (size_t i = 0; i < N; i++)
        service_ask(&s, &a[i], &q);
    for (size_t i = 0; i < N; i++)
        service_until_over(&s, &a[i]);
    for (size_t i = 0; i < N; i++) {
        same_as_solo(&a[i], &solo);
        service_drop(&s, &a[i]);
        asked_fini(&a[i]);
    }
    sched_read_figures(s.sched, &f);
    assert_true(f.read_tokens < q.prompt.n + N * 64);
    assert_true(f.reused_live_tokens + f.reused_ended_tokens > (N - 1) * (q.prompt.n - 64));
    service_close(&s);
    said_fini(&solo);
    question_fini(&q);
}

/* Two places on the shelf, three conversations: the one that nobody came back to goes. */
static void the_least_recently_used_goes_first(void **state)
{
    (void)state;
    service s;
    sched_reuse from;
    question a = question_of_words(&tiny, 14, 0, 60, 4), b = question_of_words(&tiny, 15, 0, 60, 4),
             c = question_of_words(&tiny, 16, 0, 60, 4);
    service_open(&s, &tiny,
                 (sched_options){.parallel = 1, .idle = 2, .context = CONTEXT, .threads = 1});
    assert_true(reused(&s, &a, 0, &from) < 32);
    assert_true(reused(&s, &b, 0, &from) < 32);
    assert_true(reused(&s, &a, 0, &from) > 64);
    assert_true(reused(&s, &c, 0, &from) < 32); /* in place of b */
    assert_true(reused(&s, &a, 0, &from) > 64);
    assert_true(reused(&s, &b, 0, &from) < 32);
    sched_figures f;
    sched_read_figures(s.sched, &f);
    assert_int_equal(f.ended_kept, 2);
    assert_true(f.states_used <= 4); /* those of sessions that went are free */
    service_close(&s);
    question_fini(&a);
    question_fini(&b);
    question_fini(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_are_read_once),
        cmocka_unit_test(realms_share_nothing),
        cmocka_unit_test(realms_do_not_wait_for_each_other),
        cmocka_unit_test(the_same_is_not_read_twice),
        cmocka_unit_test(the_least_recently_used_goes_first),
    };
    rig_open(&tiny);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rig_close(&tiny);
    return failed;
}
