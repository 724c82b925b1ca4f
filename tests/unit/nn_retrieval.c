/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nn_retrieval.c - how well each KV cache format finds one of 16,384 positions.
 *
 * Keys are random, with a large constant in six dimensions, as keys of trained models have it.
 * Values are random signs. A query is a weak copy of one key plus noise. The layer finds the
 * position if its output is closest to the value of that key. The scores of the right key and of
 * the best wrong one are near each other, so errors of the stored keys cost retrievals. Positions are
 * not rotated (RoPE): angle 0 everywhere.
 */
#include "base/cpu.h"
#include "law/rig.h"
#include "nn/attention.h"
#include "support/scale.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIM = KERN_HEAD_DIM, PAGE = KERN_PAGE, CONTEXT = 16384, PAGES = CONTEXT / PAGE + 1 };
enum { QUERIES = 300, OUTLIERS = 6 };

static const double SHARE = 0.34; /* of the key in a query */
static const float SHARPNESS = 9; /* of the softmax: the weights of q_norm */

/* The same for all formats. */
static struct {
    float k[CONTEXT * DIM], v[CONTEXT * DIM];
    float constant[DIM]; /* part of every key */
} context;

typedef struct retrieval {
    kern_table kernels;
    nn n;
    attn_shape shape;
    unsigned char *pages[PAGES];
    float cos[PAGE * ROPE_PAIRS], sin[PAGE * ROPE_PAIRS];
    float q_norm[DIM], k_norm[DIM];
    attn_parts parts;
    rig_random random;
} retrieval;

/* Normally distributed enough: the sum of 12 uniform numbers. */
static double normal(rig_random *r)
{
    double sum = 0;
    for (int i = 0; i < 12; i++)
        sum += rig_below(r, 1u << 20) / (double)(1u << 20);
    return sum - 6;
}

static void make_context(void)
{
    rig_random r = {.seed = 17};
    for (int i = 0; i < OUTLIERS; i++)
        context.constant[rig_below(&r, DIM)] = (float)(8 + rig_below(&r, 8));
    for (size_t i = 0; i < (size_t)CONTEXT * DIM; i++) {
        context.k[i] = (float)normal(&r) + context.constant[i % DIM];
        context.v[i] = rig_once_in(&r, 2) ? 1.0f : -1.0f;
    }
}

/* Stores the keys and values, page by page, each as a short sequence of its own. */
static void store_context(retrieval *c)
{
    const attn_weights w = {c->q_norm, c->k_norm};
    float *qg = calloc((size_t)PAGE * 2 * DIM, sizeof *qg), *y = calloc(PAGE * DIM, sizeof *y);
    assert_true(qg != NULL && y != NULL);
    for (size_t page = 0; page < PAGES - 1; page++) {
        const attn_segment segment = {.n = PAGE, .pages = &c->pages[page]};
        const attn_rows rows = {.qg = qg,
                                .k = context.k + page * PAGE * DIM,
                                .v = context.v + page * PAGE * DIM,
                                .cos = c->cos,
                                .sin = c->sin,
                                .y = y};
        nn_attention(&c->n, &c->shape, &w, 0, &segment, 1, &rows, &c->parts);
    }
    free(qg);
    free(y);
}

static void start(retrieval *c, mote_kv kv)
{
    mote_error err = {0};
    *c = (retrieval){.shape = {1, 1, 1, kv, 1e-6f}, .random = {.seed = 18}};
    kern_table_init(&c->kernels, cpu_best_isa());
    c->n.k = &c->kernels;
    MUST(pool_new(&c->n.pool, 1, &err), &err);
    c->n.worker_bytes = NN_WORKER_BYTES;
    c->n.worker_memory = aligned_alloc(64, NN_WORKER_BYTES);
    c->parts.capacity = attn_parts_needed(1, CONTEXT + PAGE, 1);
    c->parts.acc = calloc(c->parts.capacity, sizeof *c->parts.acc);
    assert_true(c->n.worker_memory && c->parts.acc);
    for (int i = 0; i < PAGES; i++)
        c->pages[i] = aligned_alloc(64, attn_page_bytes(&c->shape));
    for (int i = 0; i < DIM; i++) {
        c->q_norm[i] = SHARPNESS;
        c->k_norm[i] = 1;
    }
    for (int i = 0; i < PAGE * ROPE_PAIRS; i++)
        c->cos[i] = 1;
    store_context(c);
}

static void finish(retrieval *c)
{
    for (int i = 0; i < PAGES; i++)
        free(c->pages[i]);
    free(c->n.worker_memory);
    free(c->parts.acc);
    pool_free(c->n.pool);
}

/* The position with the value closest to y. All values have the same length. */
static size_t closest(const float *y)
{
    size_t best = 0;
    float most = -INFINITY;
    for (size_t t = 0; t < CONTEXT; t++) {
        float dot = 0;
        for (int i = 0; i < DIM; i++)
            dot += y[i] * context.v[t * DIM + (size_t)i];
        if (dot > most) {
            most = dot;
            best = t;
        }
    }
    return best;
}

/* One query after the context. Its own key is random and its value zero. */
static bool retrieves(retrieval *c)
{
    const attn_weights w = {c->q_norm, c->k_norm};
    const attn_segment segment = {.n = 1, .pos = CONTEXT, .pages = c->pages};
    const size_t target = rig_below(&c->random, CONTEXT);
    float qg[2 * DIM], k[DIM], v[DIM] = {0}, y[DIM];
    for (int i = 0; i < DIM; i++) {
        const float own = context.k[target * DIM + (size_t)i] - context.constant[i];
        qg[i] = (float)(SHARE * (double)own + sqrt(1 - SHARE * SHARE) * normal(&c->random));
        qg[DIM + i] = 10; /* gate */
        k[i] = (float)normal(&c->random);
    }
    const attn_rows rows = {.qg = qg, .k = k, .v = v, .cos = c->cos, .sin = c->sin, .y = y};
    nn_attention(&c->n, &c->shape, &w, 0, &segment, 1, &rows, &c->parts);
    return closest(y) == target;
}

static void every_format_retrieves(void **unused)
{
    (void)unused;
    static const mote_kv formats[] = {MOTE_KV_F32, MOTE_KV_F16, MOTE_KV_Q8_0, MOTE_KV_Q4_0};
    static const double allowed_loss[] = {0, 0.003, 0.007, 0.02};
    const uint32_t n = test_scaled(QUERIES, 50);
    double f32 = 0;
    make_context();
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        retrieval c;
        uint32_t found = 0;
        start(&c, formats[i]);
        for (uint32_t q = 0; q < n; q++)
            found += retrieves(&c);
        const double accuracy = (double)found / n;
        f32 = i == 0 ? accuracy : f32;
        printf("%s: %u of %u found, %.3f\n", rig_kv_name(formats[i]), found, n, accuracy);
        assert_true(accuracy >= 0.8 && accuracy >= f32 - allowed_loss[i] - 1.0 / n);
        finish(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_format_retrieves)};
    return cmocka_run_group_tests_name("nn_retrieval", tests, NULL, NULL);
}
