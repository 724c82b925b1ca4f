/* SPDX-License-Identifier: Apache-2.0 */
/* divergence.c - see divergence.h. */
#include "convert/divergence.h"

#include "base/mem.h"
#include "base/pool.h"
#include "kernels/dmath.h"

#include <math.h>

/* Rows of logits per step: at most 64 MiB. */
enum { CONTEXT_ROWS = DIVERGENCE_WINDOW / 8, ROWS_BYTES = 64 << 20 };
enum { SCORED = DIVERGENCE_WINDOW - CONTEXT_ROWS }; /* predictions of a window */

/* One prediction of the unchanged model. */
typedef struct prediction {
    uint32_t ids[DIVERGENCE_TOP];
    double logs[DIVERGENCE_TOP]; /* logarithms of the probabilities */
    uint32_t n;
} prediction;

struct divergence {
    divergence_options options;
    pool *threads;
    mote_token *ids; /* [windows][DIVERGENCE_WINDOW] */
    size_t windows;
    prediction *kept; /* [windows][SCORED] */
    double *results;  /* likewise */
    /* one run */
    mote_model *model;
    mote_engine *engine;
    mote_session *session;
    uint32_t vocabulary, rows; /* rows: per step */
    size_t done;               /* predictions before this step */
    bool keep;                 /* the run of divergence_new */
};

/* ---- one prediction ---- */

/* exp for x <= 0, with a relative error of 1e-12; below -60 that of -60. Unlike d_exp it does not call
 * fma, which is slow on CPUs of the baseline, and it has no branches. */
static inline double exp_negative(double x)
{
    const double low = x < -60 ? -60 : x;
    const double shifted = low * 0x1.71547652b82fep+0 + D_ROUND_MAGIC;
    const double n = shifted - D_ROUND_MAGIC;
    const double r = (low - n * D_LN2_HI) - n * D_LN2_LO;
    double p = 1.0 / 3628800;
    p = p * r + 1.0 / 362880;
    p = p * r + 1.0 / 40320;
    p = p * r + 1.0 / 5040;
    p = p * r + 1.0 / 720;
    p = p * r + 1.0 / 120;
    p = p * r + 1.0 / 24;
    p = p * r + 1.0 / 6;
    p = p * r + 0.5;
    p = p * r + 1;
    p = p * r + 1;
    return p * d_from_bits((d_bits(shifted) + 1023) << 52);
}

