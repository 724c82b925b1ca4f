/* SPDX-License-Identifier: Apache-2.0 */
/* messages_json.c - chat_parsed_read(), see render.h. Two passes: count and allocate, then fill. */
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

static mote_status reader_out_of_memory(mote_error *err)
{
    return err_set(err, MOTE_E_MEMORY, "out of memory: a conversation");
}

/* ---- content ---- */

static bool node_has(const json_node *object, const char *name)
{
    return json_node_get(object, name) != NULL;
}

static bool node_type_is(const json_node *item, const char *type)
{
    const json_node *node = json_node_get(item, "type");
    return json_node_is(node, JSON_IS_STRING) && str_is(json_node_text(node), type);
}

/* Decides as the template does, in the same order; stable mode also accepts other names that
 * clients use. *text: the member that holds the text of a text part. */
static chat_part_kind part_kind_of(const json_node *item, chat_mode mode, const char **text)
{
    *text = "text";
    if (!json_node_is(item, JSON_IS_OBJECT))
        return CHAT_PART_UNKNOWN;
    if (node_has(item, "image") || node_has(item, "image_url") || node_type_is(item, "image") ||
        (mode == CHAT_STABLE && node_type_is(item, "input_image")))
        return CHAT_PART_IMAGE;
    if (node_has(item, "video") || node_type_is(item, "video") ||
        (mode == CHAT_STABLE && (node_has(item, "input_video") || node_has(item, "video_url") ||
                                 node_type_is(item, "video_frames"))))
        return CHAT_PART_VIDEO;
    if (mode == CHAT_STABLE && node_type_is(item, "refusal") && node_has(item, "refusal"))
        *text = "refusal";
    return node_has(item, *text) ? CHAT_PART_TEXT : CHAT_PART_UNKNOWN;
}

/* The source of an image or video: a string, or an object with "data" or "url". */
static str part_source_of(const json_node *item)
{
    static const char *const names[] = {"image_url", "image", "video", "video_url", "input_video"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const json_node *node = json_node_get(item, names[i]);
        if (json_node_is(node, JSON_IS_OBJECT))
            node = json_node_get(node, node_has(node, "data") ? "data" : "url");
        if (json_node_is(node, JSON_IS_STRING))
            return json_node_text(node);
    }
    return (str){0};
}

static mote_status reader_part(reader *r, const json_node *item, mote_error *err)
{
    const char *text;
    chat_part *part = &r->out->parts[r->n_parts++];
    part->kind = part_kind_of(item, r->mode, &text);
    if (part->kind == CHAT_PART_TEXT) {
        const json_node *value = json_node_get(item, text);
        if (!json_node_is(value, JSON_IS_STRING))
            return err_set(err, MOTE_E_ARG, "%s of a content part must be a string", text);
        part->text = json_node_text(value);
    } else if (part->kind != CHAT_PART_UNKNOWN) {
        part->text = part_source_of(item);
        if (++r->n_media > CHAT_MAX_IMAGES)
            return err_set(err, MOTE_E_ARG, "more than %d images and videos", CHAT_MAX_IMAGES);
    }
    return MOTE_OK;
}

static mote_status reader_content(reader *r, chat_message *m, const json_node *content,
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
        return err_set(err, MOTE_E_ARG, "%zu content parts; at most %d", m->n_parts,
                       CHAT_MAX_PARTS);
    for (const json_node *item = json_node_first(content); item != NULL;
         item = json_node_next(item))
        TRY(reader_part(r, item, err));
    return MOTE_OK;
}

/* ---- calls ---- */

/* Parses `text` into a document that the request owns; its root becomes the arguments. */
static mote_status reader_add_document(reader *r, chat_call *call, str text, mote_error *err)
{
    json_doc *doc;
    TRY(json_doc_read(&doc, text, err));
    r->out->documents[r->n_documents++] = doc;
    r->out->n_documents = r->n_documents;
    call->arguments = json_doc_root(doc);
    return MOTE_OK;
}

/* Arguments that are not JSON: model output from an earlier answer. They become the text of one
 * argument. An error would end the conversation for good, because clients send the whole history
 * with every request. */
