/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job_advance.c - what happens to a job after a step, how it ends, and the stats. Engine thread.
 *
 * After a step the turn of a job samples the next token, or scores and embeddings are read. The
 * only failure here is missing memory. It ends one job, with the error as its result.
 *
 * Stats are counted in s->stats_delta without the mutex and merged under it after the step.
 */
#include "base/os.h"
#include "sched/sched_int.h"

#include <math.h>

/* ---- stats ---- */

static void histogram_add(sched_histogram *h, double seconds)
{
    unsigned bucket = 0;
    for (double most = SCHED_BUCKET_FIRST; seconds > most && bucket + 1 < SCHED_BUCKETS; most *= 2)
        bucket++;
    h->count[bucket]++;
    h->n++;
    h->sum += seconds;
}

static void stats_add_job(sched_stats *d, const sched_job *job)
{
    const sched_result *r = &job->result;
    const mote_answer *a = &r->answer;
    d->finished++;
    d->prompt_tokens += job->n_prompt;
    histogram_add(&d->request_seconds, r->ended);
    if (r->started > 0)
        histogram_add(&d->queue_seconds, r->started);
    if (r->prefilled > 0)
        histogram_add(&d->prefill_seconds, r->prefilled - r->started);
    if (r->first_token > 0)
        histogram_add(&d->first_token_seconds, r->first_token);
    d->generated_tokens += a->answer_tokens;
    d->think_tokens += a->think_tokens;
    d->loops_detected += a->loops_detected;
    d->loops_recovered += a->loops_recovered;
    d->calls += a->calls;
}

static void histogram_merge(sched_histogram *into, const sched_histogram *h)
{
    for (unsigned i = 0; i < SCHED_BUCKETS; i++)
        into->count[i] += h->count[i];
    into->n += h->n;
    into->sum += h->sum;
}

void stats_merge(sched_stats *into, sched_stats *delta)
{
    into->finished += delta->finished;
    into->canceled_prefill += delta->canceled_prefill;
    into->canceled_decode += delta->canceled_decode;
    into->prompt_tokens += delta->prompt_tokens;
    into->reused_live_tokens += delta->reused_live_tokens;
    into->reused_idle_tokens += delta->reused_idle_tokens;
    into->reused_disk_tokens += delta->reused_disk_tokens;
    for (unsigned i = 0; i < SCHED_REUSE_KINDS; i++)
        into->started[i] += delta->started[i];
    into->prefill_tokens += delta->prefill_tokens;
    into->generated_tokens += delta->generated_tokens;
    into->think_tokens += delta->think_tokens;
    into->loops_detected += delta->loops_detected;
    into->loops_recovered += delta->loops_recovered;
    into->calls += delta->calls;
    into->preempted += delta->preempted;
    into->paused += delta->paused;
    into->steps += delta->steps;
    into->step_rows += delta->step_rows;
    into->prefill_rows += delta->prefill_rows;
    into->step_seconds += delta->step_seconds;
    into->aborted_inside += delta->aborted_inside;
    if (delta->finished > 0) {
        histogram_merge(&into->queue_seconds, &delta->queue_seconds);
        histogram_merge(&into->prefill_seconds, &delta->prefill_seconds);
        histogram_merge(&into->first_token_seconds, &delta->first_token_seconds);
        histogram_merge(&into->request_seconds, &delta->request_seconds);
    }
    histogram_merge(&into->inter_token_seconds, &delta->inter_token_seconds);
    *delta = (sched_stats){0};
}

void sched_read_stats(sched *s, sched_stats *out)
{
    pthread_mutex_lock(&s->lock);
    *out = s->stats;
    out->queued = s->n_queue;
    out->parallel = s->options.parallel;
    out->positions_total = s->usage.positions_total;
    out->positions_free = s->usage.positions_free;
    out->states_total = s->usage.kept_states_total;
    out->states_used = s->usage.kept_states;
    pthread_mutex_unlock(&s->lock);
}

/* ---- the end of a job ---- */

/* Gives the session to the prefix cache and frees the slot. */
static void job_leave_slot(sched *s, sched_job *job)
{
    uint32_t i = 0;
    if (job->aborted) {
        const bool decodes = job->turn != NULL && job->n > 0 && job->result.prefilled > 0;
        s->stats_delta.canceled_decode += decodes;
        s->stats_delta.canceled_prefill += !decodes;
    }
    prefix_cache_end(s, job);
    while (s->slots[i] != job)
        i++;
    s->n_slots--;
    memmove(s->slots + i, s->slots + i + 1, (s->n_slots - i) * sizeof *s->slots);
    s->finished[s->n_finished++] = job;
    s->n_ended++;
}

/* Prompt tokens in the session, reused ones included. It never holds more than the prompt before
 * prefill is complete. */
static uint64_t job_prompt_tokens_held(const sched_job *job)
{
    if (job->result.prefilled > 0)
        return job->n_prompt;
    return job->session != NULL ? mote_session_length(job->session) : 0;
}

