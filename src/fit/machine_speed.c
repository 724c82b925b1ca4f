/* SPDX-License-Identifier: Apache-2.0 */
/*
 * machine_speed.c - measures; see machine_speed.h.
 *
 * Every time is the fastest of several runs: the one that other programs disturb least, as in
 * `mote bench`. Runs are short, so that the whole measurement ends in seconds on a slow machine
 * too: a prompt is shortened if it would take longer than PROMPT_SECONDS.
 */
#include "fit/machine_speed.h"

#include "base/mem.h"
#include "base/os.h"
#include "fit/memory_read.h"
#include "fit/shape_file.h"

#include <string.h>

enum {
    VALUE_HEADS = 16,
    DECODE_WINDOW = 4, /* tokens per timed run */
    WARMUP = 32,
    MAX_STREAMS = 4096
};

/* Weights that one decoded token of the measured model reads. Above the cache of most machines;
 * less if there is little memory. */
static const uint64_t weights_bytes = 256 << 20;
static const double run_seconds = 0.3;    /* for the repeated runs of one measurement */
static const double small_seconds = 0.15; /* the same for the model with tiny matrices */
static const double all_seconds = 5.0;    /* later measurements have one run each */
static const double prompt_seconds = 0.5; /* a longer run is shortened */

/* A model of random weights with an engine and its sessions. */
typedef struct speed_rig {
    shape_file file;
    mote_model *model;
    mote_engine *engine;
    mote_session **sessions; /* [n] */
    mote_work *work;         /* [n] */
    mote_token tokens[SPEED_PROMPT];
    uint32_t n;
    const speed_options *options;
    double seconds; /* for the runs of one measurement */
} speed_rig;

static void rig_close(speed_rig *r)
{
    for (uint32_t i = 0; r->sessions != NULL && i < r->n; i++)
        mote_session_free(r->sessions[i]);
    mote_engine_free(r->engine);
    mote_model_close(r->model);
    shape_file_close(&r->file);
    mem_free(r->sessions);
    mem_free(r->work);
}

