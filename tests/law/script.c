/* SPDX-License-Identifier: Apache-2.0 */
/*
 * script.c - random acts; see script.h.
 *
 * The acts are all calls a program can make: steps (script_step.c), drafts (script_draft.c), and
 * between them rewind, keep, unkeep, fork, save and load (also into an engine of another level),
 * free. Results are compared with the table, so no act needs a second run. script_model.c predicts
 * lengths and memory use.
 */
#include "law/script_step.h"

#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static script_live *any_live(script *s)
{
    uint32_t start = rig_below(&s->random, SCRIPT_SESSIONS);
    for (uint32_t i = 0; i < SCRIPT_SESSIONS; i++) {
        script_live *live = &s->live[(start + i) % SCRIPT_SESSIONS];
        if (live->session != NULL)
            return live;
    }
    return NULL;
}

static script_live *free_slot(script *s)
{
    for (uint32_t i = 0; i < SCRIPT_SESSIONS; i++)
        if (s->live[i].session == NULL)
            return &s->live[i];
    return NULL;
}

/* ---- rewind and keep ---- */

/* The least position that mote.h promises for a rewind to `target`. */
static uint64_t promised(const script_live *live, uint64_t target)
{
    uint64_t boundary = live->pos / 32 * 32;
    uint64_t least = 0;
    for (uint32_t i = 0; i < live->n_kept; i++)
        if (live->kept[i] <= target && live->kept[i] > least)
            least = live->kept[i];
    uint64_t first_input = target > 3 ? target - 3 : 0;
    if (target >= boundary)
        least = first_input >= live->ring_from ? target : boundary;
    return least;
}

static void act_rewind(script *s)
{
    script_live *live = any_live(s);
    if (live == NULL)
        return;
    uint64_t target = rig_below(&s->random, (uint32_t)live->pos + 1);
    if (rig_once_in(&s->random, 2)) {
        uint64_t back = rig_below(&s->random, 33);
        target = back < live->pos ? live->pos - back : 0;
    }
    if (live->n_kept > 0 && rig_once_in(&s->random, 2))
        target = live->kept[rig_below(&s->random, live->n_kept)] + rig_below(&s->random, 2);
    if (target > live->pos)
        target = live->pos;
    script_note(s, "rewind session %d from %llu to %llu", (int)(live - s->live),
                (unsigned long long)live->pos, (unsigned long long)target);
    uint64_t least = promised(live, target);
    uint64_t said = mote_session_rewind_target(live->session, target);
    uint64_t reached = mote_session_rewind(live->session, target);
    script_note(s, ", reached %llu\n", (unsigned long long)reached);
    if (reached > target || reached < least)
        script_broken(s, "the rewind must reach %llu to %llu", (unsigned long long)least,
                      (unsigned long long)target);
    if (said != reached)
        script_broken(s, "it was said that the rewind would reach %llu", (unsigned long long)said);
    live->pos = reached;
    if (reached < target)
        live->ring_from = reached > 3 ? reached - 3 : 0;
    script_check_standing(s, live, "a rewind");
    if (mote_session_logits(live->session, 0) != NULL)
        script_broken(s, "there are logits after a rewind");
    uint32_t n = 0;
    for (uint32_t i = 0; i < live->n_kept; i++)
        if (live->kept[i] <= reached)
            live->kept[n++] = live->kept[i];
    live->n_kept = n;
}

static void act_keep(script *s)
{
    script_live *live = any_live(s);
    if (live == NULL || live->n_kept == SCRIPT_MARKS)
        return;
    script_engine *e = &s->engines[live->engine];
    mote_error err = {0};
    uint64_t pos = UINT64_MAX;
    mote_status status = mote_session_keep(live->session, &pos, &err);
    script_note(s, "keep session %d at %llu: %s\n", (int)(live - s->live),
                (unsigned long long)live->pos, mote_status_name(status));
    if (status == MOTE_OK) {
        if (pos % 32 != 0 || pos > live->pos || live->pos - pos >= 64)
            script_broken(s, "the boundary kept is %llu", (unsigned long long)pos);
        live->kept[live->n_kept++] = pos;
        e->n_keeps++;
    } else if (status != MOTE_E_FULL || e->n_keeps < e->kept_states) {
        script_broken(s, "the state could not be kept: %s", err.text);
    }
    script_check_standing(s, live, "keep");
}

