/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forward.c - the model, top to bottom.
 *
 *     x = E[token]
 *     for each layer:
 *         x = x + mixer(norm(x))          attention every fourth layer, else DeltaNet
 *         x = x + down(silu(gate(h)) * up(h)),  h = norm(x)
 *     logits = head(norm(x))              only for the rows that were asked for; of others
 *                                         norm(x) alone
 *
 * Rows of a pass are independent of each other except through the memory of
 * their timeline, which the mixers own. The residual addition is folded into the
 * norm that follows it, so `branch` carries what the last unit wants added.
 *
 * Because rows are independent, a timeline can be taken out between two units: the rows of
 * the others move up and go on, and get the bits they would have got.
 */
#include "model/forward.h"

#include "nn/nn.h"

#include <string.h>

/* ---- working memory ---- */

static size_t max_size(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Floats per row that the products of one unit write at once. */
static size_t wide_floats(const hparams *hp)
{
    const delta_shape d = hparams_delta(hp);
    size_t delta = delta_conv_dim(&d) + delta_value_dim(&d) + 2 * d.value_heads;
    size_t attention = (size_t)KERN_HEAD_DIM * 2 * (hp->n_heads + hp->n_kv);
    return max_size(max_size(delta, attention), 2 * (size_t)hp->n_ff);
}

/* Floats per row that a mixer hands to its second product. */
static size_t mixed_floats(const hparams *hp)
{
    const delta_shape d = hparams_delta(hp);
    return max_size(delta_value_dim(&d), (size_t)KERN_HEAD_DIM * hp->n_heads);
}

void forward_scratch_take(forward_scratch *s, arena *a, const hparams *hp, nn_kinds kinds,
                          uint32_t batch, uint32_t sessions, uint64_t positions)
{
    s->x = arena_take(a, (size_t)batch * hp->n_embd, sizeof *s->x);
    s->branch = arena_take(a, (size_t)batch * hp->n_embd, sizeof *s->branch);
    s->in.x = arena_take(a, (size_t)batch * hp->n_embd, sizeof *s->in.x);
    nn_acts_take(&s->in, a, kinds, batch, hp->n_embd);
    s->mid.x = arena_take(a, batch * mixed_floats(hp), sizeof *s->mid.x);
    nn_acts_take(&s->mid, a, kinds, batch, max_size(mixed_floats(hp), hp->n_ff));
    s->wide_bytes = batch * wide_floats(hp) * sizeof *s->wide;
    s->wide = arena_take(a, s->wide_bytes, 1);
    s->cos = arena_take(a, (size_t)batch * ROPE_PAIRS, sizeof *s->cos);
    s->sin = arena_take(a, (size_t)batch * ROPE_PAIRS, sizeof *s->sin);
    s->parts.capacity = attn_parts_needed(hp->n_heads, positions, sessions);
    s->parts.acc = arena_take(a, s->parts.capacity, sizeof *s->parts.acc);
    s->delta = arena_take(a, sessions, sizeof *s->delta);
    s->attention = arena_take(a, sessions, sizeof *s->attention);
}

/* ---- a pass ---- */

typedef struct pass {
    const forward *f;
    const forward_scratch *s;
    pass_segment *segments;
    size_t n_segments;
    size_t n_placed; /* segments that have rows */
    size_t n_rows;
    float *logits;        /* [wanted rows][n_vocab] */
    const float *pending; /* what the residual stream still has to add, or NULL */
} pass;

static void tap(const pass *p, const char *what, int layer, const float *rows)
{
    if (p->f->tap != NULL)
        p->f->tap(p->f->tap_ctx, what, layer, rows, p->n_rows, p->f->hp->n_embd);
}

enum { EMBED_ROWS = 8 }; /* a task */

/* The run that token `at` lies in, or else the last one before it; NULL: neither. */
static const pass_run *run_at(const pass_segment *seg, size_t at)
{
    const pass_run *run = NULL;
    for (size_t i = 0; i < seg->n_runs && seg->runs[i].at <= at; i++)
        run = &seg->runs[i];
    return run;
}

/* The embedding and the angles of token `at` of a segment, for row `row` of the pass. */
static void embed_token(const pass *p, const pass_segment *seg, size_t at, size_t row)
{
    const nn_matrix *e = &p->f->w->embd;
    const pass_run *run = run_at(seg, at);
    float *x = p->s->x + row * e->cols;
    float *cos = p->s->cos + row * ROPE_PAIRS, *sin = p->s->sin + row * ROPE_PAIRS;
    if (run != NULL && at - run->at < run->n) {
        const uint64_t place = run->first + (at - run->at);
        memcpy(x, run->rows + (at - run->at) * e->cols, e->cols * sizeof *x);
        rope_angles_image(&p->f->rope, run->base, place / run->cols, place % run->cols, cos, sin);
        return;
    }
    const int64_t shift = run != NULL ? run->shift : seg->shift;
    e->format->decode(e->data + (size_t)seg->tokens[at] * e->row_bytes,
                      e->cols / e->format->block_values, x);
    rope_angles(&p->f->rope, (uint64_t)((int64_t)(seg->pos + at) + shift), cos, sin);
}

/* Which segment a row lies in is found by walking, since segments are few or rows are few. */
static void embed_task(void *ctx, uint32_t task, uint32_t worker)
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
        embed_token(p, seg, row - first, row);
    }
}

