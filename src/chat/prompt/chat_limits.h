/* SPDX-License-Identifier: Apache-2.0 */
/* chat_limits.h - how large a conversation may be, and how much of an answer is held at once. */
#ifndef MOTE_CHAT_PROMPT_CHAT_LIMITS_H
#define MOTE_CHAT_PROMPT_CHAT_LIMITS_H

#include "grammar/rules/gbnf.h"
#include "grammar/schema/schema.h"

enum {
    /* of a request */
    CHAT_MAX_MESSAGES = 2048,
    CHAT_MAX_TOOLS = 128,
    CHAT_MAX_PARTS = 1024, /* of one message */
    CHAT_MAX_IMAGES = 16,  /* of the whole request; videos too */
    CHAT_MAX_CALLS = 128,  /* of one message */
    CHAT_MAX_NAME = 128,   /* bytes of a tool's name */
    CHAT_MAX_SCHEMA = SCHEMA_MAX_BYTES,
    CHAT_MAX_GRAMMAR = GBNF_MAX_BYTES,

    /* of an answer: what is longer is not taken for a call */
    CHAT_MAX_CALL_BYTES = 4 << 20,
    CHAT_MAX_HEAD = 256,  /* bytes from `<function=` or `<parameter=` to the `>` */
    CHAT_MAX_BLANKS = 256 /* blanks between one tag and the next */
};

#endif
