/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_string.c - what stands between two quotes, decoded.
 *
 * Nothing here is longer decoded than spelt: an escape of six bytes is a character of
 * at most three, two of them that make a pair are one of four.
 */
#include "base/mem.h"
#include "base/utf8.h"
#include "json/json_int.h"

enum {
    REPLACEMENT = 0xFFFD,
    HIGH_SURROGATE = 0xD800,
    LOW_SURROGATE = 0xDC00,
    AFTER_SURROGATES = 0xE000,
    BEYOND_16_BITS = 0x10000,
    UNIT_BYTES = 6 /* \uXXXX */
};

/* The code unit of an escape \uXXXX at this place; -1: there is none. */
static int32_t code_unit(str text, size_t at)
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

/* The character that one or two escapes \uXXXX spell; half a pair spells U+FFFD. -1: none. */
static int32_t escaped_character(str text, size_t *at)
{
    const int32_t code = code_unit(text, *at);
    if (code < 0)
        return -1;
    *at += UNIT_BYTES;
    if (code < HIGH_SURROGATE || code >= AFTER_SURROGATES)
        return code;
    const int32_t low = code < LOW_SURROGATE ? code_unit(text, *at) : -1;
    if (low < LOW_SURROGATE || low >= AFTER_SURROGATES)
        return REPLACEMENT;
    *at += UNIT_BYTES;
    return BEYOND_16_BITS + ((code - HIGH_SURROGATE) << 10 | (low - LOW_SURROGATE));
}

/* At a backslash. Returns the bytes written; 0: this is no escape. */
static size_t read_escape(str text, size_t *at, char *out)
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
    const int32_t code = escaped_character(text, at);
    return code < 0 ? 0 : utf8_put((unsigned char *)out, (uint32_t)code);
}

/* How many bytes from here on stand for themselves; stops at quotes, backslashes and mistakes. */
static size_t plain_bytes(str text, size_t at)
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

static const char *mistake_at(str text, size_t at)
{
    if (at == text.n)
        return "a string without an end";
    return (unsigned char)text.p[at] < 0x20 ? "a control character in a string"
                                            : "a byte in a string that is not UTF-8";
}

const char *json_string_read(str text, size_t *at, char *out, size_t *n)
{
    for (;;) {
        const size_t plain = plain_bytes(text, *at);
        memcpy(out + *n, text.p + *at, plain);
        *n += plain;
        *at += plain;
        if (*at < text.n && text.p[*at] == '"') {
            ++*at;
            return NULL;
        }
        if (*at == text.n || text.p[*at] != '\\')
            return mistake_at(text, *at);
        const size_t bytes = read_escape(text, at, out + *n);
        if (bytes == 0)
            return "a backslash that begins no escape";
        *n += bytes;
    }
}

/* ---- members of an object that have the same name: the last one counts, at the place of the
 * first. They are found by sorting, so that an object of a hundred thousand names takes no longer
 * than it should, whatever the names are. Objects inside have been done before: they are moved
 * whole. ---- */

enum {
    FEW = 8, /* members that are compared with each other */
    GIVES_WAY = UINT32_MAX
};

/* The members of one object by their ordinals. */
typedef struct members {
    json_node *object;
    uint32_t n;
    uint32_t *place; /* [n], how far behind the object */
    uint32_t *order; /* [n], ordinals by name, equal ones as they come */
    uint32_t *spare; /* [n] */
    uint32_t *from;  /* [n], whose value goes here; GIVES_WAY: nobody's */
} members;

static bool few_and_different(const json_node *object)
{
    if (object->n > FEW)
        return false;
    for (const json_node *a = json_node_first(object); a != NULL; a = json_node_next(a))
        for (const json_node *b = json_node_next(a); b != NULL; b = json_node_next(b))
            if (str_eq(a->name, b->name))
                return false;
    return true;
}

static str name_of(const members *m, uint32_t ordinal)
{
    return m->object[m->place[ordinal]].name;
}

