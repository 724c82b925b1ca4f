/* SPDX-License-Identifier: Apache-2.0 */
/* dialect_responses_read.c - a request of the Responses API as a conversation. */
#include "base/mem.h"
#include "server/api.h"
#include "server/dialects/dialect_responses.h"
#include "server/json_print.h"

#include <stdio.h>

enum { MAX_ITEMS = 2048 };

/* A conversation while it is written. A turn of the assistant gathers items until another
 * one begins. */
typedef struct writer {
    ask *a;
    strbuf messages; /* objects with commas between */
    strbuf content, reasoning, calls;
    bool turn; /* of the assistant, not written yet */
    /* What the client calls the item at hand, and the first one of the turn. */
    char at[32], turn_at[32];
} writer;

static bool given(const json_node *node)
{
    return node != NULL && !json_node_is(node, JSON_IS_NULL);
}

/* ---- messages ---- */

static void flush(writer *w)
{
    strbuf *out = &w->messages;
    if (!w->turn)
        return;
    jp_open(out, '{');
    jp_key_text(out, "role", "assistant");
    jp_key_text(out, "at", w->turn_at);
    jp_key_str(out, "content", strbuf_view(&w->content));
    if (w->reasoning.n > 0)
        jp_key_str(out, "reasoning_content", strbuf_view(&w->reasoning));
    if (w->calls.n > 0) {
        jp_key(out, "tool_calls");
        jp_open(out, '[');
        strbuf_put(out, strbuf_view(&w->calls));
        jp_close(out, ']');
    }
    jp_close(out, '}');
    out->failed |= w->content.failed || w->reasoning.failed || w->calls.failed;
    w->content.n = w->reasoning.n = w->calls.n = 0;
    w->turn = false;
}

static void begin_turn(writer *w)
{
    if (!w->turn)
        memcpy(w->turn_at, w->at, sizeof w->turn_at);
    w->turn = true;
}

/* Parts of content in the form of chat completions. */
static void put_part(strbuf *out, const json_node *part)
{
    const str type = json_node_text(json_node_get(part, "type"));
    const json_node *text = json_node_get(part, "text");
    if (str_is(type, "refusal"))
        text = json_node_get(part, "refusal");
    if (str_is(type, "input_text") || str_is(type, "output_text") || str_is(type, "text") ||
        str_is(type, "refusal") || str_is(type, "summary_text")) {
        jp_open(out, '{');
        jp_key_text(out, "type", "text");
        jp_key_str(out, "text", json_node_text(text));
        jp_close(out, '}');
    } else if (str_is(type, "input_image")) {
        jp_open(out, '{');
        jp_key_text(out, "type", "image_url");
        jp_key(out, "image_url");
        jp_node(out, json_node_get(part, "image_url"));
        jp_key(out, "detail");
        jp_node(out, json_node_get(part, "detail"));
        jp_close(out, '}');
    } else {
        jp_node(out, part); /* the conversation's reader says what is wrong with it */
    }
}

static void put_content(strbuf *out, const json_node *content)
{
    jp_key(out, "content");
    if (!json_node_is(content, JSON_IS_ARRAY)) {
        jp_node(out, content);
        return;
    }
    jp_open(out, '[');
    for (const json_node *p = json_node_first(content); p != NULL; p = json_node_next(p))
        put_part(out, p);
    jp_close(out, ']');
}

static void add_text(strbuf *out, const json_node *content)
{
    strbuf_put(out, json_node_is(content, JSON_IS_STRING) ? json_node_text(content) : (str){"", 0});
    for (const json_node *p = json_node_first(content); p != NULL; p = json_node_next(p)) {
        const json_node *refusal = json_node_get(p, "refusal");
        strbuf_put(out, json_node_text(refusal != NULL ? refusal : json_node_get(p, "text")));
    }
}

static void add_message(writer *w, const json_node *node)
{
    const json_node *role = json_node_get(node, "role");
    if (str_is(json_node_text(role), "assistant")) {
        if (w->content.n > 0 || w->calls.n > 0)
            flush(w);
        begin_turn(w);
        add_text(&w->content, json_node_get(node, "content"));
        return;
    }
    flush(w);
    jp_open(&w->messages, '{');
    jp_key(&w->messages, "role");
    jp_node(&w->messages, role);
    jp_key_text(&w->messages, "at", w->at);
    put_content(&w->messages, json_node_get(node, "content"));
    jp_close(&w->messages, '}');
}

