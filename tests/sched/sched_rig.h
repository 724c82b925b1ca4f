/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sched_rig.h - shared by the tests of sched/: test prompts, a solo run of a prompt without a
 * scheduler, and the loop thread's side of a scheduler.
 */
#ifndef MOTE_TESTS_SCHED_SCHED_RIG_H
#define MOTE_TESTS_SCHED_SCHED_RIG_H

#include "chat/turn/response_format.h"
#include "chat/prompt/render.h"
#include "sched/sched.h"
#include "support/random.h"

/* Seconds, see "Time" in docs/testing.md: how long a test waits for an event, and how long it
 * tolerates no progress at all. */
enum { PATIENCE = 300, SILENCE = 100 };

/* The model and what all turns share. Created by rig_open. */
typedef struct rig {
    mote_model *model;
    chat_context chat_ctx;
    token_trie *words;
} rig;

/* Opens mote-tiny. Exits with 77 if the file is missing. */
void rig_open(rig *r);
void rig_close(rig *r);
/* Aborts with the error unless the status is MOTE_OK. */
void must(mote_status status, const mote_error *err);

/* A rendered request. question_fini frees it, after all its jobs have ended. */
typedef struct question {
    json_doc *body;
    chat_parsed parsed;
    chat_prompt prompt;
    mote_answer_options answer;
    bool logprobs, ignore_end;
} question;

/* `body` is JSON as in the OpenAI API: messages, tools, enable_thinking. */
void question_init(question *q, const rig *r, const char *body, mote_answer_options answer);
/* Renders the prompt again. Messages may carry tokens. */
void question_render(question *q, const rig *r);
/* A system text and a user message of the given numbers of words, different for every seed. Only
 * max_tokens ends the answer. */
question question_of_words(const rig *r, uint64_t seed, size_t system_words, size_t words,
                           uint32_t max_tokens);
/* Greedy sampling without penalties. */
mote_answer_options answer_greedy(uint32_t max_tokens);
/* A random request: shared system texts, tools, response formats, stop strings, thinking. */
void question_random(question *q, const rig *r, test_random *random);
void question_fini(question *q);
chat_turn_options question_turn(const question *q, const rig *r);

/* The output of a job as bytes: every event with all its fields, and the tokens. */
typedef struct test_output {
    strbuf events;
    strbuf tokens;
    mote_answer answer;
    mote_status status;
} test_output;

void output_event(test_output *s, const chat_event *event);
void output_fini(test_output *s);

/* Runs the request alone on a new engine, token by token, without a scheduler. */
void rig_solo(const rig *r, const question *q, uint64_t context, test_output *out);

/* A job in a scheduler, and what it has delivered. */
typedef struct test_job {
    const question *question;
    test_output output;
    sched_job *job; /* NULL: dropped or never submitted */
    bool started, finished, released;
    size_t n_events;
    sched_result result; /* once finished; pointers are valid until the drop */
    uint64_t order;      /* number of jobs that started before it */
    uint64_t turn;       /* number of the collect call in which it started */
} test_job;

/* A scheduler with the loop thread's side of it. */
typedef struct service {
    const rig *rig;
    sched *sched;
    uint64_t n_started, n_collects;
    /* called after every event, if set */
    void (*after_event)(struct service *service, test_job *a);
    void (*after_collect)(struct service *service); /* called after every collect, if set */
    void *with;
    struct wakeup *wakeup;
    core_lock *held; /* held by the test between service_open_held and service_release */
} service;

void service_open(service *s, const rig *r, sched_options options);
void service_close(service *s);

/* A scheduler that does not run a step until service_release, because the test holds its core lock.
 * All jobs submitted before are admitted together, however slow the test is. */
void service_open_held(service *s, const rig *r, sched_options options);
/* Lets the scheduler run, usually one step. Returns the phase of the job after it. */
sched_phase service_step(service *s, const test_job *a);
/* Runs steps until the job reaches this phase. */
void service_step_to(service *s, const test_job *a, sched_phase phase);
void service_release(service *s);

/* Default options of a job; may be changed before service_submit. */
sched_job_options service_job(const service *s, test_job *a, const question *q);
mote_status service_submit(service *s, test_job *a, const sched_job_options *options,
                           mote_error *err);
/* Submits with default options; aborts on failure. */
void service_send(service *s, test_job *a, const question *q);
/* The same for a given client, with its own cache namespace. */
void service_send_as(service *s, test_job *a, const question *q, uint64_t client);
/* Waits for events while jobs are queued or running, then collects them. */
void service_collect(service *s);
void service_wait_finished(service *s, test_job *a);
void service_wait_phase(service *s, const test_job *a, sched_phase phase);
/* Drops the job. */
void service_drop(service *s, test_job *a);
void test_job_fini(test_job *a);

/* Aborts unless both outputs are equal, byte for byte. */
void same_as_solo(const test_job *a, const test_output *solo);
/* Runs a job in the namespace `ns` and compares it with its solo run. Returns the number of reused
 * prompt tokens. */
uint64_t service_reused(service *s, const rig *r, const question *q, uint64_t context, uint64_t ns,
                        sched_reuse *from);

#endif
