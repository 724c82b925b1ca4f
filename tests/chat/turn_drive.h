/* SPDX-License-Identifier: Apache-2.0 */
/*
 * turn_drive.h - turns as a scheduler drives them: alone or several in one step, prompts read
 * whole or in slices, some coming later than others. What comes out is a log of events.
 */
#ifndef MOTE_TESTS_CHAT_TURN_DRIVE_H
#define MOTE_TESTS_CHAT_TURN_DRIVE_H

#include "chat/turn/response_format.h"
#include "chat/prompt/render.h"

/* What all guests share. */
typedef struct house {
    mote_engine *engine;
    chat_context chat_ctx;
    token_trie *words;
} house;

void house_open(house *h, mote_engine *engine);
void house_close(house *h);

enum { GUEST_TOOLS = 8 };

typedef struct guest {
    /* given */
    const char *request; /* JSON, see request_json.h; of a raw one the text itself */
    mote_answer_options how;
    bool raw, logprobs, ignore_end;
    uint32_t min_tokens;
    const bool *tool_allowed;
    size_t slice;     /* tokens read in one step; 0: all at once */
    size_t late;      /* steps before it comes */
    size_t enough_at; /* tokens of the answer after which thinking is to end; 0: never */
    /* made */
    json_doc *doc;
    chat_parsed parsed;
    chat_prompt prompt;
    chat_turn *turn;
    mote_session *session;
    chat_turn_want want;
    bool here;
    strbuf log;    /* "kind name text", a line for every event, escaped as in JSON */
    strbuf chosen; /* raw bytes of the choices of CHAT_EVENT_TOKEN */
} guest;

/* The turn alone, without a session. */
mote_status guest_invite(guest *g, const house *h, mote_error *err);
/* One step for all that are here and not over, or a wait; false: all are over. Aborts on errors. */
bool guests_step(house *h, guest *guests, size_t n);
/* To the end. */
void guests_stay(house *h, guest *guests, size_t n);
void guest_leave(guest *g);

/* What was written, without the prompt. */
const mote_token *guest_answer(const guest *g, size_t *n);
bool text_has(str text, str part);
/* The log has this text in it. */
bool guest_said(const guest *g, const char *text);

#endif
