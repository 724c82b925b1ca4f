/* SPDX-License-Identifier: Apache-2.0 */
/*
 * draft.c - mote_draft: chains of tokens from the MTP head.
 *
 * A chain runs the MTP block once per token (model/draft_block.c): first with the hidden row of the
 * session's last position, then with the block's own output. The chains of all items advance
 * together, so the weights are read once per token and not once per session.
 *
 * A draft computes a part of the output head: the rows of the first DRAFT_COMMON ids (ids follow
 * the order of BPE merges, so low ids are frequent), and those of higher ids among the last
 * DRAFT_WINDOW tokens of the session, at most DRAFT_RARE, the latest first. Both follow from the
 * tokens alone, so a fork, a rewind or a snapshot does not change a draft.
 *
 * A chain writes K and V of the MTP block from position length - 1 on. The next step writes the
 * same positions again, from the model's own hidden rows. Pages beyond the length are released at
 * the end.
 */
#include "base/fpmode.h"
#include "base/mem.h"
#include "engine/engine_int.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum {
    DRAFT_COMMON = 40960,
    DRAFT_RARE = 1024,
    DRAFT_WINDOW = 8192,
    DRAFT_ROWS = 64, /* sessions that draft together */
    RARE_SLOTS = 2 * DRAFT_RARE
};

/* The draft of one item in progress. */
typedef struct draft_chain {
    mote_draft_item *item;
    size_t n;       /* drafts wanted, within the context */
    size_t row;     /* rows computed */
    double product; /* of the probabilities */
    mote_token token;
    float probability; /* 0: no logit is a number */
    size_t n_rare;
    mote_token rare[DRAFT_RARE];
} draft_chain;

static size_t logits_stride(const draft_scratch *d)
{
    return d->n_common + DRAFT_RARE;
}

void draft_scratch_take(mote_engine *e, arena *a)
{
    draft_scratch *d = &e->draft;
    const mote_engine_options *o = &e->options;
    const nn_matrix *head = &e->model->w.head;
    const uint32_t n_tokens = tok_n_tokens(e->model->tok);
    d->rows = o->sessions < o->batch ? o->sessions : o->batch;
    d->rows = d->rows < DRAFT_ROWS ? d->rows : DRAFT_ROWS;
    d->n_common = n_tokens < DRAFT_COMMON ? n_tokens : DRAFT_COMMON;
    d->chains = arena_take(a, d->rows, sizeof *d->chains);
    d->block_rows = arena_take(a, d->rows, sizeof *d->block_rows);
    d->kept_rows = arena_take(a, DRAFT_KEEP_ROWS, sizeof *d->kept_rows);
    /* The block is complete when the head is computed, so its scratch is free. */
    const size_t logits_bytes = d->rows * logits_stride(d) * sizeof *d->logits;
    d->logits = logits_bytes <= e->forward.s.wide_bytes ? e->forward.s.wide
                                                        : arena_take(a, 1, logits_bytes);
    d->one = (nn_acts){.x = arena_take(a, head->cols, sizeof *d->one.x), .cols = head->cols};
    nn_acts_take(&d->one, a, nn_kind(head->format), 1, head->cols);
    d->picked = arena_take(a, DRAFT_RARE, head->row_bytes);
}

/* ---- rows of the MTP block that passes left out ---- */

/*
 * The last pass before a multiple of 32 leaves nothing out, so a state of the session has all rows
 * before it, except the last one, which needs the next token. If that token starts a page, its pass
 * computes the row: the page before is complete.
 */
bool draft_defers(const pass_segment *seg)
{
    return seg->n == 1 && seg->tokens[0] >= 0 && seg->pos % KERN_PAGE != 0 &&
           (seg->pos + 1) % KERN_CHUNK != 0;
}

uint64_t draft_saved(const mote_session *s)
{
    const uint64_t boundary = session_boundary(s);
    const bool at_state = boundary > 0 && (boundary == s->length || boundary % KERN_PAGE != 0);
    uint64_t first = at_state ? boundary - 1 : boundary;
    for (uint64_t pos = first; pos < s->length; pos++)
        if (s->tokens[pos] < 0)
            first = pos; /* the row of an image token was not left out */
    return first;
}

void draft_flush(mote_engine *e)
{
    draft_scratch *d = &e->draft;
    const size_t batch = e->options.batch;
    for (size_t i = 0; i < d->n_kept_rows; i += batch)
        forward_keep_rows(&e->forward, d->kept_rows + i,
                          d->n_kept_rows - i < batch ? d->n_kept_rows - i : batch);
    d->n_kept_rows = 0;
}

