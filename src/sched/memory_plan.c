/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory_plan.c - how many of everything, so that all of it fits the memory it may take.
 *
 * What the caller set stays as it is. Of what it left open, kept states give way first, since
 * they only save reading; then ended sessions; then positions, down to those of one short
 * conversation. The engine's own plan is the judge.
 */
#include "base/mem.h"
#include "sched/sched_int.h"

enum {
    PARALLEL = 8,
    POSITIONS = 32768,
    LEAST_POSITIONS = 1024,
    MOST_PARALLEL = 1024,
    MOST_QUEUE = 65536,
    LEVELS = 4,
    PAGE = 64
};

/* Ended sessions and kept states, from plenty to hardly any. */
static void at_level(sched *s, const sched_options *given, uint32_t level)
{
    sched_options *o = &s->options;
    const uint32_t idle = given->idle > 0 ? given->idle : o->parallel;
    const uint32_t kept[LEVELS] = {o->parallel + idle + 8, o->parallel + idle / 2, o->parallel, 2};
    o->idle = given->idle > 0 || level == 0 ? idle : (idle >> level) + 1;
    s->kept_states = kept[level];
}

static mote_engine_options engine_options(const sched *s)
{
    const sched_options *o = &s->options;
    return (mote_engine_options){.threads = o->threads,
                                 .sessions = o->parallel + o->idle + 1,
                                 .positions = o->positions,
                                 .shared_positions = true,
                                 .kept_states = s->kept_states,
                                 .logits_rows = o->parallel + SCHED_SCORE_ROWS,
                                 .kv = o->kv,
                                 .yarn = o->yarn,
                                 .pin = o->pin};
}

static mote_status fits(sched *s, bool *yes, mote_error *err)
{
    const mote_engine_options engine = engine_options(s);
    TRY(mote_engine_plan(s->options.model, &engine, &s->memory, err));
    *yes = s->options.memory == 0 || s->memory.total <= s->options.memory;
    return MOTE_OK;
}

/* The most positions from `low`, which fits, to `high`. */
static mote_status stretch(sched *s, uint64_t low, uint64_t high, mote_error *err)
{
    while (low + PAGE <= high) {
        bool yes;
        s->options.positions = low + (high - low + PAGE) / 2 / PAGE * PAGE;
        TRY(fits(s, &yes, err));
        if (yes)
            low = s->options.positions;
        else
            high = s->options.positions - PAGE;
    }
    s->options.positions = low;
    return MOTE_OK;
}

/* Which number to lower: the first that would help. */
static mote_status refuse(sched *s, const sched_options *given, mote_error *err)
{
    static const char what[] = "%llu MB are not enough for %u answers at once and %llu positions, "
                               "which take %llu MB; %s";
    const unsigned long long mb = 1000 * 1000, total = s->memory.total;
    const uint64_t positions = s->options.positions;
    const uint32_t parallel = s->options.parallel;
    const char *advice = "raise `memory` or take a smaller model";
    bool yes;
    s->options.positions = LEAST_POSITIONS;
    TRY(fits(s, &yes, err));
    if (yes) {
        advice = given->positions > 0 ? "lower `positions`" : "lower `context`";
    } else {
        s->options.parallel = s->options.idle = s->kept_states = 1;
        TRY(fits(s, &yes, err));
        if (yes)
            advice = given->idle > parallel ? "lower `idle`" : "lower `parallel`";
    }
    return err_set(err, MOTE_E_MEMORY, what, s->options.memory / mb, parallel,
                   (unsigned long long)positions, total / mb, advice);
}

static uint64_t least_positions(const sched_options *given)
{
    return given->context > LEAST_POSITIONS ? given->context : LEAST_POSITIONS;
}

/* Chooses what was left open so that all of it fits. */
static mote_status choose(sched *s, const sched_options *given, uint64_t trained, mote_error *err)
{
    const uint64_t least = least_positions(given);
    const uint64_t most = trained * s->options.parallel;
    uint64_t wanted = given->positions > 0 ? given->positions : POSITIONS;
    if (given->positions == 0 && wanted < given->context)
        wanted = given->context;
    bool yes = false;
    for (uint32_t level = 0; level < LEVELS && !yes; level++) {
        at_level(s, given, level);
        s->options.positions = wanted;
        TRY(fits(s, &yes, err));
    }
    if (given->positions > 0 || (yes && given->memory == 0))
        return yes ? MOTE_OK : refuse(s, given, err);
    if (yes)
        return stretch(s, wanted, most > wanted ? most : wanted, err);
    s->options.positions = least;
    TRY(fits(s, &yes, err));
    return yes ? stretch(s, least, wanted, err) : refuse(s, given, err);
}

static mote_status check(const sched_options *o, mote_error *err)
{
    if (o->model == NULL)
        return err_set(err, MOTE_E_ARG, "a scheduler needs a model");
    if (o->parallel > MOST_PARALLEL || o->idle > MOST_PARALLEL)
        return err_set(err, MOTE_E_ARG, "`parallel` and `idle` are at most %d", MOST_PARALLEL);
    if (o->queue > MOST_QUEUE)
        return err_set(err, MOTE_E_ARG, "`queue` is at most %d", MOST_QUEUE);
    if (o->positions > 0 && o->context > o->positions)
        return err_set(err, MOTE_E_ARG,
                       "a `context` of %llu is more than the %llu `positions` of all sessions",
                       (unsigned long long)o->context, (unsigned long long)o->positions);
    return MOTE_OK;
}

static uint64_t take_defaults(sched *s, const sched_options *given)
{
    sched_options *o = &s->options;
    *o = *given;
    mote_model_describe(o->model, &s->info);
    if (o->parallel == 0)
        o->parallel = PARALLEL;
    if (o->queue == 0)
        o->queue = SCHED_USUAL_QUEUE;
    return (uint64_t)(s->info.context * (o->yarn > 1 ? (double)o->yarn : 1));
}

mote_status sched_plan(sched *s, const sched_options *given, mote_engine_options *engine,
                       mote_error *err)
{
    TRY(check(given, err));
    sched_options *o = &s->options;
    const uint64_t trained = take_defaults(s, given);
    TRY(choose(s, given, trained, err));
    if (o->context == 0)
        o->context = trained < o->positions ? trained : o->positions;
    *engine = engine_options(s);
    return MOTE_OK;
}

mote_status sched_least_memory(const sched_options *options, uint64_t *out, mote_error *err)
{
    bool yes;
    TRY(check(options, err));
    sched *s = mem_new(1, sizeof *s);
    if (s == NULL)
        return err_set(err, MOTE_E_MEMORY, "no memory to plan a scheduler");
    take_defaults(s, options);
    at_level(s, options, LEVELS - 1);
    if (s->options.positions == 0)
        s->options.positions = least_positions(options);
    const mote_status status = fits(s, &yes, err);
    *out = s->memory.total;
    mem_free(s);
    return status;
}
