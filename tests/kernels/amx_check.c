/* SPDX-License-Identifier: Apache-2.0 */
/*
 * amx_check.c - compares the AMX kernels with their references on CPUs without AMX.
 *
 *   amx_check [SLOT]
 *
 * Each kernel runs through all cases of kernel_check twice: compiled with emulated tiles, and as
 * the real machine code with every tile instruction emulated. Then the emulated kernels run with
 * planted bugs in the tile instructions, and the checker must report each one. Other parts of a
 * kernel are AVX-512, which the CPU must support. MOTE_TEST_SCALE is the percentage of cases to
 * run.
 */
#include "kernels/amx_emulated.h"
#include "kernels/check.h"

#include "base/cpu.h"
#include "quant/quant.h"
#include "support/scale.h"

#include <stdio.h>
#include <string.h>

static int n_failed;

static void report(bool ok, const check_slot *slot, const char *what, uint64_t n_cases,
                   const char *message)
{
    printf("%-4s %-12s %-24s %6llu cases %s\n", ok ? "ok" : "FAIL", slot->name, what,
           (unsigned long long)n_cases, message);
    n_failed += !ok;
}

static bool run_variant(check *c, const check_slot *slot, const kern_table *variant,
                        uint64_t *n_cases)
{
    kern_table reference;
    kern_table_init(&reference, MOTE_ISA_REF);
    *n_cases = 0;
    return check_variant(c, slot, &reference, variant, 1, n_cases);
}

/* Checks a slot that has an AMX kernel. */
static void check_slot_both_ways(check *c, const check_slot *slot, const kern_table *real,
                                 const kern_table *emulated)
{
    uint64_t n_cases;
    if (check_same_kernel(slot, real, emulated)) {
        report(false, slot, "emulated tiles", 0, "no emulated kernel");
        return;
    }
    bool ok = run_variant(c, slot, emulated, &n_cases);
    report(ok && n_cases > 0, slot, "emulated tiles", n_cases, c->message);
    const unsigned long before = amx_caught_instructions();
    ok = run_variant(c, slot, real, &n_cases);
    const bool real_tiles = cpu_best_isa() == MOTE_ISA_AMX;
    if (ok && !real_tiles && amx_caught_instructions() == before)
        report(false, slot, "instructions", n_cases, "no tile instruction executed");
    else
        report(ok && n_cases > 0, slot, "instructions", n_cases, c->message);
}

/* Whether a bug can be visible in a format. A confusion of signed and unsigned bytes is visible
 * only in formats with such planes. */
static bool bug_is_visible(const check_slot *slot, amx_bug bug)
{
    if (bug == AMX_MINIMA_LOST)
        return strcmp(slot->name, "gemm_q5_k") == 0 || strcmp(slot->name, "gemm_q2_k") == 0;
    if (strcmp(slot->name, "gemm_q6_k") == 0 || strcmp(slot->name, "gemm_i8_256") == 0)
        return true; /* has signed and unsigned planes */
    if (strcmp(slot->name, "gemm_q5_k") == 0)
        return bug != AMX_WEIGHTS_UNSIGNED;
    return (strcmp(slot->name, "gemm_q3_k") == 0 || strcmp(slot->name, "gemm_q8_0") == 0) &&
           bug != AMX_WEIGHTS_SIGNED;
}

static void plant_bugs(check *c, const check_slot *slot, const kern_table *emulated)
{
    const uint32_t per_cent = c->per_cent;
    c->per_cent = 20; /* always the same cases: enough to find every bug */
    for (int bug = AMX_NO_BUG + 1; bug < AMX_N_BUGS; bug++) {
        uint64_t n_cases;
        if (!bug_is_visible(slot, (amx_bug)bug))
            continue;
        amx_planted_bug = (amx_bug)bug;
        const bool passed = run_variant(c, slot, emulated, &n_cases);
        report(!passed, slot, amx_bug_name(amx_planted_bug), n_cases,
               passed ? "bug not detected" : c->message);
    }
    amx_planted_bug = AMX_NO_BUG;
    c->per_cent = per_cent;
}

/* With rows this long, 577 tokens are chunks of 64. The last chunk has one token, and its tile
 * starts in the chunk before. Weight bytes below 64 give no f16 NaN. */
static bool last_chunk_is_right(quant_format format, kern_gemm_fn *reference,
                                kern_gemm_fn *emulated)
{
    enum { ROWS = 2, COLS = 64 * 256, N = 577 };
    static _Alignas(64) unsigned char w[ROWS * COLS * 2], scratch[KERN_WORKER_BYTES];
    static _Alignas(64) int8_t q[N * COLS];
    static int16_t sum[N * COLS / 16];
    static float d[N * COLS / 32], want[N][ROWS], got[N][ROWS];
    const quant_info *info = quant_get(format);
    check c = {.random = 1};
    for (size_t i = 0; i < sizeof w; i++)
        w[i] = (unsigned char)check_below(&c, 64);
    for (size_t i = 0; i < N * COLS; i++)
        q[i] = (int8_t)((int)(i * i % 251) - 125);
    for (size_t i = 0; i < N * COLS / 32; i++)
        d[i] = check_normal(&c);
    for (size_t i = 0; i < N * COLS / 16; i++)
        sum[i] = (int16_t)((int)check_below(&c, 2000) - 1000);
    const kern_act x = {.n = N, .cols = COLS, .q = q, .d = d, .sum = sum};
    kern_gemm_args a = {.w = w,
                        .row_bytes = COLS / info->block_values * info->block_bytes,
                        .rows = ROWS,
                        .x = &x,
                        .y = want[0],
                        .y_stride = ROWS,
                        .scratch = scratch};
    reference(&a);
    a.y = got[0];
    emulated(&a);
    return memcmp(want, got, sizeof want) == 0;
}

static void check_last_chunk(const kern_table *emulated)
{
    kern_table reference;
    kern_table_init(&reference, MOTE_ISA_REF);
    const bool ok = last_chunk_is_right(QUANT_Q4_K, reference.gemm_q4_k, emulated->gemm_q4_k);
    printf("%-4s last chunk of one token\n", ok ? "ok" : "FAIL");
    n_failed += !ok;
}

int main(int argc, char **argv)
{
    static check c;
    kern_table real, emulated, below;
    if (!cpu_level_contains(cpu_best_isa(), MOTE_ISA_AVX512)) {
        printf("skipped: the CPU does not support AVX-512\n");
        return 77;
    }
    const char *wanted = argc > 1 ? argv[1] : "";
    c.per_cent = test_scaled(100, 1);
    kern_table_init(&below, MOTE_ISA_AVX512);
    kern_table_init(&real, MOTE_ISA_AMX);
    kern_table_init(&emulated, MOTE_ISA_AMX);
    amx_use_emulated_kernels(&emulated);
    check_catch_signals();
    amx_catch_instructions();
    setvbuf(stdout, NULL, _IOLBF, 0);
    int n_slots = 0;
    for (size_t s = 0; s < n_check_slots; s++) {
        const check_slot *slot = &check_slots[s];
        if (check_same_kernel(slot, &real, &below) || check_is_unpacked(slot) ||
            strstr(slot->name, wanted) == NULL)
            continue;
        n_slots++;
        check_slot_both_ways(&c, slot, &real, &emulated);
        plant_bugs(&c, slot, &emulated);
    }
    check_last_chunk(&emulated);
    check_free(&c);
    printf("%d slots, %d failed, %lu instructions emulated\n", n_slots, n_failed,
           amx_caught_instructions());
    return n_failed > 0 || n_slots == 0;
}