static double log_sum(const float *row, uint32_t n)
{
    float most = row[0];
    double sum[4] = {0, 0, 0, 0};
    for (uint32_t i = 1; i < n; i++)
        most = row[i] > most ? row[i] : most;
    for (uint32_t i = 0; i < n; i++)
        sum[i % 4] += exp_negative((double)(row[i] - most));
    return (double)most + d_log((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

/* True: token a belongs below token b in the heap, because it is less likely. */
static bool is_below(const float *row, uint32_t a, uint32_t b)
{
    return row[a] != row[b] ? row[a] < row[b] : a > b;
}

/* Restores the heap after a change of its root, the least likely token. */
static void heap_sink(const float *row, uint32_t *heap, uint32_t n)
{
    for (uint32_t i = 0;;) {
        uint32_t child = 2 * i + 1;
        if (child >= n)
            return;
        if (child + 1 < n && is_below(row, heap[child + 1], heap[child]))
            child++;
        if (!is_below(row, heap[child], heap[i]))
            return;
        const uint32_t moved = heap[i];
        heap[i] = heap[child];
        heap[child] = moved;
        i = child;
    }
}

static void prediction_keep(prediction *p, const float *row, uint32_t vocabulary)
{
    const double z = log_sum(row, vocabulary);
    p->n = vocabulary < DIVERGENCE_TOP ? vocabulary : DIVERGENCE_TOP;
    for (uint32_t i = 0; i < p->n; i++) { /* any heap of the first tokens: in order of likelihood */
        uint32_t at = i;
        for (; at > 0 && is_below(row, i, p->ids[at - 1]); at--)
            p->ids[at] = p->ids[at - 1];
        p->ids[at] = i;
    }
    for (uint32_t i = p->n; i < vocabulary; i++)
        if (is_below(row, p->ids[0], i)) {
            p->ids[0] = i;
            heap_sink(row, p->ids, p->n);
        }
    for (uint32_t i = 0; i < p->n; i++)
        p->logs[i] = (double)row[p->ids[i]] - z;
}

/* The tokens that are not kept count as one. NaN if the row has one. */
static double prediction_compare(const prediction *p, const float *row, uint32_t vocabulary)
{
    const double z = log_sum(row, vocabulary), least = 1e-12;
    double other_p = 1, other_q = 1, sum = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        const double log_q = (double)row[p->ids[i]] - z, share = exp_negative(p->logs[i]);
        sum += share * (p->logs[i] - log_q);
        other_p -= share;
        other_q -= exp_negative(log_q);
    }
    if (other_p > least)
        sum += other_p * (d_log(other_p) - d_log(other_q > least ? other_q : least));
    return sum < 0 ? 0 : sum;
}

static void take_row(void *ctx, uint32_t task, uint32_t worker)
{
    (void)worker;
    divergence *d = ctx;
    const float *row = mote_session_logits(d->session, task);
    prediction *p = &d->kept[d->done + task];
    if (d->keep)
        prediction_keep(p, row, d->vocabulary);
    else
        d->results[d->done + task] = prediction_compare(p, row, d->vocabulary);
}

/* ---- one run ---- */

static mote_status run_open(divergence *d, mote_error *err)
{
    const divergence_options *o = &d->options;
    mote_model_info info;
    TRY(mote_model_open(&d->model, o->path, &(mote_model_options){.isa = o->isa}, err));
    mote_model_describe(d->model, &info);
    d->vocabulary = info.vocabulary;
    const uint32_t rows = (uint32_t)(ROWS_BYTES / (info.vocabulary * sizeof(float)));
    d->rows = rows < 1 ? 1 : rows < SCORED ? rows : SCORED;
    return MOTE_OK;
}

static void run_close(divergence *d)
{
    mote_session_free(d->session);
    mote_engine_free(d->engine);
    mote_model_close(d->model);
    d->session = NULL;
    d->engine = NULL;
    d->model = NULL;
}

static mote_status run_step(divergence *d, const mote_token *ids, size_t n, bool scored,
                            mote_error *err)
{
    const mote_work work = {.session = d->session,
                            .tokens = ids,
                            .n = n,
                            .want = scored ? MOTE_LOGITS_ALL : MOTE_LOGITS_NONE};
    TRY(mote_step(d->engine, &work, 1, err));
    if (scored) {
        pool_run(d->threads, take_row, d, (uint32_t)n);
        d->done += n;
    }
    return MOTE_OK;
}

static mote_status run_windows(divergence *d, mote_error *err)
{
    const divergence_options *o = &d->options;
    const mote_engine_options engine = {.threads = o->threads,
                                        .sessions = 1,
                                        .positions = DIVERGENCE_WINDOW,
                                        .batch = DIVERGENCE_WINDOW,
                                        .logits_rows = d->rows};
    TRY(mote_engine_new(&d->engine, d->model, &engine, err));
    TRY(mote_session_new(&d->session, d->engine, NULL, err));
    d->done = 0;
    for (size_t w = 0; w < d->windows; w++) {
        const mote_token *ids = d->ids + w * DIVERGENCE_WINDOW;
        if (o->go_on != NULL && !o->go_on(o->ctx))
            return err_set(err, MOTE_E_CANCELED, "interrupted while measuring");
        mote_session_rewind(d->session, 0);
        TRY(run_step(d, ids, CONTEXT_ROWS, false, err));
        for (size_t at = CONTEXT_ROWS; at < DIVERGENCE_WINDOW;) {
            const size_t left = DIVERGENCE_WINDOW - at, n = d->rows < left ? d->rows : left;
            TRY(run_step(d, ids + at, n, true, err));
            at += n;
        }
    }
    return MOTE_OK;
}

static mote_status run_text(divergence *d, mote_error *err)
{
    const mote_status status = run_windows(d, err);
    run_close(d);
    return status;
}

/* ---- all ---- */

static mote_status tokens_read(divergence *d, mote_error *err)
{
    const str text = d->options.text;
    size_t n = 0;
    TRY(mote_tokenize(d->model, text.p, text.n, 0, NULL, 0, &n, err));
    if (n < DIVERGENCE_WINDOW)
        return err_set(err, MOTE_E_ARG,
                       "the text to measure with has %zu tokens; it needs at least %d", n,
                       DIVERGENCE_WINDOW);
    d->ids = mem_new(n, sizeof *d->ids);
    if (d->ids == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: %zu tokens", n);
    TRY(mote_tokenize(d->model, text.p, text.n, 0, d->ids, n, &n, err));
    n = n < d->options.tokens ? n : d->options.tokens;
    d->windows = n / DIVERGENCE_WINDOW;
    d->kept = mem_new(d->windows * SCORED, sizeof *d->kept);
    d->results = mem_new(d->windows * SCORED, sizeof *d->results);
    return d->kept != NULL && d->results != NULL
               ? MOTE_OK
               : err_set(err, MOTE_E_MEMORY, "out of memory: predictions");
}

mote_status divergence_new(divergence **out, const divergence_options *o, mote_error *err)
{
    *out = NULL;
    divergence *d = mem_new(1, sizeof *d);
    if (d == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: measurement");
    d->options = *o;
    d->keep = true;
    mote_status status = pool_new(&d->threads, o->threads, err);
    if (status == MOTE_OK)
        status = run_open(d, err);
    if (status == MOTE_OK)
        status = tokens_read(d, err);
    if (status == MOTE_OK)
        status = run_text(d, err);
    if (status != MOTE_OK) {
        divergence_free(d);
        return status;
    }
    d->keep = false;
    *out = d;
    return MOTE_OK;
}

void divergence_free(divergence *d)
{
    if (d == NULL)
        return;
    run_close(d);
    pool_free(d->threads);
    mem_free(d->ids);
    mem_free(d->kept);
    mem_free(d->results);
    mem_free(d);
}

uint64_t divergence_tokens(const divergence *d)
{
    return d->windows * DIVERGENCE_WINDOW;
}

mote_status divergence_measure(divergence *d, double *mean, mote_error *err)
{
    const size_t n = d->windows * SCORED;
    double sum = 0;
    TRY(run_open(d, err));
    TRY(run_text(d, err));
    for (size_t i = 0; i < n; i++)
        sum += d->results[i];
    *mean = sum / (double)n;
    return isfinite(*mean) ? MOTE_OK
                           : err_set(err, MOTE_E_FORMAT,
                                     "the predictions of the model are not numbers, so its weights "
                                     "are damaged; download or convert it again");
}
