/* SPDX-License-Identifier: Apache-2.0 */
/*
 * law_fixed.c - the laws one by one on one model, for cases that random scripts reach only by luck:
 * all thread counts, levels and batch sizes, every rewind distance, every kind of position in a
 * snapshot.
 *
 *   law_fixed --model NAME [--kv f16|f32|q8_0|q4_0] [--drafts on]
 *
 * It starts itself again (--resume) for the part of L6 that needs a new process.
 */
#define _GNU_SOURCE
#include "law/bits.h"
#include "law/fixture.h"

#include "base/os.h"
#include "support/scale.h"

#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static char place[256];
#define PLACE(...) (snprintf(place, sizeof place, __VA_ARGS__), place)

mote_engine *fixture_engine(const fixture *f, const mote_model *model, uint32_t sessions,
                            uint32_t threads)
{
    mote_engine_options options = law_options(&f->table);
    options.threads = threads;
    options.sessions = sessions;
    options.positions = (uint64_t)sessions * (f->table.setup.length + 128);
    options.kept_states = 8;
    options.logits_rows = f->table.setup.length + sessions;
    return rig_engine(model, &options);
}

/* Appends stream[pos .. pos + n) and compares every row. */
static void feed_and_compare(const fixture *f, mote_engine *engine, mote_session *session,
                             uint32_t stream, uint32_t n, const char *where)
{
    uint64_t pos = mote_session_length(session);
    if (n > f->table.setup.length - pos)
        n = (uint32_t)(f->table.setup.length - pos);
    rig_feed(engine, session, f->table.tokens[stream] + pos, n, MOTE_LOGITS_ALL);
    for (uint32_t i = 0; i < n; i++)
        law_expect(&f->table, stream, pos + i, mote_session_logits(session, i), where);
}

/* ---- L1 ---- */

static void threads(const fixture *f)
{
    static const uint32_t counts[] = {1, 2, 3, 7};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        mote_engine *engine = fixture_engine(f, f->model, 1, counts[i]);
        mote_session *session = rig_session(engine);
        uint32_t prompt = f->table.setup.length - 10;
        feed_and_compare(f, engine, session, 0, prompt, PLACE("%u threads", counts[i]));
        for (uint32_t n = 0; n < 10; n++)
            feed_and_compare(f, engine, session, 0, 1, PLACE("%u threads, decode", counts[i]));
        mote_session_free(session);
        mote_engine_free(engine);
    }
}

/* Two engines on one model, each in its own thread. */
typedef struct engine_run {
    const fixture *f;
    uint32_t stream;
    pthread_t thread;
} engine_run;

static void *run_alone(void *ctx)
{
    const engine_run *n = ctx;
    mote_engine *engine = fixture_engine(n->f, n->f->model, 1, 2);
    mote_session *session = rig_session(engine);
    feed_and_compare(n->f, engine, session, n->stream, n->f->table.setup.length - 20, "an engine");
    for (uint32_t i = 0; i < 20; i++)
        feed_and_compare(n->f, engine, session, n->stream, 1, "one of two engines");
    mote_session_free(session);
    mote_engine_free(engine);
    return NULL;
}

static void engines(const fixture *f)
{
    engine_run pair[2] = {{.f = f, .stream = 0}, {.f = f, .stream = 3}};
    for (size_t i = 0; i < 2; i++)
        if (pthread_create(&pair[i].thread, NULL, run_alone, &pair[i]) != 0)
            rig_fail("cannot start a thread");
    for (size_t i = 0; i < 2; i++)
        pthread_join(pair[i].thread, NULL);
}

/* ---- L2 ---- */

static void cuts(const fixture *f)
{
    static const uint32_t sizes[] = {2, 3, 7, 16, 31, 32, 33, 63, 64, 65, 100};
    size_t step = f->quick ? 4 : 1;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i += step) {
        mote_engine *engine = fixture_engine(f, f->model, 1, 2);
        mote_session *session = rig_session(engine);
        while (mote_session_length(session) < f->table.setup.length)
            feed_and_compare(f, engine, session, 1, sizes[i], PLACE("cut every %u", sizes[i]));
        mote_session_free(session);
        mote_engine_free(engine);
    }
}

/* Attention merges partitions of 1,024 positions: prefill computes them in order, a decode row
 * spreads them over threads. Only the small models run this far. */
