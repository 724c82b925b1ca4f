/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine.c - mote_engine_*: memory plan, creation, thread placement, usage.
 *
 * mote_engine_plan and mote_engine_new run the same code. Scratch is measured by allocating from an
 * arena without memory; block pools are measured by blocks_measure. The planned bytes are therefore
 * exactly the bytes that mote_engine_new takes.
 */
#include "base/fpmode.h"
#include "base/ckd.h"
#include "base/cpu.h"
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

/* Fills in defaults and checks ranges. */
static mote_status options_resolve(const mote_engine_options *given, mote_engine_options *o,
                                   mote_error *err)
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
    const struct {
        const char *name;
        uint64_t value, max;
    } limits[] = {
        {"threads", o->threads, MAX_THREADS},
        {"sessions", o->sessions, MAX_SESSIONS},
        {"positions", o->positions, max_positions},
        {"kept_states", o->kept_states, MAX_KEPT},
        {"batch", o->batch, MAX_BATCH},
        {"logits_rows", o->logits_rows, MAX_LOGITS_ROWS},
        {"lora_rank", o->lora_rank, MOTE_MAX_LORA_RANK},
    };
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (limits[i].value > limits[i].max)
            return err_set(err, MOTE_E_ARG, "%s must be at most %llu, got %llu", limits[i].name,
                           (unsigned long long)limits[i].max, (unsigned long long)limits[i].value);
    if ((unsigned)o->kv > MOTE_KV_Q4_0)
        return err_set(err, MOTE_E_ARG, "unknown KV cache format %d", (int)o->kv);
    if ((unsigned)o->pin > MOTE_PIN_CORES)
        return err_set(err, MOTE_E_ARG, "unknown thread placement %d", (int)o->pin);
    if (o->yarn != 0 && !(o->yarn >= 1 && o->yarn <= 4))
        return err_set(err, MOTE_E_ARG, "yarn must be 1 to 4, got %g", (double)o->yarn);
    return MOTE_OK;
}

/* Reserved contexts are rounded up to whole pages. For n contexts with P positions in total that is
 * at most (P - n) / 64 + n pages. Shared positions need no rounding per session. */
static block_shape engine_page_shape(const mote_engine *e)
{
    const mote_engine_options *o = &e->options;
    uint64_t others = o->positions > o->sessions ? o->positions - o->sessions : 0;
    return (block_shape){.n = o->shared_positions ? pages_of(o->positions)
                                                  : others / KERN_PAGE + o->sessions,
                         .bytes = e->forward.layout.page_bytes};
}

static block_shape engine_state_shape(const mote_engine *e)
{
    const mote_engine_options *o = &e->options;
    return (block_shape){.n = (uint64_t)o->sessions + o->kept_states + 1,
                         .n_zero = 1, /* STATE_ZERO */
                         .bytes = e->forward.layout.state_bytes};
}

static block_shape engine_tail_shape(const mote_engine *e)
{
    return (block_shape){.n = e->options.sessions, .bytes = e->forward.layout.tail_bytes};
}

/* Takes from the arena (or counts) everything that is not in a block pool. */
static void engine_take_scratch(mote_engine *e, arena *a)
{
    const mote_engine_options *o = &e->options;
    const hparams *hp = &e->model->hp;
    forward_scratch_take(&e->forward.s, a, hp, &e->model->w, o->batch, o->sessions, o->positions,
                         o->drafts, o->lora_rank);
    const bool limited = o->expert_memory < e->model->w.expert_bytes;
    expert_pages_take(&e->experts, a, hp, limited ? o->expert_memory : 0);
    e->forward.nn.worker_bytes = nn_worker_bytes(e->model->w.kinds);
    e->forward.nn.worker_memory = arena_take(a, o->threads, e->forward.nn.worker_bytes);
    e->logits = arena_take(a, (size_t)o->logits_rows * hp->n_vocab, sizeof *e->logits);
    e->hidden = arena_take(a, (size_t)o->sessions * hp->n_embd, sizeof *e->hidden);
    /* Sampling and passes never overlap, so sampling uses the scratch of a pass if it is enough. */
    const size_t sample_bytes = sample_scratch_bytes(hp->n_vocab);
    e->sample_scratch = sample_bytes <= e->forward.s.wide_bytes ? (void *)e->forward.s.wide
                                                                : arena_take(a, 1, sample_bytes);
    e->segments = arena_take(a, o->sessions, sizeof *e->segments);
    e->next_states = arena_take(a, o->sessions, sizeof *e->next_states);
    e->items = arena_take(a, o->sessions, sizeof *e->items);
    e->aborted = arena_take(a, o->sessions, sizeof *e->aborted);
    e->sessions = arena_take(a, o->sessions, sizeof *e->sessions);
    e->kept_marks = arena_take(a, (size_t)o->sessions * o->kept_states, sizeof *e->kept_marks);
    const size_t with_vision = e->model->has_vision ? 1 : 0;
    e->spans = arena_take(a, with_vision * o->sessions * SESSION_SPANS, sizeof *e->spans);
    e->images = arena_take(a, with_vision * o->batch, sizeof *e->images);
    e->kept_counts = arena_take(a, (size_t)engine_state_shape(e).n, sizeof *e->kept_counts);
    if (o->drafts)
        draft_scratch_take(e, a);
}

