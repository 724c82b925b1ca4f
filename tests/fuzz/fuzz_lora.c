/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_lora.c - any bytes as an adapter: an error, or an adapter that a session can use.
 *
 *   byte 0      bit 0: 0 a GGUF file, 1 a directory of PEFT
 *   then        GGUF: the file
 *               PEFT: length of adapter_config.json, 2 bytes; this file; adapter_model.safetensors
 */
#include "base/mem.h"
#include "engine/engine_int.h"
#include "fuzz/fuzz.h"
#include "law/rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static mote_model *model;
static mote_engine *engine;

static void demand(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "fuzz_lora: %s\n", what);
    abort();
}

static void make_world(void)
{
    const char *path = rig_model_path("r2-gqa4-kv2-tied-mtp");
    demand(path != NULL, "the model is missing");
    model = rig_open(path, MOTE_ISA_BEST);
    engine = rig_engine(model, &(mote_engine_options){.threads = 1,
                                                      .sessions = 1,
                                                      .positions = 64,
                                                      .batch = 8,
                                                      .lora_rank = LORA_MAX_RANK,
                                                      .drafts = true});
}

/* A copy that a sanitizer guards, aligned like a mapped file. */
static unsigned char *exact_copy(const uint8_t *data, size_t n)
{
    unsigned char *copy = malloc(n > 0 ? n : 1);
    demand(copy != NULL, "no memory");
    memcpy(copy, data, n);
    return copy;
}

static mote_status bind_gguf(mote_lora *l, const unsigned char *bytes, size_t n, mote_error *err)
{
    gguf *g;
    lora_sources sources = {0};
    TRY(gguf_read(&g, bytes, n, err));
    mote_status status = lora_read_gguf(&sources, g, &model->hp, err);
    if (status == MOTE_OK)
        status = lora_bind(&l->values, &sources, &model->w, &model->hp, &model->kernels, err);
    lora_sources_fini(&sources);
    gguf_free(g);
    return status;
}

static mote_status bind_peft(mote_lora *l, const uint8_t *data, size_t size, mote_error *err)
{
    lora_sources sources = {0};
    const size_t n = (size_t)data[0] | (size_t)data[1] << 8, config = n < size - 2 ? n : size - 2;
    unsigned char *tensors = exact_copy(data + 2 + config, size - 2 - config);
    mote_status status = lora_read_peft(&sources, (str){(const char *)data + 2, config}, tensors,
                                        size - 2 - config, &model->hp, err);
    if (status == MOTE_OK)
        status = lora_bind(&l->values, &sources, &model->w, &model->hp, &model->kernels, err);
    lora_sources_fini(&sources);
    free(tensors);
    return status;
}

static void use_adapter(const mote_lora *l)
{
    static const mote_token tokens[] = {1, 2, 3};
    const mote_lora_use use = {l, 1};
    mote_error err = {0};
    mote_session *s;
    demand(l->values.rank >= 1 && l->values.rank <= LORA_MAX_RANK, "rank");
    MUST(mote_session_new(&s, engine, &(mote_session_options){.loras = &use, .n_loras = 1}, &err),
         &err);
    const mote_work work = {.session = s, .tokens = tokens, .n = 3};
    MUST(mote_step(engine, &work, 1, &err), &err);
    mote_draft_item draft = {.session = s, .next = 5, .n = 2};
    MUST(mote_draft(engine, &draft, 1, &err), &err);
    mote_session_free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (model == NULL)
        make_world();
    if (size < 4)
        return 0;
    const mem_stats before = mem_count();
    mote_error err = {0};
    mote_lora l = {.model = model};
    mote_status status;
    if ((data[0] & 1) != 0) {
        status = bind_peft(&l, data + 1, size - 1, &err);
    } else {
        unsigned char *bytes = exact_copy(data + 1, size - 1);
        status = bind_gguf(&l, bytes, size - 1, &err);
        free(bytes);
    }
    if (status == MOTE_OK)
        use_adapter(&l);
    else
        demand(err.status == status && err.text[0] != 0, "a failure without its error");
    lora_fini(&l.values);
    demand(mem_count().blocks == before.blocks, "memory is left behind");
    return 0;
}
