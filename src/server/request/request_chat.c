/* SPDX-License-Identifier: Apache-2.0 */
/*
 * request_chat.c - the conversation of a request: messages, tools, tool choice, thinking and the
 * response format.
 *
 * Every function takes JSON in OpenAI's form; a dialect converts its own form first. Worker thread.
 */
#include "base/mem.h"
#include "chat/prompt/chat_limits.h"
#include "server/request/request.h"

#include <stdio.h>
#include <strings.h>

/* ---- messages ---- */

static bool part_is_readable(const chat_part *part)
{
    return part->kind == CHAT_PART_TEXT || part->kind == CHAT_PART_IMAGE ||
           part->kind == CHAT_PART_VIDEO;
}

static bool conversation_check_messages(request *a, http_error *error)
{
    const chat_parsed *p = &a->parsed;
    char at[REQUEST_AT];
    for (size_t i = 0; i < p->request.n_messages; i++) {
        const chat_message *m = &p->messages[i];
        bool readable = true;
        for (size_t k = 0; k < m->n_parts; k++)
            readable = readable && part_is_readable(&m->parts[k]);
        if (m->role != CHAT_ROLE_UNKNOWN && !m->bad_content && readable)
            continue;
        request_message_at(a, i, m->role == CHAT_ROLE_UNKNOWN ? ".role" : ".content", at);
        if (m->role == CHAT_ROLE_UNKNOWN)
            return http_error_invalid(error, at,
                                      "must be system, developer, user, assistant or tool");
        if (m->bad_content)
            return http_error_invalid(error, at, "must be a string or an array of parts");
        return http_error_unsupported(error, at, "content other than text, images and videos");
    }
    return true;
}

/* chat_parsed_read() names messages[2]; the error names the field as the client called it. */
static bool conversation_wrong_message(const request *a, const mote_error *err, http_error *error)
{
    char at[REQUEST_AT];
    size_t index;
    snprintf(at, sizeof at, "%s", a->names.messages);
    http_error_from(error, err);
    if (sscanf(err->text, "messages[%zu]", &index) == 1) {
        request_message_at(a, index, "", at);
        snprintf(error->text, sizeof error->text, "%s%s", at, strchr(err->text, ']') + 1);
    }
    snprintf(error->param, sizeof error->param, "%s", at);
    return false;
}

/* ---- tools ---- */

static str tool_node_name(const json_node *tool)
{
    const json_node *function = json_node_get(tool, "function");
    return json_node_text(json_node_get(function != NULL ? function : tool, "name"));
}

static bool tool_is_name(str name)
{
    if (name.n < 1 || name.n > CHAT_MAX_NAME)
        return false;
    for (size_t i = 0; i < name.n; i++) {
        const char c = name.p[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '_' || c == '.' || c == ':' || c == '-'))
            return false;
    }
    return true;
}

static bool conversation_check_tools(request *a, http_error *error)
{
    char at[REQUEST_AT];
    for (size_t i = 0; i < a->parsed.request.n_tools; i++) {
        const json_node *tool = a->parsed.tools[i];
        const json_node *function = json_node_get(tool, "function");
        const json_node *parameters =
            json_node_get(function != NULL ? function : tool, "parameters");
        request_tool_at(a, i, a->names.tool_name, at);
        if (!tool_is_name(tool_node_name(tool)))
            return http_error_invalid(error, at, "must be 1 to 128 letters, digits, or _ . : -");
        request_tool_at(a, i, a->names.tool_schema, at);
        if (parameters != NULL && !json_node_is(parameters, JSON_IS_NULL) &&
            !json_node_is(parameters, JSON_IS_OBJECT))
            return http_error_invalid(error, at, "must be a JSON schema");
    }
    for (uint32_t i = 0; i < a->parsed.tools_left_out; i++) {
        const str type = json_node_text(json_node_get(a->parsed.left_out[i], "type"));
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)(type.n < 63 ? type.n : 63), type.p);
        request_warn(a, "tool_type_ignored", name);
    }
    return true;
}

