/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vocab_threads.c - one model, one chat context and one vocabulary shared by two threads with an
 * engine each. Both answers must equal that of a single thread. Also meant for ThreadSanitizer.
 */
#include "chat/turn_drive.h"
#include "chat/turn_rig.h"
#include "support/data.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 2 };

typedef struct worker {
    turn_host host; /* its own engine; chat context and vocabulary are shared */
    turn_job g;
    pthread_t thread;
} worker;

static const char request[] =
    "{\"messages\":[{\"role\":\"user\",\"content\":\"Set a timer\"}],\"enable_thinking\":false,"
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"set_timer\",\"parameters\":{"
    "\"type\":\"object\",\"properties\":{\"minutes\":{\"type\":\"integer\",\"minimum\":1,"
    "\"maximum\":90},\"label\":{\"type\":\"string\",\"maxLength\":20}},"
    "\"required\":[\"minutes\",\"label\"]}}}]}";

static void *work(void *with)
{
    worker *w = with;
    w->g = (turn_job){
        .request = request,
        .how = {.tool_choice = MOTE_TOOLS_REQUIRED, .one_call = true, .max_tokens = 120}};
    turn_jobs_run(&w->host, &w->g, 1);
    return NULL;
}

static mote_engine *engine_on(const mote_model *model)
{
    mote_engine *engine;
    const mote_engine_options options = {.threads = 1, .positions = 2048};
    if (mote_engine_new(&engine, model, &options, NULL) != MOTE_OK)
        exit(1);
    return engine;
}

int main(void)
{
    worker workers[THREADS + 1] = {0}; /* the last one runs alone */
    mote_engine *first = turn_engine("mote-tiny-Q4_K_M.gguf", 1, 0);
    turn_host_open(&workers[0].host, first);
    for (int i = 1; i <= THREADS; i++) {
        workers[i].host = workers[0].host;
        workers[i].host.engine = engine_on(mote_engine_model(first));
    }
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            return 1;
    for (int i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    work(&workers[THREADS]);
    int failed = 0;
    for (int i = 0; i < THREADS; i++) {
        const str alone = strbuf_view(&workers[THREADS].g.log);
        if (!str_eq(strbuf_view(&workers[i].g.log), alone) || alone.n == 0) {
            printf("thread %d: got\n%.*sexpected\n%.*s", i, STR_ARG(strbuf_view(&workers[i].g.log)),
                   STR_ARG(alone));
            failed = 1;
        }
    }
    for (int i = THREADS; i >= 0; i--) {
        turn_job_free(&workers[i].g);
        if (i > 0)
            mote_engine_free(workers[i].host.engine);
    }
    turn_host_close(&workers[0].host);
    turn_engine_close(first);
    return failed;
}
