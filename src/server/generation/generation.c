/* SPDX-License-Identifier: Apache-2.0 */
/*
 * generation.c - the life of a request between its exchange and its jobs.
 *
 * An answering is kept by the exchange until the reply ends or the client goes, by the pool
 * while it reads, and by every job until the scheduler lets go of it. Calls that may end
 * it hold one more, so nothing is freed under a printer's feet.
 */
#include "base/mem.h"
#include "base/os.h"
#include "server/generation/generation_int.h"
#include "server/core/context.h"
#include "server/http/event_loop.h"

#include <stdio.h>
#include <time.h>

enum { AT_ONCE = 8 }; /* jobs of one request that are with the scheduler */

/* ---- memory ---- */

static void unhold(generation *w)
{
    if (--w->refs > 0)
        return;
    for (size_t i = 0; i < w->n_choices; i++) {
        if (w->choices[i].job != NULL && !w->choices[i].submitted)
            sched_job_discard(w->choices[i].job);
        choice_fini(&w->choices[i]);
    }
    mem_free(w->choices);
    for (size_t i = 0; i < w->n_prompts && w->prompts != NULL; i++)
        chat_prompt_fini(&w->prompts[i]);
    mem_free(w->prompts);
    request_fini(&w->request);
    strbuf_fini(&w->body);
    strbuf_fini(&w->out);
    mem_free(w);
}

static void hold(generation *w)
{
    w->refs++;
}

/* The scheduler needs nothing of this choice any more. */
static void release(void *with)
{
    choice *c = with;
    if (!c->held)
        return;
    c->held = false;
    unhold(c->of);
}

static void enlist(generation *w)
{
    generation **first = &w->ctx->generations;
    w->next = *first;
    w->link = first;
    if (w->next != NULL)
        w->next->link = &w->next;
    *first = w;
    w->listed = true;
}

static void unlist(generation *w)
{
    if (!w->listed)
        return;
    *w->link = w->next;
    if (w->next != NULL)
        w->next->link = w->link;
    w->listed = false;
}

void generation_conclude(generation *w)
{
    if (w->over)
        return;
    w->x = NULL;
    if (w->printing) /* the pool looks at what the jobs have; it comes back here */
        return;
    w->over = true;
    unlist(w);
    generation_leaves_model(w);
    if (w->looking)
        vision_service_drop(w->request.vision, &w->look);
    generation_charge(w);
    for (size_t i = 0; i < w->n_choices; i++) {
        choice *c = &w->choices[i];
        if (!c->submitted || c->job == NULL)
            continue;
        sched_job *job = c->job;
        c->job = NULL;
        c->result.tokens = NULL;
        sched_drop(served_model_sched(w->request.served), job);
    }
    unhold(w);
}

/* ---- submitting ---- */

static void queue_full(http_error *error)
{
    api_error_set(error, API_E_QUEUE, "queue_full", "too many requests are waiting already");
    error->retry_ms = 1000;
}

static bool try_submit(generation *w, choice *c, http_error *error)
{
    mote_error err;
    hold(w);
    c->held = c->submitted = true;
    const mote_status status = sched_submit(served_model_sched(w->request.served), c->job, &err);
    if (status == MOTE_OK) {
        w->n_submitted++;
        return true;
    }
    c->submitted = false; /* the job is ours again, and so is what it held */
    release(c);
    if (status == MOTE_E_FULL)
        queue_full(error);
    else
        http_error_from(error, &err);
    return false;
}

/* A few at a time, so that one request of many prompts does not fill the queue alone. */
static void submit_more(generation *w)
{
    for (size_t i = 0; i < w->n_choices && w->n_submitted - w->n_over < AT_ONCE; i++) {
        choice *c = &w->choices[i];
        http_error error = {0};
        if (c->job == NULL && !c->over) { /* nothing to do for it */
            c->over = true;
            w->n_submitted++;
            w->n_over++;
        } else if (!c->submitted && !c->over && !try_submit(w, c, &error)) {
            if (w->n_submitted == w->n_over)
                generation_fail(w, &error);
            return;
        }
    }
}

/* ---- events ---- */

static void tell(choice *c, const chat_event *event)
{
    generation *w = c->of;
    if (w->streaming && !w->over)
        w->how->event(w, c, event);
}

static void add_content(choice *c, str text)
{
    strbuf_put(&c->content, text);
    tell(c, &(chat_event){.kind = CHAT_EVENT_CONTENT, .text = text});
}

