/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job.c - a job as the loop thread sees it: create, submit, status, drop; and the mailbox, which
 * moves events from the engine thread to the loop thread.
 *
 * A job has three event buffers: the engine thread fills `new_events`; mailbox_post moves them to
 * `pending` under the mutex; sched_collect swaps `pending` with `delivery` and delivers from there.
 * STARTED and FINISHED are flags. They need no memory, so they are delivered even if events were
 * lost because memory ran out.
 */
#include "base/mem.h"
#include "base/os.h"
#include "sched/sched_int.h"

/* ---- events, engine thread ---- */

/* An event in a buffer. Its choice, name and text follow, padded to a multiple of 8 bytes. */
typedef struct event_record {
    chat_event event; /* its pointers are set on delivery */
    size_t bytes;     /* of the whole record */
} event_record;

static size_t padded_to_8(size_t bytes)
{
    return (bytes + 7) / 8 * 8;
}

/* The event function of the turn. */
static void mailbox_event(void *with, const chat_event *event)
{
    static const char zeros[8];
    sched_job *job = with;
    const size_t choice = event->choice != NULL ? padded_to_8(sizeof *event->choice) : 0;
    const size_t n = choice + event->name.n + event->text.n;
    const event_record head = {.event = *event, .bytes = padded_to_8(sizeof head + n)};
    strbuf *out = &job->new_events;
    if (job->aborted || !strbuf_reserve(out, head.bytes))
        return;
    strbuf_put(out, (str){(const char *)&head, sizeof head});
    if (choice > 0) {
        strbuf_put(out, (str){(const char *)event->choice, sizeof *event->choice});
        strbuf_put(out, (str){zeros, choice - sizeof *event->choice});
    }
    strbuf_put(out, event->name);
    strbuf_put(out, event->text);
    strbuf_put(out, (str){zeros, head.bytes - sizeof head - n});
}

void mailbox_post(sched *s, sched_job *job)
{
    job->events_lost |= job->new_events.failed;
    if (job->pending.n == 0) {
        const strbuf empty = job->pending;
        job->pending = job->new_events;
        job->new_events = empty;
    } else {
        strbuf_put(&job->pending, strbuf_view(&job->new_events));
        job->new_events.n = 0;
        job->events_lost |= job->pending.failed;
    }
    if (job->in_mailbox)
        return;
    job->in_mailbox = true;
    job->next_in_mailbox = NULL;
    *s->mailbox_end = job;
    s->mailbox_end = &job->next_in_mailbox;
}

/* ---- new jobs, any thread ---- */

static mote_status job_no_memory(mote_error *err)
{
    return err_set(err, MOTE_E_MEMORY, "out of memory for a request");
}

static mote_status job_check_prompt(const sched *s, const sched_job_options *options,
                                    mote_error *err)
{
    const chat_turn_options *o = &options->turn;
    if (o->n_prompt == 0)
        return err_set(err, MOTE_E_ARG, "the prompt is empty");
    if (o->n_prompt > s->options.context)
        return err_set(err, MOTE_E_FULL, "the prompt has %zu tokens; the context has %llu",
                       o->n_prompt, (unsigned long long)s->options.context);
    for (size_t i = 0; i < o->n_prompt; i++) {
        /* Negative ids are image tokens. The engine compares them with the images. */
        const mote_token token = o->prompt[i];
        if (token < 0 ? options->n_images == 0 : (uint32_t)token >= s->info.tokens)
            return err_set(err, MOTE_E_ARG, "token id must be 0 to %u, got %d", s->info.tokens - 1,
                           (int)token);
    }
    return MOTE_OK;
}

static mote_status job_init_answer(sched_job *job, mote_error *err)
{
    chat_turn_options turn = job->options.turn;
    const uint64_t most = job->s->options.context;
    if (turn.context == 0 || turn.context > most)
        turn.context = most;
    turn.event = mailbox_event;
    turn.with = job;
    return chat_turn_new(&job->turn, &turn, err);
}

