/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schema_refs.c - where a $ref leads, inside the document.
 *
 * Schemas with an $id are resources of their own, and references are relative to
 * the nearest one around. Nothing is ever fetched: a reference that leads outside
 * is not supported. Nodes of a document are one array in the order of the text, so
 * what lies inside what is a comparison of addresses.
 */
#include "grammar/schema/schema_int.h"

#include <stdio.h>
#include <string.h>

enum { MAX_URI = 1024 };

/* ---- addresses ---- */

typedef struct uri {
    char text[MAX_URI];
    size_t n;
} uri;

static bool put(uri *u, str text)
{
    if (text.n > MAX_URI - u->n)
        return false;
    memcpy(u->text + u->n, text.p, text.n);
    u->n += text.n;
    return true;
}

/* The length of "scheme:", or 0. */
static size_t scheme_length(str text)
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

/* Where the path of an absolute address begins. */
static size_t path_start(str text)
{
    size_t at = scheme_length(text);
    if (text.n - at < 2 || text.p[at] != '/' || text.p[at + 1] != '/')
        return at;
    for (at += 2; at < text.n && text.p[at] != '/'; at++)
        ;
    return at;
}

/* Takes "." and ".." out of a path, which begins at `start`. */
static void remove_dots(uri *u, size_t start)
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

/* `ref` without its fragment, as seen from `base`. False: too long. */
static bool resolve_uri(str base, str ref, uri *out)
{
    const char *hash = memchr(ref.p, '#', ref.n);
    if (hash != NULL)
        ref.n = (size_t)(hash - ref.p);
    out->n = 0;
    if (ref.n == 0)
        return put(out, base);
    if (scheme_length(ref) > 0)
        return put(out, ref);
    const size_t path = path_start(base);
    size_t keep = path;
    if (ref.n >= 2 && ref.p[0] == '/' && ref.p[1] == '/')
        keep = scheme_length(base);
    else if (ref.p[0] != '/')
        for (size_t i = path; i < base.n; i++)
            keep = base.p[i] == '/' ? i + 1 : keep;
    if (!put(out, (str){base.p, keep}) || !put(out, ref))
        return false;
    remove_dots(out, path < out->n ? path : out->n);
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

/* Does the $id name a resource, and not only a place in one? */
static bool is_resource(const json_node *node)
{
    const str id = id_of(node);
    return id.n > 0 && id.p[0] != '#';
}

/* A walk over all values of the document, with the way from the root. */
typedef struct way {
    const json_node *node[JSON_MAX_DEPTH + 1];
    size_t depth;
} way;

/* The next value in the order of the text; false: there is none. */
static bool next_value(way *w)
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

/* Values of enum and const are no schemas, whatever they look like. */
static bool inside_constant(const way *w)
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

/* The address of the resource a value lies in, from the resources on the way to it. */
static bool base_of(const way *w, size_t depth, uri *out)
{
    out->n = 0;
    for (size_t i = 0; i <= depth; i++) {
        if (!json_node_is(w->node[i], JSON_IS_OBJECT) || !is_resource(w->node[i]))
            continue;
        const uri before = *out;
        if (!resolve_uri((str){before.text, before.n}, id_of(w->node[i]), out))
            return false;
    }
    return true;
}

/* The way to a value. Containers begin before what they hold, and end before the next. */
static bool find_way(const json_node *root, const json_node *goal, way *w)
{
    *w = (way){.node = {root}};
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

/* ---- places in a resource ---- */

static int hex(char c)
{
    const char lower = (char)(c | 32);
    return c >= '0' && c <= '9' ? c - '0' : lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* One part of a JSON pointer, its escapes undone. False: too long. */
static bool pointer_part(str *rest, uri *out)
{
    out->n = 0;
    size_t i = 1;
    for (; i < rest->n && rest->p[i] != '/'; i++) {
        char c = rest->p[i];
        if (c == '%' && i + 2 < rest->n + 0 && hex(rest->p[i + 1]) >= 0 &&
            hex(rest->p[i + 2]) >= 0) {
            c = (char)(hex(rest->p[i + 1]) * 16 + hex(rest->p[i + 2]));
            i += 2;
        }
        if (c == '~' && i + 1 < rest->n && (rest->p[i + 1] == '0' || rest->p[i + 1] == '1'))
            c = rest->p[++i] == '0' ? '~' : '/';
        if (!put(out, (str){&c, 1}))
            return false;
    }
    *rest = (str){rest->p + i, rest->n - i};
    return true;
}

static const json_node *item_at(const json_node *array, str index)
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
        from =
            json_node_is(from, JSON_IS_ARRAY) ? item_at(from, name) : json_node_member(from, name);
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

/* The schema at a fragment of the resource `from`, whose address is `address`. */
static const json_node *at_fragment(const json_node *root, const json_node *from, str address,
                                    str fragment)
{
    if (fragment.n == 0 || fragment.p[0] == '/')
        return follow_pointer(from, fragment);
    way w = {.node = {root}};
    do {
        const json_node *node = w.node[w.depth];
        uri base;
        if (json_node_is(node, JSON_IS_OBJECT) && has_anchor(node, fragment) &&
            base_of(&w, w.depth, &base) && str_eq((str){base.text, base.n}, address) &&
            !inside_constant(&w))
            return node;
    } while (next_value(&w));
    return NULL;
}

/* The resource with an address; the root answers to the empty one too. */
static const json_node *find_resource(const json_node *root, str address)
{
    way w = {.node = {root}};
    if (address.n == 0)
        return root;
    do {
        const json_node *node = w.node[w.depth];
        uri base;
        if (json_node_is(node, JSON_IS_OBJECT) && is_resource(node) && !inside_constant(&w) &&
            base_of(&w, w.depth, &base) && str_eq((str){base.text, base.n}, address))
            return node;
    } while (next_value(&w));
    return NULL;
}

mote_status schema_resolve(schema_compiler *c, const json_node *schema, str ref,
                           const json_node **out)
{
    way w;
    uri base, address;
    const char *hash = memchr(ref.p, '#', ref.n);
    const size_t path = hash != NULL ? (size_t)(hash - ref.p) : ref.n;
    const str fragment = hash != NULL ? (str){hash + 1, ref.n - path - 1} : (str){"", 0};
    *out = NULL;
    if (find_way(c->root, schema, &w) && base_of(&w, w.depth, &base) &&
        resolve_uri((str){base.text, base.n}, ref, &address)) {
        const str where = {address.text, address.n};
        const json_node *resource = find_resource(c->root, where);
        if (resource != NULL)
            *out = at_fragment(c->root, resource, where, fragment);
    }
    if (*out == NULL)
        return err_set(c->err, MOTE_E_UNSUPPORTED,
                       "the schema's $ref '%.*s' leads to nothing in the document", STR_ARG(ref));
    return MOTE_OK;
}
