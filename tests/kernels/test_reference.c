/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_reference.c - compares the references with plain binary64 versions.
 *
 * The checker proves that variants equal the references. This test proves that the references
 * compute the right functions, within tolerances: DeltaNet against its plain recurrence, attention
 * against a plain softmax, products against the decoded weights.
 */
#include "kernels/variants.h"
#include "quant/quant.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { DIM = KERN_STATE_DIM, CHUNK = KERN_CHUNK, N_CHUNKS = 3, N_ROWS = N_CHUNKS * CHUNK };

static uint64_t random_state = 99;

/* In [-1, 1) */
static double uniform(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (double)(int64_t)random_state * 0x1p-63;
}

/* ---- Gated DeltaNet ---- */

typedef struct delta_data {
    float k[N_ROWS][DIM], q[N_ROWS][DIM], v[N_ROWS][DIM], beta[N_ROWS];
    double g[N_ROWS]; /* log decay of each row */
    float u[CHUNK][DIM], o[N_ROWS][DIM], s[DIM][DIM];
    double true_o[N_ROWS][DIM], true_s[DIM][DIM];
} delta_data;

static void unit_vector(float *x)
{
    double sum = 0;
    for (int i = 0; i < DIM; i++) {
        x[i] = (float)uniform();
        sum += (double)x[i] * (double)x[i];
    }
    for (int i = 0; i < DIM; i++)
        x[i] = (float)((double)x[i] / sqrt(sum));
}

/* likeness: 0 random keys, 1 nearly equal, 2 equal. */
static void make_rows(delta_data *d, int likeness, double strength)
{
    for (int t = 0; t < N_ROWS; t++) {
        unit_vector(d->k[t]);
        unit_vector(d->q[t]);
        if (likeness > 0 && t > 0)
            for (int i = 0; i < DIM; i++)
                d->k[t][i] = d->k[0][i] + (likeness == 1 ? 1e-3f * (float)uniform() : 0.0f);
        for (int i = 0; i < DIM; i++)
            d->v[t][i] = (float)uniform();
        d->beta[t] = (float)fabs(uniform());
        d->g[t] = -strength * fabs(uniform());
    }
    memset(d->s, 0, sizeof d->s);
    memset(d->true_s, 0, sizeof d->true_s);
}

/* S <- e^g S;  u = beta (v - S^T k);  S <- S + k u^T;  o = S^T q */
static void plain_recurrence(delta_data *d)
{
    for (int t = 0; t < N_ROWS; t++)
        for (int c = 0; c < DIM; c++) {
            double read = 0, out = 0;
            for (int i = 0; i < DIM; i++) {
                d->true_s[i][c] *= exp(d->g[t]);
                read += d->true_s[i][c] * (double)d->k[t][i];
            }
            const double u = (double)d->beta[t] * ((double)d->v[t][c] - read);
            for (int i = 0; i < DIM; i++) {
                d->true_s[i][c] += (double)d->k[t][i] * u;
                out += d->true_s[i][c] * (double)d->q[t][i];
            }
            d->true_o[t][c] = out;
        }
}

/* The chunk form, 1 to 5 rows per call. */
static void chunk_form(delta_data *d, const kern_table *table)
{
    for (int first = 0; first < N_ROWS; first += CHUNK) {
        double g[CHUNK], sum = 0;
        for (int t = 0; t < CHUNK; t++)
            g[t] = sum += d->g[first + t];
        kern_delta_args a = {.s0 = d->s[0],
                             .k = d->k[first],
                             .u = d->u[0],
                             .g = g,
                             .k_stride = DIM,
                             .q_stride = DIM,
                             .v_stride = DIM,
                             .u_stride = DIM,
                             .o_stride = DIM,
                             .beta_stride = 1,
                             .g_stride = 1};
        for (uint32_t t = 0, n = 1; t < CHUNK; t = a.t1, n = n % 5 + 1) {
            a.t0 = t;
            a.t1 = t + n < CHUNK ? t + n : CHUNK;
            a.q = d->q[first + (int)t];
            a.v = d->v[first + (int)t];
            a.beta = &d->beta[first + (int)t];
            a.o = d->o[first + (int)t];
            table->delta_rows(&a);
        }
        table->delta_fold(&a, d->s[0]);
    }
}

