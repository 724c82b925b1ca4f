/* SPDX-License-Identifier: Apache-2.0 */
/*
 * script.c - see script.h.
 *
 * The acts are the calls a program may make between two steps: append (one or
 * many sessions, with and without logits), rewind, keep and unkeep, fork, save and
 * load (also into an engine of another level), free, a step that does not fit, and
 * one that is cancelled. What a session returns afterwards is looked up in the
 * table, so no act needs a second run to compare with; where it stands and what it
 * holds is known to script_model.c.
 */
#include "law/script_model.h"

#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A session may leave its stream for any other that has not parted from it yet. */
static void change_stream(script *s, script_live *live)
{
    uint32_t other = rig_below(&s->random, LAW_STREAMS);
    if (live->pos <= law_common(s->table, live->stream, other))
        live->stream = other;
}

static uint64_t room(const script *s, const script_live *live)
{
    uint64_t context = s->engines[live->engine].context;
    uint64_t end = context < s->table->setup.length ? context : s->table->setup.length;
    return end - live->pos;
}

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

static uint32_t any_engine(script *s)
{
    return s->engines[1].engine != NULL ? rig_below(&s->random, SCRIPT_ENGINES) : 0;
}

/* ---- steps ---- */

typedef struct batch {
    mote_work work[SCRIPT_SESSIONS];
    script_live *live[SCRIPT_SESSIONS];
    size_t n;
    uint32_t engine;
} batch;

static uint32_t draw_length(script *s, uint64_t most)
{
    static const uint32_t reach[] = {1, 1, 1, 2, 5, 17, 33, 40, 70, 100};
    uint32_t upto = reach[rig_below(&s->random, sizeof reach / sizeof *reach)];
    uint32_t n = 1 + rig_below(&s->random, upto);
    return n < most ? n : (uint32_t)most;
}

static void draw_batch(script *s, batch *b)
{
    *b = (batch){.engine = any_engine(s)};
    uint32_t one_in = 1 + rig_below(&s->random, 3);
    uint32_t rows = 0;
    for (uint32_t i = 0; i < SCRIPT_SESSIONS; i++) {
        script_live *live = &s->live[i];
        if (live->session == NULL || live->engine != b->engine || room(s, live) == 0 ||
            !rig_once_in(&s->random, one_in))
            continue;
        change_stream(s, live);
        uint32_t n = draw_length(s, room(s, live));
        mote_logits want = rig_once_in(&s->random, 4)   ? MOTE_LOGITS_NONE
                           : rig_once_in(&s->random, 3) ? MOTE_LOGITS_ALL
                           : rig_once_in(&s->random, 4) ? MOTE_HIDDEN_LAST
                                                        : MOTE_LOGITS_LAST;
        uint32_t costs = want == MOTE_LOGITS_ALL ? n : want == MOTE_LOGITS_LAST ? 1 : 0;
        if (rows + costs > SCRIPT_ROWS) {
            want = MOTE_LOGITS_NONE;
            costs = 0;
        }
        rows += costs;
        b->live[b->n] = live;
        b->work[b->n++] = (mote_work){.session = live->session,
                                      .tokens = s->table->tokens[live->stream] + live->pos,
                                      .n = n,
                                      .want = want};
    }
}

static void note_batch(script *s, const batch *b, const char *verb)
{
    static const char *const names[] = {"last", "none", "all", "hidden"};
    script_note(s, "%s on engine %u:", verb, b->engine);
    for (size_t i = 0; i < b->n; i++)
        script_note(s, " [session %d: stream %u from %llu, %zu, %s]", (int)(b->live[i] - s->live),
                    b->live[i]->stream, (unsigned long long)b->live[i]->pos, b->work[i].n,
                    names[b->work[i].want]);
    script_note(s, "\n");
}

static void check_row(script *s, const script_live *live, uint64_t pos, size_t row)
{
    if (!law_same(s->table, live->stream, pos, mote_session_logits(live->session, row)))
        script_broken(s, "session %d: the logits of stream %u at position %llu are other bits",
                      (int)(live - s->live), live->stream, (unsigned long long)pos);
}

static void check_logits(script *s, const script_live *live, const mote_work *work)
{
    size_t rows = work->want == MOTE_LOGITS_ALL ? work->n : work->want == MOTE_LOGITS_LAST ? 1 : 0;
    for (size_t row = 0; row < rows; row++)
        check_row(s, live, live->pos - rows + row, row);
    if (mote_session_logits(live->session, rows) != NULL)
        script_broken(s, "session %d has a row of logits nobody asked for", (int)(live - s->live));
    const float *hidden = mote_session_hidden(live->session, NULL);
    bool right = work->want != MOTE_HIDDEN_LAST
                     ? hidden == NULL
                     : law_same_hidden(s->table, live->stream, live->pos - 1, hidden);
    if (!right)
        script_broken(s, "session %d: the hidden row at position %llu is other bits",
                      (int)(live - s->live), (unsigned long long)live->pos - 1);
}