void draft_complete(mote_session *s)
{
    mote_engine *e = s->engine;
    draft_scratch *d = &e->draft;
    for (; s->draft_done + 1 < s->length; s->draft_done++) {
        const uint64_t pos = s->draft_done;
        assert(pos + 1 >= session_boundary(s) && s->tokens[pos + 1] >= 0);
        const float *hidden =
            cache_layout_hidden_at(&e->forward.layout, blocks_at(&e->tails, s->tail), pos);
        if (d->n_kept_rows == DRAFT_KEEP_ROWS)
            draft_flush(e);
        d->kept_rows[d->n_kept_rows++] = (draft_row){.token = s->tokens[pos + 1],
                                                     .hidden = hidden,
                                                     .angles = hidden + e->model->hp.n_embd,
                                                     .pos = pos,
                                                     .pages = s->pages,
                                                     .lora = &s->lora};
    }
}

/* ---- checks ---- */

static mote_status draft_check_tokens(const mote_engine *e, const mote_draft_item *it, size_t item,
                                      mote_error *err)
{
    for (size_t i = 0; i < 1 + it->n_given; i++) {
        const mote_token id = i == 0 ? it->next : it->given[i - 1];
        if (id < 0 || (uint32_t)id >= e->model->hp.n_vocab)
            return err_set(err, MOTE_E_ARG, "token %d in draft item %zu: the vocabulary has %u", id,
                           item, e->model->hp.n_vocab);
    }
    return MOTE_OK;
}

static mote_status draft_check_item(const mote_engine *e, const mote_draft_item *it, size_t item,
                                    mote_error *err)
{
    mote_session *s = it->session;
    if (s == NULL || s->engine != e)
        return err_set(err, MOTE_E_ARG,
                       "draft item %zu: session is NULL or belongs to another engine", item);
    if (s->in_check == e->check)
        return err_set(err, MOTE_E_ARG, "draft item %zu: session appears twice in one call", item);
    s->in_check = e->check;
    if (s->length == 0 || image_spans_end_open(s))
        return err_set(err, MOTE_E_ARG, "draft item %zu: the session %s", item,
                       s->length == 0 ? "is empty" : "ends inside an image");
    if (it->n_given > MOTE_MAX_DRAFTS || it->n > MOTE_MAX_DRAFTS - it->n_given)
        return err_set(err, MOTE_E_ARG,
                       "draft item %zu: %zu given tokens and %zu drafts; at most %d together", item,
                       it->n_given, it->n, MOTE_MAX_DRAFTS);
    if (it->given == NULL && it->n_given > 0)
        return err_set(err, MOTE_E_ARG, "draft item %zu: `given` must not be NULL", item);
    return draft_check_tokens(e, it, item, err);
}

/* Drafts that fit into the context: `next` and the given tokens come first. */
static size_t draft_count(const mote_draft_item *it)
{
    const uint64_t left = it->session->context - it->session->length;
    const uint64_t room = left > 1 + it->n_given ? left - 1 - it->n_given : 0;
    return it->n < room ? it->n : (size_t)room;
}

/* The first position behind those that the chain writes; it has at least one draft. */
static uint64_t draft_end(const mote_draft_item *it)
{
    return it->session->length - 1 + it->n_given + draft_count(it);
}

static mote_status draft_check_pages(mote_engine *e, mote_draft_item *items, size_t n,
                                     mote_error *err)
{
    uint64_t needed = 0;
    for (size_t i = 0; i < n; i++)
        if (draft_count(&items[i]) > 0)
            needed += session_count_pages(items[i].session, draft_end(&items[i]));
    for (size_t i = 0; i < n; i++)
        if (draft_count(&items[i]) > 0)
            session_count_pages_end(items[i].session);
    assert(e->options.shared_positions || needed <= e->pages.n_free);
    if (needed > e->pages.n_free)
        return err_set(err, MOTE_E_MEMORY,
                       "KV cache full: the drafts need %llu pages of %d positions, %u are free",
                       (unsigned long long)needed, KERN_PAGE, e->pages.n_free);
    return MOTE_OK;
}

/* ---- rare tokens ---- */

