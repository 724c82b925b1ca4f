/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resident.c - resident memory of a full session compared with mote_engine_plan.
 *
 *   resident MODEL.gguf | NAME [--context N] [--kv f16|f32|q8_0|q4_0] [--threads N]
 *
 * Fills a session: prefill in whole passes, then decode for the last tokens. Then reads from /proc
 * the anonymous memory of the process and the mapped part of the model file. Code of the program
 * and of the C library is printed but not counted, because no plan can know it. Plan and
 * measurement may differ by 5 %. `mote show` prints the same plan.
 *
 * Sanitizers take memory of their own, so such builds do not run this.
 */
#define _GNU_SOURCE /* realpath */
#include "law/rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONTEXT = 4096, PASS = 512, GENERATED = 64 };
static const double most_off = 0.05;

typedef struct usage {
    uint64_t anonymous; /* bytes, resident */
    uint64_t model;
    uint64_t other_files;
    uint64_t peak; /* of the whole process, ever */
} usage;

/* "Name:   123 kB" in a file of /proc, in bytes. */
static uint64_t status_bytes(const char *name)
{
    char line[256];
    unsigned long long kb = 0;
    size_t n = strlen(name);
    FILE *f = fopen("/proc/self/status", "r");
    if (f == NULL)
        rig_fail("cannot read /proc/self/status");
    while (fgets(line, sizeof line, f) != NULL)
        if (strncmp(line, name, n) == 0 && line[n] == ':')
            kb = strtoull(line + n + 1, NULL, 10);
    fclose(f);
    return kb * 1024;
}

/* Resident bytes of the mappings of one file. */
static uint64_t mapped_bytes(const char *path)
{
    char line[4352], real[4096];
    unsigned long long kb = 0;
    bool inside = false;
    FILE *f = fopen("/proc/self/smaps", "r");
    if (f == NULL || realpath(path, real) == NULL)
        rig_fail("cannot read /proc/self/smaps or find %s", path);
    while (fgets(line, sizeof line, f) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        const char *name = strchr(line, '/');
        if (strncmp(line, "Rss:", 4) == 0 && inside)
            kb += strtoull(line + 4, NULL, 10);
        else if (line[0] < 'A' || line[0] > 'Z') /* not a field: the head of a mapping */
            inside = name != NULL && strcmp(name, real) == 0;
    }
    fclose(f);
    return kb * 1024;
}

static usage usage_now(const char *path)
{
    usage u = {.anonymous = status_bytes("RssAnon"),
               .model = mapped_bytes(path),
               .peak = status_bytes("VmHWM")};
    u.other_files = status_bytes("RssFile") - u.model;
    return u;
}

/* Prefill in whole passes, then decode until the session is full. */
static void fill(mote_engine *engine, mote_session *session, uint32_t n_tokens)
{
    uint64_t context = mote_session_context(session), prompt = context - GENERATED;
    mote_token tokens[PASS];
    rig_random r = {.seed = 4096};
    while (mote_session_length(session) < prompt) {
        uint64_t left = prompt - mote_session_length(session);
        size_t n = left < PASS ? (size_t)left : PASS;
        rig_random_tokens(&r, n_tokens, tokens, n);
        rig_feed(engine, session, tokens, n, MOTE_LOGITS_LAST);
    }
    while (mote_session_length(session) < context) {
        mote_error err = {0};
        mote_choice choice;
        MUST(mote_sample(session, 0, &(mote_sampling){.temperature = 1, .top_p = 0.95f}, &choice,
                         &err),
             &err);
        rig_feed(engine, session, &choice.token, 1, MOTE_LOGITS_LAST);
    }
}

static void print_row(const char *what, uint64_t bytes)
{
    printf("  %-28s %15llu\n", what, (unsigned long long)bytes);
}

static double report(const mote_memory *plan, const usage *u)
{
    uint64_t resident = u->anonymous + u->model;
    print_row("planned: weights", plan->weights);
    print_row("         model", plan->model);
    print_row("         KV cache", plan->kv_cache);
    print_row("         recurrent state", plan->recurrent_state);
    print_row("         scratch", plan->scratch);
    print_row("         total", plan->total);
    print_row("resident: model file", u->model);
    print_row("          private", u->anonymous);
    print_row("          both", resident);
    print_row("program and libraries", u->other_files);
    print_row("peak of all of it", u->peak);
    double off = ((double)resident - (double)plan->total) / (double)plan->total;
    printf("  resident is %+.2f %% of the plan; allowed are %.0f\n", 100 * off, 100 * most_off);
    return off;
}

static int check(const char *path, const mote_engine_options *options)
{
    mote_model *model = rig_open(path, MOTE_ISA_BEST);
    mote_model_info info;
    mote_model_describe(model, &info);
    if (info.isa == MOTE_ISA_REF) { /* takes minutes, and leaves the products' memory unused */
        mote_model_close(model);
        return 77;
    }
    mote_error err = {0};
    mote_memory plan;
    MUST(mote_engine_plan(model, options, &plan, &err), &err);
    for (uint64_t done = 0, total = 0; mote_model_prefault(model, &done, &total);)
        continue;
    mote_engine *engine = rig_engine(model, options);
    mote_session *session = rig_session(engine);
    fill(engine, session, info.tokens);
    usage u = usage_now(path);
    printf("%s, %u threads, a full session of %llu\n", info.name, mote_engine_threads(engine),
           (unsigned long long)mote_session_length(session));
    double off = report(&plan, &u);
    mote_session_free(session);
    mote_engine_free(engine);
    mote_model_close(model);
    return off <= most_off && off >= -most_off ? 0 : 1;
}

int main(int argc, char **argv)
{
    mote_engine_options options = {.positions = CONTEXT};
    if (argc < 2 || argc % 2 != 0)
        rig_fail("resident MODEL.gguf | NAME [--context N] [--kv f16|f32|q8_0|q4_0] [--threads N]");
    for (int i = 2; i < argc; i += 2) {
        if (strcmp(argv[i], "--context") == 0)
            options.positions = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--kv") == 0)
            options.kv = rig_kv(argv[i + 1]);
        else if (strcmp(argv[i], "--threads") == 0)
            options.threads = (uint32_t)strtoul(argv[i + 1], NULL, 10);
        else
            rig_fail("an unknown argument: %s", argv[i]);
    }
    if (options.positions <= GENERATED)
        rig_fail("a context of more than %d, please", GENERATED);
    const char *known = strchr(argv[1], '/') != NULL ? argv[1] : rig_model_path(argv[1]);
    char path[4096];
    if (known == NULL)
        return 77;
    snprintf(path, sizeof path, "%s", known);
    return check(path, &options);
}