static mote_status job_init_embed(sched_job *job, mote_error *err)
{
    const size_t n = job->s->info.embedding;
    job->embedding = mem_new(n, sizeof *job->embedding);
    if (job->options.mean)
        job->sum = mem_new(n, sizeof *job->sum);
    if (job->embedding == NULL || (job->options.mean && job->sum == NULL))
        return job_no_memory(err);
    return MOTE_OK;
}

static mote_status job_init_score(sched_job *job, mote_error *err)
{
    sched_job_options *o = &job->options;
    if (o->score_from == 0)
        o->score_from = 1;
    if (o->score_from >= o->turn.n_prompt)
        return err_set(err, MOTE_E_ARG,
                       "no token to score: the prompt has %zu tokens, the first "
                       "score is for token %zu",
                       o->turn.n_prompt, o->score_from);
    for (size_t i = o->score_from; i < o->turn.n_prompt; i++)
        if (o->turn.prompt[i] < 0)
            return err_set(err, MOTE_E_ARG, "scores of image tokens are not supported");
    job->scores = mem_new(o->turn.n_prompt - o->score_from, sizeof *job->scores);
    return job->scores != NULL ? MOTE_OK : job_no_memory(err);
}

static mote_status job_init(sched_job *job, mote_error *err)
{
    TRY(job_check_prompt(job->s, &job->options, err));
    switch (job->options.kind) {
    case SCHED_ANSWER: return job_init_answer(job, err);
    case SCHED_EMBED: return job_init_embed(job, err);
    case SCHED_SCORE: return job_init_score(job, err);
    }
    return err_set(err, MOTE_E_ARG, "invalid job kind %d", (int)job->options.kind);
}

static void job_free(sched_job *job)
{
    chat_turn_free(job->turn);
    spec_seq_free(job->seq);
    strbuf_fini(&job->new_events);
    strbuf_fini(&job->pending);
    strbuf_fini(&job->delivery);
    mem_free(job->embedding);
    mem_free(job->sum);
    mem_free(job->scores);
    mem_free(job);
}

mote_status sched_job_new(sched_job **out, sched *s, const sched_job_options *options,
                          mote_error *err)
{
    *out = NULL;
    sched_job *job = mem_new(1, sizeof *job);
    if (job == NULL)
        return job_no_memory(err);
    job->s = s;
    job->options = *options;
    job->n_prompt = options->turn.n_prompt;
    job->status.total = job->n_prompt;
    const mote_status status = job_init(job, err);
    if (status != MOTE_OK) {
        job_free(job);
        return status;
    }
    *out = job;
    return MOTE_OK;
}

void sched_job_discard(sched_job *job)
{
    if (job != NULL)
        job_free(job);
}

/* ---- submit and status, loop thread ---- */

mote_status sched_submit(sched *s, sched_job *job, mote_error *err)
{
    mote_status status = MOTE_OK;
    bool cancelled = false;
    pthread_mutex_lock(&s->lock);
    job->number = s->n_jobs + 1;
    job->submitted = os_now();
    if (!queue_put(s, job)) {
        s->stats.refused_full++;
        status = err_set(err, MOTE_E_FULL, "the queue is full: %u requests are waiting (--queue)",
                         s->n_queue);
    } else {
        s->n_jobs++;
        s->stats.jobs++;
        s->busy++;
        job->stage = JOB_QUEUED;
        if (!job->options.background)
            atomic_store(&s->any_foreground, true);
        cancelled = engine_unload_cancel(s);
        pthread_cond_signal(&s->work_ready);
    }
    pthread_mutex_unlock(&s->lock);
    engine_unload_cancelled(s, cancelled);
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
    *out = job->status;
    if (job->stage == JOB_QUEUED)
        out->position = queue_position(s, job);
    pthread_mutex_unlock(&s->lock);
}

