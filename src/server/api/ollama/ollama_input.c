/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ollama_input.c - reads the bodies of POST /api/chat and /api/generate.
 *
 * Messages are converted to OpenAI's form, where `thinking` is reasoning_content and `images` are
 * parts. A request without messages or prompt loads or unloads the model, depending on keep_alive.
 *
 * `context` of /api/generate: a reply carries the token ids of its conversation, and the next
 * request may send them instead of messages. The ids are split at the control tokens into
 * messages. Assistant messages keep their ids, so the prompt is equal to the one before and the
 * prefix cache applies.
 */
#include "server/api/ollama/ollama.h"

#include "base/mem.h"
#include "server/request/params.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- the `context` of /api/generate ---- */

typedef struct context_walk {
    const mote_model *model;
    mote_token start, end; /* <|im_start|>, <|im_end|> */
    const mote_token *ids; /* [n] */
    size_t n, at;
} context_walk;

/* A turn: <|im_start|> role \n content <|im_end|>. */
typedef struct turn_ids {
    const char *role; /* one of context_roles */
    const mote_token *ids;
    size_t n; /* between the two control tokens */
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

/* Number of ids that spell `role` and a newline; 0: they spell something else. */
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

/* false: no more turns, or (*bad) the ids are not a conversation. */
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
            return http_error_invalid(error, "context", "must have token ids of 0 to %u",
                                      (unsigned)chat_ctx->n_tokens - 1);
        ids[i++] = (mote_token)id;
    }
    *w = (context_walk){.model = chat_ctx->model,
                        .start = chat_ctx->template.tags[CHAT_TAG_IM_START],
                        .end = chat_ctx->template.tags[CHAT_TAG_IM_END],
                        .ids = ids,
                        .n = i};
    return true;
}

/* Writes the turns of `context` as messages. *system: the system text, if the first turn is one. */
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
    return !bad || http_error_invalid(error, "context", "must be the context of an earlier reply");
}

/* Gives the assistant messages of the request the ids they have in `context`. If a control token
 * follows "assistant\n", the newline ends its token and the ids behind it are the answer. If text
 * follows, one token may contain both; then the message is tokenized again from its text. */
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

/* ---- fields of both routes ---- */

static bool ollama_read_think(const request *a, http_error *error)
{
    const json_node *node = json_node_get(a->root, "think");
    const str word = json_node_text(node);
    mote_think think;
    uint32_t budget;
    if (!node_given(node) || json_node_is(node, JSON_IS_BOOL) ||
        (json_node_is(node, JSON_IS_STRING) && mote_think_parse(word.p, word.n, &think, &budget)))
        return true;
    return http_error_invalid(error, "think",
                              "must be one of true, false, \"low\", \"medium\", \"high\"");
}

static bool ollama_read_format(request *a, http_error *error)
{
    const json_node *format = json_node_get(a->root, "format");
    const str name = json_node_text(format);
    if (!node_given(format) || (json_node_is(format, JSON_IS_STRING) && name.n == 0))
        return true;
    if (json_node_is(format, JSON_IS_OBJECT))
        return request_json_schema(a, format, "format", error);
    if (str_is(name, "json"))
        return request_json_object(a, "format", error);
    return http_error_invalid(error, "format", "must be \"json\" or a JSON schema");
}

/* Member "content" with the images first and the text behind them. */
static bool ollama_put_images(strbuf *out, const json_node *images, const char *under, str text,
                              http_error *error)
{
    size_t i = 0;
    jw_key(out, "content");
    jw_open(out, '[');
    for (const json_node *e = json_node_first(images); e != NULL; e = json_node_next(e)) {
        char at[96];
        snprintf(at, sizeof at, "%simages[%zu]", under, i++);
        if (!json_node_is(e, JSON_IS_STRING))
            return http_error_invalid(error, at, "must be an image in base64");
        request_put_image(out, at, json_node_text(e));
    }
    jw_open(out, '{');
    jw_key_text(out, "type", "text");
    jw_key_str(out, "text", text);
    strbuf_text(out, "}]");
    return true;
}

