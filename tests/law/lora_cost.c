/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lora_cost.c - what adapters cost in a step. By hand, with a model of true size:
 *
 *     lora_cost MODEL.gguf [RANK [THREADS [SESSIONS [ADAPTERS [f32]]]]]
 *
 * Alternates decode steps of sessions without adapters, and with them. The adapters have all
 * matrices of the layers, in F16 or F32. Prints the median times and their ratio; then the same for
 * prefills of 256 tokens.
 */
#include "law/lora_build.h"
#include "law/rig.h"

#include "base/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SESSIONS = 8, STEPS = 40, PREFILLS = 5, PROMPT = 64, LONG = 256 };

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *values, size_t n)
{
    qsort(values, n, sizeof *values, by_value);
    return values[n / 2];
}

static double step_seconds(mote_engine *engine, mote_session *const *s, uint32_t n, size_t tokens)
{
    static const mote_token ids[LONG] = {11, 12, 13, 14};
    mote_work work[MAX_SESSIONS];
    mote_error err = {0};
    for (uint32_t i = 0; i < n; i++)
        work[i] = (mote_work){.session = s[i], .tokens = ids, .n = tokens};
    const double started = os_now();
    MUST(mote_step(engine, work, n, &err), &err);
    return os_now() - started;
}

static uint32_t argument(int argc, char **argv, int i, uint32_t otherwise, uint32_t most)
{
    const long given = argc > i ? strtol(argv[i], NULL, 10) : (long)otherwise;
    if (given < 1 || given > (long)most)
        rig_fail("argument %d must be 1 to %u", i, most);
    return (uint32_t)given;
}

int main(int argc, char **argv)
{
    if (argc < 2)
        rig_fail("usage: lora_cost MODEL.gguf [RANK [THREADS [SESSIONS [ADAPTERS [f32]]]]]");
    const uint32_t rank = argument(argc, argv, 2, 16, 512),
                   threads = argument(argc, argv, 3, 1, 64);
    const uint32_t n = argument(argc, argv, 4, 1, MAX_SESSIONS);
    const uint32_t n_loras = argument(argc, argv, 5, 1, MAX_SESSIONS);
    const bool wide = argc > 6 && strcmp(argv[6], "f32") == 0;
    mote_model *model = rig_open(argv[1], MOTE_ISA_BEST);
    mote_lora *lora[MAX_SESSIONS];
    for (uint32_t i = 0; i < n_loras; i++)
        lora[i] = lora_make(model, &(lora_recipe){.rank = rank,
                                                  .alpha = 1,
                                                  .parts = LORA_WITHOUT_MTP,
                                                  .seed = i + 1,
                                                  .type = wide ? 0 : 1});
    mote_engine *engine = rig_engine(model, &(mote_engine_options){.threads = threads,
                                                                   .sessions = 2 * MAX_SESSIONS,
                                                                   .positions = 16384,
                                                                   .lora_rank = rank});
    mote_session *s[2][MAX_SESSIONS];
    mote_error err = {0};
    double times[2][STEPS];
    for (uint32_t with = 0; with < 2; with++)
        for (uint32_t i = 0; i < n; i++) {
            const mote_lora_use use = {lora[i % n_loras], 1};
            const mote_session_options o = {.context = 512, .loras = &use, .n_loras = with};
            MUST(mote_session_new(&s[with][i], engine, &o, &err), &err);
        }
    for (uint32_t with = 0; with < 2; with++)
        step_seconds(engine, s[with], n, PROMPT);
    for (size_t i = 0; i < STEPS; i++)
        for (uint32_t with = 0; with < 2; with++)
            times[with][i] = step_seconds(engine, s[with], n, 1);
    double plain = median(times[0], STEPS), adapted = median(times[1], STEPS);
    mote_lora_info info;
    mote_lora_describe(lora[0], &info);
    printf("rank %u, %u matrices, %.1f MB in %s, %u adapters, %u sessions, %u threads\n", rank,
           info.matrices, (double)info.bytes / 1e6, wide ? "f32" : "f16", n_loras, n, threads);
    printf("decode: %.2f ms without, %.2f ms with adapters: %.3fx\n", plain * 1e3, adapted * 1e3,
           adapted / plain);
    for (size_t i = 0; i < PREFILLS; i++)
        for (uint32_t with = 0; with < 2; with++) {
            mote_session_rewind(s[with][0], 0);
            times[with][i] = step_seconds(engine, s[with], 1, LONG);
        }
    plain = median(times[0], PREFILLS);
    adapted = median(times[1], PREFILLS);
    printf("prefill of %d: %.0f ms without, %.0f ms with adapters: %.3fx\n", LONG, plain * 1e3,
           adapted * 1e3, adapted / plain);
    for (uint32_t with = 0; with < 2; with++)
        for (uint32_t i = 0; i < n; i++)
            mote_session_free(s[with][i]);
    mote_engine_free(engine);
    for (uint32_t i = 0; i < n_loras; i++)
        mote_lora_close(lora[i]);
    mote_model_close(model);
    return 0;
}
