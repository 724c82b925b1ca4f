/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention.c - paged attention over the rows of a pass.
 *
 * First all rows store their keys and values in the pages. Then each task computes a tile: up to 16
 * rows of one sequence, for the query heads that share one kv head. So each key block is read once
 * for the whole tile. Key blocks are merged inside partitions of 1,024 positions, and then the
 * partitions in ascending order. Both divisions are at absolute positions, so the order of every
 * sum depends on the position only, not on batch, chunk or thread count.
 *
 * Decode over a long context has one row per sequence, which gives too few tiles for all threads.
 * Then each partition is a task (split run, as in flash decoding). Its result goes to `parts`, and
 * a second pool_run merges the parts in the same order.
 */
#include "nn/attention.h"

#include <string.h>

enum {
    DIM = KERN_HEAD_DIM,
    PAGE = KERN_PAGE,
    PARTITION = 1024,
    BLOCKS = PARTITION / PAGE,
    TILE_ROWS = 16,
    MAX_QUERIES = 128, /* of a tile */
    STORE_ROWS = 8     /* rows per task that stores keys and values */
};

/* Two Hadamard transforms of 32 values multiply them by 32. A power of two is exact. */
static const float ROTATE_BACK = 1.0f / KERN_KV_GROUP;

/* Scratch of a tile, in the worker's memory. */
typedef struct tile_memory {
    float q[MAX_QUERIES][DIM];
    kern_attn_acc total[MAX_QUERIES];
    kern_attn_acc part[MAX_QUERIES];
    uint8_t n_keys[MAX_QUERIES];
} tile_memory;

_Static_assert(sizeof(tile_memory) <= KERN_SCRATCH_BYTES, "a tile fits in the worker memory");

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
    bool split; /* each partition is a task */
} attn_run;

size_t attn_parts_needed(size_t heads, uint64_t positions, uint32_t sessions)
{
    return heads * (size_t)(positions / PARTITION + sessions);
}

/* ---- storing keys and values ---- */

static unsigned char *page_cell(const attn_run *run, unsigned char *page, size_t kv_head)
{
    return page + (run->layer * run->shape->kv_heads + kv_head) * 2 * kv_half_bytes(run->shape->kv);
}

static kern_kv_put_fn *kv_put_for(const kern_table *k, mote_kv kv)
{
    switch (kv) {
    case MOTE_KV_F32: return k->kv_put_f32;
    case MOTE_KV_Q8_0: return k->kv_put_q8_0;
    case MOTE_KV_Q4_0: return k->kv_put_q4_0;
    case MOTE_KV_F16: break;
    }
    return k->kv_put_f16;
}

static kern_attn_block_fn *attn_block_for(const kern_table *k, mote_kv kv)
{
    switch (kv) {
    case MOTE_KV_F32: return k->attn_block_f32;
    case MOTE_KV_Q8_0: return k->attn_block_q8_0;
    case MOTE_KV_Q4_0: return k->attn_block_q4_0;
    case MOTE_KV_F16: break;
    }
    return k->attn_block_f16;
}

static void store_row(const attn_run *run, const attn_segment *seg, size_t row)
{
    const attn_shape *s = run->shape;
    const kern_table *kern = run->n->k;
    uint64_t pos = seg->pos + (row - seg->row);
    kern_kv_put_fn *put = kv_put_for(kern, s->kv);
    for (size_t head = 0; head < s->kv_heads; head++) {
        size_t at = (row * s->kv_heads + head) * DIM;
        float k[DIM], rotated_v[DIM];
        const float *v = run->rows->v + at;
        kern->rmsnorm(run->rows->k + at, run->w->k_norm, DIM, s->eps, k);
        kern->rope(k, run->rows->cos + row * ROPE_PAIRS, run->rows->sin + row * ROPE_PAIRS,
                   ROPE_PAIRS);
        if (kv_is_rotated(s->kv)) {
            memcpy(rotated_v, v, sizeof rotated_v);
            kern->hadamard(rotated_v, DIM, 1.0f);
            kern->hadamard(k, DIM, 1.0f);
            v = rotated_v;
        }
        unsigned char *c = page_cell(run, seg->pages[pos / PAGE], head);
        put(k, v, c, c + kv_half_bytes(s->kv), (uint32_t)(pos % PAGE));
    }
}

