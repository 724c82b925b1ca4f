/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernels.h - kernel slots, their contracts, and the kernel table.
 *
 * A kernel runs on one thread, allocates nothing, has no state and cannot fail. It reads and writes
 * exactly the bytes that its arguments describe. Every variant equals the reference in ref/ bit for
 * bit. The reference is the definition; docs/numerics.md explains it. Pointers are aligned to their
 * element type, unless a contract says more.
 */
#ifndef MOTE_KERNELS_KERNELS_H
#define MOTE_KERNELS_KERNELS_H

#include <mote.h>

enum {
    KERN_CHUNK = 32,            /* DeltaNet rows between two boundaries */
    KERN_STATE_DIM = 128,       /* dk = dv: a head's state is [128][128] */
    KERN_PAGE = 64,             /* positions in a KV page */
    KERN_HEAD_DIM = 256,        /* of an attention head */
    KERN_VISION_ATTN_DIM = 128, /* largest head size of a vision encoder */
    KERN_KV_GROUP = 32,         /* dimensions per scale in a Q8_0 or Q4_0 page */
    KERN_KV_GROUPS = KERN_HEAD_DIM / KERN_KV_GROUP,
    KERN_LANES = 16,         /* accumulators of a "lanes" sum (docs/numerics.md section 2) */
    KERN_MAX_COLS = 1 << 18, /* columns of a weight matrix */
    /* Scratch memory of a GEMM, per thread, aligned to 64 bytes. It suffices for KERN_MAX_COLS. A
     * format of gemm_unpacked.c has its unpacked rows after the scratch memory of the product: at
     * least one row, of 2 bytes per column. */
    KERN_SCRATCH_BYTES = 1 << 20,
    KERN_UNPACKED_BYTES = 2 * KERN_MAX_COLS,
    KERN_WORKER_BYTES = KERN_SCRATCH_BYTES + KERN_UNPACKED_BYTES
};

/* ---- GEMM: y[t][r] = sum_i w[r][i] * x[t][i] ---- */

/* Activations of n tokens, quantised once and shared by all weight rows. The weight format
 * (quant_info.act) decides which of q, d and sum are set. */
typedef struct kern_act {
    size_t n;           /* tokens */
    size_t cols;        /* values per token */
    const float *x;     /* [n][cols]; read by formats with QUANT_ACT_F32 */
    const int8_t *q;    /* [n][cols], aligned to 64 bytes */
    const float *d;     /* [n][cols / B]: scale of each block of B = 32 or 256 */
    const int16_t *sum; /* [n][cols / 16] (B = 256) or [n][cols / 32] (B = 32): sums of q */
} kern_act;

typedef struct kern_gemm_args {
    const void *w; /* [rows] weight rows, without gaps between them */
    size_t row_bytes;
    size_t rows;
    const kern_act *x; /* cols is a multiple of the block size, at most KERN_MAX_COLS */
    float *y;          /* y[t * y_stride + r] */
    size_t y_stride;
    void *scratch; /* KERN_SCRATCH_BYTES; KERN_WORKER_BYTES for an unpacked format */
} kern_gemm_args;
typedef void kern_gemm_fn(const kern_gemm_args *a);

/* One row: d = amax / 127, q = clamp(rne(x * (127 / amax)), -127, 127); all zero if amax is 0. sum:
 * of each 16 values (act_256) or each 32 (act_32). */
typedef void kern_act_fn(const float *x, size_t cols, int8_t *q, float *d, int16_t *sum);

/* ---- norms and element-wise operations ---- */

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
/* y = fma(a, x, y) */
typedef void kern_axpy_fn(float a, const float *x, size_t n, float *y);
/* y = silu(gate) * up. y may be either. */
typedef void kern_silu_mul_fn(const float *gate, const float *up, size_t n, float *y);
/* y = gelu(y + b); slot gelu_tanh or gelu_erf. */
typedef void kern_gelu_fn(const float *b, size_t n, float *y);
/* y = silu(chain over j of w[j][i] * x[j][i]), j = 0..3, oldest input first. w is [4][w_stride]. */
typedef void kern_conv_fn(const float *const x[4], const float *w, size_t w_stride, size_t n,
                          float *y);
