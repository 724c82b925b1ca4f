/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lora_rows.c - LoRA adapters in a pass: y = W x + B (s A x), for rows that have an adapter.
 *
 * A row uses the adapters of its session, so the rows of a pass are divided into spans with equal
 * adapters. Each number depends on its own row only: A x is a lanes sum as in products with float
 * weights, B (s A x) a chain that starts from W x (slot low_rank_add).
 *
 * A x runs together with W x, because both have the same input. Its tasks are parts of the ranks
 * with few rows, and parts of the rows with many. The tasks of B divide the outputs into panels.
 * The values of a panel are stored together, so that they are read in order.
 */
#include "nn/nn.h"

enum {
    DOWN_TOKENS = 48, /* rows of a task of A */
    DOWN_RANKS = 4,   /* ranks of a task of A, if all rows fit in one task */
    UP_BYTES = 64 << 10
};

void nn_lora_take(nn_lora_rows *l, arena *m, size_t batch, size_t sessions, size_t rank)
{
    l->batch = batch;
    l->rank = rank;
    l->spans = arena_take(m, sessions + 1, sizeof *l->spans);
    l->low = arena_take(m, NN_MAX_PRODUCTS * batch * rank, sizeof *l->low);
}

/* ---- spans ---- */

static bool set_equal(const nn_lora_set *a, const nn_lora_set *b)
{
    bool equal = a->n == b->n;
    for (uint32_t i = 0; equal && i < a->n; i++)
        equal = a->at[i].pairs == b->at[i].pairs && a->at[i].scale == b->at[i].scale;
    return equal;
}

size_t nn_lora_add(const nn_lora_rows *l, size_t at, size_t row, size_t n, const nn_lora_set *set)
{
    if (l->spans == NULL)
        return 0;
    if (set != NULL && set->n > 0 && n > 0) {
        nn_lora_span *last = at > 0 ? &l->spans[at - 1] : NULL;
        if (last != NULL && last->row + last->n == row && set_equal(last->set, set))
            last->n += n;
        else
            l->spans[at++] = (nn_lora_span){.row = row, .n = n, .set = set};
    }
    l->spans[at] = (nn_lora_span){.n = 0};
    return at;
}

/* ---- which products have adapters ---- */

static const nn_lora_span *first_span(const nn_acts *input)
{
    static const nn_lora_span none = {.n = 0};
    return input->lora != NULL && input->lora->spans != NULL ? input->lora->spans : &none;
}

/* The adapter number i of a set for a matrix; NULL: it has none. */
static const nn_lora_pair *pair_at(const nn_lora_set *set, uint32_t i, const nn_matrix *w)
{
    const nn_lora_pair *pair = &set->at[i].pairs[w->id];
    return pair->a.rows > 0 ? pair : NULL;
}

/* The sum of the ranks that a set has for a matrix. */
static size_t set_rank(const nn_lora_set *set, const nn_matrix *w)
{
    size_t rank = 0;
    for (uint32_t i = 0; i < set->n; i++)
        rank += set->at[i].pairs[w->id].a.rows;
    return rank;
}

/* The largest rank that any row has for any of the products; 0: no product is adapted. */
static size_t products_rank(const nn_acts *input, const nn_product *products, size_t n_products)
{
    size_t most = 0;
    for (const nn_lora_span *span = first_span(input); span->n > 0; span++)
        for (size_t i = 0; i < n_products; i++) {
            const size_t rank = set_rank(span->set, products[i].w);
            most = rank > most ? rank : most;
        }
    return most;
}

static float *low_row(const nn_lora_rows *l, size_t product, size_t row)
{
    return l->low + (product * l->batch + row) * l->rank;
}

/* ---- s A x ---- */

/* Ranks of one task. */
static size_t down_ranks(size_t rank, size_t n_rows)
{
    return n_rows > DOWN_TOKENS ? rank : DOWN_RANKS;
}

uint32_t nn_lora_down_tasks(const nn_acts *input, size_t n_rows, const nn_product *products,
                            size_t n_products)
{
    const size_t rank = products_rank(input, products, n_products);
    if (rank == 0)
        return 0;
    const size_t ranks = down_ranks(rank, n_rows);
    return (uint32_t)(n_products * ((n_rows + DOWN_TOKENS - 1) / DOWN_TOKENS) *
                      ((rank + ranks - 1) / ranks));
}

