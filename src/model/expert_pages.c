/* SPDX-License-Identifier: Apache-2.0 */
/*
 * expert_pages.c - see expert_pages.h.
 *
 * Which expert leaves memory is decided by the clock algorithm: a hand visits the experts in a
 * circle and evicts the first one that was not used since its last visit.
 */
#include "model/expert_pages.h"

#include "base/os_map.h"

enum { ABSENT, PRESENT, USED };

void expert_pages_take(expert_pages *p, arena *a, const hparams *hp, uint64_t limit)
{
    const size_t layers = (size_t)hp->n_layers + 1; /* the draft block is the last */
    *p = (expert_pages){.limit = limit, .n_experts = hp->n_experts};
    if (limit == 0)
        return;
    p->n = layers * hp->n_experts;
    p->state = arena_take(a, p->n, sizeof *p->state);
}

static const model_layer *layer_at(const weights *w, const hparams *hp, size_t i)
{
    return i < hp->n_layers ? &w->layers[i] : &w->draft.block;
}

static size_t layer_number(const weights *w, const hparams *hp, const model_layer *l)
{
    return l == &w->draft.block ? hp->n_layers : (size_t)(l - w->layers);
}

/* Calls fn for the three matrices of an expert. Returns their bytes. */
static uint64_t expert_each(const model_layer *l, size_t expert,
                            void (*fn)(const void *data, size_t bytes))
{
    const expert_matrix *m[] = {&l->moe.gate, &l->moe.up, &l->moe.down};
    uint64_t total = 0;
    for (size_t i = 0; i < sizeof m / sizeof *m; i++) {
        const size_t bytes = m[i]->first.rows * m[i]->first.row_bytes;
        fn(m[i]->first.data + expert * m[i]->stride, bytes);
        total += bytes;
    }
    return total;
}

/* Evicts experts until `bytes` more fit, at most two rounds: then all of them are in use. */
static void pages_make_room(expert_pages *p, const weights *w, const hparams *hp, uint64_t bytes)
{
    for (size_t visits = 0; p->bytes + bytes > p->limit && visits < 2 * p->n; visits++) {
        const size_t at = p->hand;
        p->hand = at + 1 < p->n ? at + 1 : 0;
        if (p->state[at] == PRESENT) {
            p->bytes -=
                expert_each(layer_at(w, hp, at / p->n_experts), at % p->n_experts, os_map_release);
            p->state[at] = ABSENT;
        } else if (p->state[at] == USED) {
            p->state[at] = PRESENT;
        }
    }
}

static uint64_t expert_bytes(const model_layer *l)
{
    const moe_layer *m = &l->moe;
    return m->gate.first.rows * m->gate.first.row_bytes + m->up.first.rows * m->up.first.row_bytes +
           m->down.first.rows * m->down.first.row_bytes;
}

void expert_pages_use(expert_pages *p, const weights *w, const hparams *hp, const model_layer *l,
                      const uint16_t *experts, size_t n)
{
    if (p->limit == 0)
        return;
    unsigned char *state = p->state + layer_number(w, hp, l) * p->n_experts;
    for (size_t i = 0; i < n; i++) {
        if (state[experts[i]] == ABSENT) {
            pages_make_room(p, w, hp, expert_bytes(l));
            p->bytes += expert_each(l, experts[i], os_map_will_need);
        }
        state[experts[i]] = USED;
    }
}
