/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_read.c - JSON parser: one pass, no recursion.
 *
 * Nodes are stored in one array in document order. Open containers are on a stack of JSON_MAX_DEPTH
 * entries. All strings and numbers go into one block of the size of the input. So memory is bounded
 * by a small multiple of the input, and a failed allocation is an ordinary error.
 */
#include "base/mem.h"
#include "base/utf8.h"
#include "json/json_int.h"

/* ---- strings ----
 *
 * Decoding never makes a string longer: an escape of six bytes is a character of at most three
 * bytes, a surrogate pair one of four. */

enum {
    REPLACEMENT = 0xFFFD,
    HIGH_SURROGATE = 0xD800,
    LOW_SURROGATE = 0xDC00,
    AFTER_SURROGATES = 0xE000,
    BEYOND_16_BITS = 0x10000,
    UNIT_BYTES = 6 /* \uXXXX */
};

/* The code unit of an escape \uXXXX at `at`; -1: none. */
static int32_t string_code_unit(str text, size_t at)
{
    int32_t code = 0;
    if (text.n - at < UNIT_BYTES || text.p[at] != '\\' || text.p[at + 1] != 'u')
        return -1;
    for (size_t i = at + 2; i < at + UNIT_BYTES; i++) {
        const char c = text.p[i];
        if (c >= '0' && c <= '9')
            code = code << 4 | (c - '0');
        else if ((c | 32) >= 'a' && (c | 32) <= 'f')
            code = code << 4 | ((c | 32) - 'a' + 10);
        else
            return -1;
    }
    return code;
}

/* Decodes one or two escapes \uXXXX; a lone surrogate is U+FFFD. -1: no escape. */
static int32_t string_escaped_character(str text, size_t *at)
{
    const int32_t code = string_code_unit(text, *at);
    if (code < 0)
        return -1;
    *at += UNIT_BYTES;
    if (code < HIGH_SURROGATE || code >= AFTER_SURROGATES)
        return code;
    const int32_t low = code < LOW_SURROGATE ? string_code_unit(text, *at) : -1;
    if (low < LOW_SURROGATE || low >= AFTER_SURROGATES)
        return REPLACEMENT;
    *at += UNIT_BYTES;
    return BEYOND_16_BITS + ((code - HIGH_SURROGATE) << 10 | (low - LOW_SURROGATE));
}

/* Decodes the escape at `at`. Returns the bytes written; 0: invalid escape. */
static size_t string_read_escape(str text, size_t *at, char *out)
{
    static const char names[] = "\"\\/bfnrt", means[] = "\"\\/\b\f\n\r\t";
    if (text.n - *at < 2)
        return 0;
    const char *name = memchr(names, text.p[*at + 1], sizeof names - 1);
    if (name != NULL) {
        *at += 2;
        *out = means[name - names];
        return 1;
    }
    const int32_t code = string_escaped_character(text, at);
    return code < 0 ? 0 : utf8_put((unsigned char *)out, (uint32_t)code);
}

/* Length of the text that needs no decoding; ends at a quote, a backslash or an error. */
static size_t string_plain_bytes(str text, size_t at)
{
    const unsigned char *p = (const unsigned char *)text.p;
    const size_t from = at;
    while (at < text.n && p[at] >= 0x20 && p[at] != '"' && p[at] != '\\') {
        const int bytes = utf8_check(p + at, text.n - at);
        if (bytes <= 0)
            break;
        at += (size_t)bytes;
    }
    return at - from;
}

static const char *string_error_at(str text, size_t at)
{
    if (at == text.n)
        return "unterminated string";
    return (unsigned char)text.p[at] < 0x20 ? "control character in a string"
                                            : "invalid UTF-8 in a string";
}

/* Decodes the string that starts at *at, after its opening quote; *at ends after the closing quote.
 * `out` has room for the rest of the text. Returns NULL, or what is wrong at *at. */
static const char *string_read(str text, size_t *at, char *out, size_t *n)
{
    for (;;) {
        const size_t plain = string_plain_bytes(text, *at);
        memcpy(out + *n, text.p + *at, plain);
        *n += plain;
        *at += plain;
        if (*at < text.n && text.p[*at] == '"') {
            ++*at;
            return NULL;
        }
        if (*at == text.n || text.p[*at] != '\\')
            return string_error_at(text, *at);
        const size_t bytes = string_read_escape(text, at, out + *n);
        if (bytes == 0)
            return "invalid escape";
        *n += bytes;
    }
}

