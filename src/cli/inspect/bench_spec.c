/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_spec.c - see bench_spec.h.
 *
 * Every repeat starts from the same short prompt and accepts the same drafts, so the number of tokens
 * of a repeat depends only on rates and draft length, and repeats differ only in time.
 *
 * The oracle accepts at even distances: of k tokens at a place with rate p it accepts k p, rounded up
 * or down. Independent draws would be off by several percent in the few steps of a repeat.
 */
#include "cli/inspect/bench_spec.h"

#include "base/mem.h"
#include "base/os.h"
#include "base/philox.h"
#include "cli/inspect/bench_rig.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PROMPT = 8, WARMUP_STEPS = 2, CHUNK = 32, ORACLE_SEED = 19 };

bool bench_spec_parse(const char *text, bench_spec_rates *out)
{
    size_t n = 0;
    for (const char *at = text;; at++) {
        char *end;
        const double rate = strtod(at, &end);
        if (end == at || n == BENCH_SPEC_MOST || !(rate >= 0 && rate <= 1) ||
            (*end != ',' && *end != '\0'))
            return false;
        out->at[n++] = rate;
        if (*end == '\0')
            break;
        at = end;
    }
    for (; n < BENCH_SPEC_MOST; n++)
        out->at[n] = out->at[n - 1];
    return true;
}

/* A stream between two steps: the session holds its tokens, row[0] is sampled and not appended. */
typedef struct spec_stream {
    mote_token row[BENCH_SPEC_MOST + 1]; /* the certain token, then the draft */
    uint32_t n_draft;                    /* of this step */
    double due[BENCH_SPEC_MOST];         /* by place: accepted if 1 or more after adding the rate */
} spec_stream;

typedef struct spec_run {
    const bench *b;
    const bench_spec_rates *rates;
    rig r;
    spec_stream *streams;   /* [r.n] */
    mote_draft_item *items; /* [r.n]; NULL: the model has no draft head */
    bench_spec_time *out;   /* the length being measured */
} spec_run;

/* The sampling of the model card: its cost is part of every token. */
static mote_status run_sample(const spec_run *s, uint32_t stream, size_t row, mote_error *err)
{
    static const mote_sampling how = {.temperature = 1, .top_k = 20, .top_p = 0.95f, .seed = 1};
    mote_choice choice;
    TRY(mote_sample(s->r.sessions[stream], row, &how, &choice, err));
    s->streams[stream].row[0] = choice.token;
    return MOTE_OK;
}

/* Rewinds all streams and prefills the prompt. */
static mote_status run_start(spec_run *s, mote_error *err)
{
    for (uint32_t i = 0; i < s->r.n; i++) {
        mote_session_rewind(s->r.sessions[i], 0);
        for (uint32_t place = 0; place < BENCH_SPEC_MOST; place++)
            s->streams[i].due[place] =
                (double)philox_unit(ORACLE_SEED, i * BENCH_SPEC_MOST + place, 0);
    }
    for (uint32_t i = 0; i < PROMPT; i++)
        s->r.tokens[i] = bench_token(s->b->model, i);
    for (uint32_t i = 0; i < s->r.n; i++)
        s->r.work[i] = (mote_work){.session = s->r.sessions[i], .tokens = s->r.tokens, .n = PROMPT};
    TRY(mote_step(s->r.engine, s->r.work, s->r.n, err));
    for (uint32_t i = 0; i < s->r.n; i++)
        TRY(run_sample(s, i, 0, err));
    return MOTE_OK;
}

/* Draft tokens after the certain one that a rewind can remove: a recurrent state cannot return
 * behind a multiple of CHUNK. */
static uint32_t draft_room(const mote_session *session)
{
    return CHUNK - 1 - (uint32_t)((mote_session_length(session) + 1) % CHUNK);
}

/* Random tokens, which cost nothing. */
static void stream_draft_free(const spec_run *s, uint32_t stream, uint64_t step)
{
    spec_stream *at = &s->streams[stream];
    for (uint32_t j = 0; j < at->n_draft; j++)
        at->row[1 + j] = bench_token(s->b->model, (step * s->r.n + stream) * BENCH_SPEC_MOST + j);
}

