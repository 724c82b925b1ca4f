/* SPDX-License-Identifier: Apache-2.0 */
/* sched_rig.c - see sched_rig.h. */
#include "sched/sched_rig.h"

#include "base/os.h"
#include "support/data.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

void must(mote_status status, const mote_error *err)
{
    if (status == MOTE_OK)
        return;
    fprintf(stderr, "%s: %s\n", mote_status_name(status), err->text);
    abort();
}

void rig_open(rig *r)
{
    char path[TEST_PATH];
    mote_error err;
    if (!test_data_path(path, "mote-tiny-Q4_K_M.gguf"))
        exit(TEST_SKIPPED);
    must(mote_model_open(&r->model, path, NULL, &err), &err);
    must(chat_context_of(&r->chat_ctx, r->model, &err), &err);
    must(chat_vocab_of(&r->words, &r->chat_ctx, &err), &err);
}

void rig_close(rig *r)
{
    token_trie_free(r->words);
    mote_model_close(r->model);
}

/* ---- output ---- */

static void put_bytes(strbuf *out, const void *p, size_t n)
{
    strbuf_put(out, (str){p, n});
}

static void put_number(strbuf *out, uint64_t n)
{
    put_bytes(out, &n, sizeof n);
}

static void put_choice(strbuf *out, const mote_choice *c)
{
    put_number(out, (uint64_t)c->token);
    put_bytes(out, &c->logprob, sizeof c->logprob);
    put_number(out, c->n_top);
    for (uint32_t i = 0; i < c->n_top; i++)
        put_bytes(out, &c->top[i], sizeof c->top[i]);
}

void output_event(test_output *s, const chat_event *event)
{
    strbuf *out = &s->events;
    put_number(out, event->kind);
    put_number(out, event->call);
    put_number(out, event->name.n);
    strbuf_put(out, event->name);
    put_number(out, event->text.n);
    strbuf_put(out, event->text);
    put_number(out, event->kind == CHAT_EVENT_WARNING ? event->warning : 0);
    put_number(out, event->kind == CHAT_EVENT_TOKEN ? event->token : 0);
    put_number(out, event->kind == CHAT_EVENT_END ? event->cut * 2u + event->thinking_open : 0);
    if (event->choice != NULL)
        put_choice(out, event->choice);
}

void output_fini(test_output *s)
{
    strbuf_fini(&s->events);
    strbuf_fini(&s->tokens);
    *s = (test_output){0};
}

static void solo_on_event(void *with, const chat_event *event)
{
    output_event(with, event);
}

static void solo_step(mote_engine *engine, mote_session *session, const chat_turn_want *want)
{
    mote_error err;
    if (mote_session_length(session) > want->same)
        mote_session_rewind(session, want->same < want->n ? want->same : want->n - 1);
    const size_t at = (size_t)mote_session_length(session);
    const mote_work work = {.session = session, .tokens = want->tokens + at, .n = want->n - at};
    if (work.n > 0)
        must(mote_step(engine, &work, 1, &err), &err);
}

void rig_solo(const rig *r, const question *q, uint64_t context, test_output *out)
{
    mote_engine *engine;
    mote_session *session;
    mote_error err;
    chat_turn *turn;
    chat_turn_want want;
    *out = (test_output){0};
    const mote_engine_options options = {.threads = 1, .positions = context};
    must(mote_engine_new(&engine, r->model, &options, &err), &err);
    must(mote_session_new(&session, engine, NULL, &err), &err);
    chat_turn_options how = question_turn(q, r);
    how.context = context;
    how.event = solo_on_event;
    how.with = out;
    must(chat_turn_new(&turn, &how, &err), &err);
    must(chat_turn_next(turn, NULL, 0, &want, &err), &err);
    while (!want.over) {
        solo_step(engine, session, &want);
        must(chat_turn_next(turn, session, 0, &want, &err), &err);
    }
    size_t n;
    bool open;
    const mote_token *tokens = chat_turn_tokens(turn, &n, &open);
    put_bytes(&out->tokens, tokens, n * sizeof *tokens);
    out->answer = *chat_turn_result(turn);
    chat_turn_free(turn);
    mote_session_free(session);
    mote_engine_free(engine);
}

