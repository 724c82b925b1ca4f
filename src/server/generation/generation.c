/* SPDX-License-Identifier: Apache-2.0 */
/*
 * generation.c - life cycle of a generation: vision, submit, events, finish, charge.
 *
 * References: the exchange holds one until the reply ends or the client disconnects, a worker one
 * while it prepares or prints, and every submitted job one until the scheduler releases it.
 * Functions that may finish a generation hold another one, so it stays valid until they return.
 *
 * Out of memory while a stream is printed: generation_send() sets send_failed, and this file aborts
 * the connection after the printer function returns.
 */
#include "base/mem.h"
#include "base/os.h"
#include "server/auth/quota.h"
#include "server/generation/generation_int.h"
#include "server/http/event_loop.h"

#include <stdio.h>
#include <time.h>

/* Jobs of one request in the scheduler at the same time: a request with many prompts must not fill
 * the queue alone. */
enum { MAX_SUBMITTED = 8 };

/* ---- references ---- */

static void generation_hold(generation *w)
{
    w->refs++;
}

void generation_release(generation *w)
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
    strbuf_fini(&w->out);
    mem_free(w);
}

/* The `release` function of jobs: the scheduler no longer needs this choice. */
static void choice_release(void *with)
{
    choice *c = with;
    if (!c->held)
        return;
    c->held = false;
    generation_release(c->of);
}

/* ---- list of running generations ---- */

void generation_enlist(generation *w)
{
    if (w->listed)
        return;
    generation **first = &w->ctx->generations;
    w->next = *first;
    w->link = first;
    if (w->next != NULL)
        w->next->link = &w->next;
    *first = w;
    w->listed = true;
}

void generation_unlist(generation *w)
{
    if (!w->listed)
        return;
    *w->link = w->next;
    if (w->next != NULL)
        w->next->link = w->link;
    w->listed = false;
}

generation *generation_find(server_context *ctx, str id, uint64_t ns)
{
    generation *w = ctx->generations;
    while (w != NULL && !(w->request.ns == ns && str_is(id, w->id)))
        w = w->next;
    return w;
}

void generation_end_thinking(generation *w)
{
    for (size_t i = 0; i < w->n_choices; i++)
        if (w->choices[i].submitted && !w->choices[i].over)
            sched_end_thinking(served_model_sched(w->request.served), w->choices[i].job);
}

/* ---- finish ---- */

/* Charges the key for all tokens prefilled and generated so far. */
static void generation_charge(generation *w)
{
    const uint64_t least = w->bytes / QUOTA_BYTES_PER_TOKEN;
    uint64_t tokens = 0;
    if (w->quota == NULL)
        return;
    for (size_t i = 0; i < w->n_choices && w->work == NULL; i++) {
        const choice *c = &w->choices[i];
        sched_job_status s;
        if (!c->submitted || c->job == NULL)
            continue;
        sched_job_get_status(served_model_sched(w->request.served), c->job, &s);
        tokens += (s.done > s.reused ? s.done - s.reused : 0) + s.generated;
    }
    quota_end(w->quota, (uint64_t)(1000 * os_now()), tokens > least ? tokens : least);
    w->quota = NULL;
}

/* Nothing more is sent: drops the jobs and gives back the reference of the exchange. While a worker
 * prints, only the exchange is detached; generation_printed() calls again. */
static void generation_finish(generation *w)
{
    if (w->over)
        return;
    w->x = NULL;
    if (w->printing)
        return;
    w->over = true;
    generation_unlist(w);
    if (w->counted)
        served_model_end(w->request.served,
                         w->request.has_keep_alive ? &w->request.keep_alive : NULL);
    if (w->encoding)
        vision_service_drop(w->request.vision, &w->vision);
    generation_charge(w);
    for (size_t i = 0; i < w->n_choices && w->work == NULL; i++) {
        choice *c = &w->choices[i];
        if (!c->submitted || c->job == NULL)
            continue;
        sched_job *job = c->job;
        c->job = NULL;
        c->result.tokens = NULL;
        sched_drop(served_model_sched(w->request.served), job);
    }
    if (w->waiting)
        generation_stop_waiting(w);
    generation_release(w);
}