static mote_status reader_wrap_arguments(reader *r, chat_call *call, str text, mote_error *err)
{
    strbuf json = {0};
    r->out->odd_arguments++;
    strbuf_text(&json, "{\"arguments\": ");
    json_put_string(&json, text);
    strbuf_text(&json, "}");
    mote_status status = strbuf_check(&json, err);
    if (status == MOTE_OK)
        status = reader_add_document(r, call, strbuf_view(&json), err);
    strbuf_fini(&json);
    return status;
}

/* OpenAI's clients send arguments as a JSON string; the template expects an object. */
static mote_status reader_parse_arguments(reader *r, chat_call *call, str text, mote_error *err)
{
    if (text.n == 0)
        return MOTE_OK;
    const mote_status status = reader_add_document(r, call, text, err);
    if (status == MOTE_E_FORMAT)
        return reader_wrap_arguments(r, call, text, err);
    TRY(status);
    if (json_node_is(call->arguments, JSON_IS_OBJECT))
        return MOTE_OK;
    const bool nothing = json_node_is(call->arguments, JSON_IS_NULL);
    call->arguments = NULL;
    json_doc_free(r->out->documents[--r->n_documents]);
    r->out->n_documents = r->n_documents;
    return nothing ? MOTE_OK : reader_wrap_arguments(r, call, text, err);
}

static mote_status reader_call(reader *r, const json_node *node, mote_error *err)
{
    const json_node *function = json_node_get(node, "function");
    const json_node *from = function != NULL ? function : node;
    const json_node *name = json_node_get(from, "name");
    const json_node *arguments = json_node_get(from, "arguments");
    chat_call *call = &r->out->calls[r->n_calls++];
    call->name = json_node_is(name, JSON_IS_STRING) ? json_node_text(name) : (str){0};
    call->id = json_node_text(json_node_get(node, "id"));
    call->arguments = arguments;
    if (r->mode == CHAT_OFFICIAL) /* the renderer decides, as the template does */
        return MOTE_OK;
    if (call->name.p == NULL)
        return err_set(err, MOTE_E_ARG, "a tool call needs a name");
    if (json_node_is(arguments, JSON_IS_NULL))
        call->arguments = NULL;
    if (json_node_is(arguments, JSON_IS_STRING)) {
        call->arguments = NULL;
        TRY(reader_parse_arguments(r, call, json_node_text(arguments), err));
    }
    if (call->arguments != NULL && !json_node_is(call->arguments, JSON_IS_OBJECT))
        return err_set(err, MOTE_E_ARG, "the arguments of tool call %.*s must be an object",
                       STR_ARG(call->name));
    return MOTE_OK;
}

static mote_status reader_calls(reader *r, chat_message *m, const json_node *calls, mote_error *err)
{
    m->calls = &r->out->calls[r->n_calls];
    if (!json_node_is(calls, JSON_IS_ARRAY))
        return MOTE_OK;
    m->n_calls = json_node_size(calls);
    if (m->n_calls > CHAT_MAX_CALLS)
        return err_set(err, MOTE_E_ARG, "%zu tool calls; at most %d", m->n_calls, CHAT_MAX_CALLS);
    for (const json_node *call = json_node_first(calls); call != NULL; call = json_node_next(call))
        TRY(reader_call(r, call, err));
    return MOTE_OK;
}

/* ---- messages ---- */

static chat_role role_from_name(str name, chat_mode mode)
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

/* Without content, the text of a refused answer is in "refusal". */
static const json_node *message_content(const json_node *node, chat_mode mode)
{
    const json_node *content = json_node_get(node, "content");
    const json_node *refusal = json_node_get(node, "refusal");
    const bool none = content == NULL || json_node_is(content, JSON_IS_NULL);
    return mode == CHAT_STABLE && none && json_node_is(refusal, JSON_IS_STRING) ? refusal : content;
}

/* The text of one item of reasoning_details; NULL: none. */
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

/* reader_allocate() reserved the space, so earlier views of `details` stay valid. */
static void reader_join_details(reader *r, chat_message *m, const json_node *node)
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

