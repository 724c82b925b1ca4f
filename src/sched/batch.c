/* SPDX-License-Identifier: Apache-2.0 */
/*
 * batch.c - what goes into a step. Engine thread.
 *
 * Everybody who is writing goes in with the token or the few that are next. What the pace
 * leaves goes to those who are reading: a quarter to the one who sits longest, so that no
 * stream of short questions can hold a long one up, the rest to whoever is done soonest.
 */
#include "sched/sched_int.h"

static size_t rest(const sched_job *job)
{
    return job->n - (size_t)mote_session_length(job->session);
}

static void add(sched *s, sched_job *job, size_t n, mote_logits want)
{
    s->work_for[s->n_work] = job;
    s->work[s->n_work++] = (mote_work){.session = job->session,
                                       .tokens = job->tokens + mote_session_length(job->session),
                                       .n = n,
                                       .want = want,
                                       .images = job->options.images,
                                       .n_images = job->options.n_images,
                                       .sum = job->sum};
}

static void add_writers(sched *s)
{
    for (uint32_t i = 0; i < s->n_slots; i++)
        if (s->slots[i]->state == JOB_DECODE) {
            add(s, s->slots[i], rest(s->slots[i]), MOTE_LOGITS_LAST);
            s->n_light += rest(s->slots[i]);
        }
}

/* Those who read, the nearest to its end first. */
static uint32_t line_up(sched *s)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_slots; i++) {
        sched_job *job = s->slots[i];
        if (job->state != JOB_PREFILL)
            continue;
        uint32_t at = n++;
        for (; at > 0 && rest(s->readers[at - 1]) > rest(job); at--)
            s->readers[at] = s->readers[at - 1];
        s->readers[at] = job;
    }
    return n;
}

/* The seats are in order of arrival. */
static const sched_job *longest_seated(const sched *s)
{
    uint32_t i = 0;
    while (s->slots[i]->state != JOB_PREFILL)
        i++;
    return s->slots[i];
}

static bool scores_now(const sched_job *job)
{
    return job->options.kind == SCHED_SCORE &&
           mote_session_length(job->session) + 1 >= job->options.score_from;
}

/* The most it can take at once: up to the next place where it has to stop. */
static size_t most(const sched *s, const sched_job *job, size_t score_rows)
{
    const size_t at = (size_t)mote_session_length(job->session);
    size_t end = prefix_cache_limit(s, job);
    if (scores_now(job))
        return end - at < score_rows ? end - at : score_rows;
    if (job->options.kind == SCHED_SCORE && job->options.score_from - 1 < end)
        end = job->options.score_from - 1;
    return end - at;
}

static mote_logits wanted(const sched_job *job, size_t n)
{
    if (scores_now(job))
        return MOTE_LOGITS_ALL;
    if (job->sum != NULL)
        return MOTE_HIDDEN_SUM;
    if (n < rest(job))
        return MOTE_LOGITS_NONE;
    return job->options.kind == SCHED_EMBED ? MOTE_HIDDEN_LAST : MOTE_LOGITS_LAST;
}

static void add_readers(sched *s)
{
    const uint32_t n = line_up(s);
    size_t rows = prefill_budget_rows(&s->budget, s->n_light, n);
    if (s->beside)
        rows = prefill_budget_shared(&s->budget, rows);
    if (n == 0 || rows == 0)
        return;
    const sched_job *oldest = longest_seated(s);
    size_t reserved = rows / 4, score_rows = SCHED_SCORE_ROWS;
    if (reserved > most(s, oldest, score_rows))
        reserved = most(s, oldest, score_rows);
    for (uint32_t i = 0; i < n; i++) {
        sched_job *job = s->readers[i];
        const size_t left = job == oldest ? rows : rows - reserved;
        const size_t can = most(s, job, score_rows);
        const size_t now = can < left ? can : left;
        if (job == oldest)
            reserved = 0;
        if (now == 0)
            continue;
        if (scores_now(job))
            score_rows -= now;
        add(s, job, now, wanted(job, now));
        rows -= now;
        s->n_heavy += now;
    }
}

void batch_build(sched *s)
{
    s->n_work = s->n_light = s->n_heavy = 0;
    add_writers(s);
    add_readers(s);
}
