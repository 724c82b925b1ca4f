/* SPDX-License-Identifier: Apache-2.0 */
/*
 * responses.c - POST /v1/responses: the order of its events.
 *
 * Each output item is sent as an `added` event, deltas and a `done` event with the complete item.
 * Only one item is open at a time. sequence_number has no gaps, and an item has the same id in all
 * events and in the stored response.
 */
#include "server/api/openai/openai.h"

#include "server/api/common/dialect.h"
#include "server/request/params.h"
#include "server/core/context.h"
#include "json/json_writer.h"

/* Some clients close a stream without events; repeat response.in_progress after this many seconds.
 */
enum { KEEP_ALIVE_SECONDS = 15 };

/* ---- events ---- */

static void responses_open_event(generation *w, const char *type)
{
    jw_open(&w->out, '{');
    jw_key_text(&w->out, "type", type);
    jw_key_uint(&w->out, "sequence_number", w->n_events++);
}

static void responses_send_event(generation *w, const char *type)
{
    jw_close(&w->out, '}');
    generation_send_sse(w, type);
}

static void responses_send_response(generation *w, const char *type, const char *status,
                                    const http_error *error)
{
    responses_open_event(w, type);
    jw_key(&w->out, "response");
    responses_put(w, status, error);
    responses_send_event(w, type);
}

static void responses_begin(generation *w)
{
    generation_random_id(w->id, sizeof w->id, "resp_");
    responses_send_response(w, "response.created", "in_progress", NULL);
    responses_send_response(w, "response.in_progress", "in_progress", NULL);
}

static void responses_waiting(generation *w, const sched_job_status *where, double silent)
{
    generation_send_status(w, where);
    if (silent >= KEEP_ALIVE_SECONDS)
        responses_send_response(w, "response.in_progress", "in_progress", NULL);
}

/* ---- items ---- */

static item *items_last(choice *c)
{
    items *list = items_of(c);
    return list != NULL && list->n > 0 ? &list->at[list->n - 1] : NULL;
}

static size_t items_last_index(choice *c)
{
    return items_of(c)->n - 1;
}

static void responses_send_item(generation *w, choice *c, const char *type, bool done,
                                const char *status)
{
    responses_open_event(w, type);
    jw_key_uint(&w->out, "output_index", items_last_index(c));
    jw_key(&w->out, "item");
    items_put(w, c, items_last(c), done, status);
    responses_send_event(w, type);
}

/* Opens an event about a content part: type, sequence number, item and indexes. */
static void responses_open_part_event(generation *w, choice *c, const char *type)
{
    responses_open_event(w, type);
    jw_key_text(&w->out, "item_id", items_last(c)->id);
    jw_key_uint(&w->out, "output_index", items_last_index(c));
    jw_key_uint(&w->out, "content_index", 0);
}

static void responses_send_part(generation *w, choice *c, const char *type, bool done)
{
    responses_open_part_event(w, c, type);
    jw_key(&w->out, "part");
    items_put_part(w, c, items_last(c), done);
    responses_send_event(w, type);
}

static void responses_close_item(generation *w, choice *c, bool cut)
{
    const char *status = cut ? "incomplete" : "completed";
    items *list = items_of(c);
    item *it = items_last(c);
    if (it == NULL || !list->open)
        return;
    list->open = false;
    const bool thinks = it->kind == ITEM_REASONING;
    const char *type = thinks ? "response.reasoning_text.done" : "response.output_text.done";
    responses_open_part_event(w, c, type);
    jw_key_str(&w->out, "text", items_text(c, it));
    if (!thinks)
        items_put_logprobs(w, c, it, it->first_token);
    responses_send_event(w, type);
    responses_send_part(w, c, "response.content_part.done", true);
    responses_send_item(w, c, "response.output_item.done", true, status);
}

/* The open text item of this kind; opens one if needed. NULL: out of memory. */
static item *responses_open_text(generation *w, choice *c, item_kind kind, size_t bytes)
{
    items *list = items_of(c);
    if (list == NULL)
        return NULL;
    if (list->open && items_last(c)->kind == kind)
        return items_last(c);
    responses_close_item(w, c, false);
    item *it = items_add(c, kind);
    if (it == NULL)
        return NULL;
    const size_t end = kind == ITEM_REASONING ? c->reasoning.n : c->content.n;
    it->from = it->to = end - bytes; /* the choice contains the piece already */
    it->first_token = c->n_sent;
    items_of(c)->open = true;
    responses_send_item(w, c, "response.output_item.added", false, "in_progress");
    responses_send_part(w, c, "response.content_part.added", false);
    return items_last(c);
}