/* A time limit may have ended the job during prefill or in the queue. */
static void job_fill_answer(sched_job *job)
{
    sched_result *r = &job->result;
    const mote_answer counted = r->answer;
    const uint64_t reused = counted.reused_tokens, held = job_prompt_tokens_held(job);
    const double prefill_end = r->prefilled > 0 ? r->prefilled : r->ended;
    r->answer = *chat_turn_result(job->turn);
    r->answer.reused_tokens = reused;
    r->answer.drafted_tokens = counted.drafted_tokens;
    r->answer.accepted_tokens = counted.accepted_tokens;
    r->answer.prefilled_tokens = held > reused ? held - reused : 0;
    r->answer.seconds_prefill = r->started > 0 ? prefill_end - r->started : 0;
    r->answer.seconds_decode = r->prefilled > 0 ? r->ended - r->prefilled : 0;
    r->tokens = chat_turn_tokens(job->turn, &r->n_tokens, &r->open_thinking);
    r->end = chat_turn_end_token(job->turn);
}

/* Seconds of the last reload since the job was submitted. */
static double job_load_wait(const sched *s, const sched_job *job)
{
    const double from = job->submitted > s->load_started ? job->submitted : s->load_started;
    return s->load_ended > from ? s->load_ended - from : 0;
}

void job_finish(sched *s, sched_job *job, mote_status status, const mote_error *err)
{
    sched_result *r = &job->result;
    r->status = status;
    if (status != MOTE_OK)
        r->error = *err;
    else if (job->events_lost || job->new_events.failed)
        r->status = err_set(&r->error, MOTE_E_MEMORY, "out of memory for the events of an answer");
    r->ended = os_now() - job->submitted;
    r->load_wait = job_load_wait(s, job);
    if (job->turn != NULL) {
        job_fill_answer(job);
    } else {
        r->tokens = job->options.turn.prompt;
        r->n_tokens = job->n_prompt;
        r->embedding = job->embedding;
        r->n_embedding = job->embedding != NULL ? s->info.embedding : 0;
        r->scores = job->scores;
        r->n_scores = job->n_scored;
    }
    stats_add_job(&s->stats_delta, job);
    job_leave_slot(s, job);
}

/* The time limit is over: an answer ends with finish reason "length", other jobs fail. */
static void job_time_out(sched *s, sched_job *job)
{
    mote_error err;
    if (job->turn != NULL) {
        const mote_status status = chat_turn_stop(job->turn, MOTE_FINISH_LENGTH, &err);
        job_finish(s, job, status, &err);
        return;
    }
    err_set(&err, MOTE_E_CANCELED, "time limit of %g seconds exceeded", job->options.seconds);
    job_finish(s, job, MOTE_E_CANCELED, &err);
}

/* ---- turns ---- */

/* Sets the tokens that the session has to hold first. */
static void job_first_tokens(sched *s, sched_job *job)
{
    mote_error err;
    chat_turn_want want = {.tokens = job->options.turn.prompt, .n = job->n_prompt};
    if (job->options.kind == SCHED_SCORE)
        want.n--; /* logits after the last token are not needed */
    if (job->turn != NULL) {
        const mote_status status = chat_turn_next(job->turn, NULL, 0, &want, &err);
        if (status != MOTE_OK) {
            job_finish(s, job, status, &err);
            return;
        }
    }
    job->tokens = want.tokens;
    job->n = want.n;
    job->has_tokens = true;
}

static void job_count_token(sched *s, sched_job *job)
{
    sched_result *r = &job->result;
    const double now = os_now();
    if (r->first_token == 0)
        r->first_token = now - job->submitted;
    else
        histogram_add(&s->stats_delta.inter_token_seconds, now - job->last_token);
    job->last_token = now;
}

/* The rows of the step are used up. Counts the accepted draft tokens. */
static void job_end_walk(sched_job *job, const spec_walk *walk, spec_item *item)
{
    spec_walk_result(walk, item);
    if (item->n_draft == 0)
        return;
    job->result.answer.drafted_tokens += item->n_draft;
    job->result.answer.accepted_tokens += item->accepted;
    share_charge(job, item->n, item->n + item->accepted);
    share_count_decode(job->key, item->accepted);
}

static void job_set_state(sched_job *job)
{
    const uint64_t missing = job->n - mote_session_length(job->session);
    job->state = missing <= SCHED_MAX_DECODE_TOKENS ? JOB_DECODE : JOB_PREFILL;
}

/* Samples with the turn, row by row, until it needs tokens that the session does not hold. The turn
 * may replace tokens it has sampled; the session is rewound then, and after a draft that it does
 * not want. */