/* Fills in e->options, e->memory, e->scratch_bytes and the cache layout; allocates nothing. */
static mote_status engine_measure(mote_engine *e, const mote_model *m,
                                  const mote_engine_options *given, mote_error *err)
{
    e->model = m;
    TRY(options_resolve(given, &e->options, err));
    e->options.drafts = e->options.drafts && m->w.draft.present;
    const mote_engine_options *o = &e->options;
    cache_layout_init(&e->forward.layout, &m->hp, o->kv, o->drafts);
    arena counting = {0};
    engine_take_scratch(e, &counting);
    e->scratch_bytes = counting.used;
    mote_model_info info;
    mote_model_describe(m, &info);
    mote_memory *mem = &e->memory;
    const uint64_t all = m->w.expert_bytes, kept = o->expert_memory;
    const uint64_t experts = kept == 0 || kept > all ? all : kept;
    *mem = (mote_memory){.weights = m->files.bytes + m->vision_files.bytes + m->draft_files.bytes -
                                    all + experts,
                         .experts = experts,
                         .model = info.private_bytes,
                         .scratch = sizeof *e + counting.used + pool_bytes(o->threads)};
    uint64_t pages, states, tails;
    const uint64_t page_entries =
        engine_page_shape(e).n * PAGE_ENTRY_BYTES * (o->shared_positions ? o->sessions : 1);
    if (counting.overflow || !blocks_measure(engine_page_shape(e), &pages) ||
        !blocks_measure(engine_state_shape(e), &states) ||
        !blocks_measure(engine_tail_shape(e), &tails) ||
        !ckd_add_u64(pages, page_entries, &mem->kv_cache) ||
        !ckd_add_u64(states, tails, &mem->recurrent_state))
        return err_set(err, MOTE_E_MEMORY,
                       "%u sessions and %llu positions exceed the address space", o->sessions,
                       (unsigned long long)o->positions);
    mem->total = mem->weights + mem->model + mem->kv_cache + mem->recurrent_state + mem->scratch;
    if (o->drafts) {
        mote_engine plain = {0};
        mote_engine_options without = *o;
        without.drafts = false;
        TRY(engine_measure(&plain, m, &without, err));
        mem->drafts = mem->total - plain.memory.total;
    }
    return MOTE_OK;
}

mote_status mote_engine_plan(const mote_model *model, const mote_engine_options *options,
                             mote_memory *out, mote_error *err)
{
    FPMODE_SCOPE;
    if (model == NULL || out == NULL)
        return err_set(err, MOTE_E_ARG, "mote_engine_plan: model and out must not be NULL");
    mote_engine planned = {0};
    TRY(engine_measure(&planned, model, options, err));
    *out = planned.memory;
    return MOTE_OK;
}

/* The YaRN factor of the options overrides the one in the file. */
static void engine_init_rope(mote_engine *e)
{
    const hparams *hp = &e->model->hp;
    float factor = e->options.yarn != 0 ? e->options.yarn : hp->yarn_factor;
    double original = hp->yarn_original != 0 ? hp->yarn_original : hp->context;
    e->yarn = factor > 1 ? factor : 1;
    rope_init(&e->forward.rope, (double)hp->rope_base, (double)e->yarn, original);
}

