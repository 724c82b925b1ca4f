/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory_plan.c - chooses sessions, kept states and KV positions that fit the memory limit.
 *
 * Options that the caller set are not changed. The open ones shrink in this order: kept states,
 * which only save prefill; then idle sessions; then KV positions, down to MIN_POSITIONS. If that is
 * not enough, drafts are turned off unless their length is set, and the plan starts again.
 * mote_engine_plan computes the size of each candidate; the memory of suffix lookup and of ends of
 * prompts is added.
 */
#include "base/mem.h"
#include "sched/sched_int.h"

#include <stdio.h>

enum {
    DEFAULT_PARALLEL = 8,
    MIN_POSITIONS = 1024,
    MAX_PARALLEL = 1024,
    MAX_QUEUE = 65536,
    END_PART = 32, /* ends of prompts may take 1/END_PART of the memory */
    PLAN_LEVELS = 4
};

/* Sets idle sessions and kept states: level 0 is the most, PLAN_LEVELS - 1 the least. */
static void plan_set_level(sched *s, const sched_options *given, uint32_t level)
{
    sched_options *o = &s->options;
    const uint32_t idle = given->idle_sessions > 0 ? given->idle_sessions : o->parallel;
    const uint32_t kept[PLAN_LEVELS] = {o->parallel + idle + 8, o->parallel + idle / 2, o->parallel,
                                        2};
    o->idle_sessions = given->idle_sessions > 0 || level == 0 ? idle : (idle >> level) + 1;
    s->kept_states = kept[level];
}

static mote_engine_options plan_engine_options(const sched *s)
{
    const sched_options *o = &s->options;
    return (mote_engine_options){
        .threads = o->threads,
        .sessions = o->parallel + o->idle_sessions + 1,
        .positions = o->kv_tokens,
        .shared_positions = true,
        .kept_states = s->kept_states,
        .logits_rows = o->parallel + (o->spec != SPEC_OFF ? SCHED_DRAFT_ROWS : SCHED_SCORE_ROWS),
        .drafts = o->spec != SPEC_OFF,
        .expert_memory = o->expert_memory,
        .kv = o->kv,
        .yarn = o->yarn,
        .pin = o->pin,
        .lora_rank = o->lora_rank};
}

/* Tokens that a session can have. */
static uint64_t plan_context(const sched *s)
{
    const sched_options *o = &s->options;
    const uint64_t trained = sched_max_context(o->model, o->yarn);
    if (o->context > 0)
        return o->context;
    return trained < o->kv_tokens ? trained : o->kv_tokens;
}

/* Adds the memory of suffix lookup. */
static void plan_add_lookup(const sched *s, mote_memory *memory)
{
    if (s->options.spec == SPEC_OFF)
        return;
    const uint64_t bytes = spec_bytes(s->options.parallel, plan_context(s));
    memory->scratch += bytes;
    memory->drafts += bytes;
    memory->total += bytes;
}

void sched_add_outside(sched *s, mote_memory *memory)
{
    plan_add_lookup(s, memory);
    s->max_end_bytes = memory->total / END_PART;
    if (s->max_end_bytes > SCHED_MAX_END_BYTES)
        s->max_end_bytes = SCHED_MAX_END_BYTES;
    memory->scratch += s->max_end_bytes;
    memory->total += s->max_end_bytes;
}

static mote_status plan_fits(sched *s, bool *fits, mote_error *err)
{
    const mote_engine_options engine = plan_engine_options(s);
    TRY(mote_engine_plan(s->options.model, &engine, &s->memory, err));
    sched_add_outside(s, &s->memory);
    *fits = s->options.memory == 0 || s->memory.total <= s->options.memory;
    return MOTE_OK;
}

/* Binary search for the most KV positions from `low`, which fits, to `high`. */
static mote_status plan_grow(sched *s, uint64_t low, uint64_t high, mote_error *err)
{
    while (low + SCHED_PAGE <= high) {
        bool fits;
        s->options.kv_tokens = low + (high - low + SCHED_PAGE) / 2 / SCHED_PAGE * SCHED_PAGE;
        TRY(plan_fits(s, &fits, err));
        if (fits)
            low = s->options.kv_tokens;
        else
            high = s->options.kv_tokens - SCHED_PAGE;
    }
    s->options.kv_tokens = low;
    return MOTE_OK;
}

