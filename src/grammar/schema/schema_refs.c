/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schema_refs.c - resolves $ref inside the document.
 *
 * A schema with an $id is a resource; references are relative to the nearest enclosing resource.
 * Nothing is fetched: a reference to another document is not supported. The nodes of a document are
 * one array in the order of the text, so containment is a comparison of addresses.
 */
#include "grammar/schema/schema_int.h"

#include <stdio.h>
#include <string.h>

enum { MAX_URI = 1024 };

/* ---- URIs ---- */

typedef struct uri {
    char text[MAX_URI];
    size_t n;
} uri;

static bool uri_append(uri *u, str text)
{
    if (text.n > MAX_URI - u->n)
        return false;
    memcpy(u->text + u->n, text.p, text.n);
    u->n += text.n;
    return true;
}

/* The length of "scheme:", or 0. */
static size_t uri_scheme_length(str text)
{
    for (size_t i = 0; i < text.n; i++) {
        const char c = text.p[i];
        if (c == ':')
            return i > 0 ? i + 1 : 0;
        if (c == '/' || c == '?' || c == '#')
            return 0;
    }
    return 0;
}

/* Offset of the path of an absolute URI. */
static size_t uri_path_start(str text)
{
    size_t at = uri_scheme_length(text);
    if (text.n - at < 2 || text.p[at] != '/' || text.p[at + 1] != '/')
        return at;
    for (at += 2; at < text.n && text.p[at] != '/'; at++)
        ;
    return at;
}

/* Removes the segments "." and ".." from the path at `start`. */
static void uri_remove_dots(uri *u, size_t start)
{
    size_t out = start, at = start;
    while (at < u->n) {
        size_t end = at + 1;
        while (end < u->n && u->text[end] != '/')
            end++;
        const str part = {u->text + at, end - at};
        const bool up = str_is(part, "/..");
        if (up)
            while (out > start && u->text[--out] != '/')
                ;
        else if (!str_is(part, "/.")) {
            memmove(u->text + out, part.p, part.n);
            out += part.n;
        }
        at = end;
    }
    u->n = out;
}

/* Resolves `ref`, without its fragment, against `base`. False: too long. */
static bool uri_resolve(str base, str ref, uri *out)
{
    const char *hash = memchr(ref.p, '#', ref.n);
    if (hash != NULL)
        ref.n = (size_t)(hash - ref.p);
    out->n = 0;
    if (ref.n == 0)
        return uri_append(out, base);
    if (uri_scheme_length(ref) > 0)
        return uri_append(out, ref);
    const size_t path = uri_path_start(base);
    size_t keep = path;
    if (ref.n >= 2 && ref.p[0] == '/' && ref.p[1] == '/')
        keep = uri_scheme_length(base);
    else if (ref.p[0] != '/')
        for (size_t i = path; i < base.n; i++)
            keep = base.p[i] == '/' ? i + 1 : keep;
    if (!uri_append(out, (str){base.p, keep}) || !uri_append(out, ref))
        return false;
    uri_remove_dots(out, path < out->n ? path : out->n);
    return true;
}

/* ---- resources ---- */

static str id_of(const json_node *node)
{
    const json_node *id = json_node_get(node, "$id");
    if (id == NULL)
        id = json_node_get(node, "id");
    return json_node_is(id, JSON_IS_STRING) ? json_node_text(id) : (str){NULL, 0};
}

/* Does the $id name a resource, not only an anchor? */
static bool is_resource(const json_node *node)
{
    const str id = id_of(node);
    return id.n > 0 && id.p[0] != '#';
}

/* A node of the document with the path from the root to it. */
typedef struct node_path {
    const json_node *node[JSON_MAX_DEPTH + 1];
    size_t depth;
} node_path;

/* Advances to the next node in the order of the text; false: no more. */
static bool node_path_next(node_path *w)
{
    const json_node *child = json_node_first(w->node[w->depth]);
    if (child != NULL) {
        w->node[++w->depth] = child;
        return true;
    }
    while (w->depth > 0) {
        const json_node *next = json_node_next(w->node[w->depth]);
        if (next != NULL) {
            w->node[w->depth] = next;
            return true;
        }
        w->depth--;
    }
    return false;
}

/* Values of enum and const are not schemas. */
static bool inside_constant(const node_path *w)
{
    for (size_t i = 1; i <= w->depth; i++) {
        const str name = json_node_name(w->node[i]);
        const bool named = json_node_is(w->node[i - 1], JSON_IS_OBJECT);
        const bool keyword = i < 2 || !str_is(json_node_name(w->node[i - 1]), "properties");
        if (named && keyword && (str_is(name, "const") || str_is(name, "enum")))
            return true;
    }
    return false;
}

/* The URI of the resource that contains a node: the $ids along its path, resolved in turn. */
static bool node_path_base(const node_path *w, size_t depth, uri *out)
{
    out->n = 0;
    for (size_t i = 0; i <= depth; i++) {
        if (!json_node_is(w->node[i], JSON_IS_OBJECT) || !is_resource(w->node[i]))
            continue;
        const uri before = *out;
        if (!uri_resolve((str){before.text, before.n}, id_of(w->node[i]), out))
            return false;
    }
    return true;
}