/* Rotates pairs (i, i + n) of x, i < n: x1*c - x2*s, x2*c + x1*s, products rounded first. */
typedef void kern_rope_fn(float *x, const float *cos, const float *sin, size_t n);

/* ---- LoRA: y[t][r] = y[t][r] + sum_j b[j][r] * x[t][j] ---- */

/* Adds a product of low rank to finished products. Each y is a chain over j that starts from its
 * value. */
enum { KERN_LOW_RANK_PAD = 16 };
typedef struct kern_low_rank_args {
    const void *b;   /* [rank] rows of n values, b_stride apart: floats, or halves */
    bool halves;     /* b has halves; rows are readable up to a multiple of KERN_LOW_RANK_PAD */
    size_t b_stride; /* values */
    size_t rank;
    const float *x; /* [tokens] rows of rank values, x_stride apart */
    size_t x_stride;
    float *y; /* [tokens] rows of n values, y_stride apart */
    size_t y_stride;
    size_t tokens, n;
} kern_low_rank_args;
typedef void kern_low_rank_fn(const kern_low_rank_args *a);

/* ---- Gated DeltaNet, one value head (docs/numerics.md section 6) ---- */

/* Rows t0 .. t1-1 of a chunk. Strides are in floats between rows. */
typedef struct kern_delta_args {
    const float *s0; /* [128][128]: [key dim][value dim], state at the boundary */
    const float *k;  /* rows 0 .. t1-1 of the chunk */
    size_t k_stride;
    const float *q; /* rows t0 .. t1-1, starting at t0; already scaled */
    size_t q_stride;
    const float *v; /* rows t0 .. t1-1, starting at t0 */
    size_t v_stride;
    const float *beta; /* rows t0 .. t1-1, starting at t0, beta_stride apart */
    size_t beta_stride;
    const double *g; /* G of rows 0 .. t1-1, g_stride apart */
    size_t g_stride;
    float *u; /* rows 0 .. t0-1 are read, t0 .. t1-1 written */
    size_t u_stride;
    float *o; /* rows t0 .. t1-1, starting at t0 */
    size_t o_stride;
    uint32_t t0, t1; /* 0 <= t0 < t1 <= 32 */
} kern_delta_args;
typedef void kern_delta_rows_fn(const kern_delta_args *a);

/* s1 = the state after all 32 rows. s1 may be s0. Reads only s0, k, u, g and their strides. */
typedef void kern_delta_fold_fn(const kern_delta_args *a, float *s1);

/* ---- attention (docs/numerics.md section 5) ---- */

/* Hadamard transform of each group of 32 of n values, in place: for h = 1, 2, 4, 8, 16 each pair
 * (a, b) of elements h apart becomes (a + b, a - b). Then all values are multiplied by scale. n is
 * a multiple of KERN_KV_GROUP. */
typedef void kern_hadamard_fn(float *x, size_t n, float scale);

/* Keys and values of a Q8_0 page: value = code * scale, one f16 scale per position and group of 32
 * dimensions. */
typedef struct kern_q8_keys {
    int8_t code[KERN_HEAD_DIM][KERN_PAGE];
    uint16_t d[KERN_KV_GROUPS][KERN_PAGE];
} kern_q8_keys;
typedef struct kern_q8_values {
    int8_t code[KERN_PAGE][KERN_HEAD_DIM];
    uint16_t d[KERN_PAGE][KERN_KV_GROUPS];
} kern_q8_values;
_Static_assert(sizeof(kern_q8_keys) == 17408 && sizeof(kern_q8_values) == 17408,
               "keys and values have equal size; snapshot files store this layout");

/* The same for Q4_0. A code is a nibble, -8 to 7 in two's complement. A byte of the keys has
 * dimension 2i in its low and 2i+1 in its high nibble. Byte i < 16 of a group of the values has
 * dimension i of the group in its low and 16+i in its high nibble. */