/* ---- the conversation ---- */

static void conversation_find_user_text(request *a)
{
    const chat_request *q = &a->parsed.request;
    for (size_t i = q->n_messages; i > 0; i--) {
        const chat_message *m = &a->parsed.messages[i - 1];
        if (m->role != CHAT_ROLE_USER)
            continue;
        if (m->n_parts > 0 && m->parts[m->n_parts - 1].kind == CHAT_PART_TEXT)
            a->user_text = m->parts[m->n_parts - 1].text;
        return;
    }
}

/* Warns about settings that the built-in chat template does not have. */
static void template_warn_unknown_settings(request *a)
{
    static const char *const known[] = {
        "enable_thinking",       "add_vision_id",          "add_generation_prompt",
        "preserve_thinking",     "reasoning_effort",       "thinking_budget",
        "thinking_token_budget", "thinking_budget_tokens", "reasoning_budget"};
    const json_node *settings = json_node_get(a->root, "chat_template_kwargs");
    for (const json_node *s = json_node_first(settings); s != NULL; s = json_node_next(s)) {
        char at[96];
        bool ours = false;
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            ours = ours || str_is(json_node_name(s), known[i]);
        snprintf(at, sizeof at, "/chat_template_kwargs/%.60s", json_node_name(s).p);
        if (!ours)
            request_warn(a, "unknown_field", at);
    }
}

bool request_template(request *a, chat_mode *mode, http_error *error)
{
    const json_node *node = json_node_get(a->root, "template");
    const str word = json_node_text(node);
    *mode = a->settings->official ? CHAT_OFFICIAL : CHAT_STABLE;
    if (!node_given(node) || chat_mode_parse(word, mode))
        return true;
    if (a->template_is_text) {
        request_warn(a, "ignored_field", "template");
        return true;
    }
    return http_error_invalid(error, "template", "must be official or keep-thinking, got \"%.*s\"",
                              (int)(word.n < 60 ? word.n : 60), word.p);
}

/* Settings of the template, from the client's body: `body` of request_conversation() may be a
 * conversion that lacks them. */
static bool conversation_read_settings(request *a, http_error *error)
{
    chat_request *q = &a->parsed.request;
    const json_node *kwargs = json_node_get(a->root, "chat_template_kwargs");
    const json_node *preserve = json_node_get(kwargs, "preserve_thinking");
    if (!request_template(a, &q->mode, error))
        return false;
    if (q->mode == CHAT_STABLE && node_given(preserve) && !json_node_is(preserve, JSON_IS_BOOL))
        return http_error_invalid(error, "chat_template_kwargs.preserve_thinking",
                                  "must be true or false");
    chat_settings_read(q, a->root);
    q->no_generation_prompt = q->no_generation_prompt && a->template_only;
    template_warn_unknown_settings(a);
    return true;
}

bool request_conversation(request *a, const json_node *body, size_t min_messages, http_error *error)
{
    static const request_names usual = {"messages", "tools", "function.name",
                                        "function.parameters"};
    mote_error err;
    if (a->names.messages == NULL)
        a->names = usual;
    a->messages = json_node_get(body, "messages");
    a->tools = json_node_get(body, "tools");
    if (json_node_size(a->messages) < min_messages) {
        http_error_invalid(error, a->names.messages, "must have at least one message");
        error->code = a->messages == NULL ? "missing_field" : error->code;
        return false;
    }
    if (json_node_size(a->tools) > CHAT_MAX_TOOLS)
        return http_error_invalid(error, a->names.tools, "has %zu tools; at most %d",
                                  (size_t)json_node_size(a->tools), CHAT_MAX_TOOLS);
    if (chat_parsed_read(&a->parsed, body, CHAT_STABLE, &err) != MOTE_OK)
        return conversation_wrong_message(a, &err, error);
    if (!conversation_read_settings(a, error) || !conversation_check_messages(a, error) ||
        !request_media(a, error) || (!a->template_only && !conversation_check_tools(a, error)))
        return false;
    chat_request *q = &a->parsed.request;
    const chat_message *last = q->n_messages > 0 ? &q->messages[q->n_messages - 1] : NULL;
    q->continue_last = a->continue_last && q->mode == CHAT_STABLE && !q->no_generation_prompt &&
                       last != NULL && last->role == CHAT_ROLE_ASSISTANT && last->n_calls == 0;
    conversation_find_user_text(a);
    if (a->parsed.odd_arguments > 0)
        request_warn(a, "arguments_not_json", a->names.messages);
    return true;
}