void generation_check_sent(generation *w)
{
    exchange *x = w->x;
    if (!w->send_failed || x == NULL || w->over)
        return;
    generation_finish(w);
    exchange_abort(x);
}

void generation_reply(generation *w, int status)
{
    if (w->printing) { /* on a worker: generation_printed() sends it */
        w->status = status;
        return;
    }
    exchange *x = w->x;
    if (x == NULL || w->over)
        return;
    if (w->out.failed) {
        http_error error = {0};
        http_error_no_memory(&error);
        generation_fail(w, &error);
        return;
    }
    strbuf body = w->out;
    w->out = (strbuf){0};
    const bool head_sent = w->head_sent; /* by generation_print_loading() */
    generation_finish(w);
    if (head_sent) {
        exchange_write(x, strbuf_view(&body));
        exchange_write(x, str_of("\n"));
        exchange_end(x);
    } else {
        exchange_reply(x, status, EXCHANGE_JSON, strbuf_view(&body));
    }
    strbuf_fini(&body);
}

void generation_fail(generation *w, const http_error *error)
{
    if (w->printing) {
        w->error = *error;
        return;
    }
    exchange *x = w->x;
    if (x == NULL || w->over)
        return;
    if (!w->streaming) {
        http_error sent = *error; /* `error` and `more` may be part of *w, which ends first */
        char more[sizeof w->more];
        memcpy(more, w->more, sizeof more);
        if (sent.more == w->more)
            sent.more = more;
        generation_finish(w);
        exchange_fail(x, &sent);
        return;
    }
    generation_hold(w);
    w->out.n = 0;
    w->printer->failed(w, error);
    generation_check_sent(w);
    if (w->x != NULL && !w->over) {
        generation_finish(w);
        exchange_end(x);
    }
    generation_release(w);
}

/* Worker thread. */
static void generation_print(void *with)
{
    generation *w = with;
    w->printer->end(w);
}

static void generation_printed(void *with)
{
    generation *w = with;
    w->printing = false;
    if (w->x == NULL)
        generation_finish(w);
    else if (w->error.code != NULL)
        generation_fail(w, &w->error);
    else
        generation_reply(w, w->status);
    generation_release(w);
}

/* Work units of event_loop_work(): the printed bytes. */
static size_t generation_print_cost(const generation *w)
{
    enum { LOGPROB_BYTES = 256, NUMBER_BYTES = 12 };
    size_t bytes = 0;
    for (size_t i = 0; i < w->n_choices; i++) {
        const choice *c = &w->choices[i];
        bytes += c->content.n + c->reasoning.n + c->n_tokens * LOGPROB_BYTES +
                 c->result.n_embedding * NUMBER_BYTES;
    }
    return bytes;
}

/* A reply may contain hundreds of thousands of numbers; a worker prints it. */
static void generation_print_on_worker(generation *w)
{
    char ms[24];
    http_error error = {0};
    snprintf(ms, sizeof ms, "%lld", (long long)(1000 * (os_now() - w->began) + 0.5));
    if (exchange_request(w->x)->dialect == API_OPENAI)
        exchange_add_header(w->x, "openai-processing-ms", ms);
    generation_unlist(w);
    generation_hold(w);
    w->printing = true;
    if (event_loop_work(w->ctx->loop, generation_print_cost(w), generation_print,
                        generation_printed, w))
        return;
    w->printing = false;
    http_error_no_memory(&error);
    generation_fail(w, &error);
    generation_release(w);
}

/* All choices are complete. A reply without stream is printed on a worker. */
static void generation_end(generation *w)
{
    generation_log(w);
    if (w->request.answer.format != MOTE_FORMAT_TEXT)
        w->ctx->structured_outputs++;
    if (!w->streaming) {
        generation_print_on_worker(w);
        return;
    }
    w->printer->end(w);
    generation_check_sent(w);
    if (w->over)
        return;
    exchange *x = w->x;
    generation_finish(w);
    exchange_end(x);
}

/* ---- submit ---- */

