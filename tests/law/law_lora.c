/* SPDX-License-Identifier: Apache-2.0 */
/*
 * law_lora.c - laws L1 to L8 for sessions with LoRA adapters.
 *
 * Eight sessions have an adapter each, one has two, one has none. Their logits, computed alone by
 * one thread at the lowest level in one pass, are the table. Every other way must give the same
 * bits.
 */
#include "law/lora_build.h"
#include "law/rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ADAPTERS = 8, SESSIONS = ADAPTERS + 2, LENGTH = 75, BOTH = 8, NONE = 9 };

static const lora_recipe recipes[ADAPTERS] = {
    {1, 2, LORA_ALL, 11, 0},
    {3, 3, LORA_WITHOUT_MTP, 12, 1},
    {4, 8, LORA_ONLY_FFN, 13, 30},
    {8, 16, LORA_ALL, 14, 0},
    {16, 16, LORA_ONLY_MIXERS, 15, 30},
    {5, 0, LORA_ALL, 16, 1},
    {2, -3, LORA_WITHOUT_MTP, 17, 0},
    {7, 4, LORA_ALL, 18, 30},
};

typedef struct lora_case {
    const char *path; /* of the model */
    mote_kv kv;
    size_t vocabulary;
    mote_token tokens[SESSIONS][LENGTH];
    float *table; /* [SESSIONS][LENGTH][vocabulary] */
} lora_case;

/* A model with its adapters. */
typedef struct lora_world {
    mote_model *model;
    mote_lora *lora[ADAPTERS];
    mote_lora_use uses[SESSIONS][2];
    size_t n_uses[SESSIONS];
} lora_world;

static void world_open(lora_world *w, const lora_case *c, mote_isa isa)
{
    *w = (lora_world){.model = rig_open(c->path, isa)};
    for (size_t i = 0; i < ADAPTERS; i++) {
        w->lora[i] = lora_make(w->model, &recipes[i]);
        w->uses[i][0] = (mote_lora_use){w->lora[i], i == 3 ? 0.5f : 0};
        w->n_uses[i] = 1;
    }
    w->uses[BOTH][0] = (mote_lora_use){w->lora[7], 1};
    w->uses[BOTH][1] = (mote_lora_use){w->lora[1], -0.25f};
    w->n_uses[BOTH] = 2;
}

static void world_close(lora_world *w)
{
    for (size_t i = 0; i < ADAPTERS; i++)
        mote_lora_close(w->lora[i]);
    mote_model_close(w->model);
}

static mote_engine *world_engine(const lora_world *w, const lora_case *c, uint32_t threads,
                                 bool drafts)
{
    return rig_engine(w->model, &(mote_engine_options){.threads = threads,
                                                       .sessions = SESSIONS + 1,
                                                       .kv = c->kv,
                                                       .batch = 200,
                                                       .kept_states = 4,
                                                       .logits_rows = SESSIONS * LENGTH,
                                                       .lora_rank = 16,
                                                       .drafts = drafts});
}

static mote_session_options session_options(const lora_world *w, size_t i)
{
    return (mote_session_options){.context = 200, .loras = w->uses[i], .n_loras = w->n_uses[i]};
}

static mote_session *world_session(const lora_world *w, mote_engine *engine, size_t i)
{
    mote_session *s;
    mote_error err = {0};
    const mote_session_options options = session_options(w, i);
    MUST(mote_session_new(&s, engine, &options, &err), &err);
    return s;
}

static const float *table_row(const lora_case *c, size_t session, uint64_t pos)
{
    return c->table + (session * LENGTH + (size_t)pos) * c->vocabulary;
}

/* Row `row` of the session's logits must be that of the table at `pos`. */
static void expect_row(const lora_case *c, size_t i, const mote_session *s, size_t row,
                       uint64_t pos, const char *how)
{
    const float *got = mote_session_logits(s, row);
    if (got == NULL || memcmp(got, table_row(c, i, pos), c->vocabulary * sizeof *got) != 0)
        rig_fail("%s: session %zu, position %llu: other bits %s", c->path, i,
                 (unsigned long long)pos, how);
}

