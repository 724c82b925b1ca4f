/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine.c - mote_engine_*: what an engine takes, and taking it.
 *
 * The plan and the engine are made by the same code: scratch is measured by
 * cutting an arena that has no memory, pools by their own formula, so the figure
 * a person is told beforehand is the figure that is taken.
 */
#include "base/ckd.h"
#include "base/cores.h"
#include "base/mem.h"
#include "engine/engine_int.h"
#include "sample/sample.h"

enum {
    MAX_THREADS = 512,
    MAX_SESSIONS = 4096,
    MAX_KEPT = 65536,
    MAX_BATCH = 4096,
    MAX_LOGITS_ROWS = 65536,
    DEFAULT_CONTEXT = 4096,
    DEFAULT_BATCH = 512
};
static const uint64_t max_positions = (uint64_t)1 << 32;

static mote_status too_many(mote_error *err, const char *what, uint64_t value, uint64_t max)
{
    return err_set(err, MOTE_E_ARG, "%llu %s; the most is %llu", (unsigned long long)value, what,
                   (unsigned long long)max);
}

/* Defaults filled in and ranges checked. */
static mote_status resolve(const mote_model *m, const mote_engine_options *given,
                           mote_engine_options *o, mote_error *err)
{
    *o = given != NULL ? *given : (mote_engine_options){0};
    if (o->threads == 0) {
        cores found;
        cores_find(&found);
        o->threads = found.n;
    }
    if (o->sessions == 0)
        o->sessions = 1;
    if (o->positions == 0)
        o->positions = (uint64_t)o->sessions * DEFAULT_CONTEXT;
    if (o->batch == 0)
        o->batch = DEFAULT_BATCH;
    if (o->logits_rows == 0)
        o->logits_rows = o->sessions;
    if (o->threads > MAX_THREADS)
        return too_many(err, "threads", o->threads, MAX_THREADS);
    if (o->sessions > MAX_SESSIONS)
        return too_many(err, "sessions", o->sessions, MAX_SESSIONS);
    if (o->positions > max_positions)
        return too_many(err, "positions", o->positions, max_positions);
    if (o->kept_states > MAX_KEPT)
        return too_many(err, "kept states", o->kept_states, MAX_KEPT);
    if (o->batch > MAX_BATCH)
        return too_many(err, "tokens in a batch", o->batch, MAX_BATCH);
    if (o->logits_rows > MAX_LOGITS_ROWS)
        return too_many(err, "rows of logits", o->logits_rows, MAX_LOGITS_ROWS);
    if ((unsigned)o->kv > MOTE_KV_Q8_0)
        return err_set(err, MOTE_E_ARG, "an unknown format for keys and values: %d", (int)o->kv);
    if ((unsigned)o->pin > MOTE_PIN_CORES)
        return err_set(err, MOTE_E_ARG, "an unknown way to place threads: %d", (int)o->pin);
    if (o->yarn != 0 && !(o->yarn >= 1 && o->yarn <= 4))
        return err_set(err, MOTE_E_ARG, "a YaRN factor of %g; it lies between 1 and 4",
                       (double)o->yarn);
    (void)m;
    return MOTE_OK;
}

/* However the sessions divide the positions: at worst each has one in a page of its own. Where
 * they are shared nothing is promised, and what was asked for is enough. */
static block_shape pages_for(const mote_engine *e)
{
    const mote_engine_options *o = &e->options;
    uint64_t others = o->positions > o->sessions ? o->positions - o->sessions : 0;
    return (block_shape){.n = o->shared_positions ? pages_of(o->positions)
                                                  : others / KERN_PAGE + o->sessions,
                         .bytes = e->forward.layout.page_bytes};
}

/* What sessions take themselves: of all pages together, or each of them of all pages. */
static uint64_t books_for(const mote_engine *e)
{
    const mote_engine_options *o = &e->options;
    return pages_for(e).n * BOOK_BYTES * (o->shared_positions ? o->sessions : 1);
}

/* STATE_ZERO comes first. */
static block_shape states_for(const mote_engine *e)
{
    const mote_engine_options *o = &e->options;
    return (block_shape){.n = (uint64_t)o->sessions + o->kept_states + 1,
                         .n_zero = 1,
                         .bytes = e->forward.layout.state_bytes};
}

static block_shape tails_for(const mote_engine *e)
{
    return (block_shape){.n = e->options.sessions, .bytes = e->forward.layout.tail_bytes};
}

