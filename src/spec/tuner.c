/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tuner.c - what steps cost, which drafts are accepted, and whether drafting pays.
 *
 * Everything is measured in use. Priors decide until there are measurements; they are a little too
 * good, so that everything is tried. What that may lose is limited by the ledger: it starts with an
 * allowance of a few plain steps, gets a small share of the decode time and what drafts save, and
 * pays what they lose. It has an upper limit, so good times do not pay for bad ones. When it is
 * empty, drafting pauses; each pause without success is longer.
 */
#include "base/err.h"
#include "base/mem.h"
#include "spec/spec_int.h"

#include <math.h>

enum {
    PLAIN_FIRST = 2,   /* plain steps before the first draft */
    PLAIN_EVERY = 64,  /* steps with drafts before a plain step is measured again */
    COST_FRESH = 2048, /* steps after which a measured cost is not used any more */
    AVERAGE_OF = 8,    /* weight of the average of costs, in steps */
    EXPLORE_FIRST = 16,
    EXPLORE_LAST = 512,
    PAUSE_FIRST = 32,
    PAUSE_LAST = 1024
};

static const float forget = 0.985f;         /* of a cell, for each token */
static const float forget_own = 0.95f;      /* of the correction by sequence */
static const float prior_weight = 2;        /* tokens that a prior counts as */
static const float own_weight = 6;          /* the same for the correction by sequence */
static const double share_to_lose = 0.005;  /* of the decode time */
static const double allowance = 4;          /* plain steps, at the start and at most */
static const double unmeasured_cost = 0.95; /* of the prior: try it */
static const double prior_round = 0.15;     /* of a plain step */
static const double outdated = 1.6;         /* a step so many times faster than a plain one */

/* ---- acceptance ---- */

static size_t length_bucket(size_t length)
{
    static const size_t from[SPEC_LENGTHS] = {0, 2, 3, 4, 6, 9, 16, 32};
    size_t b = SPEC_LENGTHS - 1;
    while (from[b] > length)
        b--;
    return b;
}

static size_t chance_bucket(float probability)
{
    static const float from[SPEC_CHANCES] = {0, .3f, .5f, .7f, .85f, .95f};
    size_t b = SPEC_CHANCES - 1;
    while (b > 0 && !(probability >= from[b]))
        b--;
    return b;
}

uint8_t spec_cell_lookup(size_t length, bool resumed)
{
    return (uint8_t)(length_bucket(length) + (resumed ? SPEC_LENGTHS : 0));
}

uint8_t spec_cell_model(size_t place, float probability)
{
    return (uint8_t)(SPEC_LOOKUP_CELLS + place * SPEC_CHANCES + chance_bucket(probability));
}

static float cell_prior(uint8_t cell)
{
    static const float lengths[2][SPEC_LENGTHS] = {
        {.2f, .3f, .4f, .55f, .7f, .85f, .92f, .95f},
        {.5f, .7f, .8f, .85f, .9f, .92f, .94f, .96f},
    };
    static const float chances[SPEC_CHANCES] = {.2f, .4f, .6f, .75f, .88f, .95f};
    return cell < SPEC_LOOKUP_CELLS ? lengths[cell / SPEC_LENGTHS][cell % SPEC_LENGTHS]
                                    : chances[(cell - SPEC_LOOKUP_CELLS) % SPEC_CHANCES];
}

static float rate_value(const spec_rate *r, float prior, float weight)
{
    return (r->accepted + prior * weight) / (r->tried + weight);
}

static void rate_add(spec_rate *r, float keep, float accepted, float tried)
{
    r->accepted = r->accepted * keep + accepted;
    r->tried = r->tried * keep + tried;
}

/* How this sequence differs from the others: accepted tokens by predicted ones. */
static float seq_correct(const spec_seq *seq, spec_source source, float chance)
{
    const float p = chance * rate_value(&seq->against[source], 1, own_weight);
    return p < 0.01f ? 0.01f : p > 0.99f ? 0.99f : p;
}

float spec_chance(const spec *s, const spec_seq *seq, spec_source source, uint8_t cell)
{
    return seq_correct(seq, source, rate_value(&s->cells[cell], cell_prior(cell), prior_weight));
}

float spec_chance_of_place(const spec *s, const spec_seq *seq, size_t place)
{
    static const float prior[SPEC_MAX_DRAFT] = {.88f, .86f, .85f, .84f, .83f, .82f, .81f, .8f};
    return seq_correct(seq, SPEC_MODEL, rate_value(&s->places[place], prior[place], prior_weight));
}

/* Tokens of the model that were not computed, because it gave them a low probability. That is known
 * before the step, so the average acceptance of their places must learn it too. Nothing is known if
 * a token before them was wrong. */
