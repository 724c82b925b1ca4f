/* SPDX-License-Identifier: Apache-2.0 */
/*
 * adapter.c - mote_lora_*: opens adapters, and gives them to sessions.
 *
 * An adapter is copied to memory and converted once (model/lora.c). Its files are mapped only while
 * it is opened. The fingerprint is a hash of all their bytes, because adapters of one training run
 * differ in their values only.
 */
#include "base/fpmode.h"
#include "base/mem.h"
#include "engine/engine_int.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

_Static_assert((int)MOTE_MAX_LORAS == (int)NN_MAX_LORAS &&
                   (int)MOTE_MAX_LORA_RANK == (int)NN_LORA_MAX_RANK,
               "limits of mote.h");

enum { ADAPTER_PATH_BYTES = 1024, MAX_CONFIG_BYTES = 1 << 20 };

/* ---- files ---- */

/* The values must be those of the fingerprint: caches are bound to it. */
static mote_status adapter_check_unchanged(const mote_lora *l, uint64_t now, mote_error *err)
{
    return now == l->fingerprint
               ? MOTE_OK
               : err_set(err, MOTE_E_IO, "the adapter changed while it was read; try again");
}

static uint64_t peft_fingerprint(const os_map *config, const os_map *tensors)
{
    return XXH3_64bits_withSeed(tensors->data, (size_t)tensors->bytes,
                                XXH3_64bits(config->data, (size_t)config->bytes));
}

static mote_status adapter_read_gguf(mote_lora *l, lora_sources *sources, const os_map *map,
                                     mote_error *err)
{
    gguf *g;
    l->fingerprint = XXH3_64bits(map->data, (size_t)map->bytes);
    TRY(gguf_read(&g, map->data, map->bytes, err));
    mote_status status = lora_read_gguf(sources, g, &l->model->hp, err);
    if (status == MOTE_OK)
        status =
            lora_bind(&l->values, sources, &l->model->w, &l->model->hp, &l->model->kernels, err);
    gguf_free(g);
    return status != MOTE_OK
               ? status
               : adapter_check_unchanged(l, XXH3_64bits(map->data, (size_t)map->bytes), err);
}

static mote_status adapter_read_peft(mote_lora *l, lora_sources *sources, const os_map *config,
                                     const os_map *tensors, mote_error *err)
{
    const mote_model *m = l->model;
    if (config->bytes > MAX_CONFIG_BYTES)
        return err_set(err, MOTE_E_FORMAT, "adapter_config.json has %llu bytes; at most %d",
                       (unsigned long long)config->bytes, MAX_CONFIG_BYTES);
    l->fingerprint = peft_fingerprint(config, tensors);
    TRY(lora_read_peft(sources, (str){(const char *)config->data, (size_t)config->bytes},
                       tensors->data, tensors->bytes, &m->hp, err));
    TRY(lora_bind(&l->values, sources, &m->w, &m->hp, &m->kernels, err));
    return adapter_check_unchanged(l, peft_fingerprint(config, tensors), err);
}

static mote_status adapter_open_gguf(mote_lora *l, lora_sources *sources, const char *path,
                                     mote_error *err)
{
    os_map map;
    TRY(os_map_open(&map, path, err));
    mote_status status = adapter_read_gguf(l, sources, &map, err);
    if (!os_map_intact(&map)) /* the cause of any other error */
        status = os_map_check(&map, err);
    os_map_close(&map);
    return status;
}

static mote_status adapter_map(os_map *out, const char *directory, int n, const char *file,
                               mote_error *err)
{
    char path[ADAPTER_PATH_BYTES];
    if ((size_t)snprintf(path, sizeof path, "%.*s/%s", n, directory, file) >= sizeof path)
        return err_set(err, MOTE_E_ARG, "path is too long: %.60s...", directory);
    return os_map_open(out, path, err);
}

/* `directory` has n bytes. */
static mote_status adapter_open_peft(mote_lora *l, lora_sources *sources, const char *directory,
                                     int n, mote_error *err)
{
    os_map config, tensors;
    TRY(adapter_map(&config, directory, n, "adapter_config.json", err));
    mote_status status = adapter_map(&tensors, directory, n, "adapter_model.safetensors", err);
    if (status == MOTE_OK) {
        status = adapter_read_peft(l, sources, &config, &tensors, err);
        if (!os_map_intact(&tensors) || !os_map_intact(&config))
            status = os_map_check(os_map_intact(&tensors) ? &config : &tensors, err);
        os_map_close(&tensors);
    }
    os_map_close(&config);
    return status;
}

/* The name of a file or directory: without its directory, ".gguf" and a last '/'. */
static void adapter_name(char out[96], const char *path, int n)
{
    int first = n;
    while (first > 0 && path[first - 1] != '/')
        first--;
    if (n - first > 5 && memcmp(path + n - 5, ".gguf", 5) == 0)
        n -= 5;
    snprintf(out, 96, "%.*s", n - first < 90 ? n - first : 90, path + first);
}

