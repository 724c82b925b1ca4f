/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ollama_input.c - POST /api/chat and /api/generate: what is asked for.
 *
 * Messages are nearly those of OpenAI; they are written anew for the sake of `thinking`. An
 * empty question is a wish to have the model loaded, which it is.
 */
#include "server/api/ollama/ollama.h"

#include "base/mem.h"
#include "server/request/params.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- the `context` of /api/generate ---- */

typedef struct context_walk {
    const mote_model *model;
    mote_token start, end; /* of a turn */
    const mote_token *ids; /* [n] */
    size_t n, at;
} context_walk;

/* A turn: <|im_start|> role \n content <|im_end|>. */
typedef struct turn_ids {
    const char *role; /* one of the constants below */
    const mote_token *ids;
    size_t n; /* without what surrounds them */
} turn_ids;

static const char *const context_roles[] = {"system", "user", "assistant"};

static void context_put_text(const context_walk *w, const mote_token *ids, size_t n, strbuf *out)
{
    for (size_t i = 0; i < n; i++) {
        size_t bytes;
        const char *text = mote_token_bytes(w->model, ids[i], &bytes);
        strbuf_put(out, (str){text, bytes});
    }
}

/* How many ids spell `role` and the line end after it; 0: they spell something else. */
static size_t context_role_ids(const context_walk *w, const mote_token *ids, size_t n,
                               const char *role)
{
    const size_t wanted = strlen(role) + 1;
    strbuf text = {0};
    size_t i = 0;
    while (i < n && text.n < wanted)
        context_put_text(w, &ids[i++], 1, &text);
    const bool is =
        text.n >= wanted && memcmp(text.p, role, wanted - 1) == 0 && text.p[wanted - 1] == '\n';
    strbuf_fini(&text);
    return is ? i : 0;
}

/* false: there are no more turns, or these are not the ids of a conversation (*bad). */
static bool context_next_turn(context_walk *w, turn_ids *out, bool *bad)
{
    *bad = false;
    if (w->at == w->n)
        return false;
    size_t end = ++w->at;
    *bad = w->ids[w->at - 1] != w->start;
    while (end < w->n && w->ids[end] != w->end)
        end++;
    out->role = NULL;
    for (size_t i = 0; i < sizeof context_roles / sizeof *context_roles; i++)
        if (context_role_ids(w, w->ids + w->at, end - w->at, context_roles[i]) > 0)
            out->role = context_roles[i];
    *bad |= out->role == NULL;
    out->ids = w->ids + w->at;
    out->n = end - w->at;
    w->at = end;
    while (w->at < w->n && w->ids[w->at] != w->start)
        w->at++;
    return !*bad;
}

static bool context_walk_open(context_walk *w, request *a, const json_node *context,
                              http_error *error)
{
    const chat_context *chat_ctx = served_model_chat_context(a->served);
    size_t i = 0;
    mote_token *ids = request_memory(a, json_node_size(context), sizeof *ids, error);
    if (ids == NULL)
        return false;
    for (const json_node *e = json_node_first(context); e != NULL; e = json_node_next(e)) {
        int64_t id;
        if (!json_node_int64(e, &id) || id < 0 || id >= (int64_t)chat_ctx->n_tokens)
            return http_error_invalid(error, "context", "must hold ids of tokens");
        ids[i++] = (mote_token)id;
    }
    *w = (context_walk){.model = chat_ctx->model,
                        .start = chat_ctx->how.tags[CHAT_TAG_IM_START],
                        .end = chat_ctx->how.tags[CHAT_TAG_IM_END],
                        .ids = ids,
                        .n = i};
    return true;
}

static bool context_put_messages(request *a, const json_node *context, strbuf *out, str *system,
                                 http_error *error)
{
    context_walk w;
    turn_ids turn;
    bool bad, first = true;
    if (!context_walk_open(&w, a, context, error))
        return false;
    while (context_next_turn(&w, &turn, &bad)) {
        const size_t head = strlen(turn.role) + 1;
        strbuf text = {0};
        context_put_text(&w, turn.ids, turn.n, &text);
        str content = strbuf_view(&text);
        content.p += head;
        content.n -= head;
        jw_open(out, '{');
        jw_key_text(out, "role", turn.role);
        jw_key_str(out, "content", content);
        jw_close(out, '}');
        if (first && turn.role == context_roles[0]) {
            const char *copy = request_copy(a, content, error);
            *system = (str){copy != NULL ? copy : "", copy != NULL ? content.n : 0};
        }
        first = false;
        strbuf_fini(&text);
    }
    return !bad || http_error_invalid(error, "context", "is not that of an earlier reply");
}

/* If a control token follows the line end, which is how answers begin, the role's ids end with
 * it. Where a letter follows they may not, and the text of the message has to do. */
static bool context_restore_tokens(request *a, const json_node *context, http_error *error)
{
    context_walk w;
    turn_ids turn;
    bool bad;
    size_t message = 0;
    if (!context_walk_open(&w, a, context, error))
        return false;
    while (context_next_turn(&w, &turn, &bad) && message < a->parsed.request.n_messages) {
        const size_t head = context_role_ids(&w, turn.ids, turn.n, turn.role);
        chat_message *m = &a->parsed.messages[message++];
        if (turn.role != context_roles[2] || head == turn.n ||
            !mote_token_is_control(w.model, turn.ids[head]))
            continue;
        m->tokens = turn.ids + head;
        m->n_tokens = turn.n - head;
    }
    return true;
}

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
        after.n > 0 ? request_add_fim_prompt(a, before, after, NULL, error) : read_raw(a, error);
    return read && read_format(a, error) && request_extra_formats(a, error);
}

static bool read_question(request *a, http_error *error)
{
    const json_node *context = json_node_get(a->root, "context");
    const str system = json_node_text(json_node_get(a->root, "system"));
    str earlier = {"", 0};
    strbuf out = {0}, past = {0};
    if (json_node_size(context) > 0 && !context_put_messages(a, context, &past, &earlier, error)) {
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
           (json_node_size(context) == 0 || context_restore_tokens(a, context, error));
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
