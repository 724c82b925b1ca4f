/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tool_arguments.c - arguments by schema.
 */
#include "chat/parse/parse_int.h"

#include <strings.h>

/* ---- what a schema allows ---- */

enum { MAX_VISITS = 64, MAX_WAITING = 32 };

/* Schemas still to be looked at; those that do not fit make the answer ANY. */
typedef struct visit {
    const json_node *root;
    const json_node *waiting[MAX_WAITING];
    int n;
    unsigned types;
} visit;

static unsigned type_named(str name)
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
        /* what clients write that never read the specification */
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

static void wait_for(visit *v, const json_node *schema)
{
    if (schema == NULL || v->n == MAX_WAITING)
        v->types = CHAT_TYPE_ANY;
    else
        v->waiting[v->n++] = schema;
}

/* "#/$defs/name": the schema a reference points to; NULL: not inside this document. */
static const json_node *resolve(const json_node *root, str pointer)
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

/* The types a schema names itself; 0: it names none. */
static unsigned own_types(const json_node *schema)
{
    const json_node *type = json_node_get(schema, "type"), *list = json_node_get(schema, "enum");
    unsigned types = 0;
    if (json_node_is(type, JSON_IS_STRING))
        types = type_named(json_node_text(type));
    else if (json_node_is(type, JSON_IS_ARRAY))
        for (const json_node *one = json_node_first(type); one != NULL; one = json_node_next(one))
            types |= type_named(json_node_text(one));
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

static void visit_schema(visit *v, const json_node *schema)
{
    static const char *const lists[] = {"anyOf", "oneOf", "allOf"};
    const unsigned own = own_types(schema);
    const json_node *reference = json_node_get(schema, "$ref");
    bool elsewhere = reference != NULL;
    v->types |= own;
    if (own != 0)
        return;
    if (elsewhere)
        wait_for(v, resolve(v->root, json_node_text(reference)));
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        const json_node *list = json_node_get(schema, lists[i]);
        if (!json_node_is(list, JSON_IS_ARRAY))
            continue;
        elsewhere = true;
        for (const json_node *one = json_node_first(list); one != NULL; one = json_node_next(one))
            wait_for(v, one);
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
    visit v = {.root = schema};
    if (property == NULL)
        property = json_node_get(schema, "additionalProperties");
    if (!json_node_is(property, JSON_IS_OBJECT))
        return CHAT_TYPE_ANY;
    wait_for(&v, property);
    for (int visits = 0; v.n > 0 && v.types != CHAT_TYPE_ANY; visits++) {
        if (visits == MAX_VISITS)
            return CHAT_TYPE_ANY;
        visit_schema(&v, v.waiting[--v.n]);
    }
    return v.types != 0 ? v.types : CHAT_TYPE_ANY;
}

/* ---- Python literals to JSON ---- */

typedef struct literal {
    str text;
    size_t at;
    strbuf *out;
} literal;

static int hex_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

static void put_utf8(strbuf *out, uint32_t code)
{
    if (code >= 0x80 && code < 0x800) {
        strbuf_byte(out, (char)(0xC0 | code >> 6));
    } else if (code >= 0x800) {
        strbuf_byte(out, (char)(0xE0 | code >> 12));
        strbuf_byte(out, (char)(0x80 | (code >> 6 & 63)));
    }
    strbuf_byte(out, (char)(code < 0x80 ? code : 0x80 | (code & 63)));
}

/* \xHH or \uHHHH, at the letter. Halves of surrogate pairs are not put together. */
static bool take_code(literal *l, strbuf *to)
{
    const int digits = l->text.p[l->at++] == 'x' ? 2 : 4;
    uint32_t code = 0;
    for (int i = 0; i < digits; i++, l->at++) {
        const int digit = l->at < l->text.n ? hex_of(l->text.p[l->at]) : -1;
        if (digit < 0)
            return false;
        code = code << 4 | (uint32_t)digit;
    }
    put_utf8(to, code >= 0xD800 && code <= 0xDFFF ? 0xFFFD : code);
    return true;
}

/* After a backslash. What Python does not know stays as it is, backslash included. */
static bool take_escape(literal *l, strbuf *to)
{
    static const char from[] = "'\"\\nrtbf", into[] = "'\"\\\n\r\t\b\f";
    if (l->at == l->text.n)
        return false;
    const char c = l->text.p[l->at];
    if (c == 'x' || c == 'u')
        return take_code(l, to);
    const char *known = c != 0 ? strchr(from, c) : NULL;
    if (known == NULL)
        strbuf_byte(to, '\\');
    strbuf_byte(to, known != NULL ? into[known - from] : c);
    l->at++;
    return true;
}

static bool take_string(literal *l)
{
    const char quote = l->text.p[l->at++];
    strbuf decoded = {0};
    bool whole = false;
    while (l->at < l->text.n) {
        const char c = l->text.p[l->at++];
        whole = c == quote;
        if (whole || (c == '\\' && !take_escape(l, &decoded)))
            break;
        if (c != '\\')
            strbuf_byte(&decoded, c);
    }
    json_put_string(l->out, strbuf_view(&decoded));
    l->out->failed |= decoded.failed;
    strbuf_fini(&decoded);
    return whole;
}

static bool take_word(literal *l)
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

/* A comma, unless only blanks and a closing bracket follow. */
static void take_comma(literal *l)
{
    size_t next = ++l->at;
    while (next < l->text.n && strchr(" \t\r\n", l->text.p[next]) != NULL && l->text.p[next] != 0)
        next++;
    if (next == l->text.n || strchr("])}", l->text.p[next]) == NULL || l->text.p[next] == 0)
        strbuf_byte(l->out, ',');
}

bool chat_python_to_json(strbuf *out, str text)
{
    literal l = {.text = text, .out = out};
    while (l.at < text.n) {
        const char c = text.p[l.at];
        bool sound = true;
        if (c == '\'' || c == '"')
            sound = take_string(&l);
        else if ((c | 32) >= 'a' && (c | 32) <= 'z')
            sound = take_word(&l);
        else if (c == ',')
            take_comma(&l);
        else {
            strbuf_byte(out, c == '(' ? '[' : c == ')' ? ']' : c);
            l.at++;
        }
        if (!sound)
            return false;
    }
    return !out->failed;
}

/* ---- what a text is ---- */

static str trim(str text)
{
    while (text.n > 0 && (unsigned char)text.p[0] <= ' ') {
        text.p++;
        text.n--;
    }
    while (text.n > 0 && (unsigned char)text.p[text.n - 1] <= ' ')
        text.n--;
    return text;
}

static bool is_word(str text, const char *word)
{
    return text.n == strlen(word) && strncasecmp(text.p, word, text.n) == 0;
}

/* 5, -3; where a string is not allowed also 007 and 5.0. */
static bool put_integer(strbuf *out, str text, bool strict)
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

static bool put_scalar(strbuf *out, str text, unsigned types)
{
    const bool strict = (types & CHAT_TYPE_STRING) != 0;
    if ((types & CHAT_TYPE_NULL) && (str_is(text, "null") || str_is(text, "None"))) {
        strbuf_text(out, "null");
        return true;
    }
    if ((types & CHAT_TYPE_INTEGER) && put_integer(out, text, strict))
        return true;
    if ((types & CHAT_TYPE_NUMBER) && text.n > 0 && json_number_length(text) == text.n) {
        strbuf_put(out, text);
        return true;
    }
    if (types & CHAT_TYPE_BOOLEAN) {
        const bool yes = is_word(text, "true");
        if (yes || is_word(text, "false")) {
            strbuf_text(out, yes ? "true" : "false");
            return true;
        }
    }
    return false;
}

/* false: it is no JSON; without memory nobody knows, and `out` says so. */
static bool read_json(json_doc **doc, strbuf *out, str text)
{
    const mote_status status = json_doc_read(doc, text, NULL);
    out->failed |= status == MOTE_E_MEMORY;
    return status == MOTE_OK;
}

/* The text as a JSON document, if that is what it is and of an allowed kind. */
static bool put_document(strbuf *out, str text, unsigned types)
{
    json_doc *doc;
    if (!read_json(&doc, out, text))
        return false;
    const unsigned type = type_of_value(json_doc_root(doc));
    const bool fits = (type & types & (CHAT_TYPE_OBJECT | CHAT_TYPE_ARRAY)) != 0;
    if (fits)
        json_put_as_spelt(out, json_doc_root(doc));
    json_doc_free(doc);
    return fits;
}

static bool put_container(strbuf *out, str text, unsigned types)
{
    const char first = text.n > 0 ? text.p[0] : 0;
    if (!(types & (CHAT_TYPE_OBJECT | CHAT_TYPE_ARRAY)) ||
        (first != '{' && first != '[' && first != '('))
        return false;
    if (put_document(out, text, types))
        return true;
    if (types & CHAT_TYPE_STRING) /* it may as well be text */
        return false;
    strbuf rewritten = {0};
    const bool fits =
        chat_python_to_json(&rewritten, text) && put_document(out, strbuf_view(&rewritten), types);
    out->failed |= rewritten.failed;
    strbuf_fini(&rewritten);
    return fits;
}

/* "30" in quotes where 30 was due: what the quotes hold. */
static bool put_quoted(strbuf *out, str text, unsigned types)
{
    json_doc *doc;
    if (text.n < 2 || text.p[0] != '"' || !read_json(&doc, out, text))
        return false;
    const str inner = trim(json_node_text(json_doc_root(doc)));
    const bool fits = put_scalar(out, inner, types) || put_container(out, inner, types);
    json_doc_free(doc);
    return fits;
}

bool chat_argument_put(strbuf *out, str text, unsigned types)
{
    const str bare = trim(text);
    if (types != CHAT_TYPE_STRING) {
        if (put_scalar(out, bare, types) || put_container(out, bare, types))
            return true;
        if (!(types & CHAT_TYPE_STRING) && put_quoted(out, bare, types))
            return true;
    }
    json_put_string(out, text);
    return (types & CHAT_TYPE_STRING) != 0;
}