static void queue_full(http_error *error)
{
    http_error_set(error, HTTP_E_QUEUE, "queue_full", "the request queue is full; try again later");
    error->retry_ms = 1000;
}

/* Submits the job. It holds a reference to the generation until the scheduler releases it. */
static bool choice_submit(choice *c, http_error *error)
{
    mote_error err;
    generation *w = c->of;
    generation_hold(w);
    c->held = c->submitted = true;
    const mote_status status = sched_submit(served_model_sched(w->request.served), c->job, &err);
    if (status == MOTE_OK) {
        w->n_submitted++;
        return true;
    }
    c->submitted = false; /* the generation owns the job again */
    choice_release(c);
    if (status == MOTE_E_FULL)
        queue_full(error);
    else
        http_error_from(error, &err);
    return false;
}

/* Submits jobs up to MAX_SUBMITTED. */
static void generation_submit(generation *w)
{
    for (size_t i = 0; i < w->n_choices && w->n_submitted - w->n_over < MAX_SUBMITTED; i++) {
        choice *c = &w->choices[i];
        http_error error = {0};
        if (c->job == NULL && !c->over) { /* a choice without a job is complete */
            c->over = true;
            w->n_submitted++;
            w->n_over++;
        } else if (!c->submitted && !c->over && !choice_submit(c, &error)) {
            if (w->n_submitted == w->n_over)
                generation_fail(w, &error);
            return;
        }
    }
}

/* ---- events ---- */

static void choice_print(choice *c, const chat_event *event)
{
    generation *w = c->of;
    if (!w->streaming || w->over)
        return;
    w->printer->event(w, c, event);
    generation_check_sent(w);
}

static void choice_add_content(choice *c, str text)
{
    strbuf_put(&c->content, text);
    choice_print(c, &(chat_event){.kind = CHAT_EVENT_CONTENT, .text = text});
}

static void choice_on_text(choice *c, const chat_event *event)
{
    const bool thinks = event->kind == CHAT_EVENT_REASONING;
    if (c->of->request.keep_reasoning_inline && thinks != c->in_think) {
        choice_add_content(c, str_of(thinks ? "<think>\n" : "\n</think>\n\n"));
        c->in_think = thinks;
    }
    if (!thinks || c->of->request.keep_reasoning_inline) {
        choice_add_content(c, event->text);
        return;
    }
    strbuf_put(&c->reasoning, event->text);
    choice_print(c, event);
}

static void choice_on_warning(choice *c, const chat_event *event)
{
    char at[96];
    request *a = &c->of->request;
    const char *code = chat_warning_name(event->warning);
    snprintf(at, sizeof at, "%.*s", (int)(event->text.n < 90 ? event->text.n : 90), event->text.p);
    if (event->warning == CHAT_WARN_UNKNOWN_TOOL || event->warning == CHAT_WARN_MALFORMED ||
        event->warning == CHAT_WARN_TOO_LONG || event->warning == CHAT_WARN_FENCED) {
        code = "tool_call_malformed";
        served_model_count_malformed(a->served);
    }
    request_warn_choice(a, c->index, code, at);
}

static void choice_on_chat(choice *c, const chat_event *event)
{
    switch (event->kind) {
    case CHAT_EVENT_REASONING:
    case CHAT_EVENT_CONTENT: choice_on_text(c, event); break;
    case CHAT_EVENT_TOKEN: choice_add_token(c, event); break;
    case CHAT_EVENT_WARNING: choice_on_warning(c, event); break;
    case CHAT_EVENT_CALL_START:
    case CHAT_EVENT_CALL_ARGUMENTS:
    case CHAT_EVENT_CALL_END:
    case CHAT_EVENT_CALL_CANCEL:
        if (choice_add_call(c, event, c->of->printer->call_prefix))
            choice_print(c, event);
        break;
    case CHAT_EVENT_END: break;
    }
}

