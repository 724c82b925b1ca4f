/* SPDX-License-Identifier: Apache-2.0 */
/*
 * responses_input.c - reads the body of POST /v1/responses.
 *
 * Input items become messages of chat completions. Consecutive assistant items (reasoning, text,
 * calls) become one message. The messages of previous_response_id come first. Worker thread.
 */
#include "base/mem.h"
#include "server/core/context.h"
#include "server/api/openai/openai.h"
#include "json/json_writer.h"

#include <stdio.h>

enum { MAX_ITEMS = 2048 };

/* Builds the messages. Assistant items are collected until an item of another role follows. */
typedef struct input_writer {
    request *a;
    strbuf messages; /* JSON objects separated by commas */
    strbuf content, reasoning, calls;
    bool turn;        /* an assistant message is being collected */
    char at[32];      /* field of the current item, "input[3]" */
    char turn_at[32]; /* field of the first item of the assistant message */
} input_writer;

/* ---- messages ---- */

/* Ends the current assistant message, if one is open. */
static void input_flush(input_writer *w)
{
    strbuf *out = &w->messages;
    if (!w->turn)
        return;
    jw_open(out, '{');
    jw_key_text(out, "role", "assistant");
    jw_key_text(out, "at", w->turn_at);
    jw_key_str(out, "content", strbuf_view(&w->content));
    if (w->reasoning.n > 0)
        jw_key_str(out, "reasoning_content", strbuf_view(&w->reasoning));
    if (w->calls.n > 0) {
        jw_key(out, "tool_calls");
        jw_open(out, '[');
        strbuf_put(out, strbuf_view(&w->calls));
        jw_close(out, ']');
    }
    jw_close(out, '}');
    out->failed |= w->content.failed || w->reasoning.failed || w->calls.failed;
    w->content.n = w->reasoning.n = w->calls.n = 0;
    w->turn = false;
}

static void input_begin_turn(input_writer *w)
{
    if (!w->turn)
        memcpy(w->turn_at, w->at, sizeof w->turn_at);
    w->turn = true;
}

/* Converts a content part to the form of chat completions. */
static void input_put_part(strbuf *out, const json_node *part)
{
    const str type = json_node_text(json_node_get(part, "type"));
    const json_node *text = json_node_get(part, "text");
    if (str_is(type, "refusal"))
        text = json_node_get(part, "refusal");
    if (str_is(type, "input_text") || str_is(type, "output_text") || str_is(type, "text") ||
        str_is(type, "refusal") || str_is(type, "summary_text")) {
        jw_open(out, '{');
        jw_key_text(out, "type", "text");
        jw_key_str(out, "text", json_node_text(text));
        jw_close(out, '}');
    } else if (str_is(type, "input_image")) {
        jw_open(out, '{');
        jw_key_text(out, "type", "image_url");
        jw_key(out, "image_url");
        jw_node(out, json_node_get(part, "image_url"));
        jw_key(out, "detail");
        jw_node(out, json_node_get(part, "detail"));
        jw_close(out, '}');
    } else {
        jw_node(out, part); /* request_conversation() reports the error */
    }
}

static void input_put_content(strbuf *out, const json_node *content)
{
    jw_key(out, "content");
    if (!json_node_is(content, JSON_IS_ARRAY)) {
        jw_node(out, content);
        return;
    }
    jw_open(out, '[');
    for (const json_node *p = json_node_first(content); p != NULL; p = json_node_next(p))
        input_put_part(out, p);
    jw_close(out, ']');
}

static void input_add_text(strbuf *out, const json_node *content)
{
    strbuf_put(out, json_node_is(content, JSON_IS_STRING) ? json_node_text(content) : (str){"", 0});
    for (const json_node *p = json_node_first(content); p != NULL; p = json_node_next(p)) {
        const json_node *refusal = json_node_get(p, "refusal");
        strbuf_put(out, json_node_text(refusal != NULL ? refusal : json_node_get(p, "text")));
    }
}

static void input_add_message(input_writer *w, const json_node *node)
{
    const json_node *role = json_node_get(node, "role");
    if (str_is(json_node_text(role), "assistant")) {
        if (w->content.n > 0 || w->calls.n > 0)
            input_flush(w);
        input_begin_turn(w);
        input_add_text(&w->content, json_node_get(node, "content"));
        return;
    }
    input_flush(w);
    jw_open(&w->messages, '{');
    jw_key(&w->messages, "role");
    jw_node(&w->messages, role);
    jw_key_text(&w->messages, "at", w->at);
    input_put_content(&w->messages, json_node_get(node, "content"));
    jw_close(&w->messages, '}');
}

