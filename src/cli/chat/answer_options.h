/* SPDX-License-Identifier: Apache-2.0 */
/*
 * answer_options.h - the flags of `mote run`, and the options of an answer made from them.
 *
 * Functions that return int return an exit code and have reported the error unless it is 0.
 */
#ifndef MOTE_CLI_CHAT_ANSWER_OPTIONS_H
#define MOTE_CLI_CHAT_ANSWER_OPTIONS_H

#include "cli/load/load.h"
#include "cli/load/media_files.h"

#include <mote_chat.h>

/* Which sampling flags were given; the others come from the preset. */
typedef struct answer_given {
    bool temperature, top_p, top_k, min_p, presence, frequency, repeat_penalty, seed;
} answer_given;

/* The flags, as parsed. */
typedef struct answer_flags {
    bool raw;
    bool pull; /* download a model that is not installed */
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
    template_options template;
    lora_options lora;

    media_options media;

    uint64_t format; /* 0: text, 1: json */
    const char *schema;
    const char *grammar;
    const char *regex;
    const char *choice;

    uint64_t max_tokens;
    flag_list stop;
    bool fail_on_length;
    bool no_loop_guard;
    const char *spec;
    uint64_t cache_disk; /* bytes; 0: off */
    const char *cache_key;
    const char *session; /* name; NULL: none */

    double temperature;
    double top_p;
    uint64_t top_k;
    double min_p;
    double presence;
    double frequency;
    double repeat_penalty;
    uint64_t seed;
    answer_given given;
    load_options load;
} answer_flags;

/* Options for mote_chat_answer, and the texts that they point to. */
typedef struct answer_options {
    mote_answer_options answer; /* `event` and `with` are set by the caller */
    bool seed_given;            /* false: every answer gets a new seed */
    strbuf format;              /* answer.format_text points here */
    strbuf system;
    strbuf messages; /* JSON */
    strbuf tools;    /* JSON */
} answer_options;

int answer_options_read(answer_options *s, const answer_flags *o);
void answer_options_free(answer_options *s);

/* Reads the prompt: PROMPT or --prompt, then --file or piped stdin. It may be empty. *typed: the
 * bytes that come from PROMPT or --prompt. */
int answer_read_prompt(strbuf *prompt, size_t *typed, const cli_call *call);
/* The sampling flags, whether given or not. */
mote_sampling answer_flags_sampling(const answer_flags *o);
/* A random seed of 32 bits, short enough to type. */
uint64_t answer_new_seed(void);
double answer_per_second(uint64_t n, double seconds);
/* "prompt 51 tokens in 0.15 s (340 t/s)", or "prompt 32 of 51 tokens in ..." if the prefill was
 * interrupted. `line` has ANSWER_PROMPT_BYTES. */
enum { ANSWER_PROMPT_BYTES = 192 };
const char *answer_prompt_text(char *line, uint64_t prompt, uint64_t cached, uint64_t prefilled,
                               double seconds);
/* "   drafts 331/420": accepted by drafted tokens; "" without drafts. `text` has
 * ANSWER_DRAFTS_BYTES. */
enum { ANSWER_DRAFTS_BYTES = 64 };
const char *answer_drafts_text(char *text, const mote_answer *a);
/* Writes "sampling" into the open JSON object. */
void answer_write_sampling(strbuf *j, const mote_sampling *s);

#endif