/* ---- a service ---- */

struct wakeup {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool pending;
};

static void wakeup_signal(void *with)
{
    struct wakeup *wakeup = with;
    pthread_mutex_lock(&wakeup->lock);
    wakeup->pending = true;
    pthread_cond_signal(&wakeup->changed);
    pthread_mutex_unlock(&wakeup->lock);
}

void service_open(service *s, const rig *r, sched_options options)
{
    mote_error err;
    *s = (service){.rig = r, .wakeup = calloc(1, sizeof *s->wakeup)};
    pthread_mutex_init(&s->wakeup->lock, NULL);
    pthread_cond_init(&s->wakeup->changed, NULL);
    options.model = r->model;
    options.wake = wakeup_signal;
    options.with = s->wakeup;
    must(sched_new(&s->sched, &options, &err), &err);
}

void service_open_held(service *s, const rig *r, sched_options options)
{
    mote_error err;
    core_lock *lock;
    must(core_lock_new(&lock, &err), &err);
    core_lock_enter(lock, NULL, NULL);
    options.core_lock = lock;
    service_open(s, r, options);
    s->held = lock;
}

void service_release(service *s)
{
    core_lock_leave(s->held);
}

void service_close(service *s)
{
    sched_free(s->sched);
    core_lock_free(s->held);
    pthread_cond_destroy(&s->wakeup->changed);
    pthread_mutex_destroy(&s->wakeup->lock);
    free(s->wakeup);
}

static void released(void *owner)
{
    test_job *a = owner;
    a->released = true;
}

sched_job_options service_job(const service *s, test_job *a, const question *q)
{
    *a = (test_job){.question = q};
    return (sched_job_options){.turn = question_turn(q, s->rig),
                               .marks = q->prompt.marks,
                               .n_marks = q->prompt.n_marks,
                               .owner = a,
                               .release = released};
}

mote_status service_submit(service *s, test_job *a, const sched_job_options *options,
                           mote_error *err)
{
    mote_status status = sched_job_new(&a->job, s->sched, options, err);
    if (status != MOTE_OK)
        return status;
    status = sched_submit(s->sched, a->job, err);
    if (status != MOTE_OK) {
        sched_job_discard(a->job);
        a->job = NULL;
    }
    return status;
}

void service_send(service *s, test_job *a, const question *q)
{
    mote_error err;
    const sched_job_options options = service_job(s, a, q);
    must(service_submit(s, a, &options, &err), &err);
}

void service_send_as(service *s, test_job *a, const question *q, uint64_t client)
{
    mote_error err;
    sched_job_options options = service_job(s, a, q);
    options.client = options.ns = client; /* as the server does for API keys */
    must(service_submit(s, a, &options, &err), &err);
}

static void rig_on_event(void *with, sched_job *job, void *owner, const sched_event *event)
{
    service *s = with;
    test_job *a = owner;
    if (a->job != job || a->finished || a->released)
        abort(); /* an event of a dropped or finished job */
    a->n_events++;
    if (event->kind == SCHED_EVENT_STARTED) {
        a->started = true;
        a->order = s->n_started++;
        a->turn = s->n_collects;
    } else if (event->kind == SCHED_EVENT_CHAT) {
        output_event(&a->output, event->chat);
    } else {
        a->finished = true;
        a->result = *event->result;
        a->output.status = event->result->status;
        a->output.answer = event->result->answer;
        put_bytes(&a->output.tokens, event->result->tokens,
                  event->result->n_tokens * sizeof(mote_token));
    }
    if (s->after_event != NULL)
        s->after_event(s, a);
}

void service_collect(service *s)
{
    struct wakeup *wakeup = s->wakeup;
    pthread_mutex_lock(&wakeup->lock);
    for (int waited = 0; !wakeup->pending && sched_busy(s->sched) > 0;) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec++; /* second by second: if the machine is suspended, one second counts at most
                         */
        waited += pthread_cond_timedwait(&wakeup->changed, &wakeup->lock, &until) == ETIMEDOUT;
        if (waited == SILENCE) {
            fprintf(stderr, "no event for %d seconds\n", SILENCE);
            abort();
        }
    }
    wakeup->pending = false;
    pthread_mutex_unlock(&wakeup->lock);
    s->n_collects++;
    sched_collect(s->sched, rig_on_event, s);
    if (s->after_collect != NULL)
        s->after_collect(s);
}