static void store_task(void *ctx, uint32_t task, uint32_t worker)
{
    (void)worker;
    const attn_run *run = ctx;
    size_t row = (size_t)task * STORE_ROWS;
    size_t end = row + STORE_ROWS < run->n_rows ? row + STORE_ROWS : run->n_rows;
    const attn_segment *seg = run->segments;
    for (; row < end; row++) {
        while (row >= seg->row + seg->n)
            seg++;
        store_row(run, seg, row);
    }
}

static void run_store(attn_run *run)
{
    for (size_t i = 0; i < run->n_segments; i++)
        run->n_rows += run->segments[i].n;
    pool_run(run->n->pool, store_task, run,
             (uint32_t)((run->n_rows + STORE_ROWS - 1) / STORE_ROWS));
}

void nn_attention_store(const nn *n, const attn_shape *shape, const attn_weights *w, size_t layer,
                        const attn_segment *segments, size_t n_segments, const attn_rows *rows)
{
    attn_run run = {.n = n,
                    .shape = shape,
                    .w = w,
                    .layer = layer,
                    .segments = segments,
                    .n_segments = n_segments,
                    .rows = rows};
    run_store(&run);
}

/* ---- tiles ---- */

typedef struct tile {
    const attn_segment *seg;
    size_t kv_head;
    size_t row, n_rows;  /* of the pass */
    size_t group;        /* query heads per kv head */
    size_t part;         /* split runs: the partition */
    size_t first_result; /* split runs: index in parts of partition 0, query 0 */
} tile;

static size_t tile_max_rows(const attn_shape *s)
{
    size_t group = s->heads / s->kv_heads;
    size_t rows = MAX_QUERIES / group;
    return rows < TILE_ROWS ? rows : TILE_ROWS;
}

static size_t segment_tiles(const attn_run *run, const attn_segment *seg)
{
    size_t rows = tile_max_rows(run->shape);
    return (seg->n + rows - 1) / rows;
}

static size_t segment_partitions(const attn_segment *seg)
{
    return (size_t)((seg->pos + seg->n + PARTITION - 1) / PARTITION);
}

static size_t segment_tasks(const attn_run *run, const attn_segment *seg)
{
    size_t tasks = run->shape->kv_heads * segment_tiles(run, seg);
    return run->split ? tasks * segment_partitions(seg) : tasks;
}

static size_t segment_results(const attn_run *run, const attn_segment *seg)
{
    return run->shape->heads * seg->n * segment_partitions(seg);
}

/* Task numbers enumerate segments, kv heads, tiles and, in split runs, partitions; the last varies
 * fastest. */
static tile tile_of_task(const attn_run *run, size_t task)
{
    tile t = {.seg = run->segments, .group = run->shape->heads / run->shape->kv_heads};
    while (task >= segment_tasks(run, t.seg)) {
        task -= segment_tasks(run, t.seg);
        t.first_result += segment_results(run, t.seg);
        t.seg++;
    }
    size_t parts = run->split ? segment_partitions(t.seg) : 1;
    size_t rows = tile_max_rows(run->shape), index = task / parts;
    t.part = task % parts;
    t.kv_head = index / segment_tiles(run, t.seg);
    size_t first = index % segment_tiles(run, t.seg) * rows;
    t.row = t.seg->row + first;
    t.n_rows = t.seg->n - first < rows ? t.seg->n - first : rows;
    t.first_result += (t.kv_head * t.seg->n + first) * t.group * segment_partitions(t.seg);
    return t;
}

