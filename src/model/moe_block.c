/* SPDX-License-Identifier: Apache-2.0 */
/*
 * moe_block.c - the feed-forward sublayer of a model with experts.
 *
 *     h = RMSNorm(x)
 *     r = W_router h                                      one logit per expert
 *     w = softmax(the n_used largest of r)
 *     y = sum of w_e D_e(silu(G_e h) * U_e h)             over the chosen experts e, ascending
 *     x = x + y + sigmoid(s h) D_s(silu(G_s h) * U_s h)   the shared expert, with its gate s
 *
 * The router reads h in f32, never quantised: where two logits are close, a rounding error would
 * choose another expert. The gate and up matrices of the shared expert are in the same product call
 * as the router, because they are needed for every row and do not depend on the choice.
 */
#include "model/forward_int.h"

size_t experts_wide_floats(const hparams *hp)
{
    const expert_shape shape = hparams_experts(hp);
    return hp->n_experts + 1 + 2 * (size_t)hp->shared_ff +
           2 * experts_max_slots(&shape, 1) * hp->expert_ff;
}

/* The chosen experts and their weights, as floats, in the order of the sum. `branch` is free. */
static void tap_routes(const pass *p, size_t n_used)
{
    const expert_routes *r = &p->s->routes;
    if (p->f->tap == NULL)
        return;
    for (size_t i = 0; i < p->n_rows * n_used; i++)
        p->s->branch[i] = (float)r->chosen[i];
    pass_tap_wide(p, "experts", p->s->branch, n_used);
    pass_tap_wide(p, "expert_weights", r->weight, n_used);
}

void feed_forward_experts(pass *p, const model_layer *l)
{
    const nn *n = &p->f->nn;
    const moe_layer *moe = &l->moe;
    const ffn_layer *shared = &l->ffn;
    const expert_shape shape = hparams_experts(p->f->hp);
    const size_t rows = p->n_rows, ff = p->f->hp->shared_ff;
    const nn_kinds kinds = nn_kind(shared->gate.format) | nn_kind(shared->up.format) |
                           nn_kind(moe->gate.first.format) | nn_kind(moe->up.first.format);
    nn_acts in = pass_norm(p, l->ffn_norm, kinds);
    pass_tap(p, "moe_x", -1, in.x);

    float *logits = p->s->wide;                     /* [rows][n_experts] */
    float *gates = logits + rows * shape.n_experts; /* [rows] */
    float *gate = gates + rows;                     /* [rows][shared_ff] */
    float *up = gate + rows * ff;                   /* [rows][shared_ff] */
    const nn_product products[] = {{&moe->router, logits, shape.n_experts},
                                   {&moe->shared_gate, gates, 1},
                                   {&shared->gate, gate, ff},
                                   {&shared->up, up, ff}};
    nn_linear(n, &in, rows, products, 4);

    expert_routes routes = p->s->routes;
    nn_route(n, &shape, logits, gates, rows, &routes);
    tap_routes(p, shape.n_used);
    expert_pages_use(p->f->pages, p->f->w, p->f->hp, l, routes.active, routes.n_active);

    expert_slots slots = p->s->slots;
    slots.gate = up + rows * ff;                       /* [slots][expert_ff] */
    slots.up = slots.gate + routes.n_slots * shape.ff; /* [slots][expert_ff] */
    nn_experts_swiglu(n, &shape, &routes, &in, &moe->gate, &moe->up,
                      nn_kind(moe->down.first.format), &slots);
    nn_acts mid = p->s->mid;
    mid.x = gate; /* in place */
    nn_swiglu(n, gate, up, ff, rows, &mid, nn_kind(shared->down.format));
    nn_experts_down(n, &shape, &routes, &slots, &moe->down, &mid, &shared->down, rows,
                    p->s->branch);
    pass_tap(p, "moe", -1, p->s->branch);
    p->pending = p->s->branch;
}
