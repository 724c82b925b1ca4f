/* SPDX-License-Identifier: Apache-2.0 */
/*
 * draft_block.c - the MTP block, a decoder block that predicts the token after the next one.
 *
 *     u = W_join [RMSNorm(E[x(p+1)]), RMSNorm(h(p))]      embedding half first
 *     u = one attention layer with feed-forward network, with K and V of its own
 *     y = RMSNorm(u)                                      W_head y predicts x(p+2)
 *
 * h(p) is the hidden row of position p: the output of the model after the final norm. In a chain of
 * drafts y of the row before takes its place. K and V of row p have the rotary angles of position p
 * and are stored at position p, in the last attention layer of the KV pages.
 *
 * A forward pass over positions a .. b knows the tokens up to b, so it stores K and V of positions
 * a-1 .. b-1. The hidden row of a-1 comes from the session's tail. These rows are read by drafts
 * only, so attention and feed-forward network are not computed for them. A pass of one token may
 * leave its row to a later call of forward_keep_rows, which reads the weights once for many rows.
 */
#include "model/forward_int.h"

#include <string.h>

enum { JOIN_ROWS = 8 }; /* per task */

/* Writes row `row` of the joined rows: RMSNorm of both halves, quantised for W_join. `embedding` is
 * not normed yet. */
static void join_row(const forward *f, nn_acts *join, size_t row, const float *embedding,
                     const float *hidden)
{
    const draft_head *d = &f->w->draft;
    const size_t n_embd = f->hp->n_embd;
    float *x = join->x + row * 2 * n_embd;
    f->nn.k->rmsnorm(embedding, d->embd_norm, n_embd, f->hp->eps, x);
    f->nn.k->rmsnorm(hidden, d->hidden_norm, n_embd, f->hp->eps, x + n_embd);
    nn_quantise_row(&f->nn, join, row, nn_kind(d->join.format));
}

static nn_acts join_acts(const forward *f)
{
    nn_acts join = f->s.mid;
    join.cols = 2 * (size_t)f->hp->n_embd;
    return join;
}

static uint32_t join_tasks(size_t rows)
{
    return (uint32_t)((rows + JOIN_ROWS - 1) / JOIN_ROWS);
}

/* K and V of the n joined rows, which f->s.attention places. */
static void join_store(const forward *f, const nn_acts *join, size_t n, size_t n_segments,
                       const float *cos, const float *sin)
{
    const draft_head *d = &f->w->draft;
    const attention_layer *a = &d->block.attention;
    const size_t kv_floats = f->layout.attention.kv_heads * KERN_HEAD_DIM;
    float *k = f->s.wide;         /* [n][kv_heads][256] */
    float *v = k + n * kv_floats; /* [n][kv_heads][256] */
    nn_acts in = f->s.in;
    in.cols = f->hp->n_embd;
    const nn_product u = {&d->join, f->s.branch, f->hp->n_embd};
    nn_linear(&f->nn, join, n, &u, 1);
    nn_residual_norm(&f->nn, f->s.branch, NULL, d->block.mixer_norm, f->hp->eps, n, &in,
                     nn_kind(a->k.format) | nn_kind(a->v.format));
    const nn_product products[] = {{&a->k, k, kv_floats}, {&a->v, v, kv_floats}};
    nn_linear(&f->nn, &in, n, products, 2);
    const attn_rows rows = {.k = k, .v = v, .cos = cos, .sin = sin};
    nn_attention_store(&f->nn, &f->layout.attention, &a->norms, f->layout.draft_layer,
                       f->s.attention, n_segments, &rows);
}

/* ---- rows of a forward pass ---- */

/* Has the first token of the segment no row of the block? Position 0 has none, because nothing
 * precedes it. */
static bool segment_skips(const pass_segment *seg)
{
    return seg->n > 0 && (seg->pos == 0 || seg->defers);
}

/* Rows of the MTP block in a pass. */
typedef struct keep_run {
    const pass *p;
    nn_acts join;
    const float *hidden; /* [rows of the pass][n_embd] */
    float *cos, *sin;    /* [rows of the block][32] */
} keep_run;

