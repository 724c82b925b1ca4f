/* SPDX-License-Identifier: Apache-2.0 */
/*
 * machine_speed.c - measures; see machine_speed.h.
 *
 * Other programs may use the machine, so the fastest of several short windows counts. A window of
 * decode is a step, a window of prefill is a sublayer: a whole prompt takes so long that no run of
 * it may be undisturbed. Each window is timed twice, by the clock and by the CPU time of the
 * process divided by its threads. On an idle machine they agree. On a busy one the threads wait for
 * a core, and CPU time is what an idle machine would need; it lacks only the competition of the
 * threads for the memory when they do not run at the same time.
 *
 * Runs are short, so that the whole measurement ends in seconds on a slow machine too: a prompt is
 * shortened if it would take longer than PROMPT_SECONDS.
 */
#include "fit/machine_speed.h"

#include "base/mem.h"
#include "base/os.h"
#include "base/os_cpu.h"
#include "fit/memory_read.h"
#include "fit/shape_file.h"

#include <math.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    LAYERS = 4, /* of the measured models: three DeltaNet layers and one attention layer */
    SUBLAYERS = 2 * LAYERS,
    VALUE_HEADS = 16,
    PROMPT_SUBLAYERS = 2, /* of a prompt of the model with real matrices: one DeltaNet layer */
    WARMUP = 32,          /* tokens */
    MIN_STEPS = 4,
    MIN_PROMPTS = 2,
    DEEP_PASSES = 3, /* prompts before the decoded tokens that measure attention */
    DEEP_STEPS = 24,
    DEEP_CONTEXT = (DEEP_PASSES + 1) * SPEED_PROMPT
};

/* Weights that one decoded token of the measured model reads, at least, and the limit: so many
 * times the cache that little of them stays there. Less if there is little memory. */
static const uint64_t weights_bytes = 256 << 20, weights_bytes_max = 1 << 30;
enum { CACHES = 5 };
static const double run_seconds = 0.3;   /* for the repeated runs of one measurement */
static const double small_seconds = 0.2; /* the same for the model with tiny matrices */
static const double all_seconds = 5.0;   /* later measurements have as few runs as possible */
/* Smallest share of products in a pass of the measured widths. */
static const double prefill_share = 0.4, decode_share = 0.8;
/* Smallest share of reading in products. */
static const double row_share = 0.5;
static const double prompt_seconds = 0.5; /* a longer run is shortened */

/* A moment by both clocks. */
typedef struct moment {
    double wall;
    double cpu; /* of all threads of the process */
} moment;

/* Fastest seconds; INFINITY: not measured. */
typedef struct window_times {
    double delta, attention, feed_forward; /* one sublayer, not the last one */
    double whole;                          /* all sublayers of a pass */
} window_times;

typedef struct pass_times {
    window_times wall, cpu; /* CPU time is divided by the number of threads */
    moment spent;           /* in all passes */
    uint32_t n;             /* passes */
} pass_times;

static moment moment_now(void)
{
    struct timespec cpu = {0};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    return (moment){os_now(), (double)cpu.tv_sec + 1e-9 * (double)cpu.tv_nsec};
}

/* CPU time per thread. */
static moment moment_since(moment start, moment end, uint32_t threads)
{
    return (moment){end.wall - start.wall, (end.cpu - start.cpu) / threads};
}

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
    /* the running pass */
    moment at[SUBLAYERS + 2]; /* when each sublayer began; before them the pass itself */
    uint32_t n_at;
    uint32_t sublayers; /* the pass ends after so many; 0: all */
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

static mote_status rig_open(speed_rig *r, const model_shape *shape, quant_format format,
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
                                        .positions = (uint64_t)r->n * shape->context,
                                        .batch = SPEED_PROMPT};
    TRY(mote_engine_new(&r->engine, r->model, &engine, err));
    for (uint32_t i = 0; i < r->n; i++)
        TRY(mote_session_new(&r->sessions[i], r->engine, NULL, err));
    for (uint32_t i = 0; i < SPEED_PROMPT; i++)
        r->tokens[i] = (mote_token)(i * 7 % shape->vocabulary);
    return MOTE_OK;
}

/* ---- one pass ---- */

