/* SPDX-License-Identifier: Apache-2.0 */
/*
 * experts.h - mixture of experts: which experts compute a row, and their feed-forward networks.
 *
 * route.c chooses the experts of every row and sorts the pairs of row and expert by expert. A pair
 * is a slot: the slots of an expert are consecutive, in the order of their rows. experts.c applies
 * the matrices of an expert to its slots at once, so each weight is read once per pass, and only
 * the weights of chosen experts are read.
 *
 * The result of a row depends on that row only. Its experts are added by ascending index, the
 * shared expert last, whatever the other rows of the pass have chosen.
 */
#ifndef MOTE_NN_EXPERTS_H
#define MOTE_NN_EXPERTS_H

#include "nn/nn.h"

enum { EXPERTS_MAX = 1024, EXPERTS_MAX_USED = 32 };

typedef struct expert_shape {
    size_t n_experts; /* 1 .. EXPERTS_MAX */
    size_t n_used;    /* per row, 1 .. EXPERTS_MAX_USED */
    size_t n_embd;
    size_t ff; /* of a routed expert */
} expert_shape;

/* The same matrix of all experts of a layer. */
typedef struct expert_matrix {
    nn_matrix first;      /* of expert 0, without its factor */
    size_t stride;        /* bytes from one expert to the next */
    const float *factors; /* [experts], as nn_matrix.factor; NULL: none */
} expert_matrix;

/* ---- routes (route.c) ---- */

#define SLOT_EMPTY UINT32_MAX

/* Routes of the rows of a pass. Taken from the arena by experts_routes_take. */
typedef struct expert_routes {
    uint16_t *chosen;   /* [batch][n_used]: experts of a row, ascending */
    float *weight;      /* [batch][n_used] */
    float *shared;      /* [batch]: factor of the shared expert */
    uint32_t *begin;    /* [n_experts]: the first slot of an expert */
    uint32_t *count;    /* [n_experts]: its slots */
    uint32_t *slot_row; /* [slots]; SLOT_EMPTY: a gap between two experts */
    float *slot_weight; /* [slots] */
    uint16_t *active;   /* [n_active]: experts with slots, ascending */
    size_t n_active, n_slots;
} expert_routes;

/* Slots of `rows` rows at most, gaps included. */
size_t experts_max_slots(const expert_shape *s, size_t rows);

void experts_routes_take(expert_routes *r, arena *a, const expert_shape *s, size_t batch);

/*
 * logits: [n_rows][n_experts], products with the router; gates: [n_rows], products with the gate of
 * the shared expert.
 *
 *     the n_used largest logits, of equal ones the lower index; a NaN is less than any other
 *     p_e = exp(logit_e - largest)      w_e = p_e / (sum of the chosen p, by ascending index)
 *     shared = sigmoid(gate)
 */
void nn_route(const nn *n, const expert_shape *s, const float *logits, const float *gates,
              size_t n_rows, expert_routes *r);

/* ---- experts (experts.c) ---- */

/* Buffers with one row per slot. */
typedef struct expert_slots {
    nn_acts in;           /* [slots][n_embd]: input, gathered; x only if the experts read f32 */
    nn_acts mid;          /* [slots][ff]; x is `gate` */
    float *gate, *up;     /* [slots][ff]: set by the caller */
    uint32_t *first_task; /* [n_experts + 1]: first task of each active expert */
} expert_slots;

/* kinds: what gate, up and down matrices of the experts read. */
void experts_slots_take(expert_slots *s, arena *a, const expert_shape *shape, nn_kinds kinds,
                        size_t batch);

/* mid = silu(gate in) * (up in) of every slot, quantised to `down`. `in`: the rows of the pass. */
void nn_experts_swiglu(const nn *n, const expert_shape *s, const expert_routes *r,
                       const nn_acts *in, const expert_matrix *gate, const expert_matrix *up,
                       nn_kinds down, expert_slots *slots);

/* y[row] = sum of weight * (down mid) over the slots of the row by ascending expert, then
 * + shared * (shared_down shared_mid). y: [n_rows][n_embd]. */
void nn_experts_down(const nn *n, const expert_shape *s, const expert_routes *r,
                     const expert_slots *slots, const expert_matrix *down,
                     const nn_acts *shared_mid, const nn_matrix *shared_down, size_t n_rows,
                     float *y);

#endif
