/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sample.c - the order in which a row of logits becomes a token.
 *
 * All arithmetic is IEEE and either written here or a kernel slot, which is the
 * same at every instruction-set level: so is the token. Values are binary32,
 * sums over candidates are chains of binary64 adds.
 *
 *  1. Clean: ids from n_tokens on are left out. NaN becomes -inf, which is never
 *     chosen; +inf becomes the largest float. A row of nothing but -inf is an
 *     error: the weights it came from are damaged.
 *  2. Log-probabilities, of these values: (v - max) - log(sum of exp(v - max)),
 *     in binary64, rounded once. What comes later does not change them.
 *  3. Tokens whose bit in `allowed` is not set become -inf.
 *  4. Bias, in the order of the list; a token named twice is moved twice.
 *  5. Penalties: for each different token among the last repeat_last of
 *     `generated`, or all of them, once, v = v > 0 ? v / repetition : v *
 *     repetition; then for each different token of all of `generated`, once,
 *     v = v - presence, and for each time it occurs v = v - frequency. A result
 *     above the largest float becomes it, here and in 4.
 *  6. Temperature 0: the largest value, of equal ones the lowest id. Otherwise:
 *  7. Candidates are all values but -inf, ordered by (value descending, id
 *     ascending); top_k keeps the first top_k of them.
 *  8. Weights: w = exp((v - max) * (1 / temperature)). Z is their sum: over the
 *     candidates in order if top_k is on, else sample_row_mass.
 *  9. typical_p: the surprise of a candidate is e = (max - v) * (1 / temperature),
 *     in binary64, and the average one E the sum of w * e, in order, by Z. The
 *     nearest to E stay, of two as near the more likely one first, until their
 *     weights add up to typical_p * Z: as e grows with the order, neighbours.
 *     They are the candidates from here on, and their sum in order is Z.
 * 10. top_p keeps the shortest beginning whose sum of weights is at least
 *     top_p * Z. min_p keeps weights of at least min_p times the first. Both
 *     measure what 9 left; the shorter one counts; at least one stays.
 *     1 turns top_p and typical_p off as 0 does.
 * 11. S is the sum of what was kept, or Z if neither top_p nor min_p is on, and
 *     u the number of (seed, position, draw), 0 <= u < 1. The token is the
 *     first candidate at which the running sum exceeds u * S; if rounding leaves
 *     none, the first candidate of all.
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
    /* How many candidates are put in order at first, and then, when no top_k says
     * it. Most draws end within the first few; the rest of the row comes last. */
    REACH_NEAR = 64,
    REACH_FAR = 512
};

/* ---- scratch ---- */

static size_t round_up(size_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

/* values, block_max, entries, spare. */
size_t sample_scratch_bytes(uint32_t vocabulary)
{
    return round_up(vocabulary * sizeof(float)) +
           round_up(sample_row_blocks(vocabulary) * sizeof(float)) +
           2 * round_up(vocabulary * sizeof(sample_entry));
}

static sample_row lay_out(const sample_input *in, void *scratch)
{
    unsigned char *at = scratch;
    sample_row row = {.kernels = in->kernels, .n = in->n_tokens};
    row.values = (float *)at;
    at += round_up(in->vocabulary * sizeof(float));
    row.block_max = (float *)at;
    at += round_up(sample_row_blocks(in->vocabulary) * sizeof(float));
    row.entries = (sample_entry *)at;
    at += round_up(in->vocabulary * sizeof(sample_entry));
    row.spare = (sample_entry *)at;
    return row;
}

/* ---- the model's opinion: log-probabilities ---- */

/* What turns a value into its log-probability. */
typedef struct log_scale {
    float max;
    double log_sum;
} log_scale;

static float logprob(const log_scale *scale, float value)
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
        out->top[i].logprob = logprob(scale, row->values[id]);
    }
}

/* ---- the caller's wishes: what is allowed, bias and penalties ---- */

static bool has_repetition(const sample_input *in, const mote_sampling *how)
{
    return in->n_generated > 0 && how->repetition != 0 && how->repetition != 1;
}