static void on_text(choice *c, const chat_event *event)
{
    const bool thinks = event->kind == CHAT_EVENT_REASONING;
    if (c->of->request.keep_reasoning_inline && thinks != c->in_think) {
        add_content(c, str_of(thinks ? "<think>\n" : "\n</think>\n\n"));
        c->in_think = thinks;
    }
    if (!thinks || c->of->request.keep_reasoning_inline) {
        add_content(c, event->text);
        return;
    }
    strbuf_put(&c->reasoning, event->text);
    tell(c, event);
}

static void on_warning(generation *w, const chat_event *event)
{
    char at[96];
    const char *code = chat_warning_name(event->warning);
    snprintf(at, sizeof at, "%.*s", (int)(event->text.n < 90 ? event->text.n : 90), event->text.p);
    if (event->warning == CHAT_WARN_UNKNOWN_TOOL || event->warning == CHAT_WARN_MALFORMED ||
        event->warning == CHAT_WARN_TOO_LONG || event->warning == CHAT_WARN_FENCED) {
        code = "tool_call_malformed";
        served_model_count_malformed(w->request.served);
    }
    request_warn(&w->request, code, at);
}

static void on_chat(choice *c, const chat_event *event)
{
    switch (event->kind) {
    case CHAT_EVENT_REASONING:
    case CHAT_EVENT_CONTENT: on_text(c, event); break;
    case CHAT_EVENT_TOKEN: choice_add_token(c, event); break;
    case CHAT_EVENT_WARNING: on_warning(c->of, event); break;
    case CHAT_EVENT_CALL_START:
    case CHAT_EVENT_CALL_ARGUMENTS:
    case CHAT_EVENT_CALL_END:
    case CHAT_EVENT_CALL_CANCEL:
        if (choice_add_call(c, event, c->of->how->call_prefix))
            tell(c, event);
        break;
    case CHAT_EVENT_END: break;
    }
}

static void print(void *with)
{
    generation *w = with;
    w->how->end(w);
}

static void printed(void *with)
{
    generation *w = with;
    w->printing = false;
    if (w->x == NULL)
        generation_conclude(w);
    else if (w->error.code != NULL)
        generation_fail(w, &w->error);
    else
        generation_reply(w, w->status);
    unhold(w);
}

/* A whole reply can have hundreds of thousands of numbers; spelling them out is not for the loop.
 */
static void print_on_pool(generation *w)
{
    char ms[24];
    http_error error = {0};
    snprintf(ms, sizeof ms, "%lld", (long long)(1000 * (os_now() - w->began) + 0.5));
    if (exchange_dialect(w->x) == API_OPENAI)
        exchange_add_header(w->x, "openai-processing-ms", ms);
    unlist(w);
    hold(w);
    w->printing = true;
    if (event_loop_work(w->ctx->loop, print, printed, w))
        return;
    w->printing = false;
    http_error_no_memory(&error);
    generation_fail(w, &error);
    unhold(w);
}

static void finish(generation *w)
{
    exchange *x = w->x;
    generation_note(w);
    if (w->request.answer.format != MOTE_FORMAT_TEXT)
        w->ctx->structured_outputs++;
    if (!w->streaming) {
        print_on_pool(w);
        return;
    }
    w->how->end(w);
    if (w->over)
        return;
    generation_conclude(w);
    exchange_end(x);
}

static void on_over(choice *c, const sched_result *result)
{
    generation *w = c->of;
    http_error error = {0};
    c->result = *result;
    c->over = true;
    w->n_over++;
    const bool lost = c->content.failed || c->reasoning.failed || c->token_bytes.failed;
    if (result->status != MOTE_OK || lost) {
        if (lost)
            http_error_no_memory(&error);
        else
            request_answer_failed(&w->request, &result->error, &error);
        generation_fail(w, &error);
        return;
    }
    if (c->kind == SCHED_ANSWER) {
        c->cause = choice_cause(c);
        generation_remember_tokens(w, c);
    }
    if (w->streaming && c->index < w->n_answers && w->how->choice_over != NULL)
        w->how->choice_over(w, c);
    if (!w->over)
        submit_more(w);
    if (!w->over && w->n_over == w->n_choices)
        finish(w);
}

static void on_started(choice *c)
{
    generation *w = c->of;
    sched_job_status where;
    sched_job_get_status(served_model_sched(w->request.served), c->job, &where);
    c->reused = where.reused;
    if (w->request.progress && w->streaming)
        w->how->waiting(w, &where, 0);
}

void generation_on_event(void *with, sched_job *job, void *owner, const sched_event *event)
{
    choice *c = owner;
    generation *w = c->of;
    (void)with;
    (void)job;
    if (w->over)
        return;
    hold(w);
    if (event->kind == SCHED_EVENT_STARTED)
        on_started(c);
    else if (event->kind == SCHED_EVENT_CHAT)
        on_chat(c, event->chat);
    else if (event->kind == SCHED_EVENT_FINISHED)
        on_over(c, event->result);
    unhold(w);
}

