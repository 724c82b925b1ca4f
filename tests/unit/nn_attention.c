/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nn_attention.c - paged attention compared with a plain softmax in binary64.
 *
 * The context is longer than a partition (1,024 positions), so partitions are merged. Both
 * schedules are tested: a tile of a prompt computes its partitions one after the other; a single
 * row (decode) spreads them over threads. Both must give the same bits.
 */
#include "base/cpu.h"
#include "law/rig.h"
#include "nn/attention.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIM = KERN_HEAD_DIM, ROWS = 1100, PAGES = (ROWS + KERN_PAGE - 1) / KERN_PAGE, LAYERS = 2 };

typedef struct problem {
    attn_shape shape;
    size_t n_rows; /* at most ROWS */
    rope rope;
    float *qg, *k, *v; /* see attn_rows */
    float *cos, *sin;  /* [ROWS][32] */
    float q_norm[DIM], k_norm[DIM];
} problem;

static float *random_floats(rig_random *r, size_t n)
{
    float *x = malloc(n * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)((int)rig_below(r, 2001) - 1000) / 500.0f;
    return x;
}

static problem make_problem(size_t heads, size_t kv_heads, mote_kv kv, size_t n_rows)
{
    rig_random r = {.seed = heads * 10 + kv_heads};
    problem p = {.shape = {heads, kv_heads, LAYERS, kv, 1e-6f}, .n_rows = n_rows};
    p.qg = random_floats(&r, ROWS * heads * 2 * DIM);
    p.k = random_floats(&r, ROWS * kv_heads * DIM);
    p.v = random_floats(&r, ROWS * kv_heads * DIM);
    p.cos = random_floats(&r, (size_t)ROWS * ROPE_PAIRS);
    p.sin = random_floats(&r, (size_t)ROWS * ROPE_PAIRS);
    rope_init(&p.rope, 1e7, 0, 0);
    for (size_t row = 0; row < ROWS; row++)
        rope_angles(&p.rope, row, p.cos + row * ROPE_PAIRS, p.sin + row * ROPE_PAIRS);
    for (int i = 0; i < DIM; i++) {
        p.q_norm[i] = 0.5f + (float)rig_below(&r, 100) / 100.0f;
        p.k_norm[i] = 0.5f + (float)rig_below(&r, 100) / 100.0f;
    }
    return p;
}

static void free_problem(problem *p)
{
    free(p->qg);
    free(p->k);
    free(p->v);
    free(p->cos);
    free(p->sin);
}

/* ---- the reference ---- */

static void normed_and_turned(const problem *p, const float *x, const float *w, size_t pos,
                              double out[DIM])
{
    double sum = 0;
    for (int i = 0; i < DIM; i++)
        sum += (double)x[i] * (double)x[i];
    for (int i = 0; i < DIM; i++)
        out[i] = (double)x[i] / sqrt(sum / DIM + 1e-6) * (double)w[i];
    for (int i = 0; i < ROPE_PAIRS; i++) {
        double c = (double)p->cos[pos * ROPE_PAIRS + (size_t)i];
        double s = (double)p->sin[pos * ROPE_PAIRS + (size_t)i];
        double a = out[i], b = out[i + ROPE_PAIRS];
        out[i] = a * c - b * s;
        out[i + ROPE_PAIRS] = b * c + a * s;
    }
}

static void expected_row(const problem *p, size_t row, size_t head, double y[DIM])
{
    size_t kv_heads = p->shape.kv_heads, kv = head / (p->shape.heads / kv_heads);
    const float *qg = p->qg + (row * p->shape.heads + head) * 2 * DIM;
    double q[DIM], total = 0;
    static double weight[ROWS];
    normed_and_turned(p, qg, p->q_norm, row, q);
    for (size_t t = 0; t <= row; t++) {
        double k[DIM], score = 0;
        normed_and_turned(p, p->k + (t * kv_heads + kv) * DIM, p->k_norm, t, k);
        for (int i = 0; i < DIM; i++)
            score += q[i] * k[i];
        weight[t] = exp(score / 16);
        total += weight[t];
    }
    for (int i = 0; i < DIM; i++) {
        double sum = 0;
        for (size_t t = 0; t <= row; t++)
            sum += weight[t] * (double)p->v[(t * kv_heads + kv) * DIM + (size_t)i];
        y[i] = sum / total / (1 + exp(-(double)qg[DIM + i]));
    }
}

/* ---- the layer ---- */