static void add_reasoning(writer *w, const json_node *node)
{
    const json_node *content = json_node_get(node, "content");
    const json_node *sealed = json_node_get(node, "encrypted_content");
    if (w->content.n > 0 || w->calls.n > 0)
        flush(w);
    begin_turn(w);
    if (json_node_size(content) > 0)
        add_text(&w->reasoning, content);
    else if (json_node_is(sealed, JSON_IS_STRING))
        responses_unseal(json_node_text(sealed), &w->reasoning);
}

/* A custom tool takes one text. */
static void add_call(writer *w, const json_node *node, bool custom)
{
    strbuf *out = &w->calls;
    const json_node *arguments = json_node_get(node, "arguments");
    begin_turn(w);
    jp_open(out, '{');
    jp_key_str(out, "id", json_node_text(json_node_get(node, "call_id")));
    jp_key_text(out, "type", "function");
    jp_key(out, "function");
    jp_open(out, '{');
    jp_key(out, "name");
    jp_node(out, json_node_get(node, "name"));
    jp_key(out, "arguments");
    if (custom) {
        jp_open(out, '{');
        jp_key_str(out, "input", json_node_text(json_node_get(node, "input")));
        jp_close(out, '}');
    } else {
        jp_node(out, arguments);
    }
    jp_close(out, '}');
    jp_close(out, '}');
}

static void add_result(writer *w, const json_node *node)
{
    flush(w);
    jp_open(&w->messages, '{');
    jp_key_text(&w->messages, "role", "tool");
    jp_key_text(&w->messages, "at", w->at);
    jp_key_str(&w->messages, "tool_call_id", json_node_text(json_node_get(node, "call_id")));
    put_content(&w->messages, json_node_get(node, "output"));
    jp_close(&w->messages, '}');
}

static bool add_item(writer *w, const json_node *node, size_t index, api_error *error)
{
    const str type = json_node_text(json_node_get(node, "type"));
    snprintf(w->at, sizeof w->at, "input[%zu]", index);
    if (!json_node_is(node, JSON_IS_OBJECT))
        return ask_wrong(error, w->at, "must be an object");
    if (type.n == 0 || str_is(type, "message"))
        add_message(w, node);
    else if (str_is(type, "function_call"))
        add_call(w, node, false);
    else if (str_is(type, "custom_tool_call"))
        add_call(w, node, true);
    else if (str_is(type, "function_call_output") || str_is(type, "custom_tool_call_output"))
        add_result(w, node);
    else if (str_is(type, "reasoning"))
        add_reasoning(w, node);
    else
        ask_warn(w->a, "item_ignored", w->at);
    return true;
}

/* ---- the list of items, for those who ask for it later ---- */

static void put_input_item(strbuf *out, const json_node *node)
{
    char id[48];
    jp_open(out, '{');
    if (!given(json_node_get(node, "id"))) {
        answering_random_id(id, sizeof id, "msg_");
        jp_key_text(out, "id", id);
    }
    if (!given(json_node_get(node, "type")))
        jp_key_text(out, "type", "message");
    for (const json_node *m = json_node_first(node); m != NULL; m = json_node_next(m)) {
        const json_node *content = json_node_is(m, JSON_IS_STRING) ? m : NULL;
        jp_str(out, json_node_name(m));
        strbuf_byte(out, ':');
        if (content != NULL && str_is(json_node_name(m), "content")) {
            strbuf_text(out, "[{\"type\":\"input_text\",\"text\":");
            jp_str(out, json_node_text(content));
            strbuf_text(out, "}]");
        } else {
            jp_node(out, m);
        }
    }
    jp_close(out, '}');
}