static bool has_presence(const sample_input *in, const mote_sampling *how)
{
    return in->n_generated > 0 && (how->presence != 0 || how->frequency != 0);
}

/* Positive overflow is the only way out of the finite numbers that has to be closed. */
static float bounded(float value)
{
    return value < FLT_MAX ? value : FLT_MAX;
}

/* What was seen before is a bit per id: that fits into the nearest cache, where an array of counts
 * would not. It borrows the room of the sort, which comes later. */
static uint64_t *nothing_seen(const sample_row *row)
{
    uint64_t *seen = (uint64_t *)row->spare; /* [n / 64, rounded up] */
    memset(seen, 0, ((size_t)row->n + 63) / 64 * sizeof *seen);
    return seen;
}

static bool see(uint64_t *seen, uint32_t id)
{
    const uint64_t bit = UINT64_C(1) << id % 64;
    const bool is_first = (seen[id / 64] & bit) == 0;
    seen[id / 64] |= bit;
    return is_first;
}

static void penalise_repetition(const sample_row *row, const sample_input *in,
                                const mote_sampling *how)
{
    uint64_t *seen = nothing_seen(row);
    const size_t last = how->repeat_last;
    for (size_t i = last > 0 && last < in->n_generated ? in->n_generated - last : 0;
         i < in->n_generated; i++) {
        const uint32_t id = (uint32_t)in->generated[i];
        if (id >= row->n || !see(seen, id))
            continue;
        const float value = row->values[id];
        row->values[id] = bounded(value > 0 ? value / how->repetition : value * how->repetition);
    }
}

/* One walk over the generated tokens, which may be a hundred thousand. */
static void penalise_presence(const sample_row *row, const sample_input *in,
                              const mote_sampling *how)
{
    uint64_t *seen = nothing_seen(row);
    for (size_t i = 0; i < in->n_generated; i++) {
        const uint32_t id = (uint32_t)in->generated[i];
        if (id >= row->n)
            continue;
        const float presence = see(seen, id) ? how->presence : 0;
        row->values[id] = bounded(row->values[id] - presence - how->frequency);
    }
}

/* Whole words of nothing and of everything are the usual ones. */
static void forbid(const sample_row *row, const uint32_t *allowed)
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

static void adjust(const sample_row *row, const sample_input *in, const mote_sampling *how)
{
    if (how->allowed != NULL)
        forbid(row, how->allowed);
    for (size_t i = 0; i < how->n_bias; i++) {
        float *value = &row->values[how->bias[i].token];
        *value = bounded(*value + how->bias[i].add);
    }
    if (has_repetition(in, how))
        penalise_repetition(row, in, how);
    if (has_presence(in, how))
        penalise_presence(row, in, how);
}

/* ---- the draw ---- */

/* The candidates, best first, with their weights and the running sum. */
typedef struct walk {
    const sample_row *row;
    float max, scale;
    size_t begin;  /* no candidate before, */
    size_t limit;  /* nor from here on */
    size_t wanted; /* what sample_row_best was last asked for */
    size_t sorted; /* and what it gave */
    size_t next;
    double sum;
} walk;

static walk walk_from(const sample_row *row, const mote_sampling *how, float max)
{
    walk w = {.row = row, .max = max, .limit = row->n, .wanted = REACH_NEAR};
    w.scale = bounded(1 / how->temperature); /* the first value's 0 * inf would be a NaN */
    if (how->top_k > 0 && how->top_k < row->n)
        w.limit = w.wanted = how->top_k;
    w.sorted = sample_row_best(row, w.wanted);
    return w;
}

/* Puts more candidates in order until there is a next one. Those before stay where they are. */
static bool reach_next(walk *w)
{
    while (w->next >= w->sorted && w->wanted < w->limit) {
        w->wanted = w->wanted < REACH_FAR && REACH_FAR < w->limit ? REACH_FAR : w->limit;
        w->sorted = sample_row_best(w->row, w->wanted);
    }
    return w->next < w->sorted && w->next < w->limit;
}