static void table_fill(lora_case *c)
{
    lora_world w;
    world_open(&w, c, rig_lowest());
    mote_model_info info;
    mote_model_describe(w.model, &info);
    c->vocabulary = info.vocabulary;
    c->table = malloc(SESSIONS * LENGTH * c->vocabulary * sizeof *c->table);
    if (c->table == NULL)
        rig_fail("no memory");
    rig_random r = {.seed = 5};
    rig_random_tokens(&r, info.tokens, c->tokens[0], LENGTH);
    for (size_t i = 1; i < SESSIONS; i++) /* equal tokens: only the adapters differ */
        memcpy(c->tokens[i], c->tokens[0], sizeof c->tokens[0]);
    for (size_t i = 0; i < SESSIONS; i++) {
        mote_engine *engine = world_engine(&w, c, 1, false);
        mote_session *s = world_session(&w, engine, i);
        rig_feed(engine, s, c->tokens[i], LENGTH, MOTE_LOGITS_ALL);
        memcpy(c->table + i * LENGTH * c->vocabulary, mote_session_logits(s, 0),
               LENGTH * c->vocabulary * sizeof *c->table);
        mote_session_free(s);
        mote_engine_free(engine);
    }
    /* The adapters do something, each something else; without any, the model is the plain one. */
    for (size_t i = 0; i < SESSIONS; i++)
        for (size_t k = 0; k < i; k++)
            if (memcmp(table_row(c, i, 0), table_row(c, k, 0), c->vocabulary * sizeof(float)) == 0)
                rig_fail("%s: sessions %zu and %zu have the same logits", c->path, i, k);
    mote_engine *plain = rig_engine(w.model, &(mote_engine_options){.threads = 1, .kv = c->kv});
    mote_session *s = rig_session(plain);
    rig_feed(plain, s, c->tokens[NONE], LENGTH, MOTE_LOGITS_LAST);
    expect_row(c, NONE, s, 0, LENGTH - 1, "in an engine without adapters");
    mote_session_free(s);
    mote_engine_free(plain);
    world_close(&w);
}

/* L1, L2, L3, L7: all sessions in a batch, each with another chunk size. */
static void in_batch(const lora_case *c, const lora_world *w, uint32_t threads, uint32_t chunk,
                     bool drafts)
{
    mote_engine *engine = world_engine(w, c, threads, drafts);
    mote_session *s[SESSIONS];
    for (size_t i = 0; i < SESSIONS; i++)
        s[i] = world_session(w, engine, i);
    for (bool more = true; more;) {
        mote_work work[SESSIONS];
        size_t n = 0, of[SESSIONS];
        more = false;
        for (size_t k = 0; k < SESSIONS; k++) {
            const size_t i = (k * 7) % SESSIONS; /* neighbours have other adapters */
            const uint64_t at = mote_session_length(s[i]), left = LENGTH - at;
            const size_t want = chunk == 1 ? 1 : chunk + i;
            if (left == 0)
                continue;
            of[n] = i;
            work[n++] = (mote_work){.session = s[i],
                                    .tokens = c->tokens[i] + at,
                                    .n = left < want ? (size_t)left : want,
                                    .want = i % 3 == 2 ? MOTE_LOGITS_LAST : MOTE_LOGITS_ALL};
            more = true;
        }
        mote_error err = {0};
        if (!more)
            break;
        MUST(mote_step(engine, work, n, &err), &err);
        for (size_t k = 0; k < n; k++) {
            const uint64_t end = mote_session_length(work[k].session);
            const size_t rows = work[k].want == MOTE_LOGITS_ALL ? work[k].n : 1;
            for (size_t row = 0; row < rows; row++)
                expect_row(c, of[k], work[k].session, row, end - rows + row, "in a batch");
        }
    }
    for (size_t i = 0; i < SESSIONS; i++)
        mote_session_free(s[i]);
    mote_engine_free(engine);
}