/* Choosing a token and running a pass never overlap, so the first borrows memory of the second. */
static void *take_sample_scratch(arena *a, const forward_scratch *pass, uint32_t n_vocab)
{
    size_t bytes = sample_scratch_bytes(n_vocab);
    return bytes <= pass->wide_bytes ? (void *)pass->wide : arena_take(a, 1, bytes);
}

/* Cuts (or counts) everything an engine uses that is not a pool of blocks. */
static void take_scratch(mote_engine *e, arena *a)
{
    const mote_engine_options *o = &e->options;
    const hparams *hp = &e->model->hp;
    forward_scratch_take(&e->forward.s, a, hp, e->model->w.kinds, o->batch, o->sessions,
                         o->positions);
    e->forward.nn.worker_memory = arena_take(a, o->threads, NN_WORKER_BYTES);
    e->logits = arena_take(a, (size_t)o->logits_rows * hp->n_vocab, sizeof *e->logits);
    e->hidden = arena_take(a, (size_t)o->sessions * hp->n_embd, sizeof *e->hidden);
    e->sample_scratch = take_sample_scratch(a, &e->forward.s, hp->n_vocab);
    e->segments = arena_take(a, o->sessions, sizeof *e->segments);
    e->next_states = arena_take(a, o->sessions, sizeof *e->next_states);
    e->items = arena_take(a, o->sessions, sizeof *e->items);
    e->left = arena_take(a, o->sessions, sizeof *e->left);
    e->sessions = arena_take(a, o->sessions, sizeof *e->sessions);
    e->kept_marks = arena_take(a, (size_t)o->sessions * o->kept_states, sizeof *e->kept_marks);
    const size_t seeing = e->model->sees ? 1 : 0;
    e->spans = arena_take(a, seeing * o->sessions * SESSION_SPANS, sizeof *e->spans);
    e->runs = arena_take(a, seeing * o->batch, sizeof *e->runs);
    e->kept_counts = arena_take(a, (size_t)states_for(e).n, sizeof *e->kept_counts);
}

/* Fills e->memory, e->scratch_bytes and the layout; takes nothing. */
static mote_status measure(mote_engine *e, const mote_model *m, const mote_engine_options *given,
                           mote_error *err)
{
    e->model = m;
    TRY(resolve(m, given, &e->options, err));
    const mote_engine_options *o = &e->options;
    layout_init(&e->forward.layout, &m->hp, o->kv);
    arena counting = {0};
    take_scratch(e, &counting);
    e->scratch_bytes = counting.used;
    mote_model_info info;
    mote_model_describe(m, &info);
    mote_memory *mem = &e->memory;
    *mem = (mote_memory){.weights = m->map.bytes,
                         .model = info.private_bytes,
                         .scratch = sizeof *e + counting.used + pool_bytes(o->threads)};
    uint64_t pages, states, tails;
    if (counting.overflow || !blocks_measure(pages_for(e), &pages) ||
        !blocks_measure(states_for(e), &states) || !blocks_measure(tails_for(e), &tails) ||
        !ckd_add_u64(pages, books_for(e), &mem->kv_cache) ||
        !ckd_add_u64(states, tails, &mem->recurrent_state))
        return err_set(err, MOTE_E_MEMORY, "%u sessions over %llu positions exceed any memory",
                       o->sessions, (unsigned long long)o->positions);
    mem->total = mem->weights + mem->model + mem->kv_cache + mem->recurrent_state + mem->scratch;
    return MOTE_OK;
}

mote_status mote_engine_plan(const mote_model *model, const mote_engine_options *options,
                             mote_memory *out, mote_error *err)
{
    if (model == NULL || out == NULL)
        return err_set(err, MOTE_E_ARG, "mote_engine_plan needs a model and a place for the plan");
    mote_engine planned = {0};
    TRY(measure(&planned, model, options, err));
    *out = planned.memory;
    return MOTE_OK;
}

/* The factor in force: the caller's, or the one baked into the file. */
static void init_rope(mote_engine *e)
{
    const hparams *hp = &e->model->hp;
    float factor = e->options.yarn != 0 ? e->options.yarn : hp->yarn_factor;
    double original = hp->yarn_original != 0 ? hp->yarn_original : hp->context;
    e->yarn = factor > 1 ? factor : 1;
    rope_init(&e->forward.rope, (double)hp->rope_base, (double)e->yarn, original);
}

/* One worker to one core, the caller's own left out; the caller's thread stays free. */
static void hold_to_cores(pool *p, const cores *c)
{
    uint32_t core = 0;
    for (uint32_t worker = 1; worker < pool_size(p); worker++) {
        core += core == c->here;
        cores_set one = {{0}};
        cores_add(&one, c->strong[core++]);
        pool_hold(p, worker, &one);
    }
}

