/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check_main.c - command line of the kernel checker.
 *
 *   kernel_check [--slot TEXT] [--level ref|avx2|avxvnni|avx512|amx] [--seed N]
 *   kernel_check --bench [--slot TEXT] [--level ...]
 *
 * Checks every level that the CPU supports. A kernel that a level inherits from a lower level is
 * checked only once. At level "ref" the reference is compared with itself: it must stay inside its
 * buffers and be deterministic. MOTE_TEST_SCALE is the percentage of cases to run.
 */
#include "kernels/check.h"

#include "base/cpu.h"
#include "support/scale.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct options {
    const char *slot; /* substring of the name; NULL: all */
    mote_isa level;   /* MOTE_ISA_BEST: all */
    uint64_t seed;
    bool bench;
} options;

static bool is_selected(const options *o, const check_slot *slot, mote_isa level)
{
    return (o->slot == NULL || strstr(slot->name, o->slot) != NULL) &&
           (o->level == MOTE_ISA_BEST || o->level == level);
}

/* False if the kernel of the slot at `level` is that of `lower`, the level below. */
static bool has_own_kernel(const check_slot *slot, mote_isa level, mote_isa lower)
{
    kern_table here, below;
    if (level == MOTE_ISA_REF)
        return true;
    kern_table_init(&here, level);
    kern_table_init(&below, lower);
    return !check_same_kernel(slot, &here, &below);
}

static bool check_level(check *c, const options *o, const check_slot *slot, mote_isa level)
{
    kern_table reference, table;
    uint64_t n_cases = 0;
    kern_table_init(&reference, MOTE_ISA_REF);
    kern_table_init(&table, level);
    const bool ok = check_variant(c, slot, &reference, &table, o->seed, &n_cases) && n_cases > 0;
    printf("%-4s %-16s %-7s %6llu cases %s\n", ok ? "ok" : "FAIL", slot->name, mote_isa_name(level),
           (unsigned long long)n_cases, c->message);
    return ok;
}

static void time_level(check *c, const check_slot *slot, mote_isa level)
{
    kern_table table;
    kern_table_init(&table, level);
    for (uint32_t i = 0; check_time(c, slot, &table, i); i++) {
        printf("%-16s %-7s %-28s %12.1f ns", slot->name, mote_isa_name(level), c->label,
               c->best * 1e9);
        if (c->flops > 0)
            printf(" %8.2f GFLOP/s", c->flops / c->best * 1e-9);
        if (c->bytes > 0)
            printf(" %8.2f GB/s", c->bytes / c->best * 1e-9);
        printf("\n");
    }
}

static bool parse_options(int argc, char **argv, options *o)
{
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--bench") == 0) {
            o->bench = true;
            continue;
        }
        if (strcmp(argv[i], "--slot") == 0)
            o->slot = value;
        else if (strcmp(argv[i], "--seed") == 0)
            o->seed = strtoull(value, NULL, 0);
        else if (strcmp(argv[i], "--level") != 0 || !mote_isa_parse(value, &o->level))
            return false;
        i++;
    }
    return true;
}

int main(int argc, char **argv)
{
    static check c;
    options o = {.seed = (uint64_t)time(NULL)};
    if (!parse_options(argc, argv, &o)) {
        fprintf(stderr, "usage: %s [--bench] [--slot TEXT] [--level LEVEL] [--seed N]\n", argv[0]);
        return 2;
    }
    c.per_cent = test_scaled(100, 1);
    check_catch_signals();
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("seed %llu\n", (unsigned long long)o.seed);
    int failures = 0, compared = 0;
    mote_isa levels[CPU_LEVELS];
    const size_t n_levels = cpu_list_usable(levels);
    for (size_t s = 0; s < n_check_slots; s++)
        for (size_t i = 0; i < n_levels; i++) {
            const mote_isa level = levels[i], lower = levels[i > 0 ? i - 1 : 0];
            if (!is_selected(&o, &check_slots[s], level) ||
                !has_own_kernel(&check_slots[s], level, lower))
                continue;
            compared++;
            if (o.bench)
                time_level(&c, &check_slots[s], level);
            else
                failures += !check_level(&c, &o, &check_slots[s], level);
        }
    check_free(&c);
    if (!o.bench)
        printf("%d kernels checked, %d failed\n", compared, failures);
    return failures > 0 || compared == 0;
}