/* Model name, options and the state of the dialect. */
static bool ollama_read_common(request *a, str *suffix, http_error *error)
{
    const json_node *options = json_node_get(a->root, "options");
    const param_limits limits = param_limits_of(a->served);
    a->own = mem_new(1, sizeof(ollama_state));
    if (a->own == NULL)
        return http_error_no_memory(error);
    if (!node_given(json_node_get(a->root, "stream")))
        a->stream = true;
    a->any_model = false;
    a->has_at = true;
    if (a->model.n == 0) {
        return request_missing(error, "model");
    }
    if (a->answer.sampling.top_logprobs > 0)
        a->logprobs = true;
    return request_model(a, suffix, error) && ollama_read_think(a, error) &&
           (!node_given(options) ||
            params_read(a, options, PARAM_IN_OLLAMA_OPTIONS, "options", &limits, error));
}

static bool ollama_read_answer(request *a, str suffix, http_error *error)
{
    return ollama_read_format(a, error) && request_extra_formats(a, error) &&
           request_thinking(a, CHAT_DIALECT_OLLAMA, suffix, error);
}

/* A request that only loads or unloads: renders an empty conversation and generates nothing. */
static bool ollama_load_only(request *a, http_error *error)
{
    ollama_state *state = a->own;
    strbuf out = {0};
    a->load = !a->has_keep_alive || a->keep_alive != 0;
    state->loaded = a->load ? "load" : "unload";
    a->prompt_only = true;
    strbuf_text(&out, "{\"messages\":[{\"role\":\"user\",\"content\":\"\"}]}");
    const json_node *made = request_made(a, &out, error);
    return made != NULL && request_conversation(a, made, 1, error);
}

/* "keep_alive": 0 in a request without messages or prompt. */
static bool ollama_unloads(request *a, bool generate)
{
    const json_node *node = json_node_get(a->root, "keep_alive");
    double seconds = -1;
    if (json_node_is(node, JSON_IS_NUMBER))
        seconds = json_node_double(node);
    else if (json_node_is(node, JSON_IS_STRING))
        str_duration(json_node_text(node).p, &seconds);
    ollama_state *state = seconds == 0 ? mem_new(1, sizeof *state) : NULL;
    if (state == NULL)
        return false;
    *state = (ollama_state){.generate = generate, .loaded = "unload"};
    a->own = state;
    a->prompt_only = true;
    return true;
}

static bool ollama_chat_is_empty(const request *a)
{
    return json_node_size(json_node_get(a->root, "messages")) == 0;
}

static bool ollama_generate_is_empty(const request *a)
{
    return json_node_text(json_node_get(a->root, "prompt")).n == 0 &&
           json_node_text(json_node_get(a->root, "suffix")).n == 0 &&
           json_node_size(json_node_get(a->root, "images")) == 0;
}

bool ollama_chat_unloads(request *a)
{
    return ollama_chat_is_empty(a) && ollama_unloads(a, false);
}

bool ollama_generate_unloads(request *a)
{
    return ollama_generate_is_empty(a) && ollama_unloads(a, true);
}

static void ollama_read_debug(request *a)
{
    ollama_state *state = a->own;
    state->show_prompt = json_node_truth(json_node_get(a->root, "_debug_render_only"));
    a->prompt_only |= state->show_prompt;
}

/* ---- chat ---- */

static void ollama_put_member(strbuf *out, const char *name, const json_node *node)
{
    if (!node_given(node))
        return;
    jw_key(out, name);
    jw_node(out, node);
}

static bool ollama_put_message(strbuf *out, const json_node *message, size_t index,
                               http_error *error)
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
    ollama_put_member(out, "role", json_node_get(message, "role"));
    if (json_node_size(images) == 0)
        ollama_put_member(out, "content", content);
    else if (!ollama_put_images(out, images, at, json_node_text(content), error))
        return false;
    if (json_node_text(thinking).n > 0)
        ollama_put_member(out, "reasoning_content", thinking);
    ollama_put_member(out, "tool_calls", json_node_get(message, "tool_calls"));
    ollama_put_member(out, "tool_call_id", json_node_get(message, "tool_call_id"));
    jw_close(out, '}');
    return true;
}