static void across_a_partition(const fixture *f)
{
    enum { FROM = 1000, N = 60 };
    if (f->table.vocabulary > 1024)
        return;
    static mote_token tokens[FROM + N];
    rig_random r = {.seed = 17};
    rig_random_tokens(&r, f->table.vocabulary, tokens, FROM + N);
    mote_engine_options options = law_options(&f->table);
    options.logits_rows = N;
    options.positions = FROM + N;
    options.threads = 1;
    mote_engine *one = rig_engine(f->model, &options);
    options.threads = 3;
    mote_engine *three = rig_engine(f->model, &options);
    mote_session *whole = rig_session(one), *single = rig_session(three);
    rig_feed(one, whole, tokens, FROM, MOTE_LOGITS_NONE);
    rig_feed(one, whole, tokens + FROM, N, MOTE_LOGITS_ALL);
    for (uint32_t pos = 0; pos < FROM; pos += 125)
        rig_feed(three, single, tokens + pos, 125, MOTE_LOGITS_NONE);
    for (uint32_t i = 0; i < N; i++) {
        rig_feed(three, single, tokens + FROM + i, 1, MOTE_LOGITS_LAST);
        if (memcmp(mote_session_logits(whole, i), mote_session_logits(single, 0),
                   f->table.vocabulary * sizeof(float)) != 0)
            rig_fail("%s: a single token at %u differs from the prompt's", f->table.setup.name,
                     FROM + i);
    }
    mote_session_free(whole);
    mote_session_free(single);
    mote_engine_free(one);
    mote_engine_free(three);
}

/* ---- L3 ---- */

/* Session 0 runs stream 0 in a batch with n others at random positions. */
static void batch_of(const fixture *f, uint32_t n)
{
    rig_random r = {.seed = 3, .stream = n};
    mote_engine *engine = fixture_engine(f, f->model, n + 1, 2);
    mote_session *sessions[17];
    uint32_t streams[17];
    for (uint32_t i = 0; i <= n; i++) {
        sessions[i] = rig_session(engine);
        streams[i] = i % LAW_STREAMS;
        uint32_t ahead = rig_below(&r, f->quick ? 20 : 90);
        if (i > 0 && ahead > 0)
            rig_feed(engine, sessions[i], f->table.tokens[streams[i]], ahead, MOTE_LOGITS_NONE);
    }
    static const uint32_t prompts[] = {40, 1, 23, 1, 1, 15};
    for (size_t round = 0; round < sizeof prompts / sizeof *prompts; round++) {
        mote_work work[17];
        for (uint32_t i = 0; i <= n; i++) {
            uint32_t count = i == 0               ? prompts[round]
                             : rig_once_in(&r, 2) ? 1
                                                  : 1 + rig_below(&r, 9);
            work[i] = (mote_work){.session = sessions[i],
                                  .tokens = f->table.tokens[streams[i]] +
                                            mote_session_length(sessions[i]),
                                  .n = count};
        }
        mote_error err = {0};
        MUST(mote_step(engine, work, n + 1, &err), &err);
        for (uint32_t i = 0; i <= n; i++)
            law_expect(&f->table, streams[i], mote_session_length(sessions[i]) - 1,
                       mote_session_logits(sessions[i], 0), PLACE("in a batch with %u others", n));
    }
    for (uint32_t i = 0; i <= n; i++)
        mote_session_free(sessions[i]);
    mote_engine_free(engine);
}

static void batches(const fixture *f)
{
    for (uint32_t n = 1; n <= 16; n += f->quick ? 5 : 1)
        batch_of(f, n);
}

/* ---- L4 ---- */

static void levels(const fixture *f)
{
    mote_isa isa[RIG_MAX_LEVELS];
    size_t n = rig_levels(isa);
    for (size_t i = 0; i < n; i++) {
        mote_model *model = rig_open(f->table.path, isa[i]);
        mote_model_info info;
        mote_model_describe(model, &info);
        if (info.isa != isa[i])
            rig_fail("requested %s, got %s", mote_isa_name(isa[i]), mote_isa_name(info.isa));
        mote_engine *engine = fixture_engine(f, model, 1, 2);
        mote_session *session = rig_session(engine);
        uint32_t prompt = isa[i] == MOTE_ISA_REF ? 70 : f->table.setup.length - 4;
        feed_and_compare(f, engine, session, 2, prompt, mote_isa_name(isa[i]));
        for (uint32_t k = 0; k < 4; k++)
            feed_and_compare(f, engine, session, 2, 1, mote_isa_name(isa[i]));
        mote_session_free(session);
        mote_engine_free(engine);
        mote_model_close(model);
    }
}

