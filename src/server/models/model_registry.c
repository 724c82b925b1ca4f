/* SPDX-License-Identifier: Apache-2.0 */
/* model_registry.c - see model_registry.h. */
#include "server/models/model_registry.h"

#include "base/mem.h"
#include "server/core/digest.h"
#include "server/core/limits.h"

#include <stdio.h>
#include <time.h>

enum { ANSWER_TOKENS_BYTES = 64 << 20 }; /* of all models together */

struct model_registry {
    core_lock *core_lock;                    /* shared by the engines; NULL: there is only one */
    served_model *models[SERVER_MAX_MODELS]; /* [n] */
    size_t n;
};

/* ---- creation and division of memory ---- */

static served_model_options registry_model_options(const model_registry_options *o, size_t i)
{
    return (served_model_options){.model = o->models[i].model,
                                  .path = o->models[i].path,
                                  .name = o->models[i].name,
                                  .sched = o->sched,
                                  .fork_server = o->fork_server,
                                  .image_tokens = o->image_tokens,
                                  .limits = o->limits,
                                  .answer_tokens_bytes = ANSWER_TOKENS_BYTES / o->n_models,
                                  .keep_alive = o->keep_alive};
}

uint32_t model_registry_n_vision(const model_registry_options *o)
{
    uint32_t n = 0;
    for (size_t i = 0; i < o->n_models; i++) {
        const served_model_options model = registry_model_options(o, i);
        n += served_model_has_vision(&model);
    }
    return n;
}

/* Bytes of the image cache of each model with a vision encoder: equal shares of the limit. The
 * default limit is capped at 1/8 of `memory`. */
static uint64_t registry_image_memory(const model_registry_options *o)
{
    const double limit = o->limits->at[LIMIT_IMAGE_MEMORY];
    const double eighth = (double)o->sched.memory / 8;
    const bool is_default = limit == limit_rows[LIMIT_IMAGE_MEMORY].initial;
    const uint32_t n = model_registry_n_vision(o);
    return (uint64_t)(is_default && eighth > 0 && eighth < limit ? eighth : limit) /
           (n > 0 ? n : 1);
}

/* Sets the minimum of each model, and *spare to the memory left after all minimums. */
static mote_status registry_divide_memory(const model_registry_options *o, uint64_t image_memory,
                                          uint64_t least[SERVER_MAX_MODELS], uint64_t *spare,
                                          mote_error *err)
{
    const uint64_t all = o->sched.memory;
    uint64_t sum = 0;
    for (size_t i = 0; i < o->n_models; i++) {
        served_model_options model = registry_model_options(o, i);
        model.image_memory = image_memory;
        TRY(served_model_least_memory(&model, &least[i], err));
        sum += least[i];
    }
    *spare = all > sum ? all - sum : 0;
    if (all >= sum || o->n_models == 1) /* a single model reports the shortage in more detail */
        return MOTE_OK;
    return err_set(err, MOTE_E_MEMORY,
                   "%llu MB are not enough for %zu models, which need at least %llu MB; raise "
                   "`memory`, lower `parallel` or serve fewer models",
                   (unsigned long long)all / 1000000, o->n_models,
                   (unsigned long long)sum / 1000000);
}

/* Each model gets its minimum and an even share of the memory that earlier models left over. */
static mote_status registry_create_models(model_registry *r, const model_registry_options *o,
                                          mote_error *err)
{
    const uint64_t all = o->sched.memory, image_memory = registry_image_memory(o);
    uint64_t least[SERVER_MAX_MODELS] = {0}, spare = 0;
    if (o->n_models > 1)
        TRY(core_lock_new(&r->core_lock, err));
    if (all > 0)
        TRY(registry_divide_memory(o, image_memory, least, &spare, err));
    for (; r->n < o->n_models; r->n++) {
        const size_t i = r->n, n = o->n_models;
        served_model_options model = registry_model_options(o, i);
        model.image_memory = image_memory;
        model.sched.core_lock = r->core_lock;
        if (n > 1 && all > 0)
            model.sched.memory = least[i] + spare / (n - i);
        TRY(served_model_new(&r->models[i], &model, err));
        const uint64_t used = served_model_memory(r->models[i]);
        spare -= used > least[i] && spare > 0 ? used - least[i] : 0;
    }
    return MOTE_OK;
}

