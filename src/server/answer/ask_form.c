/* SPDX-License-Identifier: Apache-2.0 */
/* ask_form.c - the form an answer must have, in all the spellings there are. */
#include "base/mem.h"
#include "chat/limits.h"
#include "server/answer/ask.h"

#include <stdio.h>

static bool take(ask *a, mote_format format, const char *at, api_error *error)
{
    if (a->answer.format != MOTE_FORMAT_TEXT)
        return ask_wrong(error, at, "comes beside another form of the answer: one at most");
    a->answer.format = format;
    snprintf(a->form_at, sizeof a->form_at, "%s", at);
    return true;
}

/* The text of the form lives as long as the ask. */
static bool take_text(ask *a, strbuf *text, api_error *error)
{
    if (text->failed) {
        strbuf_fini(text);
        return ask_no_memory(error);
    }
    a->answer.format_text = text->p;
    a->answer.format_bytes = text->n;
    return ask_keep(a, text->p, error);
}

bool ask_json_object(ask *a, const char *at, api_error *error)
{
    return take(a, MOTE_FORMAT_JSON, at, error);
}

static bool take_node(ask *a, mote_format format, const json_node *node, const char *at,
                      api_error *error)
{
    strbuf text = {0};
    if (!take(a, format, at, error))
        return false;
    json_put_as_spelt(&text, node);
    return take_text(a, &text, error);
}

static bool has_room(const ask *a, size_t most, const char *at, api_error *error)
{
    if (a->answer.format_bytes <= most)
        return true;
    ask_wrong(error, at, "has more than %zu bytes", most);
    error->code = "schema_too_large";
    return false;
}

bool ask_json_schema(ask *a, const json_node *schema, const char *at, api_error *error)
{
    if (!json_node_is(schema, JSON_IS_OBJECT) && !json_node_is(schema, JSON_IS_BOOL))
        return ask_wrong(error, at, "must be a JSON schema");
    return take_node(a, MOTE_FORMAT_JSON_SCHEMA, schema, at, error) &&
           has_room(a, CHAT_MAX_SCHEMA, at, error);
}

static bool present(const json_node *node)
{
    return node != NULL && !json_node_is(node, JSON_IS_NULL);
}

static bool take_string(ask *a, mote_format format, const json_node *node, const char *at,
                        api_error *error)
{
    const str text = json_node_text(node);
    if (!json_node_is(node, JSON_IS_STRING))
        return ask_wrong(error, at, "must be a %s",
                         format == MOTE_FORMAT_REGEX ? "regular expression" : "grammar in GBNF");
    a->answer.format_text = text.p;
    a->answer.format_bytes = text.n;
    return take(a, format, at, error) && has_room(a, CHAT_MAX_GRAMMAR, at, error);
}

static bool take_choices(ask *a, const json_node *node, const char *at, api_error *error)
{
    if (!json_node_is(node, JSON_IS_ARRAY) || json_node_size(node) == 0)
        return ask_wrong(error, at, "must be an array of strings");
    for (const json_node *e = json_node_first(node); e != NULL; e = json_node_next(e))
        if (!json_node_is(e, JSON_IS_STRING))
            return ask_wrong(error, at, "must be an array of strings");
    return take_node(a, MOTE_FORMAT_CHOICES, node, at, error);
}

bool ask_response_format(ask *a, const json_node *format, const char *at, api_error *error)
{
    char where[96];
    if (!present(format))
        return true;
    const json_node *type = json_node_get(format, "type");
    const str name = json_node_text(type);
    if (!json_node_is(format, JSON_IS_OBJECT) || !json_node_is(type, JSON_IS_STRING))
        return ask_wrong(error, at, "must be an object with a type");
    const json_node *inner = json_node_get(format, "json_schema");
    const json_node *schema = json_node_get(present(inner) ? inner : format, "schema");
    if (str_is(name, "text"))
        return true;
    if (str_is(name, "json_object") && !present(schema))
        return ask_json_object(a, at, error);
    snprintf(where, sizeof where, "%s.%sschema", at, present(inner) ? "json_schema." : "");
    if (str_is(name, "json_object"))
        return ask_json_schema(a, schema, where, error);
    snprintf(where, sizeof where, "%s.type", at);
    if (!str_is(name, "json_schema"))
        return ask_wrong(error, where, "must be text, json_object or json_schema");
    snprintf(where, sizeof where, "%s.%sschema", at, present(inner) ? "json_schema." : "");
    if (!present(schema)) {
        api_error_set(error, API_E_INVALID, "missing_field", "%s is missing", where);
        snprintf(error->param, sizeof error->param, "%s", where);
        return false;
    }
    return ask_json_schema(a, schema, where, error);
}

/* A schema, a regular expression, choices and a grammar by their names in one place. */
enum { EXTRAS = 4 };

static bool extra_formats(ask *a, const json_node *from, const char *under,
                          const char *const names[EXTRAS], api_error *error)
{
    char at[EXTRAS][64];
    const json_node *node[EXTRAS];
    for (size_t i = 0; i < EXTRAS; i++) {
        node[i] = json_node_get(from, names[i]);
        snprintf(at[i], sizeof at[i], "%s%s", under, names[i]);
    }
    return (!present(node[0]) || ask_json_schema(a, node[0], at[0], error)) &&
           (!present(node[1]) || take_string(a, MOTE_FORMAT_REGEX, node[1], at[1], error)) &&
           (!present(node[2]) || take_choices(a, node[2], at[2], error)) &&
           (!present(node[3]) || take_string(a, MOTE_FORMAT_GRAMMAR, node[3], at[3], error));
}

bool ask_extra_formats(ask *a, api_error *error)
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

void ask_answer_failed(const ask *a, const mote_error *why, api_error *error)
{
    const bool formed = a->answer.format != MOTE_FORMAT_TEXT;
    const chat_fault fault = {.of = formed ? CHAT_FAULT_FORMAT : CHAT_FAULT_TOOL,
                              .tool = a->request.n_tools};
    if (why->status == MOTE_E_UNSUPPORTED)
        ask_form_refused(a, &fault, why, error);
    else
        ask_error_of(error, why);
}

bool ask_form_refused(const ask *a, const chat_fault *fault, const mote_error *why,
                      api_error *error)
{
    if (why->status == MOTE_E_MEMORY)
        return ask_no_memory(error);
    char at[ASK_AT];
    snprintf(at, sizeof at, "%s", fault->of == CHAT_FAULT_FORMAT ? a->form_at : a->names.tools);
    if (fault->of == CHAT_FAULT_TOOL && fault->tool < a->request.n_tools)
        ask_tool_at(a, fault->tool, a->names.tool_schema, at);
    api_error_set(error, API_E_INVALID, "unsupported_schema", "%s: %s", at, why->text);
    snprintf(error->param, sizeof error->param, "%s", at);
    return false;
}
