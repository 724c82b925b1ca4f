/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vision_encoder.c - the vision encoder of mote-tiny compared with the reference and with itself.
 *
 * Three images: patch embedding, first block, last block and output rows must be within 1e-4 of the
 * largest value. Then images with sizes that fill no whole slice or key block must give the same
 * bits at every level and thread count. The same with the encoder in Q8_0, with bounds for its
 * loss. Then every other format that mmproj files are published in, or a quantiser makes of them.
 */
#include "golden/compare.h"

#include "base/mem.h"
#include "base/os.h"
#include "gguf/gguf_writer.h"
#include "model/vision_encoder.h"
#include "support/quant_encode.h"
#include "support/scale.h"

#include <stdlib.h>
#include <string.h>

enum { EMBD = 256, HIDDEN = 128 };
static const double exact = 1e-4, integers = 5e-2;

/* A vision encoder with its own threads and scratch. */
typedef struct encoder {
    os_map map;
    gguf *file;
    kern_table kernels;
    vision_encoder v;
    nn n;
} encoder;

static void open_vision(encoder *t, const char *path, mote_isa isa, uint32_t threads)
{
    mote_error err;
    memset(t, 0, sizeof *t);
    kern_table_init(&t->kernels, isa);
    if (os_map_open(&t->map, path, &err) != MOTE_OK ||
        gguf_read(&t->file, t->map.data, t->map.bytes, &err) != MOTE_OK ||
        vision_encoder_bind(&t->v, t->file, &t->kernels, EMBD, &err) != MOTE_OK ||
        pool_new(&t->n.pool, threads, &err) != MOTE_OK)
        rig_fail("%s: %s", path, err.text);
    t->n.k = &t->kernels;
    t->n.worker_bytes = NN_WORKER_BYTES;
    t->n.worker_memory = mem_new(threads, NN_WORKER_BYTES);
}

static void close_vision(encoder *t)
{
    pool_free(t->n.pool);
    mem_free(t->n.worker_memory);
    vision_encoder_fini(&t->v);
    gguf_free(t->file);
    os_map_close(&t->map);
}

static float *run_vision(const encoder *t, const vision_frame *frame, vision_tap_fn *tap, void *ctx)
{
    vision_scratch s;
    arena count = {0};
    vision_scratch_take(&s, &count, &t->v, frame->rows, frame->cols);
    arena memory = {.base = mem_new(count.used, 1)};
    vision_scratch_take(&s, &memory, &t->v, frame->rows, frame->cols);
    float *out = mem_new(vision_tokens(frame->rows, frame->cols) * t->v.shape.out, sizeof *out);
    vision_encoder_run(&t->v, &t->n, &s, frame, out, tap, ctx);
    arena_release(&memory);
    mem_free(memory.base);
    return out;
}

/* ---- compared with the reference ---- */

static void expect(const char *what, const float *got, const float *want, size_t n, double bound)
{
    const double far = farthest(got, want, n) / largest(want, n);
    printf("%-28s %.1e\n", what, far);
    if (!(far <= bound))
        rig_fail("%s is %g of its largest value from the reference, not %g", what, far, bound);
}

/* The rows collected by the tap. */
typedef struct seen {
    float *patch_embed, *block0, *last;
} seen;

static void see(void *ctx, const char *what, int block, size_t first, const float *rows,
                size_t n_rows, size_t n_cols)
{
    seen *s = ctx;
    float *to = strcmp(what, "patch_embed") == 0           ? s->patch_embed
                : strcmp(what, "block") == 0 && block == 0 ? s->block0
                : strcmp(what, "last") == 0                ? s->last
                                                           : NULL;
    if (to != NULL)
        memcpy(to + first * n_cols, rows, n_rows * n_cols * sizeof *rows);
}

static void against_reference(const char *path, const char *image, double bound)
{
    enum { MAX_PATCHES = 320 };
    static float patch_embed[MAX_PATCHES * HIDDEN], block0[MAX_PATCHES * HIDDEN],
        last[MAX_PATCHES * HIDDEN];
    static const char *const names[] = {"patch_embed", "block0", "last_hidden", "merged"};
    seen s = {patch_embed, block0, last};
    char name[64];
    encoder t;
    snprintf(name, sizeof name, "pixels/%s", image);
    test_npy pixels = golden_needs("vision", name);
    const vision_frame frame = {pixels.u8, pixels.u8, (uint32_t)pixels.dims[0] / VISION_PATCH,
                                (uint32_t)pixels.dims[1] / VISION_PATCH};
    open_vision(&t, path, rig_lowest(), 2);
    float *out = run_vision(&t, &frame, see, &s);
    const float *got[] = {patch_embed, block0, last, out};
    for (size_t i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "%s.%s", image, names[i]);
        test_npy want = golden_needs("vision", name);
        expect(name, got[i], want.f32, want.count, bound);
        test_npy_free(&want);
    }
    mem_free(out);
    test_npy_free(&pixels);
    close_vision(&t);
}

/* ---- compared with itself ---- */

static uint8_t *noise(uint32_t rows, uint32_t cols, uint32_t seed)
{
    const size_t n = (size_t)rows * cols * VISION_PATCH * VISION_PATCH * 3;
    uint8_t *pixels = mem_new(n, 1);
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        pixels[i] = (uint8_t)(seed >> 24);
    }
    return pixels;
}