typedef struct kern_q4_keys {
    uint8_t code[KERN_HEAD_DIM / 2][KERN_PAGE];
    uint16_t d[KERN_KV_GROUPS][KERN_PAGE];
} kern_q4_keys;
typedef struct kern_q4_values {
    uint8_t code[KERN_PAGE][KERN_HEAD_DIM / 2];
    uint16_t d[KERN_PAGE][KERN_KV_GROUPS];
} kern_q4_values;
_Static_assert(sizeof(kern_q4_keys) == 9216 && sizeof(kern_q4_values) == 9216,
               "keys and values have equal size; snapshot files store this layout");

/* Stores one position of one kv head in a page, rounded to the cache format: k in column `slot` of
 * K [256][64], v in row `slot` of V [64][256]. Q8_0: codes as in act_32, scales rounded to f16.
 * Q4_0: ref/kv_ref.c has the definition. */
typedef void kern_kv_put_fn(const float *k, const float *v, void *k_page, void *v_page,
                            uint32_t slot);

/* Online softmax of one query: maximum, denominator, weighted sum of values. */
typedef struct kern_attn_acc {
    float m, l;
    float o[KERN_HEAD_DIM];
} kern_attn_acc;

/* Merges one key block into the accumulators of n queries. Query i sees the first n_keys[i]
 * positions of the block (0: its accumulator does not change). `first`: the accumulators are
 * uninitialised; they are assigned, not merged. */
typedef struct kern_attn_args {
    const float *q; /* [n] rows, q_stride floats apart */
    size_t q_stride;
    size_t n;
    const uint8_t *n_keys; /* [n], 0 .. 64 */
    const void *k_page;    /* [256][64], kern_q8_keys or kern_q4_keys */
    const void *v_page;    /* [64][256], kern_q8_values or kern_q4_values */
    const void *next_keys; /* hint, never read: k_page of the call that follows; may be NULL */
    float scale;
    bool first;
    kern_attn_acc *acc; /* [n] */
} kern_attn_args;
typedef void kern_attn_block_fn(const kern_attn_args *a);

/* into = merge(into, from), n queries. */
typedef void kern_attn_merge_fn(kern_attn_acc *into, const kern_attn_acc *from, size_t n);
/* y = (o / l) * sigmoid(gate), 256 values. */
typedef void kern_attn_finish_fn(const kern_attn_acc *acc, const float *gate, float *y);

/* ---- attention of the vision encoder: every query sees every key of its frame ---- */

/* Merges one key block into the accumulators of n queries. Queries are already scaled. `dim` is the
 * head size: a multiple of 16, at most KERN_VISION_ATTN_DIM. The caller pads smaller heads with
 * zeros. */
typedef struct kern_vision_attn_args {
    const float *q; /* [n] rows, q_stride floats apart */
    size_t q_stride;
    size_t n;
    const float *k; /* [dim][64], transposed */
    const float *v; /* [64][dim] */
    size_t dim;
    size_t n_keys; /* 1 .. 64 */
    bool first;    /* as in kern_attn_args */
    float *m, *l;  /* [n] */
    float *o;      /* [n][dim] */
} kern_vision_attn_args;
typedef void kern_vision_attn_fn(const kern_vision_attn_args *a);

/* ---- sampling ---- */

/* Maximum of n > 0 values. A NaN is ignored. */
typedef float kern_max_fn(const float *x, size_t n);
/* lanes(exp((x - max) * scale)) */
typedef float kern_sum_exp_fn(const float *x, size_t n, float max, float scale);

/* ---- kernel table ---- */

typedef struct kern_table {
    mote_isa level;
#define KERNEL(slot, type) type *slot;
#include "kernels/kernels.def"
#undef KERNEL
} kern_table;

/* Fills the table with the references, then with the faster kernels of each level up to `level`.
 * The caller has checked that the CPU supports the level. */
void kern_table_init(kern_table *table, mote_isa level);

#endif
