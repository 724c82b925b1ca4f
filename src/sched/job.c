/* SPDX-License-Identifier: Apache-2.0 */
/* job.c - jobs as the loop sees them: made, submitted, asked about. */
#include "base/mem.h"
#include "base/os.h"
#include "sched/sched_int.h"

static mote_status no_memory(mote_error *err)
{
    return err_set(err, MOTE_E_MEMORY, "no memory for a request");
}

/* Tokens below 0 are those of pictures; the engine compares them with the pictures' own. */
static bool has_meaning(const sched *s, const sched_job_options *o, mote_token token)
{
    return token < 0 ? o->n_images > 0 : (uint32_t)token < s->info.tokens;
}

static mote_status check_prompt(const sched *s, const sched_job_options *options, mote_error *err)
{
    const chat_turn_options *o = &options->turn;
    if (o->n_prompt == 0)
        return err_set(err, MOTE_E_ARG, "the prompt is empty");
    if (o->n_prompt > s->options.context)
        return err_set(err, MOTE_E_FULL, "%zu tokens do not fit a context of %llu", o->n_prompt,
                       (unsigned long long)s->options.context);
    for (size_t i = 0; i < o->n_prompt; i++)
        if (!has_meaning(s, options, o->prompt[i]))
            return err_set(err, MOTE_E_ARG, "token %d has no meaning", (int)o->prompt[i]);
    return MOTE_OK;
}

static mote_status set_up_answer(sched_job *job, mote_error *err)
{
    chat_turn_options turn = job->options.turn;
    const uint64_t most = job->s->options.context;
    if (turn.context == 0 || turn.context > most)
        turn.context = most;
    turn.event = mailbox_event;
    turn.with = job;
    return chat_turn_new(&job->turn, &turn, err);
}

static mote_status set_up_embed(sched_job *job, mote_error *err)
{
    const size_t n = job->s->info.embedding;
    job->embedding = mem_new(n, sizeof *job->embedding);
    if (job->options.mean)
        job->sum = mem_new(n, sizeof *job->sum);
    return job->embedding != NULL && (job->sum != NULL || !job->options.mean) ? MOTE_OK
                                                                              : no_memory(err);
}

/* What is known of the last token is not needed, so it is not read. */
static mote_status set_up_score(sched_job *job, mote_error *err)
{
    sched_job_options *o = &job->options;
    if (o->score_from == 0)
        o->score_from = 1;
    if (o->score_from >= o->turn.n_prompt)
        return err_set(err, MOTE_E_ARG, "there is no token to score after %zu", o->score_from);
    for (size_t i = o->score_from; i < o->turn.n_prompt; i++)
        if (o->turn.prompt[i] < 0)
            return err_set(err, MOTE_E_ARG, "a picture has no probability");
    job->scores = mem_new(o->turn.n_prompt - o->score_from, sizeof *job->scores);
    return job->scores != NULL ? MOTE_OK : no_memory(err);
}

static mote_status set_up(sched_job *job, mote_error *err)
{
    TRY(check_prompt(job->s, &job->options, err));
    switch (job->options.kind) {
    case SCHED_ANSWER: return set_up_answer(job, err);
    case SCHED_EMBED: return set_up_embed(job, err);
    case SCHED_SCORE: return set_up_score(job, err);
    }
    return err_set(err, MOTE_E_ARG, "%d is no kind of job", (int)job->options.kind);
}

mote_status sched_job_new(sched_job **out, sched *s, const sched_job_options *options,
                          mote_error *err)
{
    *out = NULL;
    sched_job *job = mem_new(1, sizeof *job);
    if (job == NULL)
        return no_memory(err);
    job->s = s;
    job->options = *options;
    job->n_prompt = options->turn.n_prompt;
    job->where.total = job->n_prompt;
    const mote_status status = set_up(job, err);
    if (status != MOTE_OK) {
        job_free(job);
        return status;
    }
    *out = job;
    return MOTE_OK;
}

void job_free(sched_job *job)
{
    chat_turn_free(job->turn);
    strbuf_fini(&job->fresh);
    strbuf_fini(&job->news);
    strbuf_fini(&job->read);
    mem_free(job->embedding);
    mem_free(job->sum);
    mem_free(job->scores);
    mem_free(job);
}

void sched_job_discard(sched_job *job)
{
    if (job != NULL)
        job_free(job);
}

mote_status sched_submit(sched *s, sched_job *job, mote_error *err)
{
    mote_status status = MOTE_OK;
    pthread_mutex_lock(&s->lock);
    job->number = s->n_jobs + 1;
    job->submitted = os_now();
    if (s->draining) {
        status = err_set(err, MOTE_E_CANCELED, "the service is going down");
    } else if (!queue_put(s, job)) {
        s->stats.refused_full++;
        status = err_set(err, MOTE_E_FULL, "%u requests are waiting already", s->n_queue);
    } else {
        s->n_jobs++;
        s->stats.jobs++;
        s->busy++;
        job->place = JOB_QUEUED;
        engine_reload_request(s);
        pthread_cond_signal(&s->work_is);
    }
    pthread_mutex_unlock(&s->lock);
    return status;
}

void sched_end_thinking(sched *s, sched_job *job)
{
    pthread_mutex_lock(&s->lock);
    job->end_thinking = true;
    pthread_mutex_unlock(&s->lock);
}

void sched_job_get_status(sched *s, const sched_job *job, sched_job_status *out)
{
    pthread_mutex_lock(&s->lock);
    *out = job->where;
    if (job->place == JOB_QUEUED)
        out->position = queue_position(s, job);
    pthread_mutex_unlock(&s->lock);
}

void sched_drain(sched *s)
{
    pthread_mutex_lock(&s->lock);
    s->draining = true;
    pthread_mutex_unlock(&s->lock);
}

uint32_t sched_busy(sched *s)
{
    pthread_mutex_lock(&s->lock);
    const uint32_t busy = s->busy;
    pthread_mutex_unlock(&s->lock);
    return busy;
}
