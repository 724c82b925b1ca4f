/* SPDX-License-Identifier: Apache-2.0 */
/* messages_json.c - see request_json.h. Two passes: count, then fill. */
#include "chat/prompt/render.h"

#include "base/mem.h"
#include "chat/prompt/chat_limits.h"

#include <stdio.h>
#include <strings.h>

typedef struct reader {
    chat_parsed *out;
    chat_mode mode;
    size_t n_parts, n_calls, n_documents; /* used so far */
    size_t n_media;
} reader;

static mote_status out_of_memory(mote_error *err)
{
    return err_set(err, MOTE_E_MEMORY, "no memory for a conversation");
}

/* ---- content ---- */

static bool has(const json_node *object, const char *name)
{
    return json_node_get(object, name) != NULL;
}

static bool type_is(const json_node *item, const char *type)
{
    const json_node *node = json_node_get(item, "type");
    return json_node_is(node, JSON_IS_STRING) && str_is(json_node_text(node), type);
}

/* What the template asks of an item, in its order; then what else clients send. */
static chat_part_kind kind_of(const json_node *item, chat_mode mode, const char **text)
{
    *text = "text";
    if (!json_node_is(item, JSON_IS_OBJECT))
        return CHAT_PART_UNKNOWN;
    if (has(item, "image") || has(item, "image_url") || type_is(item, "image") ||
        (mode == CHAT_STABLE && type_is(item, "input_image")))
        return CHAT_PART_IMAGE;
    if (has(item, "video") || type_is(item, "video") ||
        (mode == CHAT_STABLE &&
         (has(item, "input_video") || has(item, "video_url") || type_is(item, "video_frames"))))
        return CHAT_PART_VIDEO;
    if (mode == CHAT_STABLE && type_is(item, "refusal") && has(item, "refusal"))
        *text = "refusal";
    return has(item, *text) ? CHAT_PART_TEXT : CHAT_PART_UNKNOWN;
}

/* Where a picture or film comes from: a string, or an object that has it as "url" or "data". */
static str source_of(const json_node *item)
{
    static const char *const names[] = {"image_url", "image", "video", "video_url", "input_video"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const json_node *node = json_node_get(item, names[i]);
        if (json_node_is(node, JSON_IS_OBJECT))
            node = json_node_get(node, has(node, "data") ? "data" : "url");
        if (json_node_is(node, JSON_IS_STRING))
            return json_node_text(node);
    }
    return (str){0};
}

static mote_status read_part(reader *r, const json_node *item, mote_error *err)
{
    const char *text;
    chat_part *part = &r->out->parts[r->n_parts++];
    part->kind = kind_of(item, r->mode, &text);
    if (part->kind == CHAT_PART_TEXT) {
        const json_node *value = json_node_get(item, text);
        if (!json_node_is(value, JSON_IS_STRING))
            return err_set(err, MOTE_E_ARG, "the text of a part of the content is not a string");
        part->text = json_node_text(value);
    } else if (part->kind != CHAT_PART_UNKNOWN) {
        part->text = source_of(item);
        if (++r->n_media > CHAT_MAX_IMAGES)
            return err_set(err, MOTE_E_ARG, "more than %d pictures and videos", CHAT_MAX_IMAGES);
    }
    return MOTE_OK;
}

static mote_status read_content(reader *r, chat_message *m, const json_node *content,
                                mote_error *err)
{
    m->parts = &r->out->parts[r->n_parts];
    switch (json_node_kind(content)) {
    case JSON_IS_ABSENT:
    case JSON_IS_NULL: return MOTE_OK;
    case JSON_IS_STRING:
        r->out->parts[r->n_parts++] =
            (chat_part){.kind = CHAT_PART_TEXT, .text = json_node_text(content)};
        m->n_parts = 1;
        return MOTE_OK;
    case JSON_IS_ARRAY: break;
    default: m->bad_content = true; return MOTE_OK;
    }
    m->n_parts = json_node_size(content);
    if (m->n_parts > CHAT_MAX_PARTS)
        return err_set(err, MOTE_E_ARG, "%zu parts of content are too many: at most %d", m->n_parts,
                       CHAT_MAX_PARTS);
    for (const json_node *item = json_node_first(content); item != NULL;
         item = json_node_next(item))
        TRY(read_part(r, item, err));
    return MOTE_OK;
}