/* The path to a node. A container comes before its contents, which come before its next sibling. */
static bool node_path_find(const json_node *root, const json_node *goal, node_path *w)
{
    *w = (node_path){.node = {root}};
    while (w->node[w->depth] != goal) {
        const json_node *child = json_node_first(w->node[w->depth]);
        for (const json_node *next; child != NULL; child = next) {
            next = json_node_next(child);
            if (next == NULL || next > goal)
                break;
        }
        if (child == NULL || child > goal)
            return false;
        w->node[++w->depth] = child;
    }
    return true;
}

/* ---- fragments ---- */

static int percent_digit(char c)
{
    const char lower = (char)(c | 32);
    return c >= '0' && c <= '9' ? c - '0' : lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* Takes the next reference token of a JSON pointer, unescaped. False: too long. */
static bool pointer_part(str *pointer, uri *out)
{
    out->n = 0;
    size_t i = 1;
    for (; i < pointer->n && pointer->p[i] != '/'; i++) {
        char c = pointer->p[i];
        if (c == '%' && i + 2 < pointer->n && percent_digit(pointer->p[i + 1]) >= 0 &&
            percent_digit(pointer->p[i + 2]) >= 0) {
            c = (char)(percent_digit(pointer->p[i + 1]) * 16 + percent_digit(pointer->p[i + 2]));
            i += 2;
        }
        if (c == '~' && i + 1 < pointer->n &&
            (pointer->p[i + 1] == '0' || pointer->p[i + 1] == '1'))
            c = pointer->p[++i] == '0' ? '~' : '/';
        if (!uri_append(out, (str){&c, 1}))
            return false;
    }
    *pointer = (str){pointer->p + i, pointer->n - i};
    return true;
}

static const json_node *array_item(const json_node *array, str index)
{
    uint64_t n = 0;
    for (size_t i = 0; i < index.n; i++) {
        if (index.p[i] < '0' || index.p[i] > '9' || n > JSON_MAX_NODES)
            return NULL;
        n = n * 10 + (uint64_t)(index.p[i] - '0');
    }
    const json_node *item = json_node_first(array);
    while (item != NULL && n-- > 0)
        item = json_node_next(item);
    return item;
}

static const json_node *follow_pointer(const json_node *from, str pointer)
{
    uri part;
    while (from != NULL && pointer.n > 0) {
        if (!pointer_part(&pointer, &part))
            return NULL;
        const str name = {part.text, part.n};
        from = json_node_is(from, JSON_IS_ARRAY) ? array_item(from, name)
                                                 : json_node_member(from, name);
    }
    return from;
}

static bool has_anchor(const json_node *node, str name)
{
    static const char *const keywords[] = {"$anchor", "$dynamicAnchor"};
    for (size_t i = 0; i < 2; i++) {
        const json_node *anchor = json_node_get(node, keywords[i]);
        if (json_node_is(anchor, JSON_IS_STRING) && str_eq(json_node_text(anchor), name))
            return true;
    }
    const str id = id_of(node); /* up to draft 7 */
    return id.n == name.n + 1 && id.p[0] == '#' && memcmp(id.p + 1, name.p, name.n) == 0;
}

/* The schema at a fragment of the resource `from`, which has the URI `address`. */
static const json_node *at_fragment(const json_node *root, const json_node *from, str address,
                                    str fragment)
{
    if (fragment.n == 0 || fragment.p[0] == '/')
        return follow_pointer(from, fragment);
    node_path w = {.node = {root}};
    do {
        const json_node *node = w.node[w.depth];
        uri base;
        if (json_node_is(node, JSON_IS_OBJECT) && has_anchor(node, fragment) &&
            node_path_base(&w, w.depth, &base) && str_eq((str){base.text, base.n}, address) &&
            !inside_constant(&w))
            return node;
    } while (node_path_next(&w));
    return NULL;
}

/* The resource with a URI; the empty URI is the root. */
static const json_node *find_resource(const json_node *root, str address)
{
    node_path w = {.node = {root}};
    if (address.n == 0)
        return root;
    do {
        const json_node *node = w.node[w.depth];
        uri base;
        if (json_node_is(node, JSON_IS_OBJECT) && is_resource(node) && !inside_constant(&w) &&
            node_path_base(&w, w.depth, &base) && str_eq((str){base.text, base.n}, address))
            return node;
    } while (node_path_next(&w));
    return NULL;
}

mote_status schema_resolve(schema_compiler *c, const json_node *schema, str ref,
                           const json_node **out)
{
    node_path w;
    uri base, address;
    const char *hash = memchr(ref.p, '#', ref.n);
    const size_t path = hash != NULL ? (size_t)(hash - ref.p) : ref.n;
    const str fragment = hash != NULL ? (str){hash + 1, ref.n - path - 1} : (str){"", 0};
    *out = NULL;
    if (node_path_find(c->root, schema, &w) && node_path_base(&w, w.depth, &base) &&
        uri_resolve((str){base.text, base.n}, ref, &address)) {
        const str where = {address.text, address.n};
        const json_node *resource = find_resource(c->root, where);
        if (resource != NULL)
            *out = at_fragment(c->root, resource, where, fragment);
    }
    if (*out == NULL)
        return err_set(c->err, MOTE_E_UNSUPPORTED, "schema: $ref '%.*s' not found in the document",
                       STR_ARG(ref));
    return MOTE_OK;
}
