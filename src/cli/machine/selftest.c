/* SPDX-License-Identifier: Apache-2.0 */
/* selftest.c - implements selftest.h: the table of cases and the runs. */
#include "cli/machine/selftest.h"

#include "base/cpu.h"
#include "base/mem.h"
#include "base/os.h"
#include "base/philox.h"

#include <stdio.h>
#include <string.h>

/* ---- cases ---- */

/* A long prompt has more than one KV page (64 positions) and more than two chunks of DeltaNet (32),
 * a longer one more than one partition of attention (1024). A short one has full and partial tiles
 * of a matrix product. */
enum { LONGER = 1030, LONG = 75, SHORT = 21, SINGLE_STEPS = 3 };

#define FORMAT_CASE(format, kernels)                                                               \
    {                                                                                              \
#format, kernels, {QUANT_##format, false, false }, MOTE_KV_F16, SHORT, false               \
    }
#define LAYER_CASE(name, kernels, attention, deltanet, kv, tokens, slow)                           \
    {                                                                                              \
        name, kernels, {QUANT_Q8_0, attention, deltanet}, kv, tokens, slow                         \
    }

const selftest_case selftest_cases[] = {
    FORMAT_CASE(F32, "norms, element-wise operations, F32 products, sampling"),
    FORMAT_CASE(Q8_0, "Q8_0 products, or inputs quantised in blocks of 32"),
    LAYER_CASE("attention f32", "attention, RoPE, KV cache f32", true, false, MOTE_KV_F32, LONG,
               false),
    LAYER_CASE("attention f16", "attention with KV cache f16", true, false, MOTE_KV_F16, LONG,
               false),
    LAYER_CASE("attention q8_0", "attention with KV cache q8_0", true, false, MOTE_KV_Q8_0, LONG,
               false),
    LAYER_CASE("attention q4_0", "attention with KV cache q4_0", true, false, MOTE_KV_Q4_0, LONG,
               false),
    LAYER_CASE("DeltaNet", "DeltaNet: convolution, recurrent state", false, true, MOTE_KV_F16, LONG,
               false),
    FORMAT_CASE(F16, "F16 products"),
    FORMAT_CASE(BF16, "BF16 products"),
    FORMAT_CASE(Q4_0, "Q4_0 products"),
    FORMAT_CASE(Q4_1, "Q4_1 products"),
    FORMAT_CASE(Q5_0, "Q5_0 products"),
    FORMAT_CASE(Q5_1, "Q5_1 products"),
    FORMAT_CASE(IQ4_NL, "IQ4_NL products"),
    FORMAT_CASE(Q6_K, "Q6_K products, or inputs quantised in blocks of 256"),
    FORMAT_CASE(Q2_K, "Q2_K products"),
    FORMAT_CASE(Q3_K, "Q3_K products"),
    FORMAT_CASE(Q4_K, "Q4_K products"),
    FORMAT_CASE(Q5_K, "Q5_K products"),
    FORMAT_CASE(IQ4_XS, "IQ4_XS products"),
    FORMAT_CASE(IQ1_S, "IQ1_S products"),
    FORMAT_CASE(IQ1_M, "IQ1_M products"),
    FORMAT_CASE(IQ2_XXS, "IQ2_XXS products"),
    FORMAT_CASE(IQ2_XS, "IQ2_XS products"),
    FORMAT_CASE(IQ2_S, "IQ2_S products"),
    FORMAT_CASE(IQ3_XXS, "IQ3_XXS products"),
    FORMAT_CASE(IQ3_S, "IQ3_S products"),
    FORMAT_CASE(TQ1_0, "TQ1_0 products"),
    FORMAT_CASE(TQ2_0, "TQ2_0 products"),
    FORMAT_CASE(MXFP4, "MXFP4 products"),
    FORMAT_CASE(NVFP4, "NVFP4 products"),
    FORMAT_CASE(Q1_0, "Q1_0 products"),
    FORMAT_CASE(Q2_0, "Q2_0 products"),
    {"mixed", "combinations of formats", {SELFTEST_MIXED, true, true}, MOTE_KV_F16, LONG, false},
    LAYER_CASE("long attention", "attention beyond 1,024 positions", true, false, MOTE_KV_F16,
               LONGER, true),
};
const size_t selftest_n_cases = sizeof selftest_cases / sizeof *selftest_cases;

const char *selftest_check_name(selftest_check check)
{
    static const char *const names[SELFTEST_N_CHECKS] = {"stored logits", "threads", "split prompt",
                                                         "fork and rewind"};
    return names[check];
}

