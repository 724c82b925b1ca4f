/* SPDX-License-Identifier: Apache-2.0 */
/*
 * messages_input.c - a conversation as Anthropic's clients write it, in OpenAI's form.
 *
 * Their messages are made of blocks: results of tools stand inside messages of the user, calls
 * and thinking inside those of the assistant. They are written anew as messages of one kind
 * each, in the same order, and then read like everybody's. Nothing is lost but what cannot be
 * shown to the model; of that the client is warned.
 */
#include "server/api/anthropic/anthropic.h"

#include "base/mem.h"
#include "server/request/params.h"

#include <stdio.h>
#include <strings.h>

typedef struct writer {
    request *a;
    http_error *error;
    strbuf out;
    size_t message; /* number of the client's message */
    size_t block;   /* of its block */
    bool open;      /* a message of the user is being written */
} writer;

/* ---- small things ---- */

static bool type_is(const json_node *block, const char *type)
{
    return str_is(json_node_text(json_node_get(block, "type")), type);
}

static bool absent(const json_node *node)
{
    return node == NULL || json_node_is(node, JSON_IS_NULL);
}

static void warn_block(writer *w, const char *code)
{
    char at[96];
    snprintf(at, sizeof at, "/messages/%zu/content/%zu", w->message, w->block);
    request_warn(w->a, code, at);
}

/* `what` is the rest of the place: "", ".source" ... */
static bool wrong_block(writer *w, const char *what, const char *why)
{
    char at[96];
    snprintf(at, sizeof at, "messages[%zu].content[%zu]%s", w->message, w->block, what);
    return http_error_invalid(w->error, at, "%s", why);
}

/* ---- texts ---- */

static void put_part(writer *w, const char *before, str text)
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

static bool put_text(writer *w, const json_node *block)
{
    const json_node *text = json_node_get(block, "text");
    if (!json_node_is(text, JSON_IS_STRING))
        return wrong_block(w, ".text", "must be a string");
    put_part(w, "", json_node_text(text));
    return true;
}

/* The text blocks inside a document or a search result. */
static void put_texts_inside(writer *w, const json_node *content)
{
    if (json_node_is(content, JSON_IS_STRING))
        put_part(w, "", json_node_text(content));
    if (!json_node_is(content, JSON_IS_ARRAY))
        return;
    for (const json_node *b = json_node_first(content); b != NULL; b = json_node_next(b))
        if (type_is(b, "text"))
            put_part(w, "", json_node_text(json_node_get(b, "text")));
}

static bool put_document(writer *w, const json_node *block)
{
    const json_node *source = json_node_get(block, "source");
    if (type_is(source, "text"))
        put_part(w, "", json_node_text(json_node_get(source, "data")));
    else if (type_is(source, "content"))
        put_texts_inside(w, json_node_get(source, "content"));
    else
        return wrong_block(w, ".source.type", "must be text: other documents cannot be read");
    return true;
}

static bool put_search_result(writer *w, const json_node *block)
{
    static const char *const heads[] = {"title", "source"};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        const str text = json_node_text(json_node_get(block, heads[i]));
        if (text.n > 0) {
            put_part(w, "", text);
            put_part(w, "\n", (str){"", 0});
        }
    }
    put_texts_inside(w, json_node_get(block, "content"));
    return true;
}

static bool put_image(writer *w, const json_node *block)
{
    char at[96];
    const json_node *source = json_node_get(block, "source");
    if (!type_is(source, "base64")) {
        wrong_block(w, ".source", "is a picture to be fetched: send it as base64");
        w->error->code = "image_url_not_allowed";
        return false;
    }
    snprintf(at, sizeof at, "messages[%zu].content[%zu].source", w->message, w->block);
    request_put_image(&w->out, at, json_node_text(json_node_get(source, "data")));
    return true;
}

/* A block that is text or can be made into some, as parts of the message that is open. */
static bool put_block(writer *w, const json_node *block)
{
    if (type_is(block, "text"))
        return put_text(w, block);
    if (type_is(block, "image"))
        return put_image(w, block);
    if (type_is(block, "document"))
        return put_document(w, block);
    if (type_is(block, "search_result"))
        return put_search_result(w, block);
    warn_block(w, "block_type_ignored");
    return true;
}

static bool check_block(writer *w, const json_node *block)
{
    if (!json_node_is(block, JSON_IS_OBJECT))
        return wrong_block(w, "", "must be an object");
    if (!json_node_is(json_node_get(block, "type"), JSON_IS_STRING))
        return wrong_block(w, ".type", "must be a string");
    return true;
}

/* ---- messages of the user ---- */

static void begin_message(writer *w, const char *role)
{
    char at[64];
    snprintf(at, sizeof at, "messages[%zu]", w->message);
    jw_open(&w->out, '{');
    jw_key_text(&w->out, "role", role);
    jw_key_text(&w->out, "at", at);
}

