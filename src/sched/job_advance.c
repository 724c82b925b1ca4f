/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job_advance.c - jobs after a step: turns go on, scores and embeddings are taken, ends are
 * made. Engine thread.
 *
 * What can fail here is memory, and it fails one job: its error is its result.
 */
#include "base/os.h"
#include "sched/sched_int.h"

#include <math.h>

/* ---- ends ---- */

static double since_submitted(const sched_job *job)
{
    return os_now() - job->submitted;
}

static void leave(sched *s, sched_job *job)
{
    uint32_t i = 0;
    if (job->leaving) {
        const bool writes = job->turn != NULL && job->n > 0 && job->result.prefilled > 0;
        s->since.canceled_decode += writes;
        s->since.canceled_prefill += !writes;
    }
    prefix_cache_end(s, job);
    while (s->slots[i] != job)
        i++;
    s->n_slots--;
    memmove(s->slots + i, s->slots + i + 1, (s->n_slots - i) * sizeof *s->slots);
    s->finished[s->n_finished++] = job;
    s->n_left++;
}

static void fill_answer(sched_job *job)
{
    sched_result *r = &job->result;
    const uint64_t reused = r->answer.reused_tokens;
    r->answer = *chat_turn_result(job->turn);
    r->answer.reused_tokens = reused;
    r->answer.seconds_prefill = r->prefilled > 0 ? r->prefilled - r->started : 0;
    r->answer.seconds_decode = r->prefilled > 0 ? r->ended - r->prefilled : 0;
    r->tokens = chat_turn_tokens(job->turn, &r->n_tokens, &r->open_thinking);
}

void job_finish(sched *s, sched_job *job, mote_status status, const mote_error *err)
{
    sched_result *r = &job->result;
    r->status = status;
    if (status != MOTE_OK)
        r->error = *err;
    else if (job->lost || job->fresh.failed)
        r->status = err_set(&r->error, MOTE_E_MEMORY, "no memory for what the answer says");
    r->ended = since_submitted(job);
    r->load_wait = engine_reload_waited(s, job);
    if (job->turn != NULL) {
        fill_answer(job);
    } else {
        r->tokens = job->options.turn.prompt;
        r->n_tokens = job->n_prompt;
        r->embedding = job->embedding;
        r->n_embedding = job->embedding != NULL ? s->info.embedding : 0;
        r->scores = job->scores;
        r->n_scores = job->n_scored;
    }
    job->finished = true;
    stats_over(s, job);
    leave(s, job);
}

static void deadline(sched *s, sched_job *job)
{
    mote_error err;
    if (job->turn != NULL) {
        const mote_status status = chat_turn_stop(job->turn, MOTE_FINISH_LENGTH, &err);
        job_finish(s, job, status, &err);
        return;
    }
    err_set(&err, MOTE_E_CANCELED, "%g seconds have passed", job->options.seconds);
    job_finish(s, job, MOTE_E_CANCELED, &err);
}

/* ---- turns ---- */

static void first(sched *s, sched_job *job)
{
    mote_error err;
    chat_turn_want want = {.tokens = job->options.turn.prompt, .n = job->n_prompt};
    if (job->options.kind == SCHED_SCORE)
        want.n--;
    if (job->turn != NULL) {
        const mote_status status = chat_turn_next(job->turn, NULL, &want, &err);
        if (status != MOTE_OK) {
            job_finish(s, job, status, &err);
            return;
        }
    }
    job->tokens = want.tokens;
    job->n = want.n;
    job->wants = true;
}

static void note_token(sched *s, sched_job *job)
{
    sched_result *r = &job->result;
    const double now = os_now();
    if (r->first_token == 0)
        r->first_token = now - job->submitted;
    else
        stats_time(&s->since.inter_token_seconds, now - job->last_token);
    job->last_token = now;
}

