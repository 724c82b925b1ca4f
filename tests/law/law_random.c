/* SPDX-License-Identifier: Apache-2.0 */
/*
 * law_random.c - random scripts against the table, on one model.
 *
 *   law_random --model NAME [--kv f16|f32|q8_0|q4_0] [--seed N] [--cases N] [--case N]
 *              [--length N] [--level NAME] [--drafts on]
 *
 * MOTE_TEST_SCALE (percent) scales the number of cases. A failure prints its
 * script and the options that replay it alone.
 */
#include "law/script.h"

#include "base/os.h"
#include "support/scale.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct settings {
    law_setup table;
    uint64_t seed;
    uint32_t cases;
    int64_t only; /* -1: all */
    uint32_t ref_once_in;
} settings;

static void parse_level(settings *o, const char *value)
{
    if (!mote_isa_parse(value, &o->table.isa))
        rig_fail("unknown level %s", value);
}

static void parse_one(settings *o, const char *name, const char *value)
{
    if (strcmp(name, "--model") == 0)
        o->table.name = value;
    else if (strcmp(name, "--kv") == 0)
        o->table.kv = rig_kv(value);
    else if (strcmp(name, "--seed") == 0)
        o->seed = strtoull(value, NULL, 10);
    else if (strcmp(name, "--cases") == 0)
        o->cases = (uint32_t)strtoul(value, NULL, 10);
    else if (strcmp(name, "--case") == 0)
        o->only = strtoll(value, NULL, 10);
    else if (strcmp(name, "--length") == 0)
        o->table.length = (uint32_t)strtoul(value, NULL, 10);
    else if (strcmp(name, "--drafts") == 0)
        o->table.drafts = strcmp(value, "on") == 0;
    else if (strcmp(name, "--level") == 0)
        parse_level(o, value);
    else
        rig_fail("unknown option %s", name);
}

static settings parse(int argc, char **argv)
{
    settings o = {.seed = 1, .cases = 100, .only = -1};
    o.table = (law_setup){.name = "r1-gqa4-tied", .seed = 7};
    /* Sanitizer runs are scaled down, and the table costs time too. */
    o.table.length = test_is_short() ? 112 : 200;
    for (int i = 1; i + 1 < argc; i += 2)
        parse_one(&o, argv[i], argv[i + 1]);
    o.cases = test_scaled(o.cases, 5);
    bool small = strncmp(o.table.name, "mote-tiny", 9) != 0;
    o.ref_once_in = small ? 30 : 120;
    return o;
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0); /* an interrupted run shows its progress */
    settings o = parse(argc, argv);
    double start = os_now();
    law_table table;
    if (!law_table_make(&table, &o.table)) {
        printf("skipped: the model %s not found\n", o.table.name);
        return 77;
    }
    mote_isa levels[RIG_MAX_LEVELS];
    size_t n_levels = rig_levels(levels);
    script_models models = {.lowest_once_in = levels[0] == MOTE_ISA_REF ? o.ref_once_in : 2};
    for (size_t i = 0; i < n_levels; i++)
        if (o.table.isa == MOTE_ISA_BEST || cpu_level_contains(o.table.isa, levels[i]))
            models.at[models.n++] = rig_open(table.path, levels[i]);
    double made = os_now();

    script *s = calloc(1, sizeof *s);
    if (s == NULL)
        rig_fail("out of memory");
    uint64_t first = o.only < 0 ? 0 : (uint64_t)o.only;
    uint64_t end = o.only < 0 ? o.cases : first + 1;
    for (uint64_t i = first; i < end; i++)
        script_run(s, &table, &models, o.seed, i);
    if (o.only >= 0)
        printf("%s", s->text);
    printf("%s, kv %s, drafts %s: %u cases, seed %llu: equal (table %.1f s, cases %.1f s)\n",
           o.table.name, rig_kv_name(o.table.kv), o.table.drafts ? "on" : "off",
           (unsigned)(end - first), (unsigned long long)o.seed, made - start, os_now() - made);
    free(s);
    for (size_t i = 0; i < models.n; i++)
        mote_model_close(models.at[i]);
    law_table_free(&table);
    return 0;
}