static void reader_reasoning(reader *r, chat_message *m, const json_node *node)
{
    const json_node *reasoning = json_node_get(node, "reasoning_content");
    if (r->mode == CHAT_STABLE && !json_node_is(reasoning, JSON_IS_STRING))
        reasoning = json_node_get(node, "reasoning");
    m->has_reasoning = json_node_is(reasoning, JSON_IS_STRING);
    m->reasoning = json_node_text(reasoning);
    if (r->mode == CHAT_STABLE && !m->has_reasoning)
        reader_join_details(r, m, node);
}

static mote_status reader_message(reader *r, chat_message *m, const json_node *node,
                                  mote_error *err)
{
    if (!json_node_is(node, JSON_IS_OBJECT))
        return err_set(err, MOTE_E_ARG, "must be an object");
    m->role = role_from_name(json_node_text(json_node_get(node, "role")), r->mode);
    reader_reasoning(r, m, node);
    m->call_id = json_node_text(json_node_get(node, "tool_call_id"));
    TRY(reader_content(r, m, message_content(node, r->mode), err));
    return reader_calls(r, m, json_node_get(node, "tool_calls"), err);
}

/* Upper bounds of the parts and calls of a message. */
static void message_count(const json_node *node, chat_mode mode, size_t *parts, size_t *calls)
{
    const json_node *content = message_content(node, mode);
    const json_node *made = json_node_get(node, "tool_calls");
    *parts += json_node_is(content, JSON_IS_STRING) ? 1 : json_node_size(content);
    *calls += json_node_size(made);
}

/* Allocates the arrays for `n` messages from `first` on. */
static mote_status reader_allocate(reader *r, const json_node *first, size_t n, mote_error *err)
{
    chat_parsed *out = r->out;
    size_t parts = 0, calls = 0, details = 0;
    for (const json_node *node = first; node != NULL; node = json_node_next(node)) {
        message_count(node, r->mode, &parts, &calls);
        for (const json_node *d = first_detail(node); d != NULL; d = json_node_next(d))
            details += json_node_text(detail_text(d)).n;
    }
    out->messages = mem_new(n, sizeof *out->messages);
    out->parts = mem_new(parts, sizeof *out->parts);
    out->calls = mem_new(calls, sizeof *out->calls);
    out->documents = mem_new(calls, sizeof *out->documents);
    if (out->messages == NULL || out->parts == NULL || out->calls == NULL ||
        out->documents == NULL || (details > 0 && !strbuf_reserve(&out->details, details)))
        return reader_out_of_memory(err);
    return MOTE_OK;
}

