/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sched_probe.c - by hand: inter-token latency while a long prompt is prefilled.
 *
 *     sched_probe MODEL [STREAMS [PROMPT [TOKENS]]]
 *
 * STREAMS jobs decode; then a prompt of PROMPT tokens arrives. Prints the times between two tokens
 * of a stream, without the prompt and during its prefill.
 */
#include "base/os.h"
#include "sched/sched_rig.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAX_TIMES = 1 << 16, MAX_STREAMS = 64 };

typedef struct times {
    double at[MAX_TIMES];
    size_t n;
} times;

typedef struct probe {
    times alone, during;
    times *now;
    double last[MAX_STREAMS];
    test_job streams[MAX_STREAMS];
} probe;

static probe all;

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print(const char *what, times *t, double *p99)
{
    qsort(t->at, t->n, sizeof *t->at, compare);
    if (t->n == 0)
        return;
    *p99 = t->at[t->n * 99 / 100];
    printf("%-22s %6zu tokens  p50 %7.1f ms  p90 %7.1f ms  p99 %7.1f ms  max %7.1f ms\n", what,
           t->n, t->at[t->n / 2] * 1e3, t->at[t->n * 9 / 10] * 1e3, *p99 * 1e3,
           t->at[t->n - 1] * 1e3);
}

static void on_event(service *s, test_job *a)
{
    (void)s;
    const size_t i = (size_t)(a - all.streams);
    if (i >= MAX_STREAMS || a->finished)
        return;
    uint64_t kind = CHAT_EVENT_END;
    if (a->output.events.n >= sizeof kind) /* sched_rig.c writes it first */
        memcpy(&kind, a->output.events.p, sizeof kind);
    a->output.events.n = 0;
    if (kind != CHAT_EVENT_TOKEN)
        return;
    const double now = os_now();
    if (all.last[i] > 0 && all.now->n < MAX_TIMES)
        all.now->at[all.now->n++] = now - all.last[i];
    all.last[i] = now;
}

static const mote_answer_options how = {.max_tokens = 100000, .no_loop_guard = true};

static void submit(service *s, test_job *a, const mote_token *prompt, size_t n, bool endless)
{
    mote_error err;
    static question none;
    sched_job_options o = service_job(s, a, &none);
    static const mote_answer_options one = {.max_tokens = 1, .no_loop_guard = true};
    o.turn = (chat_turn_options){.chat_ctx = &s->rig->chat_ctx,
                                 .prompt = prompt,
                                 .n_prompt = n,
                                 .answer = endless ? &how : &one,
                                 .raw = true,
                                 .logprobs = true,
                                 .ignore_end = true};
    o.marks = NULL;
    o.n_marks = 0;
    must(service_submit(s, a, &o, &err), &err);
}

static double measure(service *s, size_t n_streams, const mote_token *prompt, size_t n,
                      size_t tokens)
{
    test_job long_job = {0};
    for (size_t i = 0; i < n_streams; i++)
        submit(s, &all.streams[i], prompt + i, 16, true);
    for (size_t i = 0; i < n_streams; i++) /* until all of them decode */
        while (all.last[i] == 0)
            service_collect(s);
    all.alone.n = 0;
    while (all.alone.n < tokens * n_streams)
        service_collect(s);
    all.now = &all.during;
    const double started = os_now();
    submit(s, &long_job, prompt, n, false);
    service_wait_finished(s, &long_job);
    const double seconds = os_now() - started;
    service_drop(s, &long_job);
    for (size_t i = 0; i < n_streams; i++)
        service_drop(s, &all.streams[i]);
    return seconds;
}

int main(int argc, char **argv)
{
    rig r = {0};
    service s;
    mote_error err;
    double alone = 0, during = 0;
    if (argc < 2)
        return 2;
    const size_t streams = argc > 2 ? strtoul(argv[2], NULL, 10) : 7;
    const size_t n = argc > 3 ? strtoul(argv[3], NULL, 10) : 4096;
    const size_t tokens = argc > 4 ? strtoul(argv[4], NULL, 10) : 40;
    if (streams < 1 || streams > MAX_STREAMS || n < 128)
        return 2;
    must(mote_model_open(&r.model, argv[1], NULL, &err), &err);
    must(chat_context_of(&r.chat_ctx, r.model, &err), &err);
    mote_token *prompt = calloc(n + streams, sizeof *prompt);
    test_random random = {.state = 1};
    mote_model_info info;
    mote_model_describe(r.model, &info);
    for (size_t i = 0; i < n + streams; i++)
        prompt[i] = (mote_token)test_random_below(&random, info.tokens);
    service_open(&s, &r, (sched_options){.parallel = (uint32_t)streams + 1});
    s.after_event = on_event;
    all.now = &all.alone;
    const double seconds = measure(&s, streams, prompt, n, tokens);
    printf("%zu answers, a prompt of %zu tokens\n", streams, n);
    print("without it", &all.alone, &alone);
    print("during its prefill", &all.during, &during);
    printf("p99 %.2f times, prefilled in %.1f s, %.0f tokens/s\n", during / alone, seconds,
           (double)n / seconds);
    service_close(&s);
    free(prompt);
    mote_model_close(r.model);
    return 0;
}
