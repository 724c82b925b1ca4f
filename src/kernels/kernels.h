/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernels.h - single-thread arithmetic: the slots, their contracts, the table.
 *
 * A kernel uses one thread, allocates nothing, keeps no state, cannot fail, and
 * reads and writes exactly the bytes its arguments describe. Every variant
 * equals the reference in ref/ bit for bit; the reference is the definition, and
 * docs/numerics.md explains it. Pointers are aligned to their element type only,
 * unless a contract says more.
 */
#ifndef MOTE_KERNELS_KERNELS_H
#define MOTE_KERNELS_KERNELS_H

#include <mote.h>

enum {
    KERN_CHUNK = 32,            /* DeltaNet rows between two boundaries */
    KERN_STATE_DIM = 128,       /* dk = dv: a head's state is [128][128] */
    KERN_PAGE = 64,             /* positions of a key/value page */
    KERN_HEAD_DIM = 256,        /* of an attention head */
    KERN_VISION_ATTN_DIM = 128, /* the widest head of a picture tower */
    KERN_KV_GROUP = 32,         /* dimensions that share a scale in a Q8_0 page */
    KERN_KV_GROUPS = KERN_HEAD_DIM / KERN_KV_GROUP,
    KERN_LANES = 16, /* partial sums of the "lanes" shape */
    /* Working memory a gemm may use, one piece per thread, 64-aligned. */
    KERN_SCRATCH_BYTES = 1 << 20
};

/* ---- products: y[t][r] = sum_i w[r][i] * x[t][i] ---- */

/* Activations of n tokens, quantised once and shared by all weight rows. Which
 * of q, d, sum are set follows from the weight format (quant_info.act). */
typedef struct kern_act {
    size_t n;           /* tokens */
    size_t cols;        /* values of a token */
    const float *x;     /* [n][cols]; read by formats with QUANT_ACT_F32 */
    const int8_t *q;    /* [n][cols], 64-aligned */
    const float *d;     /* [n][cols / B]: scale of each block of B = 32 or 256 */
    const int16_t *sum; /* [n][cols / 16] (B = 256) or [n][cols / 32] (B = 32): sums of q */
} kern_act;

typedef struct kern_gemm_args {
    const void *w; /* [rows] rows of the format, row_bytes apart */
    size_t row_bytes;
    size_t rows;
    const kern_act *x; /* cols is a multiple of the format's block */
    float *y;          /* y[t * y_stride + r] */
    size_t y_stride;
    void *scratch; /* KERN_SCRATCH_BYTES, or unused */
} kern_gemm_args;
typedef void kern_gemm_fn(const kern_gemm_args *a);

/* One row: d = amax / 127, q = clamp(rne(x * (127 / amax)), -127, 127); all zero if amax is 0.
 * sum: of each 16 values (act_256) or each 32 (act_32). */
typedef void kern_act_fn(const float *x, size_t cols, int8_t *q, float *d, int16_t *sum);

/* ---- norms and elementwise ---- */

/* y = (x * (1 / sqrt(lanes(x*x) / n + eps))) * w. y may be x. */
typedef void kern_rmsnorm_fn(const float *x, const float *w, size_t n, float eps, float *y);
/* y = rmsnorm(x, w) * silu(z). y may be x. */
typedef void kern_rmsnorm_gated_fn(const float *x, const float *w, const float *z, size_t n,
                                   float eps, float *y);
/* y = (x * (1 / sqrt(lanes(x*x) + eps))) * scale. y may be x. */
typedef void kern_l2norm_fn(const float *x, size_t n, float eps, float scale, float *y);
/* m = lanes(x) / n, d = x - m, y = fma(d * (1 / sqrt(lanes(d*d) / n + eps)), w, b). y may be x. */
typedef void kern_layernorm_fn(const float *x, const float *w, const float *b, size_t n, float eps,
                               float *y);
/* y = y + x */
typedef void kern_add_fn(const float *x, size_t n, float *y);
/* y = silu(gate) * up. y may be either. */
typedef void kern_silu_mul_fn(const float *gate, const float *up, size_t n, float *y);
/* y = gelu(y + b), by tanh or by the error function. */
typedef void kern_gelu_fn(const float *b, size_t n, float *y);
/* y = silu(chain over j of w[j][i] * x[j][i]), j = 0..3, oldest input first. w is [4][w_stride]. */
typedef void kern_conv_fn(const float *const x[4], const float *w, size_t w_stride, size_t n,
                          float *y);
/* Rotates pairs (i, i + n) of x, i < n: x1*c - x2*s, x2*c + x1*s, products rounded first. */
typedef void kern_rope_fn(float *x, const float *cos, const float *sin, size_t n);

/* ---- Gated DeltaNet, one value head (docs/numerics.md section 6) ---- */

