/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run.h - what the ways of `mote run` share: its options, its prompt, its settings.
 *
 * cmd_run.c has the command's row and chooses the way: run_raw.c continues a text, run_filter.c
 * answers one message, run_chat.c talks. Functions return an exit code and have said what is
 * wrong unless it is 0.
 */
#ifndef MOTE_CLI_RUN_RUN_H
#define MOTE_CLI_RUN_RUN_H

#include "cli/load/input.h"
#include "cli/term/json_out.h"
#include "cli/load/load.h"

#include <mote_chat.h>

/* Which sampling flags are no defaults. */
typedef struct run_given {
    bool temperature, top_p, top_k, min_p, presence, frequency, repeat_penalty, seed;
} run_given;

typedef struct run_options {
    bool raw;
    const char *prompt;
    const char *file;
    bool special;

    const char *system;
    const char *messages;
    const char *tools;
    const char *think;
    bool no_think;
    bool hide_thinking;
    uint64_t task; /* mote_task */

    flag_list image;
    flag_list video;
    double fps; /* of films; 0: as they say */
    const char *mmproj;
    uint64_t image_tokens; /* of a picture, or of all of a film */

    uint64_t format; /* 0: text, 1: json */
    const char *schema;
    const char *grammar;
    const char *regex;
    const char *choice;

    uint64_t max_tokens;
    flag_list stop;
    bool fail_on_length;
    bool no_loop_guard;

    double temperature;
    double top_p;
    uint64_t top_k;
    double min_p;
    double presence;
    double frequency;
    double repeat_penalty;
    uint64_t seed;
    run_given given;
    load_options load;
} run_options;

int run_raw(const cli_call *call);
int run_filter(const cli_call *call);
int run_chat(const cli_call *call);

/* PROMPT or -p, and then the file or what comes through the pipe. May be empty. */
int run_read_prompt(input_text *prompt, const cli_call *call);
/* A seed short enough to be typed again, another one each time. */
uint64_t run_new_seed(void);
/* As the flags say, given or not. */
mote_sampling run_sampling(const run_options *o);
int run_no_memory(void);
double run_per_second(uint64_t n, double seconds);
/* The entry "sampling" of a document. */
void run_write_sampling(json *j, const mote_sampling *s);

/* How to answer, from the flags. */
typedef struct run_settings {
    mote_answer_options answer; /* event and with are the caller's */
    bool seed_given;            /* else each answer gets a new one */
    input_text format;          /* what answer.format_text shows */
    input_text system;
    input_text messages; /* JSON */
    input_text tools;    /* JSON */
} run_settings;

int run_settings_read(run_settings *s, const run_options *o);
void run_settings_free(run_settings *s);

#endif
