/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sample.c - logits to a token: the order of all steps, and the check of the options.
 *
 * All arithmetic is IEEE and either written here or done by a kernel slot that gives the same bits
 * at every ISA level, so the token is the same too. Values are binary32. Sums over candidates are
 * chains of binary64 adds.
 *
 *  1. Clean: ids from n_tokens on are excluded. NaN becomes -inf, which is never chosen; +inf
 *     becomes FLT_MAX. If all values are -inf, the weights are damaged: an error.
 *  2. Log-probabilities of these values: (v - max) - log(sum of exp(v - max)), in binary64, rounded
 *     once. Later steps do not change them.
 *  3. Token mask: tokens without a bit in `allowed` become -inf.
 *  4. Bias, in list order. A token listed twice is changed twice.
 *  5. Penalties. Repetition: for each distinct token among the last repeat_last of `generated` (0:
 *     all), once: v = v > 0 ? v / repetition : v * repetition. Then for each distinct token of all
 *     of `generated`: v = v - presence once, and v = v - frequency per occurrence. Steps 4 and 5
 *     limit results to FLT_MAX.
 *  6. Temperature 0: the largest value; of equal values the lowest id. Otherwise:
 *  7. Candidates are all values except -inf, ordered by (value descending, id ascending). top_k
 *     keeps the first top_k.
 *  8. Weights: w = exp((v - max) * (1 / temperature)). Z is their sum: over the candidates in order
 *     if top_k is on, else sample_row_mass.
 *  9. typical_p: the surprise of a candidate is e = (max - v) * (1 / temperature), in binary64. Its
 *     mean is E, the sum of w * e in order, divided by Z. The candidates nearest to E stay until
 *     their weights sum to typical_p * Z; on a tie the more likely one is taken first. e increases
 *     with the order, so they are consecutive. From here on they are the candidates, and Z is their
 *     sum in order.
 * 10. top_p keeps the shortest prefix with a sum of weights of at least top_p * Z. min_p keeps
 *     weights of at least min_p times the first weight. Both apply to the result of step 9; the
 *     shorter prefix counts; at least one candidate stays. The value 1 turns top_p and typical_p
 *     off, like 0.
 * 11. S is the sum of the kept weights, or Z if top_p and min_p are off. u is the random number of
 *     (seed, position, draw), 0 <= u < 1. The token is the first candidate with a running sum above
 *     u * S; if rounding leaves none, the first candidate.
 */
#include "sample/sample.h"

#include "base/philox.h"
#include "kernels/dmath.h"
#include "sample/sample_row.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum {
    ALIGN = 64,
    /* Without top_k, candidates are sorted in three steps: the first 64, the first 512, all. Most
     * draws end within the first few. */
    REACH_NEAR = 64,
    REACH_FAR = 512
};

/* ---- scratch memory ---- */