static void put_input_text(strbuf *out, str text)
{
    char id[48];
    answering_random_id(id, sizeof id, "msg_");
    jp_open(out, '{');
    jp_key_text(out, "id", id);
    jp_key_text(out, "type", "message");
    jp_key_text(out, "role", "user");
    strbuf_text(out, ",\"content\":[{\"type\":\"input_text\",\"text\":");
    jp_str(out, text);
    strbuf_text(out, "}]");
    jp_close(out, '}');
}

/* ---- input ---- */

/* Items that are only named, as they were stored: in order, null for those nobody knows. */
static bool find_named(writer *w, const json_node *input, const json_node **named, api_error *error)
{
    strbuf json = {0};
    jp_open(&json, '[');
    for (const json_node *i = json_node_first(input); i != NULL; i = json_node_next(i)) {
        strbuf found = {0};
        if (!str_is(json_node_text(json_node_get(i, "type")), "item_reference"))
            continue;
        const str id = json_node_text(json_node_get(i, "id"));
        if (shelf_get(api_items(server_api(w->a->server)), w->a->realm, id, 0, &found))
            jp_raw(&json, strbuf_view(&found));
        else
            jp_null(&json);
        json.failed |= found.failed;
        strbuf_fini(&found);
    }
    jp_close(&json, ']');
    *named = json_node_first(ask_made(w->a, &json, error));
    return error->code == NULL;
}

static bool read_items(writer *w, const json_node *input, strbuf *listed, api_error *error)
{
    size_t index = 0;
    const json_node *named;
    if (json_node_size(input) < 1 || json_node_size(input) > MAX_ITEMS)
        return ask_wrong(error, "input", "must have from 1 to %d items", MAX_ITEMS);
    if (!find_named(w, input, &named, error))
        return false;
    for (const json_node *i = json_node_first(input); i != NULL; i = json_node_next(i)) {
        const json_node *meant = i;
        if (str_is(json_node_text(json_node_get(i, "type")), "item_reference")) {
            meant = json_node_is(named, JSON_IS_OBJECT) ? named : i;
            named = json_node_next(named);
        }
        if (!add_item(w, meant, index++, error))
            return false;
        put_input_item(listed, meant);
    }
    flush(w);
    return true;
}

static bool read_input(writer *w, strbuf *listed, api_error *error)
{
    const json_node *input = json_node_get(w->a->root, "input");
    if (!given(input)) {
        ask_wrong(error, "input", "is missing");
        error->code = "missing_field";
        return false;
    }
    if (!json_node_is(input, JSON_IS_STRING))
        return read_items(w, input, listed, error);
    jp_open(&w->messages, '{');
    jp_key_text(&w->messages, "role", "user");
    jp_key_text(&w->messages, "at", "input");
    jp_key_str(&w->messages, "content", json_node_text(input));
    jp_close(&w->messages, '}');
    put_input_text(listed, json_node_text(input));
    return true;
}

static bool read_previous(writer *w, responses_own *own, api_error *error)
{
    const json_node *node = json_node_get(w->a->root, "previous_response_id");
    own->previous = json_node_text(node);
    if (own->previous.n == 0)
        return true;
    if (shelf_get(api_responses(server_api(w->a->server)), w->a->realm, own->previous,
                  RESPONSES_MESSAGES, &w->messages))
        return true;
    api_error_set(error, API_E_NOT_FOUND, "not_found", "no response with the id %.*s is stored",
                  STR_ARG(own->previous));
    snprintf(error->param, sizeof error->param, "previous_response_id");
    return false;
}

/* ---- tools ---- */

static void put_tool(strbuf *out, const json_node *tool)
{
    static const char *const copied[] = {"name", "description", "parameters", "strict"};
    const str type = json_node_text(json_node_get(tool, "type"));
    const bool custom = str_is(type, "custom");
    if (!custom && !str_is(type, "function")) {
        jp_node(out, tool); /* left out later, with a warning */
        return;
    }
    jp_open(out, '{');
    jp_key_text(out, "type", "function");
    jp_key(out, "function");
    jp_open(out, '{');
    for (size_t i = 0; i < sizeof copied / sizeof *copied - (custom ? 2 : 0); i++) {
        const json_node *value = json_node_get(tool, copied[i]);
        if (!given(value))
            continue;
        jp_key(out, copied[i]);
        jp_node(out, value);
    }
    if (custom)
        jp_key_raw(out, "parameters",
                   "{\"type\":\"object\",\"properties\":{\"input\":{\"type\":\"string\"}},"
                   "\"required\":[\"input\"]}");
    jp_close(out, '}');
    jp_close(out, '}');
}

