/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_members.c - members of an object that have the same name: the last one counts, at the
 * place of the first.
 *
 * They are found by sorting, so that an object of a hundred thousand names takes no longer than
 * it should, whatever the names are. Objects inside have been done before: they are moved whole.
 */
#include "json/json_int.h"

#include "base/mem.h"

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
