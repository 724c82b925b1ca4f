/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run.h - the modes of `mote run`, and the token loop of --raw.
 *
 * cmd_run.c has the flags and selects the mode: run_raw.c continues a text, run_once.c answers one
 * prompt, cli/chat is the interactive chat. Functions that return int return an exit code and have
 * reported the error unless it is 0.
 */
#ifndef MOTE_CLI_RUN_RUN_H
#define MOTE_CLI_RUN_RUN_H

#include "base/err.h"
#include "cli/load/load.h"
#include "spec/spec.h"

int run_raw(const cli_call *call);
int run_once(const cli_call *call);

/* ---- stop strings (generate.c) ----
 *
 * Ends a stream of text at the first of several strings (--stop). Text that could be the beginning
 * of a stop string is held back. The stop string itself is never output. */

typedef struct stop_text {
    const flag_list *words;
    char *held; /* [room]: held text, then the piece just added */
    size_t n_held;
    size_t room;
} stop_text;

enum { STOP_WORD_MAX = 1024 }; /* bytes */

/* `words` must outlive it; none of them is empty. */
mote_status stop_text_init(stop_text *s, const flag_list *words, mote_error *err);
void stop_text_fini(stop_text *s);

/* Adds a piece of at most MOTE_PIECE_BYTES. Returns how many bytes of `held` can be output now;
 * stop_text_drop removes them. *stopped: a stop string follows them, the stream is over. */
size_t stop_text_add(stop_text *s, const char *piece, size_t n, bool *stopped);
void stop_text_drop(stop_text *s, size_t n);

/* ---- the token loop (generate.c) ----
 *
 * Starts from a session with a prefilled prompt. Samples a token, outputs its text, appends it and
 * possibly a draft (docs/speculative.md); until an end token, a limit, a stop string, a signal or a
 * closed output. */

typedef enum completion_end {
    COMPLETION_END_TOKEN,  /* the model ended the text */
    COMPLETION_STOP_TEXT,  /* --stop */
    COMPLETION_MAX_TOKENS, /* --max-tokens */
    COMPLETION_CONTEXT,    /* the session is full */
    COMPLETION_INTERRUPTED,
    COMPLETION_UNREAD, /* stdout was closed */
    COMPLETION_FAILED
} completion_end;

typedef struct completion {
    /* set by the caller */
    const loaded *on;
    mote_sampling sampling;
    uint64_t max_tokens; /* 0: no limit */
    bool show_control;   /* control tokens are part of the text */
    cli_out *stream;     /* text is written here as it is generated; NULL: collected in `text` */
    int spec;            /* drafts: SPEC_AUTO, SPEC_OFF or a length */

    /* the result */
    completion_end end;
    strbuf text;        /* if stream is NULL */
    input_ids ids;      /* without the end token */
    double first_token; /* os_now when it was sampled */
    double ended;
    uint64_t drafted, accepted; /* draft tokens */

    /* internal */
    mote_token *tokens; /* [context + 1]: the prompt and the answer, which the session must hold */
    size_t n_tokens;
    spec *tuner; /* NULL: no drafts */
    spec_seq *seq;
    spec_item item; /* of the last step */
    mote_text_stream characters;
    stop_text stops;
} completion;

/* `stop` must outlive the completion. */
mote_status completion_init(completion *a, const flag_list *stop, mote_error *err);
void completion_fini(completion *a);
/* Fails only if the engine does or memory runs out; then a->end is COMPLETION_FAILED and the result
 * so far is valid. */
mote_status completion_run(completion *a, mote_error *err);

/* "end_token", "stop_text" ... */
const char *completion_end_name(completion_end end);
/* The finish reason of the JSON output: "stop", "length", "interrupted" or "error". */
const char *completion_finish(completion_end end);

#endif
