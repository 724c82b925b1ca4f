/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deltanet.c - the Gated DeltaNet mixer over the rows of a pass.
 *
 * A task is one key head of one sequence, with the value heads that read it. It owns their channels
 * of the convolution, their rows and their states, so tasks share no data. A task processes spans
 * of rows that end at multiples of 32 positions (chunk boundaries). At a boundary the rows of the
 * chunk are folded into the state.
 *
 * The division of a sequence into passes does not change a result: every row is computed from the
 * state at the last boundary and the rows since, which are the same numbers for every division.
 */
#include "nn/deltanet.h"

#include "kernels/fmath.h"

#include <string.h>

enum { DIM = KERN_STATE_DIM, CHUNK = KERN_CHUNK };

static const float no_input[DIM]; /* convolution input before position 0 */

/* Scratch of one span, in the worker's memory. */
typedef struct delta_scratch {
    float q[CHUNK][DIM];
    float k[CHUNK][DIM]; /* before normalisation */
    float v[CHUNK][DIM];
    float o[CHUNK][DIM];
    float beta[CHUNK];
} delta_scratch;

_Static_assert(sizeof(delta_scratch) <= KERN_SCRATCH_BYTES, "a span fits in the worker memory");

typedef struct delta_run {
    const nn *n;
    const delta_shape *shape;
    const delta_weights *w;
    const delta_segment *segments;
    const delta_rows *rows;
} delta_run;

/* Context of one task. */
typedef struct head_task {
    const delta_run *run;
    const delta_segment *seg;
    size_t key_head;
    delta_scratch *t;
} head_task;

/* The convolution inputs of a position: 128 channels from `channel` on. */
static const float *input_at(const head_task *h, int64_t pos, size_t channel)
{
    size_t conv_dim = delta_conv_dim(h->run->shape);
    if (pos < 0)
        return no_input;
    if ((uint64_t)pos >= h->seg->pos)
        return h->run->rows->qkv + (h->seg->row + ((uint64_t)pos - h->seg->pos)) * conv_dim +
               channel;
    return h->seg->memory.ring + ((uint64_t)pos % DELTA_RING) * conv_dim + channel;
}

enum { PREFETCH_ROWS = 5, LINE_FLOATS = 16 };

/* Prefetches 128 floats. Rows are pages apart, so the hardware prefetcher does not find them. Always
 * inline: gcc removes calls of a function without visible effects. */
static inline __attribute__((always_inline)) void prefetch_row(const float *row)
{
    for (int i = 0; i < DIM; i += LINE_FLOATS)
        __builtin_prefetch(row + i);
}

/* Prefetches the convolution inputs of a position, if it belongs to the pass. */
static inline __attribute__((always_inline)) void prefetch_input(const head_task *h, uint64_t pos,
                                                                 size_t channel)
{
    if (pos < h->seg->pos + h->seg->n)
        prefetch_row(input_at(h, (int64_t)pos, channel));
}

/* out = silu(conv) of 128 channels from `channel` on, for n rows from position pos on. Prefetches the
 * first rows of the next call: `next_channel` from position next_pos on. */
static void conv_channels(const head_task *h, uint64_t pos, size_t n, size_t channel,
                          uint64_t next_pos, size_t next_channel, float out[][DIM])
{
    size_t conv_dim = delta_conv_dim(h->run->shape);
    for (size_t i = 0; i < n; i++) {
        const float *x[DELTA_TAPS];
        for (int tap = 0; tap < DELTA_TAPS; tap++)
            x[tap] = input_at(h, (int64_t)(pos + i) - DELTA_HISTORY + tap, channel);
        const size_t ahead = i + PREFETCH_ROWS;
        if (ahead < n)
            prefetch_input(h, pos + ahead, channel);
        else
            prefetch_input(h, next_pos + (ahead - n), next_channel);
        h->run->n->k->conv_silu(x, h->run->w->conv + channel, conv_dim, DIM, out[i]);
    }
}

/* Queries and keys of n rows from position pos on. Keys are written to k_rows. */
static void make_queries_keys(const head_task *h, uint64_t pos, size_t n)
{
    const delta_shape *shape = h->run->shape;
    const kern_table *k = h->run->n->k;
    const float eps = 1e-6f, q_scale = 0.08838834764831845f; /* 128^-0.5 */
    size_t key_dim = delta_key_dim(shape), channel = h->key_head * DIM;
    conv_channels(h, pos, n, channel, pos, key_dim + channel, h->t->q);
    conv_channels(h, pos, n, key_dim + channel, pos, 2 * key_dim + channel, h->t->k);
    for (size_t i = 0; i < n; i++) {
        size_t row = (pos + i) % CHUNK;
        k->l2norm(h->t->q[i], DIM, eps, q_scale, h->t->q[i]);
        k->l2norm(h->t->k[i], DIM, eps, 1.0f, h->seg->memory.k_rows + row * key_dim + channel);
    }
}

/* beta, and G: the prefix sum of the log-decays since the boundary. G is binary64 because the
 * kernels use differences of two sums as exponents, which cancels digits. */
static void make_gates(const head_task *h, uint64_t pos, size_t n, size_t head)
{
    const delta_rows *rows = h->run->rows;
    const delta_weights *w = h->run->w;
    size_t heads = h->run->shape->value_heads;
    double *g = h->seg->memory.g_rows;
    for (size_t i = 0; i < n; i++) {
        size_t at = (h->seg->row + (pos + i - h->seg->pos)) * heads + head;
        size_t row = (pos + i) % CHUNK;
        float log_decay = w->a[head] * f_softplus(rows->alpha[at] + w->dt_bias[head]);
        double before = row == 0 ? 0.0 : g[(row - 1) * heads + head];
        g[row * heads + head] = before + (double)log_decay;
        h->t->beta[i] = f_sigmoid(rows->beta[at]);
    }
}

