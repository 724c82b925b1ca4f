/* SPDX-License-Identifier: Apache-2.0 */
/*
 * generate.h - the loop of `mote run`: pick a token, show its text, append it.
 *
 * Starts from a session that has read its prompt; goes on until the model ends,
 * a limit is reached, a stop word appears, or nobody wants more.
 */
#ifndef MOTE_CLI_RUN_GENERATE_H
#define MOTE_CLI_RUN_GENERATE_H

#include "cli/args/command.h"
#include "cli/load/input.h"
#include "cli/load/load.h"
#include "cli/run/stop_text.h"

typedef enum answer_end {
    ANSWER_END_TOKEN,  /* the model said so */
    ANSWER_STOP_TEXT,  /* --stop */
    ANSWER_MAX_TOKENS, /* --max-tokens */
    ANSWER_CONTEXT,    /* the session is full */
    ANSWER_INTERRUPTED,
    ANSWER_UNREAD, /* the reader of stdout went away */
    ANSWER_FAILED
} answer_end;

typedef struct answer {
    /* set by the caller */
    const loaded *on;
    mote_sampling sampling;
    uint64_t max_tokens; /* 0: no limit */
    bool show_control;   /* control tokens are part of the text */
    cli_out *stream;     /* text is shown here as it comes; NULL: only collected */

    /* the result */
    answer_end end;
    input_text text;    /* all of it, if stream is NULL */
    input_ids ids;      /* without the end token */
    double first_token; /* os_now when it was picked */
    double ended;

    /* in between */
    mote_text_stream characters;
    stop_text stops;
} answer;

/* Allocates; `stop` outlives the answer. */
mote_status answer_init(answer *a, const flag_list *stop, mote_error *err);
void answer_fini(answer *a);
/* Fails only when the engine does; a->end then is ANSWER_FAILED and what was said so far stands. */
mote_status answer_run(answer *a, mote_error *err);

/* "end_token", "stop_text" ... */
const char *answer_end_name(answer_end end);
/* The contract's word: "stop", "length" or "interrupted". */
const char *answer_finish(answer_end end);

#endif