static bool conversation_has_system(const chat_request *q)
{
    for (size_t i = 0; i < q->n_messages; i++)
        if (q->messages[i].role == CHAT_ROLE_SYSTEM || q->messages[i].role == CHAT_ROLE_DEVELOPER)
            return true;
    return false;
}

bool request_default_system(request *a, http_error *error)
{
    chat_request *q = &a->parsed.request;
    const size_t n = q->n_messages;
    if (a->settings->system == NULL || conversation_has_system(q))
        return true;
    chat_part *part = request_memory(a, 1, sizeof *part, error);
    if (part == NULL)
        return false;
    chat_message *messages = mem_resize(a->parsed.messages, n, n + 1, sizeof *messages);
    if (messages == NULL) {
        http_error_no_memory(error);
        return false;
    }
    *part = (chat_part){.kind = CHAT_PART_TEXT, .text = str_of(a->settings->system)};
    memmove(messages + 1, messages, n * sizeof *messages);
    messages[0] = (chat_message){.role = CHAT_ROLE_SYSTEM, .parts = part, .n_parts = 1};
    q->messages = a->parsed.messages = messages;
    q->n_messages = n + 1;
    return true;
}

/* ---- tool_choice ---- */

static bool tool_find(const request *a, str name, size_t *at)
{
    for (size_t i = 0; i < a->parsed.request.n_tools; i++)
        if (str_eq(tool_node_name(a->parsed.tools[i]), name)) {
            *at = i;
            return true;
        }
    return false;
}

static bool tool_choice_set_named(request *a, const json_node *choice, const char *at,
                                  http_error *error)
{
    size_t tool;
    const str name = tool_node_name(choice);
    if (!tool_find(a, name, &tool))
        return http_error_invalid(error, at, "names an unknown tool: %.*s", STR_ARG(name));
    a->answer.tool_choice = MOTE_TOOLS_NAMED;
    a->answer.tool_name = request_copy(a, name, error);
    return a->answer.tool_name != NULL;
}

/* Is `type` the type of a tool that was ignored? */
static bool tool_type_was_ignored(const request *a, str type)
{
    for (uint32_t i = 0; i < a->parsed.tools_left_out; i++)
        if (str_eq(json_node_text(json_node_get(a->parsed.left_out[i], "type")), type))
            return true;
    return false;
}

static bool tool_choice_set_mode(request *a, str mode, const char *at, http_error *error)
{
    if (str_is(mode, "auto"))
        return true;
    if (str_is(mode, "none")) {
        a->answer.tool_choice = MOTE_TOOLS_NONE;
        return true;
    }
    if (tool_type_was_ignored(a, mode)) /* a warning was given already */
        return true;
    if (!str_is(mode, "required") && !str_is(mode, "any"))
        return http_error_invalid(error, at, "must be auto, none, required, or name a tool");
    a->answer.tool_choice = MOTE_TOOLS_REQUIRED;
    /* every tool has an unsupported type: continue without tools */
    if (a->parsed.request.n_tools > 0)
        return true;
    a->answer.tool_choice = MOTE_TOOLS_AUTO;
    return a->parsed.tools_left_out > 0 ||
           http_error_invalid(error, at, "requires a tool call, but the request has no tools");
}

