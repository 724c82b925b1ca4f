/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nn_deltanet.c - the DeltaNet mixer compared with the recurrence that defines it.
 *
 * The reference is the plain recurrence in binary64, one token at a time. It follows the model's
 * definition and shares no code with the chunk form:
 *
 *     S <- e^g S;  u = beta (v - S^T k);  S <- S + k u^T;  o = S^T q
 *
 * Keys are random, nearly equal and equal; decays range from none to e^-55.
 */
#include "base/cpu.h"
#include "law/rig.h"
#include "nn/deltanet.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIM = KERN_STATE_DIM, KEYS = 2, VALUES = 4, ROWS = 150, CONV = (2 * KEYS + VALUES) * DIM };

static const delta_shape shape = {.key_heads = KEYS, .value_heads = VALUES, .eps = 1e-6f};

/* The inputs of the layer (outputs of the projections) and its small weights. */
typedef struct problem {
    float qkv[ROWS][CONV];
    float z[ROWS][VALUES * DIM];
    float alpha[ROWS][VALUES], beta[ROWS][VALUES];
    float conv[DELTA_TAPS][CONV];
    float a[VALUES], dt_bias[VALUES], norm[DIM];
} problem;

/* The recurrent state of one layer of one sequence, as a session stores it. */
typedef struct sequence {
    float state[2][VALUES][DIM][DIM];
    int now;
    float next_inputs[DELTA_HISTORY][CONV];
    float k_rows[KERN_CHUNK][KEYS * DIM];
    float u_rows[KERN_CHUNK][VALUES * DIM];
    double g_rows[KERN_CHUNK][VALUES];
    float ring[DELTA_RING][CONV];
} sequence;

static problem p;
static double expected[ROWS][VALUES * DIM];
static double reference_state[VALUES][DIM][DIM];

static float uniform(rig_random *r, float low, float high)
{
    return low + (high - low) * (float)rig_below(r, 1 << 24) / (float)(1 << 24);
}

static void fill(rig_random *r, float *x, size_t n, float reach)
{
    for (size_t i = 0; i < n; i++)
        x[i] = uniform(r, -reach, reach);
}

/* kind 0: random keys; 1: nearly equal; 2: equal. decay: the weight a of every head. */
static void make_problem(uint64_t seed, int kind, float decay)
{
    rig_random r = {.seed = seed};
    fill(&r, p.qkv[0], ROWS * CONV, 2);
    for (int row = 1; kind > 0 && row < ROWS; row++)
        for (int i = 0; i < CONV; i++)
            p.qkv[row][i] = p.qkv[0][i] + (kind == 1 ? uniform(&r, -1e-3f, 1e-3f) : 0);
    fill(&r, p.z[0], ROWS * VALUES * DIM, 2);
    fill(&r, p.alpha[0], ROWS * VALUES, 3);
    fill(&r, p.beta[0], ROWS * VALUES, 4);
    fill(&r, p.conv[0], DELTA_TAPS * CONV, 0.5f);
    fill(&r, p.dt_bias, VALUES, 1);
    fill(&r, p.norm, DIM, 1);
    for (int i = 0; i < VALUES; i++)
        p.a[i] = -decay * (float)(i + 1);
}

static double silu(double x)
{
    return x / (1 + exp(-x));
}

/* Channel c of the convolution at row t. */
static double convolved(int t, int c)
{
    double sum = 0;
    for (int tap = 0; tap < DELTA_TAPS; tap++)
        if (t - DELTA_HISTORY + tap >= 0)
            sum += (double)p.conv[tap][c] * (double)p.qkv[t - DELTA_HISTORY + tap][c];
    return silu(sum);
}

static void normalised(int t, int channel, double scale, double out[DIM])
{
    double sum = 0;
    for (int i = 0; i < DIM; i++) {
        out[i] = convolved(t, channel + i);
        sum += out[i] * out[i];
    }
    for (int i = 0; i < DIM; i++)
        out[i] *= scale / sqrt(sum + 1e-6);
}

/* One token of one value head: advances S, returns o. */
static void recur(double s[DIM][DIM], int t, int head, double o[DIM])
{
    double q[DIM], k[DIM];
    normalised(t, head % KEYS * DIM, 1 / sqrt(DIM), q);
    normalised(t, (KEYS + head % KEYS) * DIM, 1, k);
    double x = (double)p.alpha[t][head] + (double)p.dt_bias[head];
    double decay = exp((double)p.a[head] * log1p(exp(x)));
    double beta = 1 / (1 + exp(-(double)p.beta[t][head]));
    for (int j = 0; j < DIM; j++) {
        double seen = 0, out = 0;
        for (int i = 0; i < DIM; i++) {
            s[i][j] *= decay;
            seen += s[i][j] * k[i];
        }
        double u = beta * (convolved(t, (2 * KEYS + head) * DIM + j) - seen);
        for (int i = 0; i < DIM; i++) {
            s[i][j] += k[i] * u;
            out += s[i][j] * q[i];
        }
        o[j] = out;
    }
}