static void observe_unused(spec *s, const spec_item *item)
{
    float reached = 1;
    if (item->accepted < item->n_draft)
        return;
    for (size_t i = item->n_draft; i < item->n_given + item->n_model; i++) {
        if (item->source[i] == SPEC_MODEL)
            rate_add(&s->places[i], forget, reached * item->chance[i], reached);
        reached *= item->chance[i];
    }
}

static void observe_tokens(spec *s, const spec_item *item)
{
    for (size_t i = 0; i < item->tried && i < item->n_draft; i++) {
        const float accepted = i < item->accepted;
        spec_rate *cell = &s->cells[item->cell[i]];
        const float predicted = rate_value(cell, cell_prior(item->cell[i]), prior_weight);
        rate_add(&item->seq->against[item->source[i]], forget_own, accepted, predicted);
        rate_add(cell, forget, accepted, 1);
        if (item->source[i] == SPEC_MODEL)
            rate_add(&s->places[i], forget, accepted, 1);
    }
    for (size_t i = 0; i < item->n_draft; i++) {
        s->stats.drafted[item->source[i]]++;
        s->stats.accepted[item->source[i]] += i < item->accepted;
    }
}

/* ---- costs ---- */

static const spec_costs *costs_of(const spec *s, size_t n)
{
    return &s->costs[n < SPEC_STREAMS ? n : SPEC_STREAMS];
}

/* Seconds of a step with `rows` rows, relative to one row: what a prior is made from. */
static double prior_rows(size_t rows)
{
    static const double few[] = {1, 1, 1.25, 1.35, 1.45, 1.55, 1.65, 1.75, 1.85};
    const size_t n = sizeof few / sizeof *few;
    return rows < n ? few[rows] : few[n - 1] + 0.1 * (double)(rows - n + 1);
}

static bool cost_fresh(const spec *s, const spec_cost *c)
{
    return c->n > 0 && s->stats.steps - c->measured < COST_FRESH;
}

/* A measured ratio, or one between its measured neighbours, or the prior from the one below. */
static double cost_ratio(const spec *s, size_t n, size_t extra)
{
    const spec_cost *c = costs_of(s, n)->extra;
    size_t below = extra, above = extra;
    while (below > 0 && !cost_fresh(s, &c[below]))
        below--;
    const double low = below > 0 ? (double)c[below].ratio : 1;
    if (below == extra)
        return low;
    while (above <= SPEC_EXTRA && !cost_fresh(s, &c[above]))
        above++;
    if (above > SPEC_EXTRA)
        return low + unmeasured_cost * low * (prior_rows(n + extra) / prior_rows(n + below) - 1);
    return low + ((double)c[above].ratio - low) * (double)(extra - below) / (double)(above - below);
}

static size_t most_extra(size_t extra)
{
    return extra < SPEC_EXTRA ? extra : SPEC_EXTRA;
}

/* The same without drafts. */
static double plain_ratio(const spec *s, size_t n, size_t certain)
{
    const spec_cost *c = &costs_of(s, n)->certain[most_extra(certain)];
    return cost_fresh(s, c) ? (double)c->ratio : cost_ratio(s, n, most_extra(certain));
}

double spec_step_seconds(const spec *s, size_t n, size_t certain, size_t extra)
{
    const spec_costs *c = costs_of(s, n);
    if (extra == certain)
        return c->plain * plain_ratio(s, n, certain);
    double ratio = cost_ratio(s, n, most_extra(extra));
    if (!cost_fresh(s, &c->extra[most_extra(extra)]))
        ratio += plain_ratio(s, n, certain) - cost_ratio(s, n, most_extra(certain));
    return c->plain * ratio;
}

size_t spec_extra_limit(const spec *s, size_t n, size_t certain)
{
    const spec_cost *c = costs_of(s, n)->extra;
    size_t most = SPEC_EXTRA;
    while (most > 0 && !cost_fresh(s, &c[most]))
        most--;
    return 2 * most > certain + 2 ? 2 * most : certain + 2;
}

double spec_round_seconds(const spec *s, size_t n, size_t drafting)
{
    const spec_costs *c = costs_of(s, drafting);
    return c->n_draft > 0 ? c->draft : prior_round * costs_of(s, n)->plain;
}

double spec_rounds(size_t drafted, size_t given)
{
    return drafted > 0 ? (double)drafted + (double)given / 3 : 0;
}

/* A moving average. One slow step, of a machine that did something else, moves it little. */
static void average_add(double *average, uint32_t *n, double value)
{
    if (*n > 1)
        value = fmin(fmax(value, *average / 2), *average * 2);
    *n += *n < AVERAGE_OF;
    *average += (value - *average) / *n;
}

