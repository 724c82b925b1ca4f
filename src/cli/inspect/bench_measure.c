/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_measure.c - see bench_measure.h.
 *
 * The memory traffic of a token is computed from the GGUF file: it reads every matrix of every
 * layer and the output matrix once. Of a separate embedding table it reads one row, of the draft
 * head nothing.
 */
#include "cli/inspect/bench_measure.h"

#include "base/os.h"
#include "cli/inspect/bench_rig.h"
#include "fit/memory_read.h"
#include "gguf/gguf_files.h"

#include <stdio.h>

enum { FIRST_PROMPT = 16, DECODE_WARMUP = 4 };

static mote_status rig_time_prefill(rig *r, const bench *b, uint64_t n, bench_sample *samples,
                                    mote_error *err)
{
    TRY(rig_prefill(r, b, n < RIG_CHUNK ? n : RIG_CHUNK, err)); /* warm-up: touches all memory */
    for (uint32_t i = 0; i < b->repeats; i++) {
        mote_session_rewind(r->sessions[0], 0);
        const bench_sample start = sample_begin();
        TRY(rig_prefill(r, b, n, err));
        samples[i] = sample_end(start);
    }
    return MOTE_OK;
}

mote_status bench_prompt(const bench *b, uint64_t n, bench_time *out, mote_error *err)
{
    rig r;
    bench_sample samples[BENCH_MAX_REPEATS];
    TRY(rig_open(&r, b, 1, n, 0, err));
    mote_status status = rig_time_prefill(&r, b, n, samples, err);
    rig_close(&r);
    if (status == MOTE_OK)
        bench_summarize(out, samples, b, n);
    return status;
}

/* One token per session, `steps` times. */
static mote_status rig_decode(rig *r, const bench *b, uint32_t steps, mote_error *err)
{
    for (uint32_t step = 0; step < steps; step++) {
        for (uint32_t i = 0; i < r->n; i++) {
            r->tokens[i] = bench_token(b->model, (uint64_t)i << 32 | step);
            r->work[i] = (mote_work){.session = r->sessions[i],
                                     .tokens = &r->tokens[i],
                                     .n = 1,
                                     .want = MOTE_LOGITS_LAST};
        }
        TRY(mote_step(r->engine, r->work, r->n, err));
    }
    return MOTE_OK;
}

static mote_status rig_time_decode(rig *r, const bench *b, bench_sample *samples, mote_error *err)
{
    TRY(rig_decode(r, b, DECODE_WARMUP, err));
    for (uint32_t i = 0; i < b->repeats; i++) {
        const bench_sample start = sample_begin();
        TRY(rig_decode(r, b, b->decode_tokens, err));
        samples[i] = sample_end(start);
    }
    return MOTE_OK;
}

static uint64_t bench_decode_context(const bench *b)
{
    return DECODE_WARMUP + (uint64_t)b->repeats * b->decode_tokens;
}

mote_status bench_decode(const bench *b, uint64_t depth, bench_time *out, mote_error *err)
{
    rig r;
    bench_sample samples[BENCH_MAX_REPEATS];
    TRY(rig_open(&r, b, 1, depth + bench_decode_context(b), 0, err));
    mote_status status = rig_prefill(&r, b, depth, err);
    if (status == MOTE_OK)
        status = rig_time_decode(&r, b, samples, err);
    rig_close(&r);
    if (status == MOTE_OK)
        bench_summarize(out, samples, b, b->decode_tokens);
    return status;
}

mote_status bench_streams(const bench *b, uint32_t n, bench_time *out, mote_error *err)
{
    rig r;
    bench_sample samples[BENCH_MAX_REPEATS];
    TRY(rig_open(&r, b, n, bench_decode_context(b), 0, err));
    mote_status status = rig_time_decode(&r, b, samples, err);
    rig_close(&r);
    if (status == MOTE_OK)
        bench_summarize(out, samples, b, (uint64_t)n * b->decode_tokens);
    return status;
}