/* Maximum difference, relative to the largest exact value. */
static double distance(const float *got, const double *want, size_t n)
{
    double bad = 0, scale = 1e-30;
    for (size_t i = 0; i < n; i++) {
        bad = fmax(bad, fabs((double)got[i] - want[i]));
        scale = fmax(scale, fabs(want[i]));
    }
    return bad / scale;
}

static void delta_matches_recurrence(void **state)
{
    static delta_data d;
    static const double strengths[] = {0.0, 1e-3, 0.1, 2.0, 55.0};
    kern_table table;
    double bad = 0;
    (void)state;
    kern_table_init(&table, MOTE_ISA_REF);
    for (int likeness = 0; likeness < 3; likeness++)
        for (size_t i = 0; i < sizeof strengths / sizeof *strengths; i++) {
            make_rows(&d, likeness, strengths[i]);
            plain_recurrence(&d);
            chunk_form(&d, &table);
            bad = fmax(bad, distance(d.o[0], d.true_o[0], (size_t)N_ROWS * DIM));
            bad = fmax(bad, distance(d.s[0], d.true_s[0], (size_t)DIM * DIM));
        }
    /* Random keys: below 4e-7. Worst case: nearly equal keys without decay. */
    printf("DeltaNet: largest relative error %.2g\n", bad);
    assert_true(bad < 2e-6);
}

/* ---- attention ---- */

enum { HEAD = KERN_HEAD_DIM, PAGE = KERN_PAGE, N_PAGES = 5 };

typedef struct attn_data {
    float q[HEAD], gate[HEAD], y[HEAD];
    float k[N_PAGES * PAGE][HEAD], v[N_PAGES * PAGE][HEAD];
    float k_page[N_PAGES][HEAD * PAGE], v_page[N_PAGES][PAGE * HEAD];
    double p[N_PAGES * PAGE], true_y[HEAD];
} attn_data;

static void plain_softmax(attn_data *d, int n, double scale)
{
    double top = -INFINITY, sum = 0;
    for (int j = 0; j < n; j++) {
        d->p[j] = 0;
        for (int i = 0; i < HEAD; i++)
            d->p[j] += (double)d->q[i] * (double)d->k[j][i] * scale;
        top = fmax(top, d->p[j]);
    }
    for (int j = 0; j < n; j++)
        sum += d->p[j] = exp(d->p[j] - top);
    for (int i = 0; i < HEAD; i++) {
        double value = 0;
        for (int j = 0; j < n; j++)
            value += d->p[j] / sum * (double)d->v[j][i];
        d->true_y[i] = value / (1 + exp(-(double)d->gate[i]));
    }
}

/* Pages in two partitions that are merged at the end, as for a long context. */
static void paged(attn_data *d, int n, float scale, const kern_table *table)
{
    kern_attn_acc acc[2];
    const int second = 3; /* first page of the second partition */
    for (int page = 0; page * PAGE < n; page++) {
        const uint8_t keys = (uint8_t)(n - page * PAGE < PAGE ? n - page * PAGE : PAGE);
        const kern_attn_args a = {.q = d->q,
                                  .q_stride = HEAD,
                                  .n = 1,
                                  .n_keys = &keys,
                                  .k_page = d->k_page[page],
                                  .v_page = d->v_page[page],
                                  .scale = scale,
                                  .first = page == 0 || page == second,
                                  .acc = &acc[page >= second]};
        table->attn_block_f32(&a);
    }
    if (n > second * PAGE)
        table->attn_merge(&acc[0], &acc[1], 1);
    table->attn_finish(&acc[0], d->gate, d->y);
}

static void attention_matches_softmax(void **state)
{
    static attn_data d;
    static const int lengths[] = {1, 2, 63, 64, 65, 191, 192, 193, 300, 320};
    kern_table table;
    double bad = 0;
    (void)state;
    kern_table_init(&table, MOTE_ISA_REF);
    for (int i = 0; i < HEAD; i++) {
        d.q[i] = (float)(4 * uniform());
        d.gate[i] = (float)(4 * uniform());
    }
    for (int j = 0; j < N_PAGES * PAGE; j++) {
        for (int i = 0; i < HEAD; i++) {
            d.k[j][i] = (float)uniform();
            d.v[j][i] = (float)uniform();
        }
        table.kv_put_f32(d.k[j], d.v[j], d.k_page[j / PAGE], d.v_page[j / PAGE],
                         (uint32_t)(j % PAGE));
    }
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        plain_softmax(&d, lengths[i], 0.0625);
        paged(&d, lengths[i], 0.0625f, &table);
        bad = fmax(bad, distance(d.y, d.true_y, HEAD));
    }
    printf("attention: largest relative error %.2g\n", bad);
    assert_true(bad < 2e-6);
}

