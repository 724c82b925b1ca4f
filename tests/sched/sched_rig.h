/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sched_rig.h - what the tests of serve/ share: questions, how one is answered alone, and a loop
 * thread for a scheduler.
 */
#ifndef MOTE_TESTS_SCHED_SCHED_RIG_H
#define MOTE_TESTS_SCHED_SCHED_RIG_H

#include "chat/turn/response_format.h"
#include "chat/prompt/render.h"
#include "sched/sched.h"
#include "support/random.h"

/* Seconds, see "Time" in docs/testing.md: that a test waits for what must happen, and in which
 * somebody must have done something. */
enum { PATIENCE = 300, SILENCE = 100 };

/* The model and what all turns share; made by rig_open. */
typedef struct rig {
    mote_model *model;
    chat_context chat_ctx;
    token_trie *words;
} rig;

/* mote-tiny. Exits with 77 if it is not there. */
void rig_open(rig *r);
void rig_close(rig *r);
/* Aborts with the error unless the status is MOTE_OK. */
void must(mote_status status, const mote_error *err);

/* What a request asks for, rendered. Freed with question_fini, after all answers to it. */
typedef struct question {
    json_doc *body;
    chat_parsed parsed;
    chat_prompt prompt;
    mote_answer_options answer;
    bool logprobs, ignore_end;
} question;

/* `body` is JSON in OpenAI's form: messages, tools, enable_thinking. */
void question_init(question *q, const rig *r, const char *body, mote_answer_options answer);
/* Of a parsed conversation whose messages may bring tokens. */
void question_render(question *q, const rig *r);
/* A user's question of so many words, different for every seed, after a system text of so many;
 * nothing but max_tokens ends its answer. */
question question_of_words(const rig *r, uint64_t seed, size_t system_words, size_t words,
                           uint32_t max_tokens);
/* The most likely token always, whatever was said before. */
mote_answer_options answer_greedy(uint32_t max_tokens);
/* Some question: a few heads that many share, tools, forms, stop strings, thinking. */
void question_random(question *q, const rig *r, test_random *random);
void question_fini(question *q);
chat_turn_options question_turn(const question *q, const rig *r);

/* What an answer said, as bytes: every event with all it carries, then tokens. */
typedef struct said {
    strbuf events;
    strbuf tokens;
    mote_answer answer;
    mote_status status;
} said;

void said_event(said *s, const chat_event *event);
void said_fini(said *s);

/* Answers it on an engine of its own, token by token, from nothing. */
void rig_solo(const rig *r, const question *q, uint64_t context, said *out);

/* One request on its way through a scheduler. */
typedef struct asked {
    const question *question;
    said said;
    sched_job *job; /* NULL: dropped or never submitted */
    bool started, over, released;
    size_t n_events;
    sched_result result; /* once it is over; views end with the drop */
    uint64_t order;      /* how many had started before it */
    uint64_t turn;       /* of the service, when it started */
} asked;

/* A scheduler and the loop thread's side of it. */
typedef struct service {
    const rig *rig;
    sched *sched;
    uint64_t n_started, n_turns;
    /* after every event, if set */
    void (*heard)(struct service *service, asked *a);
    void (*turned)(struct service *service); /* after every turn, if set */
    void *with;
    struct bell *bell;
    core_lock *held; /* by us, between service_open_held and service_go_on */
} service;

void service_open(service *s, const rig *r, sched_options options);
void service_close(service *s);

/* A scheduler that does not compute until service_go_on: whatever is asked before is there at once,
 * and nothing ends meanwhile, however slow the one who asks is. */
void service_open_held(service *s, const rig *r, sched_options options);
/* Until the scheduler has computed, once as a rule; where the job stands then, and stays. */
sched_phase service_step(service *s, const asked *a);
/* As many steps as it takes the job to come to this phase. */
void service_step_to(service *s, const asked *a, sched_phase phase);
void service_go_on(service *s);

/* What jobs are submitted with; change it before service_submit. */
sched_job_options service_job(const service *s, asked *a, const question *q);
mote_status service_submit(service *s, asked *a, const sched_job_options *options, mote_error *err);
/* With the defaults, and it must work. */
void service_ask(service *s, asked *a, const question *q);
/* Likewise, as one of several clients. */
void service_ask_as(service *s, asked *a, const question *q, uint64_t client);
/* Waits until there is something to collect, if anybody is at work, and collects it. */
void service_turn(service *s);
void service_until_over(service *s, asked *a);
void service_until_phase(service *s, const asked *a, sched_phase phase);
/* Takes the tokens and lets go. */
void service_drop(service *s, asked *a);
void asked_fini(asked *a);

/* Ends the test unless both said the same, to the last byte. */
void same_as_solo(const asked *a, const said *solo);

#endif