static void input_add_reasoning(input_writer *w, const json_node *node)
{
    const json_node *content = json_node_get(node, "content");
    const json_node *sealed = json_node_get(node, "encrypted_content");
    if (w->content.n > 0 || w->calls.n > 0)
        input_flush(w);
    input_begin_turn(w);
    if (json_node_size(content) > 0)
        input_add_text(&w->reasoning, content);
    else if (json_node_is(sealed, JSON_IS_STRING))
        responses_unseal(json_node_text(sealed), &w->reasoning);
}

/* A custom tool has one string argument, `input`. */
static void input_add_call(input_writer *w, const json_node *node, bool custom)
{
    strbuf *out = &w->calls;
    const json_node *arguments = json_node_get(node, "arguments");
    input_begin_turn(w);
    jw_open(out, '{');
    jw_key_str(out, "id", json_node_text(json_node_get(node, "call_id")));
    jw_key_text(out, "type", "function");
    jw_key(out, "function");
    jw_open(out, '{');
    jw_key(out, "name");
    jw_node(out, json_node_get(node, "name"));
    jw_key(out, "arguments");
    if (custom) {
        jw_open(out, '{');
        jw_key_str(out, "input", json_node_text(json_node_get(node, "input")));
        jw_close(out, '}');
    } else {
        jw_node(out, arguments);
    }
    jw_close(out, '}');
    jw_close(out, '}');
}

static void input_add_result(input_writer *w, const json_node *node)
{
    input_flush(w);
    jw_open(&w->messages, '{');
    jw_key_text(&w->messages, "role", "tool");
    jw_key_text(&w->messages, "at", w->at);
    jw_key_str(&w->messages, "tool_call_id", json_node_text(json_node_get(node, "call_id")));
    input_put_content(&w->messages, json_node_get(node, "output"));
    jw_close(&w->messages, '}');
}

static bool input_add_item(input_writer *w, const json_node *node, size_t index, http_error *error)
{
    const str type = json_node_text(json_node_get(node, "type"));
    snprintf(w->at, sizeof w->at, "input[%zu]", index);
    if (!json_node_is(node, JSON_IS_OBJECT))
        return http_error_invalid(error, w->at, "must be an object");
    if (type.n == 0 || str_is(type, "message"))
        input_add_message(w, node);
    else if (str_is(type, "function_call"))
        input_add_call(w, node, false);
    else if (str_is(type, "custom_tool_call"))
        input_add_call(w, node, true);
    else if (str_is(type, "function_call_output") || str_is(type, "custom_tool_call_output"))
        input_add_result(w, node);
    else if (str_is(type, "reasoning"))
        input_add_reasoning(w, node);
    else
        request_warn(w->a, "item_ignored", w->at);
    return true;
}

/* ---- items stored for GET /v1/responses/ID/input_items ---- */

static void put_input_item(strbuf *out, const json_node *node)
{
    char id[48];
    jw_open(out, '{');
    if (!node_given(json_node_get(node, "id"))) {
        generation_random_id(id, sizeof id, "msg_");
        jw_key_text(out, "id", id);
    }
    if (!node_given(json_node_get(node, "type")))
        jw_key_text(out, "type", "message");
    for (const json_node *m = json_node_first(node); m != NULL; m = json_node_next(m)) {
        const json_node *content = json_node_is(m, JSON_IS_STRING) ? m : NULL;
        jw_str(out, json_node_name(m));
        strbuf_byte(out, ':');
        if (content != NULL && str_is(json_node_name(m), "content")) {
            strbuf_text(out, "[{\"type\":\"input_text\",\"text\":");
            jw_str(out, json_node_text(content));
            strbuf_text(out, "}]");
        } else {
            jw_node(out, m);
        }
    }
    jw_close(out, '}');
}

