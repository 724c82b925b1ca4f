/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image.c - mote_image_*: pixels through the tower, once.
 *
 * A picture's token ids are made from a hash of its content, a different one for every place,
 * so that whoever compares timelines token by token compares pictures too.
 */
#include "base/cores.h"
#include "base/mem.h"
#include "engine/engine_int.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { MAX_THREADS = 512 };

static uint32_t threads_for(uint32_t wanted)
{
    cores found;
    if (wanted > 0)
        return wanted < MAX_THREADS ? wanted : MAX_THREADS;
    cores_find(&found);
    return found.n;
}

static vision_frame frame_of(const mote_pixels *pixels)
{
    return (vision_frame){.first = pixels->rgb,
                          .second =
                              pixels->second_frame != NULL ? pixels->second_frame : pixels->rgb,
                          .rows = pixels->height / VISION_PATCH,
                          .cols = pixels->width / VISION_PATCH};
}

static mote_status check(const mote_model *m, const mote_pixels *p, mote_error *err)
{
    const uint32_t side = MOTE_IMAGE_SIDE;
    if (m == NULL || p == NULL || p->rgb == NULL)
        return err_set(err, MOTE_E_ARG, "mote_image_new needs a model and pixels");
    if (!m->sees)
        return err_set(err, MOTE_E_UNSUPPORTED, "the model was opened without its picture tower");
    if (p->width == 0 || p->height == 0 || p->width % side != 0 || p->height % side != 0)
        return err_set(err, MOTE_E_ARG, "a picture of %u x %u: its sides must be multiples of %u",
                       p->width, p->height, side);
    if ((uint64_t)(p->width / side) * (p->height / side) > MOTE_IMAGE_MAX_TOKENS)
        return err_set(err, MOTE_E_ARG, "a picture of %u x %u is more than %d tokens", p->width,
                       p->height, MOTE_IMAGE_MAX_TOKENS);
    return MOTE_OK;
}

/* ---- looking ---- */

/* Threads and working memory, for as long as it takes. */
typedef struct looking {
    nn nn;
    vision_scratch scratch;
    arena memory;
} looking;

static size_t take_memory(looking *l, const mote_model *m, uint32_t rows, uint32_t cols,
                          uint32_t threads)
{
    vision_scratch_take(&l->scratch, &l->memory, &m->vision, rows, cols);
    l->nn.worker_memory = arena_take(&l->memory, threads, NN_WORKER_BYTES);
    return l->memory.used;
}

static mote_status look(const mote_model *m, const vision_frame *frame, uint32_t threads,
                        float *features, mote_error *err)
{
    looking l = {0};
    const size_t bytes = take_memory(&l, m, frame->rows, frame->cols, threads);
    l = (looking){.nn = {.k = &m->kernels}, .memory = {.base = mem_new(bytes, 1)}};
    if (l.memory.base == NULL)
        return err_set(err, MOTE_E_MEMORY, "no memory to look at a picture: %zu bytes", bytes);
    mote_status status = pool_new(&l.nn.pool, threads, err);
    if (status == MOTE_OK) {
        take_memory(&l, m, frame->rows, frame->cols, threads);
        vision_run(&m->vision, &l.nn, &l.scratch, frame, features, NULL, NULL);
        pool_free(l.nn.pool);
        arena_release(&l.memory);
    }
    mem_free(l.memory.base);
    return status;
}

/* ---- naming ---- */

static void name_content(mote_image *p, const mote_pixels *pixels)
{
    const size_t bytes = (size_t)pixels->width * pixels->height * 3;
    XXH3_state_t state;
    XXH3_128bits_reset(&state);
    XXH3_128bits_update(&state, &pixels->width, sizeof pixels->width);
    XXH3_128bits_update(&state, &pixels->height, sizeof pixels->height);
    XXH3_128bits_update(&state, pixels->rgb, bytes);
    if (pixels->second_frame != NULL)
        XXH3_128bits_update(&state, pixels->second_frame, bytes);
    const XXH128_hash_t whole = XXH3_128bits_digest(&state);
    for (size_t i = 0; i < p->n; i++) {
        const uint64_t hash = XXH3_64bits_withSeed(&whole, sizeof whole, i);
        p->ids[i] = -1 - (mote_token)(hash & INT32_MAX);
    }
}

mote_status mote_image_new(mote_image **out, const mote_model *model, const mote_pixels *pixels,
                           uint32_t threads, mote_error *err)
{
    if (out == NULL)
        return err_set(err, MOTE_E_ARG, "mote_image_new needs a place for the picture");
    *out = NULL;
    TRY(check(model, pixels, err));
    mote_image *p = mem_new(1, sizeof *p);
    if (p == NULL)
        return err_set(err, MOTE_E_MEMORY, "no memory for a picture");
    p->rows = pixels->height / MOTE_IMAGE_SIDE;
    p->cols = pixels->width / MOTE_IMAGE_SIDE;
    p->n = (size_t)p->rows * p->cols;
    p->bytes = sizeof *p + p->n * (model->hp.n_embd * sizeof *p->features + sizeof *p->ids);
    p->features = mem_new(p->n, model->hp.n_embd * sizeof *p->features);
    p->ids = mem_new(p->n, sizeof *p->ids);
    const vision_frame frame = frame_of(pixels);
    mote_status status =
        p->features == NULL || p->ids == NULL
            ? err_set(err, MOTE_E_MEMORY, "no memory for the %zu rows of a picture", p->n)
            : look(model, &frame, threads_for(threads), p->features, err);
    if (status != MOTE_OK) {
        mote_image_free(p);
        return status;
    }
    name_content(p, pixels);
    *out = p;
    return MOTE_OK;
}

void mote_image_free(mote_image *p)
{
    if (p == NULL)
        return;
    mem_free(p->features);
    mem_free(p->ids);
    mem_free(p);
}

const mote_token *mote_image_tokens(const mote_image *p, size_t *n)
{
    *n = p->n;
    return p->ids;
}

void mote_image_grid(const mote_image *p, uint32_t *rows, uint32_t *cols)
{
    *rows = p->rows;
    *cols = p->cols;
}

uint64_t mote_image_bytes(const mote_image *p)
{
    return p->bytes;
}

uint64_t mote_image_plan(const mote_model *m, uint32_t width, uint32_t height, uint32_t threads)
{
    if (!m->sees)
        return 0;
    looking l = {0};
    const uint32_t n = threads_for(threads);
    return take_memory(&l, m, height / VISION_PATCH, width / VISION_PATCH, n) + pool_bytes(n);
}