/* L5, L8: rewind and fork. L6: snapshots, which name the adapters. */
static void rewound_and_restored(const lora_case *c, const lora_world *w, bool drafts)
{
    enum { CUT = 50 };
    char path[256];
    mote_error err = {0};
    rig_temp_path(path, sizeof path, "lora.snapshot");
    for (size_t i = 0; i < SESSIONS; i += 3) {
        mote_engine *engine = world_engine(w, c, 2, drafts);
        mote_session *s = world_session(w, engine, i), *fork, *loaded;
        rig_feed(engine, s, c->tokens[i], LENGTH, MOTE_LOGITS_NONE);
        const uint64_t at = mote_session_rewind(s, CUT);
        rig_feed(engine, s, c->tokens[i] + at, CUT - at, MOTE_LOGITS_LAST);
        expect_row(c, i, s, 0, CUT - 1, "after a rewind");
        MUST(mote_session_save(s, path, &err), &err);
        MUST(mote_session_fork(&fork, s, &err), &err);
        const mote_session_options same = session_options(w, i);
        const mote_session_options other = session_options(w, (i + 1) % SESSIONS);
        MUST(mote_session_load(&loaded, engine, path, &same, &err), &err);
        rig_feed(engine, fork, c->tokens[i] + CUT, LENGTH - CUT, MOTE_LOGITS_LAST);
        expect_row(c, i, fork, 0, LENGTH - 1, "in a fork");
        rig_feed(engine, loaded, c->tokens[i] + CUT, LENGTH - CUT, MOTE_LOGITS_LAST);
        expect_row(c, i, loaded, 0, LENGTH - 1, "in a loaded snapshot");
        mote_session *wrong;
        if (mote_session_load(&wrong, engine, path, &other, &err) != MOTE_E_MISMATCH ||
            strstr(err.text, "adapter") == NULL)
            rig_fail("a snapshot of other adapters was loaded: %s", err.text);
        mote_session_free(loaded);
        mote_session_free(fork);
        mote_session_free(s);
        mote_engine_free(engine);
    }
}

/* Drafts of a session with adapters: alone and with the others. */
static void drafts_in_batch(const lora_case *c, const lora_world *w)
{
    mote_model_info info;
    mote_model_describe(w->model, &info);
    if (!info.draft_head)
        return;
    mote_engine *engine = world_engine(w, c, 3, true);
    mote_session *s[SESSIONS];
    mote_draft_item items[SESSIONS] = {0};
    mote_error err = {0};
    bool differ = false;
    for (size_t i = 0; i < SESSIONS; i++) {
        s[i] = world_session(w, engine, i);
        rig_feed(engine, s[i], c->tokens[i], LENGTH - 1, MOTE_LOGITS_NONE);
        items[i] = (mote_draft_item){.session = s[i], .next = c->tokens[i][LENGTH - 1], .n = 4};
    }
    MUST(mote_draft(engine, items, SESSIONS, &err), &err);
    for (size_t i = 0; i < SESSIONS; i++) {
        mote_draft_item alone = {.session = s[i], .next = items[i].next, .n = 4};
        MUST(mote_draft(engine, &alone, 1, &err), &err);
        if (alone.n_drafts != items[i].n_drafts ||
            memcmp(alone.probability, items[i].probability, sizeof alone.probability) != 0 ||
            memcmp(alone.tokens, items[i].tokens, sizeof alone.tokens) != 0)
            rig_fail("%s: session %zu drafts something else in a batch", c->path, i);
        differ |= i > 0 && alone.probability[0] != items[0].probability[0];
    }
    if (!differ)
        rig_fail("%s: no adapter changes a draft", c->path);
    for (size_t i = 0; i < SESSIONS; i++)
        mote_session_free(s[i]);
    mote_engine_free(engine);
}

int main(int argc, char **argv)
{
    const char *path = argc == 3 ? rig_model_path(argv[1]) : NULL;
    if (path == NULL)
        return 77;
    char copy[512];
    snprintf(copy, sizeof copy, "%s", path);
    static lora_case c;
    c.path = copy;
    c.kv = rig_kv(argv[2]);
    table_fill(&c);
    mote_isa isa[RIG_MAX_LEVELS];
    const size_t n = rig_levels(isa);
    for (size_t i = 0; i < n; i++) {
        lora_world w;
        world_open(&w, &c, isa[i]);
        in_batch(&c, &w, 3, 25, false);
        if (i + 1 == n) {
            in_batch(&c, &w, 1, 1, false);
            in_batch(&c, &w, 2, 60, true);
            in_batch(&c, &w, 2, 1, true);
            rewound_and_restored(&c, &w, false);
            rewound_and_restored(&c, &w, true);
            drafts_in_batch(&c, &w);
        }
        printf("%s, kv %s, %s: %d sessions with and without adapters have equal bits\n", argv[1],
               argv[2], mote_isa_name(isa[i]), SESSIONS);
        world_close(&w);
    }
    free(c.table);
    return 0;
}