/* x = E[token], and the rotary angles of every row. */
static void embed(pass *p)
{
    pool_run(p->f->nn.pool, embed_task, p, (uint32_t)((p->n_rows + EMBED_ROWS - 1) / EMBED_ROWS));
}

/* in = norm(x + pending), in the forms that the matrices reading it want. */
static nn_acts norm_into(pass *p, const float *w, nn_kinds kinds)
{
    nn_acts in = p->s->in;
    in.cols = p->f->hp->n_embd;
    nn_residual_norm(&p->f->nn, p->s->x, p->pending, w, p->f->hp->eps, p->n_rows, &in, kinds);
    p->pending = NULL;
    return in;
}

/* branch = w * mid, which the next norm adds to the stream. */
static void project_back(pass *p, const nn_acts *mid, const nn_matrix *w)
{
    nn_product out = {w, p->s->branch, p->f->hp->n_embd};
    nn_linear(&p->f->nn, mid, p->n_rows, &out, 1);
    p->pending = p->s->branch;
}

static void attention_mixer(pass *p, const model_layer *l, uint32_t index)
{
    const attention_unit *a = &l->attention;
    const attn_shape *shape = &p->f->layout.attention;
    size_t heads = shape->heads, kv_heads = shape->kv_heads, dim = KERN_HEAD_DIM;
    nn_kinds kinds = nn_kind(a->q.format) | nn_kind(a->k.format) | nn_kind(a->v.format);
    nn_acts in = norm_into(p, l->mix_norm, kinds);

    float *qg = p->s->wide;                      /* [rows][heads][512] */
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
    project_back(p, &mid, &a->o);
}

static void delta_mixer(pass *p, const model_layer *l, uint32_t index)
{
    const delta_unit *d = &l->delta;
    const delta_shape *shape = &p->f->layout.delta;
    size_t conv_dim = delta_conv_dim(shape), value_dim = delta_value_dim(shape);
    size_t heads = shape->value_heads;
    nn_acts in = norm_into(p, l->mix_norm, nn_kind(d->qkv.format) | nn_kind(d->z.format));

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
                layout_delta(&p->f->layout, index, seg->state, seg->next_state, seg->tail);
    delta_rows rows = {.qkv = qkv, .z = z, .alpha = alpha, .beta = beta, .y = mid.x};
    nn_deltanet(&p->f->nn, shape, &d->small, p->s->delta, p->n_placed, &rows);
    nn_quantise(&p->f->nn, &mid, p->n_rows, nn_kind(d->out.format));
    project_back(p, &mid, &d->out);
}

static void feed_forward(pass *p, const model_layer *l)
{
    size_t n_ff = p->f->hp->n_ff;
    nn_acts in = norm_into(p, l->ffn_norm, nn_kind(l->gate.format) | nn_kind(l->up.format));
    float *gate = p->s->wide;            /* [rows][n_ff] */
    float *up = gate + p->n_rows * n_ff; /* [rows][n_ff] */
    const nn_product products[] = {{&l->gate, gate, n_ff}, {&l->up, up, n_ff}};
    nn_linear(&p->f->nn, &in, p->n_rows, products, 2);

    nn_acts mid = p->s->mid;
    mid.x = gate; /* in place: the widest rows of a pass are not kept twice */
    nn_swiglu(&p->f->nn, gate, up, n_ff, p->n_rows, &mid, nn_kind(l->down.format));
    project_back(p, &mid, &l->down);
}

/* How many of the segment's last rows are wanted themselves. */
static size_t n_hidden_rows(const pass_segment *seg)
{
    return seg->sum != NULL ? seg->n : seg->hidden != NULL ? 1 : 0;
}

/* Moves the rows that somebody wants to the front of the stream: first those that become logits,
 * so that the head is read once for all of them, then those that are wanted themselves. Returns
 * how many are of the first kind; n_rows is both. */
