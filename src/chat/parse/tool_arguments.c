/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tool_arguments.c - the JSON value of a tool parameter, from the text that the model wrote and the
 * tool's schema. See parse_int.h.
 *
 * The model writes parameters as bare text: 30 may be a number or the string "30", and only the
 * schema decides. A text that fits no allowed type stays a string. Models also write Python
 * literals such as ['a', True] in place of JSON; they are rewritten token by token, and the JSON
 * parser decides whether the result is valid.
 */
#include "chat/parse/parse_int.h"

#include <strings.h>

/* ---- types that a schema allows ---- */

enum { MAX_VISITS = 64, MAX_WAITING = 32 };

/* Sub-schemas to be visited. If they exceed MAX_WAITING the result is CHAT_TYPE_ANY. */
typedef struct schema_visit {
    const json_node *root;
    const json_node *waiting[MAX_WAITING];
    int n;
    unsigned types;
} schema_visit;

static unsigned type_from_name(str name)
{
    static const struct {
        const char *name;
        unsigned type;
    } types[] = {
        {"null", CHAT_TYPE_NULL},
        {"integer", CHAT_TYPE_INTEGER},
        {"number", CHAT_TYPE_NUMBER},
        {"boolean", CHAT_TYPE_BOOLEAN},
        {"object", CHAT_TYPE_OBJECT},
        {"array", CHAT_TYPE_ARRAY},
        {"string", CHAT_TYPE_STRING},
        /* not JSON Schema, but common */
        {"int", CHAT_TYPE_INTEGER},
        {"float", CHAT_TYPE_NUMBER},
        {"double", CHAT_TYPE_NUMBER},
        {"bool", CHAT_TYPE_BOOLEAN},
        {"dict", CHAT_TYPE_OBJECT},
        {"list", CHAT_TYPE_ARRAY},
        {"str", CHAT_TYPE_STRING},
        {"text", CHAT_TYPE_STRING},
        {"any", CHAT_TYPE_ANY},
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (str_is(name, types[i].name))
            return types[i].type;
    return 0;
}

static unsigned type_of_value(const json_node *value)
{
    switch (json_node_kind(value)) {
    case JSON_IS_NULL: return CHAT_TYPE_NULL;
    case JSON_IS_BOOL: return CHAT_TYPE_BOOLEAN;
    case JSON_IS_NUMBER:
        return json_number_is_integer(json_node_text(value)) ? CHAT_TYPE_INTEGER : CHAT_TYPE_NUMBER;
    case JSON_IS_STRING: return CHAT_TYPE_STRING;
    case JSON_IS_ARRAY: return CHAT_TYPE_ARRAY;
    case JSON_IS_OBJECT: return CHAT_TYPE_OBJECT;
    default: return 0;
    }
}

static void visit_add(schema_visit *v, const json_node *schema)
{
    if (schema == NULL || v->n == MAX_WAITING)
        v->types = CHAT_TYPE_ANY;
    else
        v->waiting[v->n++] = schema;
}

/* Resolves "#/$defs/name". NULL: not found, or not a local reference. */
static const json_node *schema_resolve_pointer(const json_node *root, str pointer)
{
    const json_node *at = root;
    if (pointer.n == 0 || pointer.p[0] != '#')
        return NULL;
    for (size_t i = 1; i < pointer.n && at != NULL;) {
        if (pointer.p[i] != '/')
            return NULL;
        size_t end = ++i;
        while (end < pointer.n && pointer.p[end] != '/')
            end++;
        at = json_node_member(at, (str){pointer.p + i, end - i});
        i = end;
    }
    return at;
}

/* The types that a schema states itself; 0: none. */
static unsigned schema_own_types(const json_node *schema)
{
    const json_node *type = json_node_get(schema, "type"), *list = json_node_get(schema, "enum");
    unsigned types = 0;
    if (json_node_is(type, JSON_IS_STRING))
        types = type_from_name(json_node_text(type));
    else if (json_node_is(type, JSON_IS_ARRAY))
        for (const json_node *one = json_node_first(type); one != NULL; one = json_node_next(one))
            types |= type_from_name(json_node_text(one));
    if (types == 0 && json_node_is(list, JSON_IS_ARRAY))
        for (const json_node *one = json_node_first(list); one != NULL; one = json_node_next(one))
            types |= type_of_value(one);
    if (types == 0)
        types = type_of_value(json_node_get(schema, "const"));
    if (types == 0 && json_node_get(schema, "properties") != NULL)
        types = CHAT_TYPE_OBJECT;
    if (types == 0 && json_node_get(schema, "items") != NULL)
        types = CHAT_TYPE_ARRAY;
    if (types != 0 && json_node_truth(json_node_get(schema, "nullable")))
        types |= CHAT_TYPE_NULL;
    return types;
}

/* Adds the types that a schema states. Without any, queues the schemas it refers to. */
static void visit_schema(schema_visit *v, const json_node *schema)
{
    static const char *const lists[] = {"anyOf", "oneOf", "allOf"};
    const unsigned own = schema_own_types(schema);
    const json_node *reference = json_node_get(schema, "$ref");
    bool elsewhere = reference != NULL;
    v->types |= own;
    if (own != 0)
        return;
    if (elsewhere)
        visit_add(v, schema_resolve_pointer(v->root, json_node_text(reference)));
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        const json_node *list = json_node_get(schema, lists[i]);
        if (!json_node_is(list, JSON_IS_ARRAY))
            continue;
        elsewhere = true;
        for (const json_node *one = json_node_first(list); one != NULL; one = json_node_next(one))
            visit_add(v, one);
    }
    if (!elsewhere)
        v->types = CHAT_TYPE_ANY;
}

