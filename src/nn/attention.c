/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention.c - attention over the rows of a pass.
 *
 * First all rows write their keys and values into the pages. Then a task takes
 * a tile: up to 16 rows of one timeline with the query heads that share one kv
 * head, so that each key block is read once for all of them. Key blocks are
 * merged inside partitions of 1,024 positions and the partitions one after the
 * other, both cut on absolute positions, so the order of every sum is a property
 * of the text and not of the schedule.
 *
 * A single row over a long context (decoding) has too few tiles to keep the
 * threads busy; then each partition becomes a task, and its result waits in
 * `parts` for a second meeting that merges them in the same order.
 */
#include "nn/attention.h"

#include "nn/rope.h"

enum {
    DIM = KERN_HEAD_DIM,
    PAGE = KERN_PAGE,
    PARTITION = 1024,
    BLOCKS = PARTITION / PAGE,
    TILE_ROWS = 16,
    MAX_QUERIES = 128, /* of a tile */
    PUT_ROWS = 8       /* rows a task writes into the pages */
};

/* A tile's memory, one per worker. */
typedef struct tile_memory {
    float q[MAX_QUERIES][DIM];
    kern_attn_acc total[MAX_QUERIES];
    kern_attn_acc part[MAX_QUERIES];
    uint8_t n_keys[MAX_QUERIES];
} tile_memory;

_Static_assert(sizeof(tile_memory) <= NN_WORKER_BYTES, "a tile fits the worker's memory");

typedef struct attn_run {
    const nn *n;
    const attn_shape *shape;
    const attn_weights *w;
    size_t layer;
    const attn_segment *segments;
    size_t n_segments;
    const attn_rows *rows;
    const attn_parts *parts;
    size_t n_rows;
    bool split; /* partitions are tasks */
} attn_run;

size_t attn_parts_needed(size_t heads, uint64_t positions, uint32_t sessions)
{
    return heads * (size_t)(positions / PARTITION + sessions);
}

/* ---- keys and values into pages ---- */

static unsigned char *cell(const attn_run *run, unsigned char *page, size_t kv_head)
{
    return page + (run->layer * run->shape->kv_heads + kv_head) * 2 * kv_half_bytes(run->shape->kv);
}

static kern_kv_put_fn *put_of(const kern_table *k, mote_kv kv)
{
    switch (kv) {
    case MOTE_KV_F32: return k->kv_put_f32;
    case MOTE_KV_Q8_0: return k->kv_put_q8_0;
    case MOTE_KV_F16: break;
    }
    return k->kv_put_f16;
}

static kern_attn_block_fn *block_of(const kern_table *k, mote_kv kv)
{
    switch (kv) {
    case MOTE_KV_F32: return k->attn_block_f32;
    case MOTE_KV_Q8_0: return k->attn_block_q8_0;
    case MOTE_KV_F16: break;
    }
    return k->attn_block_f16;
}

static void put_row(const attn_run *run, const attn_segment *seg, size_t row)
{
    const attn_shape *s = run->shape;
    const kern_table *kern = run->n->k;
    uint64_t pos = seg->pos + (row - seg->row);
    kern_kv_put_fn *put = put_of(kern, s->kv);
    for (size_t head = 0; head < s->kv_heads; head++) {
        size_t at = (row * s->kv_heads + head) * DIM;
        float k[DIM];
        kern->rmsnorm(run->rows->k + at, run->w->k_norm, DIM, s->eps, k);
        kern->rope(k, run->rows->cos + row * ROPE_PAIRS, run->rows->sin + row * ROPE_PAIRS,
                   ROPE_PAIRS);
        unsigned char *c = cell(run, seg->pages[pos / PAGE], head);
        put(k, run->rows->v + at, c, c + kv_half_bytes(s->kv), (uint32_t)(pos % PAGE));
    }
}

static void put_task(void *ctx, uint32_t task, uint32_t worker)
{
    (void)worker;
    const attn_run *run = ctx;
    size_t row = (size_t)task * PUT_ROWS;
    size_t end = row + PUT_ROWS < run->n_rows ? row + PUT_ROWS : run->n_rows;
    const attn_segment *seg = run->segments;
    for (; row < end; row++) {
        while (row >= seg->row + seg->n)
            seg++;
        put_row(run, seg, row);
    }
}

/* ---- tiles ---- */

