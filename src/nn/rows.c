/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rows.c - row-wise operations, fused: each function reads and writes a row once.
 *
 * A task is 8 rows. A pass of up to 8 rows (decode) has one task, which the calling thread runs
 * itself; that is faster than waking workers.
 */
#include "nn/nn.h"

enum { ROWS_PER_TASK = 8 };

typedef struct rows_run {
    const nn *n;
    size_t n_rows;
    float *x;
    const float *in, *add, *w, *b, *gate, *up;
    float *branch;
    kern_gelu_fn *gelu;
    float eps;
    nn_acts *out;
    nn_kinds kinds;
    size_t cols;
    void (*row_fn)(const struct rows_run *run, size_t row);
} rows_run;

static void rows_task(void *ctx, uint32_t task, uint32_t worker)
{
    (void)worker;
    const rows_run *run = ctx;
    size_t first = (size_t)task * ROWS_PER_TASK;
    size_t end = first + ROWS_PER_TASK < run->n_rows ? first + ROWS_PER_TASK : run->n_rows;
    for (size_t row = first; row < end; row++)
        run->row_fn(run, row);
}

static void rows_run_tasks(rows_run *run)
{
    size_t tasks = (run->n_rows + ROWS_PER_TASK - 1) / ROWS_PER_TASK;
    pool_run(run->n->pool, rows_task, run, (uint32_t)tasks);
}

static void residual_norm_row(const rows_run *run, size_t row)
{
    float *x = run->x + row * run->cols;
    if (run->add != NULL)
        run->n->k->add(run->add + row * run->cols, run->cols, x);
    run->n->k->rmsnorm(x, run->w, run->cols, run->eps, run->out->x + row * run->cols);
    nn_quantise_row(run->n, run->out, row, run->kinds);
}

void nn_residual_norm(const nn *n, float *x, const float *add, const float *w, float eps,
                      size_t n_rows, nn_acts *out, nn_kinds kinds)
{
    rows_run run = {.n = n,
                    .n_rows = n_rows,
                    .x = x,
                    .add = add,
                    .w = w,
                    .eps = eps,
                    .out = out,
                    .kinds = kinds,
                    .cols = out->cols,
                    .row_fn = residual_norm_row};
    rows_run_tasks(&run);
}

static void residual_row(const rows_run *run, size_t row)
{
    run->n->k->add(run->add + row * run->cols, run->cols, run->x + row * run->cols);
}

void nn_residual(const nn *n, float *x, const float *add, size_t n_rows, size_t cols)
{
    rows_run run = {
        .n = n, .n_rows = n_rows, .x = x, .add = add, .cols = cols, .row_fn = residual_row};
    rows_run_tasks(&run);
}

static void swiglu_row(const rows_run *run, size_t row)
{
    size_t at = row * run->cols;
    run->n->k->silu_mul(run->gate + at, run->up + at, run->cols, run->out->x + at);
    nn_quantise_row(run->n, run->out, row, run->kinds);
}

void nn_swiglu(const nn *n, const float *gate, const float *up, size_t cols, size_t n_rows,
               nn_acts *out, nn_kinds kinds)
{
    out->cols = cols;
    rows_run run = {.n = n,
                    .n_rows = n_rows,
                    .gate = gate,
                    .up = up,
                    .out = out,
                    .kinds = kinds,
                    .cols = cols,
                    .row_fn = swiglu_row};
    rows_run_tasks(&run);
}

static void rows_quantise_row(const rows_run *run, size_t row)
{
    nn_quantise_row(run->n, run->out, row, run->kinds);
}

void nn_quantise(const nn *n, nn_acts *a, size_t n_rows, nn_kinds kinds)
{
    rows_run run = {
        .n = n, .n_rows = n_rows, .out = a, .kinds = kinds, .row_fn = rows_quantise_row};
    rows_run_tasks(&run);
}

/* ---- vision encoder ---- */

static void layernorm_row(const rows_run *run, size_t row)
{
    const size_t at = row * run->cols;
    run->n->k->layernorm(run->in + at, run->w, run->b, run->cols, run->eps, run->out->x + at);
    nn_quantise_row(run->n, run->out, row, run->kinds);
}

void nn_layernorm(const nn *n, const float *x, const float *w, const float *b, float eps,
                  size_t n_rows, nn_acts *out, nn_kinds kinds)
{
    rows_run run = {.n = n,
                    .n_rows = n_rows,
                    .in = x,
                    .w = w,
                    .b = b,
                    .eps = eps,
                    .out = out,
                    .kinds = kinds,
                    .cols = out->cols,
                    .row_fn = layernorm_row};
    rows_run_tasks(&run);
}

static void bias_gelu_row(const rows_run *run, size_t row)
{
    run->gelu(run->b, run->cols, run->out->x + row * run->cols);
    nn_quantise_row(run->n, run->out, row, run->kinds);
}

void nn_bias_gelu(const nn *n, kern_gelu_fn *gelu, const float *bias, size_t n_rows, nn_acts *a,
                  nn_kinds kinds)
{
    rows_run run = {.n = n,
                    .n_rows = n_rows,
                    .b = bias,
                    .gelu = gelu,
                    .out = a,
                    .kinds = kinds,
                    .cols = a->cols,
                    .row_fn = bias_gelu_row};
    rows_run_tasks(&run);
}

static void bias_residual_row(const rows_run *run, size_t row)
{
    float *branch = run->branch + row * run->cols;
    run->n->k->add(run->b, run->cols, branch);
    if (run->x != NULL)
        run->n->k->add(branch, run->cols, run->x + row * run->cols);
}

void nn_bias_residual(const nn *n, float *branch, const float *bias, size_t n_rows, size_t cols,
                      float *x)
{
    rows_run run = {.n = n,
                    .n_rows = n_rows,
                    .x = x,
                    .b = bias,
                    .branch = branch,
                    .cols = cols,
                    .row_fn = bias_residual_row};
    rows_run_tasks(&run);
}
