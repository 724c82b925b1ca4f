/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sched_prefix.c - the prefix cache: shared prefixes, equal prompts at the same time, namespaces,
 * eviction order, pinning, cache misses.
 */
#define _XOPEN_SOURCE 700
#define _DEFAULT_SOURCE
#include "sched/sched_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>
/* cmocka.h needs the headers above */
#include <cmocka.h>

enum { CONTEXT = 2048 };

static rig tiny;

static uint64_t reused(service *s, const question *q, uint64_t ns, sched_reuse *from)
{
    return service_reused(s, &tiny, q, CONTEXT, ns, from);
}

static void shared_prefix_is_prefilled_once(void **state)
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

/* Prompts with equal instructions and other questions: from the fourth on, everything before the
 * question is reused, also if it ends between two chunk boundaries. */
static void branch_is_cached(void **state)
{
    (void)state;
    size_t gained = 0;
    for (size_t words = 120; words < 150; words += 6) {
        service s;
        sched_reuse from;
        uint64_t n[5];
        service_open(&s, &tiny, (sched_options){.parallel = 2, .context = CONTEXT, .threads = 1});
        size_t head = 0;
        for (size_t i = 0; i < 5; i++) {
            question q = question_of_words(&tiny, 20 + i, words, 10, 12);
            head = q.prompt.marks[0].position;
            n[i] = reused(&s, &q, 1, &from);
            question_fini(&q);
        }
        assert_true(n[1] + 32 > head && n[1] % 32 == 0);
        assert_true(n[3] >= n[1] && n[4] == n[3]);
        assert_true(n[3] == n[1] || n[3] >= head);
        gained += n[3] > n[1];
        service_close(&s);
    }
    assert_true(gained >= 2);
}

static void namespaces_share_nothing(void **state)
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

/* Equal prompts of several namespaces at the same time: none waits for another, none reuses. */
static void namespaces_do_not_wait_for_each_other(void **state)
{
    (void)state;
    enum { N = 4 };
    service s;
    test_job before[N], a[N];
    mote_error err;
    question q = question_of_words(&tiny, 9, 120, 10, 12),
             hold = question_of_words(&tiny, 18, 0, 3, 1900);
    service_open_held(&s, &tiny, (sched_options){.parallel = N, .context = CONTEXT, .threads = 1});
    for (size_t i = 0; i < N; i++)
        service_send_as(&s, &before[i], &hold, 1);
    for (size_t i = 0; i < N; i++)
        service_step_to(&s, &before[i], SCHED_DECODE);
    for (size_t i = 0; i < N; i++) {
        sched_job_options o = service_job(&s, &a[i], &q);
        o.ns = 10 + i;
        must(service_submit(&s, &a[i], &o, &err), &err);
    }
    service_release(&s);
    for (size_t i = 0; i < N; i++)
        service_drop(&s, &before[i]);
    for (size_t i = 0; i < N; i++)
        service_wait_finished(&s, &a[i]);
    for (size_t i = 0; i < N; i++) {
        assert_true(a[i].turn <= a[0].turn + N); /* as slots became free */
        assert_int_equal(a[i].output.answer.reused_tokens, 0);
        assert_int_equal(a[i].result.reuse, SCHED_REUSE_NONE);
        service_drop(&s, &a[i]);
        test_job_fini(&a[i]);
        test_job_fini(&before[i]);
    }
    service_close(&s);
    question_fini(&q);
    question_fini(&hold);
}

/* Five equal prompts at the same time: one prefills, the others wait for it. */
static void equal_prompts_are_prefilled_once(void **state)
{
    (void)state;
    enum { N = 5 };
    service s;
    test_job a[N];
    test_output solo;
    sched_stats f;
    question q = question_of_words(&tiny, 10, 200, 10, 12);
    rig_solo(&tiny, &q, CONTEXT, &solo);
    service_open(&s, &tiny, (sched_options){.parallel = N, .context = CONTEXT, .threads = 1});
    for (size_t i = 0; i < N; i++)
        service_send(&s, &a[i], &q);
    for (size_t i = 0; i < N; i++)
        service_wait_finished(&s, &a[i]);
    for (size_t i = 0; i < N; i++) {
        same_as_solo(&a[i], &solo);
        service_drop(&s, &a[i]);
        test_job_fini(&a[i]);
    }
    sched_read_stats(s.sched, &f);
    assert_true(f.prefill_tokens < q.prompt.n + N * 64);
    assert_true(f.reused_live_tokens + f.reused_idle_tokens > (N - 1) * (q.prompt.n - 64));
    service_close(&s);
    output_fini(&solo);
    question_fini(&q);
}