static size_t gather_wanted(pass *p)
{
    size_t n_embd = p->f->hp->n_embd, row = 0, n_logits = 0, n_hidden = 0;
    const size_t bytes = n_embd * sizeof *p->s->x;
    float *x = p->s->x, *aside = p->s->branch; /* the stream has taken in what was there */
    for (size_t i = 0; i < p->n_segments; i++) {
        const pass_segment *seg = &p->segments[i];
        row += seg->n;
        const size_t wanted = n_hidden_rows(seg);
        memcpy(aside + n_hidden * n_embd, x + (row - wanted) * n_embd, wanted * bytes);
        n_hidden += wanted;
        memmove(x + n_logits * n_embd, x + (row - seg->n_logits) * n_embd, seg->n_logits * bytes);
        n_logits += seg->n_logits;
    }
    memcpy(x + n_logits * n_embd, aside, n_hidden * bytes);
    p->n_rows = n_logits + n_hidden;
    return n_logits;
}

static void add_rows(double *sum, const float *rows, size_t n, size_t n_embd)
{
    for (size_t i = 0; i < n; i++, rows += n_embd)
        for (size_t j = 0; j < n_embd; j++)
            sum[j] += (double)rows[j];
}

static void hand_out_hidden(const pass *p, const float *rows)
{
    size_t n_embd = p->f->hp->n_embd;
    for (const pass_segment *seg = p->segments; seg < p->segments + p->n_segments; seg++) {
        if (seg->hidden != NULL)
            memcpy(seg->hidden, rows, n_embd * sizeof *rows);
        else if (seg->sum != NULL)
            add_rows(seg->sum, rows, seg->n, n_embd);
        rows += n_hidden_rows(seg) * n_embd;
    }
}

/* Final norm of the rows that are wanted, and the head for those that become logits. */
static void finish(pass *p)
{
    const weights *w = p->f->w;
    if (p->pending != NULL)
        nn_residual(&p->f->nn, p->s->x, p->pending, p->n_rows, p->f->hp->n_embd);
    p->pending = NULL;
    size_t n_logits = gather_wanted(p);
    if (p->n_rows == 0)
        return;
    nn_acts in = norm_into(p, w->out_norm, nn_kind(w->head.format));
    tap(p, "final_norm", -1, in.x);
    hand_out_hidden(p, in.x + n_logits * p->f->hp->n_embd);
    nn_product out = {&w->head, p->logits, p->f->hp->n_vocab};
    if (n_logits > 0)
        nn_linear(&p->f->nn, &in, n_logits, &out, 1);
}

static void place_segments(pass *p)
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
}

static void move_rows(float *rows, size_t cols, size_t to, size_t from, size_t n)
{
    memmove(rows + to * cols, rows + from * cols, n * cols * sizeof *rows);
}

/* What of a row lives from one unit to the next. */
static void move_up(pass *p, size_t to, size_t from, size_t n)
{
    const size_t n_embd = p->f->hp->n_embd;
    move_rows(p->s->x, n_embd, to, from, n);
    if (p->pending != NULL)
        move_rows(p->s->branch, n_embd, to, from, n);
    move_rows(p->s->cos, ROPE_PAIRS, to, from, n);
    move_rows(p->s->sin, ROPE_PAIRS, to, from, n);
}

/* Takes the rows of those who are gone out of the stream. */
static void close_ranks(pass *p)
{
    size_t from = 0, to = 0;
    for (pass_segment *seg = p->segments; seg < p->segments + p->n_segments; seg++) {
        const size_t n = seg->n;
        if (seg->gone) {
            seg->n = seg->n_logits = 0;
            seg->hidden = NULL;
            seg->sum = NULL;
        } else if (to != from) {
            move_up(p, to, from, n);
        }
        to += seg->n;
        from += n;
    }
    if (to != from)
        place_segments(p);
}

/* false: the pass is given up. */
static bool goes_on(pass *p)
{
    if (p->f->between == NULL)
        return true;
    if (!p->f->between(p->f->between_ctx))
        return false;
    close_ranks(p);
    return p->n_rows > 0;
}

bool forward_pass(const forward *f, pass_segment *segments, size_t n_segments, float *logits)
{
    pass p = {.f = f, .s = &f->s, .segments = segments, .n_segments = n_segments, .logits = logits};
    place_segments(&p);
    embed(&p);
    tap(&p, "embed", -1, p.s->x);
    for (uint32_t i = 0; i < f->hp->n_layers; i++) {
        if (!goes_on(&p))
            return false;
        const model_layer *l = &f->w->layers[i];
        if (l->is_attention)
            attention_mixer(&p, l, f->hp->index[i]);
        else
            delta_mixer(&p, l, f->hp->index[i]);
        if (!goes_on(&p))
            return false;
        feed_forward(&p, l);
        if (f->tap != NULL) { /* a test looks at the whole stream */
            nn_residual(&f->nn, p.s->x, p.pending, p.n_rows, f->hp->n_embd);
            p.pending = NULL;
            tap(&p, "layer", (int)i, p.s->x);
        }
    }
    finish(&p);
    return true;
}
