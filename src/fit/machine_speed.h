/* SPDX-License-Identifier: Apache-2.0 */
/*
 * machine_speed.h - how fast this machine runs the kernels of mote, measured in a few seconds, and
 * what follows for a model.
 *
 * For every weight format four layers with random weights are run. Decoding them reads more than the
 * caches hold, and prefilling them multiplies rows of real lengths. A model with tiny matrices gives
 * the time of everything that is not a product. The speed of a model follows from its tensor table:
 *
 *     decode   bytes of each format / its speed + layers + recurrent state / bandwidth
 *              + at the end of a context: KV cache / bandwidth + positions * attention layers
 *     prefill  multiply-adds of each format / their speed + layers
 *
 * The result is stored in the cache directory, so that `mote run` need not measure again.
 */
#ifndef MOTE_FIT_MACHINE_SPEED_H
#define MOTE_FIT_MACHINE_SPEED_H

#include "base/cpu.h"
#include "base/err.h"
#include "quant/quant.h"

#include <mote.h>

/* Tokens of the prompt that prefill speeds are about. */
enum { SPEED_PROMPT = 512 };

/* Above this `slowdown` other programs used the CPU during the measurement. */
#define SPEED_BUSY 1.25

typedef struct format_speed {
    double decode;  /* bytes of weights per second; 0: not measured */
    double row;     /* seconds per row of a matrix in addition */
    double prefill; /* multiply-adds per second */
} format_speed;

typedef struct machine_speed {
    char cpu[CPU_NAME_BYTES];
    uint32_t threads;
    mote_isa isa;
    uint32_t streams; /* sessions decoded together */
    double read;      /* bytes per second of a bare read */
    /* Seconds without products, of layers with 16 value heads and 8 attention heads: */
    double decode_rest;       /* per step, four layers */
    double decode_position;   /* per step, an attention layer, and position of the context */
    double prefill_delta;     /* per token and DeltaNet layer */
    double prefill_attention; /* per token and attention layer */
    double prefill_ffn;       /* per token, layer and feed-forward unit */
    double slowdown;          /* mean step / undisturbed step */
    format_speed formats[QUANT_N_FORMATS];
} machine_speed;

typedef struct speed_options {
    uint32_t threads; /* 0: one per core */
    mote_isa isa;
    uint32_t streams;   /* 0: 1 */
    uint32_t formats;   /* bit set of quant_format: those to measure */
    uint64_t memory;    /* bytes that the measurement may use */
    bool (*stop)(void); /* asked between runs; true ends with MOTE_E_CANCELED. NULL: never */
} speed_options;

/* Measures. Takes about a second per format. Results hold for an idle machine: see
 * machine_speed.c. */
mote_status machine_speed_measure(machine_speed *out, const speed_options *options,
                                  mote_error *err);

/* ---- the stored result ---- */

/* Reads the result of an earlier measurement from `path`. False: none, or of another CPU, number of
 * threads, instruction set or version, or without one of the formats. */
bool machine_speed_load(machine_speed *out, const char *path, const speed_options *options);
/* Replaces the file; creates its directory. Results for one stream only. */
mote_status machine_speed_save(const machine_speed *speed, const char *path, mote_error *err);
/* The file of this user: in MOTE_CACHE, else CACHE_HOME/mote, else HOME/.cache/mote; the arguments
 * are the values of the variables, or NULL. False: none of them is usable. */
bool machine_speed_path(char *out, size_t room, const char *mote_cache, const char *cache_home,
                        const char *home);

/* ---- a model ---- */

/* What one pass over a model costs, from its tensor table. */
typedef struct model_work {
    uint64_t
        bytes[QUANT_N_FORMATS];     /* weights that a decoded token reads, output matrix included */
    uint64_t rows[QUANT_N_FORMATS]; /* of these weights */
    uint64_t products[QUANT_N_FORMATS]; /* multiply-adds per prefilled token, without it */
    uint64_t head_bytes;
    quant_format head;
    uint64_t state_bytes;    /* recurrent state of a session */
    uint64_t feed_forward;   /* units of all layers */
    double delta_layers;     /* with 16 value heads */
    double attention_layers; /* with 8 heads */
    const char *quant;       /* of the file, such as "Q4_K_M"; NULL: not stated */
} model_work;

/* Reads the tensor table of a file. */
mote_status model_work_read(model_work *out, const char *path, mote_error *err);
/* Bit set of the formats that make up more than 1 % of the weights. */
uint32_t model_work_formats(const model_work *work);

typedef struct model_speed {
    double prefill;     /* tokens per second, prompt of SPEED_PROMPT tokens; 0: unknown */
    double decode;      /* tokens per second at the start of a context, all streams together */
    double decode_full; /* the same at its end */
} model_speed;

/* decode_full is for `context` tokens per stream, which take kv_bytes of KV cache in all. */
model_speed machine_speed_predict(const machine_speed *speed, const model_work *work,
                                  uint64_t context, uint64_t kv_bytes);

#endif