/* All of it as a body of chat completions. */
static const json_node *make_body(ask *a, str messages, api_error *error)
{
    strbuf json = {0};
    const json_node *instructions = json_node_get(a->root, "instructions");
    const json_node *tools = json_node_get(a->root, "tools");
    jp_open(&json, '{');
    jp_key(&json, "messages");
    jp_open(&json, '[');
    if (json_node_text(instructions).n > 0) {
        jp_open(&json, '{');
        jp_key_text(&json, "role", "system");
        jp_key_text(&json, "at", "instructions");
        jp_key_str(&json, "content", json_node_text(instructions));
        jp_close(&json, '}');
    }
    jp_raw(&json, messages);
    jp_close(&json, ']');
    if (given(tools)) {
        jp_key(&json, "tools");
        jp_open(&json, '[');
        for (const json_node *t = json_node_first(tools); t != NULL; t = json_node_next(t))
            put_tool(&json, t);
        jp_close(&json, ']');
    }
    jp_close(&json, '}');
    return ask_made(a, &json, error);
}

/* ---- the rest ---- */

static bool read_settings(ask *a, responses_own *own, api_error *error)
{
    const json_node *store = json_node_get(a->root, "store");
    const json_node *truncation = json_node_get(a->root, "truncation");
    const json_node *include = json_node_get(a->root, "include");
    own->store = !given(store) || json_node_truth(store);
    own->drops = a->drop_oldest = given(truncation) && str_is(json_node_text(truncation), "auto");
    if (given(truncation) && !own->drops && !str_is(json_node_text(truncation), "disabled"))
        return ask_wrong(error, "truncation", "must be auto or disabled");
    for (const json_node *i = json_node_first(include); i != NULL; i = json_node_next(i)) {
        own->encrypted |= str_is(json_node_text(i), "reasoning.encrypted_content");
        a->logprobs |= str_is(json_node_text(i), "message.output_text.logprobs");
    }
    return true;
}

/* Takes the memory of a text over to the ask. */
static bool keep(ask *a, strbuf *text, str *out, api_error *error)
{
    const bool failed = text->failed;
    *out = strbuf_view(text);
    if (text->p == NULL)
        return !failed || ask_no_memory(error);
    char *p = text->p;
    *text = (strbuf){0};
    return ask_keep(a, p, error) && (!failed || ask_no_memory(error));
}

static bool read_conversation(ask *a, responses_own *own, api_error *error)
{
    writer w = {.a = a};
    strbuf listed = {0};
    bool fine = read_previous(&w, own, error) && read_input(&w, &listed, error);
    fine = fine && keep(a, &w.messages, &own->messages, error) &&
           keep(a, &listed, &own->input_items, error);
    strbuf_fini(&w.messages);
    strbuf_fini(&w.content);
    strbuf_fini(&w.reasoning);
    strbuf_fini(&w.calls);
    strbuf_fini(&listed);
    if (!fine)
        return false;
    a->says_at = true;
    a->names = (ask_names){"input", "tools", "name", "parameters"};
    const json_node *body = make_body(a, own->messages, error);
    return body != NULL && ask_conversation(a, body, 1, error);
}

bool responses_read(ask *a, api_error *error)
{
    str suffix;
    responses_own *own = mem_new(1, sizeof *own);
    if (own == NULL)
        return ask_no_memory(error);
    a->own = own;
    a->any_model = true;
    const json_node *text = json_node_get(a->root, "text");
    return ask_model(a, &suffix, error) && read_settings(a, own, error) &&
           read_conversation(a, own, error) &&
           ask_tool_choice(a, json_node_get(a->root, "tool_choice"), "tool_choice", error) &&
           ask_response_format(a, json_node_get(text, "format"), "text.format", error) &&
           ask_extra_formats(a, error) && ask_thinking(a, CHAT_DIALECT_RESPONSES, suffix, error);
}