static void act_unkeep(script *s)
{
    script_live *live = any_live(s);
    if (live == NULL)
        return;
    uint64_t pos = 32 * rig_below(&s->random, (uint32_t)live->pos / 32 + 2);
    if (live->n_kept > 0 && !rig_once_in(&s->random, 4))
        pos = live->kept[rig_below(&s->random, live->n_kept)];
    script_note(s, "unkeep session %d at %llu\n", (int)(live - s->live), (unsigned long long)pos);
    uint32_t n = 0;
    for (uint32_t i = 0; i < live->n_kept; i++)
        if (live->kept[i] != pos)
            live->kept[n++] = live->kept[i];
    bool there = n < live->n_kept && pos > 0; /* the beginning needs no mark */
    if (pos > 0)
        live->n_kept = n;
    if (mote_session_unkeep(live->session, pos) != there)
        script_broken(s, "there %s a mark", there ? "was" : "was not");
}

/* ---- new, fork, save and load ---- */

static uint32_t n_on_engine(const script *s, uint32_t engine)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < SCRIPT_SESSIONS; i++)
        n += s->live[i].session != NULL && s->live[i].engine == engine;
    return n;
}

static void act_new(script *s)
{
    script_live *slot = free_slot(s);
    uint32_t engine = script_any_engine(s);
    if (slot == NULL)
        return;
    mote_error err = {0};
    mote_session_options options = {.context = s->engines[engine].context};
    *slot = (script_live){.engine = engine, .stream = rig_below(&s->random, LAW_STREAMS)};
    script_note(s, "new session %d on engine %u\n", (int)(slot - s->live), engine);
    MUST(mote_session_new(&slot->session, s->engines[engine].engine, &options, &err), &err);
    script_check_standing(s, slot, "mote_session_new");
}

static void act_fork(script *s)
{
    script_live *from = any_live(s), *slot = free_slot(s);
    if (from == NULL || slot == NULL)
        return;
    mote_error err = {0};
    script_note(s, "fork session %d at %llu as %d\n", (int)(from - s->live),
                (unsigned long long)from->pos, (int)(slot - s->live));
    script_live fork = *from;
    MUST(mote_session_fork(&fork.session, from->session, &err), &err);
    *slot = fork;
    script_check_standing(s, slot, "a fork");
}

static void act_save_and_load(script *s)
{
    script_live *from = any_live(s), *slot = free_slot(s);
    uint32_t engine = script_any_engine(s);
    if (from == NULL || slot == NULL || from->pos > s->engines[engine].context)
        return;
    char path[128];
    rig_temp_path(path, sizeof path, "script.snapshot");
    mote_error err = {0};
    script_note(s, "save session %d at %llu, load it on engine %u as %d\n", (int)(from - s->live),
                (unsigned long long)from->pos, engine, (int)(slot - s->live));
    MUST(mote_session_save(from->session, path, &err), &err);
    mote_session_options options = {.context = s->engines[engine].context};
    script_live loaded = {.engine = engine, .stream = from->stream};
    loaded.pos = loaded.ring_from = from->pos;
    bool fits = script_load_fits(s, &loaded);
    mote_status status =
        mote_session_load(&loaded.session, s->engines[engine].engine, path, &options, &err);
    unlink(path);
    if (status != (fits ? MOTE_OK : MOTE_E_MEMORY))
        script_broken(s, "the load says %s: %s", mote_status_name(status), err.text);
    if (!fits)
        return;
    *slot = loaded;
    script_check_standing(s, slot, "a load");
}

static void act_free(script *s)
{
    script_live *live = any_live(s);
    if (live == NULL || n_on_engine(s, 0) + n_on_engine(s, 1) < 2)
        return;
    script_free(s, live);
}