/* Pins each worker to a core, except the core of the calling thread, which is not pinned. */
static void pool_pin_to_cores(pool *p, const cores *c)
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
 * Placement affects speed only, never a result. Under a cgroup CPU quota threads are not pinned:
 * the quota is best spent on any free CPU. On a machine with equal cores the kernel places threads
 * well and knows the other programs. So the default only excludes efficiency cores.
 */
static void engine_place_workers(mote_engine *e)
{
    cores c;
    cores_find(&c);
    const uint32_t n = e->options.threads;
    if (e->options.pin == MOTE_PIN_OFF || c.quota)
        return;
    if (e->options.pin == MOTE_PIN_CORES && n <= c.n_strong) {
        pool_pin_to_cores(e->threads, &c);
        return;
    }
    for (uint32_t worker = 1; c.weaker && n == c.n && worker < n; worker++)
        pool_hold(e->threads, worker, &c.cpus);
}

static mote_status engine_take_all(mote_engine *e, mote_error *err)
{
    const mote_engine_options *o = &e->options;
    TRY(pool_new(&e->threads, o->threads, err));
    engine_place_workers(e);
    TRY(blocks_init(&e->pages, engine_page_shape(e), "KV pages", err));
    TRY(blocks_init(&e->states, engine_state_shape(e), "recurrent states", err));
    TRY(blocks_init(&e->tails, engine_tail_shape(e), "session tails", err));
    e->scratch = mem_map(0, e->scratch_bytes);
    if (e->scratch == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: %zu bytes of scratch", e->scratch_bytes);
    arena a = {.base = e->scratch};
    engine_take_scratch(e, &a);
    for (uint32_t i = 0; i < o->sessions; i++) {
        e->sessions[i].kept = e->kept_marks + (size_t)i * o->kept_states;
        if (e->model->has_vision)
            e->sessions[i].spans = e->spans + (size_t)i * SESSION_SPANS;
    }
    blocks_take(&e->states); /* STATE_ZERO, never released */
    e->forward.hp = &e->model->hp;
    e->forward.w = &e->model->w;
    e->forward.nn.k = &e->model->kernels;
    e->forward.nn.pool = e->threads;
    e->forward.batch = o->batch;
    e->forward.pages = &e->experts;
    engine_init_rope(e);
    return MOTE_OK;
}

mote_status mote_engine_new(mote_engine **out, const mote_model *model,
                            const mote_engine_options *options, mote_error *err)
{
    FPMODE_SCOPE;
    if (out == NULL)
        return err_set(err, MOTE_E_ARG, "mote_engine_new: out must not be NULL");
    *out = NULL;
    if (model == NULL)
        return err_set(err, MOTE_E_ARG, "mote_engine_new: model must not be NULL");
    mote_engine *e = mem_new(1, sizeof *e);
    if (e == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: %zu bytes for an engine", sizeof *e);
    mote_status status = engine_measure(e, model, options, err);
    if (status == MOTE_OK)
        status = engine_take_all(e, err);
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

uint32_t mote_engine_logits_rows(const mote_engine *e)
{
    return e->options.logits_rows;
}

static void engine_observe_product(void *ctx, const nn_observed *o)
{
    const mote_engine *e = ctx;
    e->observe(e->observe_ctx, &(mote_observed){.name = o->w->name.p,
                                                .name_bytes = o->w->name.n,
                                                .experts = o->experts,
                                                .expert = o->expert,
                                                .rows = o->x,
                                                .n_rows = o->n_rows,
                                                .n_cols = o->w->cols});
}

void mote_engine_observe(mote_engine *e, mote_observe_fn *fn, void *ctx)
{
    e->observe = fn;
    e->observe_ctx = ctx;
    e->forward.nn.observe = fn != NULL ? engine_observe_product : NULL;
    e->forward.nn.observe_ctx = e;
}

void engine_set_tap(mote_engine *e, forward_tap_fn *fn, void *ctx)
{
    e->forward.tap = fn;
    e->forward.tap_ctx = ctx;
}
