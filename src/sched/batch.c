/* SPDX-License-Identifier: Apache-2.0 */
/*
 * batch.c - builds the batch of a step, and the prefill budget. Engine thread only.
 *
 * Every decoding job contributes its next tokens, unless its key is ahead of others (key_share.c).
 * The prefill budget is then divided equally among the keys with prefilling jobs, and inside a key:
 * a quarter is reserved for the job that arrived first, so that short prompts cannot starve a long
 * one. The other rows go to the jobs with the fewest remaining tokens.
 */
#include "sched/sched_int.h"

/* ---- prefill budget ---- */

#define AVERAGE_WEIGHT 0.25 /* of a new value in a moving average */

static double clamp(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

static double moving_average(double old, double now)
{
    return old > 0 ? old + AVERAGE_WEIGHT * (now - old) : now;
}

static uint64_t capped_decode_rows(uint64_t decode_rows)
{
    return decode_rows < BUDGET_MAX_DECODING ? decode_rows : BUDGET_MAX_DECODING;
}

/* Time of a decode-only step with this many rows, or with up to a quarter fewer; 0: unknown.
 * Measuring every batch size would cost a step without prefill each time a job starts decoding. */
static double decode_only_seconds(const prefill_budget *p, uint64_t decode_rows)
{
    const uint64_t n = capped_decode_rows(decode_rows);
    for (uint64_t near = n; near > 0 && 4 * near >= 3 * n; near--)
        if (p->decode_seconds[near] > 0)
            return p->decode_seconds[near];
    return 0;
}

/* The formula of prefill_budget.h. */
static double allowed_step_seconds(double alone, uint64_t decode_rows, uint64_t waiting,
                                   uint32_t other_keys)
{
    double most = clamp(BUDGET_MAX_GAP, BUDGET_CAP_SLOWDOWN * alone, BUDGET_MAX_SLOWDOWN * alone);
    const double fair = alone * (1 + BUDGET_PER_WAITING * (double)waiting / (double)decode_rows);
    if (other_keys > 0 && most > (1 + other_keys) * alone)
        most = (1 + other_keys) * alone;
    return clamp(fair, BUDGET_SLOWDOWN * alone, most);
}

/* Cost of one more prefill row: as measured; if unknown, as in a step without decode rows;
 * if that is unknown too, as much as a whole decode-only step. */
static double prefill_row_seconds(const prefill_budget *p, double alone)
{
    return p->added_row_seconds > 0   ? p->added_row_seconds
           : p->alone_row_seconds > 0 ? p->alone_row_seconds
                                      : alone;
}

uint32_t prefill_budget_rows(const prefill_budget *p, uint64_t decode_rows, uint64_t waiting,
                             uint32_t other_keys)
{
    if (decode_rows == 0)
        return p->alone_row_seconds > 0
                   ? (uint32_t)clamp(BUDGET_ALONE_SECONDS / p->alone_row_seconds,
                                     BUDGET_MIN_ROWS_ALONE, BUDGET_MAX_ROWS)
                   : BUDGET_MAX_ROWS / 4;
    const double alone = decode_only_seconds(p, decode_rows);
    if (!(alone > 0) || p->mixed_steps >= BUDGET_REMEASURE)
        return 0;
    const double spare = allowed_step_seconds(alone, decode_rows, waiting, other_keys) - alone;
    return (uint32_t)clamp(spare / prefill_row_seconds(p, alone), BUDGET_MIN_ROWS, BUDGET_MAX_ROWS);
}

size_t prefill_budget_shared(const prefill_budget *p, size_t rows)
{
    const double most = p->alone_row_seconds > 0 ? BUDGET_SHARED_SECONDS / p->alone_row_seconds
                                                 : BUDGET_MIN_ROWS_ALONE;
    return (size_t)clamp(most, rows < BUDGET_MIN_ROWS ? (double)rows : BUDGET_MIN_ROWS,
                         (double)rows);
}

void prefill_budget_observe(prefill_budget *p, uint64_t decode_rows, uint64_t prefill_rows,
                            double seconds)
{
    if (decode_rows == 0) {
        if (prefill_rows >= BUDGET_MIN_ROWS)
            p->alone_row_seconds =
                moving_average(p->alone_row_seconds, seconds / (double)prefill_rows);
        return;
    }
    if (prefill_rows == 0) {
        double *known = &p->decode_seconds[capped_decode_rows(decode_rows)];
        *known = moving_average(*known, seconds);
        p->mixed_steps = 0;
        return;
    }
    p->mixed_steps++;
    const double alone = decode_only_seconds(p, decode_rows);
    if (!(alone > 0) || prefill_rows < BUDGET_MIN_ROWS) /* too few rows: mostly noise */
        return;
    /* A disturbed step counts as 4 times the known cost at most, and as a quarter at least. */
    const double known = prefill_row_seconds(p, alone);
    const double now = (seconds - alone) / (double)prefill_rows;
    p->added_row_seconds = moving_average(known, clamp(now, known / 4, known * 4));
}

/* ---- the batch ---- */

static size_t tokens_left(const sched_job *job)
{
    return job->n - (size_t)mote_session_length(job->session);
}

static void batch_add(sched *s, sched_job *job, size_t n, mote_logits want)
{
    s->work_job[s->n_work] = job;
    s->items[s->n_work] = (spec_item){.session = job->session,
                                      .tokens = job->tokens,
                                      .n = job->n,
                                      .held = (size_t)mote_session_length(job->session),
                                      .mode = SPEC_OFF};
    s->work[s->n_work++] = (mote_work){.session = job->session,
                                       .tokens = job->tokens + mote_session_length(job->session),
                                       .n = n,
                                       .want = want,
                                       .images = job->options.images,
                                       .n_images = job->options.n_images,
                                       .sum = job->sum};
}

/* Fills s->prefilling, fewest remaining tokens first. Returns the number of jobs. */
static uint32_t sort_prefilling(sched *s)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_slots; i++) {
        sched_job *job = s->slots[i];
        if (job->state != JOB_PREFILL || (s->hold_background && job->key->background))
            continue;
        uint32_t at = n++;
        for (; at > 0 && tokens_left(s->prefilling[at - 1]) > tokens_left(job); at--)
            s->prefilling[at] = s->prefilling[at - 1];
        s->prefilling[at] = job;
    }
    return n;
}