/* `predicted` counts as one measurement if there is no other. */
static void cost_add(const spec *s, spec_cost *c, double predicted, double ratio)
{
    double average = predicted;
    if (!cost_fresh(s, c))
        c->n = 1;
    average_add(&average, &c->n, ratio);
    c->ratio = (float)average;
    c->measured = s->stats.steps;
}

/* ---- ledger ---- */

bool spec_may_draft(const spec *s, size_t n)
{
    const spec_costs *c = costs_of(s, n);
    return s->pause == 0 && c->n_plain >= PLAIN_FIRST && c->since_plain < PLAIN_EVERY &&
           s->credit > 0;
}

bool spec_may_explore(const spec *s, double seconds)
{
    return s->waited >= s->explore_gap && s->credit > seconds;
}

static void ledger_pause(spec *s)
{
    s->pause = s->next_pause;
    s->next_pause = s->next_pause < PAUSE_LAST ? 2 * s->next_pause : PAUSE_LAST;
    s->stats.pauses++;
}

/* saved: of a step with drafts, negative if it was slower than plain decoding. */
static void ledger_add(spec *s, double plain, double seconds, double saved, bool chosen)
{
    const double most = allowance * plain;
    s->credit = s->has_credit ? s->credit + share_to_lose * seconds : most;
    s->has_credit = true;
    if (saved > 0)
        s->stats.seconds_saved += saved;
    else
        s->stats.seconds_lost -= saved;
    s->credit = fmin(s->credit + saved, most);
    if (s->credit <= 0 && chosen && s->pause == 0)
        ledger_pause(s);
    else if (s->credit >= 0.9 * most && saved > 0)
        s->next_pause = PAUSE_FIRST;
}

/* Successful drafts shorten the wait for the next one, others lengthen it. */
static void explore_adapt(spec *s, bool any_accepted)
{
    s->waited = 0;
    if (!s->exploring)
        s->explore_gap = EXPLORE_FIRST;
    else if (any_accepted)
        s->explore_gap /= 8;
    else if (s->explore_gap < EXPLORE_LAST)
        s->explore_gap = s->explore_gap > 0 ? 2 * s->explore_gap : 2;
}

typedef struct step_totals {
    size_t sequences, certain, drafted, accepted; /* certain: beyond one per sequence */
    size_t drafting;                              /* sequences that the model drafted for */
    double rounds;
    bool chosen; /* the tuner chose a draft */
} step_totals;

static step_totals step_count(const spec_item *items, size_t n)
{
    step_totals t = {.sequences = n};
    for (size_t i = 0; i < n; i++) {
        const spec_item *it = &items[i];
        t.certain += it->n - it->held - 1;
        t.drafted += it->n_draft;
        t.accepted += it->left ? 0 : it->accepted;
        t.rounds = fmax(t.rounds, spec_rounds(it->n_model, it->n_given));
        t.drafting += it->n_model > 0;
        t.chosen |= it->mode == SPEC_AUTO && it->n_draft + it->n_model > 0;
    }
    return t;
}

/*
 * Drafts never make a step faster than a plain one. If it is much faster, the plain steps were
 * measured at another context length, or while the machine did something else, and every draft
 * would seem to pay. So a plain step is measured next, and the costs start again with it.
 */
static bool costs_outdated(spec_costs *c, bool drafted, double step_seconds)
{
    if (c->n_plain == 0 || step_seconds * outdated >= c->plain)
        return false;
    if (drafted)
        c->since_plain = PLAIN_EVERY;
    else
        *c = (spec_costs){.draft = c->draft, .n_draft = c->n_draft};
    return drafted;
}

/*
 * A step without drafts. With grammars each step may have certain tokens beyond one per sequence.
 * If plain steps are known, their cost is learned. Otherwise the time of a plain step follows from
 * the cost that they are assumed to have; all costs are relative to it, so that is enough.
 */
static void observe_plain(const spec *s, spec_costs *c, const step_totals *t, double seconds)
{
    const double ratio = plain_ratio(s, t->sequences, t->certain);
    const bool known =
        c->n_plain >= PLAIN_FIRST && c->exact > 0 && s->stats.steps - c->exact < COST_FRESH;
    c->since_plain = 0;
    if (t->certain > SPEC_EXTRA)
        return;
    if (t->certain == 0)
        c->exact = s->stats.steps;
    if (t->certain == 0 || !known)
        average_add(&c->plain, &c->n_plain, seconds / ratio);
    if (t->certain > 0)
        cost_add(s, &c->certain[t->certain], ratio, known ? seconds / c->plain : ratio);
}

