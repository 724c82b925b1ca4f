/* SPDX-License-Identifier: Apache-2.0 */
/* lora_build.c - see lora_build.h. */
#include "law/lora_build.h"

#include "engine/engine_int.h"
#include "law/rig.h"
#include "quant/half.h"
#include "support/gguf_build.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TENSORS = TEST_GGUF_MAX_TENSORS, TYPE_F32 = 0, TYPE_F16 = 1 };

static float random_value(rig_random *r, double size)
{
    return (float)(((double)rig_below(r, 1u << 24) / (1 << 23) - 1) * size);
}

/* n random values of a type; the caller frees them. */
static void *random_tensor(rig_random *r, size_t n, double size, uint32_t type, uint64_t *bytes)
{
    *bytes = n * (type == TYPE_F32 ? 4 : 2);
    float *values = malloc(n * sizeof *values);
    uint16_t *halves = malloc(n * sizeof *halves);
    if (values == NULL || halves == NULL)
        rig_fail("no memory");
    for (size_t i = 0; i < n; i++) {
        values[i] = random_value(r, size);
        halves[i] = type == TYPE_F16 ? half_f32_to_f16(values[i]) : half_f32_to_bf16(values[i]);
    }
    free(type == TYPE_F32 ? (void *)halves : (void *)values);
    return type == TYPE_F32 ? (void *)values : (void *)halves;
}

/* A model with experts has no adapters of the feed-forward network; LORA_ONLY_FFN then means the
 * output projections. */
static bool recipe_has(const lora_recipe *recipe, const lora_rule *rule, bool mtp, bool experts)
{
    const bool projects = rule->place != LORA_MODEL && strstr(rule->gguf, "_out") != NULL;
    const bool ffn = strncmp(rule->gguf, "ffn_", 4) == 0;
    switch (recipe->parts) {
    case LORA_WITHOUT_MTP: return !mtp;
    case LORA_ONLY_FFN: return experts ? projects : ffn;
    case LORA_ONLY_MIXERS: return !ffn && !mtp && rule->place != LORA_MODEL;
    default: return true;
    }
}

typedef struct lora_builder {
    test_gguf file;
    rig_random random;
    void *data[MAX_TENSORS];
    size_t n;
} lora_builder;

static void add_pair(lora_builder *b, const char *name, const nn_matrix *m,
                     const lora_recipe *recipe)
{
    char text[96];
    uint64_t bytes;
    const uint64_t a[2] = {m->cols, recipe->rank}, up[2] = {recipe->rank, m->rows};
    void *data = b->data[b->n++] = random_tensor(&b->random, m->cols * recipe->rank,
                                                 1 / sqrt((double)m->cols), recipe->type, &bytes);
    snprintf(text, sizeof text, "%s.weight.lora_a", name);
    test_gguf_tensor(&b->file, text, recipe->type, 2, a, data, bytes);
    data = b->data[b->n++] =
        random_tensor(&b->random, m->rows * recipe->rank, 0.05, recipe->type, &bytes);
    snprintf(text, sizeof text, "%s.weight.lora_b", name);
    test_gguf_tensor(&b->file, text, recipe->type, 2, up, data, bytes);
}

void lora_build(const char *path, const mote_model *model, const lora_recipe *recipe)
{
    lora_builder *b = calloc(1, sizeof *b);
    if (b == NULL)
        rig_fail("no memory");
    b->random = (rig_random){.seed = recipe->seed};
    test_gguf_begin(&b->file);
    test_gguf_str(&b->file, "general.architecture",
                  model->hp.n_experts > 0 ? "qwen35moe" : "qwen35");
    test_gguf_str(&b->file, "general.type", "adapter");
    test_gguf_str(&b->file, "general.name", "random");
    test_gguf_str(&b->file, "adapter.type", "lora");
    test_gguf_f32(&b->file, "adapter.lora.alpha", recipe->alpha);
    for (uint32_t block = 0; block <= model->hp.n_layers; block++)
        for (size_t i = 0; i < n_lora_rules; i++) {
            const lora_rule *rule = &lora_rules[i];
            const nn_matrix *m = lora_find_matrix(&model->w, &model->hp, rule, block);
            char name[64];
            if (m == NULL || (rule->place == LORA_MODEL && block > 0) ||
                !recipe_has(recipe, rule, block == model->hp.n_layers, model->hp.n_experts > 0))
                continue;
            if (rule->place == LORA_MODEL)
                snprintf(name, sizeof name, "%s", rule->gguf);
            else
                snprintf(name, sizeof name, "blk.%u.%s", block, rule->gguf);
            add_pair(b, name, m, recipe);
        }
    test_gguf_finish(&b->file);
    FILE *f = fopen(path, "wb");
    if (f == NULL || fwrite(b->file.bytes, 1, b->file.n, f) != b->file.n || fclose(f) != 0)
        rig_fail("cannot write %s", path);
    for (size_t i = 0; i < b->n; i++)
        free(b->data[i]);
    test_gguf_free(&b->file);
    free(b);
}

mote_lora *lora_make(const mote_model *model, const lora_recipe *recipe)
{
    char path[256];
    mote_lora *opened;
    mote_error err = {0};
    rig_temp_path(path, sizeof path, "adapter.gguf");
    lora_build(path, model, recipe);
    MUST(mote_lora_open(&opened, model, path, &err), &err);
    return opened;
}
