/* SPDX-License-Identifier: Apache-2.0 */
/* sample_reference.c - see sample_reference.h. */
#include "unit/sample_reference.h"

#include "base/philox.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct candidate {
    float value;
    uint32_t id;
} candidate;

static int by_rank(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    if (x->value != y->value)
        return x->value > y->value ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

static candidate *sort_candidates(const float *values, uint32_t n, size_t *found)
{
    candidate *list = malloc(n * sizeof *list);
    assert_non_null(list);
    *found = 0;
    for (uint32_t id = 0; id < n; id++)
        if (values[id] > -INFINITY)
            list[(*found)++] = (candidate){values[id], id};
    qsort(list, *found, sizeof *list, by_rank);
    return list;
}

static void raw_logprobs(const sample_input *in, const float *values, uint32_t want,
                         reference_choice *out, double *log_sum)
{
    size_t n;
    candidate *list = sort_candidates(values, in->n_tokens, &n);
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += exp((double)list[i].value - (double)list[0].value);
    *log_sum = (double)list[0].value + log(sum);
    out->n_top = n < want ? (uint32_t)n : want;
    for (uint32_t i = 0; i < out->n_top; i++) {
        out->top[i] = list[i].id;
        out->top_logprob[i] = (double)list[i].value - *log_sum;
    }
    free(list);
}

static bool is_among_last(const sample_input *in, const mote_sampling *how, mote_token id)
{
    for (size_t i = 0; i < in->n_generated; i++)
        if (in->generated[i] == id &&
            (how->repeat_last == 0 || in->n_generated - i <= how->repeat_last))
            return true;
    return false;
}

static void bias_and_penalties(const sample_input *in, const mote_sampling *how, float *values)
{
    for (uint32_t id = 0; id < in->n_tokens && how->allowed != NULL; id++)
        if ((how->allowed[id / 32] >> id % 32 & 1) == 0)
            values[id] = -INFINITY;
    for (size_t i = 0; i < how->n_bias; i++)
        values[how->bias[i].token] += how->bias[i].add;
    for (uint32_t id = 0; id < in->n_tokens; id++) {
        unsigned count = 0;
        for (size_t i = 0; i < in->n_generated; i++)
            count += in->generated[i] == (mote_token)id;
        if (count == 0)
            continue;
        if (how->repetition != 0 && is_among_last(in, how, (mote_token)id))
            values[id] =
                values[id] > 0 ? values[id] / how->repetition : values[id] * how->repetition;
        values[id] -= how->presence;
        for (unsigned i = 0; i < count; i++)
            values[id] -= how->frequency;
    }
}

static void note_margin(reference_choice *out, double distance)
{
    if (fabs(distance) < out->margin)
        out->margin = fabs(distance);
}

typedef struct distance {
    double from_average;
    size_t at;
} distance;

static int by_distance(const void *a, const void *b)
{
    const distance *x = a, *y = b;
    if (x->from_average != y->from_average)
        return x->from_average < y->from_average ? -1 : 1;
    return x->at < y->at ? -1 : 1;
}

/* Sorts by the distance of the log-probability from the entropy; sets excluded weights to 0. */
static void keep_typical(double *p, size_t n, double share, reference_choice *out)
{
    double sum = 0, entropy = 0, running = 0;
    distance *list = malloc(n * sizeof *list);
    assert_non_null(list);
    for (size_t i = 0; i < n; i++)
        sum += p[i];
    for (size_t i = 0; i < n; i++)
        entropy -= p[i] > 0 ? p[i] / sum * log(p[i] / sum) : 0;
    for (size_t i = 0; i < n; i++)
        list[i] = (distance){fabs(-log(p[i] / sum) - entropy), i};
    qsort(list, n, sizeof *list, by_distance);
    for (size_t i = 0; i < n; i++) {
        const bool is_over = running >= share;
        note_margin(out, running - share);
        if (is_over && i > 0 &&
            running - p[list[i - 1].at] / sum < share) /* the first excluded one */
            note_margin(out, list[i].from_average - list[i - 1].from_average);
        running += p[list[i].at] / sum;
        if (is_over)
            p[list[i].at] = 0;
    }
    free(list);
}

static void draw_one(const candidate *list, size_t n, const sample_input *in,
                     const mote_sampling *how, reference_choice *out)
{
    if (how->top_k > 0 && how->top_k < n)
        n = how->top_k;
    double *p = malloc(n * sizeof *p), sum = 0;
    assert_non_null(p);
    for (size_t i = 0; i < n; i++)
        sum += p[i] =
            exp(((double)list[i].value - (double)list[0].value) / (double)how->temperature);
    if (how->typical_p > 0 && how->typical_p < 1) {
        keep_typical(p, n, (double)how->typical_p, out);
        size_t first = 0, end = n;
        while (p[first] <= 0)
            first++;
        while (p[end - 1] <= 0)
            end--;
        list += first;
        n = end - first;
        memmove(p, p + first, n * sizeof *p);
        sum = 0;
        for (size_t i = 0; i < n; i++)
            sum += p[i];
    }

    size_t kept = n;
    double running = 0;
    for (size_t i = 0; i < n && how->top_p > 0 && how->top_p < 1; i++) {
        running += p[i] / sum;
        note_margin(out, running - (double)how->top_p);
        if (running >= (double)how->top_p && i + 1 < kept)
            kept = i + 1;
    }
    for (size_t i = 1; i < n && how->min_p > 0; i++) {
        note_margin(out, p[i] / p[0] - (double)how->min_p);
        if (p[i] / p[0] < (double)how->min_p && i < kept)
            kept = i;
    }

    const double unit = (double)philox_unit(how->seed, in->position, how->draw);
    double mass = 0;
    for (size_t i = 0; i < kept; i++)
        mass += p[i];
    running = 0;
    size_t picked = kept;
    for (size_t i = 0; i < kept; i++) {
        running += p[i] / mass;
        note_margin(out, running - unit);
        if (running > unit && picked == kept)
            picked = i;
    }
    out->token = list[picked < kept ? picked : 0].id;
    out->n_kept = kept;
    free(p);
}

reference_choice reference_pick(const sample_input *in, const mote_sampling *how)
{
    reference_choice out = {.margin = INFINITY};
    float *values = malloc(in->n_tokens * sizeof *values);
    assert_non_null(values);
    for (uint32_t id = 0; id < in->n_tokens; id++)
        values[id] = isnan(in->logits[id]) ? -INFINITY : fminf(in->logits[id], FLT_MAX);

    double log_sum;
    raw_logprobs(in, values, how->top_logprobs, &out, &log_sum);
    bias_and_penalties(in, how, values);
    size_t n;
    candidate *list = sort_candidates(values, in->n_tokens, &n);
    if (how->temperature == 0) {
        out.token = list[0].id;
        out.n_kept = 1;
    } else {
        draw_one(list, n, in, how, &out);
    }
    out.logprob = (double)fminf(in->logits[out.token], FLT_MAX) - log_sum;
    free(list);
    free(values);
    return out;
}

void rig_open(sample_rig *rig, uint32_t vocabulary, uint32_t n_tokens, mote_isa isa)
{
    *rig = (sample_rig){0};
    kern_table_init(&rig->kernels, isa);
    rig->logits = malloc(vocabulary * sizeof *rig->logits);
    rig->scratch = aligned_alloc(64, sample_scratch_bytes(vocabulary));
    assert_non_null(rig->logits);
    assert_non_null(rig->scratch);
    memset(rig->scratch, 0xff,
           sample_scratch_bytes(vocabulary)); /* the sampler must not rely on zeros */
    for (uint32_t id = 0; id < vocabulary; id++)
        rig->logits[id] = 0;
    rig->in = (sample_input){.kernels = &rig->kernels,
                             .logits = rig->logits,
                             .vocabulary = vocabulary,
                             .n_tokens = n_tokens};
}

void rig_close(sample_rig *rig)
{
    free(rig->logits);
    free(rig->scratch);
}

void rig_fill(sample_rig *rig, uint64_t seed, float spread, float steps)
{
    for (uint32_t id = 0; id < rig->in.vocabulary; id++) {
        float sum = -2;
        for (uint32_t draw = 0; draw < 4; draw++)
            sum += philox_unit(seed, id, draw);
        sum *= spread;
        rig->logits[id] = steps > 0 ? floorf(sum * steps) / steps : sum;
    }
}

mote_choice rig_pick(sample_rig *rig, const mote_sampling *how)
{
    mote_choice choice;
    mote_error err = {0};
    if (sample_pick(&rig->in, how, rig->scratch, &choice, &err) != MOTE_OK)
        fail_msg("sample_pick: %s", err.text);
    return choice;
}
