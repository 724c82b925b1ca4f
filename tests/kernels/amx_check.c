/* SPDX-License-Identifier: Apache-2.0 */
/*
 * amx_check.c - the AMX kernels, emulated, against their references.
 *
 *   amx_check [SLOT]
 *
 * Each runs through all cases of kernel_check twice: as its twin, and as the machine code
 * that a processor with AMX would run, instruction by instruction. Then the twins run
 * with bugs in the tile instructions, and each must be reported. The rest of a kernel is
 * AVX-512, which the machine must have. MOTE_TEST_SCALE is the share of cases in per cent.
 */
#include "kernels/amx_emulated.h"
#include "kernels/check.h"

#include "base/cpu.h"
#include "quant/quant.h"
#include "support/scale.h"

#include <stdio.h>
#include <string.h>

static int n_failed;

static void say(bool ok, const check_slot *slot, const char *what, uint64_t n_cases,
                const char *message)
{
    printf("%-4s %-12s %-24s %6llu cases %s\n", ok ? "ok" : "FAIL", slot->name, what,
           (unsigned long long)n_cases, message);
    n_failed += !ok;
}

static bool run(check *c, const check_slot *slot, const kern_table *variant, uint64_t *n_cases)
{
    kern_table reference;
    kern_table_init(&reference, MOTE_ISA_REF);
    *n_cases = 0;
    return check_variant(c, slot, &reference, variant, 1, n_cases);
}

/* A slot that the level improves. */
static void check_slot_both_ways(check *c, const check_slot *slot, const kern_table *real,
                                 const kern_table *twins)
{
    uint64_t n_cases;
    if (check_same_kernel(slot, real, twins)) {
        say(false, slot, "twin", 0, "there is none");
        return;
    }
    bool ok = run(c, slot, twins, &n_cases);
    say(ok && n_cases > 0, slot, "twin", n_cases, c->message);
    const unsigned long before = amx_caught_instructions();
    ok = run(c, slot, real, &n_cases);
    const bool real_tiles = cpu_best_isa() >= MOTE_ISA_AMX;
    if (ok && !real_tiles && amx_caught_instructions() == before)
        say(false, slot, "instructions", n_cases, "it never used a tile");
    else
        say(ok && n_cases > 0, slot, "instructions", n_cases, c->message);
}

/* Whether a bug shows in a format: one that takes unsigned bytes for signed ones or the
 * other way round does only where there are such bytes. */
static bool shows(const check_slot *slot, amx_bug bug)
{
    if (strcmp(slot->name, "gemm_q6_k") == 0)
        return true; /* has both */
    if (strcmp(slot->name, "gemm_q5_k") == 0)
        return bug != AMX_WEIGHTS_UNSIGNED;
    return (strcmp(slot->name, "gemm_q3_k") == 0 || strcmp(slot->name, "gemm_q8_0") == 0) &&
           bug != AMX_WEIGHTS_SIGNED;
}

static void plant_bugs(check *c, const check_slot *slot, const kern_table *twins)
{
    const uint32_t per_cent = c->per_cent;
    c->per_cent = 20; /* the same cases always: enough for every bug, and quick */
    for (int bug = AMX_NO_BUG + 1; bug < AMX_N_BUGS; bug++) {
        uint64_t n_cases;
        if (!shows(slot, (amx_bug)bug))
            continue;
        amx_planted_bug = (amx_bug)bug;
        const bool passed = run(c, slot, twins, &n_cases);
        say(!passed, slot, amx_bug_name(amx_planted_bug), n_cases,
            passed ? "not noticed" : c->message);
    }
    amx_planted_bug = AMX_NO_BUG;
    c->per_cent = per_cent;
}

/* 577 tokens of rows this wide are runs of 64, so one is left for the last run and its
 * tile begins in the run before. Bytes below 64 make no f16 that is not a number. */
static bool last_run_is_right(quant_format format, kern_gemm_fn *reference, kern_gemm_fn *twin)
{
    enum { ROWS = 2, COLS = 64 * 256, N = 577 };
    static _Alignas(64) unsigned char w[ROWS * COLS * 2], scratch[KERN_SCRATCH_BYTES];
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
    twin(&a);
    return memcmp(want, got, sizeof want) == 0;
}

static void check_last_runs(const kern_table *twins)
{
    kern_table reference;
    kern_table_init(&reference, MOTE_ISA_REF);
    const bool ok = last_run_is_right(QUANT_Q4_K, reference.gemm_q4_k, twins->gemm_q4_k);
    printf("%-4s a last run of one token\n", ok ? "ok" : "FAIL");
    n_failed += !ok;
}

int main(int argc, char **argv)
{
    static check c;
    kern_table real, twins, below;
    if (cpu_best_isa() < MOTE_ISA_AVX512) {
        printf("skipped: this machine has no AVX-512\n");
        return 77;
    }
    const char *wanted = argc > 1 ? argv[1] : "";
    c.per_cent = test_scaled(100, 1);
    kern_table_init(&below, MOTE_ISA_AVX512);
    kern_table_init(&real, MOTE_ISA_AMX);
    kern_table_init(&twins, MOTE_ISA_AMX);
    amx_use_twins(&twins);
    check_catch_signals();
    amx_catch_instructions();
    setvbuf(stdout, NULL, _IOLBF, 0);
    int n_slots = 0;
    for (size_t s = 0; s < n_check_slots; s++) {
        const check_slot *slot = &check_slots[s];
        if (check_same_kernel(slot, &real, &below) || strstr(slot->name, wanted) == NULL)
            continue;
        n_slots++;
        check_slot_both_ways(&c, slot, &real, &twins);
        plant_bugs(&c, slot, &twins);
    }
    check_last_runs(&twins);
    check_free(&c);
    printf("%d slots, %d findings, %lu instructions emulated\n", n_slots, n_failed,
           amx_caught_instructions());
    return n_failed > 0 || n_slots == 0;
}
