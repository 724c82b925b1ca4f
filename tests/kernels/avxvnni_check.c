/* SPDX-License-Identifier: Apache-2.0 */
/*
 * avxvnni_check.c - compares the AVX-VNNI kernels with their references on CPUs without AVX-VNNI.
 *
 *   avxvnni_check [SLOT]
 *
 * The kernels are compiled a second time with MOTE_AVXVNNI_EMULATED and only AVX2: vpdpbusd and
 * vpdpwssd are the functions below, written from the manual. Each kernel runs through all cases of
 * kernel_check. Then bugs are planted in the functions, and the checker must report each one. On a
 * CPU with AVX-VNNI kernel_check runs the real instructions. MOTE_TEST_SCALE is the percentage of
 * cases to run.
 */
#include "kernels/check.h"

#include "base/cpu.h"
#include "support/scale.h"

#include <stdio.h>
#include <string.h>

/* ---- the two instructions ---- */

typedef enum vnni_bug {
    NO_BUG,
    WEIGHTS_SIGNED,
    CODES_UNSIGNED,
    PAIRS_SATURATE, /* to 16 bits, as vpmaddubsw does */
    SUM_FORGOTTEN,
    LAST_PRODUCT_LOST,
    SCALES_UNSIGNED,
    N_BUGS
} vnni_bug;

static const char *const bug_names[N_BUGS] = {
    "no bug",        "weights signed",    "codes unsigned", "pairs saturate",
    "sum forgotten", "last product lost", "scales unsigned"};

static vnni_bug planted_bug;

void vnni_model_dpbusd(int32_t sum[8], const uint8_t w[32], const int8_t x[32]);
void vnni_model_dpwssd(int32_t sum[8], const int16_t a[16], const int16_t b[16]);

static int32_t saturated(int32_t v)
{
    return v > INT16_MAX ? INT16_MAX : v < INT16_MIN ? INT16_MIN : v;
}

static int32_t dpbusd_lane(int32_t sum, const uint8_t w[4], const int8_t x[4])
{
    int32_t product[4];
    for (int i = 0; i < 4; i++)
        product[i] = (planted_bug == WEIGHTS_SIGNED ? (int8_t)w[i] : w[i]) *
                     (planted_bug == CODES_UNSIGNED ? (uint8_t)x[i] : x[i]);
    if (planted_bug == LAST_PRODUCT_LOST)
        product[3] = 0;
    int32_t low = product[0] + product[1], high = product[2] + product[3];
    if (planted_bug == PAIRS_SATURATE) {
        low = saturated(low);
        high = saturated(high);
    }
    if (planted_bug == SUM_FORGOTTEN)
        sum = 0;
    return (int32_t)((uint32_t)sum + (uint32_t)low + (uint32_t)high);
}

/* sum + four products of an unsigned and a signed byte in each lane; wraps. */
void vnni_model_dpbusd(int32_t sum[8], const uint8_t w[32], const int8_t x[32])
{
    for (int i = 0; i < 8; i++)
        sum[i] = dpbusd_lane(sum[i], w + 4 * i, x + 4 * i);
}

/* sum + two products of signed 16-bit numbers in each lane; wraps. */
void vnni_model_dpwssd(int32_t sum[8], const int16_t a[16], const int16_t b[16])
{
    for (int i = 0; i < 8; i++) {
        uint32_t total = (uint32_t)sum[i];
        for (int k = 2 * i; k < 2 * i + 2; k++)
            total += (uint32_t)(a[k] * (planted_bug == SCALES_UNSIGNED ? (uint16_t)b[k] : b[k]));
        sum[i] = (int32_t)total;
    }
}

/* ---- the check ---- */

#define EMULATED(slot) void k_##slot##_emulated(const kern_gemm_args *a);
#include "kernels/avxvnni_emulated.def"
#undef EMULATED

static int n_failed;

static bool run_variant(check *c, const check_slot *slot, const kern_table *variant,
                        uint64_t *n_cases)
{
    kern_table reference;
    kern_table_init(&reference, MOTE_ISA_REF);
    *n_cases = 0;
    return check_variant(c, slot, &reference, variant, 1, n_cases) && *n_cases > 0;
}

static void report(bool ok, const check_slot *slot, const char *what, uint64_t n_cases,
                   const char *message)
{
    printf("%-4s %-12s %-18s %6llu cases %s\n", ok ? "ok" : "FAIL", slot->name, what,
           (unsigned long long)n_cases, message);
    n_failed += !ok;
}

/* Can a bug change a result? Weights below 128 have no sign, pairs of them do not saturate, and only
 * Q3_K multiplies by signed scales with vpdpwssd. */
static bool bug_is_visible(const check_slot *slot, vnni_bug bug)
{
    const bool wide = strstr(slot->name, "iq4") != NULL || strstr(slot->name, "q8") != NULL ||
                      strstr(slot->name, "i8") != NULL;
    if (bug == WEIGHTS_SIGNED || bug == PAIRS_SATURATE)
        return wide;
    return bug != SCALES_UNSIGNED || strcmp(slot->name, "gemm_q3_k") == 0;
}

static void plant_bugs(check *c, const check_slot *slot, const kern_table *emulated)
{
    const uint32_t per_cent = c->per_cent;
    c->per_cent = 20; /* always the same cases: enough to find every bug */
    for (int bug = NO_BUG + 1; bug < N_BUGS; bug++) {
        uint64_t n_cases;
        if (!bug_is_visible(slot, (vnni_bug)bug))
            continue;
        planted_bug = (vnni_bug)bug;
        const bool passed = run_variant(c, slot, emulated, &n_cases);
        report(!passed, slot, bug_names[bug], n_cases, passed ? "bug not detected" : c->message);
    }
    planted_bug = NO_BUG;
    c->per_cent = per_cent;
}

int main(int argc, char **argv)
{
    static check c;
    kern_table real, emulated, below;
    if (!cpu_level_contains(cpu_best_isa(), MOTE_ISA_AVX2)) {
        printf("skipped: the CPU does not support AVX2\n");
        return 77;
    }
    const char *wanted = argc > 1 ? argv[1] : "";
    c.per_cent = test_scaled(100, 1);
    kern_table_init(&below, MOTE_ISA_AVX2);
    kern_table_init(&real, MOTE_ISA_AVXVNNI);
    kern_table_init(&emulated, MOTE_ISA_AVXVNNI);
#define EMULATED(slot) emulated.slot = k_##slot##_emulated;
#include "kernels/avxvnni_emulated.def"
#undef EMULATED
    check_catch_signals();
    setvbuf(stdout, NULL, _IOLBF, 0);
    int n_slots = 0;
    for (size_t s = 0; s < n_check_slots; s++) {
        const check_slot *slot = &check_slots[s];
        uint64_t n_cases = 0;
        if (check_same_kernel(slot, &real, &below) || check_is_unpacked(slot) ||
            strstr(slot->name, wanted) == NULL)
            continue;
        n_slots++;
        if (check_same_kernel(slot, &real, &emulated)) {
            report(false, slot, "emulated", 0, "no emulated kernel");
            continue;
        }
        const bool ok = run_variant(&c, slot, &emulated, &n_cases);
        report(ok, slot, "emulated", n_cases, c.message);
        plant_bugs(&c, slot, &emulated);
    }
    check_free(&c);
    printf("%d slots, %d failed\n", n_slots, n_failed);
    return n_failed > 0 || n_slots == 0;
}