/* ---- L5 ---- */

/* Rewinds from 64 + ahead by `back`, then continues in the same stream or, from 64, in stream 2. */
static void rewind_once(const fixture *f, mote_engine *engine, const mote_session *at_64,
                        uint32_t ahead, uint32_t back)
{
    mote_error err = {0};
    mote_session *session;
    MUST(mote_session_fork(&session, at_64, &err), &err);
    rig_feed(engine, session, f->table.tokens[0] + 64, ahead, MOTE_LOGITS_NONE);
    uint64_t target = 64 + ahead - back;
    uint64_t reached = mote_session_rewind(session, target);
    /* At 96 the rows of the chunk are merged into the state: only the kept 64 is left. */
    bool exact = back == 0 || (ahead < 32 && back <= 16);
    if (reached > target || reached < 64 || (exact && reached != target))
        rig_fail("%s: rewind from %u to %u reached %llu", f->table.setup.name, 64 + ahead,
                 (uint32_t)target, (unsigned long long)reached);
    /* Stream 2 differs from stream 0 from 64 on: only a session at 64 may switch. */
    uint32_t stream = reached == 64 && back % 2 == 0 ? 2 : 0;
    feed_and_compare(f, engine, session, stream, 3,
                     PLACE("rewind from %u by %u", 64 + ahead, back));
    mote_session_free(session);
}

static void rewinds(const fixture *f)
{
    mote_engine *engine = fixture_engine(f, f->model, 2, 2);
    mote_session *at_64 = rig_session(engine);
    rig_feed(engine, at_64, f->table.tokens[0], 64, MOTE_LOGITS_NONE);
    mote_error err = {0};
    MUST(mote_session_keep(at_64, NULL, &err), &err);
    uint32_t stride = f->quick ? 7 : 1;
    for (uint32_t ahead = 1; ahead <= 32; ahead += stride)
        for (uint32_t back = 0; back <= ahead; back += stride)
            rewind_once(f, engine, at_64, ahead, back);
    mote_session_free(at_64);
    mote_engine_free(engine);
}

/* Keeps several states, then rewinds to each, last one first. */
static void kept_boundaries(const fixture *f)
{
    mote_error err = {0};
    mote_engine *engine = fixture_engine(f, f->model, 1, 2);
    mote_session *session = rig_session(engine);
    uint64_t kept[8];
    uint32_t n = 0, length = f->table.setup.length;
    for (uint32_t pos = 0; pos + 40 <= length && n < 5; pos += 40) {
        rig_feed(engine, session, f->table.tokens[0] + pos, 40, MOTE_LOGITS_NONE);
        MUST(mote_session_keep(session, &kept[n++], &err), &err);
    }
    while (n-- > 0) {
        uint64_t reached = mote_session_rewind(session, kept[n]);
        if (reached != kept[n])
            rig_fail("%s: rewind to the kept %llu reached %llu", f->table.setup.name,
                     (unsigned long long)kept[n], (unsigned long long)reached);
        feed_and_compare(f, engine, session, 0, 36,
                         PLACE("kept %llu", (unsigned long long)reached));
    }
    mote_session_free(session);
    mote_engine_free(engine);
}

/* ---- L6 ---- */

/* Parent and fork continue with different tokens and do not affect each other. */
static void forks(const fixture *f)
{
    static const uint32_t at[] = {1, 20, 31, 32, 33, 63, 64};
    for (size_t i = 0; i < sizeof at / sizeof *at; i += f->quick ? 2 : 1) {
        mote_error err = {0};
        mote_engine *engine = fixture_engine(f, f->model, 2, 2);
        mote_session *parent = rig_session(engine), *child;
        rig_feed(engine, parent, f->table.tokens[0], at[i], MOTE_LOGITS_NONE);
        MUST(mote_session_fork(&child, parent, &err), &err);
        uint32_t other = at[i] <= 21 ? 1 : 2;
        for (uint32_t n = 0; n < 3; n++) {
            feed_and_compare(f, engine, child, other, 13, PLACE("child of a fork at %u", at[i]));
            feed_and_compare(f, engine, parent, 0, 9, PLACE("parent of a fork at %u", at[i]));
        }
        mote_session_free(parent);
        feed_and_compare(f, engine, child, other, 5, PLACE("orphan of a fork at %u", at[i]));
        mote_session_free(child);
        mote_engine_free(engine);
    }
}

