/* SPDX-License-Identifier: Apache-2.0 */
/* chat_limits.h - size limits of a conversation and of what the parser buffers of an answer. */
#ifndef MOTE_CHAT_PROMPT_CHAT_LIMITS_H
#define MOTE_CHAT_PROMPT_CHAT_LIMITS_H

#include "grammar/rules/gbnf.h"
#include "grammar/schema/schema.h"

enum {
    /* per request */
    CHAT_MAX_MESSAGES = 2048,
    CHAT_MAX_TOOLS = 128,
    CHAT_MAX_PARTS = 1024, /* content parts per message */
    CHAT_MAX_IMAGES = 16,  /* images and videos together */
    CHAT_MAX_CALLS = 128,  /* tool calls per message */
    CHAT_MAX_NAME = 128,   /* bytes of a tool name */
    CHAT_MAX_SCHEMA = SCHEMA_MAX_BYTES,
    CHAT_MAX_GRAMMAR = GBNF_MAX_BYTES,

    /* per answer: text beyond these limits is content, not a tool call */
    CHAT_MAX_CALL_BYTES = 4 << 20,
    CHAT_MAX_HEAD = 256,  /* bytes from `<function=` or `<parameter=` to the `>` */
    CHAT_MAX_BLANKS = 256 /* blanks between two tags */
};

#endif
