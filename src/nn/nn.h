/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nn.h - context of a forward pass; linear layers, RoPE and row-wise operations.
 *
 * nn/ runs kernels on the thread pool. A pass is a set of rows (tokens), possibly of many sessions.
 * Each layer function divides its outputs into tasks and returns when all tasks are done. How the
 * outputs are divided never changes a result. No function allocates or fails.
 */
#ifndef MOTE_NN_NN_H
#define MOTE_NN_NN_H

#include "base/mem.h"
#include "base/pool.h"
#include "base/str.h"
#include "kernels/kernels.h"
#include "quant/quant.h"

struct nn_matrix;

/* Rows that a matrix is multiplied with. */
typedef struct nn_observed {
    const struct nn_matrix *w; /* of an expert: the matrix of the first one */
    uint32_t experts, expert;  /* 0, 0: not of an expert */
    const float *x;            /* [n_rows][columns of w] */
    size_t n_rows;
} nn_observed;

typedef void nn_observe_fn(void *ctx, const nn_observed *o);

typedef struct nn {
    const kern_table *k;
    pool *pool;
    unsigned char *worker_memory; /* [pool_size][worker_bytes] */
    size_t worker_bytes;          /* nn_worker_bytes() of the matrices, or NN_WORKER_BYTES */
    /* Called by nn_linear and by layers with experts for each of their matrices, on the calling
     * thread; NULL: off. */
    nn_observe_fn *observe;
    void *observe_ctx;
} nn;

/* Scratch memory of one worker: scratch of a GEMM of any format, or the tile of a layer. */
enum { NN_WORKER_BYTES = KERN_WORKER_BYTES };

static inline void *nn_worker(const nn *n, uint32_t worker)
{
    return n->worker_memory + (size_t)worker * n->worker_bytes;
}

/* ---- activations (linear.c) ---- */

/* Input of a matrix product, for every row of a pass: f32 values and their quantised forms.
 * nn_acts_take sizes the buffers. */
typedef struct nn_acts {
    float *x;        /* [batch][cols] */
    int8_t *q32;     /* [batch][cols] */
    int8_t *q256;    /* [batch][cols] */
    float *d32;      /* [batch][cols / 32] */
    float *d256;     /* [batch][cols / 256] */
    int16_t *sum32;  /* [batch][cols / 32] */
    int16_t *sum256; /* [batch][cols / 16] */
    size_t cols;     /* of the current rows */
    /* Adapters of the rows; NULL: none. */
    const struct nn_lora_rows *lora;
} nn_acts;

/* Set of quant_act (bit 1 << act): the forms of an input that its matrices read. NN_UNPACKED: some
 * of the matrices have an unpacked format. NN_EXPERTS: some belong to experts. */
typedef unsigned nn_kinds;
enum { NN_UNPACKED = 1 << QUANT_N_ACTS, NN_EXPERTS = 2 << QUANT_N_ACTS };

static inline nn_kinds nn_kind(const quant_info *format)
{
    return 1u << format->act | (format->unpacked ? NN_UNPACKED : 0u);
}

/* Outputs of one expert for some rows, at the end of a worker's memory if the model has experts. */
enum {
    NN_TILE_ROWS = 128,
    NN_TILE_COLS = 256,
    NN_TILE_BYTES = NN_TILE_ROWS * NN_TILE_COLS * (int)sizeof(float)
};

/* Scratch memory of one worker for matrices of these kinds. */
static inline size_t nn_worker_bytes(nn_kinds kinds)
{
    const size_t gemm = kinds & NN_UNPACKED ? NN_WORKER_BYTES : KERN_SCRATCH_BYTES;
    return kinds & NN_EXPERTS ? gemm + NN_TILE_BYTES : gemm;
}

static inline float *nn_worker_tile(const nn *n, uint32_t worker)
{
    unsigned char *end = (unsigned char *)nn_worker(n, worker) + n->worker_bytes;
    return (float *)(void *)(end - NN_TILE_BYTES);
}