bool chat_argument_declared(const json_node *schema, str name)
{
    return json_node_member(json_node_get(schema, "properties"), name) != NULL;
}

unsigned chat_argument_types(const json_node *schema, str name)
{
    const json_node *property = json_node_member(json_node_get(schema, "properties"), name);
    schema_visit v = {.root = schema};
    if (property == NULL)
        property = json_node_get(schema, "additionalProperties");
    if (!json_node_is(property, JSON_IS_OBJECT))
        return CHAT_TYPE_ANY;
    visit_add(&v, property);
    for (int visits = 0; v.n > 0 && v.types != CHAT_TYPE_ANY; visits++) {
        if (visits == MAX_VISITS)
            return CHAT_TYPE_ANY;
        visit_schema(&v, v.waiting[--v.n]);
    }
    return v.types != 0 ? v.types : CHAT_TYPE_ANY;
}

/* ---- Python literals to JSON ---- */

typedef struct python_literal {
    str text;
    size_t at;
    strbuf *out;
} python_literal;

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

/* code <= 0xFFFF */
static void python_put_utf8(strbuf *out, uint32_t code)
{
    if (code >= 0x80 && code < 0x800) {
        strbuf_byte(out, (char)(0xC0 | code >> 6));
    } else if (code >= 0x800) {
        strbuf_byte(out, (char)(0xE0 | code >> 12));
        strbuf_byte(out, (char)(0x80 | (code >> 6 & 63)));
    }
    strbuf_byte(out, (char)(code < 0x80 ? code : 0x80 | (code & 63)));
}

/* \xHH or \uHHHH, from the letter on. Surrogates become U+FFFD. */
static bool python_code(python_literal *l, strbuf *to)
{
    const int digits = l->text.p[l->at++] == 'x' ? 2 : 4;
    uint32_t code = 0;
    for (int i = 0; i < digits; i++, l->at++) {
        const int digit = l->at < l->text.n ? hex_digit(l->text.p[l->at]) : -1;
        if (digit < 0)
            return false;
        code = code << 4 | (uint32_t)digit;
    }
    python_put_utf8(to, code >= 0xD800 && code <= 0xDFFF ? 0xFFFD : code);
    return true;
}