static void responses_send_text(generation *w, choice *c, str text, item_kind kind)
{
    const bool thinks = kind == ITEM_REASONING;
    const char *type = thinks ? "response.reasoning_text.delta" : "response.output_text.delta";
    item *it = responses_open_text(w, c, kind, text.n);
    if (it == NULL) {
        w->out.failed = true;
        generation_send(w);
        return;
    }
    it->to += text.n;
    responses_open_part_event(w, c, type);
    jw_key_str(&w->out, "delta", text);
    if (!thinks) {
        it->n_tokens = c->n_tokens - it->first_token;
        items_put_logprobs(w, c, it, c->n_sent);
        c->n_sent = c->n_tokens;
    }
    responses_send_event(w, type);
}

/* ---- calls ---- */

static void responses_open_call(generation *w, choice *c)
{
    responses_close_item(w, c, false);
    if (items_add(c, items_is_custom(w, &c->open) ? ITEM_CUSTOM_CALL : ITEM_CALL) == NULL) {
        w->out.failed = true;
        generation_send(w);
        return;
    }
    responses_send_item(w, c, "response.output_item.added", false, "in_progress");
}

/* Sends the next piece of a call's arguments, or with `done` all of them. */
static void responses_send_arguments(generation *w, choice *c, bool done, str text)
{
    static const char *const types[2][2] = {
        {"response.function_call_arguments.delta", "response.function_call_arguments.done"},
        {"response.custom_tool_call_input.delta", "response.custom_tool_call_input.done"}};
    const item *it = items_last(c);
    const bool custom = it->kind == ITEM_CUSTOM_CALL;
    responses_open_event(w, types[custom][done]);
    jw_key_text(&w->out, "item_id", it->id);
    jw_key_uint(&w->out, "output_index", items_last_index(c));
    if (done && !custom)
        jw_key_str(&w->out, "name", strbuf_view(&items_call(c, it)->name));
    jw_key_str(&w->out, !done ? "delta" : custom ? "input" : "arguments", text);
    responses_send_event(w, types[custom][done]);
}

static void responses_send_arguments_delta(generation *w, choice *c, str piece)
{
    strbuf input = {0};
    const bool custom = items_last(c)->kind == ITEM_CUSTOM_CALL;
    if (custom)
        items_put_custom_piece(&c->open, piece.n, items_last(c), &input);
    const str text = custom ? strbuf_view(&input) : piece;
    w->out.failed |= input.failed;
    if (text.n > 0 || w->out.failed)
        responses_send_arguments(w, c, false, text);
    strbuf_fini(&input);
}

/* A tool call has ended: sends the arguments that were not streamed, and the done events. */
static void responses_close_call(generation *w, choice *c, call_place place)
{
    strbuf input = {0};
    item *it = items_last(c);
    it->place = place;
    it->call = (place == CALL_WHOLE ? c->n_calls : c->n_lost) - 1;
    const bool custom = it->kind == ITEM_CUSTOM_CALL;
    if (custom)
        items_put_custom_input(items_call(c, it), &input);
    if (custom && input.n > it->sent) /* not sent in pieces */
        responses_send_arguments(w, c, false, (str){input.p + it->sent, input.n - it->sent});
    w->out.failed |= input.failed;
    responses_send_arguments(
        w, c, true, custom ? strbuf_view(&input) : strbuf_view(&items_call(c, it)->arguments));
    strbuf_fini(&input);
    responses_send_item(w, c, "response.output_item.done", true, "completed");
}

static void responses_event(generation *w, choice *c, const chat_event *e)
{
    switch (e->kind) {
    case CHAT_EVENT_CALL_START: responses_open_call(w, c); return;
    case CHAT_EVENT_CALL_ARGUMENTS: responses_send_arguments_delta(w, c, e->text); return;
    case CHAT_EVENT_CALL_END: responses_close_call(w, c, CALL_WHOLE); return;
    case CHAT_EVENT_CALL_CANCEL: responses_close_call(w, c, CALL_LOST); return;
    case CHAT_EVENT_REASONING: responses_send_text(w, c, e->text, ITEM_REASONING); return;
    default: responses_send_text(w, c, e->text, ITEM_MESSAGE); return;
    }
}

/* ---- the end ---- */

static bool choice_is_cut(const choice *c)
{
    return c->cause != STOP_EOS && c->cause != STOP_TEXT && c->cause != STOP_CALLS;
}

