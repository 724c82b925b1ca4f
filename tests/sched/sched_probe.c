/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sched_probe.c - by hand: how evenly answers come while a long prompt is read.
 *
 *     serve_probe MODEL [WRITERS [PROMPT [TOKENS]]]
 *
 * So many answers are written; then a prompt of so many tokens comes. Printed are the times
 * between two tokens of an answer, without the prompt and while it is read.
 */
#include "base/os.h"
#include "sched/sched_rig.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST = 1 << 16, MOST_WRITERS = 64 };

typedef struct times {
    double at[MOST];
    size_t n;
} times;

typedef struct probe {
    times alone, beside;
    times *now;
    double last[MOST_WRITERS];
    asked writers[MOST_WRITERS];
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

static void on_event(service *s, asked *a)
{
    (void)s;
    const size_t i = (size_t)(a - all.writers);
    if (i >= MOST_WRITERS || a->over)
        return;
    uint64_t kind = CHAT_EVENT_END;
    if (a->said.events.n >= sizeof kind) /* serve_rig writes it first */
        memcpy(&kind, a->said.events.p, sizeof kind);
    a->said.events.n = 0;
    if (kind != CHAT_EVENT_TOKEN)
        return;
    const double now = os_now();
    if (all.last[i] > 0 && all.now->n < MOST)
        all.now->at[all.now->n++] = now - all.last[i];
    all.last[i] = now;
}

static const mote_answer_options how = {.max_tokens = 100000, .no_loop_guard = true};

static void submit(service *s, asked *a, const mote_token *prompt, size_t n, bool endless)
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

static double measure(service *s, size_t n_writers, const mote_token *prompt, size_t n,
                      size_t tokens)
{
    asked reader = {0};
    for (size_t i = 0; i < n_writers; i++)
        submit(s, &all.writers[i], prompt + i, 16, true);
    for (size_t i = 0; i < n_writers; i++) /* until all of them write */
        while (all.last[i] == 0)
            service_turn(s);
    all.alone.n = 0;
    while (all.alone.n < tokens * n_writers)
        service_turn(s);
    all.now = &all.beside;
    const double began = os_now();
    submit(s, &reader, prompt, n, false);
    service_until_over(s, &reader);
    const double seconds = os_now() - began;
    service_drop(s, &reader);
    for (size_t i = 0; i < n_writers; i++)
        service_drop(s, &all.writers[i]);
    return seconds;
}

int main(int argc, char **argv)
{
    rig r = {0};
    service s;
    mote_error err;
    double alone = 0, beside = 0;
    if (argc < 2)
        return 2;
    const size_t writers = argc > 2 ? strtoul(argv[2], NULL, 10) : 7;
    const size_t n = argc > 3 ? strtoul(argv[3], NULL, 10) : 4096;
    const size_t tokens = argc > 4 ? strtoul(argv[4], NULL, 10) : 40;
    if (writers < 1 || writers > MOST_WRITERS || n < 128)
        return 2;
    must(mote_model_open(&r.model, argv[1], NULL, &err), &err);
    must(chat_context_of(&r.chat_ctx, r.model, &err), &err);
    mote_token *prompt = calloc(n + writers, sizeof *prompt);
    test_random random = {.state = 1};
    mote_model_info info;
    mote_model_describe(r.model, &info);
    for (size_t i = 0; i < n + writers; i++)
        prompt[i] = (mote_token)test_random_below(&random, info.tokens);
    service_open(&s, &r, (sched_options){.parallel = (uint32_t)writers + 1});
    s.heard = on_event;
    all.now = &all.alone;
    const double seconds = measure(&s, writers, prompt, n, tokens);
    printf("%zu answers, a prompt of %zu tokens\n", writers, n);
    print("without it", &all.alone, &alone);
    print("while it is read", &all.beside, &beside);
    printf("p99 %.2f times, read in %.1f s, %.0f tokens a second\n", beside / alone, seconds,
           (double)n / seconds);
    service_close(&s);
    free(prompt);
    mote_model_close(r.model);
    return 0;
}