typedef struct tile {
    const attn_segment *seg;
    size_t kv_head;
    size_t row, n_rows;  /* of the pass */
    size_t group;        /* query heads per kv head */
    size_t part;         /* in split runs: the partition */
    size_t first_result; /* in split runs: index into parts of partition 0, query 0 */
} tile;

static size_t tile_rows(const attn_shape *s)
{
    size_t group = s->heads / s->kv_heads;
    size_t rows = MAX_QUERIES / group;
    return rows < TILE_ROWS ? rows : TILE_ROWS;
}

static size_t tiles_of(const attn_run *run, const attn_segment *seg)
{
    size_t rows = tile_rows(run->shape);
    return (seg->n + rows - 1) / rows;
}

static size_t partitions_of(const attn_segment *seg)
{
    return (size_t)((seg->pos + seg->n + PARTITION - 1) / PARTITION);
}

static size_t tasks_of(const attn_run *run, const attn_segment *seg)
{
    size_t tasks = run->shape->kv_heads * tiles_of(run, seg);
    return run->split ? tasks * partitions_of(seg) : tasks;
}

static size_t results_of(const attn_run *run, const attn_segment *seg)
{
    return run->shape->heads * seg->n * partitions_of(seg);
}

/* Task numbers run over segments, kv heads, tiles and (split) partitions. */
static tile find_tile(const attn_run *run, size_t task)
{
    tile t = {.seg = run->segments, .group = run->shape->heads / run->shape->kv_heads};
    while (task >= tasks_of(run, t.seg)) {
        task -= tasks_of(run, t.seg);
        t.first_result += results_of(run, t.seg);
        t.seg++;
    }
    size_t parts = run->split ? partitions_of(t.seg) : 1;
    size_t rows = tile_rows(run->shape), index = task / parts;
    t.part = task % parts;
    t.kv_head = index / tiles_of(run, t.seg);
    size_t first = index % tiles_of(run, t.seg) * rows;
    t.row = t.seg->row + first;
    t.n_rows = t.seg->n - first < rows ? t.seg->n - first : rows;
    t.first_result += (t.kv_head * t.seg->n + first) * t.group * partitions_of(t.seg);
    return t;
}

/* Normalised and rotated queries, row-major over (row, head of the group). */
static void load_queries(const attn_run *run, const tile *t, float q[][DIM])
{
    const kern_table *kern = run->n->k;
    size_t heads = run->shape->heads;
    for (size_t i = 0; i < t->n_rows * t->group; i++) {
        size_t row = t->row + i / t->group, head = t->kv_head * t->group + i % t->group;
        const float *from = run->rows->qg + (row * heads + head) * 2 * DIM;
        kern->rmsnorm(from, run->w->q_norm, DIM, run->shape->eps, q[i]);
        kern->rope(q[i], run->rows->cos + row * ROPE_PAIRS, run->rows->sin + row * ROPE_PAIRS,
                   ROPE_PAIRS);
    }
}

/* How many of the 64 keys from `start` on a query at `pos` sees. */
static uint8_t keys_seen(uint64_t pos, uint64_t start)
{
    if (pos < start)
        return 0;
    return pos - start + 1 < PAGE ? (uint8_t)(pos - start + 1) : PAGE;
}

/* All key blocks of one partition into acc, which need not be initialised. */
static void attend(const attn_run *run, const tile *t, size_t partition, tile_memory *m,
                   kern_attn_acc *acc)
{
    const attn_shape *s = run->shape;
    size_t n = t->n_rows * t->group;
    uint64_t first_pos = t->seg->pos + (t->row - t->seg->row);
    uint64_t last_pos = first_pos + t->n_rows - 1;
    size_t block = partition * BLOCKS, end = (size_t)(last_pos / PAGE) + 1;
    if (end > block + BLOCKS)
        end = block + BLOCKS;
    kern_attn_block_fn *attn = block_of(run->n->k, s->kv);
    for (size_t b = block; b < end; b++) {
        for (size_t i = 0; i < n; i++)
            m->n_keys[i] = keys_seen(first_pos + i / t->group, (uint64_t)b * PAGE);
        const unsigned char *c = cell(run, t->seg->pages[b], t->kv_head);
        kern_attn_args args = {
            .q = m->q[0],
            .q_stride = DIM,
            .n = n,
            .n_keys = m->n_keys,
            .k_page = c,
            .v_page = c + kv_half_bytes(s->kv),
            .scale = 0.0625f, /* 256^-0.5 */
            .first = b == block,
            .acc = acc,
        };
        attn(&args);
    }
}