/* A job is dropped during prefill and submitted again: it reuses what was prefilled. With a
 * decoding job in the batch, the chunks are short enough to drop it between two of them. */
static void dropped_prefill_is_reused(void **state)
{
    (void)state;
    service s;
    sched_reuse from;
    sched_job_status where = {0};
    test_job other_job, gone;
    question q = question_of_words(&tiny, 15, 350, 10, 4),
             other = question_of_words(&tiny, 16, 0, 10, 900);
    service_open(&s, &tiny, (sched_options){.parallel = 2, .context = CONTEXT, .threads = 1});
    service_send(&s, &other_job, &other);
    service_wait_phase(&s, &other_job, SCHED_DECODE);
    service_send(&s, &gone, &q);
    while (where.done < 128 && where.phase < SCHED_DECODE) {
        service_collect(&s);
        sched_job_get_status(s.sched, gone.job, &where);
    }
    service_drop(&s, &gone);
    test_job_fini(&gone);
    assert_true(reused(&s, &q, 0, &from) >= 96);
    assert_int_equal(from, SCHED_REUSE_IDLE);
    service_drop(&s, &other_job);
    test_job_fini(&other_job);
    service_close(&s);
    question_fini(&q);
    question_fini(&other);
}

/* The same with a time limit that ends during prefill. */
static void timed_out_prefill_is_reused(void **state)
{
    (void)state;
    sched_job_status where = {0};
    question q = question_of_words(&tiny, 15, 350, 10, 4),
             other = question_of_words(&tiny, 16, 0, 10, 900);
    /* A slow machine may reach the limit before the first chunk: with a longer one it does not. */
    for (double seconds = 0.01;; seconds *= 2) {
        service s;
        sched_reuse from;
        test_job other_job, late;
        mote_error err;
        service_open_held(&s, &tiny,
                          (sched_options){.parallel = 2, .context = CONTEXT, .threads = 1});
        service_send(&s, &other_job, &other);
        service_step_to(&s, &other_job, SCHED_DECODE);
        sched_job_options o = service_job(&s, &late, &q);
        o.seconds = seconds;
        must(service_submit(&s, &late, &o, &err), &err);
        do {
            service_step(&s, &late);
            sched_job_get_status(s.sched, late.job, &where);
        } while (where.done < 128 && where.phase < SCHED_DECODE);
        const bool in_time = where.phase == SCHED_PREFILL && where.done < where.total;
        if (in_time)
            usleep((useconds_t)(seconds * 1e6));
        service_release(&s);
        service_wait_finished(&s, &late);
        if (in_time) {
            assert_int_equal(late.output.answer.finish, MOTE_FINISH_LENGTH);
            assert_int_equal(late.output.answer.answer_tokens, 0);
        }
        service_drop(&s, &late);
        test_job_fini(&late);
        if (in_time)
            assert_true(reused(&s, &q, 0, &from) >= 96);
        service_drop(&s, &other_job);
        test_job_fini(&other_job);
        service_close(&s);
        if (in_time)
            break;
    }
    question_fini(&q);
    question_fini(&other);
}

/* The same prompt arrives again during its prefill: it waits, and continues what is done. first_ends:
 * the first one is dropped meanwhile, as by a client that has lost its patience. */
static void retry_joins(bool first_ends)
{
    service s;
    test_job other_job, first, retry;
    test_output solo;
    sched_stats f;
    sched_job_status where = {0};
    question q = question_of_words(&tiny, 15, 350, 10, 4),
             other = question_of_words(&tiny, 16, 0, 10, 900);
    rig_solo(&tiny, &q, CONTEXT, &solo);
    service_open_held(&s, &tiny, (sched_options){.parallel = 3, .context = CONTEXT, .threads = 1});
    service_send(&s, &other_job, &other); /* so the chunks are short */
    service_step_to(&s, &other_job, SCHED_DECODE);
    service_send(&s, &first, &q);
    while (where.done < 128) {
        service_step(&s, &first);
        sched_job_get_status(s.sched, first.job, &where);
    }
    assert_true(where.phase == SCHED_PREFILL && where.total > where.done + 200);
    service_send(&s, &retry, &q);
    service_step(&s, &retry);
    service_step(&s, &retry);
    sched_job_get_status(s.sched, retry.job, &where);
    assert_int_equal(where.phase, SCHED_QUEUED); /* it waits for the first one */
    if (first_ends)
        service_drop(&s, &first);
    service_release(&s);
    service_wait_finished(&s, &retry);
    same_as_solo(&retry, &solo);
    assert_true(retry.output.answer.reused_tokens >= 128);
    if (!first_ends) {
        service_wait_finished(&s, &first);
        same_as_solo(&first, &solo);
        service_drop(&s, &first);
    }
    service_drop(&s, &retry);
    service_drop(&s, &other_job);
    test_job_fini(&first);
    test_job_fini(&retry);
    test_job_fini(&other_job);
    sched_read_stats(s.sched, &f);
    assert_true(f.prefill_tokens < q.prompt.n + other.prompt.n + 2 * 64);
    service_close(&s);
    output_fini(&solo);
    question_fini(&q);
    question_fini(&other);
}