static void put_input_text(strbuf *out, str text)
{
    char id[48];
    generation_random_id(id, sizeof id, "msg_");
    jw_open(out, '{');
    jw_key_text(out, "id", id);
    jw_key_text(out, "type", "message");
    jw_key_text(out, "role", "user");
    strbuf_text(out, ",\"content\":[{\"type\":\"input_text\",\"text\":");
    jw_str(out, text);
    strbuf_text(out, "}]");
    jw_close(out, '}');
}

/* ---- input ---- */

/* Looks up the items of all item_reference entries, in order; null for an unknown id. */
static bool input_find_references(input_writer *w, const json_node *input, const json_node **named,
                                  http_error *error)
{
    strbuf json = {0};
    jw_open(&json, '[');
    for (const json_node *i = json_node_first(input); i != NULL; i = json_node_next(i)) {
        strbuf found = {0};
        if (!str_is(json_node_text(json_node_get(i, "type")), "item_reference"))
            continue;
        const str id = json_node_text(json_node_get(i, "id"));
        if (text_store_get(w->a->ctx->items, w->a->ns, id, 0, &found))
            jw_raw(&json, strbuf_view(&found));
        else
            jw_null(&json);
        json.failed |= found.failed;
        strbuf_fini(&found);
    }
    jw_close(&json, ']');
    *named = json_node_first(request_made(w->a, &json, error));
    return error->code == NULL;
}

/* `listed` gets the items as GET /v1/responses/ID/input_items returns them. An item_reference is
 * replaced with the stored item. */
static bool input_read_items(input_writer *w, const json_node *input, strbuf *listed,
                             http_error *error)
{
    size_t index = 0;
    const json_node *named;
    if (json_node_size(input) < 1 || json_node_size(input) > MAX_ITEMS)
        return http_error_invalid(error, "input", "must have 1 to %d items, got %zu", MAX_ITEMS,
                                  (size_t)json_node_size(input));
    if (!input_find_references(w, input, &named, error))
        return false;
    for (const json_node *i = json_node_first(input); i != NULL; i = json_node_next(i)) {
        const json_node *meant = i;
        if (str_is(json_node_text(json_node_get(i, "type")), "item_reference")) {
            meant = json_node_is(named, JSON_IS_OBJECT) ? named : i;
            named = json_node_next(named);
        }
        if (!input_add_item(w, meant, index++, error))
            return false;
        put_input_item(listed, meant);
    }
    input_flush(w);
    return true;
}

static bool input_read(input_writer *w, strbuf *listed, http_error *error)
{
    const json_node *input = json_node_get(w->a->root, "input");
    if (!node_given(input)) {
        return request_missing(error, "input");
    }
    if (!json_node_is(input, JSON_IS_STRING))
        return input_read_items(w, input, listed, error);
    jw_open(&w->messages, '{');
    jw_key_text(&w->messages, "role", "user");
    jw_key_text(&w->messages, "at", "input");
    jw_key_str(&w->messages, "content", json_node_text(input));
    jw_close(&w->messages, '}');
    put_input_text(listed, json_node_text(input));
    return true;
}

static bool input_read_previous(input_writer *w, responses_state *own, http_error *error)
{
    const json_node *node = json_node_get(w->a->root, "previous_response_id");
    own->previous = json_node_text(node);
    if (own->previous.n == 0)
        return true;
    if (text_store_get(w->a->ctx->responses, w->a->ns, own->previous, RESPONSES_MESSAGES,
                       &w->messages))
        return true;
    http_error_set(error, HTTP_E_NOT_FOUND, "not_found", "no stored response with id %.*s",
                   STR_ARG(own->previous));
    snprintf(error->param, sizeof error->param, "previous_response_id");
    return false;
}

/* ---- tools ---- */

static void input_put_tool(strbuf *out, const json_node *tool)
{
    static const char *const copied[] = {"name", "description", "parameters", "strict"};
    const str type = json_node_text(json_node_get(tool, "type"));
    const bool custom = str_is(type, "custom");
    if (!custom && !str_is(type, "function")) {
        jw_node(out, tool); /* ignored later, with a warning */
        return;
    }
    jw_open(out, '{');
    jw_key_text(out, "type", "function");
    jw_key(out, "function");
    jw_open(out, '{');
    for (size_t i = 0; i < sizeof copied / sizeof *copied - (custom ? 2 : 0); i++) {
        const json_node *value = json_node_get(tool, copied[i]);
        if (!node_given(value))
            continue;
        jw_key(out, copied[i]);
        jw_node(out, value);
    }
    if (custom)
        jw_key_raw(out, "parameters",
                   "{\"type\":\"object\",\"properties\":{\"input\":{\"type\":\"string\"}},"
                   "\"required\":[\"input\"]}");
    jw_close(out, '}');
    jw_close(out, '}');
}

