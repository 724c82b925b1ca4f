/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan.c - spec_plan: the drafts of one step.
 *
 * Every sequence offers a chain of draft tokens: what suffix lookup found, then what the model may
 * draft. A token helps if it and all before it are accepted; that probability never rises along a
 * chain. So the best n tokens of all chains together are the n with the highest probability, and
 * the tuner only chooses n: expected tokens by expected seconds are highest.
 *
 * The choice is made twice if the model drafts: before, with its average acceptance, to decide how
 * many tokens it drafts; and after, with the probabilities it gave to them.
 */
#include "spec/spec_int.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double worth_it = 1.01; /* least gain of a draft: costs that are not measured */
enum {
    BOUNDARY = 32,     /* recurrent states exist at its multiples */
    EXPLORE_TOKENS = 2 /* most tokens of a draft that does not seem to pay */
};

/* ---- chains ---- */

static size_t item_certain(const spec_item *it)
{
    return it->n - it->held;
}

/* After a rewind the certain tokens may begin inside an image. */
static bool item_has_image(const spec_item *it)
{
    for (size_t i = it->held; i < it->n; i++)
        if (it->tokens[i] < 0)
            return true;
    return false;
}

/* Most draft tokens. A recurrent state cannot return behind a multiple of 32 that it has passed, so
 * a draft ends before the next one after the certain tokens. The head cannot continue an image. */
static size_t item_room(const spec_item *it)
{
    size_t room = SPEC_MAX_DRAFT;
    const size_t before_boundary = BOUNDARY - 1 - it->n % BOUNDARY;
    if (it->seq == NULL || it->mode == SPEC_OFF || item_certain(it) >= SPEC_MAX_ROWS ||
        item_has_image(it))
        return 0;
    if (it->mode > 0 && (size_t)it->mode < room)
        room = (size_t)it->mode;
    if (it->limit < room)
        room = it->limit;
    if (before_boundary < room)
        room = before_boundary;
    if (SPEC_MAX_ROWS - item_certain(it) < room)
        room = SPEC_MAX_ROWS - item_certain(it);
    return room;
}

static void item_put(spec_item *it, size_t place, mote_token token, spec_source source,
                     uint8_t cell, float chance)
{
    it->step[item_certain(it) + place] = token;
    it->source[place] = (uint8_t)source;
    it->cell[place] = cell;
    it->chance[place] = chance;
}

/* Starts the chain with what lookup finds. n_draft is the length of the chain until the end of
 * spec_plan(). The lookup runs in any case, so that it follows the sequence. */
static void item_look_up(const spec *s, spec_item *it)
{
    mote_token found[SPEC_MAX_DRAFT];
    const size_t room = item_room(it);
    it->n_draft = it->n_given = it->n_model = it->tried = it->accepted = 0;
    it->left = false;
    if (it->seq == NULL || it->mode == SPEC_OFF)
        return;
    const lookup_match m = lookup_find(&it->seq->lookup, it->tokens, it->n, found, room);
    if (m.n == 0)
        return;
    memcpy(it->step, it->tokens + it->held, item_certain(it) * sizeof *it->step);
    for (size_t i = 0; i < m.n; i++) {
        const uint8_t cell = spec_cell_lookup(m.length + i, m.resumed);
        const float chance = spec_chance(s, it->seq, SPEC_LOOKUP, cell);
        /* The model does better from here on. It costs time, so a small advantage is not enough. */
        if (s->options.draft != NULL &&
            chance + 0.1f < spec_chance_of_place(s, it->seq, it->n_draft))
            break;
        item_put(it, it->n_draft++, found[i], SPEC_LOOKUP, cell, chance);
    }
}

/* ---- choice ---- */

static int candidate_order(const void *a, const void *b)
{
    const spec_candidate *x = a, *y = b;
    if (x->forced != y->forced)
        return x->forced ? -1 : 1;
    if (x->reached != y->reached && !x->forced)
        return x->reached > y->reached ? -1 : 1;
    if (x->place != y->place)
        return x->place < y->place ? -1 : 1;
    return x->item < y->item ? -1 : x->item > y->item;
}

/* Lists the tokens of all chains: those of fixed lengths, then the most probable first. `guess`:
 * also those that the model could add. `automatic`: also those of sequences that the tuner decides
 * about. */
