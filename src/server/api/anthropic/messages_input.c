/* SPDX-License-Identifier: Apache-2.0 */
/*
 * messages_input.c - reads the body of POST /v1/messages.
 *
 * Anthropic's messages consist of blocks: tool results are part of user messages, tool calls and
 * thinking part of assistant messages. They are converted to OpenAI's messages in the same order
 * and then read by request_conversation(). Blocks of unknown types are ignored with a warning.
 * Worker thread.
 */
#include "server/api/anthropic/anthropic.h"

#include "base/mem.h"
#include "server/request/params.h"

#include <stdio.h>
#include <strings.h>

typedef struct messages_writer {
    request *a;
    http_error *error;
    strbuf out;
    size_t message; /* index of the client's message */
    size_t block;   /* index of its block */
    bool open;      /* a user message is being written */
} messages_writer;

/* ---- helpers ---- */

static bool block_type_is(const json_node *block, const char *type)
{
    return str_is(json_node_text(json_node_get(block, "type")), type);
}

static void block_warn(messages_writer *w, const char *code)
{
    char at[96];
    snprintf(at, sizeof at, "/messages/%zu/content/%zu", w->message, w->block);
    request_warn(w->a, code, at);
}

/* Fails with the field messages[i].content[k]WHAT; always false. */
static bool block_invalid(messages_writer *w, const char *what, const char *why)
{
    char at[96];
    snprintf(at, sizeof at, "messages[%zu].content[%zu]%s", w->message, w->block, what);
    return http_error_invalid(w->error, at, "%s", why);
}

/* ---- blocks ---- */

static void block_put_part(messages_writer *w, const char *before, str text)
{
    jw_open(&w->out, '{');
    jw_key_text(&w->out, "type", "text");
    jw_key(&w->out, "text");
    strbuf_byte(&w->out, '"');
    jw_escaped(&w->out, str_of(before));
    jw_escaped(&w->out, text);
    strbuf_byte(&w->out, '"');
    jw_close(&w->out, '}');
}

static bool block_put_text_block(messages_writer *w, const json_node *block)
{
    const json_node *text = json_node_get(block, "text");
    if (!json_node_is(text, JSON_IS_STRING))
        return block_invalid(w, ".text", "must be a string");
    block_put_part(w, "", json_node_text(text));
    return true;
}

/* Text blocks of a document or a search result. */
static void block_put_inner_texts(messages_writer *w, const json_node *content)
{
    if (json_node_is(content, JSON_IS_STRING))
        block_put_part(w, "", json_node_text(content));
    if (!json_node_is(content, JSON_IS_ARRAY))
        return;
    for (const json_node *b = json_node_first(content); b != NULL; b = json_node_next(b))
        if (block_type_is(b, "text"))
            block_put_part(w, "", json_node_text(json_node_get(b, "text")));
}

static bool block_put_document(messages_writer *w, const json_node *block)
{
    const json_node *source = json_node_get(block, "source");
    if (block_type_is(source, "text"))
        block_put_part(w, "", json_node_text(json_node_get(source, "data")));
    else if (block_type_is(source, "content"))
        block_put_inner_texts(w, json_node_get(source, "content"));
    else
        return block_invalid(w, ".source.type",
                             "must be text or content; other documents are not supported");
    return true;
}

static bool block_put_search_result(messages_writer *w, const json_node *block)
{
    static const char *const heads[] = {"title", "source"};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        const str text = json_node_text(json_node_get(block, heads[i]));
        if (text.n > 0) {
            block_put_part(w, "", text);
            block_put_part(w, "\n", (str){"", 0});
        }
    }
    block_put_inner_texts(w, json_node_get(block, "content"));
    return true;
}

static bool block_put_image(messages_writer *w, const json_node *block)
{
    char at[96];
    const json_node *source = json_node_get(block, "source");
    if (!block_type_is(source, "base64")) {
        block_invalid(w, ".source", "must be of type base64; the server does not fetch image URLs");
        w->error->code = "image_url_not_allowed";
        return false;
    }
    snprintf(at, sizeof at, "messages[%zu].content[%zu].source", w->message, w->block);
    request_put_image(&w->out, at, json_node_text(json_node_get(source, "data")));
    return true;
}