/* Adds an id to the chain's list unless it is there. `seen`: hash table of ids, 0: free. */
static void rare_add(draft_chain *c, mote_token seen[RARE_SLOTS], mote_token id)
{
    size_t at = (uint32_t)id * 2654435761u >> 21; /* 11 bits */
    while (seen[at] != 0 && seen[at] != id)
        at = (at + 1) % RARE_SLOTS;
    if (seen[at] == id)
        return;
    seen[at] = id;
    c->rare[c->n_rare++] = id;
}
_Static_assert(RARE_SLOTS == 1 << 11, "bits of the hash");

/* Is this id not among the common ones, and a token? */
static bool is_rare(const mote_engine *e, mote_token id)
{
    return id >= (mote_token)e->draft.n_common && id < (mote_token)tok_n_tokens(e->model->tok);
}

static void chain_find_rare(const mote_engine *e, draft_chain *c)
{
    const mote_draft_item *it = c->item;
    const mote_session *s = it->session;
    if (tok_n_tokens(e->model->tok) <= e->draft.n_common)
        return;
    mote_token seen[RARE_SLOTS] = {0};
    for (size_t i = it->n_given; i > 0; i--)
        if (is_rare(e, it->given[i - 1]))
            rare_add(c, seen, it->given[i - 1]);
    if (is_rare(e, it->next))
        rare_add(c, seen, it->next);
    const uint64_t first = s->length > DRAFT_WINDOW ? s->length - DRAFT_WINDOW : 0;
    for (uint64_t i = s->length; i > first && c->n_rare < DRAFT_RARE; i--)
        if (is_rare(e, s->tokens[i - 1]))
            rare_add(c, seen, s->tokens[i - 1]);
}

/* ---- chains ---- */

/* The first row of the block: the hidden row of the session's last position. */
static draft_row chain_first_row(mote_engine *e, const draft_chain *c)
{
    const mote_session *s = c->item->session;
    const float *hidden =
        cache_layout_hidden_at(&e->forward.layout, blocks_at(&e->tails, s->tail), s->length - 1);
    return (draft_row){.token = c->item->next,
                       .hidden = hidden,
                       .angles = hidden + e->model->hp.n_embd,
                       .pos = s->length - 1,
                       .pages = s->pages,
                       .lora = &s->lora};
}

/* The row after row c->row - 1. `hidden` is the output of the latter. */
static draft_row chain_next_row(const draft_chain *c, mote_token token, const float *hidden)
{
    const mote_session *s = c->item->session;
    const uint64_t pos = s->length - 1 + c->row;
    return (draft_row){.token = token,
                       .hidden = hidden,
                       .rope_pos = (uint64_t)((int64_t)pos + image_spans_end_offset(s)),
                       .pos = pos,
                       .pages = s->pages,
                       .lora = &s->lora};
}

static bool chain_needs_head(const draft_chain *c)
{
    return c->row >= c->item->n_given;
}

/* Copies row `row` of the outputs, because a kernel reads aligned rows. */
static void head_take_row(mote_engine *e, const nn_acts *y, size_t row)
{
    nn_acts *one = &e->draft.one;
    memcpy(one->x, y->x + row * y->cols, y->cols * sizeof *one->x);
    nn_quantise_row(&e->forward.nn, one, 0, nn_kind(e->model->w.head.format));
}

/* Logits of the common tokens for all rows, then of each chain's rare tokens. */
static void chains_compute_head(mote_engine *e, const nn_acts *y, size_t n)
{
    const draft_scratch *d = &e->draft;
    const nn_matrix *head = &e->model->w.head;
    const nn *run = &e->forward.nn;
    nn_matrix common = *head;
    common.rows = d->n_common;
    const nn_product product = {&common, d->logits, logits_stride(d)};
    nn_acts plain = *y; /* an adapter of the output head is left out: a draft is only a guess */
    plain.lora = NULL;
    nn_linear(run, &plain, n, &product, 1);
    for (size_t i = 0; i < n; i++) {
        const draft_chain *c = &d->chains[i];
        float *full = c->item->logits;
        if (!chain_needs_head(c) || (c->n_rare == 0 && full == NULL))
            continue;
        head_take_row(e, y, i);
        if (c->n_rare > 0)
            nn_linear_picked(run, &d->one, head, c->rare, c->n_rare, d->picked,
                             d->logits + i * logits_stride(d) + d->n_common);
        if (full != NULL) {
            const nn_product all = {head, full + c->item->n_drafts * head->rows, head->rows};
            nn_linear(run, &d->one, 1, &all, 1);
        }
    }
}