/* A directory of PEFT, one of its two files, or a GGUF file. */
static mote_status adapter_open(mote_lora *l, lora_sources *sources, const char *path,
                                mote_error *err)
{
    static const char *const files[] = {"adapter_model.safetensors", "adapter_config.json"};
    struct stat info;
    int n = (int)strlen(path);
    bool directory = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
    while (directory && n > 1 && path[n - 1] == '/')
        n--;
    adapter_name(l->name, path, n);
    for (size_t i = 0; i < 2; i++) {
        const int suffix = (int)strlen(files[i]);
        if (!directory && n > suffix && strcmp(path + n - suffix, files[i]) == 0 &&
            path[n - suffix - 1] == '/') {
            n -= suffix + 1;
            directory = true;
        }
    }
    const mote_status status = directory ? adapter_open_peft(l, sources, path, n, err)
                                         : adapter_open_gguf(l, sources, path, err);
    if (sources->name[0] != '\0')
        memcpy(l->name, sources->name, sizeof l->name);
    return status;
}

/* ---- mote.h ---- */

mote_status mote_lora_open(mote_lora **out, const mote_model *model, const char *path,
                           mote_error *err)
{
    FPMODE_SCOPE;
    if (out == NULL)
        return err_set(err, MOTE_E_ARG, "mote_lora_open: out must not be NULL");
    *out = NULL;
    if (model == NULL || path == NULL || path[0] == '\0' || strlen(path) >= ADAPTER_PATH_BYTES)
        return err_set(err, MOTE_E_ARG,
                       "mote_lora_open: model must not be NULL, and path must have 1 to %d bytes",
                       ADAPTER_PATH_BYTES - 1);
    mote_lora *l = mem_new(1, sizeof *l);
    if (l == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: %zu bytes for an adapter", sizeof *l);
    l->model = model;
    lora_sources sources = {0};
    const mote_status status = adapter_open(l, &sources, path, err);
    lora_sources_fini(&sources);
    if (status != MOTE_OK) {
        mote_lora_close(l);
        return status;
    }
    *out = l;
    return MOTE_OK;
}

void mote_lora_close(mote_lora *l)
{
    if (l == NULL)
        return;
    lora_fini(&l->values);
    mem_free(l);
}

void mote_lora_describe(const mote_lora *l, mote_lora_info *out)
{
    *out = (mote_lora_info){.rank = l->values.rank,
                            .matrices = l->values.n_adapted,
                            .parameters = l->values.parameters,
                            .bytes = sizeof *l + l->values.bytes,
                            .fingerprint = l->fingerprint};
    memcpy(out->name, l->name, sizeof out->name);
}

bool mote_lora_merge(const mote_lora *l, float scale, const char *matrix, uint64_t first,
                     uint64_t n, float *rows)
{
    str name = str_of(matrix);
    uint32_t block;
    FPMODE_SCOPE;
    if (!str_take_suffix(&name, ".weight"))
        return false;
    const hparams *hp = &l->model->hp;
    const lora_rule *rule = lora_rule_of_tensor(name, hp, &block);
    const nn_matrix *m = rule != NULL ? lora_find_matrix(&l->model->w, hp, rule, block) : NULL;
    if (m == NULL || l->values.pairs[m->id].a.rows == 0)
        return false;
    if (n > 0 && n <= m->rows && first <= m->rows - n)
        lora_pair_merge(&l->values.pairs[m->id], scale == 0 ? 1.0f : scale, (size_t)first,
                        (size_t)n, m->rows, rows);
    return true;
}

/* ---- sessions ---- */

mote_status adapters_check(const mote_engine *e, const mote_session_options *options,
                           mote_error *err)
{
    const size_t n = options != NULL ? options->n_loras : 0;
    uint64_t rank = 0;
    if (n > MOTE_MAX_LORAS || (n > 0 && options->loras == NULL))
        return err_set(err, MOTE_E_ARG, "a session has at most %d adapters, got %zu",
                       MOTE_MAX_LORAS, n);
    for (size_t i = 0; i < n; i++) {
        const mote_lora_use *use = &options->loras[i];
        if (use->lora == NULL || use->lora->model != e->model)
            return err_set(err, MOTE_E_ARG,
                           "adapter %zu is NULL or was opened for another mote_model", i);
        if (!isfinite(use->scale))
            return err_set(err, MOTE_E_ARG, "adapter %zu has a scale of %g", i, (double)use->scale);
        rank += use->lora->values.rank;
    }
    if (rank > e->options.lora_rank)
        return err_set(err, MOTE_E_ARG,
                       "the adapters of the session have a rank of %llu, the engine has room for "
                       "%u (raise lora_rank in mote_engine_options)",
                       (unsigned long long)rank, e->options.lora_rank);
    return MOTE_OK;
}

void adapters_set(mote_session *s, const mote_session_options *options)
{
    const size_t n = options != NULL ? options->n_loras : 0;
    for (size_t i = 0; i < n; i++) {
        const mote_lora_use *use = &options->loras[i];
        s->loras[i] = (mote_lora_use){use->lora, use->scale == 0 ? 1.0f : use->scale};
        s->lora.at[i].pairs = use->lora->values.pairs;
        s->lora.at[i].scale = s->loras[i].scale;
    }
    s->lora.n = (uint32_t)n;
}