/* All tools stay in the prompt: removing some would change it and break prefix reuse. */
static bool tool_choice_set_allowed(request *a, const json_node *choice, const char *at,
                                    http_error *error)
{
    const json_node *inner = json_node_get(choice, "allowed_tools");
    const json_node *from = inner != NULL ? inner : choice;
    const json_node *mode = json_node_get(from, "mode");
    const json_node *tools = json_node_get(from, "tools");
    if (!json_node_is(tools, JSON_IS_ARRAY))
        return http_error_invalid(error, at, "must have a list of tools");
    a->tool_allowed =
        request_memory(a, a->parsed.request.n_tools + 1, sizeof *a->tool_allowed, error);
    if (a->tool_allowed == NULL)
        return false;
    for (const json_node *t = json_node_first(tools); t != NULL; t = json_node_next(t)) {
        size_t tool;
        if (!tool_find(a, tool_node_name(t), &tool))
            return http_error_invalid(error, at, "names an unknown tool: %.*s",
                                      STR_ARG(tool_node_name(t)));
        a->tool_allowed[tool] = true;
    }
    return mode == NULL || tool_choice_set_mode(a, json_node_text(mode), at, error);
}

bool request_tool_choice(request *a, const json_node *choice, const char *at, http_error *error)
{
    const str type = json_node_text(json_node_get(choice, "type"));
    if (choice == NULL || json_node_is(choice, JSON_IS_NULL))
        return true;
    if (json_node_is(choice, JSON_IS_STRING))
        return tool_choice_set_mode(a, json_node_text(choice), at, error);
    if (!json_node_is(choice, JSON_IS_OBJECT))
        return http_error_invalid(error, at, "must be a string or an object");
    if (json_node_truth(json_node_get(choice, "disable_parallel_tool_use")))
        a->answer.one_call = true;
    if (str_is(type, "allowed_tools"))
        return tool_choice_set_allowed(a, choice, at, error);
    if (str_is(type, "function") || str_is(type, "tool") || str_is(type, "custom") || type.n == 0)
        return tool_choice_set_named(a, choice, at, error);
    return tool_choice_set_mode(a, type, at, error);
}

/* ---- thinking ---- */

/* Removes the soft switch (/think, /no_think) from the last user message. */
static void soft_switch_remove(request *a)
{
    chat_parsed *p = &a->parsed;
    for (size_t i = p->request.n_messages; i > 0; i--) {
        const chat_message *m = &p->messages[i - 1];
        if (m->role != CHAT_ROLE_USER)
            continue;
        chat_part *part = &p->parts[m->parts - p->parts + (ptrdiff_t)m->n_parts - 1];
        part->text = chat_think_without_switch(part->text);
        break;
    }
    request_warn(a, "soft_switch", a->names.messages);
}

bool request_thinking(request *a, chat_dialect dialect, str model_suffix, http_error *error)
{
    static const chat_thinking thinking[] = {CHAT_THINK_AUTO, CHAT_THINK_ON, CHAT_THINK_OFF};
    const request_defaults *o = a->settings;
    chat_request *q = &a->parsed.request;
    const bool official = q->mode == CHAT_OFFICIAL; /* the template has no soft switch */
    const str question = o->no_soft_switch || official ? (str){0} : a->user_text;
    mote_error err;
    if (chat_think_read(&a->think, a->root, dialect, q->mode, model_suffix, question, &err) !=
        MOTE_OK) {
        http_error_from(error, &err);
        if (err.status == MOTE_E_ARG) /* the text begins with the field name */
            snprintf(error->param, sizeof error->param, "%.*s", (int)strcspn(err.text, " "),
                     err.text);
        return false;
    }
    if (a->think.think == MOTE_THINK_AUTO && o->think != MOTE_THINK_AUTO) {
        a->think.think = o->think;
        a->think.source = "server";
        if (a->think.budget == 0 && o->think == MOTE_THINK_ON)
            a->think.budget = o->think_budget;
    }
    if (a->think.conflict)
        request_warn(a, "thinking_conflict", a->think.source);
    if (a->think.soft_switch)
        soft_switch_remove(a);
    /* The template's settings, also of a continued answer: its prompt keeps the system turn. */
    if (a->think.think != MOTE_THINK_AUTO || q->thinking != CHAT_THINK_OTHER)
        q->thinking = thinking[a->think.think];
    if (q->effort == CHAT_EFFORT_AUTO || (q->effort == CHAT_EFFORT_OTHER && !official))
        q->effort = chat_effort_of_budget(a->think.budget);
    if (q->continue_last) {
        a->think = (chat_think_setting){.think = MOTE_THINK_OFF, .source = "continued"};
    }
    a->answer.think = a->think.think;
    a->answer.think_budget = a->think.budget;
    return true;
}