/* The most likely token of the computed ones and its probability among them. */
static void chain_pick(const mote_engine *e, draft_chain *c, const float *logits)
{
    const size_t common = e->draft.n_common, n = common + c->n_rare;
    const kern_table *k = &e->model->kernels;
    const float max = k->max(logits, n);
    c->probability = 0;
    if (!isfinite(max))
        return;
    size_t at = 0;
    while (logits[at] != max)
        at++;
    c->token = at < common ? (mote_token)at : c->rare[at - common];
    for (size_t i = at + 1; at >= common && i < n; i++) /* rare ids are not in order */
        if (logits[i] == max && c->rare[i - common] < c->token)
            c->token = c->rare[i - common];
    c->probability = 1 / k->sum_exp(logits, n, max, 1);
}

static void chains_pick_task(void *ctx, uint32_t task, uint32_t worker)
{
    (void)worker;
    const mote_engine *e = ctx;
    draft_chain *c = &e->draft.chains[task];
    if (chain_needs_head(c))
        chain_pick(e, c, e->draft.logits + task * logits_stride(&e->draft));
}

/* Takes the token after the row; false: the chain has ended. */
static bool chain_take_token(draft_chain *c, mote_token *token)
{
    mote_draft_item *it = c->item;
    if (!chain_needs_head(c)) {
        *token = it->given[c->row++];
        return true;
    }
    if (!(c->probability > 0))
        return false;
    *token = c->token;
    it->tokens[it->n_drafts] = c->token;
    it->probability[it->n_drafts++] = c->probability;
    c->row++;
    c->product *= (double)c->probability;
    return it->n_drafts < c->n && c->product >= (double)it->stop_below;
}

/* One row of each chain. Returns the number of chains that go on; they move to the front. */
static size_t chains_advance(mote_engine *e, size_t n)
{
    const draft_scratch *d = &e->draft;
    const nn_acts y = forward_draft(&e->forward, d->block_rows, n);
    bool head = false;
    for (size_t i = 0; i < n; i++)
        head |= chain_needs_head(&d->chains[i]);
    if (head) {
        chains_compute_head(e, &y, n);
        pool_run(e->threads, chains_pick_task, e, (uint32_t)n);
    }
    size_t left = 0;
    for (size_t i = 0; i < n; i++) {
        draft_chain *c = &d->chains[i];
        mote_token token;
        if (!chain_take_token(c, &token))
            continue;
        d->block_rows[left] = chain_next_row(c, token, y.x + i * y.cols);
        if (left != i)
            d->chains[left] = *c;
        left++;
    }
    return left;
}

/* Runs the chains of at most draft.rows items. */
static void draft_run_group(mote_engine *e, mote_draft_item *items, size_t n)
{
    size_t chains = 0;
    for (size_t i = 0; i < n; i++) {
        if (draft_count(&items[i]) == 0)
            continue;
        session_add_pages(items[i].session, draft_end(&items[i]));
        draft_complete(items[i].session);
        draft_chain *c = &e->draft.chains[chains];
        *c = (draft_chain){.item = &items[i], .n = draft_count(&items[i]), .product = 1};
        chain_find_rare(e, c);
        e->draft.block_rows[chains++] = chain_first_row(e, c);
    }
    draft_flush(e);
    while (chains > 0)
        chains = chains_advance(e, chains);
    for (size_t i = 0; i < n; i++)
        session_trim(items[i].session);
}

mote_status mote_draft(mote_engine *e, mote_draft_item *items, size_t n, mote_error *err)
{
    FPMODE_SCOPE;
    if (e == NULL || (items == NULL && n > 0))
        return err_set(err, MOTE_E_ARG, "mote_draft: engine and items must not be NULL");
    if (!e->model->w.draft.present)
        return err_set(err, MOTE_E_UNSUPPORTED, "the model has no MTP head, which drafts need");
    if (!e->options.drafts)
        return err_set(err, MOTE_E_UNSUPPORTED,
                       "the engine was created without `drafts` in mote_engine_options");
    e->check++;
    TRY(model_check_text_files(e->model, err));
    for (size_t i = 0; i < n; i++)
        TRY(draft_check_item(e, &items[i], i, err));
    TRY(draft_check_pages(e, items, n, err));
    for (size_t i = 0; i < n; i++)
        items[i].n_drafts = 0;
    mem_guard_begin();
    for (size_t i = 0; i < n; i += e->draft.rows)
        draft_run_group(e, items + i, n - i < e->draft.rows ? n - i : e->draft.rows);
    mem_guard_end();
    const mote_status status = model_check_text_files(e->model, err);
    for (size_t i = 0; i < n && status != MOTE_OK; i++)
        items[i].n_drafts = 0;
    return status;
}
