/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job_mailbox.c - events on their way from the engine thread to the loop.
 *
 * A job has three buffers that take turns: `fresh` is filled while its turn runs, `news`
 * waits under the lock, `read` is being delivered. STARTED and OVER are flags, so they need no
 * memory and come whatever happened to the rest.
 */
#include "sched/sched_int.h"

/* An event in a buffer; its choice, name and text follow, then blanks up to a multiple of 8. */
typedef struct record {
    chat_event event; /* its views and its choice are set when it is delivered */
    size_t bytes;     /* of the whole record */
} record;

static size_t padded(size_t bytes)
{
    return (bytes + 7) / 8 * 8;
}

/* On the engine thread, from inside the turn. */
void mailbox_event(void *with, const chat_event *event)
{
    static const char blanks[8];
    sched_job *job = with;
    const size_t choice = event->choice != NULL ? padded(sizeof *event->choice) : 0;
    const size_t n = choice + event->name.n + event->text.n;
    const record head = {.event = *event, .bytes = padded(sizeof head + n)};
    strbuf *out = &job->fresh;
    if (job->leaving || !strbuf_reserve(out, head.bytes))
        return;
    strbuf_put(out, (str){(const char *)&head, sizeof head});
    if (choice > 0) {
        strbuf_put(out, (str){(const char *)event->choice, sizeof *event->choice});
        strbuf_put(out, (str){blanks, choice - sizeof *event->choice});
    }
    strbuf_put(out, event->name);
    strbuf_put(out, event->text);
    strbuf_put(out, (str){blanks, head.bytes - sizeof head - n});
}

void mailbox_post(sched *s, sched_job *job)
{
    job->lost |= job->fresh.failed;
    if (job->news.n == 0) {
        const strbuf empty = job->news;
        job->news = job->fresh;
        job->fresh = empty;
    } else {
        strbuf_put(&job->news, strbuf_view(&job->fresh));
        job->fresh.n = 0;
        job->lost |= job->news.failed;
    }
    if (job->ready)
        return;
    job->ready = true;
    job->next_ready = NULL;
    *s->ready_end = job;
    s->ready_end = &job->next_ready;
}

/* ---- loop thread ---- */

typedef struct delivery {
    sched *s;
    sched_event_fn *fn;
    void *with;
} delivery;

static void tell(const delivery *d, sched_job *job, const sched_event *event)
{
    if (!job->dropped) /* the loop alone writes this */
        d->fn(d->with, job, job->options.owner, event);
}

static void deliver_chat(const delivery *d, sched_job *job)
{
    for (size_t at = 0; at < job->read.n && !job->dropped;) {
        const char *from = job->read.p + at;
        record head;
        memcpy(&head, from, sizeof head);
        at += head.bytes;
        from += sizeof head;
        if (head.event.choice != NULL) {
            head.event.choice = (const mote_choice *)(const void *)from;
            from += padded(sizeof(mote_choice));
        }
        head.event.name.p = from;
        head.event.text.p = from + head.event.name.n;
        tell(d, job, &(sched_event){.kind = SCHED_EVENT_CHAT, .chat = &head.event});
    }
    job->read.n = 0;
}

static void deliver(const delivery *d, sched_job *job)
{
    if (job->read_started)
        tell(d, job, &(sched_event){.kind = SCHED_EVENT_STARTED});
    deliver_chat(d, job);
    if (job->read_over)
        tell(d, job, &(sched_event){.kind = SCHED_EVENT_FINISHED, .result = &job->result});
}

/* Moves what waits from the mailbox to the loop's own list. */
static void fetch(sched *s)
{
    pthread_mutex_lock(&s->lock);
    sched_job **end = &s->batch;
    for (sched_job *job = s->ready; job != NULL; job = job->next_ready) {
        const strbuf empty = job->read;
        job->read = job->news;
        job->news = empty;
        job->read_started = job->news_started;
        job->read_over = job->news_over;
        job->news_started = job->news_over = job->ready = false;
        job->in_batch = true;
        *end = job;
        end = &job->next_batch;
    }
    *end = NULL;
    s->ready = NULL;
    s->ready_end = &s->ready;
    pthread_mutex_unlock(&s->lock);
}

/* Dropped, and nobody holds it any more. */
static bool is_free(sched *s, const sched_job *job)
{
    pthread_mutex_lock(&s->lock);
    const bool yes = job->dropped && job->place == JOB_DONE && !job->ready;
    pthread_mutex_unlock(&s->lock);
    return yes;
}

static void release(sched_job *job)
{
    void (*const let_go)(void *) = job->options.release;
    void *const owner = job->options.owner;
    job_free(job);
    if (let_go != NULL)
        let_go(owner);
}

void sched_collect(sched *s, sched_event_fn *fn, void *with)
{
    const delivery d = {s, fn, with};
    fetch(s);
    while (s->batch != NULL) {
        sched_job *job = s->batch;
        deliver(&d, job);
        s->batch = job->next_batch;
        job->in_batch = false;
        if (is_free(s, job))
            release(job);
    }
}

void sched_drop(sched *s, sched_job *job)
{
    pthread_mutex_lock(&s->lock);
    job->dropped = true;
    if (job->place == JOB_QUEUED) {
        queue_remove(s, job);
        job->place = JOB_DONE;
        s->stats.canceled_queued++;
        s->busy--;
    } else if (job->place == JOB_RUNNING) {
        s->busy--;
        atomic_store(&s->any_dropped, true);
    }
    const bool now = job->place == JOB_DONE && !job->ready && !job->in_batch;
    pthread_cond_signal(&s->work_is);
    pthread_mutex_unlock(&s->lock);
    if (now)
        release(job);
}