/* After a backslash. An escape that Python does not know keeps its backslash. */
static bool python_escape(python_literal *l, strbuf *to)
{
    static const char from[] = "'\"\\nrtbf", into[] = "'\"\\\n\r\t\b\f";
    if (l->at == l->text.n)
        return false;
    const char c = l->text.p[l->at];
    if (c == 'x' || c == 'u')
        return python_code(l, to);
    const char *known = c != 0 ? strchr(from, c) : NULL;
    if (known == NULL)
        strbuf_byte(to, '\\');
    strbuf_byte(to, known != NULL ? into[known - from] : c);
    l->at++;
    return true;
}

static bool python_string(python_literal *l)
{
    const char quote = l->text.p[l->at++];
    strbuf decoded = {0};
    bool whole = false;
    while (l->at < l->text.n) {
        const char c = l->text.p[l->at++];
        whole = c == quote;
        if (whole || (c == '\\' && !python_escape(l, &decoded)))
            break;
        if (c != '\\')
            strbuf_byte(&decoded, c);
    }
    json_put_string(l->out, strbuf_view(&decoded));
    l->out->failed |= decoded.failed;
    strbuf_fini(&decoded);
    return whole;
}

/* A constant, or the exponent letter of a number. */
static bool python_word(python_literal *l)
{
    static const char *const words[][2] = {{"True", "true"}, {"False", "false"}, {"None", "null"},
                                           {"true", "true"}, {"false", "false"}, {"null", "null"},
                                           {"e", "e"},       {"E", "e"}};
    const size_t start = l->at;
    while (l->at < l->text.n && ((l->text.p[l->at] | 32) >= 'a' && (l->text.p[l->at] | 32) <= 'z'))
        l->at++;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (str_is((str){l->text.p + start, l->at - start}, words[i][0])) {
            strbuf_text(l->out, words[i][1]);
            return true;
        }
    }
    return false;
}

/* Writes the comma unless a closing bracket follows. */
static void python_comma(python_literal *l)
{
    size_t next = ++l->at;
    while (next < l->text.n && strchr(" \t\r\n", l->text.p[next]) != NULL && l->text.p[next] != 0)
        next++;
    if (next == l->text.n || strchr("])}", l->text.p[next]) == NULL || l->text.p[next] == 0)
        strbuf_byte(l->out, ',');
}

bool chat_python_to_json(strbuf *out, str text)
{
    python_literal l = {.text = text, .out = out};
    while (l.at < text.n) {
        const char c = text.p[l.at];
        bool sound = true;
        if (c == '\'' || c == '"')
            sound = python_string(&l);
        else if ((c | 32) >= 'a' && (c | 32) <= 'z')
            sound = python_word(&l);
        else if (c == ',')
            python_comma(&l);
        else {
            strbuf_byte(out, c == '(' ? '[' : c == ')' ? ']' : c);
            l.at++;
        }
        if (!sound)
            return false;
    }
    return !out->failed;
}

/* ---- text to a value ---- */

static str argument_trim(str text)
{
    while (text.n > 0 && (unsigned char)text.p[0] <= ' ') {
        text.p++;
        text.n--;
    }
    while (text.n > 0 && (unsigned char)text.p[text.n - 1] <= ' ')
        text.n--;
    return text;
}

static bool argument_is_word(str text, const char *word)
{
    return text.n == strlen(word) && strncasecmp(text.p, word, text.n) == 0;
}