static void run_reference(void)
{
    memset(reference_state, 0, sizeof reference_state);
    for (int t = 0; t < ROWS; t++)
        for (int head = 0; head < VALUES; head++) {
            double o[DIM], sum = 0;
            recur(reference_state[head], t, head, o);
            for (int i = 0; i < DIM; i++)
                sum += o[i] * o[i];
            for (int i = 0; i < DIM; i++)
                expected[t][head * DIM + i] = o[i] / sqrt(sum / DIM + 1e-6) * (double)p.norm[i] *
                                              silu((double)p.z[t][head * DIM + i]);
        }
}

static nn make_nn(uint32_t threads)
{
    static kern_table kernels;
    kern_table_init(&kernels, cpu_best_isa());
    nn n = {.k = &kernels};
    mote_error err = {0};
    MUST(pool_new(&n.pool, threads, &err), &err);
    n.worker_bytes = NN_WORKER_BYTES;
    n.worker_memory = aligned_alloc(64, (size_t)threads * NN_WORKER_BYTES);
    assert_non_null(n.worker_memory);
    return n;
}

static void free_nn(nn *n)
{
    pool_free(n->pool);
    free(n->worker_memory);
}

static void advance(const nn *n, sequence *t, size_t pos, size_t count, float *y)
{
    delta_weights w = {.conv = p.conv[0], .a = p.a, .dt_bias = p.dt_bias, .norm = p.norm};
    delta_segment segment = {
        .row = pos,
        .n = count,
        .pos = pos,
        .memory = {.state = t->state[t->now][0][0],
                   .next_state = t->state[1 - t->now][0][0],
                   .next_inputs = t->next_inputs[0],
                   .k_rows = t->k_rows[0],
                   .u_rows = t->u_rows[0],
                   .g_rows = t->g_rows[0],
                   .ring = t->ring[0]},
    };
    delta_rows rows = {
        .qkv = p.qkv[0], .z = p.z[0], .alpha = p.alpha[0], .beta = p.beta[0], .y = y};
    nn_deltanet(n, &shape, &w, &segment, 1, &rows);
    if ((pos + count) / KERN_CHUNK > pos / KERN_CHUNK)
        t->now = 1 - t->now;
}

static float *run(uint32_t threads, uint64_t seed, size_t longest)
{
    nn n = make_nn(threads);
    sequence *t = calloc(1, sizeof *t);
    float *y = calloc(ROWS * VALUES * DIM, sizeof *y);
    assert_non_null(t);
    assert_non_null(y);
    rig_random r = {.seed = seed};
    for (size_t pos = 0; pos < ROWS;) {
        size_t count = 1 + rig_below(&r, (uint32_t)longest);
        count = count < ROWS - pos ? count : ROWS - pos;
        advance(&n, t, pos, count, y);
        pos += count;
    }
    free(t);
    free_nn(&n);
    return y;
}

static double largest_error(const float *y)
{
    double worst = 0, largest = 0;
    for (int t = 0; t < ROWS; t++)
        for (int i = 0; i < VALUES * DIM; i++) {
            worst = fmax(worst, fabs((double)y[t * VALUES * DIM + i] - expected[t][i]));
            largest = fmax(largest, fabs(expected[t][i]));
        }
    return worst / largest;
}

static void meets_the_recurrence(void **unused)
{
    (void)unused;
    static const float decays[] = {0.0f, 0.02f, 0.5f, 3.0f, 12.0f};
    static const char *const kinds[] = {"random", "nearly equal", "equal"};
    for (int kind = 0; kind < 3; kind++)
        for (size_t d = 0; d < sizeof decays / sizeof *decays; d++) {
            make_problem(40 + d, kind, decays[d]);
            run_reference();
            float *y = run(2, 1, ROWS);
            double error = largest_error(y);
            printf("%-12s keys, decay %5.2f: relative error %.1e\n", kinds[kind], (double)decays[d],
                   error);
            assert_true(error < 2e-6);
            free(y);
        }
}

static void cut_and_threads_change_nothing(void **unused)
{
    (void)unused;
    make_problem(9, 0, 0.3f);
    float *whole = run(1, 1, 1);
    for (uint32_t seed = 0; seed < 12; seed++) {
        static const size_t longest[] = {2, 5, 31, 32, 33, 70};
        float *cut = run(1 + seed % 4, seed, longest[seed % 6]);
        assert_memory_equal(whole, cut, ROWS * VALUES * DIM * sizeof *whole);
        free(cut);
    }
    free(whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(meets_the_recurrence),
        cmocka_unit_test(cut_and_threads_change_nothing),
    };
    return cmocka_run_group_tests_name("nn_deltanet", tests, NULL, NULL);
}