/* ---- duplicate names ----
 *
 * Of members with the same name the last value counts, at the position of the first. Sorting finds
 * them in O(n log n), whatever the names are. Nested objects are already complete and are moved as
 * a whole. */

enum {
    FEW = 8, /* up to this many members are compared pairwise */
    REMOVED = UINT32_MAX
};

/* The members of one object, by index. */
typedef struct members {
    json_node *object;
    uint32_t n;
    uint32_t *place; /* [n], offset from the object, in nodes */
    uint32_t *order; /* [n], indices sorted by name, stable */
    uint32_t *spare; /* [n] */
    uint32_t *from;  /* [n], index of the value for this position; REMOVED: none */
} members;

/* Quick test for small objects. False: there may be duplicates, or too many members to compare. */
static bool members_are_unique(const json_node *object)
{
    if (object->n > FEW)
        return false;
    for (const json_node *a = json_node_first(object); a != NULL; a = json_node_next(a))
        for (const json_node *b = json_node_next(a); b != NULL; b = json_node_next(b))
            if (str_eq(a->name, b->name))
                return false;
    return true;
}

static str members_name(const members *m, uint32_t ordinal)
{
    return m->object[m->place[ordinal]].name;
}

/* Orders by length first; any total order works that puts equal names side by side. */
static bool members_after(const members *m, uint32_t a, uint32_t b)
{
    const str left = members_name(m, a), right = members_name(m, b);
    if (left.n != right.n)
        return left.n > right.n;
    return memcmp(left.p, right.p, left.n) > 0;
}

/* Merges the sorted ranges order[begin .. middle) and order[middle .. end) into spare. */
static void members_merge(members *m, uint32_t begin, uint32_t middle, uint32_t end)
{
    uint32_t left = begin, right = middle;
    for (uint32_t i = begin; i < end; i++) {
        const bool take_right =
            left == middle || (right < end && members_after(m, m->order[left], m->order[right]));
        m->spare[i] = m->order[take_right ? right++ : left++];
    }
}

static void members_sort(members *m)
{
    for (uint32_t width = 1; width < m->n; width *= 2) {
        for (uint32_t begin = 0; begin < m->n; begin += 2 * width) {
            const uint32_t middle = begin + width < m->n ? begin + width : m->n;
            const uint32_t end = middle + width < m->n ? middle + width : m->n;
            members_merge(m, begin, middle, end);
        }
        uint32_t *const sorted = m->spare;
        m->spare = m->order;
        m->order = sorted;
    }
}

/* Sets `from`. False: no duplicates. */
static bool members_pair(members *m)
{
    bool any = false;
    for (uint32_t i = 0; i < m->n; i++)
        m->from[i] = i;
    for (uint32_t begin = 0, end; begin < m->n; begin = end) {
        const str name = members_name(m, m->order[begin]);
        for (end = begin + 1; end < m->n && str_eq(members_name(m, m->order[end]), name); end++)
            m->from[m->order[end]] = REMOVED;
        m->from[m->order[begin]] = m->order[end - 1];
        any |= end - begin > 1;
    }
    return any;
}

/* Rebuilds the object from a copy of its nodes. */
static void members_rebuild(json_doc *doc, const members *m, const json_node *copy)
{
    json_node *object = m->object;
    uint32_t whole = 1, last = 0;
    object->n = 0;
    for (uint32_t i = 0; i < m->n; i++) {
        if (m->from[i] == REMOVED)
            continue;
        const json_node *member = copy + m->place[m->from[i]];
        memcpy(object + whole, member, member->whole * sizeof *member);
        object[whole].last = false;
        last = whole;
        whole += member->whole;
        object->n++;
    }
    object[last].last = true;
    object->whole = whole;
    doc->n_nodes = json_node_number(doc, object) + whole;
}