/* A plain step; or one with drafts, which is compared with the plain steps that it replaced. */
static void observe_seconds(spec *s, const step_totals *t, double plan_seconds, double step_seconds)
{
    spec_costs *c = &s->costs[t->sequences < SPEC_STREAMS ? t->sequences : SPEC_STREAMS];
    spec_costs *d = &s->costs[t->drafting < SPEC_STREAMS ? t->drafting : SPEC_STREAMS];
    const size_t extra = t->certain + t->drafted;
    if (t->rounds > 0 && !s->head_read)
        plan_seconds = 0;
    else if (t->rounds > 0)
        average_add(&d->draft, &d->n_draft, plan_seconds / t->rounds);
    s->head_read |= t->rounds > 0;
    if (costs_outdated(c, t->drafted > 0, step_seconds))
        return;
    if (t->drafted == 0)
        observe_plain(s, c, t, step_seconds);
    if (c->n_plain == 0)
        return;
    const double without = spec_step_seconds(s, t->sequences, t->certain, t->certain);
    double saved = t->rounds > 0 ? -plan_seconds : 0;
    average_add(&c->usual, &c->n_usual, without);
    if (t->drafted > 0) {
        saved += without - step_seconds + c->usual * (double)t->accepted / (double)t->sequences;
        if (extra <= SPEC_EXTRA)
            cost_add(s, &c->extra[extra], cost_ratio(s, t->sequences, extra),
                     step_seconds / c->plain);
        c->since_plain++;
    }
    ledger_add(s, c->plain, plan_seconds + step_seconds, saved, t->chosen);
}

void spec_observe(spec *s, const spec_item *items, size_t n, double plan_seconds,
                  double step_seconds)
{
    if (n == 0)
        return;
    const step_totals t = step_count(items, n);
    s->stats.steps++;
    s->stats.drafted_steps += t.drafted > 0;
    s->pause -= s->pause > 0;
    s->waited++;
    if (step_seconds > 0)
        observe_seconds(s, &t, plan_seconds, step_seconds);
    for (size_t i = 0; i < n; i++)
        if (!items[i].left && items[i].seq != NULL) {
            observe_tokens(s, &items[i]);
            observe_unused(s, &items[i]);
        }
    if (t.chosen)
        explore_adapt(s, t.accepted > 0);
    s->exploring = false;
}

/* ---- objects ---- */

mote_status spec_new(spec **out, const spec_options *options, mote_error *err)
{
    const size_t n = options->max_items;
    spec *s = mem_new(1, sizeof *s);
    *out = NULL;
    if (s != NULL) {
        s->candidates = mem_new(n * SPEC_MAX_DRAFT, sizeof *s->candidates);
        s->requests = mem_new(n, sizeof *s->requests);
        s->counts = mem_new(n, sizeof *s->counts);
    }
    if (s == NULL || s->candidates == NULL || s->requests == NULL || s->counts == NULL) {
        spec_free(s);
        return err_set(err, MOTE_E_MEMORY, "out of memory: drafts for %zu sequences", n);
    }
    s->options = *options;
    s->next_pause = PAUSE_FIRST;
    s->explore_gap = EXPLORE_FIRST;
    *out = s;
    return MOTE_OK;
}

uint64_t spec_bytes(size_t max_items, uint64_t room)
{
    const spec *s = NULL;
    const size_t tokens = room < SIZE_MAX ? (size_t)room : SIZE_MAX;
    const size_t item = SPEC_MAX_DRAFT * sizeof *s->candidates + sizeof *s->requests +
                        sizeof *s->counts + sizeof(spec_seq) + lookup_bytes(tokens);
    return sizeof *s + (uint64_t)max_items * item;
}

void spec_free(spec *s)
{
    if (s == NULL)
        return;
    mem_free(s->candidates);
    mem_free(s->requests);
    mem_free(s->counts);
    mem_free(s);
}

void spec_set_draft(spec *s, spec_draft_fn *draft, void *with)
{
    s->options.draft = draft;
    s->options.with = with;
    s->head_read = false;
}

void spec_read_stats(const spec *s, spec_stats *out)
{
    *out = s->stats;
}

mote_status spec_seq_new(spec_seq **out, size_t room, mote_error *err)
{
    *out = NULL;
    spec_seq *seq = mem_new(1, sizeof *seq);
    if (seq == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: drafts of an answer");
    const mote_status status = lookup_init(&seq->lookup, room, err);
    if (status != MOTE_OK) {
        mem_free(seq);
        return status;
    }
    *out = seq;
    return MOTE_OK;
}

void spec_seq_free(spec_seq *seq)
{
    if (seq == NULL)
        return;
    lookup_fini(&seq->lookup);
    mem_free(seq);
}