/* Makes the items of a reply without stream. An empty answer gets one empty message. */
static void items_gather(choice *c)
{
    items *list = items_of(c);
    if (list == NULL || list->n > 0)
        return;
    if (c->reasoning.n > 0) {
        item *it = items_add(c, ITEM_REASONING);
        if (it != NULL)
            it->to = c->reasoning.n;
    }
    if (c->content.n > 0 || c->n_calls == 0) {
        item *it = items_add(c, ITEM_MESSAGE);
        if (it != NULL) {
            it->to = c->content.n;
            it->n_tokens = c->n_tokens;
        }
    }
    for (size_t i = 0; i < c->n_calls; i++) {
        const bool custom = items_is_custom(c->of, &c->calls[i]);
        item *it = items_add(c, custom ? ITEM_CUSTOM_CALL : ITEM_CALL);
        if (it != NULL) {
            it->place = CALL_WHOLE;
            it->call = i;
        }
    }
}

static void responses_choice_over(generation *w, choice *c)
{
    const items *list = items_of(c);
    if (list != NULL && list->n > 0) {
        responses_close_item(w, c, choice_is_cut(c));
    } else if (responses_open_text(w, c, ITEM_MESSAGE, 0) != NULL) {
        responses_close_item(w, c, choice_is_cut(c)); /* an answer has at least one item */
    }
}

/* Stores each item under its id, for later requests with item_reference. */
static void responses_store_items(generation *w)
{
    choice *c = &w->choices[0];
    const items *list = items_of(c);
    strbuf out = w->out; /* items_put() appends to w->out */
    w->out = (strbuf){0};
    for (size_t i = 0; list != NULL && i < list->n; i++) {
        w->out.n = 0;
        items_put(w, c, &list->at[i], true, "completed");
        const str texts[TEXT_STORE_TEXTS] = {strbuf_view(&w->out)};
        if (!w->out.failed)
            text_store_put(w->ctx->items, w->request.ns, str_of(list->at[i].id), texts, NULL);
    }
    strbuf_fini(&w->out);
    w->out = out;
}

static void responses_store(generation *w, str reply)
{
    const responses_state *own = w->request.own;
    strbuf messages = {0};
    if (!own->store)
        return;
    strbuf_put(&messages, own->messages);
    responses_put_answer(&w->choices[0], &messages);
    const str texts[TEXT_STORE_TEXTS] = {[RESPONSES_REPLY] = reply,
                                         [RESPONSES_MESSAGES] = strbuf_view(&messages),
                                         [RESPONSES_ITEMS] = own->input_items};
    /* The store is a cache: an entry that does not fit is dropped silently. */
    if (!messages.failed)
        text_store_put(w->ctx->responses, w->request.ns, str_of(w->id), texts, NULL);
    strbuf_fini(&messages);
    responses_store_items(w);
}

static void responses_end(generation *w)
{
    choice *c = &w->choices[0];
    const char *status = choice_is_cut(c) ? "incomplete" : "completed";
    const char *type = choice_is_cut(c) ? "response.incomplete" : "response.completed";
    if (!w->streaming) {
        generation_random_id(w->id, sizeof w->id, "resp_");
        items_gather(c);
        responses_put(w, status, NULL);
        responses_store(w, strbuf_view(&w->out));
        generation_reply(w, 200);
        return;
    }
    responses_open_event(w, type);
    jw_key(&w->out, "response");
    const size_t from = w->out.n;
    responses_put(w, status, NULL);
    if (!w->out.failed)
        responses_store(w, (str){w->out.p + from, w->out.n - from});
    responses_send_event(w, type);
}

static void responses_failed(generation *w, const http_error *error)
{
    if (w->id[0] == '\0') { /* before response.created: the model could not be loaded */
        openai_failed(w, error);
        return;
    }
    responses_send_response(w, "response.failed", "failed", error);
}

void handle_responses(exchange *x)
{
    static const dialect responses = {
        .label = "responses",
        .fields = PARAM_IN_RESPONSES,
        .read = responses_read,
        .printer =
            {
                .content_type = "text/event-stream; charset=utf-8",
                .call_prefix = "call_",
                .streams_full = true,
                .begin = responses_begin,
                .event = responses_event,
                .waiting = responses_waiting,
                .choice_over = responses_choice_over,
                .end = responses_end,
                .failed = responses_failed,
            },
    };
    dispatch_start(x, &responses);
}

static void responses_reply_token_count(generation *w)
{
    jw_open(&w->out, '{');
    jw_key_text(&w->out, "object", "response.input_tokens");
    jw_key_uint(&w->out, "input_tokens", w->prompts[0].n);
    jw_close(&w->out, '}');
    generation_reply(w, 200);
}

void handle_responses_input_tokens(exchange *x)
{
    static const dialect counting = {
        .label = "responses",
        .fields = PARAM_IN_RESPONSES,
        .read = responses_read,
        .printer =
            {
                .call_prefix = "call_",
                .rendered = responses_reply_token_count,
            },
    };
    dispatch_start(x, &counting);
}