/* Row `row` of the block: token `at` of the segment, which is row pass_row of the pass. */
static void keep_join_row(keep_run *run, const pass_segment *seg, size_t at, size_t pass_row,
                          size_t row, float *embedding)
{
    const forward *f = run->p->f;
    const forward_scratch *s = run->p->s;
    const size_t n_embd = f->hp->n_embd, bytes = ROPE_PAIRS * sizeof(float);
    const float *hidden, *cos, *sin;
    if (at > 0) {
        hidden = run->hidden + (pass_row - 1) * n_embd;
        cos = s->cos + (pass_row - 1) * ROPE_PAIRS;
        sin = s->sin + (pass_row - 1) * ROPE_PAIRS;
    } else { /* the position before is not in the pass */
        hidden = cache_layout_hidden_at(&f->layout, seg->tail, seg->pos - 1);
        cos = hidden + n_embd;
        sin = cos + ROPE_PAIRS;
    }
    segment_embed(f, seg, at, embedding);
    join_row(f, &run->join, row, embedding, hidden);
    memcpy(run->cos + row * ROPE_PAIRS, cos, bytes);
    memcpy(run->sin + row * ROPE_PAIRS, sin, bytes);
}

static void keep_join_task(void *ctx, uint32_t task, uint32_t worker)
{
    keep_run *run = ctx;
    const pass *p = run->p;
    size_t row = (size_t)task * JOIN_ROWS;
    size_t end = row + JOIN_ROWS < p->n_rows ? row + JOIN_ROWS : p->n_rows;
    const pass_segment *seg = p->segments;
    size_t first = 0, without = segment_skips(seg); /* rows without a row of the block */
    for (; row < end; row++) {
        while (row >= first + seg->n) {
            first += seg++->n;
            without += segment_skips(seg);
        }
        if (row > first || !segment_skips(seg))
            keep_join_row(run, seg, row - first, row, row - without, nn_worker(&p->f->nn, worker));
    }
}

/* Places the rows of the block: one position before those of the pass. Returns their number. */
static size_t keep_place_segments(const pass *p, size_t *n_segments)
{
    size_t row = 0, spans = 0;
    *n_segments = 0;
    for (const pass_segment *seg = p->segments; seg < p->segments + p->n_segments; seg++) {
        const size_t skip = segment_skips(seg), n = seg->n > skip ? seg->n - skip : 0;
        if (n == 0)
            continue;
        p->s->attention[(*n_segments)++] =
            (attn_segment){.row = row, .n = n, .pos = seg->pos - 1 + skip, .pages = seg->pages};
        spans = nn_lora_add(&p->s->lora, spans, row, n, seg->lora);
        row += n;
    }
    return row;
}

static void hidden_save(const keep_run *run, float *to, size_t row)
{
    const size_t n_embd = run->p->f->hp->n_embd, bytes = ROPE_PAIRS * sizeof(float);
    memcpy(to, run->hidden + row * n_embd, n_embd * sizeof *to);
    memcpy(to + n_embd, run->p->s->cos + row * ROPE_PAIRS, bytes);
    memcpy(to + n_embd + ROPE_PAIRS, run->p->s->sin + row * ROPE_PAIRS, bytes);
}

/* Saves the hidden rows of the last positions in the tail, and that before the last multiple of 32
 * in its state. */
static void keep_save_hidden(const keep_run *run)
{
    const pass *p = run->p;
    const cache_layout *l = &p->f->layout;
    size_t row = 0; /* of the segment's first token */
    for (const pass_segment *seg = p->segments; seg < p->segments + p->n_segments; seg++) {
        const uint64_t end = seg->pos + seg->n, boundary = end / KERN_CHUNK * KERN_CHUNK;
        const size_t last = seg->n < HIDDEN_RING ? seg->n : HIDDEN_RING;
        for (size_t at = seg->n - last; at < seg->n; at++)
            hidden_save(run, cache_layout_hidden_at(l, seg->tail, seg->pos + at), row + at);
        if (seg->n > 0 && boundary > seg->pos)
            hidden_save(run, cache_layout_hidden(l, seg->next_state),
                        row + (size_t)(boundary - 1 - seg->pos));
        row += seg->n;
    }
}