/* ---- calls ---- */

/* A document of the request's own; `text` becomes its root. */
static mote_status own_document(reader *r, chat_call *call, str text, mote_error *err)
{
    json_doc *doc;
    TRY(json_doc_read(&doc, text, err));
    r->out->documents[r->n_documents++] = doc;
    r->out->n_documents = r->n_documents;
    call->arguments = json_doc_root(doc);
    return MOTE_OK;
}

/* What a model once wrote and no reader of JSON takes: it stays in the conversation as the text it
 * is, in one argument. An error would end the conversation for good, as its history comes with
 * every request. */
static mote_status keep_as_text(reader *r, chat_call *call, str text, mote_error *err)
{
    strbuf json = {0};
    r->out->odd_arguments++;
    strbuf_text(&json, "{\"arguments\": ");
    json_put_string(&json, text);
    strbuf_text(&json, "}");
    mote_status status = strbuf_check(&json, err);
    if (status == MOTE_OK)
        status = own_document(r, call, strbuf_view(&json), err);
    strbuf_fini(&json);
    return status;
}

/* Clients of OpenAI send arguments as the text they received; the template wants the object. */
static mote_status parse_arguments(reader *r, chat_call *call, str text, mote_error *err)
{
    if (text.n == 0)
        return MOTE_OK;
    const mote_status status = own_document(r, call, text, err);
    if (status == MOTE_E_FORMAT)
        return keep_as_text(r, call, text, err);
    TRY(status);
    if (json_node_is(call->arguments, JSON_IS_OBJECT))
        return MOTE_OK;
    const bool nothing = json_node_is(call->arguments, JSON_IS_NULL);
    call->arguments = NULL;
    json_doc_free(r->out->documents[--r->n_documents]);
    r->out->n_documents = r->n_documents;
    return nothing ? MOTE_OK : keep_as_text(r, call, text, err);
}

static mote_status read_call(reader *r, const json_node *node, mote_error *err)
{
    const json_node *function = json_node_get(node, "function");
    const json_node *from = function != NULL ? function : node;
    const json_node *name = json_node_get(from, "name");
    const json_node *arguments = json_node_get(from, "arguments");
    chat_call *call = &r->out->calls[r->n_calls++];
    if (!json_node_is(name, JSON_IS_STRING))
        return err_set(err, MOTE_E_ARG, "a tool call has no name");
    call->name = json_node_text(name);
    call->id = json_node_text(json_node_get(node, "id"));
    call->arguments = arguments;
    if (r->mode == CHAT_STABLE && json_node_is(arguments, JSON_IS_NULL))
        call->arguments = NULL;
    if (r->mode == CHAT_STABLE && json_node_is(arguments, JSON_IS_STRING)) {
        call->arguments = NULL;
        TRY(parse_arguments(r, call, json_node_text(arguments), err));
    }
    if (call->arguments != NULL && !json_node_is(call->arguments, JSON_IS_OBJECT))
        return err_set(err, MOTE_E_ARG, "the arguments of a call of %.*s are not an object",
                       STR_ARG(call->name));
    return MOTE_OK;
}

static mote_status read_calls(reader *r, chat_message *m, const json_node *calls, mote_error *err)
{
    m->calls = &r->out->calls[r->n_calls];
    if (!json_node_is(calls, JSON_IS_ARRAY))
        return MOTE_OK;
    m->n_calls = json_node_size(calls);
    if (m->n_calls > CHAT_MAX_CALLS)
        return err_set(err, MOTE_E_ARG, "%zu tool calls are too many: at most %d", m->n_calls,
                       CHAT_MAX_CALLS);
    for (const json_node *call = json_node_first(calls); call != NULL; call = json_node_next(call))
        TRY(read_call(r, call, err));
    return MOTE_OK;
}

/* ---- messages ---- */

static chat_role role_named(str name, chat_mode mode)
{
    static const struct {
        const char *name;
        chat_role role;
    } roles[] = {
        {"system", CHAT_ROLE_SYSTEM},       {"user", CHAT_ROLE_USER},
        {"assistant", CHAT_ROLE_ASSISTANT}, {"tool", CHAT_ROLE_TOOL},
        {"developer", CHAT_ROLE_DEVELOPER}, {"function", CHAT_ROLE_FUNCTION},
    };
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (str_is(name, roles[i].name) ||
            (mode == CHAT_STABLE && name.n == strlen(roles[i].name) &&
             strncasecmp(name.p, roles[i].name, name.n) == 0))
            return roles[i].role;
    return CHAT_ROLE_UNKNOWN;
}