static mote_status rig_open(speed_rig *r, const fit_shape *shape, quant_format format,
                            const speed_options *options, mote_error *err)
{
    const fit_mix mix = {.most = format, .head = format, .better = format};
    *r = (speed_rig){.file = {.fd = -1}, .n = options->streams, .options = options};
    r->sessions = mem_new(r->n, sizeof *r->sessions);
    r->work = mem_new(r->n, sizeof *r->work);
    if (r->sessions == NULL || r->work == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: %u sessions", r->n);
    TRY(shape_file_create(&r->file, shape, &mix, SHAPE_FILLED, err));
    TRY(mote_model_open(&r->model, r->file.path, &(mote_model_options){.isa = options->isa}, err));
    const mote_engine_options engine = {.threads = options->threads,
                                        .sessions = r->n,
                                        .positions = (uint64_t)r->n * SPEED_PROMPT,
                                        .batch = SPEED_PROMPT};
    TRY(mote_engine_new(&r->engine, r->model, &engine, err));
    for (uint32_t i = 0; i < r->n; i++)
        TRY(mote_session_new(&r->sessions[i], r->engine, NULL, err));
    for (uint32_t i = 0; i < SPEED_PROMPT; i++)
        r->tokens[i] = (mote_token)(i * 7 % shape->vocabulary);
    return MOTE_OK;
}

static mote_status rig_check_stop(const speed_rig *r, mote_error *err)
{
    if (r->options->stop != NULL && r->options->stop())
        return err_set(err, MOTE_E_CANCELED, "interrupted");
    return MOTE_OK;
}

static mote_status rig_prefill(speed_rig *r, uint32_t n, double *seconds, mote_error *err)
{
    mote_session_rewind(r->sessions[0], 0);
    const mote_work work = {
        .session = r->sessions[0], .tokens = r->tokens, .n = n, .want = MOTE_LOGITS_LAST};
    const double start = os_now();
    TRY(mote_step(r->engine, &work, 1, err));
    *seconds = os_now() - start;
    return rig_check_stop(r, err);
}

/* Seconds per token of a prompt. */
static mote_status rig_time_prefill(speed_rig *r, double *out, mote_error *err)
{
    double seconds, best, spent;
    uint32_t n = SPEED_PROMPT;
    TRY(rig_prefill(r, WARMUP, &seconds, err));
    TRY(rig_prefill(r, WARMUP, &seconds, err));
    while (n > WARMUP && seconds / WARMUP * n > 2 * prompt_seconds)
        n /= 2;
    TRY(rig_prefill(r, n, &best, err)); /* touches all memory; counts if there is no time */
    for (spent = best; spent + best < r->seconds; spent += seconds) {
        TRY(rig_prefill(r, n, &seconds, err));
        best = seconds < best ? seconds : best;
    }
    *out = best / n;
    return MOTE_OK;
}

static mote_status rig_decode(speed_rig *r, uint32_t steps, double *seconds, mote_error *err)
{
    const double start = os_now();
    for (uint32_t step = 0; step < steps; step++) {
        for (uint32_t i = 0; i < r->n; i++)
            r->work[i] = (mote_work){.session = r->sessions[i],
                                     .tokens = &r->tokens[step],
                                     .n = 1,
                                     .want = MOTE_LOGITS_LAST};
        TRY(mote_step(r->engine, r->work, r->n, err));
    }
    *seconds = os_now() - start;
    return rig_check_stop(r, err);
}

/* Seconds per step with one token of every session. */
static mote_status rig_time_decode(speed_rig *r, double *out, mote_error *err)
{
    double seconds, best, spent;
    for (uint32_t i = 0; i < r->n; i++)
        mote_session_rewind(r->sessions[i], 0);
    TRY(rig_decode(r, 1, &seconds, err)); /* touches all memory */
    TRY(rig_decode(r, DECODE_WINDOW, &best, err));
    spent = seconds + best;
    for (uint32_t done = 1 + DECODE_WINDOW;
         spent + best < r->seconds && done + DECODE_WINDOW < SPEED_PROMPT; done += DECODE_WINDOW) {
        TRY(rig_decode(r, DECODE_WINDOW, &seconds, err));
        best = seconds < best ? seconds : best;
        spent += seconds;
    }
    *out = best / DECODE_WINDOW;
    return MOTE_OK;
}

/* Bytes per second of a bare read of the model's file. */
static mote_status rig_time_read(const speed_rig *r, double *out, mote_error *err)
{
    os_map map;
    pool *threads;
    TRY(os_map_open(&map, r->file.path, err));
    mote_status status = pool_new(&threads, mote_engine_threads(r->engine), err);
    if (status == MOTE_OK) {
        double best = 0;
        for (int i = 0; i < 4; i++) {
            const double start = os_now();
            memory_read(threads, map.data, map.bytes);
            const double seconds = os_now() - start;
            best = i == 0 || seconds < best ? seconds : best;
        }
        *out = (double)map.bytes / best;
        pool_free(threads);
    }
    os_map_close(&map);
    return status;
}

/* ---- the measured models ---- */

static const fit_shape small_shape = {.layers = 4,
                                      .embedding = 256,
                                      .feed_forward = 256,
                                      .heads = 8,
                                      .kv_heads = 2,
                                      .value_heads = VALUE_HEADS,
                                      .vocabulary = 256,
                                      .context = SPEED_PROMPT,
                                      .tied = true};

static fit_shape format_shape(quant_format format, uint64_t memory)
{
    fit_shape shape = {.layers = 4,
                       .embedding = 1024,
                       .feed_forward = 3584,
                       .heads = 8,
                       .kv_heads = 2,
                       .value_heads = VALUE_HEADS,
                       .context = SPEED_PROMPT,
                       .tied = true};
    uint64_t row_bytes = 1;
    quant_row_bytes(format, shape.embedding, &row_bytes);
    const uint64_t bytes = memory / 4 < weights_bytes ? memory / 4 : weights_bytes;
    const uint64_t rows = bytes / row_bytes;
    shape.vocabulary = rows < 4096 ? 4096 : (uint32_t)rows;
    return shape;
}

/* Times of one measured model. */
typedef struct speed_times {
    double prefill; /* seconds per token */
    double decode;  /* seconds per step */
    double read;    /* bytes per second */
    model_work work;
} speed_times;

/* Everything but products: their matrices are tiny. */
static mote_status measure_rest(machine_speed *out, const speed_options *options, mote_error *err)
{
    speed_rig r;
    double prefill = 0, decode = 0;
    mote_status status = rig_open(&r, &small_shape, QUANT_Q8_0, options, err);
    r.seconds = small_seconds;
    if (status == MOTE_OK)
        status = rig_time_prefill(&r, &prefill, err);
    if (status == MOTE_OK)
        status = rig_time_decode(&r, &decode, err);
    if (status == MOTE_OK) {
        mote_model_info info;
        mote_model_describe(r.model, &info);
        out->isa = info.isa;
        out->threads = mote_engine_threads(r.engine);
    }
    rig_close(&r);
    if (!(out->prefill_rest > 0) || prefill < out->prefill_rest)
        out->prefill_rest = prefill;
    if (!(out->decode_rest > 0) || decode < out->decode_rest)
        out->decode_rest = decode;
    return status;
}

static mote_status measure_format(speed_times *out, quant_format format,
                                  const speed_options *options, double seconds, mote_error *err)
{
    speed_rig r;
    const fit_shape shape = format_shape(format, options->memory);
    mote_status status = rig_open(&r, &shape, format, options, err);
    r.seconds = seconds;
    if (status == MOTE_OK)
        status = rig_time_prefill(&r, &out->prefill, err);
    if (status == MOTE_OK)
        status = rig_time_decode(&r, &out->decode, err);
    if (status == MOTE_OK)
        status = rig_time_read(&r, &out->read, err);
    if (status == MOTE_OK)
        status = model_work_read(&out->work, r.file.path, err);
    rig_close(&r);
    return status;
}

/* The time of products is that of the model without that of the rest. If the rest was measured in a
 * slow moment, the difference is too small or negative: products take at least a fifth. */
static double time_of_products(double whole, double rest)
{
    const double least = whole / 5;
    return whole - rest > least ? whole - rest : least;
}

static void speed_compute(machine_speed *out, quant_format format, const speed_times *t)
{
    format_speed *speed = &out->formats[format];
    out->read = t->read > out->read ? t->read : out->read;
    speed->decode = (double)t->work.bytes[format] / time_of_products(t->decode, out->decode_rest);
    const double head = (double)t->work.head_bytes / speed->decode / SPEED_PROMPT;
    speed->prefill =
        (double)t->work.products[format] / time_of_products(t->prefill, out->prefill_rest + head);
}

/* The rest is measured at the beginning and at the end: it is a part of every other result. */
mote_status machine_speed_measure(machine_speed *out, const speed_options *given, mote_error *err)
{
    speed_options options = *given;
    speed_times times[QUANT_N_FORMATS] = {{0}};
    options.streams = given->streams == 0 ? 1 : given->streams;
    *out = (machine_speed){.streams = options.streams};
    cpu_name(out->cpu);
    const double start = os_now();
    TRY(measure_rest(out, &options, err));
    for (uint32_t f = 0; f < QUANT_N_FORMATS; f++)
        if (options.formats >> f & 1)
            TRY(measure_format(&times[f], (quant_format)f, &options,
                               os_now() - start < all_seconds ? run_seconds : 0, err));
    TRY(measure_rest(out, &options, err));
    for (uint32_t f = 0; f < QUANT_N_FORMATS; f++)
        if (options.formats >> f & 1)
            speed_compute(out, (quant_format)f, &times[f]);
    return MOTE_OK;
}
