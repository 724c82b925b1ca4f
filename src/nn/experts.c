/* SPDX-License-Identifier: Apache-2.0 */
/*
 * experts.c - the feed-forward networks of the experts; see experts.h.
 *
 * Gate and up: a task is a range of the ff weight rows of one expert, for all its slots. Ranges are
 * shorter where an expert has more slots, so the tasks of a popular expert are not longer than the
 * others and the threads end together.
 *
 * Down: a task is a range of outputs, for all experts in ascending order. It computes the outputs
 * of one expert into a tile in the worker's memory and adds them to the rows. So the sum of a row
 * has its written order without a second pass, and the outputs of single experts never reach
 * memory. Every task reads the same share of every chosen expert, so the load is even.
 */
#include "nn/experts.h"

#include <string.h>

enum {
    ROW_UNIT = 32,
    TASK_BYTES = 64 << 10, /* of weights, while experts have few slots; see linear.c */
    FEW_SLOTS = 8,
    TASKS_PER_THREAD = 8,
    MAX_TASK_ROWS = NN_TILE_COLS,
    SLOTS_PER_TASK = 8 /* gather, SwiGLU */
};

/* ---- slots ---- */

void experts_slots_take(expert_slots *s, arena *a, const expert_shape *shape, nn_kinds kinds,
                        size_t batch)
{
    const size_t slots = experts_max_slots(shape, batch);
    if (kinds & (1u << QUANT_ACT_F32))
        s->in.x = arena_take(a, slots * shape->n_embd, sizeof *s->in.x);
    nn_acts_take(&s->in, a, kinds, slots, shape->n_embd);
    nn_acts_take(&s->mid, a, kinds, slots, shape->ff);
    s->first_task = arena_take(a, shape->n_experts + 1, sizeof *s->first_task);
}

static void acts_copy_row(const nn_acts *from, size_t row, const nn_acts *to, size_t slot,
                          nn_kinds kinds)
{
    const size_t cols = from->cols;
    if (kinds & (1u << QUANT_ACT_F32))
        memcpy(to->x + slot * cols, from->x + row * cols, cols * sizeof *to->x);
    if (kinds & (1u << QUANT_ACT_32)) {
        const size_t n = cols / 32;
        memcpy(to->q32 + slot * cols, from->q32 + row * cols, cols);
        memcpy(to->d32 + slot * n, from->d32 + row * n, n * sizeof *to->d32);
        memcpy(to->sum32 + slot * n, from->sum32 + row * n, n * sizeof *to->sum32);
    }
    if (kinds & (1u << QUANT_ACT_256)) {
        const size_t n = cols / 256, sums = cols / 16;
        memcpy(to->q256 + slot * cols, from->q256 + row * cols, cols);
        memcpy(to->d256 + slot * n, from->d256 + row * n, n * sizeof *to->d256);
        memcpy(to->sum256 + slot * sums, from->sum256 + row * sums, sums * sizeof *to->sum256);
    }
}

/* Rows first .. first + n - 1 in the form `act`. */
static kern_act acts_view_from(const nn_acts *a, size_t first, size_t n, quant_act act)
{
    kern_act view = nn_acts_view(a, n, act);
    view.x = act == QUANT_ACT_F32 ? view.x + first * a->cols : NULL;
    if (act == QUANT_ACT_F32)
        return view;
    const size_t block = act == QUANT_ACT_256 ? 256 : 32, summed = act == QUANT_ACT_256 ? 16 : 32;
    view.q += first * a->cols;
    view.d += first * (a->cols / block);
    view.sum += first * (a->cols / summed);
    return view;
}

/* ---- observation ---- */

/* Rows of each expert in ascending order, so sums over them do not depend on the batch. */
static void observe_rows(const nn *n, const expert_shape *s, const expert_routes *r,
                         const expert_matrix *m, const float *x)
{
    for (size_t i = 0; i < r->n_active; i++) {
        const uint32_t expert = r->active[i], end = r->begin[expert] + r->count[expert];
        for (uint32_t slot = r->begin[expert]; slot < end; slot++)
            n->observe(n->observe_ctx, &(nn_observed){.w = &m->first,
                                                      .experts = (uint32_t)s->n_experts,
                                                      .expert = expert,
                                                      .x = x + r->slot_row[slot] * m->first.cols,
                                                      .n_rows = 1});
    }
}

