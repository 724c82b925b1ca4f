/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_read.c - text to document, in one pass and without recursion.
 *
 * Nodes are added in the order of the text; those of containers that are not
 * closed yet are on a stack as deep as the limit. All text goes into one block of the size
 * of the source. So a stranger's text costs a small multiple of itself, and memory
 * that is not there is an error like others.
 */
#include "json/json_int.h"

#include "base/mem.h"

enum { FIRST_NODES = 64 };

/* A container that is open. */
typedef struct frame {
    uint32_t node;
    uint32_t last; /* its last child so far */
} frame;

typedef struct reader {
    json_doc *doc;
    str text;
    size_t at;
    size_t room;       /* of doc->nodes */
    size_t n_bytes;    /* of doc->bytes */
    uint32_t n_values; /* members that gave way to later ones included */
    frame open[JSON_MAX_DEPTH];
    uint32_t depth;
} reader;

/* ---- what is wrong, and where ---- */

static mote_status complain(const reader *r, const char *what, mote_error *err)
{
    size_t line = 1, column = 1;
    for (size_t i = 0; i < r->at; i++) {
        column = r->text.p[i] == '\n' ? 1 : column + 1;
        line += r->text.p[i] == '\n';
    }
    return err_set(err, MOTE_E_FORMAT, "not JSON: %s at line %zu, column %zu", what, line, column);
}

static mote_status no_memory(mote_error *err)
{
    return err_set(err, MOTE_E_MEMORY, "no memory for a JSON document");
}

/* ---- pieces of text ---- */

static void skip_blanks(reader *r)
{
    while (r->at < r->text.n) {
        const char c = r->text.p[r->at];
        if (c != ' ' && c != '\n' && c != '\r' && c != '\t')
            return;
        r->at++;
    }
}

/* The byte that is next; -1: there is none. */
static int peek(const reader *r)
{
    return r->at < r->text.n ? (unsigned char)r->text.p[r->at] : -1;
}

static bool take(reader *r, char c)
{
    const bool is = peek(r) == (unsigned char)c;
    r->at += is;
    return is;
}

static bool take_word(reader *r, const char *word)
{
    const str w = str_of(word);
    if (r->text.n - r->at < w.n || memcmp(r->text.p + r->at, w.p, w.n) != 0)
        return false;
    r->at += w.n;
    return true;
}

/* Every string has two quotes and every number something behind it, except one that is all of
 * the text: so their bytes and zeros fit into the length of the text and one more. */
static str keep(reader *r, size_t n)
{
    const str kept = {r->doc->bytes + r->n_bytes, n};
    r->n_bytes += n + 1;
    return kept;
}

/* At the opening quote. */
static mote_status read_string(reader *r, str *out, mote_error *err)
{
    size_t n = 0;
    r->at++;
    const char *wrong = json_string_read(r->text, &r->at, r->doc->bytes + r->n_bytes, &n);
    if (wrong != NULL)
        return complain(r, wrong, err);
    *out = keep(r, n);
    return MOTE_OK;
}

static mote_status read_name(reader *r, str *name, mote_error *err)
{
    if (peek(r) != '"')
        return complain(r, "a name in quotes is missing", err);
    TRY(read_string(r, name, err));
    if (memchr(name->p, 0, name->n) != NULL)
        return complain(r, "a name with a zero in it", err);
    skip_blanks(r);
    if (!take(r, ':'))
        return complain(r, "a colon is missing", err);
    skip_blanks(r);
    return MOTE_OK;
}

/* ---- nodes ---- */

static mote_status make_room(reader *r, mote_error *err)
{
    json_doc *doc = r->doc;
    if (r->n_values == JSON_MAX_NODES)
        return err_set(err, MOTE_E_ARG, "the JSON text has more than %d values", JSON_MAX_NODES);
    r->n_values++;
    if (doc->n_nodes < r->room)
        return MOTE_OK;
    const size_t room = r->room > 0 ? 2 * r->room : FIRST_NODES;
    json_node *moved = mem_resize(doc->nodes, r->room, room, sizeof *moved);
    if (moved == NULL)
        return no_memory(err);
    doc->nodes = moved;
    r->room = room;
    return MOTE_OK;
}