/* The job has ended: submits the next one, and ends the generation after the last. */
static void choice_on_finished(choice *c, const sched_result *result)
{
    generation *w = c->of;
    http_error error = {0};
    c->result = *result;
    c->over = true;
    w->n_over++;
    const bool no_memory = c->content.failed || c->reasoning.failed || c->token_bytes.failed;
    if (result->status != MOTE_OK || no_memory) {
        if (no_memory)
            http_error_no_memory(&error);
        else
            request_answer_failed(&w->request, &result->error, &error);
        generation_fail(w, &error);
        return;
    }
    if (c->kind == SCHED_ANSWER) {
        c->cause = choice_cause(c);
        generation_remember_tokens(w, c);
        generation_count_cache(w, c);
    }
    if (w->streaming && c->index < w->n_answers && w->printer->choice_over != NULL) {
        w->printer->choice_over(w, c);
        generation_check_sent(w);
    }
    if (!w->over)
        generation_submit(w);
    if (!w->over && w->n_over == w->n_choices)
        generation_end(w);
}

static void choice_on_started(choice *c)
{
    generation *w = c->of;
    sched_job_status status;
    sched_job_get_status(served_model_sched(w->request.served), c->job, &status);
    c->reused = status.reused;
    if (!w->request.progress || !w->streaming)
        return;
    w->printer->waiting(w, &status, 0);
    generation_check_sent(w);
}

void generation_on_event(void *with, sched_job *job, void *owner, const sched_event *event)
{
    choice *c = owner;
    generation *w = c->of;
    (void)with;
    (void)job;
    if (w->over)
        return;
    generation_hold(w);
    if (event->kind == SCHED_EVENT_STARTED)
        choice_on_started(c);
    else if (event->kind == SCHED_EVENT_CHAT)
        choice_on_chat(c, event->chat);
    else if (event->kind == SCHED_EVENT_FINISHED)
        choice_on_finished(c, event->result);
    generation_release(w);
}

/* ---- streams without output ---- */

static void generation_print_waiting(generation *w, double now)
{
    sched_job_status status;
    if (!w->streaming || w->over || now - w->last_sent < 0.9)
        return;
    for (size_t i = 0; i < w->n_choices; i++)
        if (w->choices[i].submitted && !w->choices[i].over) {
            sched_job_get_status(served_model_sched(w->request.served), w->choices[i].job, &status);
            w->printer->waiting(w, &status, now - w->last_event);
            generation_check_sent(w);
            return;
        }
}

void generation_tick(server_context *ctx)
{
    const double now = os_now();
    generation *w = ctx->generations;
    while (w != NULL) {
        generation *next = w->next; /* printing one generation cannot end another */
        generation_hold(w);
        if (w->waiting)
            generation_print_loading(w, now);
        else
            generation_print_waiting(w, now);
        generation_release(w);
        w = next;
    }
}

unsigned generation_cut(server_context *ctx)
{
    http_error error;
    unsigned n = 0;
    http_error_set(&error, HTTP_E_UNAVAILABLE, "draining", "the server is shutting down");
    error.retry_ms = 1000;
    for (generation *w = ctx->generations, *next; w != NULL; w = next, n++) {
        next = w->next; /* failing one generation cannot end another */
        generation_fail(w, &error);
    }
    return n;
}

/* ---- start ---- */

static void generation_on_disconnect(void *with)
{
    generation *w = with;
    atomic_store(&w->gone, true);
    if (w->work != NULL)
        event_loop_cancel_work(w->ctx->loop, w->work);
    generation_finish(w);
}

static bool generation_goes_on(void *w)
{
    return !atomic_load(&((generation *)w)->gone);
}

generation *generation_new(exchange *x, const char *api, const generation_printer *printer)
{
    const http_request *http = exchange_request(x);
    server_context *ctx = exchange_context(x);
    generation *w = mem_new(1, sizeof *w);
    if (w == NULL)
        return NULL;
    *w = (generation){.x = x,
                      .ctx = ctx,
                      .api = api,
                      .printer = printer,
                      .request = {.n = 1,
                                  .continue_last = true,
                                  .ns = http->ns,
                                  .client = http->client,
                                  .background = http->background,
                                  .ctx = ctx,
                                  .hook = generation_goes_on,
                                  .hook_ctx = w},
                      .created = (int64_t)time(NULL),
                      .began = exchange_began(x),
                      .last_sent = os_now(),
                      .last_event = os_now(),
                      .refs = 2}; /* the exchange and the caller */
    snprintf(w->request_id, sizeof w->request_id, "%s", exchange_id(x));
    exchange_on_disconnect(x, generation_on_disconnect, w);
    return w;
}