/* Queries after norm, RoPE and rotation, in the order [row][head of the group]. */
static void tile_load_queries(const attn_run *run, const tile *t, float q[][DIM])
{
    const kern_table *kern = run->n->k;
    size_t heads = run->shape->heads;
    for (size_t i = 0; i < t->n_rows * t->group; i++) {
        size_t row = t->row + i / t->group, head = t->kv_head * t->group + i % t->group;
        const float *from = run->rows->qg + (row * heads + head) * 2 * DIM;
        kern->rmsnorm(from, run->w->q_norm, DIM, run->shape->eps, q[i]);
        kern->rope(q[i], run->rows->cos + row * ROPE_PAIRS, run->rows->sin + row * ROPE_PAIRS,
                   ROPE_PAIRS);
        if (kv_is_rotated(run->shape->kv))
            kern->hadamard(q[i], DIM, ROTATE_BACK);
    }
}

/* Causal mask: the number of keys in block start .. start+63 that a query at `pos` sees. */
static uint8_t visible_keys(uint64_t pos, uint64_t start)
{
    if (pos < start)
        return 0;
    return pos - start + 1 < PAGE ? (uint8_t)(pos - start + 1) : PAGE;
}

/* Computes all key blocks of one partition. The first block initialises acc. */
static void tile_partition(const attn_run *run, const tile *t, size_t partition, tile_memory *m,
                           kern_attn_acc *acc)
{
    const attn_shape *s = run->shape;
    size_t n = t->n_rows * t->group;
    uint64_t first_pos = t->seg->pos + (t->row - t->seg->row);
    uint64_t last_pos = first_pos + t->n_rows - 1;
    size_t block = partition * BLOCKS, end = (size_t)(last_pos / PAGE) + 1;
    if (end > block + BLOCKS)
        end = block + BLOCKS;
    kern_attn_block_fn *attn = attn_block_for(run->n->k, s->kv);
    size_t last = (size_t)(last_pos / PAGE);
    for (size_t b = block; b < end; b++) {
        for (size_t i = 0; i < n; i++)
            m->n_keys[i] = visible_keys(first_pos + i / t->group, (uint64_t)b * PAGE);
        const unsigned char *c = page_cell(run, t->seg->pages[b], t->kv_head);
        const unsigned char *next =
            b < last ? page_cell(run, t->seg->pages[b + 1], t->kv_head) : NULL;
        kern_attn_args args = {
            .q = m->q[0],
            .q_stride = DIM,
            .n = n,
            .n_keys = m->n_keys,
            .k_page = c,
            .v_page = c + kv_half_bytes(s->kv),
            .next_keys = next,
            .scale = 0.0625f, /* 256^-0.5 */
            .first = b == block,
            .acc = acc,
        };
        attn(&args);
    }
}

/* The first query of the tile that sees a key of the partition. Positions ascend with rows, so all
 * later queries see one too. */
static size_t first_visible_query(const tile *t, size_t partition)
{
    uint64_t first_pos = t->seg->pos + (t->row - t->seg->row);
    uint64_t start = (uint64_t)partition * PARTITION;
    return start <= first_pos ? 0 : (size_t)(start - first_pos) * t->group;
}

/* Rotates back, divides by the softmax denominators, applies the gates and writes y. */
static void tile_finish(const attn_run *run, const tile *t, kern_attn_acc *acc)
{
    size_t heads = run->shape->heads;
    for (size_t i = 0; i < t->n_rows * t->group; i++) {
        size_t row = t->row + i / t->group, head = t->kv_head * t->group + i % t->group;
        if (kv_is_rotated(run->shape->kv))
            run->n->k->hadamard(acc[i].o, DIM, ROTATE_BACK);
        run->n->k->attn_finish(&acc[i], run->rows->qg + (row * heads + head) * 2 * DIM + DIM,
                               run->rows->y + (row * heads + head) * DIM);
    }
}

/* A whole tile, partitions in ascending order. */
static void tile_task(void *ctx, uint32_t task, uint32_t worker)
{
    const attn_run *run = ctx;
    tile t = tile_of_task(run, task);
    tile_memory *m = nn_worker(run->n, worker);
    size_t n = t.n_rows * t.group;
    uint64_t last_pos = t.seg->pos + (t.row - t.seg->row) + t.n_rows - 1;
    tile_load_queries(run, &t, m->q);
    tile_partition(run, &t, 0, m, m->total);
    for (size_t p = 1; p <= last_pos / PARTITION; p++) {
        size_t from = first_visible_query(&t, p);
        tile_partition(run, &t, p, m, m->part);
        run->n->k->attn_merge(m->total + from, m->part + from, n - from);
    }
    tile_finish(run, &t, m->total);
}