/* The most parallel requests that fit with MIN_POSITIONS; 0: none. */
static mote_status plan_most_parallel(sched *s, uint32_t *out, mote_error *err)
{
    uint32_t low = 0, high = s->options.parallel;
    s->options.kv_tokens = MIN_POSITIONS;
    while (low < high) {
        bool fits;
        const uint32_t middle = low + (high - low + 1) / 2;
        s->options.parallel = middle;
        s->options.idle_sessions = 1;
        s->kept_states = 2;
        TRY(plan_fits(s, &fits, err));
        if (fits)
            low = middle;
        else
            high = middle - 1;
    }
    *out = low;
    return MOTE_OK;
}

/* Does the plan fit without drafts, if a draft length was set? */
static mote_status plan_fits_without_drafts(sched *s, bool *fits, mote_error *err)
{
    const int drafts = s->options.spec;
    *fits = false;
    if (drafts <= 0)
        return MOTE_OK;
    s->options.spec = SPEC_OFF;
    TRY(plan_fits(s, fits, err));
    s->options.spec = drafts;
    return MOTE_OK;
}

/* Writes the first option that makes the plan fit when lowered, with its largest value. */
static mote_status plan_advise(sched *s, const sched_options *given, char *out, size_t room,
                               mote_error *err)
{
    const uint64_t positions = s->options.kv_tokens;
    const uint32_t parallel = s->options.parallel;
    bool fits;
    TRY(plan_fits_without_drafts(s, &fits, err));
    if (fits) {
        snprintf(out, room, "use --spec off");
        return MOTE_OK;
    }
    s->options.kv_tokens = MIN_POSITIONS;
    TRY(plan_fits(s, &fits, err));
    if (fits) {
        TRY(plan_grow(s, MIN_POSITIONS, positions, err));
        snprintf(out, room, "lower --%s to %llu", given->kv_tokens > 0 ? "kv-tokens" : "context",
                 (unsigned long long)s->options.kv_tokens);
        return MOTE_OK;
    }
    uint32_t most;
    TRY(plan_most_parallel(s, &most, err));
    if (most > 0 && given->idle_sessions > parallel)
        snprintf(out, room, "lower idle_sessions");
    else if (most > 0)
        snprintf(out, room, "lower --parallel to %u", most);
    else
        snprintf(out, room,
                 given->memory_source == NULL ? "raise --memory or use a smaller model"
                                              : "use a smaller model");
    return MOTE_OK;
}

static mote_status plan_refuse(sched *s, const sched_options *given, mote_error *err)
{
    static const char text[] =
        "out of memory: %u parallel requests with %llu KV positions need %llu MB, "
        "%s %llu MB%s%s%s; %s%s";
    const unsigned long long mb = 1000 * 1000, total = s->memory.total;
    const unsigned long long positions = s->options.kv_tokens;
    const uint32_t parallel = s->options.parallel;
    const bool machine = given->memory_source != NULL;
    char advice[64];
    TRY(plan_advise(s, given, advice, sizeof advice, err));
    return err_set(err, MOTE_E_MEMORY, text, parallel, positions, total / mb,
                   machine ? "available are" : "the limit is", s->options.memory / mb,
                   machine ? " (" : "", machine ? given->memory_source : "", machine ? ")" : "",
                   advice, machine ? ", or set --memory to use more" : "");
}

static uint64_t plan_min_positions(const sched_options *given)
{
    return given->context > MIN_POSITIONS ? given->context : MIN_POSITIONS;
}

/* Chooses the open options except drafts. `trained`: the model's context in tokens. */
static mote_status plan_choose(sched *s, const sched_options *given, uint64_t trained, bool *fits,
                               mote_error *err)
{
    const uint64_t least = plan_min_positions(given);
    const uint64_t most = trained * s->options.parallel;
    uint64_t wanted = given->kv_tokens > 0 ? given->kv_tokens : SCHED_DEFAULT_KV_TOKENS;
    if (given->kv_tokens == 0 && wanted < given->context)
        wanted = given->context;
    *fits = false;
    for (uint32_t level = 0; level < PLAN_LEVELS && !*fits; level++) {
        plan_set_level(s, given, level);
        s->options.kv_tokens = wanted;
        TRY(plan_fits(s, fits, err));
    }
    if (given->kv_tokens > 0 || (*fits && (given->memory == 0 || given->memory_source != NULL)))
        return MOTE_OK;
    if (*fits)
        return plan_grow(s, wanted, most > wanted ? most : wanted, err);
    s->options.kv_tokens = least;
    TRY(plan_fits(s, fits, err));
    return *fits ? plan_grow(s, least, wanted, err) : MOTE_OK;
}