/* 5 and -3; if not strict also 007 and 5.0. */
static bool argument_put_integer(strbuf *out, str text, bool strict)
{
    const bool negative = text.n > 0 && text.p[0] == '-';
    size_t at = negative, end;
    while (!strict && at + 1 < text.n && text.p[at] == '0' && text.p[at + 1] >= '0' &&
           text.p[at + 1] <= '9')
        at++;
    for (end = at; end < text.n && text.p[end] >= '0' && text.p[end] <= '9';)
        end++;
    if (end == at || (strict && end - at > 1 && text.p[at] == '0'))
        return false;
    size_t rest = end;
    if (!strict && rest < text.n && text.p[rest] == '.')
        for (rest++; rest < text.n && text.p[rest] == '0';)
            rest++;
    if (rest != text.n)
        return false;
    if (negative)
        strbuf_byte(out, '-');
    strbuf_put(out, (str){text.p + at, end - at});
    return true;
}

static bool argument_put_scalar(strbuf *out, str text, unsigned types)
{
    const bool strict = (types & CHAT_TYPE_STRING) != 0;
    if ((types & CHAT_TYPE_NULL) && (str_is(text, "null") || str_is(text, "None"))) {
        strbuf_text(out, "null");
        return true;
    }
    if ((types & CHAT_TYPE_INTEGER) && argument_put_integer(out, text, strict))
        return true;
    if ((types & CHAT_TYPE_NUMBER) && text.n > 0 && json_number_length(text) == text.n) {
        strbuf_put(out, text);
        return true;
    }
    if (types & CHAT_TYPE_BOOLEAN) {
        const bool yes = argument_is_word(text, "true");
        if (yes || argument_is_word(text, "false")) {
            strbuf_text(out, yes ? "true" : "false");
            return true;
        }
    }
    return false;
}

/* false: not JSON, or out of memory; then out->failed is set. */
static bool argument_read_json(json_doc **doc, strbuf *out, str text)
{
    const mote_status status = json_doc_read(doc, text, NULL);
    out->failed |= status == MOTE_E_MEMORY;
    return status == MOTE_OK;
}

/* Writes the text if it is a JSON object or array and that type is allowed. */
static bool argument_put_document(strbuf *out, str text, unsigned types)
{
    json_doc *doc;
    if (!argument_read_json(&doc, out, text))
        return false;
    const unsigned type = type_of_value(json_doc_root(doc));
    const bool fits = (type & types & (CHAT_TYPE_OBJECT | CHAT_TYPE_ARRAY)) != 0;
    if (fits)
        json_put_as_spelt(out, json_doc_root(doc));
    json_doc_free(doc);
    return fits;
}

static bool argument_put_container(strbuf *out, str text, unsigned types)
{
    const char first = text.n > 0 ? text.p[0] : 0;
    if (!(types & (CHAT_TYPE_OBJECT | CHAT_TYPE_ARRAY)) ||
        (first != '{' && first != '[' && first != '('))
        return false;
    if (argument_put_document(out, text, types))
        return true;
    if (types & CHAT_TYPE_STRING) /* the text may be meant as a string */
        return false;
    strbuf rewritten = {0};
    const bool fits = chat_python_to_json(&rewritten, text) &&
                      argument_put_document(out, strbuf_view(&rewritten), types);
    out->failed |= rewritten.failed;
    strbuf_fini(&rewritten);
    return fits;
}

/* A quoted value where a string is not allowed, such as "30": the value inside the quotes. */
static bool argument_put_quoted(strbuf *out, str text, unsigned types)
{
    json_doc *doc;
    if (text.n < 2 || text.p[0] != '"' || !argument_read_json(&doc, out, text))
        return false;
    const str inner = argument_trim(json_node_text(json_doc_root(doc)));
    const bool fits =
        argument_put_scalar(out, inner, types) || argument_put_container(out, inner, types);
    json_doc_free(doc);
    return fits;
}

bool chat_argument_put(strbuf *out, str text, unsigned types)
{
    const str bare = argument_trim(text);
    if (types != CHAT_TYPE_STRING) {
        if (argument_put_scalar(out, bare, types) || argument_put_container(out, bare, types))
            return true;
        if (!(types & CHAT_TYPE_STRING) && argument_put_quoted(out, bare, types))
            return true;
    }
    json_put_string(out, text);
    return (types & CHAT_TYPE_STRING) != 0;
}