/* ---- quantised keys and values ---- */

/* H[i][j] = -1 if i and j have an odd number of common bits, else 1, in each group of 32. */
static void hadamard_matches_its_matrix(void **state)
{
    float x[HEAD], y[HEAD], back[HEAD];
    double want[HEAD], same[HEAD];
    (void)state;
    for (int i = 0; i < HEAD; i++)
        x[i] = y[i] = (float)uniform();
    k_hadamard_ref(y, HEAD, 0.5f);
    memcpy(back, y, sizeof back);
    k_hadamard_ref(back, HEAD, 1.0f / 16);
    for (int i = 0; i < HEAD; i++) {
        want[i] = 0;
        same[i] = (double)x[i];
        for (int j = 0; j < 32; j++)
            want[i] += (__builtin_popcount((unsigned)(i % 32 & j)) % 2 == 1 ? -0.5 : 0.5) *
                       (double)x[i / 32 * 32 + j];
    }
    assert_true(distance(y, want, HEAD) < 1e-6);
    assert_true(distance(back, same, HEAD) < 1e-6); /* H H = 32 */
}

/* Largest |x| of the group of element i. */
static double group_amax(const float *x, int i)
{
    double amax = 0;
    for (int j = i / 32 * 32; j < i / 32 * 32 + 32; j++)
        amax = fmax(amax, fabs((double)x[j]));
    return amax;
}

/* Reads a page with one key through the attention kernel: the weight of the key is 1, so the output
 * is the value; a query with a single 1 has an element of the key as its score. */
static double stored_error(kern_kv_put_fn *put, kern_attn_block_fn *block, void *keys, void *values)
{
    float k[HEAD], v[HEAD];
    double worst = 0;
    const uint8_t one = 1;
    for (int i = 0; i < HEAD; i++) {
        k[i] = (float)uniform();
        v[i] = (float)uniform();
    }
    put(k, v, keys, values, 0);
    for (int i = 0; i < HEAD; i++) {
        float q[HEAD] = {0};
        kern_attn_acc acc;
        q[i] = 1;
        block(&(kern_attn_args){.q = q,
                                .n = 1,
                                .n_keys = &one,
                                .k_page = keys,
                                .v_page = values,
                                .scale = 1,
                                .first = true,
                                .acc = &acc});
        worst = fmax(worst, fabs((double)acc.m - (double)k[i]) / group_amax(k, i));
        worst = fmax(worst, fabs((double)acc.o[i] - (double)v[i]) / group_amax(v, i));
    }
    return worst;
}

/* Half a step and the rounding of the scale. In Q4_0 the largest value of the other sign may be
 * clipped, which costs up to a step. */
static void quantised_pages_hold_what_was_stored(void **state)
{
    static kern_q8_keys k8;
    static kern_q8_values v8;
    static kern_q4_keys k4;
    static kern_q4_values v4;
    (void)state;
    for (int i = 0; i < 20; i++) {
        const double q8 = stored_error(k_kv_put_q8_0_ref, k_attn_block_q8_0_ref, &k8, &v8);
        const double q4 = stored_error(k_kv_put_q4_0_ref, k_attn_block_q4_0_ref, &k4, &v4);
        assert_true(q8 > 0 && q8 < 1.0 / 254 + 1.0 / 2048);
        assert_true(q4 > 1.0 / 32 && q4 < 1.0 / 8 + 1.0 / 2048);
    }
}

/* ---- products: decoded weights by decoded activations ---- */

enum { COLS = 1024, TOKENS = 3, WEIGHT_ROWS = 5 };

typedef struct product_data {
    unsigned char w[WEIGHT_ROWS * COLS * 4], scratch[KERN_WORKER_BYTES];
    int8_t q[TOKENS * COLS];
    int16_t sum[TOKENS * COLS / 16];
    float d[TOKENS * COLS / 32], x[TOKENS * COLS], values[WEIGHT_ROWS * COLS];
    float y[TOKENS * WEIGHT_ROWS];
    double want[TOKENS * WEIGHT_ROWS];
} product_data;

