/* SPDX-License-Identifier: Apache-2.0 */
/* request_form.c - the form an answer must have, in all the spellings there are. */
#include "base/mem.h"
#include "chat/prompt/chat_limits.h"
#include "server/request/request.h"

#include <stdio.h>

static bool take(request *a, mote_format format, const char *at, http_error *error)
{
    if (a->answer.format != MOTE_FORMAT_TEXT)
        return http_error_invalid(error, at,
                                  "comes beside another form of the answer: one at most");
    a->answer.format = format;
    snprintf(a->form_at, sizeof a->form_at, "%s", at);
    return true;
}

/* The text of the form lives as long as the ask. */
static bool take_text(request *a, strbuf *text, http_error *error)
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
    return take(a, MOTE_FORMAT_JSON, at, error);
}

static bool take_node(request *a, mote_format format, const json_node *node, const char *at,
                      http_error *error)
{
    strbuf text = {0};
    if (!take(a, format, at, error))
        return false;
    json_put_as_spelt(&text, node);
    return take_text(a, &text, error);
}

static bool has_room(const request *a, size_t most, const char *at, http_error *error)
{
    if (a->answer.format_bytes <= most)
        return true;
    http_error_invalid(error, at, "has more than %zu bytes", most);
    error->code = "schema_too_large";
    return false;
}

bool request_json_schema(request *a, const json_node *schema, const char *at, http_error *error)
{
    if (!json_node_is(schema, JSON_IS_OBJECT) && !json_node_is(schema, JSON_IS_BOOL))
        return http_error_invalid(error, at, "must be a JSON schema");
    return take_node(a, MOTE_FORMAT_JSON_SCHEMA, schema, at, error) &&
           has_room(a, CHAT_MAX_SCHEMA, at, error);
}

static bool present(const json_node *node)
{
    return node != NULL && !json_node_is(node, JSON_IS_NULL);
}

static bool take_string(request *a, mote_format format, const json_node *node, const char *at,
                        http_error *error)
{
    const str text = json_node_text(node);
    if (!json_node_is(node, JSON_IS_STRING))
        return http_error_invalid(error, at, "must be a %s",
                                  format == MOTE_FORMAT_REGEX ? "regular expression"
                                                              : "grammar in GBNF");
    a->answer.format_text = text.p;
    a->answer.format_bytes = text.n;
    return take(a, format, at, error) && has_room(a, CHAT_MAX_GRAMMAR, at, error);
}

static bool take_choices(request *a, const json_node *node, const char *at, http_error *error)
{
    if (!json_node_is(node, JSON_IS_ARRAY) || json_node_size(node) == 0)
        return http_error_invalid(error, at, "must be an array of strings");
    for (const json_node *e = json_node_first(node); e != NULL; e = json_node_next(e))
        if (!json_node_is(e, JSON_IS_STRING))
            return http_error_invalid(error, at, "must be an array of strings");
    return take_node(a, MOTE_FORMAT_CHOICES, node, at, error);
}

bool request_response_format(request *a, const json_node *format, const char *at, http_error *error)
{
    char where[96];
    if (!present(format))
        return true;
    const json_node *type = json_node_get(format, "type");
    const str name = json_node_text(type);
    if (!json_node_is(format, JSON_IS_OBJECT) || !json_node_is(type, JSON_IS_STRING))
        return http_error_invalid(error, at, "must be an object with a type");
    const json_node *inner = json_node_get(format, "json_schema");
    const json_node *schema = json_node_get(present(inner) ? inner : format, "schema");
    if (str_is(name, "text"))
        return true;
    if (str_is(name, "json_object") && !present(schema))
        return request_json_object(a, at, error);
    snprintf(where, sizeof where, "%s.%sschema", at, present(inner) ? "json_schema." : "");
    if (str_is(name, "json_object"))
        return request_json_schema(a, schema, where, error);
    snprintf(where, sizeof where, "%s.type", at);
    if (!str_is(name, "json_schema"))
        return http_error_invalid(error, where, "must be text, json_object or json_schema");
    snprintf(where, sizeof where, "%s.%sschema", at, present(inner) ? "json_schema." : "");
    if (!present(schema)) {
        api_error_set(error, API_E_INVALID, "missing_field", "%s is missing", where);
        snprintf(error->param, sizeof error->param, "%s", where);
        return false;
    }
    return request_json_schema(a, schema, where, error);
}

/* A schema, a regular expression, choices and a grammar by their names in one place. */
enum { EXTRAS = 4 };

static bool extra_formats(request *a, const json_node *from, const char *under,
                          const char *const names[EXTRAS], http_error *error)
{
    char at[EXTRAS][64];
    const json_node *node[EXTRAS];
    for (size_t i = 0; i < EXTRAS; i++) {
        node[i] = json_node_get(from, names[i]);
        snprintf(at[i], sizeof at[i], "%s%s", under, names[i]);
    }
    return (!present(node[0]) || request_json_schema(a, node[0], at[0], error)) &&
           (!present(node[1]) || take_string(a, MOTE_FORMAT_REGEX, node[1], at[1], error)) &&
           (!present(node[2]) || take_choices(a, node[2], at[2], error)) &&
           (!present(node[3]) || take_string(a, MOTE_FORMAT_GRAMMAR, node[3], at[3], error));
}

bool request_extra_formats(request *a, http_error *error)
{
    static const char *const ours[] = {"json_schema", "regex", "choice", "grammar"};
    static const char *const theirs[] = {"json", "regex", "choice", "grammar"};
    static const char *const old[] = {"guided_json", "guided_regex", "guided_choice",
                                      "guided_grammar"};
    return extra_formats(a, a->root, "", ours, error) &&
           extra_formats(a, json_node_get(a->root, "structured_outputs"), "structured_outputs.",
                         theirs, error) &&
           extra_formats(a, a->root, "", old, error);
}

void request_answer_failed(const request *a, const mote_error *why, http_error *error)
{
    const bool formed = a->answer.format != MOTE_FORMAT_TEXT;
    const chat_fault fault = {.of = formed ? CHAT_FAULT_FORMAT : CHAT_FAULT_TOOL,
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
    snprintf(at, sizeof at, "%s", fault->of == CHAT_FAULT_FORMAT ? a->form_at : a->names.tools);
    if (fault->of == CHAT_FAULT_TOOL && fault->tool < a->request.n_tools)
        request_tool_at(a, fault->tool, a->names.tool_schema, at);
    api_error_set(error, API_E_INVALID, "unsupported_schema", "%s: %s", at, why->text);
    snprintf(error->param, sizeof error->param, "%s", at);
    return false;
}
