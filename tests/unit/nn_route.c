/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nn_route.c - which experts a row gets: ties, NaN and infinities, weights, and the slots of a pass.
 *
 * The expected choice is made in another way: by sorting all experts.
 */
#include "law/rig.h"

#include "kernels/fmath.h"
#include "nn/experts.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

enum { EXPERTS = 40, USED = 6, ROWS = 21 };

static const float *sorted_logits;

/* Value descending, index ascending; a NaN is last. */
static int by_logit(const void *a, const void *b)
{
    const uint16_t i = *(const uint16_t *)a, j = *(const uint16_t *)b;
    const float x = isnan(sorted_logits[i]) ? -INFINITY : sorted_logits[i];
    const float y = isnan(sorted_logits[j]) ? -INFINITY : sorted_logits[j];
    if (x != y)
        return x > y ? -1 : 1;
    return i < j ? -1 : 1;
}

static int by_number(const void *a, const void *b)
{
    return *(const uint16_t *)a < *(const uint16_t *)b ? -1 : 1;
}

static void expect_row(const float *logits, const uint16_t *chosen, const float *weights)
{
    uint16_t all[EXPERTS];
    for (uint16_t e = 0; e < EXPERTS; e++)
        all[e] = e;
    sorted_logits = logits;
    qsort(all, EXPERTS, sizeof *all, by_logit);
    const float largest = logits[all[0]];
    qsort(all, USED, sizeof *all, by_number);
    float p[USED], sum = 0;
    for (int i = 0; i < USED; i++) {
        p[i] = isnan(logits[all[i]]) ? 0.0f : f_exp(logits[all[i]] - largest);
        sum = sum + p[i];
    }
    for (int i = 0; i < USED; i++) {
        const float want = p[i] / sum;
        if (chosen[i] != all[i])
            rig_fail("expert %u, not %u", chosen[i], all[i]);
        if (memcmp(&want, &weights[i], sizeof want) != 0)
            rig_fail("weight %g, not %g", (double)weights[i], (double)want);
    }
}

/* Few different values, so most rows have ties at the border of the choice. */
static void fill_logits(float logits[ROWS][EXPERTS])
{
    rig_random r = {.seed = 5};
    for (int row = 0; row < ROWS; row++)
        for (int e = 0; e < EXPERTS; e++)
            logits[row][e] = (float)rig_below(&r, row < 14 ? 8 : 1000) / 4.0f;
    for (int e = 0; e < EXPERTS; e++)
        logits[3][e] = 1.5f; /* all equal: the first ones */
    for (int e = 0; e < EXPERTS - 2; e++)
        logits[4][e] = NAN; /* fewer numbers than experts of a row */
    logits[5][7] = -INFINITY;
    logits[6][9] = NAN;
}

typedef struct rig_routes {
    expert_shape shape;
    expert_routes r;
    nn n;
    void *memory;
} rig_routes;

static void routes_open(rig_routes *t, size_t ff, kern_table *k)
{
    mote_error err = {0};
    arena counting = {0};
    *t = (rig_routes){.shape = {EXPERTS, USED, 64, ff}};
    experts_routes_take(&t->r, &counting, &t->shape, ROWS);
    t->memory = mem_new(counting.used, 1);
    arena a = {.base = t->memory};
    experts_routes_take(&t->r, &a, &t->shape, ROWS);
    kern_table_init(k, MOTE_ISA_REF);
    t->n.k = k;
    MUST(pool_new(&t->n.pool, 2, &err), &err);
}

static void routes_close(rig_routes *t)
{
    pool_free(t->n.pool);
    mem_free(t->memory);
}

static void check_slots(const rig_routes *t, size_t unit)
{
    size_t pairs = 0;
    for (size_t i = 0; i < t->r.n_active; i++) {
        const uint16_t e = t->r.active[i];
        assert_true(i == 0 || e > t->r.active[i - 1]);
        assert_true(t->r.count[e] > 0 && t->r.begin[e] % unit == 0);
        for (uint32_t j = 0; j < t->r.count[e]; j++) {
            const uint32_t slot = t->r.begin[e] + j, row = t->r.slot_row[slot];
            const uint16_t *chosen = t->r.chosen + row * USED;
            size_t at = 0;
            assert_true(row < ROWS && (j == 0 || row > t->r.slot_row[slot - 1]));
            while (at < USED && chosen[at] != e)
                at++;
            assert_true(at < USED);
            assert_memory_equal(&t->r.slot_weight[slot], &t->r.weight[row * USED + at],
                                sizeof(float));
        }
        pairs += t->r.count[e];
    }
    assert_int_equal(pairs, ROWS * USED);
    size_t empty = 0;
    for (size_t i = 0; i < t->r.n_slots; i++)
        empty += t->r.slot_row[i] == SLOT_EMPTY;
    assert_int_equal(empty + pairs, t->r.n_slots);
    assert_true(t->r.n_slots <= experts_max_slots(&t->shape, ROWS));
    assert_true(unit == 1 ? empty == 0 : empty > 0);
}

static void rows_get_their_experts(void **unused)
{
    (void)unused;
    static float logits[ROWS][EXPERTS], gates[ROWS];
    fill_logits(logits);
    gates[2] = 3.0f;
    const size_t ff[] = {64, 32}; /* rows of 32 values begin at even slots */
    for (size_t i = 0; i < 2; i++) {
        rig_routes t;
        kern_table k;
        routes_open(&t, ff[i], &k);
        nn_route(&t.n, &t.shape, logits[0], gates, ROWS, &t.r);
        for (int row = 0; row < ROWS; row++)
            expect_row(logits[row], t.r.chosen + row * USED, t.r.weight + row * USED);
        assert_true(t.r.shared[0] == 0.5f && t.r.shared[2] > 0.95f);
        check_slots(&t, i + 1);
        routes_close(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_get_their_experts)};
    return cmocka_run_group_tests_name("nn_route", tests, NULL, NULL);
}
