/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vision_attn_ref.c - attention of the vision encoder, one block of 64 keys per call.
 *
 * Scores are chains over the dimensions. The denominator of a block is a lanes sum. Outputs are
 * chains over all keys of the frame. If a block has a larger maximum than the blocks before, the
 * accumulators l and o are first multiplied by e^(old maximum - new maximum). Queries are already
 * scaled.
 */
#include "kernels/variants.h"

#include "kernels/fmath.h"
#include "kernels/ref/lanes.h"

enum { BLOCK = KERN_PAGE };

/* Computes the scores of query i and returns their maximum, with -0 as +0. */
static float vision_scores(const kern_vision_attn_args *a, size_t i, float s[BLOCK])
{
    const float *q = a->q + i * a->q_stride;
    float m = -INFINITY;
    for (size_t j = 0; j < a->n_keys; j++) {
        s[j] = 0.0f;
        for (size_t d = 0; d < a->dim; d++)
            s[j] = fmaf(q[d], a->k[d * BLOCK + j], s[j]);
        m = s[j] > m ? s[j] : m;
    }
    return m + 0.0f;
}

/* Replaces scores with e^(score - m) and returns their sum. */
static float vision_softmax_weights(float p[BLOCK], size_t n, float m)
{
    lanes sums = {{0}};
    for (size_t j = 0; j < n; j++) {
        p[j] = f_exp(p[j] - m);
        sums.lane[j % KERN_LANES] += p[j];
    }
    return lanes_total(&sums);
}

void k_vision_attn_block_ref(const kern_vision_attn_args *a)
{
    for (size_t i = 0; i < a->n; i++) {
        float p[BLOCK], *o = a->o + i * a->dim;
        const float m2 = vision_scores(a, i, p), m = a->first || m2 > a->m[i] ? m2 : a->m[i];
        const float l2 = vision_softmax_weights(p, a->n_keys, m), rescale = f_exp(a->m[i] - m);
        a->l[i] = a->first ? l2 : fmaf(a->l[i], rescale, l2);
        a->m[i] = m;
        for (size_t d = 0; d < a->dim; d++) {
            o[d] = a->first ? 0.0f : o[d] * rescale;
            for (size_t j = 0; j < a->n_keys; j++)
                o[d] = fmaf(p[j], a->v[j * a->dim + d], o[d]);
        }
    }
}