/* ---- a whole case ---- */

static void make_engine(script *s, script_engine *e, const script_models *models)
{
    static const uint32_t threads[] = {1, 1, 2, 2, 3, 7};
    static const uint32_t batches[] = {1, 3, 16, 32, 33, 64, 512, 512};
    size_t level = models->n - 1;
    if (models->n > 1 && rig_once_in(&s->random, models->lowest_once_in))
        level = 0;
    else if (models->n > 2)
        level = 1 + rig_below(&s->random, (uint32_t)models->n - 1);
    mote_engine_options options = law_options(s->table);
    options.threads = threads[rig_below(&s->random, 6)];
    options.batch = batches[rig_below(&s->random, 8)];
    options.sessions = SCRIPT_SESSIONS;
    options.kept_states = rig_below(&s->random, 7);
    options.logits_rows = SCRIPT_ROWS;
    uint32_t length = s->table->setup.length;
    e->context = rig_once_in(&s->random, 3) ? 40 + rig_below(&s->random, length - 40) : length;
    e->kept_states = options.kept_states;
    options.positions = SCRIPT_SESSIONS * ((e->context + 63) / 64 * 64 + 64);
    options.shared_positions = rig_once_in(&s->random, 3);
    if (options.shared_positions) /* enough for one session; several have to share */
        options.positions = e->context + rig_below(&s->random, 640);
    script_note(s,
                "engine %d: level %zu of %zu, %u threads, batch %u, %u kept states, context %llu, "
                "%llu positions%s\n",
                (int)(e - s->engines), level + 1, models->n, options.threads, options.batch,
                options.kept_states, (unsigned long long)e->context,
                (unsigned long long)options.positions, options.shared_positions ? ", shared" : "");
    e->engine = rig_engine(models->at[level], &options);
}

typedef void act_fn(script *s);
static const struct {
    act_fn *act;
    uint32_t weight;
} acts[] = {
    {script_step, 50},
    {act_rewind, 14},
    {act_fork, 6},
    {act_save_and_load, 4},
    {act_keep, 12},
    {act_new, 6},
    {act_free, 4},
    {script_step_overfull, 2},
    {script_step_cancelled, 2},
    {script_step_aborted, 4},
    {act_unkeep, 4},
    {script_draft, 16}, /* the last: only with drafts */
};

static void one_act(script *s)
{
    uint32_t total = 0;
    const size_t n = sizeof acts / sizeof *acts - (s->table->setup.drafts ? 0 : 1);
    for (size_t i = 0; i < n; i++)
        total += acts[i].weight;
    uint32_t drawn = rig_below(&s->random, total);
    size_t i = 0;
    while (drawn >= acts[i].weight)
        drawn -= acts[i++].weight;
    acts[i].act(s);
    script_check_use(s);
}

void script_run(script *s, const law_table *table, const script_models *models, uint64_t seed,
                uint64_t number)
{
    uint64_t blocks = mem_count().blocks;
    *s = (script){.table = table, .number = number};
    s->random = (rig_random){.seed = seed, .stream = number};
    s->budget = 20 + rig_below(&s->random, 200);
    make_engine(s, &s->engines[0], models);
    if (rig_once_in(&s->random, 3))
        make_engine(s, &s->engines[1], models);
    uint32_t n = 1 + rig_below(&s->random, rig_once_in(&s->random, 3) ? SCRIPT_SESSIONS : 3);
    for (uint32_t i = 0; i < n; i++)
        act_new(s);
    for (uint32_t acted = 0; s->budget > 0 && acted < 200; acted++)
        one_act(s);
    for (uint32_t i = 0; i < SCRIPT_SESSIONS; i++)
        if (s->live[i].session != NULL)
            mote_session_free(s->live[i].session);
    for (uint32_t i = 0; i < SCRIPT_ENGINES; i++)
        mote_engine_free(s->engines[i].engine);
    if (mem_count().blocks != blocks)
        script_broken(s, "the case leaks %lld blocks", (long long)(mem_count().blocks - blocks));
}