/* The same for rows in the order of the slots. */
static void observe_slots(const nn *n, const expert_shape *s, const expert_routes *r,
                          const expert_matrix *m, const float *x)
{
    for (size_t i = 0; i < r->n_active; i++) {
        const uint32_t expert = r->active[i];
        n->observe(n->observe_ctx, &(nn_observed){.w = &m->first,
                                                  .experts = (uint32_t)s->n_experts,
                                                  .expert = expert,
                                                  .x = x + r->begin[expert] * m->first.cols,
                                                  .n_rows = r->count[expert]});
    }
}

/* ---- runs ---- */

typedef struct experts_run {
    const nn *n;
    const expert_shape *shape;
    const expert_routes *r;
    const nn_acts *in; /* rows of the pass */
    expert_slots *slots;
    const expert_matrix *gate, *up, *down;
    nn_kinds kinds;
    size_t pairs_per_task; /* gate and up: weight rows times slots */
    const nn_acts *shared_mid;
    const nn_matrix *shared_down;
    size_t n_rows, tile_cols;
    float *y;
} experts_run;

static uint32_t slot_tasks(const expert_routes *r)
{
    return (uint32_t)((r->n_slots + SLOTS_PER_TASK - 1) / SLOTS_PER_TASK);
}

/* Calls fn for the slots of a task that have a row. */
static void each_slot(const experts_run *run, uint32_t task,
                      void (*fn)(const experts_run *run, size_t slot))
{
    size_t slot = (size_t)task * SLOTS_PER_TASK;
    const size_t n = run->r->n_slots, end = slot + SLOTS_PER_TASK < n ? slot + SLOTS_PER_TASK : n;
    for (; slot < end; slot++)
        if (run->r->slot_row[slot] != SLOT_EMPTY)
            fn(run, slot);
}

static void gather_slot(const experts_run *run, size_t slot)
{
    acts_copy_row(run->in, run->r->slot_row[slot], &run->slots->in, slot, run->kinds);
}

static void gather_task(void *ctx, uint32_t task, uint32_t worker)
{
    (void)worker;
    each_slot(ctx, task, gather_slot);
}

static void swiglu_slot(const experts_run *run, size_t slot)
{
    const nn_acts *mid = &run->slots->mid;
    const size_t at = slot * mid->cols;
    run->n->k->silu_mul(run->slots->gate + at, run->slots->up + at, mid->cols, mid->x + at);
    nn_quantise_row(run->n, mid, slot, run->kinds);
}

static void swiglu_task(void *ctx, uint32_t task, uint32_t worker)
{
    (void)worker;
    each_slot(ctx, task, swiglu_slot);
}

/* The matrix of one expert. */
static nn_matrix expert_at(const expert_matrix *m, uint32_t expert)
{
    nn_matrix w = m->first;
    w.data += expert * m->stride;
    w.factor = m->factors != NULL ? m->factors[expert] : 0;
    return w;
}

/* ---- gate and up ---- */

static size_t range_rows(const experts_run *run, uint32_t expert)
{
    const size_t count = run->r->count[expert];
    size_t rows = run->pairs_per_task / count;
    const size_t few = TASK_BYTES / (2 * run->gate->first.row_bytes);
    if (count < FEW_SLOTS && rows > few)
        rows = few;
    if (rows > MAX_TASK_ROWS)
        rows = MAX_TASK_ROWS;
    rows = rows / ROW_UNIT * ROW_UNIT;
    return rows > ROW_UNIT ? rows : ROW_UNIT;
}

static uint32_t range_tasks(const experts_run *run, uint32_t expert)
{
    const size_t rows = range_rows(run, expert);
    return (uint32_t)((run->shape->ff + rows - 1) / rows);
}