void pass_keep_draft_rows(pass *p)
{
    const forward *f = p->f;
    const size_t kv_floats = f->layout.attention.kv_heads * KERN_HEAD_DIM;
    const nn_acts in = pass_norm(p, f->w->out_norm, 0);
    pass_tap(p, "hidden", -1, in.x);
    size_t n_segments;
    const size_t n = keep_place_segments(p, &n_segments);
    float *cos = p->s->wide + 2 * n * kv_floats; /* [n][32], after K and V */
    keep_run run = {
        .p = p, .join = join_acts(f), .hidden = in.x, .cos = cos, .sin = cos + n * ROPE_PAIRS};
    if (n > 0)
        pool_run(f->nn.pool, keep_join_task, &run, join_tasks(p->n_rows));
    keep_save_hidden(&run);
    if (n > 0)
        join_store(f, &run.join, n, n_segments, run.cos, run.sin);
}

/* ---- drafts ---- */

typedef struct draft_run {
    const forward *f;
    const draft_row *rows;
    size_t n;
    nn_acts join;
} draft_run;

static void draft_join_task(void *ctx, uint32_t task, uint32_t worker)
{
    draft_run *run = ctx;
    const forward *f = run->f;
    const size_t first = (size_t)task * JOIN_ROWS;
    const size_t end = first + JOIN_ROWS < run->n ? first + JOIN_ROWS : run->n;
    float *embedding = nn_worker(&f->nn, worker);
    for (size_t i = first; i < end; i++) {
        const draft_row *r = &run->rows[i];
        float *cos = f->s.cos + i * ROPE_PAIRS, *sin = f->s.sin + i * ROPE_PAIRS;
        nn_matrix_row(&f->w->embd, (size_t)r->token, embedding);
        join_row(f, &run->join, i, embedding, r->hidden);
        if (r->angles == NULL) {
            rope_angles(&f->rope, r->rope_pos, cos, sin);
            continue;
        }
        memcpy(cos, r->angles, ROPE_PAIRS * sizeof *cos);
        memcpy(sin, r->angles + ROPE_PAIRS, ROPE_PAIRS * sizeof *sin);
    }
}

void forward_keep_rows(const forward *f, const draft_row *rows, size_t n)
{
    draft_run run = {.f = f, .rows = rows, .n = n, .join = join_acts(f)};
    attn_segment *seg = f->s.attention;
    size_t spans = 0;
    pool_run(f->nn.pool, draft_join_task, &run, join_tasks(n));
    for (size_t i = 0; i < n; i++) {
        spans = nn_lora_add(&f->s.lora, spans, i, 1, rows[i].lora);
        const bool follows =
            i > 0 && rows[i].pages == rows[i - 1].pages && rows[i].pos == rows[i - 1].pos + 1;
        if (i > 0 && !follows)
            seg++;
        if (follows)
            seg->n++;
        else
            *seg = (attn_segment){.row = i, .n = 1, .pos = rows[i].pos, .pages = rows[i].pages};
    }
    join_store(f, &run.join, n, (size_t)(seg - f->s.attention) + 1, f->s.cos, f->s.sin);
}

nn_acts forward_draft(const forward *f, const draft_row *rows, size_t n)
{
    const draft_head *d = &f->w->draft;
    pass p = {.f = f, .s = &f->s, .n_placed = n, .n_rows = n};
    draft_run run = {.f = f, .rows = rows, .n = n, .join = join_acts(f)};
    pool_run(f->nn.pool, draft_join_task, &run, join_tasks(n));
    size_t spans = 0;
    for (size_t i = 0; i < n; i++) {
        f->s.attention[i] =
            (attn_segment){.row = i, .n = 1, .pos = rows[i].pos, .pages = rows[i].pages};
        spans = nn_lora_add(&f->s.lora, spans, i, 1, rows[i].lora);
    }
    const nn_product u = {&d->join, f->s.x, f->hp->n_embd};
    nn_linear(&f->nn, &run.join, n, &u, 1);
    attention_mixer(&p, &d->block, f->layout.draft_layer);
    feed_forward(&p, &d->block);
    const nn_acts y = pass_norm(&p, d->out_norm, nn_kind(f->w->head.format));
    pass_tap(&p, "draft", -1, y.x);
    return y;
}