sched_phase service_step(service *s, const test_job *a)
{
    sched_job_status where;
    const double until = os_now() + SILENCE;
    core_lock_pass(s->held); /* leave and enter: the engine could run many steps in between */
    do { /* until it has published the step and waits for the next one, if there is one */
        sched_yield();
        sched_job_get_status(s->sched, a->job, &where);
    } while (core_lock_contenders(s->held) < 2 && where.phase != SCHED_FINISHED &&
             os_now() < until);
    sched_collect(s->sched, rig_on_event, s);
    return where.phase;
}

void service_step_to(service *s, const test_job *a, sched_phase phase)
{
    const double until = os_now() + SILENCE;
    sched_phase now;
    while ((now = service_step(s, a)) < phase && os_now() < until) {
    }
    if (now != phase) {
        fprintf(stderr, "it reached phase %d, not %d\n", (int)now, (int)phase);
        abort();
    }
}

void service_wait_phase(service *s, const test_job *a, sched_phase phase)
{
    sched_job_status where;
    do {
        service_collect(s);
        sched_job_get_status(s->sched, a->job, &where);
        if (where.phase > phase) {
            fprintf(stderr, "phase %d ended before it was seen\n", (int)phase);
            abort();
        }
    } while (where.phase != phase);
}

void service_wait_finished(service *s, test_job *a)
{
    while (!a->finished && a->job != NULL)
        service_collect(s);
}

void service_drop(service *s, test_job *a)
{
    sched_job *job = a->job;
    a->job = NULL;
    if (job != NULL)
        sched_drop(s->sched, job);
}

void test_job_fini(test_job *a)
{
    output_fini(&a->output);
}

static void differ(const char *what, str a, str b)
{
    size_t at = 0;
    while (at < a.n && at < b.n && a.p[at] == b.p[at])
        at++;
    fprintf(stderr, "%s differ from the solo run: %zu and %zu bytes, from byte %zu on\n", what, a.n,
            b.n, at);
    abort();
}

static void same_bytes(const char *what, const strbuf *a, const strbuf *b)
{
    if (!str_eq(strbuf_view(a), strbuf_view(b)))
        differ(what, strbuf_view(a), strbuf_view(b));
}

void same_as_solo(const test_job *a, const test_output *solo)
{
    const mote_answer *got = &a->output.answer, *wanted = &solo->answer;
    if (a->output.status != MOTE_OK) {
        fprintf(stderr, "the job failed: %s\n", a->result.error.text);
        abort();
    }
    same_bytes("tokens", &a->output.tokens, &solo->tokens);
    same_bytes("events", &a->output.events, &solo->events);
    if (got->finish != wanted->finish || got->answer_tokens != wanted->answer_tokens ||
        got->think_tokens != wanted->think_tokens || got->calls != wanted->calls ||
        got->warnings != wanted->warnings || got->loops_detected != wanted->loops_detected ||
        got->prompt_tokens != wanted->prompt_tokens) {
        fprintf(stderr, "the reported counts differ from the solo run\n");
        abort();
    }
}

uint64_t service_reused(service *s, const rig *r, const question *q, uint64_t context, uint64_t ns,
                        sched_reuse *from)
{
    mote_error err;
    test_job a;
    test_output solo;
    sched_job_options o = service_job(s, &a, q);
    o.ns = ns;
    must(service_submit(s, &a, &o, &err), &err);
    service_wait_finished(s, &a);
    rig_solo(r, q, context, &solo);
    same_as_solo(&a, &solo);
    *from = a.result.reuse;
    const uint64_t n = a.output.answer.reused_tokens;
    service_drop(s, &a);
    test_job_fini(&a);
    output_fini(&solo);
    return n;
}