size_t selftest_find_levels(mote_isa levels[SELFTEST_LEVELS])
{
    return cpu_list_usable(levels);
}

bool selftest_passed(const selftest_level *level)
{
    for (size_t i = 0; i < SELFTEST_N_CHECKS; i++)
        if (level->failed[i] > 0)
            return false;
    return true;
}

/* ---- one run ---- */

/* A prompt with repetitions: equal keys are the hard case of DeltaNet. */
static void prompt_fill(mote_token *tokens, size_t n, uint32_t vocabulary)
{
    for (size_t i = 0; i < n; i++) {
        const philox_block random = philox(1, i, 0);
        tokens[i] = random.word[0] % 4 == 0 && i > 0 ? tokens[i - 1]
                                                     : (mote_token)(random.word[1] % vocabulary);
    }
}

/* A model at work, and the tokens that a run appends. */
typedef struct run {
    mote_engine *engine;
    uint32_t vocabulary;
    const mote_token *tokens; /* [n] */
    size_t n;
    selftest_result result;
} run;

/* FNV-1a over 32-bit words. */
static const uint64_t fnv_start = 0xcbf29ce484222325u, fnv_prime = 0x100000001b3u;

/* Adds the logits of the first `rows` tokens of the last step of a session, and the log probability
 * of the most likely token, which the kernels of sampling compute. */
static mote_status run_add_rows(run *r, const mote_session *session, size_t rows, mote_error *err)
{
    selftest_result *result = &r->result;
    for (size_t row = 0; row < rows; row++) {
        const float *logits = mote_session_logits(session, row);
        result->last = fnv_start;
        for (size_t i = 0; i < r->vocabulary; i++) {
            uint32_t bits;
            memcpy(&bits, &logits[i], sizeof bits);
            result->all = (result->all ^ bits) * fnv_prime;
            result->last = (result->last ^ bits) * fnv_prime;
        }
        mote_choice choice;
        TRY(mote_sample(session, row, &(mote_sampling){0}, &choice, err));
        uint32_t bits;
        memcpy(&bits, &choice.logprob, sizeof bits);
        result->all = (result->all ^ bits) * fnv_prime;
        memcpy(result->logits, logits, sizeof result->logits);
    }
    return MOTE_OK;
}

static mote_work run_work(const run *r, mote_session *session, size_t from, size_t to)
{
    return (mote_work){
        .session = session, .tokens = r->tokens + from, .n = to - from, .want = MOTE_LOGITS_ALL};
}

/* Appends tokens from .. to - 1 in steps of at most `chunk`. */
static mote_status run_append(run *r, mote_session *session, size_t from, size_t to, size_t chunk,
                              mote_error *err)
{
    for (size_t next; from < to; from = next) {
        next = from + chunk < to ? from + chunk : to;
        const mote_work work = run_work(r, session, from, next);
        TRY(mote_step(r->engine, &work, 1, err));
        TRY(run_add_rows(r, session, next - from, err));
    }
    return MOTE_OK;
}

/* The whole prompt: `first` tokens in one step, then steps of `chunk`. */
static mote_status run_prompt(run *r, size_t first, size_t chunk, mote_error *err)
{
    mote_session *session;
    r->result.all = fnv_start;
    TRY(mote_session_new(&session, r->engine, NULL, err));
    mote_status status = run_append(r, session, 0, first, first, err);
    if (status == MOTE_OK)
        status = run_append(r, session, first, r->n, chunk, err);
    mote_session_free(session);
    return status;
}

/* Half of the prompt, then a fork; the fork appends the other half in one step with the original.
 */
static mote_status run_fork(run *r, mote_session *session, mote_error *err)
{
    mote_session *fork;
    const size_t half = r->n / 2;
    r->result.all = fnv_start;
    TRY(run_append(r, session, 0, half, half, err));
    TRY(mote_session_fork(&fork, session, err));
    const mote_work work[] = {run_work(r, session, half, r->n), run_work(r, fork, half, r->n)};
    mote_status status = mote_step(r->engine, work, 2, err);
    if (status == MOTE_OK)
        status = run_add_rows(r, fork, r->n - half, err);
    mote_session_free(fork);
    return status;
}

/* Drops the last tokens and appends them again. */
static mote_status run_rewind(run *r, mote_session *session, mote_error *err)
{
    const size_t at = (size_t)mote_session_rewind(session, r->n - 1);
    return run_append(r, session, at, r->n, r->n, err);
}