/* Appends a block as parts of the open message. */
static bool block_put(messages_writer *w, const json_node *block)
{
    if (block_type_is(block, "text"))
        return block_put_text_block(w, block);
    if (block_type_is(block, "image"))
        return block_put_image(w, block);
    if (block_type_is(block, "document"))
        return block_put_document(w, block);
    if (block_type_is(block, "search_result"))
        return block_put_search_result(w, block);
    block_warn(w, "block_type_ignored");
    return true;
}

static bool block_check(messages_writer *w, const json_node *block)
{
    if (!json_node_is(block, JSON_IS_OBJECT))
        return block_invalid(w, "", "must be an object");
    if (!json_node_is(json_node_get(block, "type"), JSON_IS_STRING))
        return block_invalid(w, ".type", "must be a string");
    return true;
}

/* ---- user messages ---- */

static void message_begin(messages_writer *w, const char *role)
{
    char at[64];
    snprintf(at, sizeof at, "messages[%zu]", w->message);
    jw_open(&w->out, '{');
    jw_key_text(&w->out, "role", role);
    jw_key_text(&w->out, "at", at);
}

static void message_open_user(messages_writer *w, const char *role)
{
    if (w->open)
        return;
    message_begin(w, role);
    jw_key(&w->out, "content");
    jw_open(&w->out, '[');
    w->open = true;
}

static void message_close_user(messages_writer *w)
{
    if (w->open)
        strbuf_text(&w->out, "]}");
    w->open = false;
}

static bool message_put_tool_result(messages_writer *w, const json_node *block)
{
    const json_node *content = json_node_get(block, "content");
    message_begin(w, "tool");
    jw_key_str(&w->out, "tool_call_id", json_node_text(json_node_get(block, "tool_use_id")));
    jw_key(&w->out, "content");
    jw_open(&w->out, '[');
    if (json_node_truth(json_node_get(block, "is_error")))
        block_put_part(w, "Error: ", (str){"", 0});
    if (json_node_is(content, JSON_IS_STRING))
        block_put_part(w, "", json_node_text(content));
    else if (json_node_is(content, JSON_IS_ARRAY))
        for (const json_node *b = json_node_first(content); b != NULL; b = json_node_next(b)) {
            if (!block_check(w, b) || !block_put(w, b))
                return false;
        }
    else if (node_given(content))
        return block_invalid(w, ".content", "must be a string or an array of blocks");
    strbuf_text(&w->out, "]}");
    return true;
}

static bool message_put_user(messages_writer *w, const json_node *content, const char *role)
{
    size_t results = 0;
    w->block = 0;
    for (const json_node *b = json_node_first(content); b != NULL; b = json_node_next(b)) {
        if (!block_check(w, b))
            return false;
        if (block_type_is(b, "tool_result")) {
            message_close_user(w);
            results++;
            if (!message_put_tool_result(w, b))
                return false;
        } else {
            message_open_user(w, role);
            if (!block_put(w, b))
                return false;
        }
        w->block++;
    }
    if (results == 0)
        message_open_user(w, role); /* keep an empty message */
    message_close_user(w);
    return true;
}

/* ---- assistant messages ---- */

static bool message_put_calls(messages_writer *w, const json_node *content)
{
    bool any = false;
    w->block = 0;
    for (const json_node *b = json_node_first(content); b != NULL;
         b = json_node_next(b), w->block++) {
        const json_node *input = json_node_get(b, "input");
        if (!block_type_is(b, "tool_use"))
            continue;
        if (!json_node_is(json_node_get(b, "name"), JSON_IS_STRING))
            return block_invalid(w, ".name", "must be a string");
        if (node_given(input) && !json_node_is(input, JSON_IS_OBJECT) &&
            !json_node_is(input, JSON_IS_STRING)) /* some clients send it as a string */
            return block_invalid(w, ".input", "must be an object");
        if (!any) {
            jw_key(&w->out, "tool_calls");
            jw_open(&w->out, '[');
        }
        any = true;
        jw_open(&w->out, '{');
        jw_key_str(&w->out, "id", json_node_text(json_node_get(b, "id")));
        jw_key_text(&w->out, "type", "function");
        jw_key(&w->out, "function");
        jw_open(&w->out, '{');
        jw_key_str(&w->out, "name", json_node_text(json_node_get(b, "name")));
        jw_key(&w->out, "arguments");
        if (!node_given(input))
            strbuf_text(&w->out, "{}");
        else
            jw_node(&w->out, input);
        strbuf_text(&w->out, "}}");
    }
    if (any)
        jw_close(&w->out, ']');
    return true;
}