/* y [slots][ff], columns first_row .. of an expert. */
static void range_product(const experts_run *run, const expert_matrix *m, uint32_t expert,
                          size_t first_row, size_t rows, float *y, uint32_t worker)
{
    const size_t slot = run->r->begin[expert], ff = run->shape->ff;
    const nn_matrix w = expert_at(m, expert);
    const kern_act x = acts_view_from(&run->slots->in, slot, run->r->count[expert], w.format->act);
    const kern_gemm_args args = {
        .w = w.data + first_row * w.row_bytes,
        .row_bytes = w.row_bytes,
        .rows = rows,
        .x = &x,
        .y = y + slot * ff + first_row,
        .y_stride = ff,
        .scratch = nn_worker(run->n, worker),
    };
    nn_matrix_multiply(&w, &args);
}

/* Tasks enumerate the active experts, then their ranges. Returns the number of tasks. */
static uint32_t range_place_tasks(const experts_run *run)
{
    uint32_t *first = run->slots->first_task;
    first[0] = 0;
    for (size_t i = 0; i < run->r->n_active; i++)
        first[i + 1] = first[i] + range_tasks(run, run->r->active[i]);
    return first[run->r->n_active];
}

/* Number of the active expert that a task belongs to. */
static size_t range_find(const experts_run *run, uint32_t task)
{
    size_t low = 0, high = run->r->n_active;
    while (high - low > 1) {
        const size_t middle = (low + high) / 2;
        if (run->slots->first_task[middle] <= task)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static void range_task(void *ctx, uint32_t task, uint32_t worker)
{
    const experts_run *run = ctx;
    const size_t i = range_find(run, task);
    const uint16_t expert = run->r->active[i];
    const size_t ff = run->shape->ff, most = range_rows(run, expert);
    const size_t first = (task - run->slots->first_task[i]) * most;
    const size_t rows = ff - first < most ? ff - first : most;
    range_product(run, run->gate, expert, first, rows, run->slots->gate, worker);
    range_product(run, run->up, expert, first, rows, run->slots->up, worker);
}

void nn_experts_swiglu(const nn *n, const expert_shape *s, const expert_routes *r,
                       const nn_acts *in, const expert_matrix *gate, const expert_matrix *up,
                       nn_kinds down, expert_slots *slots)
{
    const size_t parts = (size_t)pool_size(n->pool) * TASKS_PER_THREAD;
    experts_run run = {.n = n,
                       .shape = s,
                       .r = r,
                       .in = in,
                       .slots = slots,
                       .gate = gate,
                       .up = up,
                       .kinds = nn_kind(gate->first.format) | nn_kind(up->first.format),
                       .pairs_per_task = r->n_slots * s->ff / parts + 1};
    if (n->observe != NULL) {
        observe_rows(n, s, r, gate, in->x);
        if (!str_eq(gate->first.name, up->first.name)) /* else one tensor has both */
            observe_rows(n, s, r, up, in->x);
    }
    slots->in.cols = s->n_embd;
    pool_run(n->pool, gather_task, &run, slot_tasks(r));
    pool_run(n->pool, range_task, &run, range_place_tasks(&run));
    slots->mid.x = slots->gate; /* in place */
    slots->mid.cols = s->ff;
    run.kinds = down;
    pool_run(n->pool, swiglu_task, &run, slot_tasks(r));
}

/* ---- down ---- */

/* tile [n][cols] = outputs first .. first + cols - 1 of w, for rows row .. row + n - 1 of x. */
static void tile_product(const experts_run *run, const nn_matrix *w, const nn_acts *x, size_t row,
                         size_t n, size_t first, size_t cols, uint32_t worker)
{
    const kern_act view = acts_view_from(x, row, n, w->format->act);
    const kern_gemm_args args = {
        .w = w->data + first * w->row_bytes,
        .row_bytes = w->row_bytes,
        .rows = cols,
        .x = &view,
        .y = nn_worker_tile(run->n, worker),
        .y_stride = cols,
        .scratch = nn_worker(run->n, worker),
    };
    nn_matrix_multiply(w, &args);
}

static void tile_add(const experts_run *run, float factor, const float *tile, size_t row,
                     size_t first, size_t cols)
{
    run->n->k->axpy(factor, tile, cols, run->y + row * run->shape->n_embd + first);
}

/* Outputs first .. first + cols - 1 of one expert, added to the rows of its slots. */
static void down_expert(const experts_run *run, uint32_t expert, size_t first, size_t cols,
                        uint32_t worker)
{
    const expert_routes *r = run->r;
    const nn_matrix w = expert_at(run->down, expert);
    const float *tile = nn_worker_tile(run->n, worker);
    const size_t end = r->begin[expert] + r->count[expert];
    for (size_t slot = r->begin[expert]; slot < end; slot += NN_TILE_ROWS) {
        const size_t n = end - slot < NN_TILE_ROWS ? end - slot : NN_TILE_ROWS;
        tile_product(run, &w, &run->slots->mid, slot, n, first, cols, worker);
        for (size_t i = 0; i < n; i++)
            tile_add(run, r->slot_weight[slot + i], tile + i * cols, r->slot_row[slot + i], first,
                     cols);
    }
}

static void down_shared(const experts_run *run, size_t first, size_t cols, uint32_t worker)
{
    const nn_matrix *w = run->shared_down;
    const float *tile = nn_worker_tile(run->n, worker);
    for (size_t row = 0; row < run->n_rows; row += NN_TILE_ROWS) {
        const size_t left = run->n_rows - row, n = left < NN_TILE_ROWS ? left : NN_TILE_ROWS;
        tile_product(run, w, run->shared_mid, row, n, first, cols, worker);
        for (size_t i = 0; i < n; i++)
            tile_add(run, run->r->shared[row + i], tile + i * cols, row + i, first, cols);
    }
}

static void down_task(void *ctx, uint32_t task, uint32_t worker)
{
    const experts_run *run = ctx;
    const size_t n_embd = run->shape->n_embd, first = task * run->tile_cols;
    const size_t cols = n_embd - first < run->tile_cols ? n_embd - first : run->tile_cols;
    for (size_t row = 0; row < run->n_rows; row++)
        memset(run->y + row * n_embd + first, 0, cols * sizeof *run->y);
    for (size_t i = 0; i < run->r->n_active; i++)
        down_expert(run, run->r->active[i], first, cols, worker);
    down_shared(run, first, cols, worker);
}

/* Eight tasks per thread, of 32 to 256 outputs. */
static size_t down_cols(const nn *n, size_t n_embd)
{
    size_t cols = n_embd / ((size_t)pool_size(n->pool) * TASKS_PER_THREAD) / ROW_UNIT * ROW_UNIT;
    cols = cols > ROW_UNIT ? cols : ROW_UNIT;
    return cols < NN_TILE_COLS ? cols : NN_TILE_COLS;
}

void nn_experts_down(const nn *n, const expert_shape *s, const expert_routes *r,
                     const expert_slots *slots, const expert_matrix *down,
                     const nn_acts *shared_mid, const nn_matrix *shared_down, size_t n_rows,
                     float *y)
{
    expert_slots view = *slots;
    experts_run run = {.n = n,
                       .shape = s,
                       .r = r,
                       .slots = &view,
                       .down = down,
                       .shared_mid = shared_mid,
                       .shared_down = shared_down,
                       .n_rows = n_rows,
                       .tile_cols = down_cols(n, s->n_embd),
                       .y = y};
    if (n->observe != NULL) {
        observe_slots(n, s, r, down, slots->mid.x);
        n->observe(n->observe_ctx,
                   &(nn_observed){.w = shared_down, .x = shared_mid->x, .n_rows = n_rows});
    }
    pool_run(n->pool, down_task, &run, (uint32_t)((s->n_embd + run.tile_cols - 1) / run.tile_cols));
}