/* ---- checks ---- */

typedef struct checker {
    const selftest *test;
    selftest_level *out;
    const char *name; /* of the case or file, for progress and messages */
    const char *kernels;
    run run;
    uint32_t threads; /* of runs that do not test threads; 0: one per core */
    const selftest_result *expected;
} checker;

/* Compares the logits of all tokens, or of the last one. */
static void checker_judge(checker *c, selftest_check check, bool last_only, const char *how)
{
    const selftest_result *got = &c->run.result, *expected = c->expected;
    const uint64_t is = last_only ? got->last : got->all;
    const uint64_t wanted = last_only ? expected->last : expected->all;
    selftest_level *out = c->out;
    out->runs[check]++;
    if (is == wanted || out->failed[check]++ > 0)
        return;
    out->kernels[check] = c->kernels;
    for (size_t i = 0; i < SELFTEST_LOGITS; i++)
        if (memcmp(&got->logits[i], &expected->logits[i], sizeof got->logits[i]) != 0) {
            snprintf(out->message[check], SELFTEST_MESSAGE_BYTES,
                     "%s%s: logit %zu of the last token is %.9g, expected %.9g", c->name, how, i,
                     (double)got->logits[i], (double)expected->logits[i]);
            return;
        }
    snprintf(out->message[check], SELFTEST_MESSAGE_BYTES,
             "%s%s: the hash of the logits is %016llx, expected %016llx", c->name, how,
             (unsigned long long)is, (unsigned long long)wanted);
}

static mote_status checker_begin(const checker *c, mote_error *err)
{
    const selftest *t = c->test;
    if (t != NULL && t->progress != NULL && !t->progress(t->ctx, c->out->level, c->name))
        return err_set(err, MOTE_E_CANCELED, "canceled");
    return MOTE_OK;
}

static mote_status checker_open(checker *c, const mote_model *model, uint32_t threads, mote_kv kv,
                                mote_error *err)
{
    const mote_engine_options options = {.threads = threads,
                                         .sessions = 2,
                                         .positions = 2 * c->run.n + 128,
                                         .logits_rows = (uint32_t)(2 * c->run.n),
                                         .kv = kv};
    return mote_engine_new(&c->run.engine, model, &options, err);
}

static size_t run_first_step(const run *r)
{
    return r->n > SINGLE_STEPS ? r->n - SINGLE_STEPS : r->n;
}

static mote_status checker_threads(checker *c, const mote_model *model, mote_error *err)
{
    cores found;
    cores_find(&found);
    const uint32_t most = c->test->threads > 0 ? c->test->threads : found.n;
    const uint32_t counts[] = {1, 2, most};
    for (size_t i = 0; i < (most > 2 ? 3u : 2u); i++) {
        char how[32];
        if (counts[i] == c->threads)
            continue;
        TRY(checker_begin(c, err));
        TRY(checker_open(c, model, counts[i], MOTE_KV_F16, err));
        const mote_status status = run_prompt(&c->run, run_first_step(&c->run), 1, err);
        mote_engine_free(c->run.engine);
        if (status != MOTE_OK)
            return status;
        snprintf(how, sizeof how, ", threads: %u", counts[i]);
        checker_judge(c, SELFTEST_THREADS, false, how);
    }
    return MOTE_OK;
}

static mote_status checker_splits(checker *c, mote_error *err)
{
    TRY(checker_begin(c, err));
    TRY(run_prompt(&c->run, c->run.n, 1, err));
    checker_judge(c, SELFTEST_SPLIT, false, ", whole prompt in one step");
    TRY(run_prompt(&c->run, 7 < c->run.n ? 7 : c->run.n, 7, err));
    checker_judge(c, SELFTEST_SPLIT, false, ", steps of 7 tokens");
    return MOTE_OK;
}

static mote_status checker_cache(checker *c, mote_error *err)
{
    mote_session *session;
    TRY(checker_begin(c, err));
    TRY(mote_session_new(&session, c->run.engine, NULL, err));
    mote_status status = run_fork(&c->run, session, err);
    if (status == MOTE_OK) {
        checker_judge(c, SELFTEST_CACHE, false, ", forked");
        status = run_rewind(&c->run, session, err);
    }
    if (status == MOTE_OK)
        checker_judge(c, SELFTEST_CACHE, true, ", rewound");
    mote_session_free(session);
    return status;
}