void generation_send_head(generation *w)
{
    w->streaming = true;
    if (!w->head_sent)
        exchange_begin(w->x, 200, w->printer->content_type);
    w->head_sent = true;
}

static void generation_begin_stream(generation *w)
{
    if (!w->request.stream)
        return;
    generation_send_head(w);
    if (w->printer->begin != NULL)
        w->printer->begin(w);
    generation_check_sent(w);
}

size_t generation_text_bytes(const generation *w)
{
    size_t media = 0;
    for (size_t i = 0; i < w->request.n_media; i++)
        media += vision_item_bytes(&w->request.media[i]);
    return w->bytes > media ? w->bytes - media : 0;
}

void generation_prepare(generation *w)
{
    w->prepared = true;
    generation_prepare_jobs(w, choice_release);
}

static void generation_prepare_work(void *with)
{
    generation_prepare(with);
}

/* Event loop, after the worker: submits the jobs, or reports w->error. Gives the reference of the
 * worker back. */
static void generation_prepared(void *with)
{
    generation *w = with;
    if (w->x == NULL) {
        generation_release(w);
        return;
    }
    if (w->request.served != NULL && !w->head_sent)
        exchange_add_header(w->x, "mote-model", request_model_name(&w->request));
    if (w->error.code != NULL) {
        if (w->printer->streams_full && w->request.codex &&
            strcmp(w->error.code, "context_length_exceeded") == 0)
            generation_begin_stream(w);
        generation_fail(w, &w->error);
    } else if (generation_prompt_only(w)) {
        w->printer->rendered(w);
    } else {
        generation_enlist(w);
        generation_submit(w);
        if (!w->over)
            generation_begin_stream(w);
        if (!w->over && w->n_over == w->n_choices)
            generation_end(w);
    }
    generation_release(w);
}

static void generation_prepare_done(void *with)
{
    generation *w = with;
    w->work = NULL;
    generation_prepared(w);
}

static void generation_prepare_on_worker(generation *w)
{
    /* To wait for a load takes no time of the processor, but must not occupy the pool. */
    const size_t cost = w->request.load ? WORK_MEDIUM + 1 : generation_text_bytes(w);
    w->work = w;
    if (event_loop_work(w->ctx->loop, cost, generation_prepare_work, generation_prepare_done, w))
        return;
    w->work = NULL;
    http_error_no_memory(&w->error);
    generation_prepared(w);
}

/* The `done` function of the vision request. */
static void generation_encoded(void *with)
{
    generation *w = with;
    w->encoding = false;
    w->error = w->vision.error;
    if (w->x != NULL && w->error.code == NULL) {
        request_media_ready(&w->request);
        generation_prepare_on_worker(w);
        return;
    }
    if (w->x != NULL && strcmp(w->error.code, "context_length_exceeded") == 0) {
        generation_context_exceeded(w, w->vision.tokens, false);
    }
    generation_prepared(w);
}

void generation_run(generation *w)
{
    request *a = &w->request;
    w->counted = w->x != NULL && a->served != NULL;
    if (w->counted)
        served_model_begin(a->served);
    if (w->x == NULL || w->error.code != NULL || w->prepared) {
        generation_prepared(w);
        return;
    }
    if (a->n_media == 0) {
        generation_prepare_on_worker(w);
        return;
    }
    w->vision =
        (vision_request){.items = a->media,
                         .n = a->n_media,
                         .ns = a->ns,
                         .room = a->drop_oldest || generation_prompt_only(w) ? 0 : w->context,
                         .done = generation_encoded,
                         .with = w};
    w->encoding = vision_service_submit(a->vision, &w->vision);
    if (w->encoding)
        return;
    queue_full(&w->error);
    generation_prepared(w);
}
