/* SPDX-License-Identifier: Apache-2.0 */
/* table.c - see table.h. */
#include "law/table.h"

#include "engine/engine_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where stream i leaves stream 0: in the first chunk, on a page, inside a later chunk. */
static const uint32_t parts_at[LAW_STREAMS] = {0, 21, 64, 107};

static uint32_t parting(const law_table *t, uint32_t stream)
{
    uint32_t length = t->setup.length;
    return stream == 0 ? length : parts_at[stream] < length ? parts_at[stream] : length;
}

uint32_t law_common(const law_table *t, uint32_t a, uint32_t b)
{
    if (a == b)
        return t->setup.length;
    uint32_t x = parting(t, a), y = parting(t, b);
    return x < y ? x : y;
}

static void make_tokens(law_table *t, uint32_t n_tokens)
{
    uint32_t length = t->setup.length;
    for (uint32_t i = 0; i < LAW_STREAMS; i++) {
        rig_random r = {.seed = t->setup.seed, .stream = i};
        rig_random_tokens(&r, n_tokens, t->tokens[i], length);
        uint32_t shared = i == 0 ? 0 : parting(t, i);
        memcpy(t->tokens[i], t->tokens[0], shared * sizeof(mote_token));
        /* Drawn alike by chance, the streams would not have parted where law_common says. */
        if (i > 0 && shared < length && t->tokens[i][shared] == t->tokens[0][shared])
            t->tokens[i][shared] = (mote_token)(((uint32_t)t->tokens[0][shared] + 1) % n_tokens);
    }
}

/* The place in the table that the pass's one row goes to. */
static void see_hidden(void *ctx, const char *what, int layer, const float *rows, size_t n_rows,
                       size_t n_cols)
{
    (void)layer;
    if (strcmp(what, "final_norm") == 0 && n_rows == 1)
        memcpy(*(float **)ctx, rows, n_cols * sizeof *rows);
}

static void run_streams(law_table *t, const mote_model *model)
{
    mote_engine_options options = law_options(t);
    options.threads = 1;
    options.drafts = false;
    options.positions = t->setup.length;
    for (uint32_t i = 0; i < LAW_STREAMS; i++) {
        mote_engine *engine = rig_engine(model, &options);
        mote_session *session = rig_session(engine);
        float *hidden = t->hidden[i];
        engine_set_tap(engine, see_hidden, &hidden);
        for (uint32_t pos = 0; pos < t->setup.length; pos++, hidden += t->embedding) {
            rig_feed(engine, session, &t->tokens[i][pos], 1, MOTE_LOGITS_LAST);
            memcpy(t->logits[i] + (size_t)pos * t->vocabulary, mote_session_logits(session, 0),
                   t->vocabulary * sizeof(float));
        }
        mote_session_free(session);
        mote_engine_free(engine);
    }
}

/* The drafts of every position, from cold engines with drafts. Their steps must show the same
 * logits. */
static void run_drafts(law_table *t, const mote_model *model)
{
    mote_engine_options options = law_options(t);
    options.threads = 1;
    options.positions = t->setup.length + LAW_DRAFTS;
    for (uint32_t i = 0; i < LAW_STREAMS; i++) {
        mote_engine *engine = rig_engine(model, &options);
        mote_session *session = rig_session(engine);
        for (uint32_t pos = 0; pos + 1 < t->setup.length; pos++) {
            rig_feed(engine, session, &t->tokens[i][pos], 1, MOTE_LOGITS_LAST);
            law_expect(t, i, pos, mote_session_logits(session, 0), "with drafts");
            mote_draft_item item = {
                .session = session, .next = t->tokens[i][pos + 1], .n = LAW_DRAFTS};
            mote_error err = {0};
            MUST(mote_draft(engine, &item, 1, &err), &err);
            if (item.n_drafts != LAW_DRAFTS)
                rig_fail("%zu drafts, not %d", item.n_drafts, LAW_DRAFTS);
            memcpy(t->drafts[i][pos].tokens, item.tokens, sizeof t->drafts[i][pos].tokens);
            memcpy(t->drafts[i][pos].probability, item.probability,
                   sizeof t->drafts[i][pos].probability);
        }
        mote_session_free(session);
        mote_engine_free(engine);
    }
}