/* The first query of the tile that sees anything of a partition: since positions
 * rise with rows, all later ones do too. */
static size_t first_seeing(const tile *t, size_t partition)
{
    uint64_t first_pos = t->seg->pos + (t->row - t->seg->row);
    uint64_t start = (uint64_t)partition * PARTITION;
    return start <= first_pos ? 0 : (size_t)(start - first_pos) * t->group;
}

static void finish(const attn_run *run, const tile *t, const kern_attn_acc *acc)
{
    size_t heads = run->shape->heads;
    for (size_t i = 0; i < t->n_rows * t->group; i++) {
        size_t row = t->row + i / t->group, head = t->kv_head * t->group + i % t->group;
        run->n->k->attn_finish(&acc[i], run->rows->qg + (row * heads + head) * 2 * DIM + DIM,
                               run->rows->y + (row * heads + head) * DIM);
    }
}

/* A whole tile: partitions one after the other. */
static void tile_task(void *ctx, uint32_t task, uint32_t worker)
{
    const attn_run *run = ctx;
    tile t = find_tile(run, task);
    tile_memory *m = nn_worker(run->n, worker);
    size_t n = t.n_rows * t.group;
    uint64_t last_pos = t.seg->pos + (t.row - t.seg->row) + t.n_rows - 1;
    load_queries(run, &t, m->q);
    attend(run, &t, 0, m, m->total);
    for (size_t p = 1; p <= last_pos / PARTITION; p++) {
        size_t from = first_seeing(&t, p);
        attend(run, &t, p, m, m->part);
        run->n->k->attn_merge(m->total + from, m->part + from, n - from);
    }
    finish(run, &t, m->total);
}

/* One partition of a tile of one row: every query sees it. */
static void part_task(void *ctx, uint32_t task, uint32_t worker)
{
    const attn_run *run = ctx;
    tile t = find_tile(run, task);
    tile_memory *m = nn_worker(run->n, worker);
    load_queries(run, &t, m->q);
    attend(run, &t, t.part, m, run->parts->acc + t.first_result + t.part * t.group);
}

/* Merges the partitions of one row and kv head, ascending. */
static void merge_task(void *ctx, uint32_t task, uint32_t worker)
{
    (void)worker;
    const attn_run *run = ctx;
    size_t segment = task / run->shape->kv_heads, index = task % run->shape->kv_heads;
    size_t first = 0;
    for (size_t i = 0; i < segment; i++)
        first += tasks_of(run, &run->segments[i]);
    tile t = find_tile(run, first + index * partitions_of(&run->segments[segment]));
    kern_attn_acc *acc = run->parts->acc + t.first_result;
    for (size_t p = 1; p < partitions_of(t.seg); p++)
        run->n->k->attn_merge(acc, acc + p * t.group, t.group);
    finish(run, &t, acc);
}

/* Worth it when every timeline brings one row, some context is long, and there
 * would be fewer tiles than threads can share evenly. */
static bool should_split(const attn_run *run)
{
    size_t results = 0, tiles = 0;
    bool is_long = false;
    for (size_t i = 0; i < run->n_segments; i++) {
        const attn_segment *seg = &run->segments[i];
        if (seg->n != 1)
            return false;
        is_long = is_long || partitions_of(seg) > 1;
        results += results_of(run, seg);
        tiles += run->shape->kv_heads;
    }
    return is_long && results <= run->parts->capacity && tiles < 16 * pool_size(run->n->pool);
}

void nn_attention(const nn *n, const attn_shape *shape, const attn_weights *w, size_t layer,
                  const attn_segment *segments, size_t n_segments, const attn_rows *rows,
                  const attn_parts *parts)
{
    attn_run run = {.n = n,
                    .shape = shape,
                    .w = w,
                    .layer = layer,
                    .segments = segments,
                    .n_segments = n_segments,
                    .rows = rows,
                    .parts = parts};
    for (size_t i = 0; i < n_segments; i++)
        run.n_rows += segments[i].n;
    pool_run(n->pool, put_task, &run, (uint32_t)((run.n_rows + PUT_ROWS - 1) / PUT_ROWS));
    run.split = should_split(&run);
    size_t tasks = 0;
    for (size_t i = 0; i < n_segments; i++)
        tasks += tasks_of(&run, &segments[i]);
    pool_run(n->pool, run.split ? part_task : tile_task, &run, (uint32_t)tasks);
    if (run.split)
        pool_run(n->pool, merge_task, &run, (uint32_t)(n_segments * shape->kv_heads));
}