/* Instructions, messages and tools as a body of chat completions. */
static const json_node *input_make_body(request *a, str messages, http_error *error)
{
    strbuf json = {0};
    const json_node *instructions = json_node_get(a->root, "instructions");
    const json_node *tools = json_node_get(a->root, "tools");
    jw_open(&json, '{');
    jw_key(&json, "messages");
    jw_open(&json, '[');
    if (json_node_text(instructions).n > 0) {
        jw_open(&json, '{');
        jw_key_text(&json, "role", "system");
        jw_key_text(&json, "at", "instructions");
        jw_key_str(&json, "content", json_node_text(instructions));
        jw_close(&json, '}');
    }
    jw_raw(&json, messages);
    jw_close(&json, ']');
    if (node_given(tools)) {
        jw_key(&json, "tools");
        jw_open(&json, '[');
        for (const json_node *t = json_node_first(tools); t != NULL; t = json_node_next(t))
            input_put_tool(&json, t);
        jw_close(&json, ']');
    }
    jw_close(&json, '}');
    return request_made(a, &json, error);
}

/* ---- settings ---- */

static bool responses_read_settings(request *a, responses_state *own, http_error *error)
{
    const json_node *store = json_node_get(a->root, "store");
    const json_node *truncation = json_node_get(a->root, "truncation");
    const json_node *include = json_node_get(a->root, "include");
    own->store = !node_given(store) || json_node_truth(store);
    own->drops = a->drop_oldest =
        node_given(truncation) && str_is(json_node_text(truncation), "auto");
    if (node_given(truncation) && !own->drops && !str_is(json_node_text(truncation), "disabled"))
        return http_error_invalid(error, "truncation", "must be auto or disabled");
    for (const json_node *i = json_node_first(include); i != NULL; i = json_node_next(i)) {
        own->encrypted |= str_is(json_node_text(i), "reasoning.encrypted_content");
        a->logprobs |= str_is(json_node_text(i), "message.output_text.logprobs");
    }
    return true;
}

/* Transfers the memory of a text to the request. */
static bool input_keep(request *a, strbuf *text, str *out, http_error *error)
{
    const bool failed = text->failed;
    *out = strbuf_view(text);
    if (text->p == NULL)
        return !failed || http_error_no_memory(error);
    char *p = text->p;
    *text = (strbuf){0};
    return request_keep(a, p, error) && (!failed || http_error_no_memory(error));
}

static bool input_read_conversation(request *a, responses_state *own, http_error *error)
{
    input_writer w = {.a = a};
    strbuf listed = {0};
    bool fine = input_read_previous(&w, own, error) && input_read(&w, &listed, error);
    fine = fine && input_keep(a, &w.messages, &own->messages, error) &&
           input_keep(a, &listed, &own->input_items, error);
    strbuf_fini(&w.messages);
    strbuf_fini(&w.content);
    strbuf_fini(&w.reasoning);
    strbuf_fini(&w.calls);
    strbuf_fini(&listed);
    if (!fine)
        return false;
    a->has_at = true;
    a->names = (request_names){"input", "tools", "name", "parameters"};
    const json_node *body = input_make_body(a, own->messages, error);
    return body != NULL && request_conversation(a, body, 1, error);
}

bool responses_read(request *a, http_error *error)
{
    str suffix;
    responses_state *own = mem_new(1, sizeof *own);
    if (own == NULL)
        return http_error_no_memory(error);
    a->own = own;
    a->any_model = true;
    const json_node *text = json_node_get(a->root, "text");
    return request_model(a, &suffix, error) && responses_read_settings(a, own, error) &&
           input_read_conversation(a, own, error) &&
           request_tool_choice(a, json_node_get(a->root, "tool_choice"), "tool_choice", error) &&
           request_response_format(a, json_node_get(text, "format"), "text.format", error) &&
           request_extra_formats(a, error) &&
           request_thinking(a, CHAT_DIALECT_RESPONSES, suffix, error);
}
