/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sched_prefix.c - what is read once and by whom it may be used again: beginnings of prompts, those
 * who ask the same at once, namespaces, and what is forgotten first.
 */
#include "sched/sched_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs those before it */
#include <cmocka.h>

enum { CONTEXT = 2048 };

static rig tiny;

/* Asks, waits, lets go; returns how many tokens of the prompt were not read. */
static uint64_t reused(service *s, const question *q, uint64_t ns, sched_reuse *from)
{
    mote_error err;
    asked a;
    said solo;
    sched_job_options o = service_job(s, &a, q);
    o.ns = ns;
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
    assert_int_equal(from, SCHED_REUSE_IDLE);
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
    service_open_held(&s, &tiny, (sched_options){.parallel = N, .context = CONTEXT, .threads = 1});
    for (size_t i = 0; i < N; i++)
        service_ask_as(&s, &before[i], &hold, 1);
    for (size_t i = 0; i < N; i++)
        service_step_to(&s, &before[i], SCHED_DECODE);
    for (size_t i = 0; i < N; i++) {
        sched_job_options o = service_job(&s, &a[i], &q);
        o.ns = 10 + i;
        must(service_submit(&s, &a[i], &o, &err), &err);
    }
    service_go_on(&s);
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
    sched_stats f;
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
    sched_read_stats(s.sched, &f);
    assert_true(f.prefill_tokens < q.prompt.n + N * 64);
    assert_true(f.reused_live_tokens + f.reused_idle_tokens > (N - 1) * (q.prompt.n - 64));
    service_close(&s);
    said_fini(&solo);
    question_fini(&q);
}

/* Somebody leaves while his prompt is read, as one whose patience is over, and asks again: what was
 * read for him is still there. Beside an answer the slices are short enough to leave between. */
static void who_comes_back_goes_on(void **state)
{
    (void)state;
    service s;
    sched_reuse from;
    sched_job_status where = {0};
    asked company, gone;
    question q = question_of_words(&tiny, 15, 350, 10, 4),
             other = question_of_words(&tiny, 16, 0, 10, 900);
    service_open(&s, &tiny, (sched_options){.parallel = 2, .context = CONTEXT, .threads = 1});
    service_ask(&s, &company, &other);
    service_until_phase(&s, &company, SCHED_DECODE);
    service_ask(&s, &gone, &q);
    while (where.done < 128 && where.phase < SCHED_DECODE) {
        service_turn(&s);
        sched_job_get_status(s.sched, gone.job, &where);
    }
    service_drop(&s, &gone);
    asked_fini(&gone);
    assert_true(reused(&s, &q, 0, &from) >= 96);
    assert_int_equal(from, SCHED_REUSE_IDLE);
    service_drop(&s, &company);
    asked_fini(&company);
    service_close(&s);
    question_fini(&q);
    question_fini(&other);
}

/* Two places on the shelf, three conversations: the one that nobody came back to goes. */
static void the_least_recently_used_goes_first(void **state)
{
    (void)state;
    service s;
    sched_reuse from;
    question a = question_of_words(&tiny, 14, 0, 60, 4), b = question_of_words(&tiny, 15, 0, 60, 4),
             c = question_of_words(&tiny, 16, 0, 60, 4);
    service_open(
        &s, &tiny,
        (sched_options){.parallel = 1, .idle_sessions = 2, .context = CONTEXT, .threads = 1});
    assert_true(reused(&s, &a, 0, &from) < 32);
    assert_true(reused(&s, &b, 0, &from) < 32);
    assert_true(reused(&s, &a, 0, &from) > 64);
    assert_true(reused(&s, &c, 0, &from) < 32); /* in place of b */
    assert_true(reused(&s, &a, 0, &from) > 64);
    assert_true(reused(&s, &b, 0, &from) < 32);
    sched_stats f;
    sched_read_stats(s.sched, &f);
    assert_int_equal(f.idle_sessions, 2);
    assert_true(f.states_used <= 4); /* those of sessions that went are free */
    service_close(&s);
    question_fini(&a);
    question_fini(&b);
    question_fini(&c);
}

/* ---- what is known of those that are kept, and wanted of them ---- */

enum { MOST_KEPT = 8 };