/* Going back loses the logits, so one token at least is read again then. */
static void go_back(const sched_job *job, const chat_turn_want *want)
{
    if (mote_session_length(job->session) > want->same)
        mote_session_rewind(job->session, want->same < want->n ? want->same : want->n - 1);
}

/* The session holds what the turn wanted. */
static void go_on(sched *s, sched_job *job)
{
    mote_error err;
    chat_turn_want want;
    do {
        const mote_status status = chat_turn_next(job->turn, job->session, &want, &err);
        if (status != MOTE_OK || want.over) {
            note_token(s, job);
            job_finish(s, job, status, &err);
            return;
        }
        job->tokens = want.tokens;
        job->n = want.n;
        go_back(job, &want);
    } while (mote_session_length(job->session) == job->n);
    note_token(s, job);
    if (job->fresh.failed) {
        job_finish(s, job, MOTE_OK, NULL);
        return;
    }
    job->state =
        job->n - mote_session_length(job->session) <= SCHED_LIGHT ? JOB_DECODE : JOB_PREFILL;
}

/* ---- scores and embeddings ---- */

/* The log-probability of a given token: it is the only one that may be chosen. */
static mote_status score_row(sched *s, sched_job *job, size_t row, size_t at, mote_error *err)
{
    const mote_token token = job->options.turn.prompt[at];
    const mote_answer_options *a = job->options.turn.answer;
    const mote_sampling how = {.allowed = s->one_token,
                               .top_logprobs = a != NULL ? a->sampling.top_logprobs : 0};
    s->one_token[token / 32] = UINT32_C(1) << token % 32;
    const mote_status status =
        mote_sample(job->session, row, &how, &job->scores[at - job->options.score_from], err);
    s->one_token[token / 32] = 0;
    return status;
}

static mote_status score(sched *s, sched_job *job, const mote_work *work, mote_error *err)
{
    const size_t begin = (size_t)(work->tokens - job->tokens);
    const size_t end = (size_t)mote_session_length(job->session);
    if (end <= begin) /* the step was canceled */
        return MOTE_OK;
    for (size_t at = begin; at < end; at++)
        TRY(score_row(s, job, at - begin, at + 1, err));
    job->n_scored += end - begin;
    return MOTE_OK;
}

static void take_embedding(sched *s, sched_job *job)
{
    const size_t n = s->info.embedding;
    if (job->sum == NULL) {
        memcpy(job->embedding, mote_session_hidden(job->session, NULL), n * sizeof *job->embedding);
        return;
    }
    for (size_t i = 0; i < n; i++)
        job->embedding[i] = (float)(job->sum[i] / (double)job->n);
}

void job_advance(sched *s, sched_job *job, const mote_work *work)
{
    mote_error err;
    mote_status status = MOTE_OK;
    if (job->state == JOB_PREFILL)
        prefix_cache_keep(s, job);
    if (work->want == MOTE_LOGITS_ALL)
        status = score(s, job, work, &err);
    const bool whole = mote_session_length(job->session) == job->n;
    if (whole && job->result.prefilled == 0)
        job->result.prefilled = since_submitted(job);
    if (status != MOTE_OK) {
        job_finish(s, job, status, &err);
    } else if (whole && job->turn != NULL) {
        go_on(s, job);
    } else if (whole) {
        if (job->options.kind == SCHED_EMBED)
            take_embedding(s, job);
        job_finish(s, job, MOTE_OK, &err);
    }
}

double job_deadline(const sched_job *job)
{
    const double seconds = job->options.seconds;
    return seconds > 0 ? job->submitted + seconds : (double)INFINITY;
}

bool job_must_stop(const sched_job *job)
{
    return job->leaving || os_now() >= job_deadline(job);
}

void job_boundary(sched *s, sched_job *job)
{
    if (job->leaving)
        leave(s, job);
    else if (job->lost || job->fresh.failed)
        job_finish(s, job, MOTE_OK, NULL); /* which it is not */
    else if (job_must_stop(job))
        deadline(s, job);
    else if (!job->wants)
        first(s, job);
}