/* Slots are in order of arrival. */
static const sched_job *oldest_prefilling(const sched *s, const sched_key *key)
{
    uint32_t i = 0;
    while (s->slots[i]->state != JOB_PREFILL || s->slots[i]->key != key)
        i++;
    return s->slots[i];
}

/* The next tokens of the job get scores. */
static bool is_scoring(const sched_job *job)
{
    return job->options.kind == SCHED_SCORE &&
           mote_session_length(job->session) + 1 >= job->options.score_from;
}

/* Tokens the job can take in this step: up to the next position where it has to stop. */
static size_t max_chunk(const sched *s, const sched_job *job, size_t score_rows)
{
    const size_t at = (size_t)mote_session_length(job->session);
    size_t end = prefix_states_limit(s, job);
    if (is_scoring(job))
        return end - at < score_rows ? end - at : score_rows;
    if (job->options.kind == SCHED_SCORE && job->options.score_from - 1 < end)
        end = job->options.score_from - 1;
    return end - at;
}

/* What the engine computes for the next n tokens of a prefilling job. */
static mote_logits wanted_output(const sched_job *job, size_t n)
{
    if (is_scoring(job))
        return MOTE_LOGITS_ALL;
    if (job->sum != NULL)
        return MOTE_HIDDEN_SUM;
    if (n < tokens_left(job))
        return MOTE_LOGITS_NONE;
    return job->options.kind == SCHED_EMBED ? MOTE_HIDDEN_LAST : MOTE_LOGITS_LAST;
}

