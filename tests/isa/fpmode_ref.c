/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fpmode_ref.c - reference kernels inside FPMODE_SCOPE, in every floating-point mode of the caller.
 *
 * Prints a checksum of the results. fpmode_aarch64.sh builds it for two architectures and compares
 * the checksums. It needs no library, so it can be built for an architecture before the rest.
 */
#include "base/fpmode.h"
#include "kernels/variants.h"

#include <fenv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 512, ROWS = 8 };

typedef struct results {
    float norm[N], gelu[N], silu[N], product[ROWS], sum;
    int8_t code[N];
    float scale[N / 32];
} results;

/* Bit 24 of FPCR, bits 15 and 6 of MXCSR: flush subnormal results, and operands, to zero. */
static void set_flush(void)
{
    fpmode mode = fpmode_get();
#if defined(__x86_64__)
    mode.mxcsr |= 0x8040;
#else
    mode.fpcr |= 1 << 24;
#endif
    fpmode_set(&mode);
}

/* Inputs with all exponents, subnormal numbers included; made of integers, so that no mode changes
 * them. */
static void fill(float *x, size_t n, uint32_t seed)
{
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525 + 1013904223;
        const uint32_t exponent = i % 4 == 0 ? seed >> 24 & 7 : 118 + (seed >> 24 & 15);
        const uint32_t bits = (seed & 0x80000000) | exponent << 23 | (seed >> 5 & 0x7FFFFF);
        memcpy(&x[i], &bits, sizeof bits);
    }
}

static void compute(results *r)
{
    static float x[N], w[ROWS * N], b[N];
    static int16_t sums[N / 16];
    static _Alignas(64) unsigned char scratch[KERN_WORKER_BYTES];
    fill(x, N, 1);
    fill(w, ROWS * N, 2);
    fill(b, N, 3);
    memset(r, 0, sizeof *r);
    k_rmsnorm_ref(x, w, N, 1e-6f, r->norm);
    memcpy(r->gelu, x, sizeof x);
    k_gelu_tanh_ref(b, N, r->gelu);
    k_silu_mul_ref(x, b, N, r->silu);
    const kern_act act = {.n = 1, .cols = N, .x = x};
    const kern_gemm_args args = {.w = w,
                                 .row_bytes = N * sizeof *w,
                                 .rows = ROWS,
                                 .x = &act,
                                 .y = r->product,
                                 .y_stride = ROWS,
                                 .scratch = scratch};
    k_gemm_f32_ref(&args);
    k_act_32_ref(x, N, r->code, r->scale, sums);
    r->sum = k_sum_exp_ref(b, N, 1.0f, 0.7f);
}

static void compute_in_scope(results *r)
{
    FPMODE_SCOPE;
    compute(r);
}

static uint64_t checksum(const results *r)
{
    uint64_t sum = UINT64_C(14695981039346656037);
    const unsigned char *p = (const unsigned char *)r;
    for (size_t i = 0; i < sizeof *r; i++)
        sum = (sum ^ p[i]) * UINT64_C(1099511628211);
    return sum;
}

int main(void)
{
    static const int roundings[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    static results wanted, got;
    int changed = 0;
    compute(&wanted);
    for (int flush = 0; flush < 2; flush++)
        for (size_t i = 0; i < sizeof roundings / sizeof *roundings; i++) {
            fesetenv(FE_DFL_ENV);
            fesetround(roundings[i]);
            if (flush)
                set_flush();
            const fpmode before = fpmode_get();
            compute_in_scope(&got);
            const fpmode after = fpmode_get();
            compute(&wanted); /* without the scope */
            changed += memcmp(&got, &wanted, sizeof got) != 0;
            fesetenv(FE_DFL_ENV);
            compute(&wanted);
            if (memcmp(&got, &wanted, sizeof got) != 0 ||
                memcmp(&before, &after, sizeof before) != 0) {
                printf("rounding %zu, flush %d: the results or the mode changed\n", i, flush);
                return 1;
            }
        }
    if (changed != 7) { /* every mode but the default one changes results without the scope */
        printf("%d modes changed the results without FPMODE_SCOPE; expected 7\n", changed);
        return 1;
    }
    printf("%016llx\n", (unsigned long long)checksum(&wanted));
    return 0;
}