/* Runs all rows, in passes of random length, at most `longest`. */
static float *run(const problem *p, uint32_t threads, uint32_t longest, size_t single_from)
{
    kern_table kernels;
    kern_table_init(&kernels, cpu_best_isa());
    nn n = {.k = &kernels};
    mote_error err = {0};
    MUST(pool_new(&n.pool, threads, &err), &err);
    n.worker_bytes = NN_WORKER_BYTES;
    n.worker_memory = aligned_alloc(64, (size_t)threads * NN_WORKER_BYTES);
    unsigned char *pages[PAGES];
    for (int i = 0; i < PAGES; i++)
        pages[i] = aligned_alloc(64, attn_page_bytes(&p->shape));
    attn_parts parts = {.capacity = attn_parts_needed(p->shape.heads, ROWS, 1)};
    parts.acc = calloc(parts.capacity, sizeof *parts.acc);
    float *y = calloc(ROWS * p->shape.heads * DIM, sizeof *y);
    assert_true(n.worker_memory != NULL && parts.acc != NULL && y != NULL);
    attn_rows rows = {.qg = p->qg, .k = p->k, .v = p->v, .cos = p->cos, .sin = p->sin, .y = y};
    attn_weights w = {.q_norm = p->q_norm, .k_norm = p->k_norm};
    rig_random r = {.seed = longest};
    for (size_t pos = 0; pos < p->n_rows;) {
        size_t count = pos >= single_from ? 1 : 1 + rig_below(&r, longest);
        count = count < p->n_rows - pos ? count : p->n_rows - pos;
        attn_segment segment = {.row = 0, .n = count, .pos = pos, .pages = pages};
        attn_rows here = {.qg = rows.qg + pos * p->shape.heads * 2 * DIM,
                          .k = rows.k + pos * p->shape.kv_heads * DIM,
                          .v = rows.v + pos * p->shape.kv_heads * DIM,
                          .cos = rows.cos + pos * ROPE_PAIRS,
                          .sin = rows.sin + pos * ROPE_PAIRS,
                          .y = rows.y + pos * p->shape.heads * DIM};
        nn_attention(&n, &p->shape, &w, 1, &segment, 1, &here, &parts);
        pos += count;
    }
    for (int i = 0; i < PAGES; i++)
        free(pages[i]);
    free(parts.acc);
    free(n.worker_memory);
    pool_free(n.pool);
    return y;
}

static double largest_error(const problem *p, const float *y)
{
    static const size_t rows[] = {0, 1, 63, 64, 65, 170, 500, 1023, 1024, 1025, ROWS - 1};
    double worst = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && rows[i] < p->n_rows; i++)
        for (size_t head = 0; head < p->shape.heads; head++) {
            double want[DIM];
            expected_row(p, rows[i], head, want);
            for (size_t d = 0; d < DIM; d++)
                worst = fmax(
                    worst, fabs((double)y[(rows[i] * p->shape.heads + head) * DIM + d] - want[d]));
        }
    return worst;
}

static void meets_a_softmax(void **unused)
{
    (void)unused;
    static const struct {
        size_t heads, kv_heads, n_rows;
    } layouts[] = {{4, 1, 200}, {4, 2, 200}, {6, 1, 200}, {2, 1, ROWS}};
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        for (int kv = MOTE_KV_F16; kv <= MOTE_KV_Q4_0; kv++) {
            problem p =
                make_problem(layouts[i].heads, layouts[i].kv_heads, (mote_kv)kv, layouts[i].n_rows);
            float *y = run(&p, 2, ROWS, ROWS);
            double error = largest_error(&p, y);
            printf("%zu query, %zu kv heads, %zu rows, %s: largest error %.1e\n", layouts[i].heads,
                   layouts[i].kv_heads, layouts[i].n_rows, rig_kv_name((mote_kv)kv), error);
            static const double bounds[] = {2e-3, 2e-6, 2e-2, 5e-1}; /* by mote_kv */
            assert_true(error < bounds[kv]);
            free(y);
            free_problem(&p);
        }
}

static void cut_and_threads_change_nothing(void **unused)
{
    (void)unused;
    problem p = make_problem(2, 1, MOTE_KV_F16, ROWS);
    size_t bytes = ROWS * p.shape.heads * DIM * sizeof(float);
    float *whole = run(&p, 1, 400, ROWS);
    float *cut = run(&p, 3, 37, ROWS);
    float *single = run(&p, 2, 400, 990);
    assert_memory_equal(whole, cut, bytes);
    assert_memory_equal(whole, single, bytes);
    free(whole);
    free(cut);
    free(single);
    free_problem(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(meets_a_softmax),
        cmocka_unit_test(cut_and_threads_change_nothing),
    };
    return cmocka_run_group_tests_name("nn_attention", tests, NULL, NULL);
}
