/* SPDX-License-Identifier: Apache-2.0 */
/* eval_check.c - see eval_check.h. */
#include "cli/evaluate/eval_check.h"

#include "grammar/rules/regex.h"

enum { REGEX_FUEL = 100000000 };

void eval_answer_fini(eval_answer *a)
{
    strbuf_fini(&a->content);
    for (size_t i = 0; i < EVAL_MAX_CALLS; i++) {
        strbuf_fini(&a->calls[i].name);
        strbuf_fini(&a->calls[i].arguments);
    }
    *a = (eval_answer){0};
}

/* ---- text ---- */

static str text_trimmed(str s)
{
    static const char blank[] = " \t\r\n";
    while (s.n > 0 && strchr(blank, s.p[0]) != NULL && s.p[0] != '\0')
        s = (str){s.p + 1, s.n - 1};
    while (s.n > 0 && strchr(blank, s.p[s.n - 1]) != NULL && s.p[s.n - 1] != '\0')
        s.n--;
    return s;
}

static bool text_contains(str text, str part)
{
    for (size_t i = 0; i + part.n <= text.n; i++)
        if (str_eq((str){text.p + i, part.n}, part))
            return true;
    return false;
}

static bool pass_exact(const json_node *check, const eval_answer *a)
{
    return str_eq(text_trimmed(strbuf_view(&a->content)),
                  text_trimmed(json_node_text(json_node_get(check, "text"))));
}

static bool pass_contains(const json_node *check, const eval_answer *a)
{
    return text_contains(strbuf_view(&a->content), json_node_text(json_node_get(check, "text")));
}

static mote_status compile_pattern(dfa *out, const json_node *check, mote_error *err)
{
    dfa_fuel fuel = {REGEX_FUEL};
    return regex_compile(out, json_node_text(json_node_get(check, "pattern")), REGEX_SEARCH, &fuel,
                         err);
}

static bool pass_regex(const json_node *check, const eval_answer *a)
{
    dfa pattern;
    if (compile_pattern(&pattern, check, NULL) != MOTE_OK)
        return false;
    const bool pass = dfa_accepts(&pattern, strbuf_view(&a->content));
    dfa_fini(&pattern);
    return pass;
}

static bool pass_choice(const json_node *check, const eval_answer *a)
{
    return str_eq(strbuf_view(&a->content), json_node_text(json_node_get(check, "answer")));
}

/* ---- JSON and tool calls ---- */

static bool pass_json(const json_node *check, const eval_answer *a)
{
    json_doc *doc;
    if (json_doc_read(&doc, text_trimmed(strbuf_view(&a->content)), NULL) != MOTE_OK)
        return false;
    const json_node *schema = json_node_get(check, "schema");
    const bool pass = schema != NULL
                          ? eval_schema_accepts(schema, json_doc_root(doc))
                          : eval_json_equal(json_node_get(check, "value"), json_doc_root(doc));
    json_doc_free(doc);
    return pass;
}

static bool call_matches(const json_node *wanted, const eval_call *call)
{
    const json_node *arguments = json_node_get(wanted, "arguments");
    json_doc *doc;
    if (!str_eq(json_node_text(json_node_get(wanted, "name")), strbuf_view(&call->name)))
        return false;
    if (arguments == NULL)
        return true;
    if (json_doc_read(&doc, strbuf_view(&call->arguments), NULL) != MOTE_OK)
        return false;
    const bool same = eval_json_equal(arguments, json_doc_root(doc));
    json_doc_free(doc);
    return same;
}

static bool pass_tool(const json_node *check, const eval_answer *a)
{
    const json_node *calls = json_node_get(check, "calls");
    size_t i = 0;
    if (json_node_size(calls) != a->n_calls || a->n_calls > EVAL_MAX_CALLS)
        return false;
    for (const json_node *c = json_node_first(calls); c != NULL; c = json_node_next(c))
        if (!call_matches(c, &a->calls[i++]))
            return false;
    return true;
}

/* ---- the table ---- */

typedef struct check_kind {
    const char *name;
    const char *field; /* required */
    json_kind kind;    /* of the field; JSON_IS_ABSENT: any */
    bool (*passes)(const json_node *check, const eval_answer *a);
} check_kind;

static const check_kind check_kinds[] = {
    {"exact", "text", JSON_IS_STRING, pass_exact},
    {"contains", "text", JSON_IS_STRING, pass_contains},
    {"regex", "pattern", JSON_IS_STRING, pass_regex},
    {"choice", "answer", JSON_IS_STRING, pass_choice},
    {"json", "value", JSON_IS_ABSENT, pass_json},
    {"json_schema", "schema", JSON_IS_OBJECT, pass_json},
    {"tool", "calls", JSON_IS_ARRAY, pass_tool},
};

static const check_kind *find_kind(const json_node *check)
{
    const str type = json_node_text(json_node_get(check, "type"));
    for (size_t i = 0; i < sizeof check_kinds / sizeof *check_kinds; i++)
        if (str_is(type, check_kinds[i].name))
            return &check_kinds[i];
    return NULL;
}

const json_node *eval_check_choices(const json_node *check)
{
    return json_node_get(check, "choices");
}

static mote_status choices_valid(const json_node *check, mote_error *err)
{
    const json_node *choices = eval_check_choices(check);
    const json_node *answer = json_node_get(check, "answer");
    for (const json_node *c = json_node_first(choices); c != NULL; c = json_node_next(c))
        if (eval_json_equal(c, answer))
            return MOTE_OK;
    return err_set(err, MOTE_E_ARG, "check.choices must be an array of texts with the answer");
}

static mote_status calls_valid(const json_node *check, mote_error *err)
{
    const json_node *calls = json_node_get(check, "calls");
    for (const json_node *c = json_node_first(calls); c != NULL; c = json_node_next(c))
        if (!json_node_is(json_node_get(c, "name"), JSON_IS_STRING))
            return err_set(err, MOTE_E_ARG, "an entry of check.calls has no name");
    return MOTE_OK;
}

mote_status eval_check_valid(const json_node *check, mote_error *err)
{
    const check_kind *kind = find_kind(check);
    if (kind == NULL)
        return err_set(err, MOTE_E_ARG,
                       "check.type must be exact, contains, regex, choice, json, json_schema or "
                       "tool");
    const json_node *field = json_node_get(check, kind->field);
    if (field == NULL || (kind->kind != JSON_IS_ABSENT && !json_node_is(field, kind->kind)))
        return err_set(err, MOTE_E_ARG, "check.%s is missing or has the wrong type", kind->field);
    if (kind->passes == pass_choice)
        return choices_valid(check, err);
    if (kind->passes == pass_tool)
        return calls_valid(check, err);
    if (str_is(str_of(kind->field), "schema"))
        return eval_schema_valid(field, err);
    if (kind->passes != pass_regex)
        return MOTE_OK;
    dfa pattern;
    TRY(compile_pattern(&pattern, check, err));
    dfa_fini(&pattern);
    return MOTE_OK;
}

bool eval_check_passes(const json_node *check, const eval_answer *answer)
{
    return find_kind(check)->passes(check, answer);
}