static size_t align_up(size_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

/* The arrays values, block_max, entries and spare of a sample_row. */
size_t sample_scratch_bytes(uint32_t vocabulary)
{
    return align_up(vocabulary * sizeof(float)) +
           align_up(sample_row_blocks(vocabulary) * sizeof(float)) +
           2 * align_up(vocabulary * sizeof(sample_entry));
}

static sample_row row_init(const sample_input *in, void *scratch)
{
    unsigned char *at = scratch;
    sample_row row = {.kernels = in->kernels, .n = in->n_tokens};
    row.values = (float *)at;
    at += align_up(in->vocabulary * sizeof(float));
    row.block_max = (float *)at;
    at += align_up(sample_row_blocks(in->vocabulary) * sizeof(float));
    row.entries = (sample_entry *)at;
    at += align_up(in->vocabulary * sizeof(sample_entry));
    row.spare = (sample_entry *)at;
    return row;
}

/* ---- log-probabilities ---- */

/* log-probability = value - max - log_sum */
typedef struct log_scale {
    float max;
    double log_sum;
} log_scale;

static float logprob_of(const log_scale *scale, float value)
{
    return (float)((double)value - (double)scale->max - scale->log_sum);
}

static void report_top(const sample_row *row, const log_scale *scale, uint32_t want,
                       mote_choice *out)
{
    const size_t found = sample_row_best(row, want);
    out->n_top = found < want ? (uint32_t)found : want;
    for (uint32_t i = 0; i < out->n_top; i++) {
        const uint32_t id = row->entries[i].id;
        out->top[i].token = (mote_token)id;
        out->top[i].logprob = logprob_of(scale, row->values[id]);
    }
}

/* ---- token mask, bias and penalties ---- */

static bool has_repetition(const sample_input *in, const mote_sampling *how)
{
    return in->n_generated > 0 && how->repetition != 0 && how->repetition != 1;
}

static bool has_presence(const sample_input *in, const mote_sampling *how)
{
    return in->n_generated > 0 && (how->presence != 0 || how->frequency != 0);
}

/* -inf is a valid result (token excluded), +inf is not. */
static float clamp_to_max(float value)
{
    return value < FLT_MAX ? value : FLT_MAX;
}

/* A bitmap of token ids. It fits in the L1 cache; an array of counts would not. It uses the memory
 * of the sort, which runs later. */
static uint64_t *seen_init(const sample_row *row)
{
    uint64_t *seen = (uint64_t *)row->spare; /* [n / 64, rounded up] */
    memset(seen, 0, ((size_t)row->n + 63) / 64 * sizeof *seen);
    return seen;
}

/* True on the first call for this id. */
static bool seen_add(uint64_t *seen, uint32_t id)
{
    const uint64_t bit = UINT64_C(1) << id % 64;
    const bool is_first = (seen[id / 64] & bit) == 0;
    seen[id / 64] |= bit;
    return is_first;
}

static void apply_repetition(const sample_row *row, const sample_input *in,
                             const mote_sampling *how)
{
    uint64_t *seen = seen_init(row);
    const size_t last = how->repeat_last;
    for (size_t i = last > 0 && last < in->n_generated ? in->n_generated - last : 0;
         i < in->n_generated; i++) {
        const uint32_t id = (uint32_t)in->generated[i];
        if (id >= row->n || !seen_add(seen, id))
            continue;
        const float value = row->values[id];
        row->values[id] =
            clamp_to_max(value > 0 ? value / how->repetition : value * how->repetition);
    }
}

/* One pass, because there may be 100,000 generated tokens. */
static void apply_presence(const sample_row *row, const sample_input *in, const mote_sampling *how)
{
    uint64_t *seen = seen_init(row);
    for (size_t i = 0; i < in->n_generated; i++) {
        const uint32_t id = (uint32_t)in->generated[i];
        if (id >= row->n)
            continue;
        const float presence = seen_add(seen, id) ? how->presence : 0;
        row->values[id] = clamp_to_max(row->values[id] - presence - how->frequency);
    }
}

/* Skips words with all bits set, which are common. */
static void apply_mask(const sample_row *row, const uint32_t *allowed)
{
    for (uint32_t first = 0; first < row->n; first += 32) {
        const uint32_t n = row->n - first < 32 ? row->n - first : 32;
        const uint32_t bits = allowed[first / 32];
        if (bits == UINT32_MAX)
            continue;
        for (uint32_t i = 0; i < n; i++)
            if ((bits >> i & 1) == 0)
                row->values[first + i] = -INFINITY;
    }
}

static void apply_options(const sample_row *row, const sample_input *in, const mote_sampling *how)
{
    if (how->allowed != NULL)
        apply_mask(row, how->allowed);
    for (size_t i = 0; i < how->n_bias; i++) {
        float *value = &row->values[how->bias[i].token];
        *value = clamp_to_max(*value + how->bias[i].add);
    }
    if (has_repetition(in, how))
        apply_repetition(row, in, how);
    if (has_presence(in, how))
        apply_presence(row, in, how);
}

/* ---- the draw ---- */

/* Iterates over the candidates, best first, with a running sum of their weights. */
typedef struct walk {
    const sample_row *row;
    float max, scale;
    size_t begin;  /* first candidate */
    size_t limit;  /* end of the candidates */
    size_t wanted; /* last argument of sample_row_best */
    size_t sorted; /* its result */
    size_t next;
    double sum;
} walk;

static walk walk_init(const sample_row *row, const mote_sampling *how, float max)
{
    walk w = {.row = row, .max = max, .limit = row->n, .wanted = REACH_NEAR};
    w.scale = clamp_to_max(1 / how->temperature); /* 0 * inf would be NaN for the maximum */
    if (how->top_k > 0 && how->top_k < row->n)
        w.limit = w.wanted = how->top_k;
    w.sorted = sample_row_best(row, w.wanted);
    return w;
}

/* Sorts more candidates if needed. Entries already sorted keep their place. False: no next one. */
static bool walk_sort_next(walk *w)
{
    while (w->next >= w->sorted && w->wanted < w->limit) {
        w->wanted = w->wanted < REACH_FAR && REACH_FAR < w->limit ? REACH_FAR : w->limit;
        w->sorted = sample_row_best(w->row, w->wanted);
    }
    return w->next < w->sorted && w->next < w->limit;
}

/* Weight of the next candidate; 0 at the end. */
static float walk_weight(walk *w)
{
    if (!walk_sort_next(w))
        return 0;
    const float *value = &w->row->values[w->row->entries[w->next].id];
    return w->row->kernels->sum_exp(value, 1, w->max, w->scale);
}

/* Takes candidates until their sum is at least `goal`, or the next weight is 0 or below `least`.
 * After a weight of 0 all weights are 0. */
static void walk_take(walk *w, double goal, double least)
{
    while (w->sum < goal) {
        const double weight = (double)walk_weight(w);
        if (weight <= 0 || weight < least)
            return;
        w->sum += weight;
        w->next++;
    }
}

static void walk_restart(walk *w)
{
    w->next = w->begin;
    w->sum = 0;
}

/* The sum of the weights of all candidates (Z of step 8 above). */
static double walk_mass(walk *w)
{
    if (w->limit == w->row->n)
        return sample_row_mass(w->row, w->max, w->scale);
    walk_take(w, INFINITY, 0);
    const double mass = w->sum;
    walk_restart(w);
    return mass;
}

static double walk_surprise(const walk *w, size_t i)
{
    const float value = w->row->values[w->row->entries[i].id];
    return ((double)w->max - (double)value) * (double)w->scale;
}

/* E of step 9. Ends after the last candidate with a weight above 0. */
static double walk_mean_surprise(walk *w, double mass)
{
    double sum = 0;
    for (float weight; (weight = walk_weight(w)) > 0; w->next++)
        sum += (double)weight * walk_surprise(w, w->next);
    return sum / mass;
}

/* Step 9: limits the walk to the candidates nearest to the average. Returns the sum of their
 * weights. */
static double walk_keep_typical(walk *w, const mote_sampling *how, double mass)
{
    const double average = walk_mean_surprise(w, mass), goal = (double)how->typical_p * mass;
    const size_t n = w->next;
    size_t from = 0;
    while (from < n && walk_surprise(w, from) < average)
        from++;
    size_t to = from;
    for (double sum = 0; sum < goal && to - from < n;) {
        const bool before = from > 0 && (to == n || average - walk_surprise(w, from - 1) <=
                                                        walk_surprise(w, to) - average);
        w->next = before ? --from : to++;
        sum += (double)walk_weight(w);
    }
    w->begin = from;
    w->limit = to;
    walk_restart(w);
    walk_take(w, INFINITY, 0);
    mass = w->sum;
    walk_restart(w);
    return mass;
}

/* Step 10; returns S. The draw needs no other result of top_p and min_p: its target is below S, so
 * it ends at one of the candidates that were summed. */
static double walk_keep(walk *w, const mote_sampling *how, double mass)
{
    const bool top_p = how->top_p > 0 && how->top_p < 1;
    if (!top_p && how->min_p == 0)
        return mass;
    const double least = (double)how->min_p * (double)walk_weight(w);
    walk_take(w, top_p ? (double)how->top_p * mass : INFINITY, least);
    const double kept = w->sum;
    walk_restart(w);
    return kept;
}

static uint32_t draw_token(const sample_row *row, const mote_sampling *how, float max, float unit)
{
    walk w = walk_init(row, how, max);
    double mass = walk_mass(&w);
    if (how->typical_p > 0 && how->typical_p < 1)
        mass = walk_keep_typical(&w, how, mass);
    const double target = (double)unit * walk_keep(&w, how, mass);
    for (float weight; (weight = walk_weight(&w)) > 0; w.next++) {
        w.sum += (double)weight;
        if (w.sum > target)
            return row->entries[w.next].id;
    }
    return row->entries[w.begin].id;
}

/* ---- entry point ---- */

mote_status sample_pick(const sample_input *in, const mote_sampling *how, void *scratch,
                        mote_choice *out, mote_error *err)
{
    assert(in->n_tokens > 0 && in->n_tokens <= in->vocabulary);
    static const mote_sampling defaults = {0};
    if (how == NULL)
        how = &defaults;
    TRY(sample_check_options(how, in->n_tokens, err));

    const sample_row row = row_init(in, scratch);
    float max = sample_row_load(&row, in->logits);
    if (max == -INFINITY)
        return err_set(err, MOTE_E_FORMAT, "model weights are damaged: every logit is NaN or -inf");

    mote_choice choice = {0};
    const log_scale scale = {max, d_log(sample_row_mass(&row, max, 1))};
    report_top(&row, &scale, how->top_logprobs, &choice);

    if (how->allowed != NULL || how->n_bias > 0 || has_repetition(in, how) ||
        has_presence(in, how)) {
        apply_options(&row, in, how);
        max = sample_row_measure(&row);
        if (max == -INFINITY)
            return err_set(err, MOTE_E_ARG,
                           "no token can be sampled: allowed, bias and penalties exclude all");
    }
    const uint32_t id =
        how->temperature == 0
            ? sample_row_first(&row, max)
            : draw_token(&row, how, max, philox_unit(how->seed, in->position, how->draw));
    choice.token = (mote_token)id;
    choice.logprob = logprob_of(&scale, sample_clean(in->logits[id]));
    *out = choice;
    return MOTE_OK;
}

/*
 * ---- check of the options ----
 *
 *   temperature               0 to 100
 *   top_p, min_p, typical_p   0 to 1
 *   presence, frequency       -100 to 100
 *   repetition                0 (off), or 0.01 to 100
 *   bias                      -1,000,000 to 1,000,000, or -inf, which excludes the token
 *   top_logprobs              0 to MOTE_TOP_LOGPROBS
 *
 * The ranges are wider than any useful value; the server narrows them to those of its APIs. With
 * these bounds a finite logit stays finite or becomes -inf, so no step above produces a NaN.
 */

/* False for NaN. */
static bool in_range(float value, float least, float most)
{
    return value >= least && value <= most;
}

static mote_status check_option_range(const char *name, float value, float least, float most,
                                      mote_error *err)
{
    if (in_range(value, least, most))
        return MOTE_OK;
    return err_set(err, MOTE_E_ARG, "%s must be %g to %g, got %g", name, (double)least,
                   (double)most, (double)value);
}

static mote_status check_repetition(float value, mote_error *err)
{
    if (value == 0 || in_range(value, 0.01f, 100))
        return MOTE_OK;
    return err_set(err, MOTE_E_ARG, "repetition must be 0 (off) or 0.01 to 100, got %g",
                   (double)value);
}

static mote_status check_bias(const mote_sampling *how, uint32_t n_tokens, mote_error *err)
{
    if (how->n_bias > 0 && how->bias == NULL)
        return err_set(err, MOTE_E_ARG, "bias must not be NULL if n_bias is %zu", how->n_bias);
    for (size_t i = 0; i < how->n_bias; i++) {
        const mote_bias *b = &how->bias[i];
        if (b->token < 0 || (uint32_t)b->token >= n_tokens)
            return err_set(err, MOTE_E_ARG,
                           "token of bias %zu must be 0 to %" PRIu32 ", got %" PRId32, i,
                           n_tokens - 1, b->token);
        if (b->add != -INFINITY && !in_range(b->add, -1e6f, 1e6f))
            return err_set(err, MOTE_E_ARG,
                           "bias of token %" PRId32 " must be -1e6 to 1e6 or -infinity, got %g",
                           b->token, (double)b->add);
    }
    return MOTE_OK;
}

mote_status sample_check_options(const mote_sampling *how, uint32_t n_tokens, mote_error *err)
{
    TRY(check_option_range("temperature", how->temperature, 0, 100, err));
    TRY(check_option_range("top_p", how->top_p, 0, 1, err));
    TRY(check_option_range("min_p", how->min_p, 0, 1, err));
    TRY(check_option_range("typical_p", how->typical_p, 0, 1, err));
    TRY(check_option_range("presence", how->presence, -100, 100, err));
    TRY(check_option_range("frequency", how->frequency, -100, 100, err));
    TRY(check_repetition(how->repetition, err));
    if (how->top_logprobs > MOTE_TOP_LOGPROBS)
        return err_set(err, MOTE_E_ARG, "top_logprobs must be 0 to %d, got %" PRIu32,
                       MOTE_TOP_LOGPROBS, how->top_logprobs);
    return check_bias(how, n_tokens, err);
}