static size_t plan_list(spec *s, const spec_item *items, size_t n, bool guess, bool automatic)
{
    size_t listed = 0;
    for (size_t i = 0; i < n; i++) {
        const spec_item *it = &items[i];
        const bool forced = it->mode > 0;
        const size_t room = guess && s->options.draft != NULL ? item_room(it) : it->n_draft;
        float reached = 1;
        for (size_t place = 0; place < room && (forced || automatic); place++) {
            const bool guessed = place >= it->n_draft;
            reached *= guessed ? spec_chance_of_place(s, it->seq, place) : it->chance[place];
            s->candidates[listed++] = (spec_candidate){.reached = reached,
                                                       .item = (uint32_t)i,
                                                       .place = (uint8_t)place,
                                                       .guessed = guessed,
                                                       .forced = forced};
        }
    }
    qsort(s->candidates, listed, sizeof *s->candidates, candidate_order);
    return listed;
}

/* What a number of candidates costs and gives. */
typedef struct plan_sum {
    double tokens;   /* expected */
    size_t rows;     /* of logits */
    size_t certain;  /* rows beyond one per sequence: without drafts ... */
    size_t extra;    /* ... and with them */
    double rounds;   /* of the model */
    size_t drafting; /* sequences for which it drafts */
} plan_sum;

static plan_sum sum_start(const spec_item *items, size_t n)
{
    plan_sum sum = {.tokens = (double)n, .rows = n};
    for (size_t i = 0; i < n; i++)
        sum.certain += item_certain(&items[i]) - 1;
    sum.extra = sum.certain;
    return sum;
}

/* Adds a candidate; false: too many rows. */
static bool sum_add(plan_sum *sum, const spec_candidate *c, const spec_item *it, size_t max_rows)
{
    /* With a draft the certain tokens have rows of logits too. */
    const size_t rows = c->place == 0 ? item_certain(it) : 1;
    if (sum->rows + rows > max_rows || sum->extra >= SPEC_EXTRA)
        return false;
    sum->rows += rows;
    sum->extra++;
    sum->tokens += (double)c->reached;
    if (c->guessed) {
        const size_t drafted = c->place - it->n_draft + 1;
        sum->rounds = fmax(sum->rounds, spec_rounds(drafted, it->n_draft));
        sum->drafting += drafted == 1;
    }
    return true;
}

/* Expected tokens per second. */
static double sum_rate(const spec *s, const plan_sum *sum, size_t n)
{
    double seconds = spec_step_seconds(s, n, sum->certain, sum->extra);
    if (sum->rounds > 0)
        seconds += sum->rounds * spec_round_seconds(s, n, sum->drafting);
    return sum->tokens / seconds;
}

/* Number of candidates to use: the forced ones, and those that pay. If none pays, a short draft now
 * and then shows whether that has changed; *explores is set then. */
static size_t plan_choose(const spec *s, const spec_item *items, size_t n, size_t listed,
                          size_t max_rows, bool *explores)
{
    plan_sum sum = sum_start(items, n);
    size_t best = 0, trial = 0, i = 0;
    while (i < listed && s->candidates[i].forced &&
           sum_add(&sum, &s->candidates[i], &items[s->candidates[i].item], max_rows))
        best = ++i;
    if (i == listed || s->candidates[i].forced)
        return best;
    const size_t first = i, most = spec_extra_limit(s, n, sum.certain);
    const double plain = sum_rate(s, &sum, n);
    double best_rate = plain * worth_it, trial_rate = 0;
    for (; i < listed && sum.extra < most; i++) {
        if (!sum_add(&sum, &s->candidates[i], &items[s->candidates[i].item], max_rows))
            break;
        const double rate = sum_rate(s, &sum, n);
        if (rate > best_rate) {
            best_rate = rate;
            best = i + 1;
        }
        if (i < first + EXPLORE_TOKENS && rate > trial_rate) {
            trial_rate = rate;
            trial = i + 1;
        }
    }
    *explores = best == first && trial > 0 &&
                spec_may_explore(s, (double)n / trial_rate - (double)n / plain);
    return *explores ? trial : best;
}

/* Lengths of all drafts, in s->counts. */
static void plan_lengths(spec *s, const spec_item *items, size_t n, size_t max_rows, bool guess)
{
    const bool explored = s->exploring;
    const size_t listed = plan_list(s, items, n, guess, spec_may_draft(s, n));
    bool explores = false;
    size_t used = plan_choose(s, items, n, listed, max_rows, &explores);
    /* The model has drafted to explore: compute one token at least. */
    if (!guess && explored && used == 0 && listed > 0)
        used = 1;
    s->exploring = explored || explores;
    memset(s->counts, 0, n * sizeof *s->counts);
    for (size_t i = 0; i < used; i++)
        s->counts[s->candidates[i].item]++;
}

/* ---- the model ---- */