/* All checks but the first, on one model. */
static mote_status checker_invariances(checker *c, const mote_model *model, mote_error *err)
{
    TRY(checker_threads(c, model, err));
    TRY(checker_open(c, model, c->threads, MOTE_KV_F16, err));
    mote_status status = checker_splits(c, err);
    if (status == MOTE_OK)
        status = checker_cache(c, err);
    mote_engine_free(c->run.engine);
    return status;
}

/* ---- built-in models ---- */

static mote_status checker_run_once(checker *c, const mote_model *model, mote_kv kv,
                                    mote_error *err)
{
    TRY(checker_begin(c, err));
    TRY(checker_open(c, model, c->threads, kv, err));
    const mote_status status = run_prompt(&c->run, run_first_step(&c->run), 1, err);
    mote_engine_free(c->run.engine);
    return status;
}

mote_status selftest_run_case(const selftest_case *s, mote_isa level, selftest_result *out,
                              mote_error *err)
{
    mote_token tokens[LONGER];
    prompt_fill(tokens, s->tokens, SELFTEST_TOKENS);
    selftest_level unused = {.level = level};
    checker c = {.out = &unused,
                 .name = s->name,
                 .threads = 1,
                 .run = {.vocabulary = SELFTEST_VOCABULARY, .tokens = tokens, .n = s->tokens}};
    mote_model *model;
    TRY(selftest_model_open(&model, &s->shape, level, err));
    const mote_status status = checker_run_once(&c, model, s->kv, err);
    mote_model_close(model);
    *out = c.run.result;
    return status;
}

/* One case: the stored logits and, for the mixed model, all other checks. */
static mote_status level_run_case(const selftest *t, size_t index, selftest_level *out,
                                  mote_error *err)
{
    const selftest_case *s = &selftest_cases[index];
    mote_token tokens[LONGER];
    prompt_fill(tokens, s->tokens, SELFTEST_TOKENS);
    checker c = {.test = t,
                 .out = out,
                 .name = s->name,
                 .kernels = s->kernels,
                 .threads = 1,
                 .expected = &selftest_stored[index],
                 .run = {.vocabulary = SELFTEST_VOCABULARY, .tokens = tokens, .n = s->tokens}};
    mote_model *model;
    TRY(selftest_model_open(&model, &s->shape, out->level, err));
    mote_status status = checker_run_once(&c, model, s->kv, err);
    if (status == MOTE_OK) {
        checker_judge(&c, SELFTEST_STORED, false, "");
        if (s->shape.format == SELFTEST_MIXED && selftest_passed(out))
            status = checker_invariances(&c, model, err);
    }
    mote_model_close(model);
    return status;
}

mote_status selftest_run_level(const selftest *t, mote_isa level, selftest_level *out,
                               mote_error *err)
{
    const double start = os_now();
    *out = (selftest_level){.level = level};
    mote_status status = MOTE_OK;
    for (size_t i = 0; status == MOTE_OK && i < selftest_n_cases && selftest_passed(out); i++)
        if (level != MOTE_ISA_REF || !selftest_cases[i].slow)
            status = level_run_case(t, i, out, err);
    out->seconds = os_now() - start;
    return status;
}

/* ---- a model file ---- */

mote_status selftest_run_file(const selftest *t, const char *path, mote_isa level, size_t n,
                              selftest_result *first, bool is_first, selftest_level *out,
                              mote_error *err)
{
    const double start = os_now();
    *out = (selftest_level){.level = level};
    mote_model *model;
    mote_token *tokens = mem_new(n, sizeof *tokens);
    if (tokens == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: %zu tokens", n);
    mote_status status = mote_model_open(&model, path, &(mote_model_options){.isa = level}, err);
    if (status == MOTE_OK) {
        mote_model_info info;
        mote_model_describe(model, &info);
        prompt_fill(tokens, n, info.tokens);
        checker c = {.test = t,
                     .out = out,
                     .name = "the model",
                     .kernels = "kernels of this model",
                     .expected = first,
                     .run = {.vocabulary = info.vocabulary, .tokens = tokens, .n = n}};
        status = checker_run_once(&c, model, MOTE_KV_F16, err);
        if (is_first)
            *first = c.run.result;
        if (status == MOTE_OK) {
            checker_judge(&c, SELFTEST_STORED, false, "");
            if (is_first || level != MOTE_ISA_REF)
                status = checker_invariances(&c, model, err);
        }
        mote_model_close(model);
    }
    mem_free(tokens);
    out->seconds = os_now() - start;
    return status;
}
