/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image.c - mote_image_*, and the images inside a session.
 *
 * mote_image_new runs the vision encoder once; the result is immutable. It uses its own threads and
 * scratch, so any thread may call it while engines run.
 *
 * The token ids of an image are derived from a hash of its content and from the index of the token.
 * Code that compares sessions token by token therefore compares their images too.
 *
 * An image of R rows and C columns takes R * C positions of a session, but only max(R, C) rotary
 * positions (mrope): its tokens share one time index and differ in row and column, and the text
 * after it continues behind the longer side. Image spans record the resulting rotary offset.
 *
 * An image is appended from its first token. It may be split between work items and passes.
 */
#include "base/fpmode.h"
#include "base/cpu.h"
#include "base/mem.h"
#include "engine/engine_int.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <string.h>

enum { MAX_THREADS = 512 };

/* ---- encoding ---- */

static uint32_t image_threads(uint32_t wanted)
{
    cores found;
    if (wanted > 0)
        return wanted < MAX_THREADS ? wanted : MAX_THREADS;
    cores_find(&found);
    return found.n;
}

static mote_status image_check(const mote_model *m, const mote_pixels *p, mote_error *err)
{
    const uint32_t side = MOTE_IMAGE_SIDE;
    if (m == NULL || p == NULL || p->rgb == NULL)
        return err_set(err, MOTE_E_ARG, "mote_image_new: model and pixels must not be NULL");
    if (!m->has_vision)
        return err_set(err, MOTE_E_UNSUPPORTED,
                       "images are not supported: the model was opened without an mmproj file");
    if (p->width == 0 || p->height == 0 || p->width % side != 0 || p->height % side != 0)
        return err_set(err, MOTE_E_ARG, "image sides must be multiples of %u, got %u x %u", side,
                       p->width, p->height);
    const uint64_t tokens = (uint64_t)(p->width / side) * (p->height / side);
    if (tokens > MOTE_IMAGE_MAX_TOKENS)
        return err_set(err, MOTE_E_ARG, "image of %u x %u has %llu tokens; at most %d", p->width,
                       p->height, (unsigned long long)tokens, MOTE_IMAGE_MAX_TOKENS);
    return MOTE_OK;
}

/* Threads and scratch of one run of the vision encoder. */
typedef struct encoder_run {
    nn nn;
    vision_scratch scratch;
    arena memory;
} encoder_run;

/* Takes the scratch from the arena, or counts it; returns its bytes. */
static size_t encoder_run_take(encoder_run *r, const mote_model *m, uint32_t rows, uint32_t cols,
                               uint32_t threads)
{
    vision_scratch_take(&r->scratch, &r->memory, &m->vision, rows, cols);
    r->nn.worker_bytes = nn_worker_bytes(m->vision.kinds);
    r->nn.worker_memory = arena_take(&r->memory, threads, r->nn.worker_bytes);
    return r->memory.used;
}