/* n tokens per step of session 0, `steps` times. */
static mote_status rig_verify(rig *r, const bench *b, uint32_t n, uint32_t steps, mote_error *err)
{
    for (uint32_t step = 0; step < steps; step++) {
        for (uint32_t i = 0; i < n; i++)
            r->tokens[i] = bench_token(b->model, (uint64_t)i << 32 | step);
        const mote_work work = {
            .session = r->sessions[0], .tokens = r->tokens, .n = n, .want = MOTE_LOGITS_ALL};
        TRY(mote_step(r->engine, &work, 1, err));
    }
    return MOTE_OK;
}

static mote_status rig_time_verify(rig *r, const bench *b, uint32_t n, bench_sample *samples,
                                   mote_error *err)
{
    TRY(rig_verify(r, b, n, DECODE_WARMUP, err));
    for (uint32_t i = 0; i < b->repeats; i++) {
        const bench_sample start = sample_begin();
        TRY(rig_verify(r, b, n, b->decode_tokens, err));
        samples[i] = sample_end(start);
    }
    return MOTE_OK;
}

mote_status bench_verify(const bench *b, uint32_t n, bench_time *out, mote_error *err)
{
    rig r;
    bench_sample samples[BENCH_MAX_REPEATS];
    if (n > RIG_CHUNK)
        return err_set(err, MOTE_E_ARG, "--verify %u: at most %d tokens per step", n, RIG_CHUNK);
    TRY(rig_open(&r, b, 1, n * bench_decode_context(b), n, err));
    mote_status status = rig_time_verify(&r, b, n, samples, err);
    rig_close(&r);
    if (status == MOTE_OK)
        bench_summarize(out, samples, b, (uint64_t)n * b->decode_tokens);
    return status;
}

static mote_status bench_one_first_token(const bench *b, const char *path, mote_isa isa,
                                         mote_error *err)
{
    mote_model *model;
    TRY(mote_model_open(&model, path, &(mote_model_options){.isa = isa}, err));
    bench fresh = *b;
    fresh.model = model;
    rig r;
    mote_status status = rig_open(&r, &fresh, 1, 4096, 0, err);
    if (status == MOTE_OK) {
        mote_choice choice;
        status = rig_prefill(&r, &fresh, FIRST_PROMPT, err);
        if (status == MOTE_OK)
            status = mote_sample(r.sessions[0], 0, NULL, &choice, err);
        rig_close(&r);
    }
    mote_model_close(model);
    return status;
}

mote_status bench_first_token(const bench *b, const char *path, mote_isa isa, bench_time *out,
                              mote_error *err)
{
    bench_sample samples[BENCH_MAX_REPEATS];
    for (uint32_t i = 0; i < b->repeats; i++) {
        const bench_sample start = sample_begin();
        TRY(bench_one_first_token(b, path, isa, err));
        samples[i] = sample_end(start);
    }
    bench_summarize(out, samples, b, 1);
    return MOTE_OK;
}

/* ---- memory traffic ---- */

/* Experts of a tensor: those that a token uses, of all. 1 of 1: not a tensor of experts. */
typedef struct bench_experts {
    uint32_t used, count;
} bench_experts;

static bool token_reads(const gguf *g, const gguf_tensor *t, const char *draft_prefix)
{
    const size_t n = strlen(draft_prefix);
    if (str_is(t->name, "token_embd.weight"))
        return gguf_find_tensor(g, "output.weight") == NULL;
    const bool draft = n > 0 && t->name.n >= n && memcmp(t->name.p, draft_prefix, n) == 0;
    return t->data != NULL && !draft;
}