/* Of the next candidate; 0 if there is none. */
static float next_weight(walk *w)
{
    if (!reach_next(w))
        return 0;
    const float *value = &w->row->values[w->row->entries[w->next].id];
    return w->row->kernels->sum_exp(value, 1, w->max, w->scale);
}

/* Takes candidates until their sum is at least `goal`, or the next weighs less
 * than `least` or nothing at all. Behind one that weighs nothing all weigh nothing. */
static void take_until(walk *w, double goal, double least)
{
    while (w->sum < goal) {
        const double weight = (double)next_weight(w);
        if (weight <= 0 || weight < least)
            return;
        w->sum += weight;
        w->next++;
    }
}

static void restart(walk *w)
{
    w->next = w->begin;
    w->sum = 0;
}

/* Z of the head comment. */
static double whole_mass(walk *w)
{
    if (w->limit == w->row->n)
        return sample_row_mass(w->row, w->max, w->scale);
    take_until(w, INFINITY, 0);
    const double mass = w->sum;
    restart(w);
    return mass;
}

static double surprise(const walk *w, size_t i)
{
    const float value = w->row->values[w->row->entries[i].id];
    return ((double)w->max - (double)value) * (double)w->scale;
}

/* E of the head comment. Leaves the walk behind the last candidate that weighs something. */
static double average_surprise(walk *w, double mass)
{
    double sum = 0;
    for (float weight; (weight = next_weight(w)) > 0; w->next++)
        sum += (double)weight * surprise(w, w->next);
    return sum / mass;
}

static double weight_at(walk *w, size_t i)
{
    w->next = i;
    return (double)next_weight(w);
}

/* Narrows the walk to the candidates nearest to the average; returns what they weigh. */
static double keep_typical(walk *w, const mote_sampling *how, double mass)
{
    const double average = average_surprise(w, mass), goal = (double)how->typical_p * mass;
    const size_t n = w->next;
    size_t from = 0;
    while (from < n && surprise(w, from) < average)
        from++;
    size_t to = from;
    for (double sum = 0; sum < goal && to - from < n;) {
        const bool before =
            from > 0 && (to == n || average - surprise(w, from - 1) <= surprise(w, to) - average);
        sum += weight_at(w, before ? --from : to++);
    }
    w->begin = from;
    w->limit = to;
    restart(w);
    take_until(w, INFINITY, 0);
    mass = w->sum;
    restart(w);
    return mass;
}

/* S of the head comment. That is all a draw has to know of top_p and min_p: its target is
 * below S, so it ends among the candidates that S was summed over. */
static double keep(walk *w, const mote_sampling *how, double mass)
{
    const bool top_p = how->top_p > 0 && how->top_p < 1;
    if (!top_p && how->min_p == 0)
        return mass;
    const double least = (double)how->min_p * (double)next_weight(w);
    take_until(w, top_p ? (double)how->top_p * mass : INFINITY, least);
    const double kept = w->sum;
    restart(w);
    return kept;
}

static uint32_t draw(const sample_row *row, const mote_sampling *how, float max, float unit)
{
    walk w = walk_from(row, how, max);
    double mass = whole_mass(&w);
    if (how->typical_p > 0 && how->typical_p < 1)
        mass = keep_typical(&w, how, mass);
    const double target = (double)unit * keep(&w, how, mass);
    for (float weight; (weight = next_weight(&w)) > 0; w.next++) {
        w.sum += (double)weight;
        if (w.sum > target)
            return row->entries[w.next].id;
    }
    return row->entries[w.begin].id;
}

/* ---- all of it ---- */