/* Measures the scratch with an empty arena, then allocates it in one block. */
static mote_status image_encode(const mote_model *m, const vision_frame *frame, uint32_t threads,
                                float *features, mote_error *err)
{
    encoder_run r = {0};
    const size_t bytes = encoder_run_take(&r, m, frame->rows, frame->cols, threads);
    r = (encoder_run){.nn = {.k = &m->kernels}, .memory = {.base = mem_new(bytes, 1)}};
    if (r.memory.base == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: %zu bytes to encode an image", bytes);
    mote_status status = pool_new(&r.nn.pool, threads, err);
    if (status == MOTE_OK) {
        encoder_run_take(&r, m, frame->rows, frame->cols, threads);
        vision_encoder_run(&m->vision, &r.nn, &r.scratch, frame, features, NULL, NULL);
        status = model_check_files(m, err);
        pool_free(r.nn.pool);
        arena_release(&r.memory);
    }
    mem_free(r.memory.base);
    return status;
}

/* Ids below 0 from an XXH3-128 hash of sizes and pixels. */
static void image_set_ids(mote_image *p, const mote_pixels *pixels)
{
    const size_t bytes = (size_t)pixels->width * pixels->height * 3;
    XXH3_state_t state;
    XXH3_128bits_reset(&state);
    XXH3_128bits_update(&state, &pixels->width, sizeof pixels->width);
    XXH3_128bits_update(&state, &pixels->height, sizeof pixels->height);
    XXH3_128bits_update(&state, pixels->rgb, bytes);
    if (pixels->second_frame != NULL)
        XXH3_128bits_update(&state, pixels->second_frame, bytes);
    const XXH128_hash_t content = XXH3_128bits_digest(&state);
    for (size_t i = 0; i < p->n; i++) {
        const uint64_t hash = XXH3_64bits_withSeed(&content, sizeof content, i);
        p->ids[i] = -1 - (mote_token)(hash & INT32_MAX);
    }
}

mote_status mote_image_new(mote_image **out, const mote_model *model, const mote_pixels *pixels,
                           uint32_t threads, mote_error *err)
{
    FPMODE_SCOPE;
    if (out == NULL)
        return err_set(err, MOTE_E_ARG, "mote_image_new: out must not be NULL");
    *out = NULL;
    TRY(image_check(model, pixels, err));
    mote_image *p = mem_new(1, sizeof *p);
    if (p == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: %zu bytes for an image", sizeof *p);
    p->rows = pixels->height / MOTE_IMAGE_SIDE;
    p->cols = pixels->width / MOTE_IMAGE_SIDE;
    p->n = (size_t)p->rows * p->cols;
    p->bytes = sizeof *p + p->n * (model->hp.n_embd * sizeof *p->features + sizeof *p->ids);
    p->features = mem_new(p->n, model->hp.n_embd * sizeof *p->features);
    p->ids = mem_new(p->n, sizeof *p->ids);
    const vision_frame frame = {.first = pixels->rgb,
                                .second = pixels->second_frame != NULL ? pixels->second_frame
                                                                       : pixels->rgb,
                                .rows = pixels->height / VISION_PATCH,
                                .cols = pixels->width / VISION_PATCH};
    mote_status status =
        p->features == NULL || p->ids == NULL
            ? err_set(err, MOTE_E_MEMORY, "out of memory: %llu bytes for an image of %zu tokens",
                      (unsigned long long)p->bytes, p->n)
            : image_encode(model, &frame, image_threads(threads), p->features, err);
    if (status != MOTE_OK) {
        mote_image_free(p);
        return status;
    }
    image_set_ids(p, pixels);
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
    if (!m->has_vision)
        return 0;
    encoder_run r = {0};
    const uint32_t n = image_threads(threads);
    return encoder_run_take(&r, m, height / VISION_PATCH, width / VISION_PATCH, n) + pool_bytes(n);
}

/* ---- spans: lookup ---- */

/* The image that the session ends inside of; NULL: none. */
static const image_span *image_spans_open(const mote_session *s)
{
    if (s->n_spans == 0)
        return NULL;
    const image_span *last = &s->spans[s->n_spans - 1];
    return last->start + span_tokens(last) > s->length ? last : NULL;
}

/* Rotary position minus position, behind the first n spans. */
static int64_t image_spans_rope_offset(const mote_session *s, uint32_t n)
{
    int64_t offset = 0;
    for (uint32_t i = 0; i < n; i++) {
        const image_span *span = &s->spans[i];
        const uint32_t side = span->rows > span->cols ? span->rows : span->cols;
        offset += (int64_t)side - (int64_t)span_tokens(span);
    }
    return offset;
}

/* The image of the work item that has this id as token number `index`; NULL: none. */
static const mote_image *work_find_image(const mote_work *w, mote_token id, uint64_t index)
{
    for (size_t i = 0; i < w->n_images; i++) {
        const mote_image *p = w->images[i];
        if (p != NULL && index < p->n && p->ids[index] == id)
            return p;
    }
    return NULL;
}

bool image_spans_end_open(const mote_session *s)
{
    return image_spans_open(s) != NULL;
}

int64_t image_spans_end_offset(const mote_session *s)
{
    return image_spans_rope_offset(s, s->n_spans);
}

/* ---- spans: check ---- */

static mote_status image_spans_broken(mote_error *err)
{
    return err_set(err, MOTE_E_ARG,
                   "image tokens must be contiguous and start with the first token of the image");
}

/* Checks the image tokens from token i of the work item on; token i has number `index` in its
 * image. *end: the first token after them. */
static mote_status work_check_image(const mote_work *w, size_t i, uint64_t index, size_t *end,
                                    mote_error *err)
{
    const mote_image *p = work_find_image(w, w->tokens[i], index);
    if (p == NULL)
        return err_set(err, MOTE_E_ARG, "token %d is not the first token of an image in `images`",
                       w->tokens[i]);
    const size_t in_image = p->n - (size_t)index, in_item = w->n - i;
    const size_t n = in_image < in_item ? in_image : in_item;
    if (memcmp(w->tokens + i, p->ids + index, n * sizeof *p->ids) != 0)
        return image_spans_broken(err);
    *end = i + n;
    return MOTE_OK;
}

mote_status image_spans_check(const mote_session *s, const mote_work *w, mote_error *err)
{
    const image_span *open = image_spans_open(s);
    uint32_t n_spans = s->n_spans;
    size_t i = 0;
    if (open != NULL) {
        if (w->tokens[0] >= 0)
            return image_spans_broken(err);
        TRY(work_check_image(w, 0, s->length - open->start, &i, err));
    }
    while (i < w->n) {
        if (w->tokens[i] >= 0) {
            i++;
            continue;
        }
        TRY(work_check_image(w, i, 0, &i, err));
        if (n_spans++ == SESSION_SPANS)
            return err_set(err, MOTE_E_FULL, "too many images: a session holds at most %d",
                           SESSION_SPANS);
    }
    return MOTE_OK;
}

/* ---- spans: append ---- */

/* The image of token `at` of the segment. If it starts there (open is NULL), adds its span. */
static pass_image image_spans_append_one(mote_session *s, const mote_work *w, size_t from,
                                         size_t at, size_t n, const image_span *open)
{
    const uint64_t index = open != NULL ? s->length - open->start : 0;
    const mote_image *p = work_find_image(w, w->tokens[from + at], index);
    const size_t in_image = p->n - (size_t)index, in_segment = n - at;
    if (open == NULL)
        s->spans[s->n_spans++] = (image_span){s->length + at, p->rows, p->cols};
    const image_span *span = &s->spans[s->n_spans - 1];
    const int64_t offset_before = image_spans_rope_offset(s, s->n_spans - 1);
    return (pass_image){.at = at,
                        .n = in_image < in_segment ? in_image : in_segment,
                        .features = p->features + (size_t)index * s->engine->model->hp.n_embd,
                        .rope_base = (uint64_t)((int64_t)span->start + offset_before),
                        .first = (uint32_t)index,
                        .cols = p->cols,
                        .rope_offset = image_spans_rope_offset(s, s->n_spans)};
}

size_t image_spans_append(mote_session *s, const mote_work *w, size_t from, size_t n,
                          pass_image *images, int64_t *rope_offset)
{
    const image_span *open = image_spans_open(s);
    size_t n_images = 0;
    *rope_offset = image_spans_rope_offset(s, s->n_spans);
    for (size_t at = 0; at < n;) {
        if (w->tokens[from + at] >= 0) {
            at++;
            continue;
        }
        images[n_images] = image_spans_append_one(s, w, from, at, n, open);
        at += images[n_images++].n;
        open = NULL;
    }
    return n_images;
}

void image_spans_set(mote_session *s, const mote_work *w)
{
    for (size_t i = 0; i < w->n;) {
        const mote_image *p = w->tokens[i] < 0 ? work_find_image(w, w->tokens[i], 0) : NULL;
        if (p != NULL)
            s->spans[s->n_spans++] = (image_span){i, p->rows, p->cols};
        i += p != NULL ? p->n : 1;
    }
}

void image_spans_trim(mote_session *s)
{
    while (s->n_spans > 0 && s->spans[s->n_spans - 1].start >= s->length)
        s->n_spans--;
}