/* By length first: any order will do in which equals are neighbours. */
static bool comes_after(const members *m, uint32_t a, uint32_t b)
{
    const str left = name_of(m, a), right = name_of(m, b);
    if (left.n != right.n)
        return left.n > right.n;
    return memcmp(left.p, right.p, left.n) > 0;
}

/* Merges order[begin .. middle) and order[middle .. end), both sorted, into spare. */
static void merge(members *m, uint32_t begin, uint32_t middle, uint32_t end)
{
    uint32_t left = begin, right = middle;
    for (uint32_t i = begin; i < end; i++) {
        const bool take_right =
            left == middle || (right < end && comes_after(m, m->order[left], m->order[right]));
        m->spare[i] = m->order[take_right ? right++ : left++];
    }
}

static void sort(members *m)
{
    for (uint32_t width = 1; width < m->n; width *= 2) {
        for (uint32_t begin = 0; begin < m->n; begin += 2 * width) {
            const uint32_t middle = begin + width < m->n ? begin + width : m->n;
            const uint32_t end = middle + width < m->n ? middle + width : m->n;
            merge(m, begin, middle, end);
        }
        uint32_t *const sorted = m->spare;
        m->spare = m->order;
        m->order = sorted;
    }
}

/* Says for each member whose value goes to its place. false: all stay as they are. */
static bool pair_off(members *m)
{
    bool any = false;
    for (uint32_t i = 0; i < m->n; i++)
        m->from[i] = i;
    for (uint32_t begin = 0, end; begin < m->n; begin = end) {
        const str name = name_of(m, m->order[begin]);
        for (end = begin + 1; end < m->n && str_eq(name_of(m, m->order[end]), name); end++)
            m->from[m->order[end]] = GIVES_WAY;
        m->from[m->order[begin]] = m->order[end - 1];
        any |= end - begin > 1;
    }
    return any;
}

/* Lays the members out again, from a copy of what they were. */
static void lay_out(json_doc *doc, const members *m, const json_node *copy)
{
    json_node *object = m->object;
    uint32_t whole = 1, last = 0;
    object->n = 0;
    for (uint32_t i = 0; i < m->n; i++) {
        if (m->from[i] == GIVES_WAY)
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

static mote_status unite(json_doc *doc, members *m, mote_error *err)
{
    uint32_t ordinal = 0;
    const json_node *member = json_node_first(m->object);
    for (; member != NULL; member = json_node_next(member), ordinal++) {
        m->place[ordinal] = (uint32_t)(member - m->object);
        m->order[ordinal] = ordinal;
    }
    sort(m);
    if (!pair_off(m))
        return MOTE_OK;
    doc->repeats = true;
    json_node *copy = mem_new(m->object->whole, sizeof *copy);
    if (copy == NULL)
        return err_set(err, MOTE_E_MEMORY, "no memory for a JSON document");
    memcpy(copy, m->object, m->object->whole * sizeof *copy);
    lay_out(doc, m, copy);
    mem_free(copy);
    return MOTE_OK;
}

mote_status json_members_unite(json_doc *doc, uint32_t object, mote_error *err)
{
    json_node *node = &doc->nodes[object];
    if (few_and_different(node))
        return MOTE_OK;
    const uint32_t n = node->n;
    uint32_t *lists = mem_new((size_t)n * 4, sizeof *lists);
    if (lists == NULL)
        return err_set(err, MOTE_E_MEMORY, "no memory for a JSON document");
    members m = {node, n, lists, lists + n, lists + (size_t)2 * n, lists + (size_t)3 * n};
    const mote_status status = unite(doc, &m, err);
    mem_free(lists);
    return status;
}

/* ---- text to document, in one pass and without recursion. Nodes are added in the order of the
 * text; those of containers that are not closed yet are on a stack as deep as the limit. All text
 * goes into one block of the size of the source. So a stranger's text costs a small multiple of
 * itself, and memory that is not there is an error like others. ---- */

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
