/* SPDX-License-Identifier: Apache-2.0 */
/*
 * batch_draft.c - drafts in the batch of a step (speculative decoding). Engine thread only.
 *
 * After batch_build every decoding job may get draft tokens behind the tokens that it needs.
 * spec_plan decides for the whole batch. job_advance samples the rows and removes what was wrong.
 *
 * Drafts are optional work, so they never cost another job anything but a little time: there are
 * none while a job prefills, the rows of logits are limited, and service counts accepted tokens only.
 * A draft ends before the next multiple of SCHED_CHUNK. So it needs a KV page of its own only if the
 * tokens before it fill one. If few pages are free, such a draft is left out: drafts evict no
 * cached prefix and preempt no job.
 */
#include "base/os.h"
#include "sched/sched_int.h"

mote_status draft_init(sched *s, mote_error *err)
{
    return spec_new(&s->spec, &(spec_options){.max_items = s->options.parallel}, err);
}

void draft_use_engine(sched *s)
{
    spec_set_draft(s->spec, s->engine != NULL ? spec_draft_of(s->engine) : NULL, s->engine);
}

/* ---- limits of a job ---- */

/* The setting of the server, limited by that of the request. */
static int draft_mode(const sched *s, const sched_job *job)
{
    const int server = s->options.spec, own = job->options.turn.answer->spec;
    if (server == SPEC_OFF || own == SPEC_OFF)
        return SPEC_OFF;
    return own != SPEC_AUTO && own < server ? own : server;
}

/* Most draft tokens of the job: the free context, and what max_tokens leaves to sample after the
 * next token. 0 if a draft would take a page while few are free. */
static size_t draft_limit(const sched *s, const sched_job *job)
{
    const size_t context = (size_t)mote_session_context(job->session);
    const size_t answered = job->n - job->n_prompt;
    const mote_answer_options *answer = job->options.turn.answer;
    /* Each job may need a page for its next tokens and one for its draft. */
    const uint64_t plenty = UINT64_C(2) * SCHED_PAGE * s->options.parallel;
    if (job->n % SCHED_PAGE == 0 && mote_engine_positions_free(s->engine) < plenty)
        return 0;
    size_t limit = answer->spec > 0 ? (size_t)answer->spec : SPEC_MAX_DRAFT;
    if (limit > context - job->n)
        limit = context - job->n;
    if (answer->max_tokens > 0) {
        const size_t left =
            answer->max_tokens > answered + 1 ? answer->max_tokens - answered - 1 : 0;
        limit = left < limit ? left : limit;
    }
    return limit;
}

/* Creates the lookup of a job when it decodes for the first time, or again after a pause. Without
 * memory for it the job has no drafts. */
static spec_seq *draft_seq(sched_job *job)
{
    enum { USUAL_ANSWER = 4096 };
    mote_error err;
    const uint32_t most = job->options.turn.answer->max_tokens;
    const size_t context = (size_t)mote_session_context(job->session);
    size_t room = job->n_prompt + (most > 0 && most < USUAL_ANSWER ? most : USUAL_ANSWER);
    if (room > context)
        room = context;
    if (job->seq == NULL && !job->no_seq)
        job->no_seq = spec_seq_new(&job->seq, room, &err) != MOTE_OK;
    return job->seq;
}

/* ---- the batch ---- */

static bool draft_allowed(const sched_job *job)
{
    return job->turn != NULL && job->state == JOB_DECODE && job->result.prefilled > 0;
}

/* A job prefills in this step, or waits until the prefill budget has measured a step with decode rows
 * alone. Drafts would add rows to it, and the budget would never learn the time. */
static bool any_prefills(const sched *s)
{
    for (uint32_t i = 0; i < s->n_slots; i++)
        if (s->slots[i]->state == JOB_PREFILL)
            return true;
    return false;
}

/* Replaces the tokens of a work item by those of the plan. */
static void draft_set_work(sched *s, size_t i)
{
    const mote_work planned = spec_item_work(&s->items[i]);
    s->n_decode_rows += planned.n - s->work[i].n;
    s->work[i].tokens = planned.tokens;
    s->work[i].n = planned.n;
    s->work[i].want = planned.want;
}

void draft_plan(sched *s)
{
    mote_error err;
    s->planned = false;
    if (s->options.spec == SPEC_OFF || any_prefills(s) || s->n_work == 0)
        return;
    const double started = os_now();
    for (size_t i = 0; i < s->n_work; i++) {
        sched_job *job = s->work_job[i];
        if (!draft_allowed(job))
            continue;
        s->items[i].mode = draft_mode(s, job);
        s->items[i].limit = draft_limit(s, job);
        if (s->items[i].mode != SPEC_OFF)
            s->items[i].seq = draft_seq(job);
    }
    s->planned = true;
    if (spec_plan(s->spec, s->items, s->n_work, s->n_work + SCHED_DRAFT_ROWS, &err) == MOTE_OK)
        for (size_t i = 0; i < s->n_work; i++)
            if (s->items[i].n_draft > 0)
                draft_set_work(s, i);
    s->plan_seconds = os_now() - started;
}

void draft_forget(sched_job *job)
{
    spec_seq_free(job->seq);
    job->seq = NULL;
}

void draft_leave(sched *s, size_t i)
{
    s->items[i].left = true;
    s->items[i].seq = NULL; /* it may be freed before the end of the step */
}

void draft_observe(sched *s, double step_seconds)
{
    if (s->planned)
        spec_observe(s->spec, s->items, s->n_work, s->plan_seconds, step_seconds);
    s->planned = false;
}