/* Lets the model draft the tokens that s->counts has beyond the chains. */
static mote_status plan_draft(spec *s, spec_item *items, size_t n, float stop_below,
                              mote_error *err)
{
    mote_token tokens[SPEC_MAX_DRAFT * SPEC_STREAMS];
    float chances[SPEC_MAX_DRAFT * SPEC_STREAMS];
    size_t at[SPEC_STREAMS], wanted = 0;
    for (size_t i = 0; i < n && wanted < SPEC_STREAMS; i++) {
        spec_item *it = &items[i];
        if (s->counts[i] <= it->n_draft || it->held == 0)
            continue;
        memcpy(it->step, it->tokens + it->held, item_certain(it) * sizeof *it->step);
        at[wanted] = i;
        s->requests[wanted] = (spec_request){.session = it->session,
                                             .given = it->step,
                                             .n_given = item_certain(it) + it->n_draft,
                                             .n = s->counts[i] - it->n_draft,
                                             .stop_below = it->mode > 0 ? 0 : stop_below,
                                             .tokens = tokens + wanted * SPEC_MAX_DRAFT,
                                             .probabilities = chances + wanted * SPEC_MAX_DRAFT};
        wanted++;
    }
    if (wanted == 0)
        return MOTE_OK;
    const mote_status status = s->options.draft(s->options.with, s->requests, wanted, err);
    for (size_t w = 0; w < wanted && status == MOTE_OK; w++) {
        const spec_request *r = &s->requests[w];
        spec_item *it = &items[at[w]];
        it->n_given = it->n_draft;
        it->n_model = r->n_drafted;
        for (size_t i = 0; i < r->n_drafted; i++) {
            const uint8_t cell = spec_cell_model(it->n_draft, r->probabilities[i]);
            item_put(it, it->n_draft++, r->tokens[i], SPEC_MODEL, cell,
                     spec_chance(s, it->seq, SPEC_MODEL, cell));
        }
    }
    return status;
}

/* ---- entry ---- */

/* Probability below which one more token does not pay for its row and its round. */
static float plan_threshold(const spec *s, size_t n)
{
    const double plain = spec_step_seconds(s, n, 0, 0);
    if (!(plain > 0))
        return 0;
    return (float)((spec_step_seconds(s, n, 0, 1) - plain + spec_round_seconds(s, n, n)) / plain);
}

mote_status spec_plan(spec *s, spec_item *items, size_t n, size_t max_rows, mote_error *err)
{
    mote_status status = MOTE_OK;
    s->exploring = false;
    for (size_t i = 0; i < n; i++)
        item_look_up(s, &items[i]);
    plan_lengths(s, items, n, max_rows, true);
    if (s->options.draft != NULL) {
        status = plan_draft(s, items, n, plan_threshold(s, n), err);
        plan_lengths(s, items, n, max_rows, false);
    }
    for (size_t i = 0; i < n; i++)
        if (status != MOTE_OK || s->counts[i] < items[i].n_draft)
            items[i].n_draft = status != MOTE_OK ? 0 : s->counts[i];
    return status;
}

/* ---- the MTP head ---- */

spec_draft_fn *spec_draft_of(const mote_engine *engine)
{
    mote_memory memory;
    mote_engine_memory(engine, &memory);
    return memory.drafts > 0 ? spec_draft_mtp : NULL;
}

mote_status spec_draft_mtp(void *with, spec_request *requests, size_t n, mote_error *err)
{
    mote_draft_item items[SPEC_STREAMS];
    assert(n <= SPEC_STREAMS);
    for (size_t i = 0; i < n; i++)
        items[i] = (mote_draft_item){.session = requests[i].session,
                                     .next = requests[i].given[0],
                                     .given = requests[i].given + 1,
                                     .n_given = requests[i].n_given - 1,
                                     .n = requests[i].n,
                                     .stop_below = requests[i].stop_below};
    const mote_status status = mote_draft(with, items, n, err);
    for (size_t i = 0; i < n; i++) {
        const size_t drafted = status == MOTE_OK ? items[i].n_drafts : 0;
        requests[i].n_drafted = drafted;
        memcpy(requests[i].tokens, items[i].tokens, drafted * sizeof *items[i].tokens);
        memcpy(requests[i].probabilities, items[i].probability,
               drafted * sizeof *items[i].probability);
    }
    return status == MOTE_E_MEMORY ? MOTE_OK : status;
}

/* ---- the work ---- */

mote_work spec_item_work(const spec_item *it)
{
    const bool drafts = it->n_draft > 0;
    return (mote_work){.session = it->session,
                       .tokens = drafts ? it->step : it->tokens + it->held,
                       .n = item_certain(it) + it->n_draft,
                       .want = drafts ? MOTE_LOGITS_ALL : MOTE_LOGITS_LAST};
}

size_t spec_item_rows(const spec_item *it)
{
    return it->n_draft > 0 ? item_certain(it) + it->n_draft : 1;
}