bool law_table_make(law_table *t, const law_setup *setup)
{
    *t = (law_table){.setup = *setup};
    const char *path = rig_model_path(setup->name);
    if (path == NULL)
        return false;
    snprintf(t->path, sizeof t->path, "%s", path);
    mote_model *model = rig_open(t->path, setup->isa);
    mote_model_info info;
    mote_model_describe(model, &info);
    t->vocabulary = info.vocabulary;
    t->embedding = info.embedding;
    for (uint32_t i = 0; i < LAW_STREAMS; i++) {
        t->tokens[i] = calloc(setup->length, sizeof(mote_token));
        t->logits[i] = calloc((size_t)setup->length * t->vocabulary, sizeof(float));
        t->hidden[i] = calloc((size_t)setup->length * t->embedding, sizeof(float));
        if (t->tokens[i] == NULL || t->logits[i] == NULL || t->hidden[i] == NULL)
            rig_fail("no memory for the reference logits");
        if (setup->drafts) {
            t->drafts[i] = calloc(setup->length, sizeof *t->drafts[i]);
            if (t->drafts[i] == NULL || !info.draft_head)
                rig_fail("no memory for the drafts, or %s has no draft head", setup->name);
        }
    }
    make_tokens(t, info.tokens);
    run_streams(t, model);
    if (setup->drafts)
        run_drafts(t, model);
    mote_model_close(model);
    return true;
}

void law_table_free(law_table *t)
{
    for (uint32_t i = 0; i < LAW_STREAMS; i++) {
        free(t->tokens[i]);
        free(t->logits[i]);
        free(t->hidden[i]);
        free(t->drafts[i]);
    }
}

const float *law_row(const law_table *t, uint32_t stream, uint64_t pos)
{
    return t->logits[stream] + pos * t->vocabulary;
}

bool law_same(const law_table *t, uint32_t stream, uint64_t pos, const float *row)
{
    return row != NULL && memcmp(row, law_row(t, stream, pos), t->vocabulary * sizeof(float)) == 0;
}

bool law_same_hidden(const law_table *t, uint32_t stream, uint64_t pos, const float *row)
{
    size_t n = t->embedding;
    return row != NULL && memcmp(row, t->hidden[stream] + pos * n, n * sizeof(float)) == 0;
}

bool law_same_sum(const law_table *t, uint32_t stream, uint64_t pos, size_t n, const double *sum)
{
    const float *rows = t->hidden[stream] + (size_t)pos * t->embedding;
    for (uint32_t j = 0; j < t->embedding; j++) {
        double want = 0;
        for (size_t i = 0; i < n; i++)
            want += (double)rows[i * t->embedding + j];
        if (memcmp(&want, &sum[j], sizeof want) != 0)
            return false;
    }
    return true;
}

void law_expect(const law_table *t, uint32_t stream, uint64_t pos, const float *row,
                const char *where)
{
    if (law_same(t, stream, pos, row))
        return;
    if (row == NULL)
        rig_fail("%s: %s: stream %u has no logits at position %llu", t->setup.name, where, stream,
                 (unsigned long long)pos);
    const float *want = law_row(t, stream, pos);
    uint32_t n = 0, first = 0;
    for (uint32_t i = 0; i < t->vocabulary; i++)
        if (memcmp(&row[i], &want[i], sizeof(float)) != 0 && n++ == 0)
            first = i;
    rig_fail("%s: %s: stream %u, position %llu: %u of %u logits differ, first %u: %.9g, not %.9g",
             t->setup.name, where, stream, (unsigned long long)pos, n, t->vocabulary, first,
             (double)row[first], (double)want[first]);
}

uint64_t law_fingerprint(const law_table *t, uint32_t n)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (uint32_t i = 0; i < LAW_STREAMS; i++) {
        const unsigned char *bytes = (const unsigned char *)t->logits[i];
        size_t n_bytes = (size_t)n * t->vocabulary * sizeof(float);
        for (size_t at = 0; at < n_bytes; at++)
            hash = (hash ^ bytes[at]) * 0x100000001b3u;
    }
    return hash;
}

mote_engine_options law_options(const law_table *t)
{
    return (mote_engine_options){
        .kv = t->setup.kv, .yarn = t->setup.yarn, .drafts = t->setup.drafts};
}