/* An answer that was a refusal has its text beside the content. */
static const json_node *content_of(const json_node *node, chat_mode mode)
{
    const json_node *content = json_node_get(node, "content");
    const json_node *refusal = json_node_get(node, "refusal");
    const bool none = content == NULL || json_node_is(content, JSON_IS_NULL);
    return mode == CHAT_STABLE && none && json_node_is(refusal, JSON_IS_STRING) ? refusal : content;
}

/* The text of one of reasoning_details; NULL: it has none. */
static const json_node *detail_text(const json_node *detail)
{
    const json_node *text = json_node_get(detail, "text");
    return json_node_is(text, JSON_IS_STRING) ? text : NULL;
}

static const json_node *first_detail(const json_node *node)
{
    const json_node *list = json_node_get(node, "reasoning_details");
    return json_node_is(list, JSON_IS_ARRAY) ? json_node_first(list) : NULL;
}

/* There is room for all of them already, so that views of what is there stay. */
static void join_details(reader *r, chat_message *m, const json_node *node)
{
    strbuf *out = &r->out->details;
    const size_t from = out->n;
    for (const json_node *d = first_detail(node); d != NULL; d = json_node_next(d)) {
        m->has_reasoning |= detail_text(d) != NULL;
        strbuf_put(out, json_node_text(detail_text(d)));
    }
    if (m->has_reasoning)
        m->reasoning = out->n > from ? (str){out->p + from, out->n - from} : (str){"", 0};
}

static void read_reasoning(reader *r, chat_message *m, const json_node *node)
{
    const json_node *reasoning = json_node_get(node, "reasoning_content");
    if (r->mode == CHAT_STABLE && !json_node_is(reasoning, JSON_IS_STRING))
        reasoning = json_node_get(node, "reasoning");
    m->has_reasoning = json_node_is(reasoning, JSON_IS_STRING);
    m->reasoning = json_node_text(reasoning);
    if (r->mode == CHAT_STABLE && !m->has_reasoning)
        join_details(r, m, node);
}

static mote_status read_message(reader *r, chat_message *m, const json_node *node, mote_error *err)
{
    if (!json_node_is(node, JSON_IS_OBJECT))
        return err_set(err, MOTE_E_ARG, "it is not an object");
    m->role = role_named(json_node_text(json_node_get(node, "role")), r->mode);
    read_reasoning(r, m, node);
    m->call_id = json_node_text(json_node_get(node, "tool_call_id"));
    TRY(read_content(r, m, content_of(node, r->mode), err));
    return read_calls(r, m, json_node_get(node, "tool_calls"), err);
}

/* What a message will take of the common arrays; malformed ones count as if they were sound. */
static void count_message(const json_node *node, chat_mode mode, size_t *parts, size_t *calls)
{
    const json_node *content = content_of(node, mode);
    const json_node *made = json_node_get(node, "tool_calls");
    *parts += json_node_is(content, JSON_IS_STRING) ? 1 : json_node_size(content);
    *calls += json_node_size(made);
}

/* Room for all that the messages, `n` of them from `first` on, will take. */
static mote_status make_room(reader *r, const json_node *first, size_t n, mote_error *err)
{
    chat_parsed *out = r->out;
    size_t parts = 0, calls = 0, details = 0;
    for (const json_node *node = first; node != NULL; node = json_node_next(node)) {
        count_message(node, r->mode, &parts, &calls);
        for (const json_node *d = first_detail(node); d != NULL; d = json_node_next(d))
            details += json_node_text(detail_text(d)).n;
    }
    out->messages = mem_new(n, sizeof *out->messages);
    out->parts = mem_new(parts, sizeof *out->parts);
    out->calls = mem_new(calls, sizeof *out->calls);
    out->documents = mem_new(calls, sizeof *out->documents);
    if (out->messages == NULL || out->parts == NULL || out->calls == NULL ||
        out->documents == NULL || (details > 0 && !strbuf_reserve(&out->details, details)))
        return out_of_memory(err);
    return MOTE_OK;
}