/* If the reply omitted the thinking text, the client sends an empty block back. It is skipped. */
static void message_put_thinking(messages_writer *w, const json_node *content)
{
    bool any = false;
    for (const json_node *b = json_node_first(content); b != NULL; b = json_node_next(b)) {
        const str text = json_node_text(json_node_get(b, "thinking"));
        if (!block_type_is(b, "thinking") || text.n == 0)
            continue;
        if (!any) {
            jw_key(&w->out, "reasoning_content");
            strbuf_byte(&w->out, '"');
        }
        any = true;
        jw_escaped(&w->out, text);
    }
    if (any)
        strbuf_byte(&w->out, '"');
}

static bool block_is_separate(const json_node *block)
{
    return block_type_is(block, "thinking") || block_type_is(block, "redacted_thinking") ||
           block_type_is(block, "tool_use");
}

static bool message_put_assistant(messages_writer *w, const json_node *content)
{
    message_begin(w, "assistant");
    jw_key(&w->out, "content");
    jw_open(&w->out, '[');
    w->block = 0;
    for (const json_node *b = json_node_first(content); b != NULL;
         b = json_node_next(b), w->block++) {
        if (!block_check(w, b) || (!block_is_separate(b) && !block_put(w, b)))
            return false;
    }
    jw_close(&w->out, ']');
    message_put_thinking(w, content);
    if (!message_put_calls(w, content))
        return false;
    jw_close(&w->out, '}');
    return true;
}

/* ---- messages ---- */

static const char *message_role(const json_node *message)
{
    static const char *const roles[] = {"user", "assistant", "system"};
    const str name = json_node_text(json_node_get(message, "role"));
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (name.n == strlen(roles[i]) && strncasecmp(name.p, roles[i], name.n) == 0)
            return roles[i];
    return NULL;
}

static bool message_put(messages_writer *w, const json_node *message)
{
    const json_node *content = json_node_get(message, "content");
    const char *role = message_role(message);
    char at[64];
    snprintf(at, sizeof at, "messages[%zu]", w->message);
    if (!json_node_is(message, JSON_IS_OBJECT))
        return http_error_invalid(w->error, at, "must be an object");
    if (role == NULL) {
        snprintf(at, sizeof at, "messages[%zu].role", w->message);
        return http_error_invalid(w->error, at, "must be user, assistant or system");
    }
    if (!node_given(content) || json_node_is(content, JSON_IS_STRING)) {
        message_begin(w, role);
        jw_key_str(&w->out, "content", json_node_text(content));
        jw_close(&w->out, '}');
        return true;
    }
    snprintf(at, sizeof at, "messages[%zu].content", w->message);
    if (!json_node_is(content, JSON_IS_ARRAY))
        return http_error_invalid(w->error, at, "must be a string or an array of blocks");
    return strcmp(role, "assistant") == 0 ? message_put_assistant(w, content)
                                          : message_put_user(w, content, role);
}

/* Some clients start the system text with a billing header that changes with every request. It
 * would make prefix reuse impossible, so it is dropped. */
static bool text_is_billing_header(str text)
{
    static const char head[] = "x-anthropic-billing-header";
    while (text.n > 0 && strchr(" \t\r\n", text.p[text.n - 1]) != NULL)
        text.n--;
    return text.n >= sizeof head - 1 && strncasecmp(text.p, head, sizeof head - 1) == 0 &&
           memchr(text.p, '\n', text.n) == NULL;
}

static bool messages_put_system(messages_writer *w, const json_node *system)
{
    bool any = false;
    size_t i = 0;
    const json_node *block = json_node_is(system, JSON_IS_ARRAY) ? json_node_first(system) : system;
    for (; block != NULL; i++) {
        const bool alone = block == system;
        const json_node *node = alone ? block : json_node_get(block, "text");
        const str text = json_node_text(node);
        char at[64];
        snprintf(at, sizeof at, alone ? "system" : "system[%zu]", i);
        if (node_given(block) && !json_node_is(node, JSON_IS_STRING))
            return http_error_invalid(w->error, at, "must be text");
        if (i == 0 && !w->a->settings->keep_billing_header && text_is_billing_header(text)) {
            request_warn(w->a, "volatile_line_dropped", "/system");
        } else if (text.n > 0) {
            if (!any)
                strbuf_text(&w->out, "{\"role\":\"system\",\"content\":\"");
            else
                strbuf_text(&w->out, "\\n\\n");
            any = true;
            jw_escaped(&w->out, text);
        }
        block = alone ? NULL : json_node_next(block);
    }
    if (any)
        strbuf_text(&w->out, "\"}");
    return true;
}