/* ---- response format ---- */

static bool format_set(request *a, mote_format format, const char *at, http_error *error)
{
    if (a->answer.format != MOTE_FORMAT_TEXT)
        return http_error_invalid(error, at, "and %s exclude each other", a->format_at);
    a->answer.format = format;
    snprintf(a->format_at, sizeof a->format_at, "%s", at);
    return true;
}

/* Transfers the text to the request. */
static bool format_take_text(request *a, strbuf *text, http_error *error)
{
    if (text->failed) {
        strbuf_fini(text);
        return http_error_no_memory(error);
    }
    a->answer.format_text = text->p;
    a->answer.format_bytes = text->n;
    return request_keep(a, text->p, error);
}

bool request_json_object(request *a, const char *at, http_error *error)
{
    return format_set(a, MOTE_FORMAT_JSON, at, error);
}

static bool format_set_node(request *a, mote_format format, const json_node *node, const char *at,
                            http_error *error)
{
    strbuf text = {0};
    if (!format_set(a, format, at, error))
        return false;
    json_put_as_spelt(&text, node);
    return format_take_text(a, &text, error);
}

static bool format_check_size(const request *a, size_t most, const char *at, http_error *error)
{
    if (a->answer.format_bytes <= most)
        return true;
    http_error_invalid(error, at, "has %zu bytes; at most %zu", a->answer.format_bytes, most);
    error->code = "schema_too_large";
    return false;
}

bool request_json_schema(request *a, const json_node *schema, const char *at, http_error *error)
{
    if (!json_node_is(schema, JSON_IS_OBJECT) && !json_node_is(schema, JSON_IS_BOOL))
        return http_error_invalid(error, at, "must be a JSON schema");
    return format_set_node(a, MOTE_FORMAT_JSON_SCHEMA, schema, at, error) &&
           format_check_size(a, CHAT_MAX_SCHEMA, at, error);
}

static bool format_set_string(request *a, mote_format format, const json_node *node, const char *at,
                              http_error *error)
{
    const str text = json_node_text(node);
    if (!json_node_is(node, JSON_IS_STRING))
        return http_error_invalid(error, at, "must be a %s",
                                  format == MOTE_FORMAT_REGEX ? "regular expression"
                                                              : "grammar in GBNF");
    a->answer.format_text = text.p;
    a->answer.format_bytes = text.n;
    return format_set(a, format, at, error) && format_check_size(a, CHAT_MAX_GRAMMAR, at, error);
}

static bool format_set_choices(request *a, const json_node *node, const char *at, http_error *error)
{
    if (!json_node_is(node, JSON_IS_ARRAY) || json_node_size(node) == 0)
        return http_error_invalid(error, at, "must be an array of strings");
    for (const json_node *e = json_node_first(node); e != NULL; e = json_node_next(e))
        if (!json_node_is(e, JSON_IS_STRING))
            return http_error_invalid(error, at, "must be an array of strings");
    return format_set_node(a, MOTE_FORMAT_CHOICES, node, at, error);
}