/* One value head over rows of one chunk. Folds the chunk into the state if the rows complete it. */
static void value_head_span(const head_task *h, uint64_t pos, size_t n, size_t head,
                            const float *state)
{
    const delta_run *run = h->run;
    const delta_shape *shape = run->shape;
    const delta_memory *m = &h->seg->memory;
    size_t value_dim = delta_value_dim(shape);
    uint32_t t0 = (uint32_t)(pos % CHUNK), t1 = t0 + (uint32_t)n;
    const size_t first = (h->seg->row + (pos - h->seg->pos)) * value_dim + head * DIM;
    conv_channels(h, pos, n, 2 * delta_key_dim(shape) + head * DIM, pos + n, h->key_head * DIM,
                  h->t->v);
    make_gates(h, pos, n, head);
    for (size_t i = 0; i < n; i++)
        prefetch_row(run->rows->z + first + i * value_dim);
    kern_delta_args args = {
        .s0 = state + head * DIM * DIM,
        .k = m->k_rows + h->key_head * DIM,
        .k_stride = delta_key_dim(shape),
        .q = h->t->q[0],
        .q_stride = DIM,
        .v = h->t->v[0],
        .v_stride = DIM,
        .beta = h->t->beta,
        .beta_stride = 1,
        .g = m->g_rows + head,
        .g_stride = shape->value_heads,
        .u = m->u_rows + head * DIM,
        .u_stride = value_dim,
        .o = h->t->o[0],
        .o_stride = DIM,
        .t0 = t0,
        .t1 = t1,
    };
    run->n->k->delta_rows(&args);
    for (size_t i = 0; i < n; i++) {
        const size_t at = first + i * value_dim;
        run->n->k->rmsnorm_gated(h->t->o[i], run->w->norm, run->rows->z + at, DIM, shape->eps,
                                 run->rows->y + at);
    }
    if (t1 == CHUNK)
        run->n->k->delta_fold(&args, m->next_state + head * DIM * DIM);
}

/* Saves the three convolution inputs before a boundary; they are stored with its state. */
static void save_inputs(const head_task *h, uint64_t boundary, size_t channel)
{
    size_t conv_dim = delta_conv_dim(h->run->shape);
    for (int i = 0; i < DELTA_HISTORY; i++)
        memcpy(h->seg->memory.next_inputs + (size_t)i * conv_dim + channel,
               input_at(h, (int64_t)boundary - DELTA_HISTORY + i, channel), DIM * sizeof(float));
}

/* Copies the last inputs of the pass to the ring, over the oldest ones. `unused`: as for_channels()
 * requires. */
static void ring_update(const head_task *h, uint64_t unused, size_t channel)
{
    (void)unused;
    size_t conv_dim = delta_conv_dim(h->run->shape);
    uint64_t end = h->seg->pos + h->seg->n;
    uint64_t from = h->seg->n > DELTA_RING ? end - DELTA_RING : h->seg->pos;
    for (uint64_t pos = from; pos < end; pos++)
        memcpy(h->seg->memory.ring + (pos % DELTA_RING) * conv_dim + channel,
               input_at(h, (int64_t)pos, channel), DIM * sizeof(float));
}

/* Calls fn for each group of 128 channels that this task owns: q, k, and its value heads. */
static void for_channels(const head_task *h, void (*fn)(const head_task *, uint64_t, size_t),
                         uint64_t arg)
{
    const delta_shape *shape = h->run->shape;
    size_t key_dim = delta_key_dim(shape);
    fn(h, arg, h->key_head * DIM);
    fn(h, arg, key_dim + h->key_head * DIM);
    for (size_t head = h->key_head; head < shape->value_heads; head += shape->key_heads)
        fn(h, arg, 2 * key_dim + head * DIM);
}

static void delta_task(void *ctx, uint32_t task, uint32_t worker)
{
    const delta_run *run = ctx;
    size_t key_heads = run->shape->key_heads;
    head_task h = {.run = run,
                   .seg = &run->segments[task / key_heads],
                   .key_head = task % key_heads,
                   .t = nn_worker(run->n, worker)};
    const float *state = h.seg->memory.state;
    uint64_t end = h.seg->pos + h.seg->n;
    for (uint64_t pos = h.seg->pos; pos < end;) {
        uint64_t boundary = (pos / CHUNK + 1) * CHUNK;
        size_t n = (size_t)((end < boundary ? end : boundary) - pos);
        make_queries_keys(&h, pos, n);
        for (size_t head = h.key_head; head < run->shape->value_heads; head += key_heads)
            value_head_span(&h, pos, n, head, state);
        pos += n;
        if (pos == boundary) {
            for_channels(&h, save_inputs, boundary);
            state = h.seg->memory.next_state;
        }
    }
    for_channels(&h, ring_update, 0);
}

void nn_deltanet(const nn *n, const delta_shape *shape, const delta_weights *w,
                 const delta_segment *segments, size_t n_segments, const delta_rows *rows)
{
    delta_run run = {.n = n, .shape = shape, .w = w, .segments = segments, .rows = rows};
    pool_run(n->pool, delta_task, &run, (uint32_t)(n_segments * shape->key_heads));
}
