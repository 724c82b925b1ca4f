/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shapes_logits.c - every head layout of the family: r = 1, 2, 3, groups of 4 and
 * 6 queries, one and two kv heads, tied and untied, with and without a draft block.
 *
 * The small models are in the data directory, with float64 logits; wider ones in
 * MOTE_SHARED, with those of the reference implementation.
 */
#include "golden/compare.h"
#include "support/data.h"

#include <string.h>

static const double bound = 1e-4;

static const char *const names[] = {"r1-gqa4-tied", "r1-gqa6-untied", "r2-gqa4-kv2-tied",
                                    "r2-gqa4-kv2-tied-mtp", "r3-gqa4-untied"};

typedef bool finder(char out[TEST_PATH], const char *name);

static bool find(finder *where, char path[TEST_PATH], const char *directory, const char *name,
                 const char *ending)
{
    char file[256];
    snprintf(file, sizeof file, "%s/%s%s", directory, name, ending);
    return where(path, file);
}

static double run(const mote_model *model, mote_kv kv, const test_npy *ids, const test_npy *logits)
{
    uint32_t n = (uint32_t)ids->count;
    mote_engine *engine = rig_engine(model, &(mote_engine_options){.kv = kv, .logits_rows = n});
    mote_session *session = rig_session(engine);
    rig_feed(engine, session, ids->i32, n, MOTE_LOGITS_ALL);
    double worst = 0;
    for (uint32_t i = 0; i < n; i++)
        worst = fmax(worst, row_error(mote_session_logits(session, i),
                                      logits->f32 + i * logits->dims[1], logits->dims[1]));
    mote_session_free(session);
    mote_engine_free(engine);
    return worst;
}

/* False: this model is not there. */
static bool compare(finder *where, const char *directory, const char *name)
{
    char path[TEST_PATH];
    test_npy ids, logits;
    if (!find(where, path, directory, name, ".gguf"))
        return false;
    mote_model *model = rig_open(path, MOTE_ISA_BEST);
    if (!find(where, path, directory, name, ".ids.npy") || !test_npy_load(&ids, path) ||
        !find(where, path, directory, name, ".logits.npy") || !test_npy_load(&logits, path))
        rig_fail("the arrays of %s/%s are missing", directory, name);
    double f32 = run(model, MOTE_KV_F32, &ids, &logits);
    double f16 = run(model, MOTE_KV_F16, &ids, &logits);
    printf("%s/%-22s f32 %.1e, bound %.0e; f16 %.1e\n", directory, name, f32, bound, f16);
    if (!(f32 <= bound))
        rig_fail("the logits of %s differ from the reference", name);
    test_npy_free(&ids);
    test_npy_free(&logits);
    mote_model_close(model);
    return true;
}

/* The draft block is bound but not run: the model with one is the model without. */
static void draft_changes_nothing(void)
{
    char path[TEST_PATH];
    test_npy with, without;
    if (!find(test_data_path, path, "shapes", names[3], ".logits.npy") ||
        !test_npy_load(&with, path) ||
        !find(test_data_path, path, "shapes", names[2], ".logits.npy") ||
        !test_npy_load(&without, path))
        rig_fail("the logits of the model with a draft block are missing");
    if (memcmp(with.f32, without.f32, with.count * sizeof(float)) != 0)
        rig_fail("the golden logits with and without a draft block differ");
    test_npy_free(&with);
    test_npy_free(&without);
    mote_model_info info;
    mote_model *model = rig_open(rig_model_path(names[3]), MOTE_ISA_BEST);
    mote_model_describe(model, &info);
    if (!info.draft_head || info.layers != 4)
        rig_fail("the draft block was not found");
    mote_model_close(model);
}

int main(void)
{
    uint32_t wide = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!compare(test_data_path, "shapes", names[i]))
            rig_fail("the model %s is missing", names[i]);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        wide += compare(test_shared_path, "golden/shapes", names[i]);
    if (wide == 0)
        printf("skipped: the wider models of MOTE_SHARED are not found\n");
    draft_changes_nothing();
    return 0;
}