/* How many of a realm are kept; the one that was used last goes to *last. */
static size_t kept(service *s, uint64_t ns, sched_prefix *last)
{
    sched_prefix rows[MOST_KEPT];
    size_t n = 0;
    const size_t all = sched_prefixes(s->sched, rows, MOST_KEPT);
    assert_true(all <= MOST_KEPT);
    for (size_t i = 0; i < all; i++)
        if (rows[i].ns == ns && (n++ == 0 || rows[i].used > last->used))
            *last = rows[i];
    return n;
}

static void those_kept_are_known_and_dropped(void **state)
{
    (void)state;
    service s;
    sched_reuse from;
    sched_prefix one, other, again, none[1];
    question q = question_of_words(&tiny, 21, 0, 60, 4), r = question_of_words(&tiny, 22, 0, 60, 4);
    service_open(&s, &tiny, (sched_options){.parallel = 2, .context = CONTEXT, .threads = 1});
    assert_int_equal(sched_prefixes(s.sched, none, 1), 0);
    reused(&s, &q, 1, &from);
    reused(&s, &r, 2, &from);
    assert_int_equal(kept(&s, 1, &one), 1);
    assert_int_equal(kept(&s, 2, &other), 1);
    assert_true(one.id != 0 && one.id != other.id);
    assert_true(one.tokens >= q.prompt.n && one.tokens < q.prompt.n + 8 && one.bytes > one.tokens);
    assert_true(one.hits == 0 && !one.pinned && one.used > 0 && other.used > one.used);
    assert_true(reused(&s, &q, 1, &from) > 64); /* it goes on: the same one, now used once */
    assert_int_equal(kept(&s, 1, &again), 1);
    assert_true(again.id == one.id && again.hits == 1 && again.used > one.used);
    assert_true(sched_prefix_drop(s.sched, one.id));
    assert_false(sched_prefix_drop(s.sched, one.id));
    assert_int_equal(sched_prefix_pin(s.sched, one.id, true, NULL), MOTE_E_ARG);
    assert_int_equal(kept(&s, 1, &again), 0);
    assert_int_equal(reused(&s, &q, 1, &from), 0);
    assert_true(reused(&s, &r, 2, &from) > 64); /* nobody else's */
    assert_int_equal(kept(&s, 1, &again), 1);
    assert_true(again.id != one.id && again.hits == 0);
    service_close(&s);
    question_fini(&q);
    question_fini(&r);
}

/* Two places, one of them pinned: others take turns in the other. */
static void a_pinned_one_stays(void **state)
{
    (void)state;
    service s;
    sched_reuse from;
    sched_prefix pinned, now;
    question a = question_of_words(&tiny, 14, 0, 60, 4), b = question_of_words(&tiny, 15, 0, 60, 4),
             c = question_of_words(&tiny, 16, 0, 60, 4);
    service_open(
        &s, &tiny,
        (sched_options){.parallel = 1, .idle_sessions = 2, .context = CONTEXT, .threads = 1});
    reused(&s, &a, 0, &from);
    assert_int_equal(kept(&s, 0, &pinned), 1);
    assert_int_equal(sched_prefix_pin(s.sched, pinned.id, true, NULL), MOTE_OK);
    assert_int_equal(sched_prefix_pin(s.sched, pinned.id, true, NULL), MOTE_OK);
    for (int round = 0; round < 2; round++) {
        assert_true(reused(&s, &b, 0, &from) < 32);
        assert_int_equal(kept(&s, 0, &now), 2);
        assert_int_equal(sched_prefix_pin(s.sched, now.id, true, NULL), MOTE_E_FULL);
        assert_true(reused(&s, &c, 0, &from) < 32);
    }
    assert_true(reused(&s, &a, 0, &from) > 64); /* who goes on from it leaves it where it is */
    kept(&s, 0, &now);
    assert_true(now.id == pinned.id && now.hits == 1 && now.tokens == pinned.tokens && now.pinned);
    assert_int_equal(sched_prefix_pin(s.sched, pinned.id, false, NULL), MOTE_OK);
    reused(&s, &b, 0, &from);
    reused(&s, &c, 0, &from);
    assert_true(reused(&s, &a, 0, &from) < 32);
    service_close(&s);
    question_fini(&a);
    question_fini(&b);
    question_fini(&c);
}

