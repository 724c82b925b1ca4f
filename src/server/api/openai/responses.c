/* SPDX-License-Identifier: Apache-2.0 */
/*
 * responses.c - POST /v1/responses: the order of its events.
 *
 * Every item is announced, told of in pieces and then repeated whole; no two are open at
 * once. The numbers of events have no gaps, and the ids of items are the same wherever they
 * appear.
 */
#include "server/api/openai/openai.h"

#include "server/generation/dialect.h"
#include "server/request/params.h"
#include "server/core/context.h"
#include "server/api/handlers.h"
#include "json/json_writer.h"

enum { QUIET = 15 }; /* seconds after which some readers want to see an event */

/* ---- events ---- */

static void open_event(generation *w, const char *type)
{
    jw_open(&w->out, '{');
    jw_key_text(&w->out, "type", type);
    jw_key_uint(&w->out, "sequence_number", w->said++);
}

static void send_event(generation *w, const char *type)
{
    jw_close(&w->out, '}');
    generation_sse(w, type);
}

static void tell_response(generation *w, const char *type, const char *status,
                          const http_error *error)
{
    open_event(w, type);
    jw_key(&w->out, "response");
    responses_put(w, status, error);
    send_event(w, type);
}

static void begin(generation *w)
{
    generation_random_id(w->id, sizeof w->id, "resp_");
    tell_response(w, "response.created", "in_progress", NULL);
    tell_response(w, "response.in_progress", "in_progress", NULL);
}

static void waiting(generation *w, const sched_job_status *where, double silent)
{
    generation_put_where(w, where);
    if (silent >= QUIET)
        tell_response(w, "response.in_progress", "in_progress", NULL);
}

/* ---- items ---- */

static item *last_item(choice *c)
{
    items *list = items_of(c);
    return list != NULL && list->n > 0 ? &list->at[list->n - 1] : NULL;
}

static size_t index_of(choice *c)
{
    return items_of(c)->n - 1;
}

static void tell_item(generation *w, choice *c, const char *type, bool done, const char *status)
{
    open_event(w, type);
    jw_key_uint(&w->out, "output_index", index_of(c));
    jw_key(&w->out, "item");
    items_put(w, c, last_item(c), done, status);
    send_event(w, type);
}

/* The places that events about a part of content have in common. */
static void open_part_event(generation *w, choice *c, const char *type)
{
    open_event(w, type);
    jw_key_text(&w->out, "item_id", last_item(c)->id);
    jw_key_uint(&w->out, "output_index", index_of(c));
    jw_key_uint(&w->out, "content_index", 0);
}

static void tell_part(generation *w, choice *c, const char *type, bool done)
{
    open_part_event(w, c, type);
    jw_key(&w->out, "part");
    items_put_part(w, c, last_item(c), done);
    send_event(w, type);
}

static void close_item(generation *w, choice *c, bool cut)
{
    const char *status = cut ? "incomplete" : "completed";
    items *list = items_of(c);
    item *it = last_item(c);
    if (it == NULL || !list->open)
        return;
    list->open = false;
    const bool thinks = it->kind == ITEM_REASONING;
    const char *type = thinks ? "response.reasoning_text.done" : "response.output_text.done";
    open_part_event(w, c, type);
    jw_key_str(&w->out, "text", items_text(c, it));
    if (!thinks)
        items_put_logprobs(w, c, it, it->first_token);
    send_event(w, type);
    tell_part(w, c, "response.content_part.done", true);
    tell_item(w, c, "response.output_item.done", true, status);
}