/* The engine calls it before the pass and before every sublayer. */
static void rig_hook(void *ctx)
{
    speed_rig *r = ctx;
    if (r->n_at < SUBLAYERS + 2)
        r->at[r->n_at++] = moment_now();
    if (r->sublayers > 0 && r->n_at == r->sublayers + 2)
        for (uint32_t i = 0; i < r->n; i++)
            mote_step_abort(r->sessions[i]);
}

static void time_lower(double *best, double seconds)
{
    *best = seconds < *best ? seconds : *best;
}

/* The time of sublayer i, from 0. */
static double *window_at(window_times *t, uint32_t i)
{
    if (i % 2 == 1)
        return &t->feed_forward;
    return i / 2 % 4 == 3 ? &t->attention : &t->delta;
}

static void times_add(pass_times *t, const speed_rig *r, moment end)
{
    const uint32_t threads = mote_engine_threads(r->engine);
    const uint32_t n = r->sublayers > 0 ? r->sublayers : SUBLAYERS - 1;
    for (uint32_t i = 0; i < n && i + 2 < r->n_at; i++) {
        const moment time = moment_since(r->at[i + 1], r->at[i + 2], threads);
        time_lower(window_at(&t->wall, i), time.wall);
        time_lower(window_at(&t->cpu, i), time.cpu);
    }
    const moment whole = moment_since(r->at[1], end, threads);
    time_lower(&t->wall.whole, whole.wall);
    time_lower(&t->cpu.whole, whole.cpu);
    t->spent.wall += whole.wall;
    t->spent.cpu += whole.cpu;
    t->n++;
}

static pass_times times_none(void)
{
    const window_times none = {INFINITY, INFINITY, INFINITY, INFINITY};
    return (pass_times){.wall = none, .cpu = none};
}

/* How many times as long as on an idle machine. */
static double times_slowdown(const pass_times *t)
{
    return t->spent.cpu > 0 ? t->spent.wall / t->spent.cpu : 1;
}

static const window_times *times_undisturbed(const pass_times *t)
{
    return times_slowdown(t) > SPEED_BUSY ? &t->cpu : &t->wall;
}

/* `tokens` tokens of each of the first n sessions. t: NULL: not timed. */
static mote_status rig_pass(speed_rig *r, uint32_t n, const mote_token *tokens, size_t n_tokens,
                            pass_times *t, mote_error *err)
{
    for (uint32_t i = 0; i < n; i++)
        r->work[i] = (mote_work){
            .session = r->sessions[i], .tokens = tokens, .n = n_tokens, .want = MOTE_LOGITS_LAST};
    r->n_at = 0;
    mote_error canceled;
    const mote_status status = mote_step_with_hook(r->engine, r->work, n, rig_hook, r, &canceled);
    const moment end = moment_now();
    if (status != MOTE_OK && !(status == MOTE_E_CANCELED && r->sublayers > 0))
        return err_set(err, status, "%s", canceled.text);
    if (t != NULL)
        times_add(t, r, end);
    if (r->options->stop != NULL && r->options->stop())
        return err_set(err, MOTE_E_CANCELED, "interrupted");
    return MOTE_OK;
}

/* ---- a measurement ---- */

/* Time for another pass, if `before` was spent before this run. */
static bool rig_has_time(const speed_rig *r, const pass_times *t, double before)
{
    return t->spent.wall - before + t->spent.wall / t->n < r->seconds;
}

/* Lowers `out` to the times of a prompt. A prompt has the length *n_tokens, which is chosen if it is
 * 0. */
static mote_status rig_time_prefill(speed_rig *r, uint32_t sublayers, pass_times *out,
                                    uint32_t *n_tokens, mote_error *err)
{
    pass_times warm = times_none();
    uint32_t n = *n_tokens > 0 ? *n_tokens : SPEED_PROMPT;
    r->sublayers = sublayers;
    for (int i = 0; i < 2; i++) {
        mote_session_rewind(r->sessions[0], 0);
        warm = times_none();
        TRY(rig_pass(r, 1, r->tokens, WARMUP, &warm, err));
    }
    while (*n_tokens == 0 && n > WARMUP &&
           times_undisturbed(&warm)->whole / WARMUP * n > 2 * prompt_seconds)
        n /= 2;
    const double before = out->spent.wall;
    for (uint32_t i = 0; i < MIN_PROMPTS || rig_has_time(r, out, before); i++) {
        mote_session_rewind(r->sessions[0], 0);
        TRY(rig_pass(r, 1, r->tokens, n, out, err));
    }
    r->sublayers = 0;
    *n_tokens = n;
    return MOTE_OK;
}

