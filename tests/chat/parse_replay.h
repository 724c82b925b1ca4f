/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parse_replay.h - feeds an answer to the parser, cut into tokens in a given way, and logs its
 * events as lines of text.
 */
#ifndef MOTE_TESTS_CHAT_PARSE_REPLAY_H
#define MOTE_TESTS_CHAT_PARSE_REPLAY_H

#include "chat/chat_rig.h"
#include "chat/parse/parse.h"

/* Part of an answer: a control token, or bytes. */
typedef struct replay_piece {
    mote_token control; /* -1: bytes */
    str bytes;
} replay_piece;

enum { REPLAY_MAX_PIECES = 64 };

typedef struct replay {
    const mote_model *model;
    const chat_template *template;
    const json_node *const *tools;
    size_t n_tools;
    bool thinking, cut;
    bool constrained; /* chat_parser_options.constrained */
    replay_piece pieces[REPLAY_MAX_PIECES];
    size_t n_pieces;
    size_t bytes; /* in all pieces that are bytes */
    mote_token of_byte[256];
    strbuf log; /* events: "kind text\n", deltas joined, text escaped as in JSON */
    chat_event_kind last;
    bool open;        /* the last line may be continued */
    strbuf arguments; /* of the open call */
    bool in_call;
    bool tokens; /* the last run had token events; every other run has */
    size_t fed, next_token, token_bytes, content_bytes;
    bool after_token;
    const char *fault; /* the rule that an event violated; NULL: none */
} replay;

/* Finds the tokens of single bytes. */
void replay_init(replay *r, const mote_model *model, const chat_template *template);
void replay_fini(replay *r);

/* Text with control tokens spelled in it; or plain bytes. */
void replay_add_text(replay *r, str text);
void replay_add_bytes(replay *r, str bytes);

/* Parses and replaces the log. cuts[i]: a token ends before byte i (of all bytes). NULL: the cuts
 * of the tokenizer. */
void replay_run(replay *r, const bool *cuts);

/* The log of the last run without call starts and cancellations. Only these may differ between
 * calls that stream and calls that are sent whole. */
void replay_outcome(const replay *r, strbuf *out);
/* Whether outcomes may differ with `constrained`: a call that lacks required parameters is then
 * repaired instead of rejected. `log` is a log without it. */
bool replay_may_differ(const replay *r, str log);

#endif
