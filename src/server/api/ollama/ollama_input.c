/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ollama_input.c - POST /api/chat and /api/generate: what is asked for.
 *
 * Messages are nearly those of OpenAI; they are written anew for the sake of `thinking`. An
 * empty question is a wish to have the model loaded, which it is.
 */
#include "server/api/ollama/ollama.h"

#include "base/mem.h"
#include "server/request/fim.h"
#include "server/request/params.h"

#include <stdio.h>
#include <stdlib.h>

static bool absent(const json_node *node)
{
    return node == NULL || json_node_is(node, JSON_IS_NULL);
}

/* ---- what both have ---- */

static bool read_think(const request *a, http_error *error)
{
    const json_node *node = json_node_get(a->root, "think");
    const str word = json_node_text(node);
    mote_think think;
    uint32_t budget;
    if (absent(node) || json_node_is(node, JSON_IS_BOOL) ||
        (json_node_is(node, JSON_IS_STRING) && mote_think_parse(word.p, word.n, &think, &budget)))
        return true;
    return http_error_invalid(error, "think",
                              "must be one of true, false, \"low\", \"medium\", \"high\"");
}

static bool read_format(request *a, http_error *error)
{
    const json_node *format = json_node_get(a->root, "format");
    const str name = json_node_text(format);
    if (absent(format) || (json_node_is(format, JSON_IS_STRING) && name.n == 0))
        return true;
    if (json_node_is(format, JSON_IS_OBJECT))
        return request_json_schema(a, format, "format", error);
    if (str_is(name, "json"))
        return request_json_object(a, "format", error);
    return http_error_invalid(error, "format", "must be \"json\" or a JSON schema");
}

/* The content of a message that shows pictures before it says something. */
static bool put_shown(strbuf *out, const json_node *images, const char *under, str text,
                      http_error *error)
{
    size_t i = 0;
    jw_key(out, "content");
    jw_open(out, '[');
    for (const json_node *e = json_node_first(images); e != NULL; e = json_node_next(e)) {
        char at[96];
        snprintf(at, sizeof at, "%simages[%zu]", under, i++);
        if (!json_node_is(e, JSON_IS_STRING))
            return http_error_invalid(error, at, "must be a picture in base64");
        request_put_image(out, at, json_node_text(e));
    }
    jw_open(out, '{');
    jw_key_text(out, "type", "text");
    jw_key_str(out, "text", text);
    strbuf_text(out, "}]");
    return true;
}

/* The state, the name and the options. */
static bool read_common(request *a, str *suffix, http_error *error)
{
    const json_node *options = json_node_get(a->root, "options");
    const param_limits limits = param_limits_of(a->served);
    a->own = mem_new(1, sizeof(ollama_state));
    if (a->own == NULL)
        return http_error_no_memory(error);
    if (absent(json_node_get(a->root, "stream")))
        a->stream = true;
    a->any_model = false;
    a->says_at = true;
    if (a->model.n == 0) {
        http_error_invalid(error, "model", "is required");
        error->code = "missing_field";
        return false;
    }
    if (a->answer.sampling.top_logprobs > 0)
        a->logprobs = true;
    return request_model(a, suffix, error) && read_think(a, error) &&
           (absent(options) ||
            params_read(a, options, PARAM_IN_OLLAMA_OPTIONS, "options", &limits, error));
}

static bool read_answer(request *a, str suffix, http_error *error)
{
    return read_format(a, error) && request_extra_formats(a, error) &&
           request_thinking(a, CHAT_DIALECT_OLLAMA, suffix, error);
}

/* There is nothing to answer: an empty conversation stands in for the prompt. */
static bool only_load(request *a, http_error *error)
{
    ollama_state *state = a->own;
    strbuf out = {0};
    a->load = !a->has_keep || a->keep_alive != 0;
    state->loaded = a->load ? "load" : "unload";
    a->prompt_only = true;
    strbuf_text(&out, "{\"messages\":[{\"role\":\"user\",\"content\":\"\"}]}");
    const json_node *made = request_made(a, &out, error);
    return made != NULL && request_conversation(a, made, 1, error);
}

static void read_debug(request *a)
{
    ollama_state *state = a->own;
    state->show_prompt = json_node_truth(json_node_get(a->root, "_debug_render_only"));
    a->prompt_only |= state->show_prompt;
}

/* ---- chat ---- */

static void put_member(strbuf *out, const char *name, const json_node *node)
{
    if (absent(node))
        return;
    jw_key(out, name);
    jw_node(out, node);
}

static bool put_message(strbuf *out, const json_node *message, size_t index, http_error *error)
{
    const json_node *thinking = json_node_get(message, "thinking");
    const json_node *images = json_node_get(message, "images");
    const json_node *content = json_node_get(message, "content");
    char at[64];
    snprintf(at, sizeof at, "messages[%zu]", index);
    if (!json_node_is(message, JSON_IS_OBJECT))
        return http_error_invalid(error, at, "must be an object");
    snprintf(at, sizeof at, "messages[%zu].", index);
    jw_open(out, '{');
    put_member(out, "role", json_node_get(message, "role"));
    if (json_node_size(images) == 0)
        put_member(out, "content", content);
    else if (!put_shown(out, images, at, json_node_text(content), error))
        return false;
    if (json_node_text(thinking).n > 0)
        put_member(out, "reasoning_content", thinking);
    put_member(out, "tool_calls", json_node_get(message, "tool_calls"));
    put_member(out, "tool_call_id", json_node_get(message, "tool_call_id"));
    jw_close(out, '}');
    return true;
}