/* Name prefix of the draft block, such as "blk.24."; "" without one. */
static mote_status bench_find_draft(const gguf *g, char *prefix, size_t room, mote_error *err)
{
    uint32_t blocks = 0, drafts = 0;
    bool found;
    char key[GGUF_MAX_KEY];
    TRY(gguf_get_u32(g, gguf_arch_key(g, "block_count", key), &blocks, &found, err));
    TRY(gguf_get_u32(g, gguf_arch_key(g, "nextn_predict_layers", key), &drafts, &found, err));
    prefix[0] = '\0';
    if (drafts > 0)
        snprintf(prefix, room, "blk.%u.", blocks - drafts);
    return MOTE_OK;
}

static mote_status bench_find_experts(const gguf *g, bench_experts *out, mote_error *err)
{
    bool found;
    char key[GGUF_MAX_KEY];
    *out = (bench_experts){1, 1};
    TRY(gguf_get_u32(g, gguf_arch_key(g, "expert_count", key), &out->count, &found, err));
    TRY(gguf_get_u32(g, gguf_arch_key(g, "expert_used_count", key), &out->used, &found, err));
    if (out->count == 0 || out->used > out->count)
        return err_set(err, MOTE_E_FORMAT, "%u of %u experts cannot be used", out->used,
                       out->count);
    return MOTE_OK;
}

typedef struct bench_file {
    gguf_files files;
    const gguf *g;
    char draft[24];
    bench_experts experts; /* of the model */
} bench_file;

static bench_experts bench_experts_of(const bench_file *o, const gguf_tensor *t)
{
    return t->dims[2] > 1 && t->dims[2] == o->experts.count ? o->experts : (bench_experts){1, 1};
}

static void bench_file_close(bench_file *o)
{
    gguf_files_close(&o->files);
}

static mote_status bench_file_open(bench_file *o, const char *path, mote_error *err)
{
    *o = (bench_file){0};
    mote_status status = gguf_files_open(&o->files, path, err);
    o->g = o->files.gguf;
    if (status == MOTE_OK)
        status = bench_find_draft(o->g, o->draft, sizeof o->draft, err);
    if (status == MOTE_OK)
        status = bench_find_experts(o->g, &o->experts, err);
    if (status != MOTE_OK)
        bench_file_close(o);
    return status;
}

mote_status bench_weights_of(bench_weights *out, const char *path, mote_error *err)
{
    bench_file o;
    TRY(bench_file_open(&o, path, err));
    *out = (bench_weights){.file_bytes = o.files.bytes, .quantization = gguf_file_type(o.g)};
    for (uint64_t i = 0; i < gguf_n_tensors(o.g); i++) {
        const gguf_tensor *t = gguf_tensor_at(o.g, i);
        const bench_experts e = bench_experts_of(&o, t);
        if (token_reads(o.g, t, o.draft))
            out->per_token += t->bytes / e.count * e.used;
    }
    bench_file_close(&o);
    return MOTE_OK;
}

static double bench_file_read(const bench_file *o, pool *threads)
{
    double start = os_now();
    for (uint64_t i = 0; i < gguf_n_tensors(o->g); i++) {
        const gguf_tensor *t = gguf_tensor_at(o->g, i);
        if (!token_reads(o->g, t, o->draft))
            continue;
        const bench_experts e = bench_experts_of(o, t);
        const uint64_t bytes = t->bytes / e.count;
        /* Experts far apart, and other ones in each tensor, as a token chooses them. */
        for (uint32_t j = 0; j < e.used; j++)
            memory_read(threads, t->data + (i * 7 + j * (e.count / e.used)) % e.count * bytes,
                        bytes);
    }
    return os_now() - start;
}

mote_status bench_bare_read(const char *path, pool *threads, uint32_t repeats, double *seconds,
                            mote_error *err)
{
    bench_file o;
    TRY(bench_file_open(&o, path, err));
    bench_file_read(&o, threads); /* warm-up: reads the file into memory */
    *seconds = bench_file_read(&o, threads);
    for (uint32_t i = 1; i < repeats; i++) {
        double again = bench_file_read(&o, threads);
        *seconds = again < *seconds ? again : *seconds;
    }
    bench_file_close(&o);
    return MOTE_OK;
}