/* ---- waiting ---- */

static void tell_waiting(generation *w, double now)
{
    sched_job_status where;
    if (!w->streaming || w->over || now - w->last_sent < 0.9)
        return;
    for (size_t i = 0; i < w->n_choices; i++)
        if (w->choices[i].submitted && !w->choices[i].over) {
            sched_job_get_status(served_model_sched(w->request.served), w->choices[i].job, &where);
            w->how->waiting(w, &where, now - w->last_event);
            return;
        }
}

void generation_tick(server_context *s)
{
    const double now = os_now();
    generation *w = s->generations;
    while (w != NULL) {
        generation *next = w->next; /* telling one can end no other */
        hold(w);
        tell_waiting(w, now);
        unhold(w);
        w = next;
    }
}

/* ---- start ---- */

static void on_gone(void *with)
{
    generation *w = with;
    generation_conclude(w);
}

static void begin(generation *w)
{
    if (!w->request.stream)
        return;
    w->streaming = true;
    exchange_begin(w->x, 200, w->how->content_type);
    if (w->how->begin != NULL)
        w->how->begin(w);
}

static void make(void *with)
{
    generation_make(with, release);
}

static void made(void *with)
{
    generation *w = with;
    if (w->x == NULL) {
        unhold(w);
        return;
    }
    exchange_add_header(w->x, "mote-model", served_model_name(w->request.served));
    if (w->error.code != NULL) {
        if (w->how->tells_full && w->request.codex &&
            strcmp(w->error.code, "context_length_exceeded") == 0)
            begin(w);
        generation_fail(w, &w->error);
    } else if (generation_prompt_only(w)) {
        w->how->rendered(w);
    } else {
        enlist(w);
        submit_more(w);
        if (!w->over)
            begin(w);
        if (!w->over && w->n_over == w->n_choices)
            finish(w);
    }
    unhold(w);
}

/* What it shows was looked at. */
static void looked(void *with)
{
    generation *w = with;
    w->looking = false;
    w->error = w->look.error;
    if (w->x != NULL && w->error.code == NULL) {
        request_media_ready(&w->request);
        if (event_loop_work(w->ctx->loop, make, made, w))
            return;
        http_error_no_memory(&w->error);
    } else if (w->x != NULL && strcmp(w->error.code, "context_length_exceeded") == 0) {
        generation_full(w, w->look.tokens);
    }
    made(w);
}

static void look(generation *w)
{
    const request *a = &w->request;
    w->look = (vision_request){.items = a->shown,
                               .n = a->n_shown,
                               .ns = a->ns,
                               .room = a->drop_oldest || generation_prompt_only(w) ? 0 : w->context,
                               .done = looked,
                               .with = w};
    w->looking = vision_service_submit(a->vision, &w->look);
    if (w->looking)
        return;
    queue_full(&w->error);
    made(w);
}

static void prepare(void *with)
{
    generation *w = with;
    generation_read(w);
    if (w->error.code == NULL && w->request.n_shown == 0)
        generation_make(w, release);
}

static void prepared(void *with)
{
    generation *w = with;
    generation_takes_model(w);
    if (w->x != NULL && w->error.code == NULL && w->request.n_shown > 0)
        look(w);
    else
        made(w);
}

void generation_start(exchange *x, const dialect *d)
{
    const http_request *http = exchange_request(x);
    generation *w = mem_new(1, sizeof *w);
    server_context *ctx = exchange_context(x);
    http_error error = {0};
    http_error_no_memory(&error);
    if (w == NULL) {
        exchange_fail(x, &error);
        return;
    }
    *w = (generation){.x = x,
                      .ctx = ctx,
                      .how = d,
                      .request = {.n = 1,
                                  .continue_last = true,
                                  .ns = http->ns,
                                  .client = http->client,
                                  .ctx = ctx,
                                  .served = model_registry_at(ctx->models, 0)},
                      .created = (int64_t)time(NULL),
                      .began = exchange_began(x),
                      .last_sent = os_now(),
                      .last_event = os_now(),
                      .refs = 2}; /* the exchange and the pool */
    snprintf(w->request_id, sizeof w->request_id, "%s", exchange_id(x));
    /* The pool reads a copy: the exchange may end while it does. */
    strbuf_put(&w->body, http->body);
    generation_read_headers(w);
    exchange_on_gone(x, on_gone, w);
    if (w->body.failed || !generation_admitted(w, &error) ||
        !event_loop_work(w->ctx->loop, prepare, prepared, w)) {
        w->refs--;
        generation_fail(w, &error);
    }
}