/* The times of steps with one token of every session. */
static mote_status rig_time_decode(speed_rig *r, pass_times *out, mote_error *err)
{
    for (uint32_t i = 0; i < r->n; i++)
        mote_session_rewind(r->sessions[i], 0);
    TRY(rig_pass(r, r->n, r->tokens, 1, NULL, err)); /* touches all memory */
    *out = times_none();
    for (uint32_t i = 1; i < SPEED_PROMPT && (i <= MIN_STEPS || rig_has_time(r, out, 0)); i++)
        TRY(rig_pass(r, r->n, &r->tokens[i], 1, out, err));
    return MOTE_OK;
}

/* Seconds that an attention layer needs for one position of the context: the difference between
 * steps at its beginning and steps after DEEP_PASSES prompts. */
static mote_status rig_time_position(speed_rig *r, const pass_times *shallow, double *out,
                                     mote_error *err)
{
    pass_times deep = times_none();
    mote_session_rewind(r->sessions[0], 0);
    for (int i = 0; i < DEEP_PASSES; i++)
        TRY(rig_pass(r, 1, r->tokens, SPEED_PROMPT, NULL, err));
    for (uint32_t i = 0; i < DEEP_STEPS; i++)
        TRY(rig_pass(r, 1, &r->tokens[i], 1, &deep, err));
    const double all = times_undisturbed(&deep)->attention;
    const double more = all - times_undisturbed(shallow)->attention;
    *out = (more > 0 ? more : all) / (DEEP_PASSES * SPEED_PROMPT);
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
        const uint32_t n = mote_engine_threads(r->engine);
        moment best = {INFINITY, INFINITY}, spent = {0};
        for (int i = 0; i < 4; i++) {
            const moment start = moment_now();
            memory_read(threads, map.data, map.bytes);
            const moment time = moment_since(start, moment_now(), n);
            time_lower(&best.wall, time.wall);
            time_lower(&best.cpu, time.cpu);
            spent.wall += time.wall;
            spent.cpu += time.cpu;
        }
        const bool busy = spent.wall > SPEED_BUSY * spent.cpu;
        *out = (double)map.bytes / (busy ? best.cpu : best.wall);
        pool_free(threads);
    }
    os_map_close(&map);
    return status;
}

/* ---- the measured models ---- */

/* Columns of the matrices. */
typedef struct model_width {
    uint32_t embedding, feed_forward;
} model_width;

/* As few products as possible: 32 is the shortest row of a matrix. */
static const model_shape small_shape = {.layers = LAYERS,
                                        .embedding = 32,
                                        .feed_forward = 8192,
                                        .heads = 8,
                                        .kv_heads = 2,
                                        .value_heads = VALUE_HEADS,
                                        .vocabulary = 256,
                                        .context = DEEP_CONTEXT,
                                        .tied = true};

/* Sizes of the matrices: those of 2B, a middle size of the family, and those of 0.8B. */
static const model_width middle_width = {2048, 6144}, short_width = {1024, 3584};

/* Bytes of weights that a step should read: many times the cache, but not too much memory. */
static uint64_t step_bytes(uint64_t memory)
{
    uint64_t bytes = CACHES * os_cache_bytes();
    bytes = bytes < weights_bytes ? weights_bytes : bytes;
    bytes = bytes > weights_bytes_max ? weights_bytes_max : bytes;
    return bytes > memory / 4 ? memory / 4 : bytes;
}

/* The output matrix adds what the layers lack to step_bytes. */
static model_shape format_shape(model_width width, quant_format format, uint64_t memory)
{
    model_shape shape = {.layers = LAYERS,
                         .embedding = width.embedding,
                         .feed_forward = width.feed_forward,
                         .heads = 8,
                         .kv_heads = 2,
                         .value_heads = VALUE_HEADS,
                         .vocabulary = 4096,
                         .context = SPEED_PROMPT,
                         .tied = true};
    /* of all layers, as rows of the output matrix; about */
    const uint64_t rows = LAYERS * (3 * (uint64_t)width.feed_forward + 10240);
    uint64_t row_bytes = 1;
    quant_row_bytes(format, shape.embedding, &row_bytes);
    const uint64_t wanted = step_bytes(memory) / row_bytes;
    if (wanted > rows + shape.vocabulary)
        shape.vocabulary = (uint32_t)(wanted - rows);
    return shape;
}