/* Ranks first .. end-1 of one adapter, for n rows of the input from `row` on. */
static void down_pair(const nn_lora_pair *pair, float scale, const nn_acts *input, size_t row,
                      size_t n, size_t first, size_t end, float *low, size_t stride, void *scratch)
{
    const kern_act x = {.n = n, .cols = input->cols, .x = input->x + row * input->cols};
    const float s = (float)(pair->scale * (double)scale);
    const kern_gemm_args args = {
        .w = pair->a.data + first * pair->a.row_bytes,
        .row_bytes = pair->a.row_bytes,
        .rows = end - first,
        .x = &x,
        .y = low + first,
        .y_stride = stride,
        .scratch = scratch,
    };
    pair->a.gemm(&args);
    for (size_t t = 0; t < n; t++)
        for (size_t j = first; j < end; j++)
            low[t * stride + j] *= s;
}

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Ranks [first, end) of the set: those of its adapters follow one another. */
static void down_span(const nn_lora_span *span, const nn_acts *input, const nn_matrix *w,
                      size_t row, size_t n, size_t first, size_t end, float *low, void *scratch)
{
    size_t before = 0; /* ranks of the adapters before */
    for (uint32_t i = 0; i < span->set->n && before < end; i++) {
        const nn_lora_pair *pair = pair_at(span->set, i, w);
        if (pair == NULL)
            continue;
        const size_t from = first > before ? first - before : 0;
        const size_t to = min_size(end - before, pair->a.rows);
        if (from < to)
            down_pair(pair, span->set->at[i].scale, input, row, n, from, to, low + before,
                      input->lora->rank, scratch);
        before += pair->a.rows;
    }
}

void nn_lora_down_task(const nn *n, const nn_acts *input, size_t n_rows, const nn_product *products,
                       size_t n_products, uint32_t task, uint32_t worker)
{
    const size_t rank = products_rank(input, products, n_products);
    const size_t ranks = down_ranks(rank, n_rows), parts = (rank + ranks - 1) / ranks;
    const size_t product = task % n_products, part = task / n_products % parts;
    const size_t begin = task / n_products / parts * DOWN_TOKENS;
    const size_t end = min_size(begin + DOWN_TOKENS, n_rows);
    for (const nn_lora_span *span = first_span(input); span->n > 0; span++) {
        const size_t from = span->row > begin ? span->row : begin;
        const size_t to = min_size(span->row + span->n, end);
        if (from < to)
            down_span(span, input, products[product].w, from, to - from, part * ranks,
                      (part + 1) * ranks, low_row(input->lora, product, from),
                      nn_worker(n, worker));
    }
}

/* ---- B (s A x) ---- */

typedef struct up_run {
    const nn *n;
    const nn_acts *input;
    const nn_product *products;
    size_t n_products;
    size_t panels_per_task;
    uint32_t first_task[NN_MAX_PRODUCTS + 1]; /* [n_products] is the number of tasks */
} up_run;

/* One panel of outputs of one product, for one span. */
static void up_panel(const up_run *run, size_t product, const nn_lora_span *span, size_t first)
{
    const nn_product *p = &run->products[product];
    const nn_lora_rows *l = run->input->lora;
    const size_t n = min_size(NN_LORA_PANEL, p->w->rows - first);
    size_t before = 0;
    for (uint32_t i = 0; i < span->set->n; i++) {
        const nn_lora_pair *pair = pair_at(span->set, i, p->w);
        if (pair == NULL)
            continue;
        const size_t rank = pair->a.rows;
        const kern_low_rank_args args = {
            .b = (const char *)pair->b + first * rank * (pair->halves ? 2 : sizeof(float)),
            .halves = pair->halves,
            .b_stride = nn_lora_stride(p->w->rows, first),
            .rank = rank,
            .x = low_row(l, product, span->row) + before,
            .x_stride = l->rank,
            .y = p->y + span->row * p->y_stride + first,
            .y_stride = p->y_stride,
            .tokens = span->n,
            .n = n,
        };
        run->n->k->low_rank_add(&args);
        before += rank;
    }
}

static void up_task(void *ctx, uint32_t task, uint32_t worker)
{
    (void)worker;
    const up_run *run = ctx;
    size_t product = 0;
    while (task >= run->first_task[product + 1])
        product++;
    const size_t rows = run->products[product].w->rows;
    const size_t begin =
        (task - run->first_task[product]) * run->panels_per_task * (size_t)NN_LORA_PANEL;
    const size_t end = min_size(begin + run->panels_per_task * NN_LORA_PANEL, rows);
    for (size_t first = begin; first < end; first += NN_LORA_PANEL)
        for (const nn_lora_span *span = first_span(run->input); span->n > 0; span++)
            up_panel(run, product, span, first);
}

void nn_lora_up(const nn *n, const nn_acts *input, const nn_product *products, size_t n_products)
{
    up_run run = {.n = n, .input = input, .products = products, .n_products = n_products};
    const size_t panel_bytes =
        NN_LORA_PANEL * sizeof(float) * products_rank(input, products, n_products);
    run.panels_per_task = panel_bytes < UP_BYTES ? UP_BYTES / panel_bytes : 1;
    for (size_t i = 0; i < n_products; i++) {
        const size_t rows = run.panels_per_task * NN_LORA_PANEL;
        run.first_task[i + 1] =
            run.first_task[i] + (uint32_t)((products[i].w->rows + rows - 1) / rows);
    }
    pool_run(n->pool, up_task, &run, run.first_task[n_products]);
}