static mote_status reader_messages(reader *r, const json_node *messages, mote_error *err)
{
    chat_parsed *out = r->out;
    const size_t n = json_node_is(messages, JSON_IS_ARRAY) ? json_node_size(messages) : 0;
    const json_node *first = n > 0 ? json_node_first(messages) : NULL;
    size_t index = 0;
    if (n > CHAT_MAX_MESSAGES)
        return err_set(err, MOTE_E_ARG, "%zu messages; at most %d", n, CHAT_MAX_MESSAGES);
    TRY(reader_allocate(r, first, n, err));
    for (const json_node *node = first; node != NULL; node = json_node_next(node), index++) {
        mote_status status = reader_message(r, &out->messages[index], node, err);
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

/* ---- tools and settings ---- */

static mote_status reader_tools(reader *r, const json_node *tools, mote_error *err)
{
    chat_parsed *out = r->out;
    if (json_node_is(tools, JSON_IS_ABSENT) || json_node_is(tools, JSON_IS_NULL) ||
        json_node_is(tools, JSON_IS_OBJECT))
        return MOTE_OK;
    if (!json_node_is(tools, JSON_IS_ARRAY))
        return err_set(err, MOTE_E_ARG, "tools must be an array");
    if (json_node_size(tools) > CHAT_MAX_TOOLS)
        return err_set(err, MOTE_E_ARG, "%u tools; at most %d", json_node_size(tools),
                       CHAT_MAX_TOOLS);
    /* One allocation: first the tools that are kept, then those that are left out. */
    const size_t n = json_node_size(tools);
    out->tools = mem_new(2 * n, sizeof *out->tools);
    if (out->tools == NULL)
        return reader_out_of_memory(err);
    for (const json_node *tool = json_node_first(tools); tool != NULL;
         tool = json_node_next(tool)) {
        if (r->mode == CHAT_STABLE && node_has(tool, "type") && !node_type_is(tool, "function"))
            out->tools[n + out->tools_left_out++] = tool;
        else
            out->tools[out->request.n_tools++] = tool;
    }
    out->request.tools = out->tools;
    out->left_out = out->tools + n;
    return MOTE_OK;
}

/* A setting of the template: from chat_template_kwargs, the top level, or the same two inside a
 * literal extra_body. In stable mode null is absent; for a template it is a value. */
static const json_node *setting_of(const json_node *body, const char *name, chat_mode mode)
{
    const json_node *extra = json_node_get(body, "extra_body");
    const json_node *const places[] = {json_node_get(body, "chat_template_kwargs"), body,
                                       json_node_get(extra, "chat_template_kwargs"), extra};
    const json_node *found = NULL;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const json_node *node = json_node_get(places[i], name);
        if (found == NULL || json_node_is(found, JSON_IS_NULL))
            found = node != NULL ? node : found;
    }
    return mode == CHAT_STABLE && json_node_is(found, JSON_IS_NULL) ? NULL : found;
}

/* At the top level, reasoning_effort is a field of the API with more words (thinking.h). */
static void reader_effort(chat_request *q, const json_node *body)
{
    static const struct {
        const char *word;
        chat_effort effort;
    } words[] = {{"low", CHAT_EFFORT_LOW},
                 {"medium", CHAT_EFFORT_MEDIUM},
                 {"high", CHAT_EFFORT_HIGH},
                 {"xhigh", CHAT_EFFORT_XHIGH}};
    const json_node *settings = json_node_get(body, "chat_template_kwargs");
    const json_node *value = json_node_get(settings, "reasoning_effort");
    if (value == NULL || (q->mode == CHAT_STABLE && !json_node_is(value, JSON_IS_STRING)))
        return;
    q->effort = CHAT_EFFORT_OTHER;
    q->effort_value = value;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (json_node_is(value, JSON_IS_STRING) && str_is(json_node_text(value), words[i].word))
            q->effort = words[i].effort;
}

/* The template compares with true and false; other types are different from both. */
void chat_settings_read(chat_request *q, const json_node *body)
{
    const json_node *thinking = setting_of(body, "enable_thinking", q->mode);
    const json_node *preserve = setting_of(body, "preserve_thinking", q->mode);
    const json_node *prompt = setting_of(body, "add_generation_prompt", q->mode);
    if (json_node_is(thinking, JSON_IS_BOOL))
        q->thinking = json_node_truth(thinking) ? CHAT_THINK_ON : CHAT_THINK_OFF;
    else if (thinking != NULL && q->mode == CHAT_OFFICIAL)
        q->thinking = CHAT_THINK_OTHER;
    if (preserve != NULL && (q->mode == CHAT_OFFICIAL || json_node_is(preserve, JSON_IS_BOOL)))
        q->preserve = json_node_truth(preserve) ? CHAT_PRESERVE_TRUE : CHAT_PRESERVE_NOT_TRUE;
    q->no_generation_prompt = json_node_is(prompt, JSON_IS_BOOL) && !json_node_truth(prompt);
    q->number_media = json_node_truth(setting_of(body, "add_vision_id", q->mode));
    reader_effort(q, body);
}

mote_status chat_parsed_read(chat_parsed *out, const json_node *body, chat_mode mode,
                             mote_error *err)
{
    *out = (chat_parsed){.request = {.mode = mode}};
    reader r = {.out = out, .mode = mode};
    chat_settings_read(&out->request, body);
    mote_status status = reader_messages(&r, json_node_get(body, "messages"), err);
    if (status == MOTE_OK)
        status = reader_tools(&r, json_node_get(body, "tools"), err);
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