static void finish_batch(script *s, batch *b)
{
    for (size_t i = 0; i < b->n; i++) {
        script_advance(s, b->live[i], b->work[i].n);
        script_check_standing(s, b->live[i], "a step");
        check_logits(s, b->live[i], &b->work[i]);
    }
}

static mote_status step(script *s, const batch *b)
{
    mote_error err = {0};
    uint64_t before = mem_count().requests;
    mote_status status = mote_step(s->engines[b->engine].engine, b->work, b->n, &err);
    if (mem_count().requests != before)
        script_broken(s, "the step allocated memory");
    if (status != MOTE_OK && status != MOTE_E_FULL && status != MOTE_E_CANCELED &&
        status != MOTE_E_MEMORY)
        script_broken(s, "the step failed: %s", err.text);
    return status;
}

static void free_live(script *s, script_live *live)
{
    script_note(s, "free session %d\n", (int)(live - s->live));
    mote_session_free(live->session);
    *live = (script_live){0};
}

/* The engine has too few pages: nothing may move. Then somebody has to go. */
static void refused(script *s, const batch *b)
{
    if (step(s, b) != MOTE_E_MEMORY)
        script_broken(s, "the step has taken more pages than there are");
    for (size_t i = 0; i < b->n; i++)
        script_check_standing(s, b->live[i], "a step without room");
    script_check_use(s);
    free_live(s, b->live[rig_below(&s->random, (uint32_t)b->n)]);
}

static void act_step(script *s)
{
    batch b;
    draw_batch(s, &b);
    if (b.n == 0)
        return;
    note_batch(s, &b, "step");
    if (!script_fits(s, b.engine, b.live, b.work, b.n)) {
        refused(s, &b);
        return;
    }
    if (step(s, &b) != MOTE_OK)
        script_broken(s, "the step did not run");
    for (size_t i = 0; i < b.n; i++)
        s->budget -= (int64_t)b.work[i].n;
    finish_batch(s, &b);
}

/* One item too long among others: nothing may move. */
static void act_overfull(script *s)
{
    static const mote_token filler[4096];
    batch b;
    draw_batch(s, &b);
    if (b.n == 0)
        return;
    size_t victim = rig_below(&s->random, (uint32_t)b.n);
    uint64_t left = s->engines[b.engine].context - b.live[victim]->pos;
    b.work[victim].tokens = filler;
    b.work[victim].n = (size_t)left + 1 + rig_below(&s->random, 3);
    b.work[victim].want = MOTE_LOGITS_NONE;
    if (b.work[victim].n > sizeof filler / sizeof *filler)
        return;
    note_batch(s, &b, "overfull step");
    if (step(s, &b) != MOTE_E_FULL)
        script_broken(s, "an item that does not fit was taken");
    for (size_t i = 0; i < b.n; i++)
        script_check_standing(s, b.live[i], "a step that did not fit");
}

static void act_cancelled(script *s)
{
    batch b;
    draw_batch(s, &b);
    if (b.n == 0 || !script_fits(s, b.engine, b.live, b.work, b.n))
        return;
    note_batch(s, &b, "cancelled step");
    mote_cancel(s->engines[b.engine].engine);
    if (step(s, &b) == MOTE_OK) {
        finish_batch(s, &b);
        return;
    }
    for (size_t i = 0; i < b.n; i++) {
        script_live *live = b.live[i];
        uint64_t length = mote_session_length(live->session);
        if (length < live->pos || length > live->pos + b.work[i].n)
            script_broken(s, "after a cancelled step session %d stands at %llu",
                          (int)(live - s->live), (unsigned long long)length);
        s->budget -= (int64_t)(length - live->pos);
        script_advance(s, live, length - live->pos);
        script_check_standing(s, live, "a cancelled step");
    }
}

/* ---- going back ---- */

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
    uint64_t said = mote_session_reach(live->session, target);
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

/* ---- second timelines ---- */

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
    uint32_t engine = any_engine(s);
    if (slot == NULL)
        return;
    mote_error err = {0};
    mote_session_options options = {.context = s->engines[engine].context};
    *slot = (script_live){.engine = engine, .stream = rig_below(&s->random, LAW_STREAMS)};
    script_note(s, "new session %d on engine %u\n", (int)(slot - s->live), engine);
    MUST(mote_session_new(&slot->session, s->engines[engine].engine, &options, &err), &err);
    script_check_standing(s, slot, "birth");
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
    uint32_t engine = any_engine(s);
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
    free_live(s, live);
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
    if (options.shared_positions) /* one session has room; more have to share */
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
    {act_step, 50}, {act_rewind, 14}, {act_fork, 6},     {act_save_and_load, 4}, {act_keep, 12},
    {act_new, 6},   {act_free, 4},    {act_overfull, 2}, {act_cancelled, 2},     {act_unkeep, 4},
};

static void one_act(script *s)
{
    uint32_t total = 0;
    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++)
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
