/* SPDX-License-Identifier: Apache-2.0 */
/*
 * look_ref.c - attention inside a picture, one block of 64 keys at a time.
 *
 * The mathematics of attn_ref.c without its mask and gate: scores are chains over the
 * dimensions, the denominator a sum by lanes, values chains over the keys, and blocks merge in
 * ascending order. Heads are as wide as the tower's.
 */
#include "kernels/variants.h"

#include "kernels/fmath.h"
#include "kernels/ref/lanes.h"

enum { BLOCK = KERN_PAGE };

/* Weights of all keys for query i; its maximum and denominator. */
static void weigh(const kern_look_args *a, size_t i, float p[BLOCK], float *m, float *l)
{
    const float *q = a->q + i * a->q_stride;
    lanes sums = {{0}};
    *m = -INFINITY;
    for (size_t j = 0; j < a->n_keys; j++) {
        float score = 0.0f;
        for (size_t d = 0; d < a->dim; d++)
            score = fmaf(q[d], a->k[d * BLOCK + j], score);
        p[j] = score * a->scale;
        *m = p[j] > *m ? p[j] : *m;
    }
    for (size_t j = 0; j < a->n_keys; j++) {
        p[j] = f_exp(p[j] - *m);
        sums.lane[j % KERN_LANES] += p[j];
    }
    *l = lanes_total(&sums);
}

void k_look_block_ref(const kern_look_args *a)
{
    for (size_t i = 0; i < a->n; i++) {
        float p[BLOCK], m2, l2, e1 = 0.0f, e2 = 1.0f;
        float *o = a->o + i * a->dim;
        weigh(a, i, p, &m2, &l2);
        if (a->first) {
            a->m[i] = m2;
            a->l[i] = l2;
        } else {
            const float m = m2 > a->m[i] ? m2 : a->m[i];
            e1 = f_exp(a->m[i] - m);
            e2 = f_exp(m2 - m);
            a->m[i] = m;
            a->l[i] = fmaf(l2, e2, a->l[i] * e1);
        }
        for (size_t d = 0; d < a->dim; d++) {
            float sum = 0.0f;
            for (size_t j = 0; j < a->n_keys; j++)
                sum = fmaf(p[j], a->v[j * a->dim + d], sum);
            o[d] = a->first ? sum : fmaf(sum, e2, o[d] * e1);
        }
    }
}