/*
 * Where threads run cannot show in a result, only in time. A quota is shared by all
 * CPUs and best spent on whichever is free, so nothing is placed under one. On
 * a machine whose cores are alike the system places threads as well as we could and
 * sees the other programs, so by default only weak cores are kept out.
 */
static void place_workers(mote_engine *e)
{
    cores c;
    cores_find(&c);
    const uint32_t n = e->options.threads;
    if (e->options.pin == MOTE_PIN_OFF || c.quota)
        return;
    if (e->options.pin == MOTE_PIN_CORES && n <= c.n_strong) {
        hold_to_cores(e->threads, &c);
        return;
    }
    for (uint32_t worker = 1; c.weaker && n == c.n && worker < n; worker++)
        pool_hold(e->threads, worker, &c.cpus);
}

static mote_status take_all(mote_engine *e, mote_error *err)
{
    const mote_engine_options *o = &e->options;
    TRY(pool_new(&e->threads, o->threads, err));
    place_workers(e);
    TRY(blocks_init(&e->pages, pages_for(e), "pages", err));
    TRY(blocks_init(&e->states, states_for(e), "states", err));
    TRY(blocks_init(&e->tails, tails_for(e), "session tails", err));
    e->scratch = mem_map(0, e->scratch_bytes);
    if (e->scratch == NULL)
        return err_set(err, MOTE_E_MEMORY, "no memory for %zu bytes of working space",
                       e->scratch_bytes);
    arena a = {.base = e->scratch};
    take_scratch(e, &a);
    for (uint32_t i = 0; i < o->sessions; i++) {
        e->sessions[i].kept = e->kept_marks + (size_t)i * o->kept_states;
        if (e->model->sees)
            e->sessions[i].spans = e->spans + (size_t)i * SESSION_SPANS;
    }
    blocks_take(&e->states); /* STATE_ZERO, held for ever */
    e->forward.hp = &e->model->hp;
    e->forward.w = &e->model->w;
    e->forward.nn.k = &e->model->kernels;
    e->forward.nn.pool = e->threads;
    e->forward.batch = o->batch;
    init_rope(e);
    return MOTE_OK;
}

mote_status mote_engine_new(mote_engine **out, const mote_model *model,
                            const mote_engine_options *options, mote_error *err)
{
    if (out == NULL)
        return err_set(err, MOTE_E_ARG, "mote_engine_new needs a place for the engine");
    *out = NULL;
    if (model == NULL)
        return err_set(err, MOTE_E_ARG, "mote_engine_new needs a model");
    mote_engine *e = mem_new(1, sizeof *e);
    if (e == NULL)
        return err_set(err, MOTE_E_MEMORY, "no memory for an engine");
    mote_status status = measure(e, model, options, err);
    if (status == MOTE_OK)
        status = take_all(e, err);
    if (status != MOTE_OK) {
        mote_engine_free(e);
        return status;
    }
    *out = e;
    return MOTE_OK;
}

void mote_engine_free(mote_engine *e)
{
    if (e == NULL)
        return;
    pool_free(e->threads);
    blocks_fini(&e->pages);
    blocks_fini(&e->states);
    blocks_fini(&e->tails);
    arena whole = {.base = e->scratch, .used = e->scratch_bytes};
    arena_release(&whole);
    mem_unmap(e->scratch, 0, e->scratch_bytes);
    mem_free(e);
}

void mote_engine_memory(const mote_engine *e, mote_memory *out)
{
    *out = e->memory;
}

void mote_engine_usage(const mote_engine *e, mote_usage *out)
{
    *out = (mote_usage){.positions_total = (uint64_t)e->pages.n * KERN_PAGE,
                        .positions_free = (uint64_t)e->pages.n_free * KERN_PAGE,
                        .sessions = e->tails.n - e->tails.n_free,
                        .sessions_total = e->options.sessions,
                        .kept_states = e->n_kept,
                        .kept_states_total = e->options.kept_states};
}

uint64_t mote_engine_positions_free(const mote_engine *e)
{
    return (uint64_t)e->pages.n_free * KERN_PAGE;
}

const mote_model *mote_engine_model(const mote_engine *e)
{
    return e->model;
}

uint32_t mote_engine_threads(const mote_engine *e)
{
    return e->options.threads;
}

void engine_set_tap(mote_engine *e, forward_tap_fn *fn, void *ctx)
{
    e->forward.tap = fn;
    e->forward.tap_ctx = ctx;
}
