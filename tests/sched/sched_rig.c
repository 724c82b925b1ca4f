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

/* ---- what was said ---- */

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

void said_event(said *s, const chat_event *event)
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

void said_fini(said *s)
{
    strbuf_fini(&s->events);
    strbuf_fini(&s->tokens);
    *s = (said){0};
}

static void hear_solo(void *with, const chat_event *event)
{
    said_event(with, event);
}

static void bring(mote_engine *engine, mote_session *session, const chat_turn_want *want)
{
    mote_error err;
    if (mote_session_length(session) > want->same)
        mote_session_rewind(session, want->same < want->n ? want->same : want->n - 1);
    const size_t at = (size_t)mote_session_length(session);
    const mote_work work = {.session = session, .tokens = want->tokens + at, .n = want->n - at};
    if (work.n > 0)
        must(mote_step(engine, &work, 1, &err), &err);
}

void rig_solo(const rig *r, const question *q, uint64_t context, said *out)
{
    mote_engine *engine;
    mote_session *session;
    mote_error err;
    chat_turn *turn;
    chat_turn_want want;
    *out = (said){0};
    const mote_engine_options options = {.threads = 1, .positions = context};
    must(mote_engine_new(&engine, r->model, &options, &err), &err);
    must(mote_session_new(&session, engine, NULL, &err), &err);
    chat_turn_options how = question_turn(q, r);
    how.context = context;
    how.event = hear_solo;
    how.with = out;
    must(chat_turn_new(&turn, &how, &err), &err);
    must(chat_turn_next(turn, NULL, &want, &err), &err);
    while (!want.over) {
        bring(engine, session, &want);
        must(chat_turn_next(turn, session, &want, &err), &err);
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

struct bell {
    pthread_mutex_t lock;
    pthread_cond_t rings;
    bool rang;
};

static void ring(void *with)
{
    struct bell *bell = with;
    pthread_mutex_lock(&bell->lock);
    bell->rang = true;
    pthread_cond_signal(&bell->rings);
    pthread_mutex_unlock(&bell->lock);
}

void service_open(service *s, const rig *r, sched_options options)
{
    mote_error err;
    *s = (service){.rig = r, .bell = calloc(1, sizeof *s->bell)};
    pthread_mutex_init(&s->bell->lock, NULL);
    pthread_cond_init(&s->bell->rings, NULL);
    options.model = r->model;
    options.wake = ring;
    options.with = s->bell;
    must(sched_new(&s->sched, &options, &err), &err);
}

void service_open_held(service *s, const rig *r, sched_options options)
{
    mote_error err;
    core_lock *gate;
    must(core_lock_new(&gate, &err), &err);
    core_lock_enter(gate, NULL, NULL);
    options.core_lock = gate;
    service_open(s, r, options);
    s->held = gate;
}

void service_go_on(service *s)
{
    core_lock_leave(s->held);
}

void service_close(service *s)
{
    sched_free(s->sched);
    core_lock_free(s->held);
    pthread_cond_destroy(&s->bell->rings);
    pthread_mutex_destroy(&s->bell->lock);
    free(s->bell);
}

static void released(void *owner)
{
    asked *a = owner;
    a->released = true;
}

sched_job_options service_job(const service *s, asked *a, const question *q)
{
    *a = (asked){.question = q};
    return (sched_job_options){.turn = question_turn(q, s->rig),
                               .marks = q->prompt.marks,
                               .n_marks = q->prompt.n_marks,
                               .owner = a,
                               .release = released};
}

mote_status service_submit(service *s, asked *a, const sched_job_options *options, mote_error *err)
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

void service_ask(service *s, asked *a, const question *q)
{
    mote_error err;
    const sched_job_options options = service_job(s, a, q);
    must(service_submit(s, a, &options, &err), &err);
}

void service_ask_as(service *s, asked *a, const question *q, uint64_t client)
{
    mote_error err;
    sched_job_options options = service_job(s, a, q);
    options.client = client;
    must(service_submit(s, a, &options, &err), &err);
}

static void hear(void *with, sched_job *job, void *owner, const sched_event *event)
{
    service *s = with;
    asked *a = owner;
    if (a->job != job || a->over || a->released)
        abort(); /* an event of a job that is not there any more */
    a->n_events++;
    if (event->kind == SCHED_EVENT_STARTED) {
        a->started = true;
        a->order = s->n_started++;
        a->turn = s->n_turns;
    } else if (event->kind == SCHED_EVENT_CHAT) {
        said_event(&a->said, event->chat);
    } else {
        a->over = true;
        a->result = *event->result;
        a->said.status = event->result->status;
        a->said.answer = event->result->answer;
        put_bytes(&a->said.tokens, event->result->tokens,
                  event->result->n_tokens * sizeof(mote_token));
    }
    if (s->heard != NULL)
        s->heard(s, a);
}

void service_turn(service *s)
{
    struct bell *bell = s->bell;
    pthread_mutex_lock(&bell->lock);
    for (int waited = 0; !bell->rang && sched_busy(s->sched) > 0;) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec++; /* one by one: while all of us stand still no more than one goes by */
        waited += pthread_cond_timedwait(&bell->rings, &bell->lock, &until) == ETIMEDOUT;
        if (waited == SILENCE) {
            fprintf(stderr, "nothing happened for %d seconds\n", SILENCE);
            abort();
        }
    }
    bell->rang = false;
    pthread_mutex_unlock(&bell->lock);
    s->n_turns++;
    sched_collect(s->sched, hear, s);
    if (s->turned != NULL)
        s->turned(s);
}

sched_phase service_step(service *s, const asked *a)
{
    sched_job_status where;
    const double until = os_now() + SILENCE;
    core_lock_leave(s->held);
    core_lock_enter(s->held, NULL, NULL);
    do { /* until it has told of its step and waits for the next, if there is to be one */
        sched_yield();
        sched_job_get_status(s->sched, a->job, &where);
    } while (core_lock_contenders(s->held) < 2 && where.phase != SCHED_FINISHED &&
             os_now() < until);
    sched_collect(s->sched, hear, s);
    return where.phase;
}

void service_step_to(service *s, const asked *a, sched_phase phase)
{
    const double until = os_now() + SILENCE;
    sched_phase now;
    while ((now = service_step(s, a)) < phase && os_now() < until) {
    }
    if (now != phase) {
        fprintf(stderr, "it came to phase %d, not %d\n", (int)now, (int)phase);
        abort();
    }
}

void service_until_phase(service *s, const asked *a, sched_phase phase)
{
    sched_job_status where;
    do {
        service_turn(s);
        sched_job_get_status(s->sched, a->job, &where);
        if (where.phase > phase) {
            fprintf(stderr, "phase %d was over before it was seen\n", (int)phase);
            abort();
        }
    } while (where.phase != phase);
}

void service_until_over(service *s, asked *a)
{
    while (!a->over && a->job != NULL)
        service_turn(s);
}

void service_drop(service *s, asked *a)
{
    sched_job *job = a->job;
    a->job = NULL;
    if (job != NULL)
        sched_drop(s->sched, job);
}

void asked_fini(asked *a)
{
    said_fini(&a->said);
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

void same_as_solo(const asked *a, const said *solo)
{
    const mote_answer *got = &a->said.answer, *wanted = &solo->answer;
    if (a->said.status != MOTE_OK) {
        fprintf(stderr, "it failed: %s\n", a->result.error.text);
        abort();
    }
    same_bytes("tokens", &a->said.tokens, &solo->tokens);
    same_bytes("events", &a->said.events, &solo->events);
    if (got->finish != wanted->finish || got->answer_tokens != wanted->answer_tokens ||
        got->think_tokens != wanted->think_tokens || got->calls != wanted->calls ||
        got->warnings != wanted->warnings || got->loops_detected != wanted->loops_detected ||
        got->prompt_tokens != wanted->prompt_tokens) {
        fprintf(stderr, "what is reported differs from the solo run\n");
        abort();
    }
}