static void retry_joins_a_running_prefill(void **state)
{
    (void)state;
    retry_joins(false);
    retry_joins(true);
}

/* A session in another directory, and one on another day, reuse everything before that line. */
static void state_is_kept_before_a_volatile_line(void **state)
{
    (void)state;
    static const char *const lines[] = {"Working directory: /srv/a", "Working directory: /srv/b",
                                        "Working directory: /srv/a\\nToday's date: Monday",
                                        "Working directory: /srv/a\\nToday's date: Tuesday"};
    service s;
    sched_reuse from;
    strbuf body = {0};
    service_open(&s, &tiny, (sched_options){.parallel = 2, .context = CONTEXT, .threads = 1});
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        question q;
        body.n = 0;
        strbuf_text(&body, "{\"messages\":[{\"role\":\"system\",\"content\":\"");
        for (int k = 0; k < 60; k++)
            strbuf_text(&body, "Always read a file before a change. ");
        strbuf_text(&body, "\\n");
        strbuf_text(&body, lines[i]);
        for (int k = 0; k < 20; k++)
            strbuf_text(&body, "\\nAnswer briefly, and never guess.");
        strbuf_text(&body, "\"},{\"role\":\"user\",\"content\":\"Hello\"}]}");
        strbuf_byte(&body, 0);
        question_init(&q, &tiny, body.p, answer_greedy(4));
        question_render(&q, &tiny);
        const chat_mark *mark = &q.prompt.marks[0];
        assert_int_equal(mark->kind, CHAT_MARK_VOLATILE);
        assert_true(mark->position > 300);
        const uint64_t n = reused(&s, &q, 1, &from);
        assert_true(i == 0 ? n == 0 : n + 32 > mark->position);
        question_fini(&q);
    }
    service_close(&s);
    strbuf_fini(&body);
}

/* Two idle sessions, three conversations: the least recently used one is evicted. */
static void lru_entry_is_evicted(void **state)
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
    assert_true(f.states_used <= 4); /* states of evicted sessions are free */
    service_close(&s);
    question_fini(&a);
    question_fini(&b);
    question_fini(&c);
}

/* ---- list, drop and pin ---- */

enum { MAX_ENTRIES = 8 };

/* Number of entries of a namespace; *last: the most recently used one. */
static size_t entries_of(service *s, uint64_t ns, sched_prefix *last)
{
    sched_prefix rows[MAX_ENTRIES];
    size_t n = 0;
    const size_t all = sched_prefixes(s->sched, rows, MAX_ENTRIES);
    assert_true(all <= MAX_ENTRIES);
    for (size_t i = 0; i < all; i++)
        if (rows[i].ns == ns && (n++ == 0 || rows[i].used > last->used))
            *last = rows[i];
    return n;
}

static void entries_are_listed_and_dropped(void **state)
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
    assert_int_equal(entries_of(&s, 1, &one), 1);
    assert_int_equal(entries_of(&s, 2, &other), 1);
    assert_true(one.id != 0 && one.id != other.id);
    assert_true(one.tokens >= q.prompt.n && one.tokens < q.prompt.n + 8 && one.bytes > one.tokens);
    assert_true(one.hits == 0 && !one.pinned && one.used > 0 && other.used > one.used);
    assert_true(reused(&s, &q, 1, &from) > 64); /* continued: the same entry, one hit */
    assert_int_equal(entries_of(&s, 1, &again), 1);
    assert_true(again.id == one.id && again.hits == 1 && again.used > one.used);
    assert_true(sched_prefix_drop(s.sched, one.id));
    assert_false(sched_prefix_drop(s.sched, one.id));
    assert_int_equal(sched_prefix_pin(s.sched, one.id, true, NULL), MOTE_E_ARG);
    assert_int_equal(entries_of(&s, 1, &again), 0);
    assert_int_equal(reused(&s, &q, 1, &from), 0);
    assert_true(reused(&s, &r, 2, &from) > 64); /* entries of another namespace stay */
    assert_int_equal(entries_of(&s, 1, &again), 1);
    assert_true(again.id != one.id && again.hits == 0);
    service_close(&s);
    question_fini(&q);
    question_fini(&r);
}

