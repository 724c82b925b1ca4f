/* SPDX-License-Identifier: Apache-2.0 */
/*
 * matcher_shortest.c - the shortest way to the end of a text.
 *
 * A search in breadth over configurations. Equal places are one configuration, however they
 * were reached, so it visits little more than the places a grammar has between here and there.
 */
#include "grammar/grammar.h"

#include "base/mem.h"
#include "grammar/grammar_int.h"

enum { VISITS = 16384, SLOTS = 2 * VISITS };

typedef struct visit {
    uint32_t config;
    uint32_t from; /* number of the visit before */
    uint8_t byte;  /* that led here */
} visit;

typedef struct search {
    configs *c;
    visit *all; /* [VISITS] */
    uint32_t n;
    uint32_t *slots; /* [SLOTS], number of a visit + 1, by configuration */
} search;

/* False: there was one already, or there is no room. */
static bool add(search *s, uint32_t place, uint32_t from, uint8_t byte)
{
    uint32_t slot = place * 0x9E3779B1u % SLOTS;
    while (s->slots[slot] != 0 && s->all[s->slots[slot] - 1].config != place)
        slot = (slot + 1) % SLOTS;
    if (s->slots[slot] != 0 || s->n == VISITS)
        return false;
    s->all[s->n++] = (visit){place, from, byte};
    s->slots[slot] = s->n;
    return true;
}

/* Looks one byte further from visit `at`; true: the last visit is an end. */
static bool look_on(search *s, uint32_t at)
{
    const rules *r = s->c->r;
    for (uint32_t k = 0; k < r->n_classes; k++) {
        const uint8_t byte = r->class_of['a'] == k ? 'a' : r->byte_of[k];
        const uint32_t from = s->all[at].config;
        if (!config_allows(&s->c->all[from], byte))
            continue;
        const uint32_t to = configs_step(s->c, from, byte);
        if (to != CONFIG_DEAD && to != CONFIG_FAILED && add(s, to, at, byte) &&
            s->c->all[to].complete)
            return true;
    }
    return false;
}

static size_t write_way(const search *s, char *out, size_t room)
{
    size_t n = 0;
    for (uint32_t at = s->n - 1; at != 0; at = s->all[at].from)
        n++;
    if (n > room)
        return 0;
    size_t end = n;
    for (uint32_t at = s->n - 1; at != 0; at = s->all[at].from)
        out[--end] = (char)s->all[at].byte;
    return ((unsigned char)out[0] & 0xC0) == 0x80 ? 0 : n; /* the middle of a character */
}

size_t grammar_shortest(grammar_matcher *m, char *out, size_t room)
{
    search s = {.c = &m->g->c,
                .all = mem_new(VISITS, sizeof *s.all),
                .slots = mem_new(SLOTS, sizeof *s.slots)};
    size_t n = 0;
    bool found = false;
    if (s.all != NULL && s.slots != NULL && !grammar_is_over(m) && !grammar_is_complete(m)) {
        add(&s, m->places[m->n], 0, 0);
        for (uint32_t at = 0; at < s.n && !found; at++)
            found = look_on(&s, at);
        n = found ? write_way(&s, out, room) : 0;
    }
    mem_free(s.all);
    mem_free(s.slots);
    return n;
}