static mote_status read_messages(reader *r, const json_node *messages, mote_error *err)
{
    chat_parsed *out = r->out;
    const size_t n = json_node_is(messages, JSON_IS_ARRAY) ? json_node_size(messages) : 0;
    const json_node *first = n > 0 ? json_node_first(messages) : NULL;
    size_t index = 0;
    if (n > CHAT_MAX_MESSAGES)
        return err_set(err, MOTE_E_ARG, "%zu messages are too many: at most %d", n,
                       CHAT_MAX_MESSAGES);
    TRY(make_room(r, first, n, err));
    for (const json_node *node = first; node != NULL; node = json_node_next(node), index++) {
        mote_status status = read_message(r, &out->messages[index], node, err);
        if (status == MOTE_E_ARG || status == MOTE_E_FORMAT) {
            char which[32];
            snprintf(which, sizeof which, "messages[%zu]", index);
            err_prefix(err, which);
            return MOTE_E_ARG;
        }
        TRY(status);
    }
    out->request.messages = out->messages;
    out->request.n_messages = n;
    return MOTE_OK;
}

/* ---- the rest ---- */

static mote_status read_tools(reader *r, const json_node *tools, mote_error *err)
{
    chat_parsed *out = r->out;
    if (json_node_is(tools, JSON_IS_ABSENT) || json_node_is(tools, JSON_IS_NULL) ||
        json_node_is(tools, JSON_IS_OBJECT))
        return MOTE_OK;
    if (!json_node_is(tools, JSON_IS_ARRAY))
        return err_set(err, MOTE_E_ARG, "tools is not an array");
    if (json_node_size(tools) > CHAT_MAX_TOOLS)
        return err_set(err, MOTE_E_ARG, "%u tools are too many: at most %d", json_node_size(tools),
                       CHAT_MAX_TOOLS);
    /* Those that are left out stand behind the others, in their own order. */
    const size_t n = json_node_size(tools);
    out->tools = mem_new(2 * n, sizeof *out->tools);
    if (out->tools == NULL)
        return out_of_memory(err);
    for (const json_node *tool = json_node_first(tools); tool != NULL;
         tool = json_node_next(tool)) {
        if (r->mode == CHAT_STABLE && has(tool, "type") && !type_is(tool, "function"))
            out->tools[n + out->tools_left_out++] = tool;
        else
            out->tools[out->request.n_tools++] = tool;
    }
    out->request.tools = out->tools;
    out->left_out = out->tools + n;
    return MOTE_OK;
}

static void read_settings(chat_request *q, const json_node *body)
{
    const json_node *settings = json_node_get(body, "chat_template_kwargs");
    const json_node *thinking = json_node_get(settings, "enable_thinking");
    const json_node *prompt = json_node_get(settings, "add_generation_prompt");
    if (!json_node_is(thinking, JSON_IS_BOOL))
        thinking = json_node_get(body, "enable_thinking");
    if (json_node_is(thinking, JSON_IS_BOOL)) /* the template asks for `true` or `false` itself */
        q->thinking = json_node_truth(thinking) ? CHAT_THINK_ON : CHAT_THINK_OFF;
    q->no_generation_prompt = json_node_is(prompt, JSON_IS_BOOL) && !json_node_truth(prompt);
    q->number_media = json_node_truth(json_node_get(settings, "add_vision_id"));
}

mote_status chat_parsed_read(chat_parsed *out, const json_node *body, chat_mode mode,
                             mote_error *err)
{
    *out = (chat_parsed){.request = {.mode = mode}};
    reader r = {.out = out, .mode = mode};
    read_settings(&out->request, body);
    mote_status status = read_messages(&r, json_node_get(body, "messages"), err);
    if (status == MOTE_OK)
        status = read_tools(&r, json_node_get(body, "tools"), err);
    if (status != MOTE_OK)
        chat_parsed_fini(out);
    return status;
}

void chat_parsed_fini(chat_parsed *parsed)
{
    for (size_t i = 0; i < parsed->n_documents; i++)
        json_doc_free(parsed->documents[i]);
    mem_free(parsed->documents);
    mem_free(parsed->messages);
    mem_free(parsed->parts);
    mem_free(parsed->calls);
    mem_free(parsed->tools);
    strbuf_fini(&parsed->details);
    *parsed = (chat_parsed){0};
}
