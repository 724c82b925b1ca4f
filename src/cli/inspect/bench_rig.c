/* SPDX-License-Identifier: Apache-2.0 */
/* bench_rig.c - see bench_rig.h. */
#include "cli/inspect/bench_rig.h"

#include "base/mem.h"
#include "base/os.h"
#include "base/philox.h"
#include "base/ram.h"
#include "cli/term/terminal.h"

#include <stdlib.h>
#include <time.h>

mote_token bench_token(const mote_model *model, uint64_t i)
{
    mote_model_info info;
    mote_model_describe(model, &info);
    return (mote_token)(philox(1, i, 0).word[0] % info.tokens);
}

static double cpu_now(void)
{
    struct timespec now = {0};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

bench_sample sample_begin(void)
{
    return (bench_sample){os_now(), cpu_now()};
}

bench_sample sample_end(bench_sample start)
{
    return (bench_sample){os_now() - start.wall, cpu_now() - start.cpu};
}

static int bench_compare(const void *a, const void *b)
{
    double x = ((const bench_sample *)a)->wall, y = ((const bench_sample *)b)->wall;
    return (x > y) - (x < y);
}

void bench_summarize(bench_time *out, bench_sample *samples, const bench *b, uint64_t tokens)
{
    const uint32_t n = b->repeats;
    qsort(samples, n, sizeof *samples, bench_compare);
    *out = (bench_time){.best = samples[0].wall,
                        .median = samples[n / 2].wall,
                        .best_cpu = samples[0].cpu,
                        .repeats = n,
                        .tokens = tokens};
    for (uint32_t i = 1; i < n; i++)
        out->best_cpu = samples[i].cpu < out->best_cpu ? samples[i].cpu : out->best_cpu;
    out->best_cpu /= b->threads > 0 ? b->threads : 1;
}

void rig_close(rig *r)
{
    interrupt_set_engine(NULL);
    for (uint32_t i = 0; r->sessions != NULL && i < r->n; i++)
        mote_session_free(r->sessions[i]);
    mote_engine_free(r->engine);
    mem_free(r->sessions);
    mem_free(r->work);
    mem_free(r->tokens);
}

static mote_status bench_check_memory(const bench *b, const mote_engine_options *options,
                                      mote_error *err)
{
    const unsigned long long mb = 1000 * 1000;
    const char *source = "--memory";
    mote_memory memory;
    ram machine;
    TRY(mote_engine_plan(b->model, options, &memory, err));
    ram_find(&machine);
    const uint64_t budget =
        b->memory > 0 ? b->memory : ram_budget(&machine, memory.weights, &source);
    if (memory.total <= budget)
        return MOTE_OK;
    return err_set(err, MOTE_E_MEMORY,
                   "%u streams with %llu positions in all need %llu MB, available are %llu MB "
                   "(%s); lower --prompt, --depth, --streams or --verify",
                   options->sessions, (unsigned long long)options->positions, memory.total / mb,
                   budget / mb, source);
}

mote_status rig_open(rig *r, const bench *b, uint32_t n, uint64_t context, uint32_t logits_rows,
                     mote_error *err)
{
    *r = (rig){.n = n};
    r->sessions = mem_new(n, sizeof *r->sessions);
    r->work = mem_new(n, sizeof *r->work);
    r->tokens = mem_new(n > RIG_CHUNK ? n : RIG_CHUNK, sizeof *r->tokens);
    mote_status status = MOTE_OK;
    if (r->sessions == NULL || r->work == NULL || r->tokens == NULL)
        status = err_set(err, MOTE_E_MEMORY, "out of memory: %u sessions", n);
    mote_engine_options options = {.threads = b->threads,
                                   .sessions = n,
                                   .positions = (uint64_t)n * context,
                                   .kv = b->kv,
                                   .pin = b->pin,
                                   .logits_rows = logits_rows,
                                   .drafts = b->drafts};
    if (status == MOTE_OK)
        status = bench_check_memory(b, &options, err);
    if (status == MOTE_OK)
        status = mote_engine_new(&r->engine, b->model, &options, err);
    for (uint32_t i = 0; status == MOTE_OK && i < n; i++)
        status = mote_session_new(&r->sessions[i], r->engine,
                                  &(mote_session_options){.context = context}, err);
    if (status == MOTE_OK)
        interrupt_set_engine(r->engine);
    else
        rig_close(r);
    return status;
}

mote_status rig_prefill(rig *r, const bench *b, uint64_t n, mote_error *err)
{
    for (uint64_t done = 0; done < n;) {
        size_t chunk = n - done < RIG_CHUNK ? (size_t)(n - done) : RIG_CHUNK;
        for (size_t i = 0; i < chunk; i++)
            r->tokens[i] = bench_token(b->model, done + i);
        bool last = done + chunk == n;
        mote_work work = {.session = r->sessions[0],
                          .tokens = r->tokens,
                          .n = chunk,
                          .want = last ? MOTE_LOGITS_LAST : MOTE_LOGITS_NONE};
        TRY(mote_step(r->engine, &work, 1, err));
        done += chunk;
    }
    return MOTE_OK;
}