/* Drafts of all streams by the MTP head. */
static mote_status run_draft_head(spec_run *s, mote_error *err)
{
    size_t n = 0;
    for (uint32_t i = 0; i < s->r.n; i++)
        if (s->streams[i].n_draft > 0)
            s->items[n++] = (mote_draft_item){.session = s->r.sessions[i],
                                              .next = s->streams[i].row[0],
                                              .n = s->streams[i].n_draft};
    if (n > 0)
        TRY(mote_draft(s->r.engine, s->items, n, err));
    n = 0;
    for (uint32_t i = 0; i < s->r.n; i++)
        if (s->streams[i].n_draft > 0)
            memcpy(s->streams[i].row + 1, s->items[n++].tokens,
                   s->streams[i].n_draft * sizeof(mote_token));
    return MOTE_OK;
}

static mote_status run_draft(spec_run *s, uint64_t step, mote_error *err)
{
    for (uint32_t i = 0; i < s->r.n; i++) {
        const uint32_t room = draft_room(s->r.sessions[i]);
        s->streams[i].n_draft = s->out->drafts < room ? s->out->drafts : room;
        if (s->items == NULL)
            stream_draft_free(s, i, step);
    }
    return s->items != NULL ? run_draft_head(s, err) : MOTE_OK;
}

static mote_status run_verify(spec_run *s, mote_error *err)
{
    for (uint32_t i = 0; i < s->r.n; i++)
        s->r.work[i] = (mote_work){.session = s->r.sessions[i],
                                   .tokens = s->streams[i].row,
                                   .n = 1 + s->streams[i].n_draft,
                                   .want = MOTE_LOGITS_ALL};
    return mote_step(s->r.engine, s->r.work, s->r.n, err);
}

static bool oracle_accepts(spec_stream *at, uint32_t place, double rate)
{
    at->due[place] += rate;
    if (at->due[place] < 1)
        return false;
    at->due[place] -= 1;
    return true;
}

/* Samples row by row while the oracle accepts. *accepted: of this stream. */
static mote_status run_accept(spec_run *s, uint32_t stream, uint32_t *accepted, mote_error *err)
{
    spec_stream *at = &s->streams[stream];
    uint32_t row = 0;
    TRY(run_sample(s, stream, 0, err));
    for (; row < at->n_draft && oracle_accepts(at, row, s->rates->at[row]); row++)
        TRY(run_sample(s, stream, row + 1, err));
    *accepted = row;
    return MOTE_OK;
}

static mote_status run_step(spec_run *s, uint64_t step, mote_error *err)
{
    bench_spec_time *out = s->out;
    const double start = os_now();
    TRY(run_draft(s, step, err));
    const double drafted = os_now();
    TRY(run_verify(s, err));
    const double verified = os_now();
    out->draft += drafted - start;
    out->verify += verified - drafted;
    for (uint32_t i = 0; i < s->r.n; i++) {
        uint32_t accepted;
        const double begin = os_now();
        TRY(run_accept(s, i, &accepted, err));
        const double sampled = os_now();
        mote_session *session = s->r.sessions[i];
        const uint64_t rejected = s->streams[i].n_draft - accepted;
        if (rejected > 0)
            mote_session_rewind(session, mote_session_length(session) - rejected);
        out->sample += sampled - begin;
        out->rewind += os_now() - sampled;
        out->drafted += s->streams[i].n_draft;
        out->accepted += accepted;
    }
    return MOTE_OK;
}

static mote_status run_repeat(spec_run *s, uint32_t steps, bench_sample *sample, mote_error *err)
{
    bench_spec_time *out = s->out;
    TRY(run_start(s, err));
    out->draft = out->verify = out->sample = out->rewind = 0;
    out->drafted = out->accepted = 0;
    const bench_sample start = sample_begin();
    for (uint32_t step = 0; step < steps; step++)
        TRY(run_step(s, step, err));
    *sample = sample_end(start);
    return MOTE_OK;
}

/* One repeat of one length; the parts of the fastest repeat are kept. */
static mote_status run_timed(spec_run *s, bench_spec_time *best, bench_sample *sample,
                             mote_error *err)
{
    bench_spec_time now = *best;
    s->out = &now;
    TRY(run_repeat(s, s->b->decode_tokens, sample, err));
    if (best->steps > 0 && sample->wall >= best->time.best)
        return MOTE_OK;
    *best = now;
    best->time.best = sample->wall;
    best->steps = s->b->decode_tokens;
    return MOTE_OK;
}