/* Random weights, and activations that the format reads; x are their values. */
static void make_product(product_data *p, const quant_info *info)
{
    const size_t block = info->act == QUANT_ACT_256 ? 256 : 32;
    const size_t group = info->act == QUANT_ACT_256 ? 16 : 32;
    for (size_t at = 0; at < WEIGHT_ROWS * COLS / info->block_values; at++) {
        unsigned char *to = p->w + at * info->block_bytes;
        for (size_t i = 0; i < info->block_bytes; i++)
            to[i] = (unsigned char)(int)(128 * uniform());
        if (info->block_values > 1)
            quant_set_scales(info->format, to, 0x1C00, 0x1400);
        else
            to[info->block_bytes - 1] = 0x3C; /* about 1, or less */
    }
    memset(p->sum, 0, sizeof p->sum);
    for (size_t i = 0; i < TOKENS * COLS; i++) {
        if (i % block == 0)
            p->d[i / block] = (float)uniform();
        p->q[i] = (int8_t)(127 * uniform());
        p->sum[i / group] = (int16_t)(p->sum[i / group] + p->q[i]);
        p->x[i] = p->d[i / block] * (float)p->q[i];
    }
}

static double product_error(product_data *p, const quant_info *info, kern_gemm_fn *gemm)
{
    make_product(p, info);
    const kern_act x = {TOKENS, COLS, p->x, p->q, p->d, p->sum};
    gemm(&(kern_gemm_args){.w = p->w,
                           .row_bytes = COLS / info->block_values * info->block_bytes,
                           .rows = WEIGHT_ROWS,
                           .x = &x,
                           .y = p->y,
                           .y_stride = WEIGHT_ROWS,
                           .scratch = p->scratch});
    info->decode(p->w, WEIGHT_ROWS * COLS / info->block_values, p->values);
    for (size_t t = 0; t < TOKENS; t++)
        for (size_t r = 0; r < WEIGHT_ROWS; r++) {
            double sum = 0;
            for (size_t i = 0; i < COLS; i++)
                sum += (double)p->values[r * COLS + i] * (double)p->x[t * COLS + i];
            p->want[t * WEIGHT_ROWS + r] = sum;
        }
    return distance(p->y, p->want, TOKENS * WEIGHT_ROWS);
}

#define PRODUCT(f, F) [QUANT_##F] = k_gemm_##f##_ref
static void products_match_decoded_weights(void **state)
{
    static _Alignas(64) product_data data;
    static kern_gemm_fn *const gemm[QUANT_N_FORMATS] = {
        PRODUCT(f32, F32),       PRODUCT(f16, F16),       PRODUCT(bf16, BF16),
        PRODUCT(q4_0, Q4_0),     PRODUCT(q4_1, Q4_1),     PRODUCT(q5_0, Q5_0),
        PRODUCT(q5_1, Q5_1),     PRODUCT(q8_0, Q8_0),     PRODUCT(q2_k, Q2_K),
        PRODUCT(q3_k, Q3_K),     PRODUCT(q4_k, Q4_K),     PRODUCT(q5_k, Q5_K),
        PRODUCT(q6_k, Q6_K),     PRODUCT(iq4_nl, IQ4_NL), PRODUCT(iq4_xs, IQ4_XS),
        PRODUCT(iq1_s, IQ1_S),   PRODUCT(iq1_m, IQ1_M),   PRODUCT(iq2_xxs, IQ2_XXS),
        PRODUCT(iq2_xs, IQ2_XS), PRODUCT(iq2_s, IQ2_S),   PRODUCT(iq3_xxs, IQ3_XXS),
        PRODUCT(iq3_s, IQ3_S),   PRODUCT(tq1_0, TQ1_0),   PRODUCT(tq2_0, TQ2_0),
        PRODUCT(mxfp4, MXFP4),   PRODUCT(nvfp4, NVFP4),   PRODUCT(q1_0, Q1_0),
        PRODUCT(q2_0, Q2_0),
    };
    double bad = 0;
    (void)state;
    for (int f = 0; f < QUANT_N_FORMATS; f++) {
        const quant_info *info = quant_get((quant_format)f);
        const double error = product_error(&data, info, gemm[f]);
        if (!(error < 2e-6))
            fail_msg("%s: relative error %g", info->name, error);
        bad = fmax(bad, error);
    }
    printf("products: largest relative error %.2g\n", bad);
}

/* ---- norms and element-wise kernels ---- */

enum { N = 1000 };

static double true_silu(double x)
{
    return x / (1 + exp(-x));
}

