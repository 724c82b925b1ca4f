/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forward.c - the forward pass of Qwen 3.5, top to bottom.
 *
 *     x = E[token]                                        or the features of an image token
 *     for each layer:
 *         x = x + mixer(RMSNorm(x))                       Gated DeltaNet; every fourth layer:
 *                                                         gated attention with RoPE (mrope)
 *         x = x + W_down(silu(W_gate h) * W_up h)         SwiGLU, h = RMSNorm(x); or the sum of
 *                                                         some experts (moe_block.c)
 *     logits = W_head RMSNorm(x)                          only for the requested rows
 *
 * With drafts, draft_block.c computes K and V of the MTP block for all rows before the logits.
 *
 * A layer has two sublayers, mixer and feed-forward. The residual addition is fused into the
 * RMSNorm of the next sublayer: `branch` holds the output of the last sublayer, and `pending`
 * points to it until it is added.
 *
 * Rows interact only through the KV cache and recurrent state of their own session. Therefore a
 * segment can be removed between two sublayers: the other rows move up and keep their bits.
 */
#include "model/forward_int.h"

#include "nn/nn.h"

#include <string.h>

/* ---- scratch ---- */

static size_t max_size(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Floats per row that the input projections of a sublayer write. */
static size_t projection_floats(const hparams *hp)
{
    const delta_shape d = hparams_delta(hp);
    size_t delta = delta_conv_dim(&d) + delta_value_dim(&d) + 2 * d.value_heads;
    size_t attention = (size_t)KERN_HEAD_DIM * 2 * (hp->n_heads + hp->n_kv);
    size_t ffn = hp->n_experts > 0 ? experts_wide_floats(hp) : 2 * (size_t)hp->n_ff;
    return max_size(max_size(delta, attention), ffn);
}

/* Floats per row that a mixer passes to its output projection. */
static size_t mixer_floats(const hparams *hp)
{
    const delta_shape d = hparams_delta(hp);
    return max_size(delta_value_dim(&d), (size_t)KERN_HEAD_DIM * hp->n_heads);
}

void forward_scratch_take(forward_scratch *s, arena *a, const hparams *hp, const weights *w,
                          uint32_t batch, uint32_t sessions, uint64_t positions, bool drafts,
                          uint32_t lora_rank)
{
    const nn_kinds kinds = w->kinds;
    /* With drafts mid also holds the joined rows, two embeddings each. */
    const size_t mid = max_size(mixer_floats(hp), drafts ? 2 * (size_t)hp->n_embd : 0);
    s->x = arena_take(a, (size_t)batch * hp->n_embd, sizeof *s->x);
    s->branch = arena_take(a, (size_t)batch * hp->n_embd, sizeof *s->branch);
    s->in.x = arena_take(a, (size_t)batch * hp->n_embd, sizeof *s->in.x);
    nn_acts_take(&s->in, a, kinds, batch, hp->n_embd);
    s->mid.x = arena_take(a, batch * mid, sizeof *s->mid.x);
    nn_acts_take(&s->mid, a, kinds, batch, max_size(mid, max_size(hp->n_ff, hp->shared_ff)));
    s->wide_bytes = batch * projection_floats(hp) * sizeof *s->wide;
    s->wide = arena_take(a, s->wide_bytes, 1);
    s->cos = arena_take(a, (size_t)batch * ROPE_PAIRS, sizeof *s->cos);
    s->sin = arena_take(a, (size_t)batch * ROPE_PAIRS, sizeof *s->sin);
    s->parts.capacity = attn_parts_needed(hp->n_heads, positions, sessions);
    s->parts.acc = arena_take(a, s->parts.capacity, sizeof *s->parts.acc);
    s->delta = arena_take(a, sessions, sizeof *s->delta);
    s->attention = arena_take(a, sessions, sizeof *s->attention);
    if (hp->n_experts > 0) {
        const expert_shape experts = hparams_experts(hp);
        experts_routes_take(&s->routes, a, &experts, batch);
        experts_slots_take(&s->slots, a, &experts, w->expert_kinds, batch);
    }
    if (lora_rank > 0) {
        nn_lora_take(&s->lora, a, batch, sessions, lora_rank);
        s->in.lora = s->mid.lora = &s->lora;
    }
}

/* ---- a pass ---- */

void pass_tap(const pass *p, const char *what, int layer, const float *rows)
{
    if (p->f->tap != NULL)
        p->f->tap(p->f->tap_ctx, what, layer, rows, p->n_rows, p->f->hp->n_embd);
}

void pass_tap_wide(const pass *p, const char *what, const float *rows, size_t cols)
{
    if (p->f->tap != NULL)
        p->f->tap(p->f->tap_ctx, what, -1, rows, p->n_rows, cols);
}

/* ---- embedding ---- */

enum { EMBED_ROWS = 8 }; /* per task */

/* The last image that starts at or before token `at`; NULL: none. */
static const pass_image *segment_image_at(const pass_segment *seg, size_t at)
{
    const pass_image *image = NULL;
    for (size_t i = 0; i < seg->n_images && seg->images[i].at <= at; i++)
        image = &seg->images[i];
    return image;
}

void segment_embed(const forward *f, const pass_segment *seg, size_t at, float *x)
{
    const nn_matrix *e = &f->w->embd;
    const pass_image *image = segment_image_at(seg, at);
    if (image != NULL && at - image->at < image->n)
        memcpy(x, image->features + (at - image->at) * e->cols, e->cols * sizeof *x);
    else
        nn_matrix_row(e, (size_t)seg->tokens[at], x);
}

/* Rotary angles of token `at` of a segment. */
static void segment_angles(const forward *f, const pass_segment *seg, size_t at, float *cos,
                           float *sin)
{
    const pass_image *image = segment_image_at(seg, at);
    if (image != NULL && at - image->at < image->n) {
        const uint64_t index = image->first + (at - image->at);
        rope_angles_image(&f->rope, image->rope_base, index / image->cols, index % image->cols, cos,
                          sin);
        return;
    }
    const int64_t rope_offset = image != NULL ? image->rope_offset : seg->rope_offset;
    rope_angles(&f->rope, (uint64_t)((int64_t)(seg->pos + at) + rope_offset), cos, sin);
}

/* Linear search for the segment of a row: either segments or rows are few. */
static void pass_embed_task(void *ctx, uint32_t task, uint32_t worker)
{
    (void)worker;
    const pass *p = ctx;
    size_t row = (size_t)task * EMBED_ROWS;
    size_t end = row + EMBED_ROWS < p->n_rows ? row + EMBED_ROWS : p->n_rows;
    const pass_segment *seg = p->segments;
    size_t first = 0;
    for (; row < end; row++) {
        while (row >= first + seg->n)
            first += seg++->n;
        segment_embed(p->f, seg, row - first, p->s->x + row * p->f->hp->n_embd);
        segment_angles(p->f, seg, row - first, p->s->cos + row * ROPE_PAIRS,
                       p->s->sin + row * ROPE_PAIRS);
    }
}

/* x = E[token], and the rotary angles of every row, which all attention layers use. */
static void pass_embed(pass *p)
{
    pool_run(p->f->nn.pool, pass_embed_task, p,
             (uint32_t)((p->n_rows + EMBED_ROWS - 1) / EMBED_ROWS));
}

/* ---- sublayers ---- */

nn_acts pass_norm(pass *p, const float *w, nn_kinds kinds)
{
    nn_acts in = p->s->in;
    in.cols = p->f->hp->n_embd;
    nn_residual_norm(&p->f->nn, p->s->x, p->pending, w, p->f->hp->eps, p->n_rows, &in, kinds);
    p->pending = NULL;
    return in;
}

/* branch = W mid; the next RMSNorm adds it to x. */
static void pass_project_out(pass *p, const nn_acts *mid, const nn_matrix *w)
{
    nn_product out = {w, p->s->branch, p->f->hp->n_embd};
    nn_linear(&p->f->nn, mid, p->n_rows, &out, 1);
    p->pending = p->s->branch;
}

/*
 * Gated attention: q, k = RoPE(RMSNorm(W_q h)), RoPE(RMSNorm(W_k h)) per head, v = W_v h,
 * y = W_o (attend(q, k, v) * sigmoid(gate)). The gate comes from the same matrix as q.
 */
void attention_mixer(pass *p, const model_layer *l, size_t index)
{
    const attention_layer *a = &l->attention;
    const attn_shape *shape = &p->f->layout.attention;
    size_t heads = shape->heads, kv_heads = shape->kv_heads, dim = KERN_HEAD_DIM;
    nn_kinds kinds = nn_kind(a->q.format) | nn_kind(a->k.format) | nn_kind(a->v.format);
    nn_acts in = pass_norm(p, l->mixer_norm, kinds);

    float *qg = p->s->wide;                      /* [rows][heads][query 256, gate 256] */
    float *k = qg + p->n_rows * heads * 2 * dim; /* [rows][kv_heads][256] */
    float *v = k + p->n_rows * kv_heads * dim;   /* [rows][kv_heads][256] */
    const nn_product products[] = {
        {&a->q, qg, heads * 2 * dim}, {&a->k, k, kv_heads * dim}, {&a->v, v, kv_heads * dim}};
    nn_linear(&p->f->nn, &in, p->n_rows, products, 3);

    nn_acts mid = p->s->mid;
    mid.cols = heads * dim;
    attn_rows rows = {.qg = qg, .k = k, .v = v, .cos = p->s->cos, .sin = p->s->sin, .y = mid.x};
    nn_attention(&p->f->nn, shape, &a->norms, index, p->s->attention, p->n_placed, &rows,
                 &p->s->parts);
    nn_quantise(&p->f->nn, &mid, p->n_rows, nn_kind(a->o.format));
    pass_project_out(p, &mid, &a->o);
}

/*
 * Gated DeltaNet: q, k, v = silu(conv(W_qkv h)); decay from alpha, write strength from beta;
 * the delta rule updates the recurrent state; y = W_out (RMSNorm(o) * silu(z)).
 * docs/numerics.md has the recurrence in chunks of 32 positions.
 */
static void delta_mixer(pass *p, const model_layer *l, uint32_t index)
{
    const delta_layer *d = &l->delta;
    const delta_shape *shape = &p->f->layout.delta;
    size_t conv_dim = delta_conv_dim(shape), value_dim = delta_value_dim(shape);
    size_t heads = shape->value_heads;
    nn_acts in = pass_norm(p, l->mixer_norm, nn_kind(d->qkv.format) | nn_kind(d->z.format));

    float *qkv = p->s->wide;                  /* [rows][conv_dim] */
    float *z = qkv + p->n_rows * conv_dim;    /* [rows][value_dim] */
    float *alpha = z + p->n_rows * value_dim; /* [rows][value_heads] */
    float *beta = alpha + p->n_rows * heads;  /* [rows][value_heads] */
    const nn_product products[] = {{&d->qkv, qkv, conv_dim},
                                   {&d->z, z, value_dim},
                                   {&d->alpha, alpha, heads},
                                   {&d->beta, beta, heads}};
    nn_linear(&p->f->nn, &in, p->n_rows, products, 4);

    nn_acts mid = p->s->mid;
    mid.cols = value_dim;
    delta_segment *placed = p->s->delta;
    for (const pass_segment *seg = p->segments; seg < p->segments + p->n_segments; seg++)
        if (seg->n > 0)
            placed++->memory =
                cache_layout_delta(&p->f->layout, index, seg->state, seg->next_state, seg->tail);
    delta_rows rows = {.qkv = qkv, .z = z, .alpha = alpha, .beta = beta, .y = mid.x};
    nn_deltanet(&p->f->nn, shape, &d->small, p->s->delta, p->n_placed, &rows);
    nn_quantise(&p->f->nn, &mid, p->n_rows, nn_kind(d->out.format));
    pass_project_out(p, &mid, &d->out);
}

/* SwiGLU: W_down(silu(W_gate h) * W_up h). */
static void feed_forward_swiglu(pass *p, const model_layer *l)
{
    const ffn_layer *ffn = &l->ffn;
    size_t n_ff = p->f->hp->n_ff;
    nn_acts in = pass_norm(p, l->ffn_norm, nn_kind(ffn->gate.format) | nn_kind(ffn->up.format));
    float *gate = p->s->wide;            /* [rows][n_ff] */
    float *up = gate + p->n_rows * n_ff; /* [rows][n_ff] */
    const nn_product products[] = {{&ffn->gate, gate, n_ff}, {&ffn->up, up, n_ff}};
    nn_linear(&p->f->nn, &in, p->n_rows, products, 2);

    nn_acts mid = p->s->mid;
    mid.x = gate; /* in place: these are the widest rows of a pass */
    nn_swiglu(&p->f->nn, gate, up, n_ff, p->n_rows, &mid, nn_kind(ffn->down.format));
    pass_project_out(p, &mid, &ffn->down);
}

void feed_forward(pass *p, const model_layer *l)
{
    if (p->f->hp->n_experts > 0)
        feed_forward_experts(p, l);
    else
        feed_forward_swiglu(p, l);
}

/* ---- output ---- */

/* Number of rows at the segment's end that are returned after the final norm. */
static size_t segment_hidden_rows(const pass_segment *seg)
{
    return seg->sum != NULL ? seg->n : seg->hidden != NULL ? 1 : 0;
}

/* Moves the requested rows to the front of x: first the rows for logits, so that the output head is
 * read once for all of them, then the hidden rows. Returns the number of the former; n_rows is the
 * number of both. */
static size_t pass_gather_outputs(pass *p)
{
    size_t n_embd = p->f->hp->n_embd, row = 0, n_logits = 0, n_hidden = 0;
    const size_t bytes = n_embd * sizeof *p->s->x;
    float *x = p->s->x, *hidden = p->s->branch; /* branch is free: nothing is pending */
    for (size_t i = 0; i < p->n_segments; i++) {
        const pass_segment *seg = &p->segments[i];
        row += seg->n;
        const size_t n = segment_hidden_rows(seg);
        memcpy(hidden + n_hidden * n_embd, x + (row - n) * n_embd, n * bytes);
        n_hidden += n;
        memmove(x + n_logits * n_embd, x + (row - seg->n_logits) * n_embd, seg->n_logits * bytes);
        n_logits += seg->n_logits;
    }
    memcpy(x + n_logits * n_embd, hidden, n_hidden * bytes);
    p->n_rows = n_logits + n_hidden;
    return n_logits;
}

static void sum_add_rows(double *sum, const float *rows, size_t n, size_t n_embd)
{
    for (size_t i = 0; i < n; i++, rows += n_embd)
        for (size_t j = 0; j < n_embd; j++)
            sum[j] += (double)rows[j];
}

static void pass_write_hidden(const pass *p, const float *rows)
{
    size_t n_embd = p->f->hp->n_embd;
    for (const pass_segment *seg = p->segments; seg < p->segments + p->n_segments; seg++) {
        if (seg->hidden != NULL)
            memcpy(seg->hidden, rows, n_embd * sizeof *rows);
        else if (seg->sum != NULL)
            sum_add_rows(seg->sum, rows, seg->n, n_embd);
        rows += segment_hidden_rows(seg) * n_embd;
    }
}

/* Which adapters each row has: of the pass, or of its logits. */
static void pass_place_adapters(const pass *p, bool logits)
{
    size_t row = 0, spans = 0;
    for (const pass_segment *seg = p->segments; seg < p->segments + p->n_segments; seg++) {
        const size_t n = logits ? seg->n_logits : seg->n;
        spans = nn_lora_add(&p->s->lora, spans, row, n, seg->lora);
        row += n;
    }
}

/* Final RMSNorm of the requested rows, and the output head for those that become logits. */
static void pass_output(pass *p)
{
    const weights *w = p->f->w;
    if (p->pending != NULL)
        nn_residual(&p->f->nn, p->s->x, p->pending, p->n_rows, p->f->hp->n_embd);
    p->pending = NULL;
    size_t n_logits = pass_gather_outputs(p);
    if (p->n_rows == 0)
        return;
    nn_acts in = pass_norm(p, w->out_norm, nn_kind(w->head.format));
    pass_tap(p, "final_norm", -1, in.x);
    pass_write_hidden(p, in.x + n_logits * p->f->hp->n_embd);
    nn_product out = {&w->head, p->logits, p->f->hp->n_vocab};
    pass_place_adapters(p, true);
    if (n_logits > 0)
        nn_linear(&p->f->nn, &in, n_logits, &out, 1);
}

/* ---- the pass ---- */

/* Assigns rows to segments. */
static void pass_place_segments(pass *p)
{
    size_t row = 0, placed = 0;
    for (const pass_segment *seg = p->segments; seg < p->segments + p->n_segments; seg++) {
        if (seg->n == 0)
            continue;
        p->s->delta[placed] = (delta_segment){.row = row, .n = seg->n, .pos = seg->pos};
        p->s->attention[placed++] =
            (attn_segment){.row = row, .n = seg->n, .pos = seg->pos, .pages = seg->pages};
        row += seg->n;
    }
    p->n_placed = placed;
    p->n_rows = row;
    pass_place_adapters(p, false);
}

static void rows_move(float *rows, size_t cols, size_t to, size_t from, size_t n)
{
    memmove(rows + to * cols, rows + from * cols, n * cols * sizeof *rows);
}

/* Moves everything of a row that lives from one sublayer to the next. */
static void pass_move_rows(pass *p, size_t to, size_t from, size_t n)
{
    const size_t n_embd = p->f->hp->n_embd;
    rows_move(p->s->x, n_embd, to, from, n);
    if (p->pending != NULL)
        rows_move(p->s->branch, n_embd, to, from, n);
    rows_move(p->s->cos, ROPE_PAIRS, to, from, n);
    rows_move(p->s->sin, ROPE_PAIRS, to, from, n);
}

/* Removes the rows of aborted segments. */
static void pass_compact(pass *p)
{
    size_t from = 0, to = 0;
    for (pass_segment *seg = p->segments; seg < p->segments + p->n_segments; seg++) {
        const size_t n = seg->n;
        if (seg->aborted) {
            seg->n = seg->n_logits = 0;
            seg->hidden = NULL;
            seg->sum = NULL;
        } else if (to != from) {
            pass_move_rows(p, to, from, n);
        }
        to += seg->n;
        from += n;
    }
    if (to != from)
        pass_place_segments(p);
}

/* Calls the hook. false: canceled, or no rows left. */
static bool pass_call_hook(pass *p)
{
    if (p->f->hook == NULL)
        return true;
    if (!p->f->hook(p->f->hook_ctx))
        return false;
    pass_compact(p);
    return p->n_rows > 0;
}

bool forward_pass(const forward *f, pass_segment *segments, size_t n_segments, float *logits)
{
    pass p = {.f = f, .s = &f->s, .segments = segments, .n_segments = n_segments, .logits = logits};
    pass_place_segments(&p);
    pass_embed(&p);
    pass_tap(&p, "embed", -1, p.s->x);
    for (uint32_t i = 0; i < f->hp->n_layers; i++) {
        if (!pass_call_hook(&p))
            return false;
        const model_layer *l = &f->w->layers[i];
        if (l->is_attention)
            attention_mixer(&p, l, f->hp->index[i]);
        else
            delta_mixer(&p, l, f->hp->index[i]);
        if (!pass_call_hook(&p))
            return false;
        feed_forward(&p, l);
        if (f->tap != NULL) { /* tests compare the complete residual stream */
            nn_residual(&f->nn, p.s->x, p.pending, p.n_rows, f->hp->n_embd);
            p.pending = NULL;
            pass_tap(&p, "layer", (int)i, p.s->x);
        }
    }
    if (f->layout.drafts)
        pass_keep_draft_rows(&p);
    pass_output(&p);
    return true;
}
