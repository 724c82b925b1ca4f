/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quality_heldout.c - what quantisation costs, on text that training never saw.
 *
 * Windows as in golden/quality: chunks of 512 tokens, each from an empty state,
 * the predictions of tokens 257 to 511 count. Printed: perplexity of each file,
 * and the mean KL divergence of the quantised ones, with the default KV cache
 * (f16), from BF16 with f32. Held: the BF16 perplexity within 0.1 % of the
 * reference implementation's, the others within 1 % of what llama.cpp gets from
 * the same file, and the divergences, which are ours to keep from growing.
 */
#include "golden/compare.h"
#include "support/data.h"
#include "support/scale.h"

#include <stdlib.h>
#include <string.h>

enum { WINDOW = 512, SCORED_FROM = 256, MAX_CHUNKS = 31 };

typedef struct runner {
    const char *name;
    mote_kv kv;
    double perplexity, within; /* what golden/quality says, and how near (relative) */
    double kl_bound;           /* 1.5 times what numerics 2 has; 0: what others are compared with */
    mote_model *model;
    mote_engine *engine;
    double nll, kl;
    float *logits;    /* [WINDOW][vocabulary] of the current chunk */
    double z[WINDOW]; /* log sum exp of each row */
} runner;

static runner runners[] = {
    {"mote-tiny-BF16", MOTE_KV_F32, 1.7467127, 1e-3, .kl_bound = 0},
    {"mote-tiny-BF16", MOTE_KV_F16, 1.7467127, 1e-3, .kl_bound = 1.3e-8},
    {"mote-tiny-BF16", MOTE_KV_Q8_0, 1.7467127, 1e-3, .kl_bound = 1.2e-6},
    {"mote-tiny-BF16", MOTE_KV_Q4_0, 1.7467127, 3e-3, .kl_bound = 4.3e-4},
    {"mote-tiny-Q8_0", MOTE_KV_F16, 1.7460, 1e-2, .kl_bound = 4.0e-5},
    {"mote-tiny-Q4_K_M", MOTE_KV_F16, 1.7453, 1e-2, .kl_bound = 1.3e-3},
};
enum { N_RUNNERS = sizeof runners / sizeof *runners };

static uint32_t vocabulary;

static void run_chunk(runner *r, const mote_token *tokens)
{
    mote_session *session = rig_session(r->engine);
    rig_feed(r->engine, session, tokens, WINDOW, MOTE_LOGITS_ALL);
    for (uint32_t i = 0; i < WINDOW; i++)
        memcpy(r->logits + (size_t)i * vocabulary, mote_session_logits(session, i),
               vocabulary * sizeof(float));
    mote_session_free(session);
}

static double log_sum_exp(const float *row)
{
    double most = (double)row[rig_argmax(row, vocabulary)], sum = 0;
    for (uint32_t i = 0; i < vocabulary; i++)
        sum += exp((double)row[i] - most);
    return most + log(sum);
}

/* KL divergence of q from p, with known log sums. */
static double divergence(const float *p, double zp, const float *q, double zq)
{
    double sum = 0;
    for (uint32_t i = 0; i < vocabulary; i++) {
        double log_p = (double)p[i] - zp;
        sum += exp(log_p) * (log_p - ((double)q[i] - zq));
    }
    return sum;
}

static void score(runner *r, const runner *base, const mote_token *tokens)
{
    for (uint32_t i = SCORED_FROM; i + 1 < WINDOW; i++) {
        const float *row = r->logits + (size_t)i * vocabulary;
        r->z[i] = log_sum_exp(row);
        r->nll += r->z[i] - (double)row[tokens[i + 1]];
        if (r != base)
            r->kl += divergence(base->logits + (size_t)i * vocabulary, base->z[i], row, r->z[i]);
    }
}

static bool start(runner *r)
{
    const char *path = rig_model_path(r->name);
    if (path == NULL)
        return false;
    r->model = rig_open(path, MOTE_ISA_BEST);
    mote_model_info info;
    mote_model_describe(r->model, &info);
    vocabulary = info.vocabulary;
    r->engine = rig_engine(r->model, &(mote_engine_options){.kv = r->kv, .logits_rows = WINDOW});
    r->logits = calloc((size_t)WINDOW * vocabulary, sizeof(float));
    if (r->logits == NULL)
        rig_fail("no memory");
    return true;
}

static void finish(runner *r)
{
    mote_engine_free(r->engine);
    mote_model_close(r->model);
    free(r->logits);
}

static mote_token *read_tokens(const mote_model *model, size_t *n)
{
    char path[TEST_PATH];
    size_t bytes;
    if (!test_data_path(path, "golden/quality/heldout.txt"))
        rig_fail("heldout.txt is missing");
    unsigned char *text = test_file_read(path, &bytes);
    mote_token *tokens = calloc(bytes, sizeof *tokens);
    mote_error err = {0};
    if (text == NULL || tokens == NULL)
        rig_fail("cannot read %s", path);
    MUST(mote_tokenize(model, (const char *)text, bytes, 0, tokens, bytes, n, &err), &err);
    free(text);
    if (*n != 15999)
        rig_fail("the held-out text has %zu tokens, not 15999", *n);
    return tokens;
}

static void report(const runner *r, uint32_t chunks)
{
    double n = (double)chunks * (WINDOW - SCORED_FROM - 1), perplexity = exp(r->nll / n);
    /* Fewer chunks are other text: its perplexity is unknown, its divergence may be larger. */
    bool whole = chunks == MAX_CHUNKS;
    double kl_bound = whole ? r->kl_bound : 4 * r->kl_bound;
    printf("%-18s kv %s  perplexity %.4f (golden %.4f)", r->name, rig_kv_name(r->kv), perplexity,
           r->perplexity);
    if (r->kl_bound > 0)
        printf("  mean KL divergence %.3e, bound %.1e", r->kl / n, kl_bound);
    printf("\n");
    if (r->kl_bound > 0 && !(r->kl / n <= kl_bound))
        rig_fail("%s diverges from BF16 more than it did", r->name);
    if (whole && !(fabs(perplexity / r->perplexity - 1) <= r->within))
        rig_fail("the perplexity of %s is not within %g of the golden one", r->name, r->within);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0); /* an interrupted run shows its progress */
    for (size_t i = 0; i < N_RUNNERS; i++)
        if (!start(&runners[i]))
            rig_fail("%s.gguf is missing", runners[i].name);
    size_t n;
    mote_token *tokens = read_tokens(runners[0].model, &n);
    uint32_t chunks = test_scaled(MAX_CHUNKS, 1);
    chunks = chunks < MAX_CHUNKS ? chunks : MAX_CHUNKS;
    for (uint32_t c = 0; c < chunks; c++)
        for (size_t i = 0; i < N_RUNNERS; i++) {
            run_chunk(&runners[i], tokens + (size_t)c * WINDOW);
            score(&runners[i], &runners[0], tokens + (size_t)c * WINDOW);
        }
    printf("%u chunks, %u predictions\n", chunks, chunks * (WINDOW - SCORED_FROM - 1));
    for (size_t i = 0; i < N_RUNNERS; i++)
        report(&runners[i], chunks);
    for (size_t i = 0; i < N_RUNNERS; i++)
        finish(&runners[i]);
    free(tokens);
    return 0;
}