/* Takes arena memory for the quantised forms of `rows` rows of at most `cols` values. Does not set
 * x. The rows have no adapters. An arena without memory only counts the bytes. */
void nn_acts_take(nn_acts *a, arena *m, nn_kinds kinds, size_t rows, size_t cols);

/* Quantises row `row` of a->x to every form in `kinds`. */
void nn_quantise_row(const nn *n, const nn_acts *a, size_t row, nn_kinds kinds);

/* Rows 0 .. n_rows-1 in the form `act`. */
kern_act nn_acts_view(const nn_acts *a, size_t n_rows, quant_act act);

/* ---- linear layers (linear.c) ---- */

/* A weight matrix: in the mapped file, or f32 decoded when the model was opened. */
typedef struct nn_matrix {
    const unsigned char *data; /* [rows][row_bytes] */
    const quant_info *format;
    kern_gemm_fn *gemm;
    size_t rows, cols, row_bytes;
    float factor; /* multiplies every output; 0: none */
    str name;     /* of the tensor, as long as the file is open */
    uint32_t id;  /* number in the model, from 1; an adapter finds its matrices by it */
} nn_matrix;

/* Row `row` as f32, without the factor. */
static inline void nn_matrix_row(const nn_matrix *m, size_t row, float *x)
{
    m->format->decode(m->data + row * m->row_bytes, m->cols / m->format->block_values, x);
}

/* The product that `a` describes, of rows of the matrix, and its factor. */
void nn_matrix_multiply(const nn_matrix *m, const kern_gemm_args *a);

/* The GEMM kernel of a weight format. */
kern_gemm_fn *nn_gemm_for(const kern_table *k, quant_format format);

/* One matrix applied to all rows: output r of a row is y[row * y_stride + r]. */
typedef struct nn_product {
    const nn_matrix *w;
    float *y;
    size_t y_stride;
} nn_product;

enum { NN_MAX_PRODUCTS = 4 };

/* Applies several matrices to one input, and the adapters of its rows. The input must already be
 * quantised to the forms that the matrices read. */
void nn_linear(const nn *n, const nn_acts *input, size_t n_rows, const nn_product *products,
               size_t n_products);

/* Some rows of one matrix applied to one row of activations: y[i] = output ids[i]. `copy` has room
 * for n_ids weight rows. */
void nn_linear_picked(const nn *n, const nn_acts *input, const nn_matrix *w, const mote_token *ids,
                      size_t n_ids, unsigned char *copy, float *y);

/* ---- LoRA adapters (lora_rows.c) ----
 *
 * An adapter changes y = W x to y + B (s A x), with A [rank][cols] and B [rows][rank]. Rows of a
 * pass may have different adapters. docs/numerics.md has the order of all sums. */

enum {
    NN_LORA_PANEL = 256,       /* outputs of B that are stored together */
    NN_MAX_LORAS = 8,          /* adapters of one row */
    NN_LORA_MAX_RANK = 1 << 12 /* of all adapters of a row together */
};

/* The adapter of one matrix. */
typedef struct nn_lora_pair {
    nn_matrix a;   /* [rank][cols], F32, F16 or BF16; no rows: the matrix is not adapted */
    const void *b; /* panels of NN_LORA_PANEL outputs, [rank][nn_lora_stride] each */
    bool halves;   /* b has halves, else floats */
    double scale;  /* alpha / rank, or alpha / sqrt(rank); divided by the factor of the halves */
} nn_lora_pair;

/* Values between the ranks of the panel of B that begins with output `first`. */
static inline size_t nn_lora_stride(size_t rows, size_t first)
{
    const size_t n = rows - first < NN_LORA_PANEL ? rows - first : NN_LORA_PANEL;
    return (n + KERN_LOW_RANK_PAD - 1) / KERN_LOW_RANK_PAD * KERN_LOW_RANK_PAD;
}

/* The adapters of a session, applied in this order. */
typedef struct nn_lora_set {
    uint32_t n;
    struct {
        const nn_lora_pair *pairs; /* by nn_matrix.id */
        float scale;
    } at[NN_MAX_LORAS];
} nn_lora_set;