static bool ollama_read_messages(request *a, const json_node *messages, http_error *error)
{
    strbuf out = {0};
    size_t index = 0;
    bool good = true;
    strbuf_text(&out, "{\"messages\":[");
    for (const json_node *m = json_node_first(messages); good && m != NULL; m = json_node_next(m))
        good = ollama_put_message(&out, m, index++, error);
    strbuf_byte(&out, ']');
    ollama_put_member(&out, "tools", json_node_get(a->root, "tools"));
    strbuf_byte(&out, '}');
    const json_node *made = good ? request_made(a, &out, error) : NULL;
    strbuf_fini(&out);
    return made != NULL && request_conversation(a, made, 1, error);
}

bool ollama_read_chat(request *a, http_error *error)
{
    const json_node *messages = json_node_get(a->root, "messages");
    str suffix;
    if (!ollama_read_common(a, &suffix, error))
        return false;
    if (ollama_chat_is_empty(a))
        return ollama_load_only(a, error);
    ollama_read_debug(a);
    a->drop_oldest = json_node_truth(json_node_get(a->root, "truncate"));
    return ollama_read_messages(a, messages, error) &&
           request_tool_choice(a, json_node_get(a->root, "tool_choice"), "tool_choice", error) &&
           ollama_read_answer(a, suffix, error);
}

/* ---- generate ---- */

static bool generate_read_raw(request *a, http_error *error)
{
    static const char *const others[] = {"system", "template", "context"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const json_node *node = json_node_get(a->root, others[i]);
        if (node_given(node) && (json_node_text(node).n > 0 || json_node_size(node) > 0))
            return http_error_invalid(error, others[i], "and raw exclude each other");
    }
    a->parse_special = true;
    return request_add_prompt(a, json_node_text(json_node_get(a->root, "prompt")), error);
}

/* A prompt without the chat template has no thinking. */
static bool generate_read_plain(request *a, str after, http_error *error)
{
    ollama_state *state = a->own;
    const str before = json_node_text(json_node_get(a->root, "prompt"));
    state->plain = true;
    a->kind = REQUEST_COMPLETION;
    a->think = (chat_think_setting){.think = MOTE_THINK_OFF, .source = "raw"};
    a->answer.think = MOTE_THINK_OFF;
    const bool read = after.n > 0 ? request_add_fim_prompt(a, before, after, NULL, error)
                                  : generate_read_raw(a, error);
    return read && ollama_read_format(a, error) && request_extra_formats(a, error);
}

/* /api/generate with a chat template: turns of `context`, a changed system text, the prompt. */
static bool generate_read_question(request *a, http_error *error)
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
    const bool good = ollama_put_images(&out, json_node_get(a->root, "images"), "",
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
    const str after = json_node_text(json_node_get(a->root, "suffix"));
    str suffix;
    const bool has_images = json_node_size(json_node_get(a->root, "images")) > 0;
    if (!ollama_read_common(a, &suffix, error))
        return false;
    ((ollama_state *)a->own)->generate = true;
    a->template_is_text = true; /* Ollama's templates are Go templates */
    if (ollama_generate_is_empty(a))
        return ollama_load_only(a, error);
    ollama_read_debug(a);
    const bool plain = after.n > 0 || json_node_truth(json_node_get(a->root, "raw"));
    if (plain && has_images)
        return http_error_unsupported(error, "images",
                                      "an image without the chat template (raw or suffix)");
    if (plain)
        return generate_read_plain(a, after, error);
    a->drop_oldest = json_node_truth(json_node_get(a->root, "truncate"));
    return generate_read_question(a, error) && ollama_read_answer(a, suffix, error);
}