/* Adds prefill chunks of one key: jobs with the fewest remaining tokens first, so that short
 * prompts do not wait for long ones. A quarter of the rows is reserved for the oldest job, so that
 * it makes progress. Returns the number of rows. */
static size_t batch_add_prefill_of(sched *s, const sched_key *key, uint32_t n_prefilling,
                                   size_t rows, size_t *score_rows)
{
    const sched_job *oldest = oldest_prefilling(s, key);
    const size_t all = rows;
    size_t reserved = rows / 4;
    if (reserved > max_chunk(s, oldest, *score_rows))
        reserved = max_chunk(s, oldest, *score_rows);
    for (uint32_t i = 0; i < n_prefilling; i++) {
        sched_job *job = s->prefilling[i];
        if (job->key != key)
            continue;
        const size_t available = job == oldest ? rows : rows - reserved;
        const size_t most = max_chunk(s, job, *score_rows);
        const size_t chunk = most < available ? most : available;
        if (job == oldest)
            reserved = 0;
        if (chunk == 0)
            continue;
        if (is_scoring(job))
            *score_rows -= chunk;
        batch_add(s, job, chunk, wanted_output(job, chunk));
        rows -= chunk;
        s->n_prefill_rows += chunk;
    }
    return all - rows;
}

/* Sets prefill_left of the active keys: the tokens that their prefilling jobs lack. Returns the
 * number of keys with such jobs. */
static uint32_t count_prefilling_keys(sched *s, uint32_t n_prefilling)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_active; i++)
        s->active[i]->prefill_left = 0;
    for (uint32_t i = 0; i < n_prefilling; i++) {
        sched_key *key = s->prefilling[i]->key;
        n += key->prefill_left == 0;
        key->prefill_left += tokens_left(s->prefilling[i]);
    }
    return n;
}

/* Keys with streams that a prefill delays: those that decode and have nothing to prefill. */
static uint32_t count_delayed_keys(const sched *s)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_active; i++)
        n += s->active[i]->decode_rows > 0 && s->active[i]->prefill_left == 0;
    return n;
}

/* A request that arrives takes background jobs out of the step, so their steps are short. */
static bool prefilling_is_background(const sched *s, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!s->prefilling[i]->key->background)
            return false;
    return true;
}

/* Divides the prefill budget equally between the keys. The key with the fewest tokens left is
 * first, and what it does not need goes to the others. */
static void batch_add_prefill(sched *s)
{
    const uint32_t n = sort_prefilling(s);
    size_t score_rows = SCHED_SCORE_ROWS;
    uint32_t keys = count_prefilling_keys(s, n);
    size_t rows = prefill_budget_rows(&s->budget, s->n_decode_rows, n, count_delayed_keys(s));
    if (s->other_engine_ran || (n > 0 && prefilling_is_background(s, n)))
        rows = prefill_budget_shared(&s->budget, rows);
    for (; keys > 0 && rows > 0; keys--) {
        sched_key *least = NULL;
        for (uint32_t i = 0; i < s->n_active; i++)
            if (s->active[i]->prefill_left > 0 &&
                (least == NULL || s->active[i]->prefill_left < least->prefill_left))
                least = s->active[i];
        least->prefill_left = 0;
        rows -= batch_add_prefill_of(s, least, n, (rows + keys - 1) / keys, &score_rows);
    }
}

void batch_build(sched *s)
{
    s->n_work = s->n_decode_rows = s->n_prefill_rows = 0;
    share_limit_decode(s);
    for (uint32_t i = 0; i < s->n_slots; i++) {
        sched_job *job = s->slots[i];
        if (job->state != JOB_DECODE || job->key->skip)
            continue;
        const size_t n = tokens_left(job);
        batch_add(s, job, n, MOTE_LOGITS_LAST);
        s->n_decode_rows += n;
        share_count_decode(job->key, n);
    }
    batch_add_prefill(s);
}