static void open_user(writer *w, const char *role)
{
    if (w->open)
        return;
    begin_message(w, role);
    jw_key(&w->out, "content");
    jw_open(&w->out, '[');
    w->open = true;
}

static void close_user(writer *w)
{
    if (w->open)
        strbuf_text(&w->out, "]}");
    w->open = false;
}

static bool put_result(writer *w, const json_node *block)
{
    const json_node *content = json_node_get(block, "content");
    begin_message(w, "tool");
    jw_key_str(&w->out, "tool_call_id", json_node_text(json_node_get(block, "tool_use_id")));
    jw_key(&w->out, "content");
    jw_open(&w->out, '[');
    if (json_node_truth(json_node_get(block, "is_error")))
        put_part(w, "Error: ", (str){"", 0});
    if (json_node_is(content, JSON_IS_STRING))
        put_part(w, "", json_node_text(content));
    else if (json_node_is(content, JSON_IS_ARRAY))
        for (const json_node *b = json_node_first(content); b != NULL; b = json_node_next(b)) {
            if (!check_block(w, b) || !put_block(w, b))
                return false;
        }
    else if (!absent(content))
        return wrong_block(w, ".content", "must be a string or an array of blocks");
    strbuf_text(&w->out, "]}");
    return true;
}

static bool put_user_blocks(writer *w, const json_node *content, const char *role)
{
    size_t results = 0;
    w->block = 0;
    for (const json_node *b = json_node_first(content); b != NULL; b = json_node_next(b)) {
        if (!check_block(w, b))
            return false;
        if (type_is(b, "tool_result")) {
            close_user(w);
            results++;
            if (!put_result(w, b))
                return false;
        } else {
            open_user(w, role);
            if (!put_block(w, b))
                return false;
        }
        w->block++;
    }
    if (results == 0)
        open_user(w, role); /* an empty message is one nevertheless */
    close_user(w);
    return true;
}

/* ---- messages of the assistant ---- */

static bool put_calls(writer *w, const json_node *content)
{
    bool any = false;
    w->block = 0;
    for (const json_node *b = json_node_first(content); b != NULL;
         b = json_node_next(b), w->block++) {
        const json_node *input = json_node_get(b, "input");
        if (!type_is(b, "tool_use"))
            continue;
        if (!json_node_is(json_node_get(b, "name"), JSON_IS_STRING))
            return wrong_block(w, ".name", "must be a string");
        if (!absent(input) && !json_node_is(input, JSON_IS_OBJECT) &&
            !json_node_is(input, JSON_IS_STRING)) /* some clients print it first */
            return wrong_block(w, ".input", "must be an object");
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
        if (absent(input))
            strbuf_text(&w->out, "{}");
        else
            jw_node(&w->out, input);
        strbuf_text(&w->out, "}}");
    }
    if (any)
        jw_close(&w->out, ']');
    return true;
}