/* ---- tools ---- */

static void messages_put_tool(messages_writer *w, const json_node *tool)
{
    const json_node *type = json_node_get(tool, "type");
    const json_node *description = json_node_get(tool, "description");
    const json_node *schema = json_node_get(tool, "input_schema");
    const json_node *strict = json_node_get(tool, "strict");
    if (node_given(type) && !block_type_is(tool, "custom")) {
        jw_node(&w->out, tool); /* unknown type: ignored later, with a warning */
        return;
    }
    jw_open(&w->out, '{');
    jw_key_text(&w->out, "type", "function");
    jw_key(&w->out, "function");
    jw_open(&w->out, '{');
    jw_key(&w->out, "name");
    jw_node(&w->out, json_node_get(tool, "name"));
    if (node_given(description)) {
        jw_key(&w->out, "description");
        jw_node(&w->out, description);
    }
    if (node_given(schema)) {
        jw_key(&w->out, "parameters");
        jw_node(&w->out, schema);
    }
    if (node_given(strict)) {
        jw_key(&w->out, "strict");
        jw_node(&w->out, strict);
    }
    strbuf_text(&w->out, "}}");
}

static bool messages_put_body(messages_writer *w, const json_node *body)
{
    const json_node *messages = json_node_get(body, "messages");
    const json_node *tools = json_node_get(body, "tools");
    strbuf_text(&w->out, "{\"messages\":[");
    if (!messages_put_system(w, json_node_get(body, "system")))
        return false;
    for (const json_node *m = json_node_first(messages); m != NULL; m = json_node_next(m)) {
        if (!message_put(w, m))
            return false;
        w->message++;
    }
    strbuf_text(&w->out, "],\"tools\":[");
    if (json_node_is(tools, JSON_IS_ARRAY))
        for (const json_node *t = json_node_first(tools); t != NULL; t = json_node_next(t))
            messages_put_tool(w, t);
    strbuf_text(&w->out, "]}");
    return true;
}

static bool messages_read_conversation(request *a, http_error *error)
{
    const json_node *messages = json_node_get(a->root, "messages");
    messages_writer w = {.a = a, .error = error};
    if (!json_node_is(messages, JSON_IS_ARRAY) || json_node_size(messages) == 0) {
        http_error_invalid(error, "messages", "must have at least one message");
        error->code = !node_given(messages) ? "missing_field" : error->code;
        return false;
    }
    a->has_at = true;
    a->names = (request_names){"messages", "tools", "name", "input_schema"};
    const json_node *made = messages_put_body(&w, a->root) ? request_made(a, &w.out, error) : NULL;
    strbuf_fini(&w.out);
    return made != NULL && request_conversation(a, made, 1, error);
}

/* ---- body ---- */

bool anthropic_read_prompt(request *a, http_error *error)
{
    const json_node *config = json_node_get(a->root, "output_config");
    const json_node *format = json_node_get(config, "format");
    const json_node *thinking = json_node_get(a->root, "thinking");
    anthropic_state *state = mem_new(1, sizeof *state);
    str suffix = {"", 0};
    a->own = state;
    if (state == NULL)
        return http_error_no_memory(error);
    state->omit_thinking = str_is(json_node_text(json_node_get(thinking, "display")), "omitted");
    if (a->model.n == 0) {
        return request_missing(error, "model");
    }
    a->any_model = true;
    if (node_given(thinking) && !node_given(json_node_get(thinking, "type")))
        return http_error_invalid(error, "thinking.type", "is required");
    return request_model(a, &suffix, error) && messages_read_conversation(a, error) &&
           request_tool_choice(a, json_node_get(a->root, "tool_choice"), "tool_choice", error) &&
           request_response_format(a, format, "output_config.format", error) &&
           request_extra_formats(a, error) &&
           request_thinking(a, CHAT_DIALECT_ANTHROPIC, suffix, error);
}

bool anthropic_read(request *a, http_error *error)
{
    if (!node_given(json_node_get(a->root, "max_tokens"))) {
        return request_missing(error, "max_tokens");
    }
    return anthropic_read_prompt(a, error);
}