/* Rebuilds the object if names occur twice. It must be the last node of the document. */
static mote_status members_unite_sorted(json_doc *doc, members *m, mote_error *err)
{
    uint32_t ordinal = 0;
    const json_node *member = json_node_first(m->object);
    for (; member != NULL; member = json_node_next(member), ordinal++) {
        m->place[ordinal] = (uint32_t)(member - m->object);
        m->order[ordinal] = ordinal;
    }
    members_sort(m);
    if (!members_pair(m))
        return MOTE_OK;
    doc->repeats = true;
    json_node *copy = mem_new(m->object->whole, sizeof *copy);
    if (copy == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: JSON document");
    memcpy(copy, m->object, m->object->whole * sizeof *copy);
    members_rebuild(doc, m, copy);
    mem_free(copy);
    return MOTE_OK;
}

/* Removes duplicate names of a closed object at the end of the node array. */
static mote_status members_unite(json_doc *doc, uint32_t object, mote_error *err)
{
    json_node *node = &doc->nodes[object];
    if (members_are_unique(node))
        return MOTE_OK;
    const uint32_t n = node->n;
    uint32_t *lists = mem_new((size_t)n * 4, sizeof *lists);
    if (lists == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: JSON document");
    members m = {node, n, lists, lists + n, lists + (size_t)2 * n, lists + (size_t)3 * n};
    const mote_status status = members_unite_sorted(doc, &m, err);
    mem_free(lists);
    return status;
}

/* ---- parser ---- */

enum { FIRST_NODES = 64 };

/* An open container. */
typedef struct frame {
    uint32_t node;
    uint32_t last; /* last child so far */
} frame;

typedef struct reader {
    json_doc *doc;
    str text;
    size_t at;
    size_t room;       /* of doc->nodes */
    size_t n_bytes;    /* of doc->bytes */
    uint32_t n_values; /* including removed duplicates */
    uint32_t max_values;
    frame open[JSON_MAX_DEPTH];
    uint32_t depth;
} reader;

/* ---- errors ---- */

static mote_status reader_error(const reader *r, const char *what, mote_error *err)
{
    size_t line = 1, column = 1;
    for (size_t i = 0; i < r->at; i++) {
        column = r->text.p[i] == '\n' ? 1 : column + 1;
        line += r->text.p[i] == '\n';
    }
    return err_set(err, MOTE_E_FORMAT, "invalid JSON: %s at line %zu, column %zu", what, line,
                   column);
}

static mote_status reader_no_memory(mote_error *err)
{
    return err_set(err, MOTE_E_MEMORY, "out of memory: JSON document");
}

/* ---- tokens ---- */

static void reader_skip_space(reader *r)
{
    while (r->at < r->text.n) {
        const char c = r->text.p[r->at];
        if (c != ' ' && c != '\n' && c != '\r' && c != '\t')
            return;
        r->at++;
    }
}

/* The next byte; -1: end of text. */
static int reader_peek(const reader *r)
{
    return r->at < r->text.n ? (unsigned char)r->text.p[r->at] : -1;
}

static bool reader_take(reader *r, char c)
{
    const bool is = reader_peek(r) == (unsigned char)c;
    r->at += is;
    return is;
}

static bool reader_take_word(reader *r, const char *word)
{
    const str w = str_of(word);
    if (r->text.n - r->at < w.n || memcmp(r->text.p + r->at, w.p, w.n) != 0)
        return false;
    r->at += w.n;
    return true;
}

/* Reserves n bytes and a terminating zero in doc->bytes. The block has text.n + 1 bytes, which is
 * enough: a string has two quotes, and a number is followed by another byte or is the whole text.
 */
static str reader_keep(reader *r, size_t n)
{
    const str kept = {r->doc->bytes + r->n_bytes, n};
    r->n_bytes += n + 1;
    return kept;
}

/* At the opening quote. */
static mote_status reader_string(reader *r, str *out, mote_error *err)
{
    size_t n = 0;
    r->at++;
    const char *wrong = string_read(r->text, &r->at, r->doc->bytes + r->n_bytes, &n);
    if (wrong != NULL)
        return reader_error(r, wrong, err);
    *out = reader_keep(r, n);
    return MOTE_OK;
}

static mote_status reader_name(reader *r, str *name, mote_error *err)
{
    if (reader_peek(r) != '"')
        return reader_error(r, "expected a member name", err);
    TRY(reader_string(r, name, err));
    if (memchr(name->p, 0, name->n) != NULL)
        return reader_error(r, "NUL in a member name", err);
    reader_skip_space(r);
    if (!reader_take(r, ':'))
        return reader_error(r, "expected ':'", err);
    reader_skip_space(r);
    return MOTE_OK;
}

/* ---- nodes ---- */

static mote_status reader_make_room(reader *r, mote_error *err)
{
    json_doc *doc = r->doc;
    if (r->n_values == r->max_values)
        return err_set(err, MOTE_E_ARG, "JSON document has more than %u values", r->max_values);
    r->n_values++;
    if (doc->n_nodes < r->room)
        return MOTE_OK;
    const size_t room = r->room > 0 ? 2 * r->room : FIRST_NODES;
    json_node *moved = mem_resize(doc->nodes, r->room, room, sizeof *moved);
    if (moved == NULL)
        return reader_no_memory(err);
    doc->nodes = moved;
    r->room = room;
    return MOTE_OK;
}

/* Appends a node to the innermost container. Earlier node pointers become invalid. */
static mote_status reader_add(reader *r, str name, json_node **out, mote_error *err)
{
    TRY(reader_make_room(r, err));
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

static mote_status reader_open(reader *r, json_node *node, json_kind kind, mote_error *err)
{
    if (r->depth == JSON_MAX_DEPTH)
        return err_set(err, MOTE_E_ARG, "JSON document is nested deeper than %d levels",
                       JSON_MAX_DEPTH);
    const uint32_t number = json_node_number(r->doc, node);
    node->kind = (uint8_t)kind;
    r->open[r->depth++] = (frame){number, number};
    r->at++;
    return MOTE_OK;
}

static mote_status reader_close(reader *r, mote_error *err)
{
    const frame *f = &r->open[--r->depth];
    json_node *node = &r->doc->nodes[f->node];
    node->whole = r->doc->n_nodes - f->node;
    if (node->n > 0)
        r->doc->nodes[f->last].last = true;
    return node->kind == JSON_IS_OBJECT ? members_unite(r->doc, f->node, err) : MOTE_OK;
}

static mote_status reader_number(reader *r, json_node *node, mote_error *err)
{
    const str rest = {r->text.p + r->at, r->text.n - r->at};
    const size_t n = json_number_length(rest);
    if (n == 0)
        return reader_error(r, "expected a value", err);
    if (n > JSON_MAX_NUMBER)
        return err_set(err, MOTE_E_ARG, "number of %zu bytes; at most %d", n, JSON_MAX_NUMBER);
    node->kind = JSON_IS_NUMBER;
    node->text = reader_keep(r, n);
    memcpy(r->doc->bytes + r->n_bytes - n - 1, rest.p, n);
    r->at += n;
    return MOTE_OK;
}

static mote_status reader_value(reader *r, str name, mote_error *err)
{
    json_node *node;
    TRY(reader_add(r, name, &node, err));
    switch (reader_peek(r)) {
    case '{': return reader_open(r, node, JSON_IS_OBJECT, err);
    case '[': return reader_open(r, node, JSON_IS_ARRAY, err);
    case '"': node->kind = JSON_IS_STRING; return reader_string(r, &node->text, err);
    default: break;
    }
    node->truth = reader_take_word(r, "true");
    if (node->truth || reader_take_word(r, "false"))
        node->kind = JSON_IS_BOOL;
    else if (reader_take_word(r, "null"))
        node->kind = JSON_IS_NULL;
    else
        return reader_number(r, node, err);
    return MOTE_OK;
}

/* ---- documents ---- */

/* Reads the end of the innermost container, or its next child. */
static mote_status reader_inside(reader *r, mote_error *err)
{
    const json_node *container = &r->doc->nodes[r->open[r->depth - 1].node];
    const bool is_object = container->kind == JSON_IS_OBJECT;
    str name = {NULL, 0};
    reader_skip_space(r);
    if (reader_take(r, is_object ? '}' : ']'))
        return reader_close(r, err);
    if (container->n > 0 && !reader_take(r, ','))
        return reader_error(r, is_object ? "expected ',' or '}'" : "expected ',' or ']'", err);
    reader_skip_space(r);
    if (is_object)
        TRY(reader_name(r, &name, err));
    return reader_value(r, name, err);
}

static mote_status reader_document(reader *r, mote_error *err)
{
    r->doc->bytes = mem_new(r->text.n + 1, 1);
    if (r->doc->bytes == NULL)
        return reader_no_memory(err);
    reader_skip_space(r);
    TRY(reader_value(r, (str){NULL, 0}, err));
    while (r->depth > 0)
        TRY(reader_inside(r, err));
    reader_skip_space(r);
    return r->at == r->text.n ? MOTE_OK : reader_error(r, "unexpected text after the value", err);
}

mote_status json_doc_read(json_doc **out, str text, mote_error *err)
{
    return json_doc_read_large(out, text, JSON_MAX_NODES, err);
}

mote_status json_doc_read_large(json_doc **out, str text, uint32_t max_nodes, mote_error *err)
{
    *out = NULL;
    reader r = {.doc = mem_new(1, sizeof *r.doc),
                .text = text.n > 0 ? text : str_of(""),
                .max_values = max_nodes};
    if (r.doc == NULL)
        return reader_no_memory(err);
    const mote_status status = reader_document(&r, err);
    if (status != MOTE_OK) {
        json_doc_free(r.doc);
        return status;
    }
    *out = r.doc;
    return MOTE_OK;
}