static void save_at(const fixture *f, mote_isa isa, uint32_t pos, const char *path)
{
    mote_error err = {0};
    mote_model *model = rig_open(f->table.path, isa);
    mote_engine *engine = fixture_engine(f, model, 1, 1);
    mote_session *session = rig_session(engine);
    if (pos > 0)
        rig_feed(engine, session, f->table.tokens[0], pos, MOTE_LOGITS_NONE);
    MUST(mote_session_save(session, path, &err), &err);
    mote_session_free(session);
    mote_engine_free(engine);
    mote_model_close(model);
}

static mote_session *load_from(mote_engine *engine, const char *path)
{
    mote_error err = {0};
    mote_session *session;
    MUST(mote_session_load(&session, engine, path, NULL, &err), &err);
    return session;
}

static void restores(const fixture *f)
{
    static const uint32_t at[] = {0, 1, 3, 31, 32, 33, 63, 64, 65, 100};
    char path[128];
    rig_temp_path(path, sizeof path, "fixed.snapshot");
    for (size_t i = 0; i < sizeof at / sizeof *at; i += f->quick ? 3 : 1) {
        mote_isa writer = at[i] <= 33 ? rig_lowest() : MOTE_ISA_BEST;
        save_at(f, writer, at[i], path);
        mote_engine *engine = fixture_engine(f, f->model, 1, 2);
        mote_session *session = load_from(engine, path);
        if (mote_session_length(session) != at[i])
            rig_fail("a snapshot of %u tokens came back with %llu", at[i],
                     (unsigned long long)mote_session_length(session));
        feed_and_compare(f, engine, session, 0, 40, PLACE("restored at %u", at[i]));
        mote_session_free(session);
        mote_engine_free(engine);
    }
}

/* The second process: loads the snapshot, appends tokens from a file, writes the logits. */
static int resume(const char *model_path, const law_setup *setup, const char *dir)
{
    char path[256];
    mote_token tokens[40];
    snprintf(path, sizeof path, "%s/resume.tokens", dir);
    FILE *in = fopen(path, "rb");
    if (in == NULL || fread(tokens, sizeof tokens, 1, in) != 1)
        rig_fail("cannot read %s", path);
    fclose(in);
    mote_model *model = rig_open(model_path, MOTE_ISA_BEST);
    mote_model_info info;
    mote_model_describe(model, &info);
    mote_engine *engine = rig_engine(
        model, &(mote_engine_options){
                   .kv = setup->kv, .threads = 2, .logits_rows = 40, .drafts = setup->drafts});
    snprintf(path, sizeof path, "%s/resume.snapshot", dir);
    mote_session *session = load_from(engine, path);
    rig_feed(engine, session, tokens, 40, MOTE_LOGITS_ALL);
    snprintf(path, sizeof path, "%s/resume.logits", dir);
    FILE *out = fopen(path, "wb");
    for (uint32_t i = 0; i < 40; i++)
        if (out == NULL || fwrite(mote_session_logits(session, i), sizeof(float), info.vocabulary,
                                  out) != info.vocabulary)
            rig_fail("cannot write %s", path);
    fclose(out);
    mote_session_free(session);
    mote_engine_free(engine);
    mote_model_close(model);
    return 0;
}

static void spawn_resume(const fixture *f)
{
    char *argv[] = {(char *)(uintptr_t) "law_fixed",
                    (char *)(uintptr_t) "--resume",
                    (char *)(uintptr_t)rig_temp_dir(),
                    (char *)(uintptr_t) "--path",
                    (char *)(uintptr_t)f->table.path,
                    (char *)(uintptr_t) "--kv",
                    (char *)(uintptr_t)rig_kv_name(f->table.setup.kv),
                    (char *)(uintptr_t) "--drafts",
                    (char *)(uintptr_t)(f->table.setup.drafts ? "on" : "off"),
                    NULL};
    pid_t child;
    int status = -1;
    if (posix_spawn(&child, "/proc/self/exe", NULL, NULL, argv, environ) != 0 ||
        waitpid(child, &status, 0) != child || status != 0)
        rig_fail("the second process ended with %d", status);
}

