/* SPDX-License-Identifier: Apache-2.0 */
/*
 * linear.c - quantised activations, and weight matrices applied to the rows of a pass.
 *
 * The outputs of all matrices of a call are divided into tasks of whole weight rows. A task
 * computes its weight rows for every token, so each weight is read once per pass. Tasks never
 * divide a sum, so their size does not affect a result.
 *
 * Task size with few tokens: about 64 KiB of weights. That is long compared with the cost of
 * fetching a task (0.1 us) and short enough that all threads finish at about the same time. With
 * many tokens a kernel first packs the activations, which costs as much as several weight rows.
 * Tasks are then larger: an eighth of a thread's share, at most 256 rows.
 *
 * The first product of an adapter (A x) has the same input, so its tasks run with the others. The
 * second one (B A x) needs the results of both; see lora_rows.c.
 */
#include "nn/nn.h"

#include <string.h>

enum {
    TASK_BYTES = 64 << 10,
    ROW_UNIT = 32,
    MANY_TOKENS = 64,
    TASKS_PER_THREAD = 8, /* from MANY_TOKENS on */
    MAX_TASK_ROWS = 256   /* from MANY_TOKENS on */
};

/* ---- activations ---- */

void nn_acts_take(nn_acts *a, arena *m, nn_kinds kinds, size_t rows, size_t cols)
{
    a->lora = NULL;
    if (kinds & (1u << QUANT_ACT_32)) {
        a->q32 = arena_take(m, rows * cols, sizeof *a->q32);
        a->d32 = arena_take(m, rows * (cols / 32), sizeof *a->d32);
        a->sum32 = arena_take(m, rows * (cols / 32), sizeof *a->sum32);
    }
    if (kinds & (1u << QUANT_ACT_256)) {
        a->q256 = arena_take(m, rows * cols, sizeof *a->q256);
        a->d256 = arena_take(m, rows * (cols / 256), sizeof *a->d256);
        a->sum256 = arena_take(m, rows * (cols / 16), sizeof *a->sum256);
    }
}

void nn_quantise_row(const nn *n, const nn_acts *a, size_t row, nn_kinds kinds)
{
    size_t cols = a->cols;
    const float *x = a->x + row * cols;
    if (kinds & (1u << QUANT_ACT_32))
        n->k->act_32(x, cols, a->q32 + row * cols, a->d32 + row * (cols / 32),
                     a->sum32 + row * (cols / 32));
    if (kinds & (1u << QUANT_ACT_256))
        n->k->act_256(x, cols, a->q256 + row * cols, a->d256 + row * (cols / 256),
                      a->sum256 + row * (cols / 16));
}

kern_act nn_acts_view(const nn_acts *a, size_t n_rows, quant_act act)
{
    kern_act view = {.n = n_rows, .cols = a->cols, .x = a->x};
    if (act == QUANT_ACT_32) {
        view.q = a->q32;
        view.d = a->d32;
        view.sum = a->sum32;
    } else if (act == QUANT_ACT_256) {
        view.q = a->q256;
        view.d = a->d256;
        view.sum = a->sum256;
    }
    return view;
}

/* ---- matrices ---- */

kern_gemm_fn *nn_gemm_for(const kern_table *k, quant_format format)
{
    switch (format) {
    case QUANT_F32: return k->gemm_f32;
    case QUANT_F16: return k->gemm_f16;
    case QUANT_BF16: return k->gemm_bf16;
    case QUANT_Q4_0: return k->gemm_q4_0;
    case QUANT_Q4_1: return k->gemm_q4_1;
    case QUANT_Q5_0: return k->gemm_q5_0;
    case QUANT_Q5_1: return k->gemm_q5_1;
    case QUANT_Q8_0: return k->gemm_q8_0;
    case QUANT_Q2_K: return k->gemm_q2_k;
    case QUANT_Q3_K: return k->gemm_q3_k;
    case QUANT_Q4_K: return k->gemm_q4_k;
    case QUANT_Q5_K: return k->gemm_q5_k;
    case QUANT_Q6_K: return k->gemm_q6_k;
    case QUANT_IQ4_NL: return k->gemm_iq4_nl;
    case QUANT_IQ4_XS: return k->gemm_iq4_xs;
    case QUANT_IQ1_S: return k->gemm_iq1_s;
    case QUANT_IQ1_M: return k->gemm_iq1_m;
    case QUANT_IQ2_XXS: return k->gemm_iq2_xxs;
    case QUANT_IQ2_XS: return k->gemm_iq2_xs;
    case QUANT_IQ2_S: return k->gemm_iq2_s;
    case QUANT_IQ3_XXS: return k->gemm_iq3_xxs;
    case QUANT_IQ3_S: return k->gemm_iq3_s;
    case QUANT_TQ1_0: return k->gemm_tq1_0;
    case QUANT_TQ2_0: return k->gemm_tq2_0;
    case QUANT_MXFP4: return k->gemm_mxfp4;
    case QUANT_NVFP4: return k->gemm_nvfp4;
    case QUANT_Q1_0: return k->gemm_q1_0;
    case QUANT_Q2_0: return k->gemm_q2_0;
    case QUANT_N_FORMATS: break;
    }
    return NULL;
}

