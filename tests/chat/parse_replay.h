/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parse_replay.h - an answer through the parser, cut into tokens in any way, and
 * its events as one line of text each.
 */
#ifndef MOTE_TESTS_CHAT_PARSE_REPLAY_H
#define MOTE_TESTS_CHAT_PARSE_REPLAY_H

#include "chat/chat_rig.h"
#include "chat/parse/parse.h"

/* A stretch of an answer: a control token, or bytes. */
typedef struct replay_piece {
    mote_token control; /* -1: bytes */
    str bytes;
} replay_piece;

enum { REPLAY_MAX_PIECES = 64 };

typedef struct replay {
    const mote_model *model;
    const chat_template *how;
    const json_node *const *tools;
    size_t n_tools;
    bool thinking, cut;
    bool constrained; /* as if a grammar held the calls */
    replay_piece pieces[REPLAY_MAX_PIECES];
    size_t n_pieces;
    size_t bytes; /* of all pieces that are bytes */
    mote_token of_byte[256];
    strbuf log; /* what came out: "kind text\n", deltas joined, text escaped as in JSON */
    chat_event_kind last;
    bool open;        /* the last line can go on */
    strbuf arguments; /* of the call that is open */
    bool in_call;
    bool tokens; /* the last run told of them; every other one does */
    size_t fed, next_token, told_bytes, content_bytes;
    bool after_token;
    const char *fault; /* a rule that holds for all events was broken */
} replay;

/* Finds the token of every single byte. */
void replay_init(replay *r, const mote_model *model, const chat_template *how);
void replay_fini(replay *r);

/* Text in which control tokens are meant; or bytes as they are. */
void replay_add_text(replay *r, str text);
void replay_add_bytes(replay *r, str bytes);

/* Parses; cuts[i] says whether a token ends before byte i (of all bytes). NULL: as the
 * tokenizer cuts them. The log is made anew. */
void replay_run(replay *r, const bool *cuts);

/* What the last run came to: its log without the lines of starts and cancellations, which are all
 * that may differ if calls are told of early. */
void replay_outcome(const replay *r, strbuf *out);
/* With a grammar a call stays one although the model stops before the required parameters, which
 * a grammar would not let it do: then outcomes differ. `log` is one without. */
bool replay_may_differ(const replay *r, str log);

#endif