static void norms_match_definition(void **state)
{
    static float x[N], w[N], z[N], y[N];
    static double want[N];
    double ss = 0;
    (void)state;
    for (int i = 0; i < N; i++) {
        x[i] = (float)(3 * uniform());
        w[i] = (float)uniform();
        z[i] = (float)(5 * uniform());
        ss += (double)x[i] * (double)x[i];
    }
    const double r = 1 / sqrt(ss / N + 1e-6);
    for (int i = 0; i < N; i++)
        want[i] = (double)x[i] * r * (double)w[i];
    k_rmsnorm_ref(x, w, N, 1e-6f, y);
    assert_true(distance(y, want, N) < 1e-6);
    for (int i = 0; i < N; i++)
        want[i] *= true_silu((double)z[i]);
    k_rmsnorm_gated_ref(x, w, z, N, 1e-6f, y);
    assert_true(distance(y, want, N) < 1e-6);
    for (int i = 0; i < N; i++)
        want[i] = (double)x[i] / sqrt(ss + 1e-6) * 0.25;
    k_l2norm_ref(x, N, 1e-6f, 0.25f, y);
    assert_true(distance(y, want, N) < 1e-6);
}

static void elementwise_matches_definition(void **state)
{
    static float x[4][N], w[4][N], y[N];
    static double want[N];
    const float *const rows[4] = {x[0], x[1], x[2], x[3]};
    (void)state;
    for (int i = 0; i < N; i++) {
        double sum = 0;
        for (int j = 0; j < 4; j++) {
            x[j][i] = (float)(2 * uniform());
            w[j][i] = (float)uniform();
            sum += (double)x[j][i] * (double)w[j][i];
        }
        want[i] = true_silu(sum);
    }
    k_conv_silu_ref(rows, w[0], N, N, y);
    assert_true(distance(y, want, N) < 1e-6);
    k_silu_mul_ref(x[0], x[1], N, y);
    for (int i = 0; i < N; i++)
        want[i] = true_silu((double)x[0][i]) * (double)x[1][i];
    assert_true(distance(y, want, N) < 1e-6);
    double sum = 0;
    for (int i = 0; i < N; i++)
        sum += exp(((double)x[0][i] - 2) * 0.7);
    const float got = k_sum_exp_ref(x[0], N, 2.0f, 0.7f);
    assert_true(fabs((double)got / sum - 1) < 1e-6);
}

static void low_rank_matches_definition(void **state)
{
    enum { RANK = 3 };
    static float b[RANK][N], x[2][RANK], y[2][N];
    static double want[2][N];
    (void)state;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < RANK; j++)
            b[j][i] = (float)uniform();
    for (int t = 0; t < 2; t++)
        for (int j = 0; j < RANK; j++)
            x[t][j] = (float)uniform();
    for (int t = 0; t < 2; t++)
        for (int i = 0; i < N; i++) {
            y[t][i] = (float)uniform();
            want[t][i] = (double)y[t][i];
            for (int j = 0; j < RANK; j++)
                want[t][i] += (double)b[j][i] * (double)x[t][j];
        }
    k_low_rank_add_ref(&(kern_low_rank_args){.b = b[0],
                                             .b_stride = N,
                                             .rank = RANK,
                                             .x = x[0],
                                             .x_stride = RANK,
                                             .y = y[0],
                                             .y_stride = N,
                                             .tokens = 2,
                                             .n = N});
    assert_true(distance(y[0], want[0], N) < 1e-6);
    assert_true(distance(y[1], want[1], N) < 1e-6);
}

/* A rotation by 90 degrees maps (a, b) to (-b, a). */
static void rope_rotates_in_right_direction(void **state)
{
    float x[4] = {1, 2, 3, 4};
    const float cosines[2] = {0, 1}, sines[2] = {1, 0};
    (void)state;
    k_rope_ref(x, cosines, sines, 2);
    assert_true(x[0] == -3 && x[2] == 1);
    assert_true(x[1] == 2 && x[3] == 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(delta_matches_recurrence),
        cmocka_unit_test(attention_matches_softmax),
        cmocka_unit_test(hadamard_matches_its_matrix),
        cmocka_unit_test(quantised_pages_hold_what_was_stored),
        cmocka_unit_test(products_match_decoded_weights),
        cmocka_unit_test(norms_match_definition),
        cmocka_unit_test(elementwise_matches_definition),
        cmocka_unit_test(low_rank_matches_definition),
        cmocka_unit_test(rope_rotates_in_right_direction),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