/* Thinking that was left out of the reply comes back empty: then nothing is known of it. */
static void put_thinking(writer *w, const json_node *content)
{
    bool any = false;
    for (const json_node *b = json_node_first(content); b != NULL; b = json_node_next(b)) {
        const str text = json_node_text(json_node_get(b, "thinking"));
        if (!type_is(b, "thinking") || text.n == 0)
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

static bool is_elsewhere(const json_node *block)
{
    return type_is(block, "thinking") || type_is(block, "redacted_thinking") ||
           type_is(block, "tool_use");
}

static bool put_assistant_blocks(writer *w, const json_node *content)
{
    begin_message(w, "assistant");
    jw_key(&w->out, "content");
    jw_open(&w->out, '[');
    w->block = 0;
    for (const json_node *b = json_node_first(content); b != NULL;
         b = json_node_next(b), w->block++) {
        if (!check_block(w, b) || (!is_elsewhere(b) && !put_block(w, b)))
            return false;
    }
    jw_close(&w->out, ']');
    put_thinking(w, content);
    if (!put_calls(w, content))
        return false;
    jw_close(&w->out, '}');
    return true;
}

/* ---- all of them ---- */

static const char *role_of(const json_node *message)
{
    static const char *const roles[] = {"user", "assistant", "system"};
    const str name = json_node_text(json_node_get(message, "role"));
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (name.n == strlen(roles[i]) && strncasecmp(name.p, roles[i], name.n) == 0)
            return roles[i];
    return NULL;
}

static bool put_message(writer *w, const json_node *message)
{
    const json_node *content = json_node_get(message, "content");
    const char *role = role_of(message);
    char at[64];
    snprintf(at, sizeof at, "messages[%zu]", w->message);
    if (!json_node_is(message, JSON_IS_OBJECT))
        return http_error_invalid(w->error, at, "must be an object");
    if (role == NULL) {
        snprintf(at, sizeof at, "messages[%zu].role", w->message);
        return http_error_invalid(w->error, at, "must be user, assistant or system");
    }
    if (absent(content) || json_node_is(content, JSON_IS_STRING)) {
        begin_message(w, role);
        jw_key_str(&w->out, "content", json_node_text(content));
        jw_close(&w->out, '}');
        return true;
    }
    snprintf(at, sizeof at, "messages[%zu].content", w->message);
    if (!json_node_is(content, JSON_IS_ARRAY))
        return http_error_invalid(w->error, at, "must be a string or an array of blocks");
    return strcmp(role, "assistant") == 0 ? put_assistant_blocks(w, content)
                                          : put_user_blocks(w, content, role);
}

/* A block that some clients put first and change with every request; nothing after it could
 * ever be found again. */
static bool is_volatile(str text)
{
    static const char head[] = "x-anthropic-billing-header";
    while (text.n > 0 && strchr(" \t\r\n", text.p[text.n - 1]) != NULL)
        text.n--;
    return text.n >= sizeof head - 1 && strncasecmp(text.p, head, sizeof head - 1) == 0 &&
           memchr(text.p, '\n', text.n) == NULL;
}

static bool put_system(writer *w, const json_node *system)
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
        if (!absent(block) && !json_node_is(node, JSON_IS_STRING))
            return http_error_invalid(w->error, at, "must be text");
        if (i == 0 && !w->a->settings->keep_volatile && is_volatile(text)) {
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

static void put_tool(writer *w, const json_node *tool)
{
    const json_node *type = json_node_get(tool, "type");
    const json_node *description = json_node_get(tool, "description");
    const json_node *schema = json_node_get(tool, "input_schema");
    const json_node *strict = json_node_get(tool, "strict");
    if (!absent(type) && !type_is(tool, "custom")) {
        jw_node(&w->out, tool); /* of a kind that nobody here knows: whoever reads it will say so */
        return;
    }
    jw_open(&w->out, '{');
    jw_key_text(&w->out, "type", "function");
    jw_key(&w->out, "function");
    jw_open(&w->out, '{');
    jw_key(&w->out, "name");
    jw_node(&w->out, json_node_get(tool, "name"));
    if (!absent(description)) {
        jw_key(&w->out, "description");
        jw_node(&w->out, description);
    }
    if (!absent(schema)) {
        jw_key(&w->out, "parameters");
        jw_node(&w->out, schema);
    }
    if (!absent(strict)) {
        jw_key(&w->out, "strict");
        jw_node(&w->out, strict);
    }
    strbuf_text(&w->out, "}}");
}

static bool put_all(writer *w, const json_node *body)
{
    const json_node *messages = json_node_get(body, "messages");
    const json_node *tools = json_node_get(body, "tools");
    strbuf_text(&w->out, "{\"messages\":[");
    if (!put_system(w, json_node_get(body, "system")))
        return false;
    for (const json_node *m = json_node_first(messages); m != NULL; m = json_node_next(m)) {
        if (!put_message(w, m))
            return false;
        w->message++;
    }
    strbuf_text(&w->out, "],\"tools\":[");
    if (json_node_is(tools, JSON_IS_ARRAY))
        for (const json_node *t = json_node_first(tools); t != NULL; t = json_node_next(t))
            put_tool(w, t);
    strbuf_text(&w->out, "]}");
    return true;
}

static bool read_conversation(request *a, http_error *error)
{
    const json_node *messages = json_node_get(a->root, "messages");
    writer w = {.a = a, .error = error};
    if (!json_node_is(messages, JSON_IS_ARRAY) || json_node_size(messages) == 0) {
        http_error_invalid(error, "messages", "must hold at least one message");
        error->code = absent(messages) ? "missing_field" : error->code;
        return false;
    }
    a->says_at = true;
    a->names = (request_names){"messages", "tools", "name", "input_schema"};
    const json_node *made = put_all(&w, a->root) ? request_made(a, &w.out, error) : NULL;
    strbuf_fini(&w.out);
    return made != NULL && request_conversation(a, made, 1, error);
}

/* ---- the rest ---- */

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
        http_error_invalid(error, "model", "is required");
        error->code = "missing_field";
        return false;
    }
    a->any_model = true;
    if (!absent(thinking) && absent(json_node_get(thinking, "type")))
        return http_error_invalid(error, "thinking.type", "is required");
    return request_model(a, &suffix, error) && read_conversation(a, error) &&
           request_tool_choice(a, json_node_get(a->root, "tool_choice"), "tool_choice", error) &&
           request_response_format(a, format, "output_config.format", error) &&
           request_extra_formats(a, error) &&
           request_thinking(a, CHAT_DIALECT_ANTHROPIC, suffix, error);
}

bool anthropic_read(request *a, http_error *error)
{
    if (absent(json_node_get(a->root, "max_tokens"))) {
        http_error_invalid(error, "max_tokens", "is required");
        error->code = "missing_field";
        return false;
    }
    return anthropic_read_prompt(a, error);
}