static bool read_messages(request *a, const json_node *messages, http_error *error)
{
    strbuf out = {0};
    size_t index = 0;
    bool good = true;
    strbuf_text(&out, "{\"messages\":[");
    for (const json_node *m = json_node_first(messages); good && m != NULL; m = json_node_next(m))
        good = put_message(&out, m, index++, error);
    strbuf_byte(&out, ']');
    put_member(&out, "tools", json_node_get(a->root, "tools"));
    strbuf_byte(&out, '}');
    const json_node *made = good ? request_made(a, &out, error) : NULL;
    strbuf_fini(&out);
    return made != NULL && request_conversation(a, made, 1, error);
}

bool ollama_read_chat(request *a, http_error *error)
{
    const json_node *messages = json_node_get(a->root, "messages");
    str suffix;
    if (!read_common(a, &suffix, error))
        return false;
    if (json_node_size(messages) == 0)
        return only_load(a, error);
    read_debug(a);
    a->drop_oldest = json_node_truth(json_node_get(a->root, "truncate"));
    return read_messages(a, messages, error) &&
           request_tool_choice(a, json_node_get(a->root, "tool_choice"), "tool_choice", error) &&
           read_answer(a, suffix, error);
}

/* ---- generate ---- */

static bool read_raw(request *a, http_error *error)
{
    static const char *const others[] = {"system", "template", "context"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const json_node *node = json_node_get(a->root, others[i]);
        if (!absent(node) && (json_node_text(node).n > 0 || json_node_size(node) > 0))
            return http_error_invalid(error, others[i], "cannot be used with raw");
    }
    a->parse_special = true;
    return request_add_prompt(a, json_node_text(json_node_get(a->root, "prompt")), error);
}

/* Prompts as they are cannot think. */
static bool read_plain(request *a, str after, http_error *error)
{
    ollama_state *state = a->own;
    const str before = json_node_text(json_node_get(a->root, "prompt"));
    state->plain = true;
    a->kind = REQUEST_COMPLETION;
    a->think = (chat_think_setting){.think = MOTE_THINK_OFF, .source = "raw"};
    a->answer.think = MOTE_THINK_OFF;
    const bool read =
        after.n > 0 ? fim_add_prompt(a, before, after, NULL, error) : read_raw(a, error);
    return read && read_format(a, error) && request_extra_formats(a, error);
}

static bool read_question(request *a, http_error *error)
{
    const json_node *context = json_node_get(a->root, "context");
    const str system = json_node_text(json_node_get(a->root, "system"));
    str earlier = {"", 0};
    strbuf out = {0}, past = {0};
    if (json_node_size(context) > 0 && !ollama_context_put(a, context, &past, &earlier, error)) {
        strbuf_fini(&past);
        return false;
    }
    strbuf_text(&out, "{\"messages\":[");
    strbuf_put(&out, strbuf_view(&past));
    if (system.n > 0 && !str_eq(system, earlier)) {
        jw_open(&out, '{');
        jw_key_text(&out, "role", "system");
        jw_key_str(&out, "content", system);
        jw_close(&out, '}');
    }
    jw_open(&out, '{');
    jw_key_text(&out, "role", "user");
    const bool good = put_shown(&out, json_node_get(a->root, "images"), "",
                                json_node_text(json_node_get(a->root, "prompt")), error);
    strbuf_text(&out, "}]}");
    out.failed |= past.failed;
    strbuf_fini(&past);
    const json_node *made = good ? request_made(a, &out, error) : NULL;
    strbuf_fini(&out);
    return made != NULL && request_conversation(a, made, 1, error) &&
           (json_node_size(context) == 0 || ollama_context_tokens(a, context, error));
}

bool ollama_read_generate(request *a, http_error *error)
{
    const str prompt = json_node_text(json_node_get(a->root, "prompt"));
    const str after = json_node_text(json_node_get(a->root, "suffix"));
    str suffix;
    const bool shows = json_node_size(json_node_get(a->root, "images")) > 0;
    if (!read_common(a, &suffix, error))
        return false;
    ((ollama_state *)a->own)->generate = true;
    if (prompt.n == 0 && after.n == 0 && !shows)
        return only_load(a, error);
    read_debug(a);
    const bool plain = after.n > 0 || json_node_truth(json_node_get(a->root, "raw"));
    if (plain && shows)
        return http_error_unsupported(error, "images", "a picture without the template");
    if (plain)
        return read_plain(a, after, error);
    a->drop_oldest = json_node_truth(json_node_get(a->root, "truncate"));
    return read_question(a, error) && read_answer(a, suffix, error);
}
