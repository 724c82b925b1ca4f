/* SPDX-License-Identifier: Apache-2.0 */
/*
 * route.c - chooses the experts of every row and sorts the slots by expert; see experts.h.
 *
 * A row is routed by scalar code: 256 comparisons take less time than to wake a thread. The sort is
 * a counting sort on the calling thread.
 */
#include "nn/experts.h"

#include "kernels/fmath.h"

#include <string.h>

enum { ROWS_PER_TASK = 8 };

/* ---- memory ---- */

/* Kernels need int8 inputs of an expert aligned to 64 bytes, so rows of an odd number of 32 values
 * begin at even slots. */
static size_t slot_unit(const expert_shape *s)
{
    return s->n_embd % 64 != 0 || s->ff % 64 != 0 ? 2 : 1;
}

size_t experts_max_slots(const expert_shape *s, size_t rows)
{
    return rows * s->n_used * slot_unit(s);
}

void experts_routes_take(expert_routes *r, arena *a, const expert_shape *s, size_t batch)
{
    const size_t slots = experts_max_slots(s, batch);
    r->chosen = arena_take(a, batch * s->n_used, sizeof *r->chosen);
    r->weight = arena_take(a, batch * s->n_used, sizeof *r->weight);
    r->shared = arena_take(a, batch, sizeof *r->shared);
    r->begin = arena_take(a, s->n_experts, sizeof *r->begin);
    r->count = arena_take(a, s->n_experts, sizeof *r->count);
    r->slot_row = arena_take(a, slots, sizeof *r->slot_row);
    r->slot_weight = arena_take(a, slots, sizeof *r->slot_weight);
    r->active = arena_take(a, s->n_experts, sizeof *r->active);
}

/* ---- rows ---- */

typedef struct route_run {
    const expert_shape *shape;
    const float *logits, *gates;
    size_t n_rows;
    expert_routes *r;
} route_run;

typedef struct candidate {
    float logit;
    uint16_t expert;
} candidate;

/* The n largest, descending. A later expert passes an earlier one only if it is larger. */
static void choose_largest(const float *logits, size_t n_experts, size_t n, candidate *best)
{
    size_t found = 0;
    for (size_t e = 0; e < n_experts; e++) {
        const float v = logits[e] == logits[e] ? logits[e] : -INFINITY;
        if (found == n && !(v > best[n - 1].logit))
            continue;
        size_t at = found < n ? found++ : n - 1;
        for (; at > 0 && best[at - 1].logit < v; at--)
            best[at] = best[at - 1];
        best[at] = (candidate){v, (uint16_t)e};
    }
}

static void sort_by_index(candidate *c, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        const candidate moved = c[i];
        size_t at = i;
        for (; at > 0 && c[at - 1].expert > moved.expert; at--)
            c[at] = c[at - 1];
        c[at] = moved;
    }
}

static void route_row(const route_run *run, size_t row)
{
    const size_t n = run->shape->n_used;
    uint16_t *chosen = run->r->chosen + row * n;
    float *weight = run->r->weight + row * n;
    candidate best[EXPERTS_MAX_USED];
    choose_largest(run->logits + row * run->shape->n_experts, run->shape->n_experts, n, best);
    const float largest = best[0].logit;
    sort_by_index(best, n);
    float sum = 0.0f;
    for (size_t i = 0; i < n; i++) {
        chosen[i] = best[i].expert;
        weight[i] = f_exp(best[i].logit - largest);
        sum = sum + weight[i];
    }
    for (size_t i = 0; i < n; i++)
        weight[i] = weight[i] / sum;
    run->r->shared[row] = f_sigmoid(run->gates[row]);
}

static void route_task(void *ctx, uint32_t task, uint32_t worker)
{
    (void)worker;
    const route_run *run = ctx;
    size_t row = (size_t)task * ROWS_PER_TASK;
    const size_t end = row + ROWS_PER_TASK < run->n_rows ? row + ROWS_PER_TASK : run->n_rows;
    for (; row < end; row++)
        route_row(run, row);
}

/* ---- slots ---- */

static void sort_slots(const expert_shape *s, size_t n_rows, expert_routes *r)
{
    const size_t unit = slot_unit(s), pairs = n_rows * s->n_used;
    memset(r->count, 0, s->n_experts * sizeof *r->count);
    for (size_t i = 0; i < pairs; i++)
        r->count[r->chosen[i]]++;
    r->n_active = r->n_slots = 0;
    for (size_t e = 0; e < s->n_experts; e++) {
        r->begin[e] = (uint32_t)r->n_slots;
        if (r->count[e] > 0)
            r->active[r->n_active++] = (uint16_t)e;
        r->n_slots += (r->count[e] + unit - 1) / unit * unit;
        r->count[e] = 0;
    }
    for (size_t i = 0; unit > 1 && i < r->n_slots; i++)
        r->slot_row[i] = SLOT_EMPTY;
    for (size_t i = 0; i < pairs; i++) {
        const uint16_t e = r->chosen[i];
        const uint32_t slot = r->begin[e] + r->count[e]++;
        r->slot_row[slot] = (uint32_t)(i / s->n_used);
        r->slot_weight[slot] = r->weight[i];
    }
}

void nn_route(const nn *n, const expert_shape *s, const float *logits, const float *gates,
              size_t n_rows, expert_routes *r)
{
    route_run run = {.shape = s, .logits = logits, .gates = gates, .n_rows = n_rows, .r = r};
    pool_run(n->pool, route_task, &run, (uint32_t)((n_rows + ROWS_PER_TASK - 1) / ROWS_PER_TASK));
    sort_slots(s, n_rows, r);
}