static void job_next_tokens(sched *s, sched_job *job, spec_item *item)
{
    mote_error err;
    chat_turn_want want = {.tokens = job->tokens, .n = job->n, .same = job->n};
    spec_walk walk;
    const size_t rows = spec_item_computed(item);
    if (rows == 0) {
        item->left = true;
        job_set_state(job);
        return;
    }
    size_t row = spec_walk_begin(&walk, job->session, job->n, rows);
    for (bool more = true; more;) {
        const size_t sampled = row;
        const mote_status status = chat_turn_next(job->turn, job->session, row, &want, &err);
        if (status != MOTE_OK || want.over) {
            job_count_token(s, job);
            spec_walk_end(&walk, job->session, want.tokens, want.n, want.same);
            job_end_walk(job, &walk, item);
            job_finish(s, job, status, &err);
            return;
        }
        job->tokens = want.tokens;
        job->n = want.n;
        more = spec_walk_next(&walk, job->session, want.tokens, want.n, want.same, &row);
        if (!more || row > sampled)
            job_count_token(s, job);
    }
    job_end_walk(job, &walk, item);
    if (job->new_events.failed) {
        job_finish(s, job, MOTE_OK, NULL);
        return;
    }
    job_set_state(job);
}

/* ---- scores and embeddings ---- */

/* Log-probability of token `at`: samples with a mask that allows only this token. */
static mote_status score_row(sched *s, sched_job *job, size_t row, size_t at, mote_error *err)
{
    const mote_token token = job->options.turn.prompt[at];
    const mote_answer_options *a = job->options.turn.answer;
    const mote_sampling how = {.allowed = s->token_mask,
                               .top_logprobs = a != NULL ? a->sampling.top_logprobs : 0};
    s->token_mask[token / 32] = UINT32_C(1) << token % 32;
    const mote_status status =
        mote_sample(job->session, row, &how, &job->scores[at - job->options.score_from], err);
    s->token_mask[token / 32] = 0;
    return status;
}

static mote_status job_score(sched *s, sched_job *job, size_t begin, mote_error *err)
{
    const size_t end = (size_t)mote_session_length(job->session);
    if (end <= begin) /* the step was canceled */
        return MOTE_OK;
    for (size_t at = begin; at < end; at++)
        TRY(score_row(s, job, at - begin, at + 1, err));
    job->n_scored = end + 1 - job->options.score_from; /* a preempted job scores them again */
    return MOTE_OK;
}

static void job_read_embedding(sched *s, sched_job *job)
{
    const size_t n = s->info.embedding;
    if (job->sum == NULL) {
        memcpy(job->embedding, mote_session_hidden(job->session, NULL), n * sizeof *job->embedding);
        return;
    }
    for (size_t i = 0; i < n; i++)
        job->embedding[i] = (float)(job->sum[i] / (double)job->n);
}

/* ---- between steps ---- */

void job_advance(sched *s, sched_job *job, size_t item)
{
    mote_error err;
    mote_status status = MOTE_OK;
    const size_t length = (size_t)mote_session_length(job->session);
    const bool complete = length >= job->n;
    share_charge(job, s->items[item].held, complete ? job->n : length);
    if (!complete) /* prefill, or a canceled step: no row was sampled */
        draft_leave(s, item);
    if (job->state == JOB_PREFILL)
        prefix_states_keep(s, job);
    if (s->work[item].want == MOTE_LOGITS_ALL && job->options.kind == SCHED_SCORE)
        status = job_score(s, job, s->items[item].held, &err);
    if (complete && job->result.prefilled == 0) {
        job->result.prefilled = os_now() - job->submitted;
        if (job->turn != NULL)
            prompt_end_note(s, job);
    }
    if (status != MOTE_OK) {
        job_finish(s, job, status, &err);
    } else if (complete && job->turn != NULL) {
        job_next_tokens(s, job, &s->items[item]);
    } else if (complete) {
        if (job->options.kind == SCHED_EMBED)
            job_read_embedding(s, job);
        job_finish(s, job, MOTE_OK, &err);
    }
}

void job_advance_full(sched *s, sched_job *job)
{
    spec_item item = {.session = job->session,
                      .tokens = job->tokens,
                      .n = job->n,
                      .held = job->n - 1,
                      .mode = SPEC_OFF};
    job->result.prefilled = os_now() - job->submitted;
    prompt_end_note(s, job);
    job_next_tokens(s, job, &item);
}

double job_deadline(const sched_job *job)
{
    const double seconds = job->options.seconds;
    return seconds > 0 ? job->submitted + seconds : (double)INFINITY;
}

bool job_must_stop(const sched_job *job)
{
    return job->aborted || os_now() >= job_deadline(job);
}

void job_boundary(sched *s, sched_job *job)
{
    if (job->aborted)
        job_leave_slot(s, job);
    else if (job->events_lost || job->new_events.failed)
        job_finish(s, job, MOTE_OK, NULL); /* sets MOTE_E_MEMORY */
    else if (job_must_stop(job))
        job_time_out(s, job);
    else if (!job->has_tokens)
        job_first_tokens(s, job);
}
