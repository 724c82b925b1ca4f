/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vision_attention.c - attention of the vision encoder over the patches of a frame.
 *
 * A task stores one block of 64 patches, or computes one head of 48 queries over all blocks.
 */
#include "nn/vision_attention.h"

#include <math.h>
#include <string.h>

enum { VISION_ATTN_QUERIES = 48 }; /* per tile; a multiple of the kernels' row groups */

typedef struct vision_attn_run {
    const nn *n;
    const vision_attn_shape *s;
    const vision_attn_rows *rows;
    const vision_attn_memory *memory;
    size_t first, n_keys, tiles;
    float *y;
} vision_attn_run;

static void rotate_head(const vision_attn_run *run, float *head, size_t row)
{
    const size_t pairs = run->s->head_dim / 2;
    run->n->k->rope(head, run->rows->cos + row * pairs, run->rows->sin + row * pairs, pairs);
}

/* ---- keys and values ---- */

/* Stores one patch in a block: keys as a column, values as a row. */
static void store_patch(const vision_attn_run *run, size_t block, size_t row)
{
    const vision_attn_shape *s = run->s;
    const size_t hidden = s->heads * s->head_dim, slot = row % VISION_ATTN_BLOCK;
    float *kv = run->rows->x + row * 2 * hidden;
    run->n->k->add(run->rows->bias, 2 * hidden, kv);
    for (size_t head = 0; head < s->heads; head++) {
        const size_t at = (head * run->memory->blocks + block) * VISION_ATTN_BLOCK * s->dim;
        float *key = kv + head * s->head_dim, *k = run->memory->k + at;
        float *v = run->memory->v + at + slot * s->dim;
        rotate_head(run, key, row);
        for (size_t d = 0; d < s->dim; d++)
            k[d * VISION_ATTN_BLOCK + slot] = d < s->head_dim ? key[d] : 0.0f;
        memcpy(v, kv + hidden + head * s->head_dim, s->head_dim * sizeof *v);
        memset(v + s->head_dim, 0, (s->dim - s->head_dim) * sizeof *v);
    }
}

static void store_patches_task(void *ctx, uint32_t task, uint32_t worker)
{
    (void)worker;
    const vision_attn_run *run = ctx;
    const size_t row = (size_t)task * VISION_ATTN_BLOCK, left = run->rows->n - row;
    const size_t n = left < VISION_ATTN_BLOCK ? left : VISION_ATTN_BLOCK;
    for (size_t i = 0; i < n; i++)
        store_patch(run, run->first / VISION_ATTN_BLOCK + task, row + i);
}

void nn_vision_attn_put(const nn *n, const vision_attn_shape *s, const vision_attn_rows *rows,
                        size_t first, const vision_attn_memory *memory)
{
    vision_attn_run run = {.n = n, .s = s, .rows = rows, .memory = memory, .first = first};
    pool_run(n->pool, store_patches_task, &run, (uint32_t)vision_attn_blocks(rows->n));
}

/* ---- queries ---- */

/* Scratch of a tile, in the worker's memory. */
typedef struct vision_attn_tile {
    float q[VISION_ATTN_QUERIES * KERN_VISION_ATTN_DIM];
    float o[VISION_ATTN_QUERIES * KERN_VISION_ATTN_DIM];
    float m[VISION_ATTN_QUERIES], l[VISION_ATTN_QUERIES];
} vision_attn_tile;
_Static_assert(sizeof(vision_attn_tile) <= KERN_SCRATCH_BYTES, "a tile fits in the worker memory");

static void load_patch_queries(const vision_attn_run *run, size_t head, size_t row, size_t n,
                               vision_attn_tile *t)
{
    const vision_attn_shape *s = run->s;
    const float scale = 1.0f / sqrtf((float)s->head_dim);
    for (size_t i = 0; i < n; i++) {
        float *from = run->rows->x + ((row + i) * s->heads + head) * s->head_dim;
        run->n->k->add(run->rows->bias + head * s->head_dim, s->head_dim, from);
        float *q = t->q + i * s->dim;
        rotate_head(run, from, row + i);
        for (size_t d = 0; d < s->head_dim; d++)
            q[d] = from[d] * scale;
        memset(q + s->head_dim, 0, (s->dim - s->head_dim) * sizeof *from);
    }
}

/* One head of up to 48 queries over all key blocks, in ascending order. */
static void vision_attn_task(void *ctx, uint32_t task, uint32_t worker)
{
    const vision_attn_run *run = ctx;
    const vision_attn_shape *s = run->s;
    vision_attn_tile *t = nn_worker(run->n, worker);
    const size_t head = task / run->tiles, row = task % run->tiles * VISION_ATTN_QUERIES;
    const size_t left = run->rows->n - row,
                 n = left < VISION_ATTN_QUERIES ? left : VISION_ATTN_QUERIES;
    load_patch_queries(run, head, row, n, t);
    kern_vision_attn_args a = {.q = t->q,
                               .q_stride = s->dim,
                               .n = n,
                               .dim = s->dim,
                               .first = true,
                               .m = t->m,
                               .l = t->l,
                               .o = t->o};
    for (size_t key = 0; key < run->n_keys; key += VISION_ATTN_BLOCK, a.first = false) {
        const size_t block = head * run->memory->blocks + key / VISION_ATTN_BLOCK;
        a.k = run->memory->k + block * VISION_ATTN_BLOCK * s->dim;
        a.v = run->memory->v + block * VISION_ATTN_BLOCK * s->dim;
        a.n_keys = run->n_keys - key < VISION_ATTN_BLOCK ? run->n_keys - key : VISION_ATTN_BLOCK;
        run->n->k->vision_attn_block(&a);
    }
    for (size_t i = 0; i < n; i++)
        for (size_t d = 0; d < s->head_dim; d++)
            run->y[((row + i) * s->heads + head) * s->head_dim + d] =
                t->o[i * s->dim + d] / t->l[i];
}

void nn_vision_attn(const nn *n, const vision_attn_shape *s, const vision_attn_rows *rows,
                    const vision_attn_memory *memory, size_t n_keys, float *y)
{
    vision_attn_run run = {
        .n = n, .s = s, .rows = rows, .memory = memory, .n_keys = n_keys, .y = y};
    run.tiles = (rows->n + VISION_ATTN_QUERIES - 1) / VISION_ATTN_QUERIES;
    pool_run(n->pool, vision_attn_task, &run, (uint32_t)(run.tiles * s->heads));
}