bool request_response_format(request *a, const json_node *format, const char *at, http_error *error)
{
    char where[96];
    if (!node_given(format))
        return true;
    const json_node *type = json_node_get(format, "type");
    const str name = json_node_text(type);
    if (!json_node_is(format, JSON_IS_OBJECT) || !json_node_is(type, JSON_IS_STRING))
        return http_error_invalid(error, at, "must be an object with a type");
    const json_node *inner = json_node_get(format, "json_schema");
    const json_node *schema = json_node_get(node_given(inner) ? inner : format, "schema");
    if (str_is(name, "text"))
        return true;
    if (str_is(name, "json_object") && !node_given(schema))
        return request_json_object(a, at, error);
    snprintf(where, sizeof where, "%s.%sschema", at, node_given(inner) ? "json_schema." : "");
    if (str_is(name, "json_object"))
        return request_json_schema(a, schema, where, error);
    snprintf(where, sizeof where, "%s.type", at);
    if (!str_is(name, "json_schema"))
        return http_error_invalid(error, where, "must be text, json_object or json_schema");
    snprintf(where, sizeof where, "%s.%sschema", at, node_given(inner) ? "json_schema." : "");
    if (!node_given(schema))
        return request_missing(error, where);
    return request_json_schema(a, schema, where, error);
}

/* One field each for a schema, a regular expression, choices and a grammar. */
enum { EXTRAS = 4 };

static bool format_read_extra(request *a, const json_node *from, const char *under,
                              const char *const names[EXTRAS], http_error *error)
{
    char at[EXTRAS][64];
    const json_node *node[EXTRAS];
    for (size_t i = 0; i < EXTRAS; i++) {
        node[i] = json_node_get(from, names[i]);
        snprintf(at[i], sizeof at[i], "%s%s", under, names[i]);
    }
    return (!node_given(node[0]) || request_json_schema(a, node[0], at[0], error)) &&
           (!node_given(node[1]) ||
            format_set_string(a, MOTE_FORMAT_REGEX, node[1], at[1], error)) &&
           (!node_given(node[2]) || format_set_choices(a, node[2], at[2], error)) &&
           (!node_given(node[3]) ||
            format_set_string(a, MOTE_FORMAT_GRAMMAR, node[3], at[3], error));
}

bool request_extra_formats(request *a, http_error *error)
{
    static const char *const own[] = {"json_schema", "regex", "choice", "grammar"};
    static const char *const vllm[] = {"json", "regex", "choice", "grammar"};
    static const char *const vllm_old[] = {"guided_json", "guided_regex", "guided_choice",
                                           "guided_grammar"};
    return format_read_extra(a, a->root, "", own, error) &&
           format_read_extra(a, json_node_get(a->root, "structured_outputs"), "structured_outputs.",
                             vllm, error) &&
           format_read_extra(a, a->root, "", vllm_old, error);
}

void request_answer_failed(const request *a, const mote_error *why, http_error *error)
{
    const bool has_format = a->answer.format != MOTE_FORMAT_TEXT;
    const chat_fault fault = {.of = has_format ? CHAT_FAULT_FORMAT : CHAT_FAULT_TOOL,
                              .tool = a->request.n_tools};
    if (why->status == MOTE_E_UNSUPPORTED)
        request_format_refused(a, &fault, why, error);
    else
        http_error_from(error, why);
}

bool request_format_refused(const request *a, const chat_fault *fault, const mote_error *why,
                            http_error *error)
{
    if (why->status == MOTE_E_MEMORY)
        return http_error_no_memory(error);
    char at[REQUEST_AT];
    snprintf(at, sizeof at, "%s", fault->of == CHAT_FAULT_FORMAT ? a->format_at : a->names.tools);
    if (fault->of == CHAT_FAULT_TOOL && fault->tool < a->request.n_tools)
        request_tool_at(a, fault->tool, a->names.tool_schema, at);
    http_error_set(error, HTTP_E_INVALID, "unsupported_schema", "%s: %s", at, why->text);
    snprintf(error->param, sizeof error->param, "%s", at);
    return false;
}
