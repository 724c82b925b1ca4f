/* SPDX-License-Identifier: Apache-2.0 */
/* tower.c - see tower.h. A task is a handful of rows; rows do not know of each other. */
#include "nn/tower.h"

enum { ROWS_PER_TASK = 8 };

typedef struct tower_run {
    const nn *n;
    size_t n_rows, cols;
    const float *x, *w, *b;
    float eps;
    float *stream, *branch;
    kern_gelu_fn *gelu;
    const nn_acts *acts;
    nn_kinds kinds;
    void (*one)(const struct tower_run *run, size_t row);
} tower_run;

static void tower_task(void *ctx, uint32_t task, uint32_t worker)
{
    (void)worker;
    const tower_run *run = ctx;
    const size_t first = (size_t)task * ROWS_PER_TASK;
    const size_t end = first + ROWS_PER_TASK < run->n_rows ? first + ROWS_PER_TASK : run->n_rows;
    for (size_t row = first; row < end; row++)
        run->one(run, row);
}

static void run_rows(tower_run *run)
{
    const size_t tasks = (run->n_rows + ROWS_PER_TASK - 1) / ROWS_PER_TASK;
    pool_run(run->n->pool, tower_task, run, (uint32_t)tasks);
}

static void layernorm_row(const tower_run *run, size_t row)
{
    const size_t at = row * run->cols;
    run->n->k->layernorm(run->x + at, run->w, run->b, run->cols, run->eps, run->acts->x + at);
    nn_quantise_row(run->n, run->acts, row, run->kinds);
}

void nn_layernorm(const nn *n, const float *x, const float *w, const float *b, float eps,
                  size_t n_rows, nn_acts *out, nn_kinds kinds)
{
    tower_run run = {.n = n,
                     .n_rows = n_rows,
                     .cols = out->cols,
                     .x = x,
                     .w = w,
                     .b = b,
                     .eps = eps,
                     .acts = out,
                     .kinds = kinds,
                     .one = layernorm_row};
    run_rows(&run);
}

static void gelu_row(const tower_run *run, size_t row)
{
    run->gelu(run->b, run->cols, run->acts->x + row * run->cols);
    nn_quantise_row(run->n, run->acts, row, run->kinds);
}

void nn_bias_gelu(const nn *n, kern_gelu_fn *gelu, const float *bias, size_t n_rows, nn_acts *a,
                  nn_kinds kinds)
{
    tower_run run = {.n = n,
                     .n_rows = n_rows,
                     .cols = a->cols,
                     .b = bias,
                     .gelu = gelu,
                     .acts = a,
                     .kinds = kinds,
                     .one = gelu_row};
    run_rows(&run);
}

static void residual_row(const tower_run *run, size_t row)
{
    float *branch = run->branch + row * run->cols;
    run->n->k->add(run->b, run->cols, branch);
    if (run->stream != NULL)
        run->n->k->add(branch, run->cols, run->stream + row * run->cols);
}

void nn_bias_residual(const nn *n, float *branch, const float *bias, size_t n_rows, size_t cols,
                      float *x)
{
    tower_run run = {.n = n,
                     .n_rows = n_rows,
                     .cols = cols,
                     .b = bias,
                     .branch = branch,
                     .stream = x,
                     .one = residual_row};
    run_rows(&run);
}