/* Half of the positions at most can be pinned, and an answer that lacks room has it all the same.
 */
static void a_pinned_one_gives_way_to_work(void **state)
{
    (void)state;
    service s;
    sched_reuse from;
    sched_prefix row;
    question large = question_of_words(&tiny, 23, 0, 230, 4),
             small = question_of_words(&tiny, 24, 0, 130, 4);
    assert_true(large.prompt.n > CONTEXT / 2 && small.prompt.n < CONTEXT / 2);
    assert_true(large.prompt.n + small.prompt.n > CONTEXT);
    service_open(
        &s, &tiny,
        (sched_options){.parallel = 1, .context = CONTEXT, .kv_tokens = CONTEXT, .threads = 1});
    reused(&s, &large, 0, &from);
    assert_int_equal(kept(&s, 0, &row), 1);
    assert_int_equal(sched_prefix_pin(s.sched, row.id, true, NULL), MOTE_E_FULL);
    reused(&s, &small, 0, &from);
    assert_int_equal(kept(&s, 0, &row), 1);
    assert_int_equal(sched_prefix_pin(s.sched, row.id, true, NULL), MOTE_OK);
    const uint64_t id = row.id;
    assert_true(reused(&s, &large, 0, &from) < 32); /* and says what it says alone */
    assert_int_equal(kept(&s, 0, &row), 1);
    assert_true(row.id != id);
    service_close(&s);
    question_fini(&large);
    question_fini(&small);
}

/* ---- where two prompts part ---- */

static sched_miss miss_of(service *s, const question *q, uint64_t ns, bool no_reuse)
{
    mote_error err;
    asked a;
    sched_job_options o = service_job(s, &a, q);
    o.ns = ns;
    o.no_reuse = no_reuse;
    must(service_submit(s, &a, &o, &err), &err);
    service_until_over(s, &a);
    const sched_miss miss = a.result.miss;
    service_drop(s, &a);
    asked_fini(&a);
    return miss;
}

static void the_first_difference_is_told(void **state)
{
    (void)state;
    service s;
    question first = question_of_words(&tiny, 7, 120, 40, 4),
             other = question_of_words(&tiny, 8, 120, 40, 4),
             brief = question_of_words(&tiny, 9, 120, 4, 4);
    size_t at = 0;
    while (first.prompt.ids[at] == other.prompt.ids[at])
        at++;
    service_open(&s, &tiny, (sched_options){.parallel = 2, .context = CONTEXT, .threads = 1});
    assert_int_equal(miss_of(&s, &first, 1, false).n, 0); /* nothing was there */
    assert_int_equal(miss_of(&s, &other, 2, false).n, 0); /* nothing of its own */
    assert_int_equal(miss_of(&s, &first, 1, false).n, 0); /* the same once more */
    assert_int_equal(miss_of(&s, &brief, 1, false).n, 0); /* not worth a word */
    assert_int_equal(miss_of(&s, &other, 1, true).n, 0);  /* it did not want any */
    service_close(&s);
    service_open(&s, &tiny, (sched_options){.parallel = 2, .context = CONTEXT, .threads = 1});
    miss_of(&s, &first, 1, false);
    const sched_miss miss = miss_of(&s, &other, 1, false);
    assert_int_equal(miss.at, at);
    assert_int_equal(miss.n, SCHED_MISS_TOKENS);
    assert_memory_equal(miss.had, first.prompt.ids + at, sizeof miss.had);
    service_close(&s);
    question_fini(&first);
    question_fini(&other);
    question_fini(&brief);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_are_read_once),
        cmocka_unit_test(realms_share_nothing),
        cmocka_unit_test(realms_do_not_wait_for_each_other),
        cmocka_unit_test(the_same_is_not_read_twice),
        cmocka_unit_test(who_comes_back_goes_on),
        cmocka_unit_test(the_least_recently_used_goes_first),
        cmocka_unit_test(those_kept_are_known_and_dropped),
        cmocka_unit_test(a_pinned_one_stays),
        cmocka_unit_test(a_pinned_one_gives_way_to_work),
        cmocka_unit_test(the_first_difference_is_told),
    };
    rig_open(&tiny);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rig_close(&tiny);
    return failed;
}
