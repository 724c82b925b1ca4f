/* SPDX-License-Identifier: Apache-2.0 */
/* json.c - see json.h. One pass with a fixed stack, no recursion. */
#include "support/json.h"
#include "support/data.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAX_DEPTH = 32, MAX_NODES = 1 << 22 };

/* Stored before the root node, so test_json_free finds it. */
typedef struct document {
    size_t room; /* capacity in nodes */
    char *strings;
    test_json nodes[];
} document;

typedef struct parser {
    const char *p, *end;
    document *doc;
    size_t n;      /* nodes used */
    char *strings; /* next free byte of doc->strings */
} parser;

static void skip_blanks(parser *s)
{
    while (s->p < s->end && (*s->p == ' ' || *s->p == '\t' || *s->p == '\n' || *s->p == '\r'))
        s->p++;
}

static bool take(parser *s, char c)
{
    skip_blanks(s);
    if (s->p == s->end || *s->p != c)
        return false;
    s->p++;
    return true;
}

static bool take_word(parser *s, const char *word)
{
    const size_t n = strlen(word);
    if ((size_t)(s->end - s->p) < n || memcmp(s->p, word, n) != 0)
        return false;
    s->p += n;
    return true;
}

static void put_utf8(parser *s, uint32_t c)
{
    char *o = s->strings;
    if (c < 0x80) {
        *o++ = (char)c;
    } else if (c < 0x800) {
        *o++ = (char)(0xC0 | c >> 6);
        *o++ = (char)(0x80 | (c & 63));
    } else if (c < 0x10000) {
        *o++ = (char)(0xE0 | c >> 12);
        *o++ = (char)(0x80 | (c >> 6 & 63));
        *o++ = (char)(0x80 | (c & 63));
    } else {
        *o++ = (char)(0xF0 | c >> 18);
        *o++ = (char)(0x80 | (c >> 12 & 63));
        *o++ = (char)(0x80 | (c >> 6 & 63));
        *o++ = (char)(0x80 | (c & 63));
    }
    s->strings = o;
}

static bool take_hex(parser *s, uint32_t *out)
{
    *out = 0;
    if (s->end - s->p < 4)
        return false;
    for (int i = 0; i < 4; i++) {
        const char c = *s->p++;
        if (c >= '0' && c <= '9')
            *out = *out << 4 | (uint32_t)(c - '0');
        else if ((c | 32) >= 'a' && (c | 32) <= 'f')
            *out = *out << 4 | (uint32_t)((c | 32) - 'a' + 10);
        else
            return false;
    }
    return true;
}

/* Reads an escape after the backslash. Decoded text is never longer than the escape. */
static bool take_escape(parser *s)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (s->p == s->end)
        return false;
    const char c = *s->p++;
    if (c != 'u') {
        const char *at = memchr(from, c, sizeof from - 1);
        if (at != NULL)
            *s->strings++ = to[at - from];
        return at != NULL;
    }
    uint32_t code, low;
    if (!take_hex(s, &code))
        return false;
    if (code >= 0xD800 && code < 0xDC00) {
        if (!take_word(s, "\\u") || !take_hex(s, &low) || low < 0xDC00 || low > 0xDFFF)
            return false;
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    put_utf8(s, code);
    return true;
}

static bool take_string(parser *s, str *out)
{
    const char *start = s->strings;
    if (!take(s, '"'))
        return false;
    while (s->p < s->end && *s->p != '"') {
        const char c = *s->p++;
        if (c == '\\') {
            if (!take_escape(s))
                return false;
        } else {
            *s->strings++ = c;
        }
    }
    if (s->p == s->end)
        return false;
    s->p++;
    *out = (str){start, (size_t)(s->strings - start)};
    return true;
}

static bool take_number(parser *s, double *out)
{
    char copy[64], *end;
    size_t n = 0;
    while (s->p < s->end && n < sizeof copy - 1 && strchr("+-.0123456789eE", *s->p) != NULL)
        copy[n++] = *s->p++;
    copy[n] = 0;
    *out = strtod(copy, &end);
    return n > 0 && *end == 0;
}