uint32_t sched_busy(sched *s)
{
    pthread_mutex_lock(&s->lock);
    const uint32_t busy = s->busy;
    pthread_mutex_unlock(&s->lock);
    return busy;
}

/* ---- delivery and drop, loop thread ---- */

typedef struct receiver {
    sched_event_fn *fn;
    void *with;
} receiver;

static void deliver_event(const receiver *r, sched_job *job, const sched_event *event)
{
    if (!job->dropped) /* read without the mutex: only the loop thread writes it */
        r->fn(r->with, job, job->options.owner, event);
}

static void deliver_chat_events(const receiver *r, sched_job *job)
{
    for (size_t at = 0; at < job->delivery.n && !job->dropped;) {
        const char *from = job->delivery.p + at;
        event_record head;
        memcpy(&head, from, sizeof head);
        at += head.bytes;
        from += sizeof head;
        if (head.event.choice != NULL) {
            head.event.choice = (const mote_choice *)(const void *)from;
            from += padded_to_8(sizeof(mote_choice));
        }
        head.event.name.p = from;
        head.event.text.p = from + head.event.name.n;
        deliver_event(r, job, &(sched_event){.kind = SCHED_EVENT_CHAT, .chat = &head.event});
    }
    job->delivery.n = 0;
}

/* Moves the mailbox to the loop thread's list. */
static void mailbox_fetch(sched *s)
{
    pthread_mutex_lock(&s->lock);
    sched_job **end = &s->delivery;
    for (sched_job *job = s->mailbox; job != NULL; job = job->next_in_mailbox) {
        const strbuf empty = job->delivery;
        job->delivery = job->pending;
        job->pending = empty;
        job->delivery_started = job->pending_started;
        job->delivery_finished = job->pending_finished;
        job->pending_started = job->pending_finished = job->in_mailbox = false;
        job->in_delivery = true;
        *end = job;
        end = &job->next_in_delivery;
    }
    *end = NULL;
    s->mailbox = NULL;
    s->mailbox_end = &s->mailbox;
    pthread_mutex_unlock(&s->lock);
}

static void job_release(sched_job *job)
{
    void (*const release)(void *) = job->options.release;
    void *const owner = job->options.owner;
    job_free(job);
    if (release != NULL)
        release(owner);
}

void sched_collect(sched *s, sched_event_fn *fn, void *with)
{
    const receiver r = {fn, with};
    mailbox_fetch(s);
    while (s->delivery != NULL) {
        sched_job *job = s->delivery;
        if (job->delivery_started)
            deliver_event(&r, job, &(sched_event){.kind = SCHED_EVENT_STARTED});
        deliver_chat_events(&r, job);
        if (job->delivery_finished)
            deliver_event(&r, job,
                          &(sched_event){.kind = SCHED_EVENT_FINISHED, .result = &job->result});
        s->delivery = job->next_in_delivery;
        job->in_delivery = false;
        pthread_mutex_lock(&s->lock);
        const bool unused = job->dropped && job->stage == JOB_DONE && !job->in_mailbox;
        pthread_mutex_unlock(&s->lock);
        if (unused)
            job_release(job);
    }
}

void sched_drop(sched *s, sched_job *job)
{
    pthread_mutex_lock(&s->lock);
    job->dropped = true;
    if (job->stage == JOB_QUEUED) {
        queue_remove(s, job);
        job->stage = JOB_DONE;
        job->key->jobs--;
        s->stats.canceled_queued++;
        s->busy--;
    } else if (job->stage == JOB_RUNNING) {
        s->busy--;
        atomic_store(&s->any_dropped, true);
    }
    const bool unused = job->stage == JOB_DONE && !job->in_mailbox && !job->in_delivery;
    pthread_cond_signal(&s->work_ready);
    pthread_mutex_unlock(&s->lock);
    if (unused)
        job_release(job);
}
