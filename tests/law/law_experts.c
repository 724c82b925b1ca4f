/* SPDX-License-Identifier: Apache-2.0 */
/*
 * law_experts.c - 16 streams that choose different experts, in one batch and each alone: equal
 * logits at every position. The rows of a batch are sorted by expert, so each product has other
 * rows and another number of them than alone.
 *
 *   law_experts --model NAME
 *
 * The runs with three threads keep a quarter of the experts in memory, which must not change a bit.
 *
 * The test also counts choices: a batch in which all rows choose the same experts, or none shares
 * an expert with another, would prove less.
 */
#include "engine/engine_int.h"
#include "law/rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STREAMS = 16, PROMPT = 20, DECODE = 12, LENGTH = PROMPT + DECODE };

typedef struct seen_choices {
    uint64_t shared, alone; /* experts of a layer and pass with several rows, with one row */
} seen_choices;

static void see_experts(void *ctx, const char *what, int layer, const float *rows, size_t n,
                        size_t used)
{
    (void)layer;
    seen_choices *seen = ctx;
    uint32_t count[1024] = {0};
    if (strcmp(what, "experts") != 0)
        return;
    for (size_t i = 0; i < n * used; i++)
        count[(size_t)rows[i]]++;
    for (size_t e = 0; e < sizeof count / sizeof *count; e++) {
        seen->shared += count[e] > 1;
        seen->alone += count[e] == 1;
    }
}

/* Stream i begins with i tokens less than the others, so the positions of a batch differ. */
static uint32_t prompt_of(uint32_t stream)
{
    return PROMPT - stream;
}

static float *run_alone(const mote_model *model, const mote_token *tokens, uint32_t stream,
                        uint32_t vocabulary)
{
    float *logits = malloc((size_t)DECODE * vocabulary * sizeof *logits);
    mote_engine *engine = rig_engine(model, &(mote_engine_options){.threads = 1});
    mote_session *s = rig_session(engine);
    if (logits == NULL)
        rig_fail("no memory");
    rig_feed(engine, s, tokens, prompt_of(stream), MOTE_LOGITS_NONE);
    for (uint32_t i = 0; i < DECODE; i++) {
        rig_feed(engine, s, tokens + prompt_of(stream) + i, 1, MOTE_LOGITS_LAST);
        memcpy(logits + (size_t)i * vocabulary, mote_session_logits(s, 0),
               vocabulary * sizeof *logits);
    }
    mote_session_free(s);
    mote_engine_free(engine);
    return logits;
}

static seen_choices run_together(const mote_model *model, mote_token tokens[][LENGTH],
                                 float *const *want, uint32_t vocabulary, uint32_t threads)
{
    seen_choices seen = {0, 0};
    mote_model_info info;
    mote_model_describe(model, &info);
    mote_engine *engine = rig_engine(
        model, &(mote_engine_options){.threads = threads,
                                      .sessions = STREAMS,
                                      .logits_rows = STREAMS,
                                      .expert_memory = threads == 1 ? 0 : info.expert_bytes / 4,
                                      .positions = STREAMS * 128});
    mote_session *sessions[STREAMS];
    mote_work work[STREAMS];
    mote_error err = {0};
    for (uint32_t i = 0; i < STREAMS; i++) {
        sessions[i] = rig_session(engine);
        work[i] = (mote_work){.session = sessions[i],
                              .tokens = tokens[i],
                              .n = prompt_of(i),
                              .want = MOTE_LOGITS_NONE};
    }
    MUST(mote_step(engine, work, STREAMS, &err), &err);
    engine_set_tap(engine, see_experts, &seen);
    for (uint32_t at = 0; at < DECODE; at++) {
        for (uint32_t i = 0; i < STREAMS; i++)
            work[i] = (mote_work){
                .session = sessions[i], .tokens = tokens[i] + prompt_of(i) + at, .n = 1};
        MUST(mote_step(engine, work, STREAMS, &err), &err);
        for (uint32_t i = 0; i < STREAMS; i++)
            if (memcmp(mote_session_logits(sessions[i], 0), want[i] + (size_t)at * vocabulary,
                       vocabulary * sizeof(float)) != 0)
                rig_fail("%u threads: stream %u differs from its run alone at token %u", threads, i,
                         at);
    }
    for (uint32_t i = 0; i < STREAMS; i++)
        mote_session_free(sessions[i]);
    mote_engine_free(engine);
    return seen;
}

int main(int argc, char **argv)
{
    const char *name = argc == 3 && strcmp(argv[1], "--model") == 0 ? argv[2] : "moe-bf16";
    const char *path = rig_model_path(name);
    static mote_token tokens[STREAMS][LENGTH];
    float *alone[STREAMS];
    if (path == NULL)
        rig_fail("the model %s is missing", name);
    mote_model *model = rig_open(path, MOTE_ISA_BEST);
    mote_model_info info;
    mote_model_describe(model, &info);
    for (uint32_t i = 0; i < STREAMS; i++) {
        rig_random r = {.seed = 23, .stream = i};
        rig_random_tokens(&r, info.tokens, tokens[i], LENGTH);
        alone[i] = run_alone(model, tokens[i], i, info.vocabulary);
    }
    mote_isa isa[RIG_MAX_LEVELS];
    const size_t levels = rig_levels(isa);
    for (size_t level = 0; level < levels; level++) {
        mote_model *other = rig_open(path, isa[level]);
        for (uint32_t threads = 1; threads <= 3; threads += 2) {
            const seen_choices seen = run_together(other, tokens, alone, info.vocabulary, threads);
            printf("%s, %u threads: equal; experts with several rows %llu, with one %llu\n",
                   mote_isa_name(isa[level]), threads, (unsigned long long)seen.shared,
                   (unsigned long long)seen.alone);
            if (seen.shared == 0)
                rig_fail("no two streams share an expert");
        }
        mote_model_close(other);
    }
    for (uint32_t i = 0; i < STREAMS; i++)
        free(alone[i]);
    mote_model_close(model);
    return 0;
}