mote_status model_registry_new(model_registry **out, const model_registry_options *options,
                               mote_error *err)
{
    *out = NULL;
    model_registry *r = mem_new(1, sizeof *r);
    if (r == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: %zu bytes for the list of models",
                       sizeof *r);
    const mote_status status = registry_create_models(r, options, err);
    if (status != MOTE_OK) {
        model_registry_free(r);
        return status;
    }
    *out = r;
    return MOTE_OK;
}

void model_registry_free(model_registry *r)
{
    if (r == NULL)
        return;
    for (size_t i = 0; i < r->n; i++)
        served_model_free(r->models[i]);
    core_lock_free(r->core_lock);
    mem_free(r);
}

/* ---- lookup ---- */

size_t model_registry_count(const model_registry *r)
{
    return r->n;
}

served_model *model_registry_at(const model_registry *r, size_t i)
{
    return r->models[i];
}

served_model *model_registry_find(const model_registry *r, str name)
{
    for (int whole = 1; whole >= 0; whole--)
        for (size_t i = 0; i < r->n; i++)
            if (model_name_is(served_model_name(r->models[i]), name, whole))
                return r->models[i];
    return NULL;
}

/* ---- details of a model file ---- */

/* Values of general.file_type that occur in files of this model family. */
static const struct {
    uint32_t id;
    const char *name;
} formats[] = {
    {0, "F32"},     {1, "F16"},     {2, "Q4_0"},    {3, "Q4_1"},    {7, "Q8_0"},
    {8, "Q5_0"},    {9, "Q5_1"},    {10, "Q2_K"},   {11, "Q3_K_S"}, {12, "Q3_K_M"},
    {13, "Q3_K_L"}, {14, "Q4_K_S"}, {15, "Q4_K_M"}, {16, "Q5_K_S"}, {17, "Q5_K_M"},
    {18, "Q6_K"},   {21, "Q2_K_S"}, {25, "IQ4_NL"}, {30, "IQ4_XS"}, {32, "BF16"},
};

static void details_read_file(model_details *out)
{
    str family = {"", 0};
    bool found = false;
    uint32_t id = UINT32_MAX;
    if (gguf_get_str(out->file, "general.architecture", &family, &found, NULL) == MOTE_OK && found)
        snprintf(out->family, sizeof out->family, "%.*s", (int)(family.n < 31 ? family.n : 31),
                 family.p);
    if (gguf_get_u32(out->file, "general.file_type", &id, &found, NULL) != MOTE_OK || !found)
        return;
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (formats[i].id == id)
            snprintf(out->format, sizeof out->format, "%s", formats[i].name);
}

static void details_make_digest(model_details *out, const served_model *m)
{
    char text[256];
    digest d = {0};
    snprintf(text, sizeof text, "%s %llu %lld", served_model_name(m),
             (unsigned long long)out->info.file_bytes, (long long)served_model_date(m));
    digest_of(&d, str_of(text));
    digest_print(&d, out->digest);
}

void model_details_read(model_details *out, const served_model *m)
{
    size_t n = 0;
    *out = (model_details){.family = "qwen35", .format = "unknown"};
    mote_model_describe(served_model_weights(m), &out->info);
    const double size = (double)out->info.parameters;
    snprintf(out->parameters, sizeof out->parameters, size < 1e9 ? "%.1fM" : "%.1fB",
             size / (size < 1e9 ? 1e6 : 1e9));
    details_make_digest(out, m);
    const time_t date = (time_t)served_model_date(m);
    struct tm tm = {0};
    gmtime_r(&date, &tm);
    strftime(out->date, sizeof out->date, "%Y-%m-%dT%H:%M:%S.000000000Z", &tm);
    static const char mark[] = "<|fim_prefix|>";
    out->insert = mote_tokenize(served_model_weights(m), mark, sizeof mark - 1, MOTE_TEXT_CONTROL,
                                NULL, 0, &n, NULL) == MOTE_OK &&
                  n == 1;
    if (os_map_open(&out->map, served_model_path(m), NULL) != MOTE_OK)
        return;
    if (gguf_read(&out->file, out->map.data, out->map.bytes, NULL) == MOTE_OK)
        details_read_file(out);
}

void model_details_fini(model_details *d)
{
    if (d->file != NULL)
        gguf_free(d->file);
    os_map_close(&d->map);
}