typedef struct linear_run {
    const nn *n;
    const nn_acts *acts;
    size_t n_rows;
    const nn_product *products;
    size_t n_products;
    kern_act input[NN_MAX_PRODUCTS];
    size_t rows_per_task[NN_MAX_PRODUCTS];
    uint32_t first_task[NN_MAX_PRODUCTS + 1]; /* [n_products] is the number of tasks */
} linear_run;

static size_t task_rows(const nn_matrix *w, size_t n_tokens, uint32_t threads)
{
    size_t rows = TASK_BYTES / w->row_bytes;
    if (n_tokens >= MANY_TOKENS) {
        const size_t share = w->rows / (threads * TASKS_PER_THREAD);
        rows = share < MAX_TASK_ROWS ? share : MAX_TASK_ROWS;
    }
    rows = rows / ROW_UNIT * ROW_UNIT;
    return rows > ROW_UNIT ? rows : ROW_UNIT;
}

/* Rows of a matrix times all tokens. The factor is a multiplication of the finished sum. */
void nn_matrix_multiply(const nn_matrix *w, const kern_gemm_args *args)
{
    w->gemm(args);
    if (w->factor == 0)
        return;
    for (size_t t = 0; t < args->x->n; t++) {
        float *y = args->y + t * args->y_stride;
        for (size_t r = 0; r < args->rows; r++)
            y[r] *= w->factor;
    }
}

static void linear_task(void *ctx, uint32_t task, uint32_t worker)
{
    const linear_run *run = ctx;
    size_t i = 0;
    if (task >= run->first_task[run->n_products]) {
        nn_lora_down_task(run->n, run->acts, run->n_rows, run->products, run->n_products,
                          task - run->first_task[run->n_products], worker);
        return;
    }
    while (task >= run->first_task[i + 1])
        i++;
    const nn_product *p = &run->products[i];
    size_t first = (task - run->first_task[i]) * run->rows_per_task[i];
    size_t left = p->w->rows - first;
    kern_gemm_args args = {
        .w = p->w->data + first * p->w->row_bytes,
        .row_bytes = p->w->row_bytes,
        .rows = left < run->rows_per_task[i] ? left : run->rows_per_task[i],
        .x = &run->input[i],
        .y = p->y + first,
        .y_stride = p->y_stride,
        .scratch = nn_worker(run->n, worker),
    };
    nn_matrix_multiply(p->w, &args);
}

void nn_linear(const nn *n, const nn_acts *input, size_t n_rows, const nn_product *products,
               size_t n_products)
{
    linear_run run = {
        .n = n, .acts = input, .n_rows = n_rows, .products = products, .n_products = n_products};
    for (size_t i = 0; i < n_products; i++) {
        const nn_matrix *w = products[i].w;
        if (n->observe != NULL)
            n->observe(n->observe_ctx, &(nn_observed){.w = w, .x = input->x, .n_rows = n_rows});
        run.input[i] = nn_acts_view(input, n_rows, w->format->act);
        run.rows_per_task[i] = task_rows(w, n_rows, pool_size(n->pool));
        size_t tasks = (w->rows + run.rows_per_task[i] - 1) / run.rows_per_task[i];
        run.first_task[i + 1] = run.first_task[i] + (uint32_t)tasks;
    }
    const uint32_t down = nn_lora_down_tasks(input, n_rows, products, n_products);
    pool_run(n->pool, linear_task, &run, run.first_task[n_products] + down);
    if (down > 0)
        nn_lora_up(n, input, products, n_products);
}

/* ---- single rows of a matrix ---- */

typedef struct picked_run {
    const nn *n;
    const nn_matrix *w;
    const mote_token *ids;
    size_t n_ids;
    kern_act input;
    unsigned char *copy;
    float *y;
} picked_run;

/* Copies the weight rows of a task, so that one kernel call computes all of them. */
static void picked_task(void *ctx, uint32_t task, uint32_t worker)
{
    const picked_run *run = ctx;
    const size_t bytes = run->w->row_bytes, first = (size_t)task * ROW_UNIT;
    const size_t left = run->n_ids - first, rows = left < ROW_UNIT ? left : ROW_UNIT;
    unsigned char *copy = run->copy + first * bytes;
    for (size_t i = 0; i < rows; i++)
        memcpy(copy + i * bytes, run->w->data + (size_t)run->ids[first + i] * bytes, bytes);
    kern_gemm_args args = {
        .w = copy,
        .row_bytes = bytes,
        .rows = rows,
        .x = &run->input,
        .y = run->y + first,
        .y_stride = run->n_ids,
        .scratch = nn_worker(run->n, worker),
    };
    nn_matrix_multiply(run->w, &args);
}

void nn_linear_picked(const nn *n, const nn_acts *input, const nn_matrix *w, const mote_token *ids,
                      size_t n_ids, unsigned char *copy, float *y)
{
    picked_run run = {.n = n,
                      .w = w,
                      .ids = ids,
                      .n_ids = n_ids,
                      .input = nn_acts_view(input, 1, w->format->act),
                      .copy = copy,
                      .y = y};
    pool_run(n->pool, picked_task, &run, (uint32_t)((n_ids + ROW_UNIT - 1) / ROW_UNIT));
}