mote_status sample_pick(const sample_input *in, const mote_sampling *how, void *scratch,
                        mote_choice *out, mote_error *err)
{
    assert(in->n_tokens > 0 && in->n_tokens <= in->vocabulary);
    static const mote_sampling defaults = {0};
    if (how == NULL)
        how = &defaults;
    TRY(sample_check_options(how, in->n_tokens, err));

    const sample_row row = lay_out(in, scratch);
    float max = sample_row_load(&row, in->logits);
    if (max == -INFINITY)
        return err_set(err, MOTE_E_FORMAT,
                       "no logit is a number above -infinity: the model's weights are damaged");

    mote_choice choice = {0};
    const log_scale scale = {max, d_log(sample_row_mass(&row, max, 1))};
    report_top(&row, &scale, how->top_logprobs, &choice);

    if (how->allowed != NULL || how->n_bias > 0 || has_repetition(in, how) ||
        has_presence(in, how)) {
        adjust(&row, in, how);
        max = sample_row_measure(&row);
        if (max == -INFINITY)
            return err_set(err, MOTE_E_ARG,
                           "allowed, bias and penalties leave no token that may be chosen");
    }
    const uint32_t id = how->temperature == 0
                            ? sample_row_first(&row, max)
                            : draw(&row, how, max, philox_unit(how->seed, in->position, how->draw));
    choice.token = (mote_token)id;
    choice.logprob = logprob(&scale, sample_clean(in->logits[id]));
    *out = choice;
    return MOTE_OK;
}

/* ---- the ranges of the sampling options. temperature 0 to 100 top_p, min_p, typical_p 0 to 1
 * presence, frequency -100 to 100 repetition 0 (off), or 0.01 to 100 bias -1,000,000 to 1,000,000,
 * or -inf, which forbids the token top_logprobs 0 to MOTE_TOP_LOGPROBS They are wider than any use
 * that makes sense, so that a service can narrow them to what its own interface promises. Their
 * purpose here is that the arithmetic of sample.c never meets a NaN: with these bounds a finite
 * logit stays finite or becomes -inf. ---- */

/* Written so that NaN fails. */
static bool within(float value, float least, float most)
{
    return value >= least && value <= most;
}

static mote_status check_range(const char *name, float value, float least, float most,
                               mote_error *err)
{
    if (within(value, least, most))
        return MOTE_OK;
    return err_set(err, MOTE_E_ARG, "%s is %g, not a number from %g to %g", name, (double)value,
                   (double)least, (double)most);
}

static mote_status check_repetition(float value, mote_error *err)
{
    if (value == 0 || within(value, 0.01f, 100))
        return MOTE_OK;
    return err_set(err, MOTE_E_ARG, "repetition is %g, not 0 (off) or a number from 0.01 to 100",
                   (double)value);
}

static mote_status check_bias(const mote_sampling *how, uint32_t n_tokens, mote_error *err)
{
    if (how->n_bias > 0 && how->bias == NULL)
        return err_set(err, MOTE_E_ARG, "n_bias is %zu, but bias is NULL", how->n_bias);
    for (size_t i = 0; i < how->n_bias; i++) {
        const mote_bias *b = &how->bias[i];
        if (b->token < 0 || (uint32_t)b->token >= n_tokens)
            return err_set(err, MOTE_E_ARG,
                           "bias %zu is for token %" PRId32
                           ", but the model's tokens are 0 to %" PRIu32,
                           i, b->token, n_tokens - 1);
        if (b->add != -INFINITY && !within(b->add, -1e6f, 1e6f))
            return err_set(err, MOTE_E_ARG,
                           "the bias of token %" PRId32
                           " is %g, not a number from -1e6 to 1e6 or -infinity",
                           b->token, (double)b->add);
    }
    return MOTE_OK;
}

mote_status sample_check_options(const mote_sampling *how, uint32_t n_tokens, mote_error *err)
{
    TRY(check_range("temperature", how->temperature, 0, 100, err));
    TRY(check_range("top_p", how->top_p, 0, 1, err));
    TRY(check_range("min_p", how->min_p, 0, 1, err));
    TRY(check_range("typical_p", how->typical_p, 0, 1, err));
    TRY(check_range("presence", how->presence, -100, 100, err));
    TRY(check_range("frequency", how->frequency, -100, 100, err));
    TRY(check_repetition(how->repetition, err));
    if (how->top_logprobs > MOTE_TOP_LOGPROBS)
        return err_set(err, MOTE_E_ARG, "top_logprobs is %" PRIu32 ", more than %d",
                       how->top_logprobs, MOTE_TOP_LOGPROBS);
    return check_bias(how, n_tokens, err);
}