static void spec_summarize(bench_spec_time *t, bench_sample *samples, const bench *b)
{
    const double steps = (double)t->steps;
    bench_summarize(&t->time, samples, b, t->steps * t->streams + t->accepted);
    t->draft /= steps;
    t->verify /= steps;
    t->sample /= steps;
    t->rewind /= steps;
}

static mote_status run_all(spec_run *s, bench_spec_time *out, size_t n,
                           bench_sample samples[][BENCH_MAX_REPEATS], mote_error *err)
{
    bench_sample unused;
    for (size_t i = 0; i < n; i++) {
        bench_spec_time warm = out[i];
        s->out = &warm;
        TRY(run_repeat(s, WARMUP_STEPS, &unused, err));
    }
    for (uint32_t i = 0; i < s->b->repeats; i++)
        for (size_t j = 0; j < n; j++)
            TRY(run_timed(s, &out[j], &samples[j][i], err));
    for (size_t i = 0; i < n; i++)
        spec_summarize(&out[i], samples[i], s->b);
    return MOTE_OK;
}

/* ---- parts of a draft ---- */

/* Seconds of the fastest call that drafts n tokens after n_given given ones, in all streams. Given
 * tokens need the block and no output head. */
static mote_status run_time_draft(spec_run *s, size_t n_given, size_t n, double *seconds,
                                  mote_error *err)
{
    mote_token given[BENCH_SPEC_MOST];
    *seconds = INFINITY;
    for (uint32_t i = 0; i < BENCH_SPEC_MOST; i++)
        given[i] = bench_token(s->b->model, i);
    for (uint32_t repeat = 0; repeat < s->b->repeats + 2; repeat++) {
        for (uint32_t i = 0; i < s->r.n; i++)
            s->items[i] = (mote_draft_item){.session = s->r.sessions[i],
                                            .next = s->streams[i].row[0],
                                            .given = given,
                                            .n_given = n_given,
                                            .n = n};
        const double start = os_now();
        TRY(mote_draft(s->r.engine, s->items, s->r.n, err));
        const double now = os_now() - start;
        *seconds = now < *seconds ? now : *seconds;
    }
    return MOTE_OK;
}

static mote_status run_time_parts(spec_run *s, bench_spec_time *out, mote_error *err)
{
    enum { MOST = BENCH_SPEC_MOST };
    double all, one;
    TRY(run_start(s, err));
    TRY(run_time_draft(s, 0, MOST, &all, err));     /* MOST times block and head */
    TRY(run_time_draft(s, MOST - 1, 1, &one, err)); /* MOST times the block, once the head */
    out->head = (all - one) / (MOST - 1);
    out->block = all / MOST - out->head;
    return MOTE_OK;
}

/* The streams are open. */
static mote_status run_with_memory(spec_run *s, bench_spec_time *out, size_t n, mote_error *err)
{
    s->streams = mem_new(s->r.n, sizeof *s->streams);
    if (s->b->drafts)
        s->items = mem_new(s->r.n, sizeof *s->items);
    bench_sample(*samples)[BENCH_MAX_REPEATS] = mem_new(n, sizeof *samples);
    const bool has_memory =
        s->streams != NULL && samples != NULL && (s->items != NULL || !s->b->drafts);
    mote_status status = has_memory
                             ? run_all(s, out, n, samples, err)
                             : err_set(err, MOTE_E_MEMORY, "out of memory for %u streams", s->r.n);
    if (status == MOTE_OK && s->b->drafts)
        status = run_time_parts(s, &out[0], err);
    mem_free(samples);
    mem_free(s->items);
    mem_free(s->streams);
    return status;
}

mote_status bench_spec(const bench *b, uint32_t streams, const bench_spec_rates *rates,
                       const uint64_t *drafts, size_t n, bench_spec_time *out, mote_error *err)
{
    const uint64_t context = PROMPT + (uint64_t)b->decode_tokens * (BENCH_SPEC_MOST + 1);
    mote_model_info info;
    mote_model_describe(b->model, &info);
    bench with_head = *b;
    with_head.drafts = info.draft_head;
    spec_run s = {.b = &with_head, .rates = rates};
    for (size_t i = 0; i <= n; i++)
        out[i] =
            (bench_spec_time){.streams = streams, .drafts = i > 0 ? (uint32_t)drafts[i - 1] : 0};
    TRY(rig_open(&s.r, s.b, streams, context, streams * (BENCH_SPEC_MOST + 1), err));
    const mote_status status = run_with_memory(&s, out, n + 1, err);
    rig_close(&s.r);
    return status;
}
