/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scale_check.c - the sizes mote promises, at the true size of a model.
 *
 *   scale_check MODEL.gguf
 *
 * Checks: a whole model generates tokens; the memory plan of a session of 1,010,000 positions is
 * exact, and only its used part is resident; one engine runs 256 sessions in one step. Run by
 * scripts/scale, which makes the model.
 */
#include "law/rig.h"

#include "base/mem.h"
#include "base/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const double mib = 1024.0 * 1024.0;

/* Resident memory of this process that is not a file. */
static double resident_mib(void)
{
    unsigned long pages[3] = {0};
    FILE *f = fopen("/proc/self/statm", "r");
    if (f == NULL || fscanf(f, "%lu %lu %lu", &pages[0], &pages[1], &pages[2]) != 3)
        rig_fail("cannot read /proc/self/statm");
    fclose(f);
    return (double)(pages[1] - pages[2]) * (double)sysconf(_SC_PAGESIZE) / mib;
}

static mote_engine *planned_engine(const mote_model *model, const mote_engine_options *options,
                                   uint64_t model_bytes)
{
    mote_error err = {0};
    mote_memory plan;
    uint64_t before = mem_count().bytes;
    MUST(mote_engine_plan(model, options, &plan, &err), &err);
    mote_engine *engine = rig_engine(model, options);
    uint64_t taken = mem_count().bytes - before;
    uint64_t planned = plan.kv_cache + plan.recurrent_state + plan.scratch;
    printf("  plan: pages %.1f MiB, states %.1f MiB, scratch %.1f MiB, model %.1f MiB\n",
           (double)plan.kv_cache / mib, (double)plan.recurrent_state / mib,
           (double)plan.scratch / mib, (double)plan.model / mib);
    if (plan.model != model_bytes)
        rig_fail("the plan says %llu bytes for the model, %llu were taken",
                 (unsigned long long)plan.model, (unsigned long long)model_bytes);
    printf("  taken %llu bytes, planned %llu: the difference is what sessions take for ids\n",
           (unsigned long long)taken, (unsigned long long)planned);
    return engine;
}

/* Engine and sessions together must not take more than the plan. */
static void check_taken(mote_engine *engine, uint64_t before)
{
    mote_memory memory;
    mote_engine_memory(engine, &memory);
    uint64_t planned = memory.kv_cache + memory.recurrent_state + memory.scratch;
    uint64_t taken = mem_count().bytes - before;
    printf("  with its sessions %llu of %llu bytes planned (%lld left), %.1f MiB resident\n",
           (unsigned long long)taken, (unsigned long long)planned, (long long)(planned - taken),
           resident_mib());
    if (taken > planned)
        rig_fail("more was taken than planned");
}

static void some_tokens(const mote_model *model)
{
    mote_engine *engine = rig_engine(model, NULL);
    mote_session *session = rig_session(engine);
    mote_token token = 1;
    rig_feed(engine, session, &token, 1, MOTE_LOGITS_LAST);
    double start = os_now();
    enum { N = 24 };
    printf("  tokens:");
    for (int i = 0; i < N; i++) {
        mote_error err = {0};
        mote_choice choice;
        MUST(mote_sample(session, 0, NULL, &choice, &err), &err);
        printf(" %d", choice.token);
        rig_feed(engine, session, &choice.token, 1, MOTE_LOGITS_LAST);
    }
    printf("\n  %.2f tokens/s on %u threads\n", N / (os_now() - start),
           mote_engine_threads(engine));
    mote_session_free(session);
    mote_engine_free(engine);
}

static void a_million_positions(const mote_model *model, uint64_t model_bytes)
{
    uint64_t before = mem_count().bytes;
    mote_engine *engine =
        planned_engine(model, &(mote_engine_options){.positions = 1010000, .yarn = 4}, model_bytes);
    mote_session *session = rig_session(engine);
    if (mote_session_context(session) != 1010000)
        rig_fail("the session has %llu positions",
                 (unsigned long long)mote_session_context(session));
    static const mote_token prompt[70] = {1, 2, 3, 4, 5};
    rig_feed(engine, session, prompt, 70, MOTE_LOGITS_LAST);
    check_taken(engine, before);
    mote_session_free(session);
    mote_engine_free(engine);
}

static void many_sessions(const mote_model *model, uint64_t model_bytes)
{
    enum { N = 256 };
    uint64_t before = mem_count().bytes;
    mote_engine *engine = planned_engine(
        model, &(mote_engine_options){.sessions = N, .positions = N * 256}, model_bytes);
    static mote_session *sessions[N];
    static mote_token tokens[N];
    static mote_work work[N];
    for (int i = 0; i < N; i++) {
        sessions[i] = rig_session(engine);
        tokens[i] = i;
        work[i] = (mote_work){.session = sessions[i], .tokens = &tokens[i], .n = 1};
    }
    mote_error err = {0};
    for (int round = 0; round < 2; round++) {
        double start = os_now();
        MUST(mote_step(engine, work, N, &err), &err);
        printf("  one token for each of %d sessions: %.2f s\n", N, os_now() - start);
    }
    check_taken(engine, before);
    for (int i = 0; i < N; i++)
        mote_session_free(sessions[i]);
    mote_engine_free(engine);
}

int main(int argc, char **argv)
{
    if (argc != 2)
        rig_fail("scale_check MODEL.gguf");
    setvbuf(stdout, NULL, _IOLBF, 0);
    double start = os_now();
    uint64_t before = mem_count().bytes;
    mote_model *model = rig_open(argv[1], MOTE_ISA_BEST);
    uint64_t model_bytes = mem_count().bytes - before;
    mote_model_info info;
    mote_model_describe(model, &info);
    printf("%s: %llu parameters, %.1f MiB, opened in %.2f s, level %s\n", info.name,
           (unsigned long long)info.parameters, (double)info.file_bytes / mib, os_now() - start,
           mote_isa_name(info.isa));
    printf("tokens\n");
    some_tokens(model);
    printf("1,010,000 positions\n");
    a_million_positions(model, model_bytes);
    printf("256 sessions\n");
    many_sessions(model, model_bytes);
    mote_model_close(model);
    if (mem_count().bytes != before)
        rig_fail("memory is left behind");
    return 0;
}