/* The measured width: the short one if there is too little memory for the other. */
static model_width format_width(quant_format format, uint64_t memory)
{
    const uint64_t rows = LAYERS * (3 * (uint64_t)middle_width.feed_forward + 10240);
    uint64_t row_bytes = 1;
    quant_row_bytes(format, middle_width.embedding, &row_bytes);
    return rows * row_bytes > memory / 4 ? short_width : middle_width;
}

/* The result of one measured model. */
typedef struct format_times {
    pass_times prefill, decode;
    uint32_t prompt; /* tokens */
    double position; /* seconds of an attention layer; of the tiny model only */
    double read;     /* bytes per second */
    model_work work;
    model_shape shape;
    double short_decode; /* seconds of a step of a model with short rows; 0: not measured */
    model_work short_work;
} format_times;

/* Everything but products: the matrices are tiny. */
static mote_status measure_rest(format_times *out, machine_speed *speed,
                                const speed_options *options, mote_error *err)
{
    speed_rig r;
    out->shape = small_shape;
    out->prefill = times_none();
    mote_status status = rig_open(&r, &small_shape, QUANT_Q8_0, options, err);
    r.seconds = small_seconds;
    if (status == MOTE_OK)
        status = rig_time_prefill(&r, 0, &out->prefill, &out->prompt, err);
    if (status == MOTE_OK)
        status = rig_time_decode(&r, &out->decode, err);
    if (status == MOTE_OK)
        status = rig_time_position(&r, &out->decode, &out->position, err);
    if (status == MOTE_OK) {
        mote_model_info info;
        mote_model_describe(r.model, &info);
        speed->isa = info.isa;
        speed->threads = mote_engine_threads(r.engine);
    }
    rig_close(&r);
    return status;
}

static mote_status measure_format(format_times *out, quant_format format,
                                  const speed_options *options, double seconds, mote_error *err)
{
    speed_rig r;
    const uint64_t memory = options->memory;
    out->shape = format_shape(format_width(format, memory), format, memory);
    out->prefill = times_none();
    mote_status status = rig_open(&r, &out->shape, format, options, err);
    r.seconds = seconds;
    if (status == MOTE_OK)
        status = rig_time_prefill(&r, PROMPT_SUBLAYERS, &out->prefill, &out->prompt, err);
    if (status == MOTE_OK)
        status = rig_time_decode(&r, &out->decode, err);
    if (status == MOTE_OK)
        status = rig_time_read(&r, &out->read, err);
    if (status == MOTE_OK) /* some time later */
        status = rig_time_prefill(&r, PROMPT_SUBLAYERS, &out->prefill, &out->prompt, err);
    if (status == MOTE_OK)
        status = model_work_read(&out->work, r.file.path, err);
    rig_close(&r);
    return status;
}

/* Decode with short rows. */
static mote_status measure_short_rows(format_times *out, quant_format format,
                                      const speed_options *options, double seconds, mote_error *err)
{
    speed_rig r;
    pass_times decode = times_none();
    const model_shape shape = format_shape(short_width, format, options->memory);
    mote_status status = rig_open(&r, &shape, format, options, err);
    r.seconds = seconds;
    if (status == MOTE_OK)
        status = rig_time_decode(&r, &decode, err);
    if (status == MOTE_OK)
        status = model_work_read(&out->short_work, r.file.path, err);
    rig_close(&r);
    out->short_decode = decode.n > 0 ? times_undisturbed(&decode)->whole : 0;
    return status;
}

/* Products of floats start every row anew, which takes as long as reading many bytes. Those of
 * other formats compute several rows at once. */
static bool format_has_row_cost(quant_format format, const format_times *t)
{
    const bool floats = format == QUANT_F32 || format == QUANT_F16 || format == QUANT_BF16;
    return floats && t->shape.embedding != short_width.embedding;
}

static mote_status measure_one(format_times *out, quant_format format, const speed_options *options,
                               double seconds, mote_error *err)
{
    TRY(measure_format(out, format, options, seconds, err));
    if (!format_has_row_cost(format, out))
        return MOTE_OK;
    return measure_short_rows(out, format, options, seconds, err);
}

/* ---- speeds from times ---- */

static void keep_smaller(double *least, double seconds)
{
    if (!(*least > 0) || seconds < *least)
        *least = seconds;
}