/* Reads a scalar, or the opening bracket of a container. */
static bool take_value(parser *s, test_json *node)
{
    skip_blanks(s);
    if (s->p == s->end)
        return false;
    switch (*s->p) {
    case '{': node->type = JSON_OBJECT; return take(s, '{');
    case '[': node->type = JSON_ARRAY; return take(s, '[');
    case '"': node->type = JSON_STRING; return take_string(s, &node->text);
    case 'n': node->type = JSON_NULL; return take_word(s, "null");
    case 't':
        node->type = JSON_BOOL;
        node->truth = true;
        return take_word(s, "true");
    case 'f': node->type = JSON_BOOL; return take_word(s, "false");
    default: node->type = JSON_NUMBER; return take_number(s, &node->number);
    }
}

static bool is_container(const test_json *node)
{
    return node->type == JSON_ARRAY || node->type == JSON_OBJECT;
}

/* May move the array, so nodes are addressed by index while parsing. */
static test_json *new_node(parser *s)
{
    if (s->n == s->doc->room) {
        if (s->n >= MAX_NODES)
            return NULL;
        const size_t room = 2 * s->doc->room;
        document *grown = realloc(s->doc, sizeof *grown + room * sizeof grown->nodes[0]);
        if (grown == NULL)
            return NULL;
        s->doc = grown;
        s->doc->room = room;
    }
    test_json *node = &s->doc->nodes[s->n++];
    *node = (test_json){.next = 1};
    return node;
}

static bool parse_all(parser *s)
{
    size_t open[MAX_DEPTH]; /* indexes of the open containers */
    int depth = 0;
    do {
        test_json *parent = depth > 0 ? &s->doc->nodes[open[depth - 1]] : NULL;
        const char closing = parent != NULL && parent->type == JSON_OBJECT ? '}' : ']';
        if (parent != NULL && take(s, closing)) {
            parent->next = (uint32_t)(s->n - open[--depth]);
            continue;
        }
        if (parent != NULL && parent->n++ > 0 && !take(s, ','))
            return false;
        const bool named = parent != NULL && parent->type == JSON_OBJECT;
        test_json *node = new_node(s);
        if (node == NULL || (named && (!take_string(s, &node->key) || !take(s, ':'))) ||
            !take_value(s, node))
            return false;
        if (is_container(node)) {
            if (depth == MAX_DEPTH)
                return false;
            open[depth++] = s->n - 1;
        }
    } while (depth > 0);
    skip_blanks(s);
    return s->p == s->end;
}

const test_json *test_json_parse(const char *text, size_t bytes)
{
    parser s = {.p = text, .end = text + bytes};
    enum { FIRST_ROOM = 64 };
    s.doc = malloc(sizeof *s.doc + FIRST_ROOM * sizeof s.doc->nodes[0]);
    s.strings = malloc(bytes + 1);
    if (s.doc == NULL || s.strings == NULL) {
        free(s.doc);
        free(s.strings);
        return NULL;
    }
    s.doc->room = FIRST_ROOM;
    s.doc->strings = s.strings;
    if (!parse_all(&s)) {
        free(s.doc->strings);
        free(s.doc);
        return NULL;
    }
    return s.doc->nodes;
}

const test_json *test_json_data(const char *name)
{
    char path[TEST_PATH];
    size_t bytes;
    unsigned char *text = test_data_path(path, name) ? test_file_read(path, &bytes) : NULL;
    const test_json *root = text != NULL ? test_json_parse((const char *)text, bytes) : NULL;
    free(text);
    if (root == NULL) {
        fprintf(stderr, "cannot read %s\n", path);
        exit(1);
    }
    return root;
}

void test_json_free(const test_json *root)
{
    if (root == NULL)
        return;
    document *doc = (document *)((char *)(uintptr_t)root - offsetof(document, nodes));
    free(doc->strings);
    free(doc);
}

const test_json *test_json_at(const test_json *parent, uint32_t i)
{
    if (!is_container(parent) || i >= parent->n)
        return NULL;
    const test_json *child = parent + 1;
    for (; i > 0; i--)
        child += child->next;
    return child;
}

const test_json *test_json_get(const test_json *object, const char *key)
{
    if (object == NULL || object->type != JSON_OBJECT)
        return NULL;
    const test_json *child = object + 1;
    for (uint32_t i = 0; i < object->n; i++, child += child->next)
        if (str_is(child->key, key))
            return child;
    return NULL;
}