/* The item that a piece of text belongs to; NULL: no memory. */
static item *open_text(generation *w, choice *c, item_kind kind, size_t bytes)
{
    items *list = items_of(c);
    if (list == NULL)
        return NULL;
    if (list->open && last_item(c)->kind == kind)
        return last_item(c);
    close_item(w, c, false);
    item *it = items_add(c, kind);
    if (it == NULL)
        return NULL;
    const size_t end = kind == ITEM_REASONING ? c->reasoning.n : c->content.n;
    it->from = it->to = end - bytes; /* the piece is there already */
    it->first_token = c->told;
    items_of(c)->open = true;
    tell_item(w, c, "response.output_item.added", false, "in_progress");
    tell_part(w, c, "response.content_part.added", false);
    return last_item(c);
}

static void tell_text(generation *w, choice *c, str text, item_kind kind)
{
    const bool thinks = kind == ITEM_REASONING;
    const char *type = thinks ? "response.reasoning_text.delta" : "response.output_text.delta";
    item *it = open_text(w, c, kind, text.n);
    if (it == NULL) {
        w->out.failed = true;
        generation_send(w);
        return;
    }
    it->to += text.n;
    open_part_event(w, c, type);
    jw_key_str(&w->out, "delta", text);
    if (!thinks) {
        it->n_tokens = c->n_tokens - it->first_token;
        items_put_logprobs(w, c, it, c->told);
        c->told = c->n_tokens;
    }
    send_event(w, type);
}

/* ---- calls ---- */

static void open_call(generation *w, choice *c)
{
    close_item(w, c, false);
    if (items_add(c, items_is_custom(w, &c->open) ? ITEM_CUSTOM_CALL : ITEM_CALL) == NULL) {
        w->out.failed = true;
        generation_send(w);
        return;
    }
    tell_item(w, c, "response.output_item.added", false, "in_progress");
}

/* The next piece of what the last item is called with, or all of it. */
static void tell_input(generation *w, choice *c, bool done, str text)
{
    static const char *const types[2][2] = {
        {"response.function_call_arguments.delta", "response.function_call_arguments.done"},
        {"response.custom_tool_call_input.delta", "response.custom_tool_call_input.done"}};
    const item *it = last_item(c);
    const bool custom = it->kind == ITEM_CUSTOM_CALL;
    open_event(w, types[custom][done]);
    jw_key_text(&w->out, "item_id", it->id);
    jw_key_uint(&w->out, "output_index", index_of(c));
    if (done && !custom)
        jw_key_str(&w->out, "name", strbuf_view(&items_call(c, it)->name));
    jw_key_str(&w->out, !done ? "delta" : custom ? "input" : "arguments", text);
    send_event(w, types[custom][done]);
}

static void tell_piece(generation *w, choice *c, str piece)
{
    strbuf input = {0};
    const bool custom = last_item(c)->kind == ITEM_CUSTOM_CALL;
    if (custom)
        items_put_custom_piece(&c->open, piece.n, last_item(c), &input);
    const str text = custom ? strbuf_view(&input) : piece;
    w->out.failed |= input.failed;
    if (text.n > 0 || w->out.failed)
        tell_input(w, c, false, text);
    strbuf_fini(&input);
}

static void end_call(generation *w, choice *c, call_place place)
{
    strbuf input = {0};
    item *it = last_item(c);
    it->place = place;
    it->call = (place == CALL_WHOLE ? c->n_calls : c->n_lost) - 1;
    const bool custom = it->kind == ITEM_CUSTOM_CALL;
    if (custom)
        items_put_custom_input(items_call(c, it), &input);
    if (custom && input.n > it->told) /* it was not told in pieces */
        tell_input(w, c, false, (str){input.p + it->told, input.n - it->told});
    w->out.failed |= input.failed;
    tell_input(w, c, true,
               custom ? strbuf_view(&input) : strbuf_view(&items_call(c, it)->arguments));
    strbuf_fini(&input);
    tell_item(w, c, "response.output_item.done", true, "completed");
}