static void speed_set_rest(machine_speed *out, const format_times *t)
{
    const window_times *p = times_undisturbed(&t->prefill);
    keep_smaller(&out->prefill_delta, p->delta / t->prompt);
    keep_smaller(&out->prefill_attention, p->attention / t->prompt);
    keep_smaller(&out->prefill_ffn, p->feed_forward / t->prompt / t->shape.feed_forward);
    keep_smaller(&out->decode_rest, times_undisturbed(&t->decode)->whole);
    keep_smaller(&out->decode_position, t->position);
}

/* The time of products is that of the layers without that of the rest. If the rest was measured in
 * a slow moment, the difference is too small or negative: at these widths products take at least
 * `least` of the whole. */
static double time_of_products(double whole, double rest, double least)
{
    return whole - rest > least * whole ? whole - rest : least * whole;
}

static void speed_set_decode(machine_speed *out, quant_format format, const format_times *t)
{
    format_speed *speed = &out->formats[format];
    speed->row = 0;
    double step =
        time_of_products(times_undisturbed(&t->decode)->whole, out->decode_rest, decode_share);
    if (t->short_decode > 0) {
        /* two steps: bytes / decode + rows * row */
        const double bytes = (double)t->work.bytes[format], rows = (double)t->work.rows[format];
        const double short_bytes = (double)t->short_work.bytes[format];
        const double other = time_of_products(t->short_decode, out->decode_rest, decode_share);
        const double more = other - step / bytes * short_bytes;
        const double more_rows = (double)t->short_work.rows[format] - rows / bytes * short_bytes;
        speed->row = more > 0 && more_rows > 0 ? more / more_rows : 0;
        step = time_of_products(step, speed->row * rows, row_share);
    }
    speed->decode = (double)t->work.bytes[format] / step;
}

static void speed_set_format(machine_speed *out, quant_format format, const format_times *t)
{
    format_speed *speed = &out->formats[format];
    const model_shape *s = &t->shape;
    /* multiply-adds per token of a DeltaNet layer: qkv, gate, output, SwiGLU */
    const double value = 128.0 * s->value_heads, key = 128.0 * 16;
    const double products = s->embedding * (2 * key + 3 * value + 3.0 * s->feed_forward);
    const double rest = out->prefill_delta + out->prefill_ffn * s->feed_forward;
    const window_times *p = times_undisturbed(&t->prefill);
    const double prefill = (p->delta + p->feed_forward) / t->prompt;
    out->read = t->read > out->read ? t->read : out->read;
    speed->prefill = products / time_of_products(prefill, rest, prefill_share);
    speed_set_decode(out, format, t);
}

/* The mean of all formats. */
static double mean_slowdown(const format_times times[QUANT_N_FORMATS], uint32_t formats)
{
    double sum = 0;
    uint32_t n = 0;
    for (uint32_t f = 0; f < QUANT_N_FORMATS; f++)
        if (formats >> f & 1) {
            sum += times_slowdown(&times[f].decode);
            n++;
        }
    return n > 0 ? sum / n : 1;
}

/* The rest is measured at the beginning and at the end: it is a part of every other result. */
mote_status machine_speed_measure(machine_speed *out, const speed_options *given, mote_error *err)
{
    speed_options options = *given;
    format_times rest[2], times[QUANT_N_FORMATS];
    memset(rest, 0, sizeof rest);
    memset(times, 0, sizeof times);
    options.streams = given->streams == 0 ? 1 : given->streams;
    *out = (machine_speed){.streams = options.streams};
    cpu_name(out->cpu);
    const double start = os_now();
    TRY(measure_rest(&rest[0], out, &options, err));
    for (uint32_t f = 0; f < QUANT_N_FORMATS; f++)
        if (options.formats >> f & 1)
            TRY(measure_one(&times[f], (quant_format)f, &options,
                            os_now() - start < all_seconds ? run_seconds : 0, err));
    TRY(measure_rest(&rest[1], out, &options, err));
    speed_set_rest(out, &rest[0]);
    speed_set_rest(out, &rest[1]);
    for (uint32_t f = 0; f < QUANT_N_FORMATS; f++)
        if (options.formats >> f & 1)
            speed_set_format(out, (quant_format)f, &times[f]);
    out->slowdown = mean_slowdown(times, options.formats);
    return MOTE_OK;
}