/* Split run: one partition of a tile of one row. Every query sees it. */
static void part_task(void *ctx, uint32_t task, uint32_t worker)
{
    const attn_run *run = ctx;
    tile t = tile_of_task(run, task);
    tile_memory *m = nn_worker(run->n, worker);
    tile_load_queries(run, &t, m->q);
    tile_partition(run, &t, t.part, m, run->parts->acc + t.first_result + t.part * t.group);
}

/* Split run: merges the partitions of one row and kv head in ascending order. */
static void merge_task(void *ctx, uint32_t task, uint32_t worker)
{
    (void)worker;
    const attn_run *run = ctx;
    size_t segment = task / run->shape->kv_heads, index = task % run->shape->kv_heads;
    size_t first = 0;
    for (size_t i = 0; i < segment; i++)
        first += segment_tasks(run, &run->segments[i]);
    tile t = tile_of_task(run, first + index * segment_partitions(&run->segments[segment]));
    kern_attn_acc *acc = run->parts->acc + t.first_result;
    for (size_t p = 1; p < segment_partitions(t.seg); p++)
        run->n->k->attn_merge(acc, acc + p * t.group, t.group);
    tile_finish(run, &t, acc);
}

/* Splits if every sequence has one row, at least one context exceeds a partition, and the tiles are
 * too few (below 16 per thread) to balance the threads. */
static bool should_split(const attn_run *run)
{
    size_t results = 0, tiles = 0;
    bool is_long = false;
    for (size_t i = 0; i < run->n_segments; i++) {
        const attn_segment *seg = &run->segments[i];
        if (seg->n != 1)
            return false;
        is_long = is_long || segment_partitions(seg) > 1;
        results += segment_results(run, seg);
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
    run_store(&run);
    run.split = should_split(&run);
    size_t tasks = 0;
    for (size_t i = 0; i < n_segments; i++)
        tasks += segment_tasks(&run, &segments[i]);
    pool_run(n->pool, run.split ? part_task : tile_task, &run, (uint32_t)tasks);
    if (run.split)
        pool_run(n->pool, merge_task, &run, (uint32_t)(n_segments * shape->kv_heads));
}

/* ---- cells of a page ---- */

/* Zeroes columns used .. PAGE-1 of a [rows][PAGE] array of elements of `bytes` bytes. */
static void clear_columns(void *table, size_t rows, size_t bytes, size_t used)
{
    for (size_t r = 0; r < rows; r++)
        memset((unsigned char *)table + (r * PAGE + used) * bytes, 0, (PAGE - used) * bytes);
}

void kv_clear_from(mote_kv kv, unsigned char *cell, size_t used)
{
    const size_t half = kv_half_bytes(kv);
    if (kv == MOTE_KV_Q8_0) {
        kern_q8_keys *k = (void *)cell;
        kern_q8_values *v = (void *)(cell + half);
        clear_columns(k->code, DIM, sizeof k->code[0][0], used);
        clear_columns(k->d, KERN_KV_GROUPS, sizeof k->d[0][0], used);
        memset(v->code[used], 0, (PAGE - used) * sizeof v->code[0]);
        memset(v->d[used], 0, (PAGE - used) * sizeof v->d[0]);
        return;
    }
    if (kv == MOTE_KV_Q4_0) {
        kern_q4_keys *k = (void *)cell;
        kern_q4_values *v = (void *)(cell + half);
        clear_columns(k->code, DIM / 2, sizeof k->code[0][0], used);
        clear_columns(k->d, KERN_KV_GROUPS, sizeof k->d[0][0], used);
        memset(v->code[used], 0, (PAGE - used) * sizeof v->code[0]);
        memset(v->d[used], 0, (PAGE - used) * sizeof v->d[0]);
        return;
    }
    const size_t value = half / (PAGE * DIM);
    clear_columns(cell, DIM, value, used);
    memset(cell + half + used * DIM * value, 0, (PAGE - used) * DIM * value);
}
