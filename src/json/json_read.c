/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_read.c - text to document. The only file that knows jansson.
 *
 * jansson parses what json_scan.c has made ready; its tree is laid out as our
 * array and freed at once. Its depth is bounded by the scan, so its recursion is.
 */
#include "json/json_doc.h"

#include "base/mem.h"

#include <errno.h>
#include <jansson.h>

/* A container whose children are being laid out. */
typedef struct frame {
    json_t *from;
    uint32_t node;
    uint32_t next; /* index of the next child */
    void *iter;    /* of an object: the next member */
} frame;

typedef struct layout {
    json_doc *doc;
    const json_scan *scan;
    str source;
    size_t n_bytes;
    frame open[JSON_MAX_DEPTH];
    uint32_t depth;
} layout;

static str keep(layout *l, const char *text, size_t n)
{
    char *at = l->doc->bytes + l->n_bytes;
    if (n > 0)
        memcpy(at, text, n);
    l->n_bytes += n + 1;
    return (str){at, n};
}

static void fill(layout *l, json_node *node, json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT: node->kind = JSON_IS_OBJECT; break;
    case JSON_ARRAY: node->kind = JSON_IS_ARRAY; break;
    case JSON_STRING:
        node->kind = JSON_IS_STRING;
        node->text = keep(l, json_string_value(value), json_string_length(value));
        break;
    case JSON_TRUE: node->truth = true; /* fall through */
    case JSON_FALSE: node->kind = JSON_IS_BOOL; break;
    case JSON_NULL: node->kind = JSON_IS_NULL; break;
    default: {
        const json_scan_number *number = &l->scan->numbers[json_integer_value(value)];
        node->kind = JSON_IS_NUMBER;
        node->text = keep(l, l->source.p + number->source, number->n);
    }
    }
}

/* The next node of the array; a container is opened. */
static json_node *add(layout *l, json_t *value)
{
    uint32_t number = l->doc->n_nodes++;
    json_node *node = &l->doc->nodes[number];
    node->whole = 1;
    fill(l, node, value);
    if (json_is_object(value) || json_is_array(value)) {
        node->n =
            (uint32_t)(json_is_object(value) ? json_object_size(value) : json_array_size(value));
        l->open[l->depth++] = (frame){value, number, 0, json_object_iter(value)};
    }
    return node;
}

static void add_child(layout *l, frame *f)
{
    bool last = f->next + 1 == l->doc->nodes[f->node].n;
    json_node *child;
    if (json_is_object(f->from)) {
        void *iter = f->iter;
        f->iter = json_object_iter_next(f->from, iter);
        str name = keep(l, json_object_iter_key(iter), json_object_iter_key_len(iter));
        child = add(l, json_object_iter_value(iter));
        child->name = name;
    } else {
        child = add(l, json_array_get(f->from, f->next));
    }
    child->last = last;
    f->next++;
}

static void lay_out(layout *l, json_t *root)
{
    add(l, root);
    while (l->depth > 0) {
        frame *f = &l->open[l->depth - 1];
        json_node *node = &l->doc->nodes[f->node];
        if (f->next < node->n) {
            add_child(l, f);
        } else {
            node->whole = l->doc->n_nodes - f->node;
            l->depth--;
        }
    }
}

/* Every string has two quotes and every number something behind it, except one that is all of
 * the text: so their bytes and zeros fit into the length of the text and one more. */
static mote_status make_document(json_doc *doc, const json_scan *scan, str source, json_t *root,
                                 mote_error *err)
{
    doc->nodes = mem_new(scan->n_values, sizeof *doc->nodes);
    doc->bytes = mem_new(source.n + 1, 1);
    if (doc->nodes == NULL || doc->bytes == NULL)
        return err_set(err, MOTE_E_MEMORY, "no memory for a JSON document");
    layout l = {.doc = doc, .scan = scan, .source = source};
    lay_out(&l, root);
    return MOTE_OK;
}

/* jansson calls a string it had no memory for a mistake in the text: errno knows better. Its
 * sentence may end in a piece of the rewritten text, which nobody wrote. */
static mote_status complain(const json_scan *scan, str text, const json_error_t *error,
                            mote_error *err)
{
    if (error->text[0] == 0 || errno == ENOMEM)
        return err_set(err, MOTE_E_MEMORY, "no memory to parse a JSON text");
    const char *near = strstr(error->text, " near ");
    int length = near != NULL ? (int)(near - error->text) : (int)strlen(error->text);
    size_t end = json_scan_source(scan, error->position > 0 ? (size_t)error->position : 0);
    size_t line = 1, column = 1;
    for (size_t i = 0; i < end && i < text.n; i++) {
        column = text.p[i] == '\n' ? 1 : column + 1;
        line += text.p[i] == '\n';
    }
    return err_set(err, MOTE_E_FORMAT, "not JSON: %.*s before line %zu, column %zu", length,
                   error->text, line, column);
}

static mote_status parse(json_doc *doc, json_scan *scan, str text, mote_error *err)
{
    json_error_t error = {0};
    TRY(json_scan_text(scan, text, err));
    errno = 0;
    json_t *root = json_loadb(scan->rewritten.n > 0 ? scan->rewritten.p : "", scan->rewritten.n,
                              JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
    if (root == NULL)
        return complain(scan, text, &error, err);
    mote_status status = make_document(doc, scan, text, root, err);
    json_decref(root);
    return status;
}

mote_status json_doc_read(json_doc **out, str text, mote_error *err)
{
    *out = NULL;
    json_doc *doc = mem_new(1, sizeof *doc);
    if (doc == NULL)
        return err_set(err, MOTE_E_MEMORY, "no memory for a JSON document");
    json_scan scan = {0};
    mote_status status = parse(doc, &scan, text, err);
    json_scan_fini(&scan);
    if (status != MOTE_OK) {
        json_doc_free(doc);
        return status;
    }
    *out = doc;
    return MOTE_OK;
}