/* Rows t0 .. t1-1 of a chunk. Strides are in floats between rows. */
typedef struct kern_delta_args {
    const float *s0; /* [128][128]: [key dim][value dim], state at the boundary */
    const float *k;  /* rows 0 .. t1-1 of the chunk */
    size_t k_stride;
    const float *q; /* rows t0 .. t1-1, first one first; already scaled */
    size_t q_stride;
    const float *v; /* rows t0 .. t1-1, first one first */
    size_t v_stride;
    const float *beta; /* of rows t0 .. t1-1, first one first, beta_stride apart */
    size_t beta_stride;
    const double *g; /* G of rows 0 .. t1-1, g_stride apart */
    size_t g_stride;
    float *u; /* rows 0 .. t0-1 are read, t0 .. t1-1 written */
    size_t u_stride;
    float *o; /* rows t0 .. t1-1, first one first */
    size_t o_stride;
    uint32_t t0, t1; /* 0 <= t0 < t1 <= 32 */
} kern_delta_args;
typedef void kern_delta_rows_fn(const kern_delta_args *a);

/* The state after all 32 rows; s1 may be s0. Uses s0, k, u, g and their strides only. */
typedef void kern_delta_fold_fn(const kern_delta_args *a, float *s1);

/* ---- attention (docs/numerics.md section 5) ---- */

/* Keys and values of a page in Q8_0: a value is its code times the scale of its position and
 * group of dimensions, an f16. */
typedef struct kern_q8_keys {
    int8_t code[KERN_HEAD_DIM][KERN_PAGE];
    uint16_t d[KERN_KV_GROUPS][KERN_PAGE];
} kern_q8_keys;
typedef struct kern_q8_values {
    int8_t code[KERN_PAGE][KERN_HEAD_DIM];
    uint16_t d[KERN_PAGE][KERN_KV_GROUPS];
} kern_q8_values;
_Static_assert(sizeof(kern_q8_keys) == 17408 && sizeof(kern_q8_values) == 17408,
               "both halves of a cell are one size, and snapshots hold them");

/* Writes one position of one kv head into a page, rounded to the page's format:
 * k goes to column `slot` of K [256][64], v to row `slot` of V [64][256]. Q8_0: codes as
 * act_32 makes them, its scales rounded to f16. */
typedef void kern_kv_put_fn(const float *k, const float *v, void *k_page, void *v_page,
                            uint32_t slot);

/* The running result of one query: maximum, denominator, weighted values. */
typedef struct kern_attn_acc {
    float m, l;
    float o[KERN_HEAD_DIM];
} kern_attn_acc;

/* Merges one key block into the results of n queries. Query i sees the first
 * n_keys[i] positions of the block (0: none, its result is untouched). `first`:
 * the results are empty and are assigned, not merged. */
typedef struct kern_attn_args {
    const float *q; /* [n] rows, q_stride floats apart */
    size_t q_stride;
    size_t n;
    const uint8_t *n_keys; /* [n], 0 .. 64 */
    const void *k_page;    /* [256][64], or kern_q8_keys */
    const void *v_page;    /* [64][256], or kern_q8_values */
    float scale;
    bool first;
    kern_attn_acc *acc; /* [n] */
} kern_attn_args;
typedef void kern_attn_block_fn(const kern_attn_args *a);

/* into = merge(into, from), n queries. */
typedef void kern_attn_merge_fn(kern_attn_acc *into, const kern_attn_acc *from, size_t n);
/* y = (o / l) * sigmoid(gate), 256 values. */
typedef void kern_attn_finish_fn(const kern_attn_acc *acc, const float *gate, float *y);

/* ---- attention of the picture tower: every query sees every key of its frame ---- */

/* Merges a block of keys into the results of n queries, which come scaled; heads are of `dim`
 * values, a multiple of 16 up to KERN_VISION_ATTN_DIM (narrower ones are filled up with zeros). */
typedef struct kern_vision_attn_args {
    const float *q; /* [n] rows, q_stride floats apart */
    size_t q_stride;
    size_t n;
    const float *k; /* [dim][64], transposed */
    const float *v; /* [64][dim] */
    size_t dim;
    size_t n_keys; /* 1 .. 64 */
    bool first;    /* the results are empty and are assigned */
    float *m, *l;  /* [n] */
    float *o;      /* [n][dim] */
} kern_vision_attn_args;
typedef void kern_vision_attn_fn(const kern_vision_attn_args *a);

/* ---- sampling ---- */

/* The largest of n > 0 values; NaN is never larger. */
typedef float kern_max_fn(const float *x, size_t n);
/* lanes(exp((x - max) * scale)) */
typedef float kern_sum_exp_fn(const float *x, size_t n, float max, float scale);

/* ---- the table ---- */

typedef struct kern_table {
    mote_isa level;
#define KERNEL(slot, type) type *slot;
#include "kernels/kernels.def"
#undef KERNEL
} kern_table;

/* References first, then each level up to `level` writes over what it improves.
 * The caller has made sure that the machine has the level. */
void kern_table_init(kern_table *table, mote_isa level);

#endif