static void new_process(const fixture *f)
{
    enum { AT = 50, N = 40 };
    char path[128];
    rig_temp_path(path, sizeof path, "resume.snapshot");
    save_at(f, rig_lowest(), AT, path);
    rig_temp_path(path, sizeof path, "resume.tokens");
    FILE *out = fopen(path, "wb");
    if (out == NULL || fwrite(f->table.tokens[0] + AT, sizeof(mote_token), N, out) != N)
        rig_fail("cannot write %s", path);
    fclose(out);
    spawn_resume(f);
    rig_temp_path(path, sizeof path, "resume.logits");
    FILE *in = fopen(path, "rb");
    float *row = calloc(f->table.vocabulary, sizeof *row);
    for (uint32_t i = 0; i < N; i++) {
        if (in == NULL || row == NULL ||
            fread(row, sizeof *row, f->table.vocabulary, in) != f->table.vocabulary)
            rig_fail("cannot read %s", path);
        law_expect(&f->table, 0, AT + i, row, "restored in a new process");
    }
    free(row);
    fclose(in);
}

/* ---- the bits themselves ---- */

/* Any changed bit requires a new MOTE_NUMERICS, with every compiler. */
static void fingerprint(const fixture *f)
{
    uint64_t found = law_fingerprint(&f->table, LAW_BITS_LENGTH);
    const law_bits *known = law_bits_find(f->table.setup.name, f->table.setup.kv);
    printf("  bits %016llx\n", (unsigned long long)found);
    if (known != NULL && known->bits != found)
        rig_fail("%s: the logits are %016llx, numerics %d says %016llx", f->table.setup.name,
                 (unsigned long long)found, MOTE_NUMERICS, (unsigned long long)known->bits);
}

static const struct {
    const char *name;
    void (*run)(const fixture *f);
} laws[] = {
    {"bits of this numerics version", fingerprint},
    {"L1 threads", threads},
    {"L1 two engines at once", engines},
    {"L2 cut", cuts},
    {"L2 across a partition", across_a_partition},
    {"L3 batch", batches},
    {"L4 levels", levels},
    {"L1 to L4 hidden rows", law_hidden_rows},
    {"L5 rewind", rewinds},
    {"L5 kept boundaries", kept_boundaries},
    {"L6 fork", forks},
    {"L6 restore", restores},
    {"L6 new process", new_process},
    {"L7 drafts", law_drafts}, /* with --drafts on */
};

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0); /* an interrupted run shows its progress */
    bool quick = test_is_short();
    law_setup setup = {.name = "r1-gqa4-tied", .seed = 11};
    setup.length = quick ? LAW_BITS_LENGTH : 200;
    const char *dir = NULL, *path = NULL;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--model") == 0)
            setup.name = argv[i + 1];
        else if (strcmp(argv[i], "--kv") == 0)
            setup.kv = rig_kv(argv[i + 1]);
        else if (strcmp(argv[i], "--drafts") == 0)
            setup.drafts = strcmp(argv[i + 1], "on") == 0;
        else if (strcmp(argv[i], "--resume") == 0)
            dir = argv[i + 1];
        else if (strcmp(argv[i], "--path") == 0)
            path = argv[i + 1];
        else
            rig_fail("unknown option %s", argv[i]);
    }
    if (dir != NULL && path != NULL)
        return resume(path, &setup, dir);
    fixture f = {.quick = quick};
    if (!law_table_make(&f.table, &setup)) {
        printf("skipped: the model %s not found\n", setup.name);
        return 77;
    }
    f.model = rig_open(f.table.path, MOTE_ISA_BEST);
    for (size_t i = 0; i < sizeof laws / sizeof *laws; i++) {
        double start = os_now();
        laws[i].run(&f);
        printf("%-30s equal  %5.1f s\n", laws[i].name, os_now() - start);
    }
    mote_model_close(f.model);
    law_table_free(&f.table);
    return 0;
}