/* Two idle sessions, one pinned: other conversations replace each other. */
static void pinned_entry_stays(void **state)
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
    assert_int_equal(entries_of(&s, 0, &pinned), 1);
    assert_int_equal(sched_prefix_pin(s.sched, pinned.id, true, NULL), MOTE_OK);
    assert_int_equal(sched_prefix_pin(s.sched, pinned.id, true, NULL), MOTE_OK);
    for (int round = 0; round < 2; round++) {
        assert_true(reused(&s, &b, 0, &from) < 32);
        assert_int_equal(entries_of(&s, 0, &now), 2);
        assert_int_equal(sched_prefix_pin(s.sched, now.id, true, NULL), MOTE_E_FULL);
        assert_true(reused(&s, &c, 0, &from) < 32);
    }
    assert_true(reused(&s, &a, 0, &from) > 64); /* a job that continues a pinned entry forks it */
    entries_of(&s, 0, &now);
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

/* At most half of the KV positions can be pinned. A running job that needs pages evicts pinned
 * entries too. */
static void pinned_entry_is_evicted_for_a_running_job(void **state)
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
    assert_int_equal(entries_of(&s, 0, &row), 1);
    assert_int_equal(sched_prefix_pin(s.sched, row.id, true, NULL), MOTE_E_FULL);
    reused(&s, &small, 0, &from);
    assert_int_equal(entries_of(&s, 0, &row), 1);
    assert_int_equal(sched_prefix_pin(s.sched, row.id, true, NULL), MOTE_OK);
    const uint64_t id = row.id;
    assert_true(reused(&s, &large, 0, &from) < 32); /* the output equals the solo run */
    assert_int_equal(entries_of(&s, 0, &row), 1);
    assert_true(row.id != id);
    service_close(&s);
    question_fini(&large);
    question_fini(&small);
}

/* ---- cache misses ---- */

static sched_miss miss_of(service *s, const question *q, uint64_t ns, bool no_reuse)
{
    mote_error err;
    test_job a;
    sched_job_options o = service_job(s, &a, q);
    o.ns = ns;
    o.no_reuse = no_reuse;
    must(service_submit(s, &a, &o, &err), &err);
    service_wait_finished(s, &a);
    const sched_miss miss = a.result.miss;
    service_drop(s, &a);
    test_job_fini(&a);
    return miss;
}

static void first_difference_is_reported(void **state)
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
    assert_int_equal(miss_of(&s, &first, 1, false).n, 0); /* the cache is empty */
    assert_int_equal(miss_of(&s, &other, 2, false).n, 0); /* another namespace */
    assert_int_equal(miss_of(&s, &first, 1, false).n, 0); /* the same prompt again */
    assert_int_equal(miss_of(&s, &brief, 1, false).n, 0); /* the difference is too cheap */
    assert_int_equal(miss_of(&s, &other, 1, true).n, 0);  /* no_reuse */
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
        cmocka_unit_test(shared_prefix_is_prefilled_once),
        cmocka_unit_test(branch_is_cached),
        cmocka_unit_test(namespaces_share_nothing),
        cmocka_unit_test(namespaces_do_not_wait_for_each_other),
        cmocka_unit_test(equal_prompts_are_prefilled_once),
        cmocka_unit_test(dropped_prefill_is_reused),
        cmocka_unit_test(timed_out_prefill_is_reused),
        cmocka_unit_test(retry_joins_a_running_prefill),
        cmocka_unit_test(state_is_kept_before_a_volatile_line),
        cmocka_unit_test(lru_entry_is_evicted),
        cmocka_unit_test(entries_are_listed_and_dropped),
        cmocka_unit_test(pinned_entry_stays),
        cmocka_unit_test(pinned_entry_is_evicted_for_a_running_job),
        cmocka_unit_test(first_difference_is_reported),
    };
    rig_open(&tiny);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rig_close(&tiny);
    return failed;
}