/* The same; drafts that the tuner would decide about are given up before the plan is refused. */
static mote_status plan_choose_all(sched *s, const sched_options *given, uint64_t trained,
                                   mote_error *err)
{
    bool fits;
    TRY(plan_choose(s, given, trained, &fits, err));
    if (!fits && given->spec == SPEC_AUTO) {
        s->options.spec = SPEC_OFF;
        TRY(plan_choose(s, given, trained, &fits, err));
    }
    return fits ? MOTE_OK : plan_refuse(s, given, err);
}

mote_status sched_check_options(const sched_options *o, mote_error *err)
{
    if (o->parallel > MAX_PARALLEL)
        return err_set(err, MOTE_E_ARG, "--parallel must be at most %d, got %u", MAX_PARALLEL,
                       o->parallel);
    if (o->idle_sessions > MAX_PARALLEL)
        return err_set(err, MOTE_E_ARG, "idle_sessions must be at most %d, got %u", MAX_PARALLEL,
                       o->idle_sessions);
    if (o->queue > MAX_QUEUE)
        return err_set(err, MOTE_E_ARG, "--queue must be at most %d, got %u", MAX_QUEUE, o->queue);
    if (o->kv_tokens > 0 && o->context > o->kv_tokens)
        return err_set(err, MOTE_E_ARG, "--context %llu exceeds --kv-tokens %llu",
                       (unsigned long long)o->context, (unsigned long long)o->kv_tokens);
    return MOTE_OK;
}

static mote_status plan_check(const sched_options *o, mote_error *err)
{
    if (o->model == NULL)
        return err_set(err, MOTE_E_ARG, "sched_options.model is NULL");
    return sched_check_options(o, err);
}

uint64_t sched_max_context(const mote_model *model, float yarn)
{
    mote_model_info info;
    mote_model_describe(model, &info);
    return (uint64_t)(info.context * (yarn > 1 ? (double)yarn : 1));
}

/* Fills in the defaults that do not depend on memory. Returns the model's context in tokens. */
static uint64_t plan_set_defaults(sched *s, const sched_options *given)
{
    sched_options *o = &s->options;
    *o = *given;
    mote_model_describe(o->model, &s->info);
    if (o->parallel == 0)
        o->parallel = DEFAULT_PARALLEL;
    if (o->queue == 0)
        o->queue = SCHED_DEFAULT_QUEUE;
    return sched_max_context(o->model, o->yarn);
}

mote_status sched_plan(sched *s, const sched_options *given, mote_engine_options *engine,
                       mote_error *err)
{
    TRY(plan_check(given, err));
    sched_options *o = &s->options;
    const uint64_t trained = plan_set_defaults(s, given);
    if (given->context > trained)
        return err_set(
            err, MOTE_E_ARG,
            "--context %llu exceeds the %llu tokens that the model is trained for; lower "
            "it, or extend the model with --yarn of at most 4",
            (unsigned long long)given->context, (unsigned long long)trained);
    TRY(plan_choose_all(s, given, trained, err));
    if (o->context == 0)
        o->context = trained < o->kv_tokens ? trained : o->kv_tokens;
    *engine = plan_engine_options(s);
    return MOTE_OK;
}

mote_status sched_min_memory(const sched_options *options, uint64_t *out, mote_error *err)
{
    bool fits;
    TRY(plan_check(options, err));
    sched *s = mem_new(1, sizeof *s);
    if (s == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: %zu bytes for a scheduler", sizeof *s);
    plan_set_defaults(s, options);
    plan_set_level(s, options, PLAN_LEVELS - 1);
    if (s->options.kv_tokens == 0)
        s->options.kv_tokens = plan_min_positions(options);
    if (s->options.spec == SPEC_AUTO)
        s->options.spec = SPEC_OFF;
    const mote_status status = plan_fits(s, &fits, err);
    *out = s->memory.total;
    mem_free(s);
    return status;
}

mote_status sched_plan_memory(const sched_options *options, uint64_t *out, bool *too_large,
                              mote_error *err)
{
    mote_engine_options engine;
    *too_large = false;
    sched *s = mem_new(1, sizeof *s);
    if (s == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: %zu bytes for a scheduler", sizeof *s);
    const mote_status status = sched_plan(s, options, &engine, err);
    *too_large = status == MOTE_E_MEMORY; /* a plan allocates nothing */
    *out = s->memory.total;
    mem_free(s);
    return status;
}