/* The next node, a child of the innermost container. Nodes move when there are more of them. */
static mote_status add(reader *r, str name, json_node **out, mote_error *err)
{
    TRY(make_room(r, err));
    const uint32_t number = r->doc->n_nodes++;
    if (r->depth > 0) {
        frame *f = &r->open[r->depth - 1];
        r->doc->nodes[f->node].n++;
        f->last = number;
    }
    *out = &r->doc->nodes[number];
    **out = (json_node){.whole = 1, .name = name};
    return MOTE_OK;
}

static mote_status open_container(reader *r, json_node *node, json_kind kind, mote_error *err)
{
    if (r->depth == JSON_MAX_DEPTH)
        return err_set(err, MOTE_E_ARG, "the JSON text is nested deeper than %d", JSON_MAX_DEPTH);
    const uint32_t number = json_node_number(r->doc, node);
    node->kind = (uint8_t)kind;
    r->open[r->depth++] = (frame){number, number};
    r->at++;
    return MOTE_OK;
}

static mote_status close_container(reader *r, mote_error *err)
{
    const frame *f = &r->open[--r->depth];
    json_node *node = &r->doc->nodes[f->node];
    node->whole = r->doc->n_nodes - f->node;
    if (node->n > 0)
        r->doc->nodes[f->last].last = true;
    return node->kind == JSON_IS_OBJECT ? json_members_unite(r->doc, f->node, err) : MOTE_OK;
}

static mote_status read_number(reader *r, json_node *node, mote_error *err)
{
    const str rest = {r->text.p + r->at, r->text.n - r->at};
    const size_t n = json_number_length(rest);
    if (n == 0)
        return complain(r, "a value is missing", err);
    if (n > JSON_MAX_NUMBER)
        return err_set(err, MOTE_E_ARG, "a number of %zu bytes is too long: at most %d", n,
                       JSON_MAX_NUMBER);
    node->kind = JSON_IS_NUMBER;
    node->text = keep(r, n);
    memcpy(r->doc->bytes + r->n_bytes - n - 1, rest.p, n);
    r->at += n;
    return MOTE_OK;
}

static mote_status read_value(reader *r, str name, mote_error *err)
{
    json_node *node;
    TRY(add(r, name, &node, err));
    switch (peek(r)) {
    case '{': return open_container(r, node, JSON_IS_OBJECT, err);
    case '[': return open_container(r, node, JSON_IS_ARRAY, err);
    case '"': node->kind = JSON_IS_STRING; return read_string(r, &node->text, err);
    default: break;
    }
    node->truth = take_word(r, "true");
    if (node->truth || take_word(r, "false"))
        node->kind = JSON_IS_BOOL;
    else if (take_word(r, "null"))
        node->kind = JSON_IS_NULL;
    else
        return read_number(r, node, err);
    return MOTE_OK;
}

/* ---- all of it ---- */

/* Inside a container: its end, or its next child, or the beginning of that. */
static mote_status read_inside(reader *r, mote_error *err)
{
    const json_node *container = &r->doc->nodes[r->open[r->depth - 1].node];
    const bool is_object = container->kind == JSON_IS_OBJECT;
    str name = {NULL, 0};
    skip_blanks(r);
    if (take(r, is_object ? '}' : ']'))
        return close_container(r, err);
    if (container->n > 0 && !take(r, ','))
        return complain(r, is_object ? "a comma or } is missing" : "a comma or ] is missing", err);
    skip_blanks(r);
    if (is_object)
        TRY(read_name(r, &name, err));
    return read_value(r, name, err);
}

static mote_status read_text(reader *r, mote_error *err)
{
    r->doc->bytes = mem_new(r->text.n + 1, 1);
    if (r->doc->bytes == NULL)
        return no_memory(err);
    skip_blanks(r);
    TRY(read_value(r, (str){NULL, 0}, err));
    while (r->depth > 0)
        TRY(read_inside(r, err));
    skip_blanks(r);
    return r->at == r->text.n ? MOTE_OK : complain(r, "more text behind the value", err);
}

mote_status json_doc_read(json_doc **out, str text, mote_error *err)
{
    *out = NULL;
    reader r = {.doc = mem_new(1, sizeof *r.doc), .text = text.n > 0 ? text : str_of("")};
    if (r.doc == NULL)
        return no_memory(err);
    const mote_status status = read_text(&r, err);
    if (status != MOTE_OK) {
        json_doc_free(r.doc);
        return status;
    }
    *out = r.doc;
    return MOTE_OK;
}