static void same_bits(const char *path)
{
    static const uint32_t sizes[][2] = {{2, 2}, {18, 30}, {6, 10}, {2, 200}};
    mote_isa levels[RIG_MAX_LEVELS];
    const size_t n_levels = rig_levels(levels);
    const size_t n = test_scaled(sizeof sizes / sizeof *sizes, 2);
    for (size_t i = 0; i < n; i++) {
        const uint32_t rows = sizes[i][0], cols = sizes[i][1];
        uint8_t *first = noise(rows, cols, 7), *second = noise(rows, cols, 8);
        const vision_frame frame = {first, second, rows, cols};
        float *want = NULL;
        for (size_t level = 0; level < n_levels; level++)
            for (uint32_t threads = 1; threads <= 3; threads++) {
                encoder t;
                open_vision(&t, path, levels[level], threads);
                float *got = run_vision(&t, &frame, NULL, NULL);
                if (want == NULL)
                    want = got;
                else if (memcmp(got, want, vision_tokens(rows, cols) * EMBD * sizeof *got) != 0)
                    rig_fail("%u x %u: %s with %u threads gives other bits", rows, cols,
                             mote_isa_name(levels[level]), threads);
                if (got != want)
                    mem_free(got);
                close_vision(&t);
            }
        mem_free(want);
        mem_free(first);
        mem_free(second);
    }
}

static void hold(const char *name, double bound)
{
    static const char *const images[] = {"gradient_300x200", "scene_320x240", "wide_1000x40"};
    char *path = strdup(rig_data(name));
    printf("%s\n", name);
    for (size_t i = 0; i < sizeof images / sizeof *images; i++)
        against_reference(path, images[i], bound);
    same_bits(path);
    free(path);
}

/* ---- other formats ---- */

/* The BF16 file with its matrices in another format. Rows that are no whole blocks stay BF16, as
 * quantisers leave them. */
static void write_in_format(const char *source, quant_format format, const char *path)
{
    const quant_info *info = quant_get(format);
    os_map map;
    gguf *g;
    gguf_writer *w;
    uint32_t done;
    mote_error err;
    MUST(os_map_open(&map, source, &err), &err);
    MUST(gguf_read(&g, map.data, map.bytes, &err), &err);
    MUST(gguf_writer_new(&w, &err), &err);
    for (uint64_t i = 0; i < gguf_n_kv(g); i++)
        gguf_writer_copy(w, gguf_kv_at(g, i));
    for (int pass = 0; pass < 2; pass++) {
        for (uint64_t i = 0; i < gguf_n_tensors(g); i++) {
            const gguf_tensor *t = gguf_tensor_at(g, i);
            const bool changed = t->n_dims == 2 && t->format->format == QUANT_BF16 &&
                                 t->dims[0] % info->block_values == 0;
            if (pass == 0) {
                MUST(gguf_writer_tensor(w, t->name, changed ? format : t->format->format, t->n_dims,
                                        t->dims, &err),
                     &err);
                continue;
            }
            const size_t n = (size_t)(t->bytes / t->format->block_bytes);
            float *values = mem_new(n, sizeof *values);
            unsigned char *blocks = mem_new(n, 4);
            t->format->decode(t->data, n, values);
            if (changed)
                test_quant_encode(format, values, n / info->block_values, blocks);
            MUST(gguf_writer_data(
                     w, changed ? blocks : t->data,
                     changed ? n / info->block_values * info->block_bytes : (size_t)t->bytes, &err),
                 &err);
            mem_free(values);
            mem_free(blocks);
        }
        if (pass == 0)
            MUST(gguf_writer_begin(w, path, str_of("s"), &done, &err), &err);
    }
    MUST(gguf_writer_commit(w, &err), &err);
    gguf_writer_free(w);
    gguf_free(g);
    os_map_close(&map);
}

static void hold_formats(const char *name)
{
    static const struct {
        quant_format format;
        double bound;
    } formats[] = {
        {QUANT_F32, 1e-4},  {QUANT_F16, 1e-3},  {QUANT_Q8_0, 5e-2},   {QUANT_Q6_K, 2e-2},
        {QUANT_Q5_K, 3e-2}, {QUANT_Q4_K, 6e-2}, {QUANT_Q5_1, 4e-1},   {QUANT_Q5_0, 4e-1},
        {QUANT_Q4_1, 4e-1}, {QUANT_Q4_0, 4e-1}, {QUANT_IQ4_NL, 4e-1}, {QUANT_IQ4_XS, 9e-2},
    };
    char *source = strdup(rig_data(name)), path[256];
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        printf("%s\n", quant_get(formats[i].format)->name);
        rig_temp_path(path, sizeof path, "mmproj.gguf");
        write_in_format(source, formats[i].format, path);
        against_reference(path, "scene_320x240", formats[i].bound);
        remove(path);
    }
    free(source);
}

int main(void)
{
    if (rig_data("mmproj-mote-tiny-BF16.gguf") == NULL) {
        printf("no mmproj file in the test data\n");
        return 77;
    }
    hold("mmproj-mote-tiny-BF16.gguf", exact);
    hold("mmproj/mmproj-mote-tiny-Q8_0.gguf", integers);
    hold_formats("mmproj-mote-tiny-BF16.gguf");
    return 0;
}