typedef struct nn_lora_span {
    size_t row, n; /* rows row .. row + n - 1; n is 0 after the last span */
    const nn_lora_set *set;
} nn_lora_span;

/* The adapters of the rows of a pass. Rows without adapters are in no span. */
typedef struct nn_lora_rows {
    nn_lora_span *spans; /* [sessions + 1], ascending */
    float *low;          /* [NN_MAX_PRODUCTS][batch][rank]: s A x */
    size_t batch;
    size_t rank; /* room for the ranks of a set */
} nn_lora_rows;

/* Takes memory for passes of `batch` rows of at most `sessions` sessions, or counts it. */
void nn_lora_take(nn_lora_rows *l, arena *m, size_t batch, size_t sessions, size_t rank);

/* Appends rows to the spans. `at` is the number of spans so far, returned by the last call. set may
 * be NULL. l may be one without memory. */
size_t nn_lora_add(const nn_lora_rows *l, size_t at, size_t row, size_t n, const nn_lora_set *set);

/* For linear.c: tasks that compute s A x for the adapted ones of the products; 0: none is. */
uint32_t nn_lora_down_tasks(const nn_acts *input, size_t n_rows, const nn_product *products,
                            size_t n_products);
void nn_lora_down_task(const nn *n, const nn_acts *input, size_t n_rows, const nn_product *products,
                       size_t n_products, uint32_t task, uint32_t worker);
/* Adds B (s A x) to the finished products. */
void nn_lora_up(const nn *n, const nn_acts *input, const nn_product *products, size_t n_products);

/* ---- rotary position embedding (rope.c) ---- */

/* RoPE rotates 64 of the 256 values of a head, in 32 pairs. */
enum { ROPE_PAIRS = 32 };

typedef struct rope {
    float inv_freq[ROPE_PAIRS];
    float scale; /* multiplies cos and sin; 1 without YaRN */
} rope;

/* factor <= 1: no scaling. factor > 1: YaRN, for a model trained on `original` positions. */
void rope_init(rope *r, double base, double factor, double original);

/* cos and sin of a text position, [32] each. Computed once per pass and used by every layer. */
void rope_angles(const rope *r, uint64_t pos, float *cos, float *sin);

/* M-RoPE for an image token: pairs take position, row and column in turn. */
void rope_angles_image(const rope *r, uint64_t base, uint64_t row, uint64_t col, float *cos,
                       float *sin);

/* ---- row-wise operations (rows.c) ---- */

/* x += add (if add is not NULL); out = rmsnorm(x) * w, quantised to `kinds`. x: [n_rows][cols],
 * add: [n_rows][cols]. */
void nn_residual_norm(const nn *n, float *x, const float *add, const float *w, float eps,
                      size_t n_rows, nn_acts *out, nn_kinds kinds);

/* x += add */
void nn_residual(const nn *n, float *x, const float *add, size_t n_rows, size_t cols);

/* SwiGLU: out = silu(gate) * up, quantised to `kinds`. gate, up: [n_rows][cols]. */
void nn_swiglu(const nn *n, const float *gate, const float *up, size_t cols, size_t n_rows,
               nn_acts *out, nn_kinds kinds);

/* Quantises the rows of a->x to `kinds`. */
void nn_quantise(const nn *n, nn_acts *a, size_t n_rows, nn_kinds kinds);

/* Vision encoder: out = layernorm(x) * w + b, rows of out->cols values, quantised to `kinds`. */
void nn_layernorm(const nn *n, const float *x, const float *w, const float *b, float eps,
                  size_t n_rows, nn_acts *out, nn_kinds kinds);

/* Vision encoder: a->x = gelu(a->x + bias), quantised to `kinds`. */
void nn_bias_gelu(const nn *n, kern_gelu_fn *gelu, const float *bias, size_t n_rows, nn_acts *a,
                  nn_kinds kinds);

/* Vision encoder: branch += bias; then x += branch, if x is not NULL. */
void nn_bias_residual(const nn *n, float *branch, const float *bias, size_t n_rows, size_t cols,
                      float *x);

#endif
