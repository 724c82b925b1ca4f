/* SPDX-License-Identifier: Apache-2.0 */
/* look.c - see look.h. */
#include "nn/look.h"

#include <math.h>
#include <string.h>

enum { LOOK_QUERIES = 48 }; /* a tile: a whole number of the kernels' groups of rows */

typedef struct look_run {
    const nn *n;
    const look_shape *s;
    const look_rows *rows;
    const look_memory *memory;
    size_t first, n_keys, tiles;
    float *y;
} look_run;

static void turn(const look_run *run, float *head, size_t row)
{
    const size_t pairs = run->s->head_dim / 2;
    run->n->k->rope(head, run->rows->cos + row * pairs, run->rows->sin + row * pairs, pairs);
}

/* ---- keys and values ---- */

/* One patch of a block: its keys go to a column, its values to a row. */
static void put_patch(const look_run *run, size_t block, size_t row)
{
    const look_shape *s = run->s;
    const size_t hidden = s->heads * s->head_dim, slot = row % LOOK_BLOCK;
    float *kv = run->rows->x + row * 2 * hidden;
    run->n->k->add(run->rows->bias, 2 * hidden, kv);
    for (size_t head = 0; head < s->heads; head++) {
        const size_t at = (head * run->memory->blocks + block) * LOOK_BLOCK * s->dim;
        float *key = kv + head * s->head_dim, *k = run->memory->k + at;
        float *v = run->memory->v + at + slot * s->dim;
        turn(run, key, row);
        for (size_t d = 0; d < s->dim; d++)
            k[d * LOOK_BLOCK + slot] = d < s->head_dim ? key[d] : 0.0f;
        memcpy(v, kv + hidden + head * s->head_dim, s->head_dim * sizeof *v);
        memset(v + s->head_dim, 0, (s->dim - s->head_dim) * sizeof *v);
    }
}

static void put_task(void *ctx, uint32_t task, uint32_t worker)
{
    (void)worker;
    const look_run *run = ctx;
    const size_t row = (size_t)task * LOOK_BLOCK, left = run->rows->n - row;
    const size_t n = left < LOOK_BLOCK ? left : LOOK_BLOCK;
    for (size_t i = 0; i < n; i++)
        put_patch(run, run->first / LOOK_BLOCK + task, row + i);
}

void nn_look_put(const nn *n, const look_shape *s, const look_rows *rows, size_t first,
                 const look_memory *memory)
{
    look_run run = {.n = n, .s = s, .rows = rows, .memory = memory, .first = first};
    pool_run(n->pool, put_task, &run, (uint32_t)look_blocks(rows->n));
}

/* ---- queries ---- */

/* What a worker holds of its tile. */
typedef struct look_tile {
    float q[LOOK_QUERIES * KERN_LOOK_DIM];
    float o[LOOK_QUERIES * KERN_LOOK_DIM];
    float m[LOOK_QUERIES], l[LOOK_QUERIES];
} look_tile;
_Static_assert(sizeof(look_tile) <= NN_WORKER_BYTES, "a tile fits a worker's memory");

static void take_queries(const look_run *run, size_t head, size_t row, size_t n, look_tile *t)
{
    const look_shape *s = run->s;
    const float scale = 1.0f / sqrtf((float)s->head_dim);
    for (size_t i = 0; i < n; i++) {
        float *from = run->rows->x + ((row + i) * s->heads + head) * s->head_dim;
        run->n->k->add(run->rows->bias + head * s->head_dim, s->head_dim, from);
        float *q = t->q + i * s->dim;
        turn(run, from, row + i);
        for (size_t d = 0; d < s->head_dim; d++)
            q[d] = from[d] * scale;
        memset(q + s->head_dim, 0, (s->dim - s->head_dim) * sizeof *from);
    }
}

/* One head of some queries over all blocks, in ascending order. */
static void look_task(void *ctx, uint32_t task, uint32_t worker)
{
    const look_run *run = ctx;
    const look_shape *s = run->s;
    look_tile *t = nn_worker(run->n, worker);
    const size_t head = task / run->tiles, row = task % run->tiles * LOOK_QUERIES;
    const size_t left = run->rows->n - row, n = left < LOOK_QUERIES ? left : LOOK_QUERIES;
    take_queries(run, head, row, n, t);
    kern_look_args a = {.q = t->q,
                        .q_stride = s->dim,
                        .n = n,
                        .dim = s->dim,
                        .first = true,
                        .m = t->m,
                        .l = t->l,
                        .o = t->o};
    for (size_t key = 0; key < run->n_keys; key += LOOK_BLOCK, a.first = false) {
        const size_t block = head * run->memory->blocks + key / LOOK_BLOCK;
        a.k = run->memory->k + block * LOOK_BLOCK * s->dim;
        a.v = run->memory->v + block * LOOK_BLOCK * s->dim;
        a.n_keys = run->n_keys - key < LOOK_BLOCK ? run->n_keys - key : LOOK_BLOCK;
        run->n->k->look_block(&a);
    }
    for (size_t i = 0; i < n; i++)
        for (size_t d = 0; d < s->head_dim; d++)
            run->y[((row + i) * s->heads + head) * s->head_dim + d] =
                t->o[i * s->dim + d] / t->l[i];
}

void nn_look(const nn *n, const look_shape *s, const look_rows *rows, const look_memory *memory,
             size_t n_keys, float *y)
{
    look_run run = {.n = n, .s = s, .rows = rows, .memory = memory, .n_keys = n_keys, .y = y};
    run.tiles = (rows->n + LOOK_QUERIES - 1) / LOOK_QUERIES;
    pool_run(n->pool, look_task, &run, (uint32_t)(run.tiles * s->heads));
}
