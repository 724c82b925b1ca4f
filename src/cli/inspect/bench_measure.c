/* SPDX-License-Identifier: Apache-2.0 */
/* bench_measure.c - see bench_measure.h. */
#include "cli/inspect/bench_measure.h"

#include "base/mem.h"
#include "base/os.h"
#include "base/philox.h"
#include "cli/term/interrupt.h"

#include <stdlib.h>

enum { SLICE = 512, FIRST_PROMPT = 16, DECODE_WARMUP = 4 };

/* Which tokens are read does not matter for speed, so any will do. */
static mote_token any_token(const mote_model *model, uint64_t i)
{
    mote_model_info info;
    mote_model_describe(model, &info);
    return (mote_token)(philox(1, i, 0).word[0] % info.tokens);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void settle(bench_time *out, double *seconds, uint32_t n, uint64_t tokens)
{
    qsort(seconds, n, sizeof *seconds, by_value);
    *out =
        (bench_time){.best = seconds[0], .median = seconds[n / 2], .repeats = n, .tokens = tokens};
}

/* An engine with n sessions of `context` positions each. */
typedef struct rig {
    mote_engine *engine;
    mote_session **sessions;
    mote_work *work;
    mote_token *tokens;
    uint32_t n;
} rig;

static void rig_close(rig *r)
{
    interrupt_watch(NULL);
    for (uint32_t i = 0; r->sessions != NULL && i < r->n; i++)
        mote_session_free(r->sessions[i]);
    mote_engine_free(r->engine);
    mem_free(r->sessions);
    mem_free(r->work);
    mem_free(r->tokens);
}

static mote_status rig_open(rig *r, const bench *b, uint32_t n, uint64_t context, mote_error *err)
{
    *r = (rig){.n = n};
    r->sessions = mem_new(n, sizeof *r->sessions);
    r->work = mem_new(n, sizeof *r->work);
    r->tokens = mem_new(n > SLICE ? n : SLICE, sizeof *r->tokens);
    mote_status status = MOTE_OK;
    if (r->sessions == NULL || r->work == NULL || r->tokens == NULL)
        status = err_set(err, MOTE_E_MEMORY, "no memory for %u sessions", n);
    mote_engine_options options = {.threads = b->threads,
                                   .sessions = n,
                                   .positions = (uint64_t)n * context,
                                   .kv = b->kv,
                                   .pin = b->pin};
    if (status == MOTE_OK)
        status = mote_engine_new(&r->engine, b->model, &options, err);
    for (uint32_t i = 0; status == MOTE_OK && i < n; i++)
        status = mote_session_new(&r->sessions[i], r->engine,
                                  &(mote_session_options){.context = context}, err);
    if (status == MOTE_OK)
        interrupt_watch(r->engine);
    else
        rig_close(r);
    return status;
}

/* Appends n tokens to session 0 in slices; logits only of the last. */
static mote_status read_tokens(rig *r, const bench *b, uint64_t n, mote_error *err)
{
    for (uint64_t done = 0; done < n;) {
        size_t slice = n - done < SLICE ? (size_t)(n - done) : SLICE;
        for (size_t i = 0; i < slice; i++)
            r->tokens[i] = any_token(b->model, done + i);
        bool last = done + slice == n;
        mote_work work = {.session = r->sessions[0],
                          .tokens = r->tokens,
                          .n = slice,
                          .want = last ? MOTE_LOGITS_LAST : MOTE_LOGITS_NONE};
        TRY(mote_step(r->engine, &work, 1, err));
        done += slice;
    }
    return MOTE_OK;
}

static mote_status prompt_repeats(rig *r, const bench *b, uint64_t n, double *seconds,
                                  mote_error *err)
{
    TRY(read_tokens(r, b, n < SLICE ? n : SLICE, err)); /* touches all memory once */
    for (uint32_t i = 0; i < b->repeats; i++) {
        mote_session_rewind(r->sessions[0], 0);
        double start = os_now();
        TRY(read_tokens(r, b, n, err));
        seconds[i] = os_now() - start;
    }
    return MOTE_OK;
}

mote_status bench_prompt(const bench *b, uint64_t n, bench_time *out, mote_error *err)
{
    rig r;
    double seconds[BENCH_MAX_REPEATS];
    TRY(rig_open(&r, b, 1, n, err));
    mote_status status = prompt_repeats(&r, b, n, seconds, err);
    rig_close(&r);
    if (status == MOTE_OK)
        settle(out, seconds, b->repeats, n);
    return status;
}

/* One token for every session, `steps` times. */
static mote_status decode(rig *r, const bench *b, uint32_t steps, mote_error *err)
{
    for (uint32_t step = 0; step < steps; step++) {
        for (uint32_t i = 0; i < r->n; i++) {
            r->tokens[i] = any_token(b->model, (uint64_t)i << 32 | step);
            r->work[i] = (mote_work){.session = r->sessions[i],
                                     .tokens = &r->tokens[i],
                                     .n = 1,
                                     .want = MOTE_LOGITS_LAST};
        }
        TRY(mote_step(r->engine, r->work, r->n, err));
    }
    return MOTE_OK;
}

static mote_status decode_repeats(rig *r, const bench *b, double *seconds, mote_error *err)
{
    TRY(decode(r, b, DECODE_WARMUP, err));
    for (uint32_t i = 0; i < b->repeats; i++) {
        double start = os_now();
        TRY(decode(r, b, b->decode_tokens, err));
        seconds[i] = os_now() - start;
    }
    return MOTE_OK;
}

static uint64_t decode_room(const bench *b)
{
    return DECODE_WARMUP + (uint64_t)b->repeats * b->decode_tokens;
}

mote_status bench_decode(const bench *b, uint64_t depth, bench_time *out, mote_error *err)
{
    rig r;
    double seconds[BENCH_MAX_REPEATS];
    TRY(rig_open(&r, b, 1, depth + decode_room(b), err));
    mote_status status = read_tokens(&r, b, depth, err);
    if (status == MOTE_OK)
        status = decode_repeats(&r, b, seconds, err);
    rig_close(&r);
    if (status == MOTE_OK)
        settle(out, seconds, b->repeats, b->decode_tokens);
    return status;
}

mote_status bench_streams(const bench *b, uint32_t n, bench_time *out, mote_error *err)
{
    rig r;
    double seconds[BENCH_MAX_REPEATS];
    TRY(rig_open(&r, b, n, decode_room(b), err));
    mote_status status = decode_repeats(&r, b, seconds, err);
    rig_close(&r);
    if (status == MOTE_OK)
        settle(out, seconds, b->repeats, (uint64_t)n * b->decode_tokens);
    return status;
}

static mote_status first_token(const bench *b, const char *path, mote_isa isa, mote_error *err)
{
    mote_model *model;
    TRY(mote_model_open(&model, path, &(mote_model_options){.isa = isa}, err));
    bench fresh = *b;
    fresh.model = model;
    rig r;
    mote_status status = rig_open(&r, &fresh, 1, 4096, err);
    if (status == MOTE_OK) {
        mote_choice choice;
        status = read_tokens(&r, &fresh, FIRST_PROMPT, err);
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
    double seconds[BENCH_MAX_REPEATS];
    for (uint32_t i = 0; i < b->repeats; i++) {
        double start = os_now();
        TRY(first_token(b, path, isa, err));
        seconds[i] = os_now() - start;
    }
    settle(out, seconds, b->repeats, 1);
    return MOTE_OK;
}