static void event(generation *w, choice *c, const chat_event *e)
{
    switch (e->kind) {
    case CHAT_EVENT_CALL_START: open_call(w, c); return;
    case CHAT_EVENT_CALL_ARGUMENTS: tell_piece(w, c, e->text); return;
    case CHAT_EVENT_CALL_END: end_call(w, c, CALL_WHOLE); return;
    case CHAT_EVENT_CALL_CANCEL: end_call(w, c, CALL_LOST); return;
    case CHAT_EVENT_REASONING: tell_text(w, c, e->text, ITEM_REASONING); return;
    default: tell_text(w, c, e->text, ITEM_MESSAGE); return;
    }
}

/* ---- the end ---- */

static bool is_cut(const choice *c)
{
    return c->cause != STOP_EOS && c->cause != STOP_TEXT && c->cause != STOP_CALLS;
}

/* Of a reply that is not streamed, and the empty message of an answer without a word. */
static void gather_items(choice *c)
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

static void choice_over(generation *w, choice *c)
{
    const items *list = items_of(c);
    const bool spoke = list != NULL && list->n > 0;
    if (spoke) {
        close_item(w, c, is_cut(c));
    } else if (open_text(w, c, ITEM_MESSAGE, 0) != NULL) {
        close_item(w, c, is_cut(c)); /* an answer has an item at least */
    }
}

/* Each by itself too, for those who name it instead of sending it back. */
static void store_items(generation *w)
{
    choice *c = &w->choices[0];
    const items *list = items_of(c);
    strbuf out = w->out; /* items are printed there */
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

static void store(generation *w, str reply)
{
    const responses_own *own = w->request.own;
    strbuf messages = {0};
    if (!own->store)
        return;
    strbuf_put(&messages, own->messages);
    responses_put_answer(&w->choices[0], &messages);
    const str texts[TEXT_STORE_TEXTS] = {[RESPONSES_REPLY] = reply,
                                         [RESPONSES_MESSAGES] = strbuf_view(&messages),
                                         [RESPONSES_ITEMS] = own->input_items};
    /* Forgetting is allowed, so nothing fails. */
    if (!messages.failed)
        text_store_put(w->ctx->responses, w->request.ns, str_of(w->id), texts, NULL);
    strbuf_fini(&messages);
    store_items(w);
}

static void end(generation *w)
{
    choice *c = &w->choices[0];
    const char *status = is_cut(c) ? "incomplete" : "completed";
    const char *type = is_cut(c) ? "response.incomplete" : "response.completed";
    if (!w->streaming) {
        generation_random_id(w->id, sizeof w->id, "resp_");
        gather_items(c);
        responses_put(w, status, NULL);
        store(w, strbuf_view(&w->out));
        generation_reply(w, 200);
        return;
    }
    open_event(w, type);
    jw_key(&w->out, "response");
    const size_t from = w->out.n;
    responses_put(w, status, NULL);
    if (!w->out.failed)
        store(w, (str){w->out.p + from, w->out.n - from});
    send_event(w, type);
}

static void broken(generation *w, const http_error *error)
{
    tell_response(w, "response.failed", "failed", error);
}

void handle_responses(exchange *x)
{
    static const dialect responses = {
        .label = "responses",
        .content_type = "text/event-stream; charset=utf-8",
        .call_prefix = "call_",
        .place = PARAM_IN_RESPONSES,
        .tells_full = true,
        .read = responses_read,
        .begin = begin,
        .event = event,
        .waiting = waiting,
        .choice_over = choice_over,
        .end = end,
        .broken = broken,
    };
    generation_start(x, &responses);
}

static void counted(generation *w)
{
    jw_open(&w->out, '{');
    jw_key_text(&w->out, "object", "response.input_tokens");
    jw_key_uint(&w->out, "input_tokens", w->prompts[0].n);
    jw_close(&w->out, '}');
    generation_reply(w, 200);
}

void handle_responses_input_tokens(exchange *x)
{
    static const dialect counting = {.label = "responses",
                                     .call_prefix = "call_",
                                     .place = PARAM_IN_RESPONSES,
                                     .read = responses_read,
                                     .rendered = counted};
    generation_start(x, &counting);
}
