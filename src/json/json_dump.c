/* SPDX-License-Identifier: Apache-2.0 */
/* json_dump.c - parsed document to text, as Python's json.dumps writes it. */
#include "json/json_int.h"

#include <stdio.h>

static void string_put_escape(strbuf *out, unsigned char c)
{
    static const char short_for[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    const char *at = c != 0 ? strchr(short_for, c) : NULL;
    if (at != NULL) {
        char escape[2] = {'\\', letters[at - short_for]};
        strbuf_put(out, (str){escape, 2});
    } else {
        char escape[8];
        snprintf(escape, sizeof escape, "\\u%04x", (unsigned)c);
        strbuf_put(out, (str){escape, 6});
    }
}

void json_put_escaped(strbuf *out, str text)
{
    size_t plain = 0; /* start of the span without escapes */
    for (size_t i = 0; i < text.n; i++) {
        unsigned char c = (unsigned char)text.p[i];
        if (c >= 0x20 && c != '"' && c != '\\')
            continue;
        strbuf_put(out, (str){text.p + plain, i - plain});
        string_put_escape(out, c);
        plain = i + 1;
    }
    if (plain < text.n)
        strbuf_put(out, (str){text.p + plain, text.n - plain});
}

void json_put_string(strbuf *out, str text)
{
    strbuf_byte(out, '"');
    json_put_escaped(out, text);
    strbuf_byte(out, '"');
}

typedef void put_number_fn(strbuf *out, str spelling);

/* Writes a scalar, or the opening bracket of a container. */
static void node_put_start(strbuf *out, const json_node *node, put_number_fn *put_number)
{
    switch (json_node_kind(node)) {
    case JSON_IS_BOOL: strbuf_text(out, json_node_truth(node) ? "true" : "false"); break;
    case JSON_IS_NUMBER: put_number(out, node->text); break;
    case JSON_IS_STRING: json_put_string(out, node->text); break;
    case JSON_IS_ARRAY: strbuf_byte(out, '['); break;
    case JSON_IS_OBJECT: strbuf_byte(out, '{'); break;
    default: strbuf_text(out, "null"); break;
    }
}

/* Nodes are in document order, so one pass over the array writes them. The stack holds the open
 * containers. */
static void node_put_tree(strbuf *out, const json_node *node, put_number_fn *put_number)
{
    const json_node *open[JSON_MAX_DEPTH];
    uint32_t depth = 0;
    const json_node *at = node;
    for (;;) {
        node_put_start(out, at, put_number);
        if (at == NULL)
            return;
        if (at->kind == JSON_IS_ARRAY || at->kind == JSON_IS_OBJECT)
            open[depth++] = at;
        at++;
        while (depth > 0 && at == open[depth - 1] + open[depth - 1]->whole)
            strbuf_byte(out, open[--depth]->kind == JSON_IS_ARRAY ? ']' : '}');
        if (depth == 0)
            return;
        if (at != open[depth - 1] + 1)
            strbuf_text(out, ", ");
        if (open[depth - 1]->kind == JSON_IS_OBJECT) {
            json_put_string(out, at->name);
            strbuf_text(out, ": ");
        }
    }
}

void json_put_node(strbuf *out, const json_node *node)
{
    node_put_tree(out, node, json_put_number);
}

void json_put_as_spelt(strbuf *out, const json_node *node)
{
    node_put_tree(out, node, strbuf_put);
}

void json_put_without(strbuf *out, const json_node *object, const char *name)
{
    const char *before = "{";
    for (const json_node *m = json_node_first(object); m != NULL; m = json_node_next(m)) {
        if (str_is(json_node_name(m), name))
            continue;
        strbuf_text(out, before);
        json_put_string(out, json_node_name(m));
        strbuf_text(out, ": ");
        json_put_as_spelt(out, m);
        before = ", ";
    }
    strbuf_text(out, before[0] == '{' ? "{}" : "}");
}
