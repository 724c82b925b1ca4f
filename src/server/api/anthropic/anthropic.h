/* SPDX-License-Identifier: Apache-2.0 */
/* anthropic.h - shared by the reader and the printer of POST /v1/messages. */
#ifndef MOTE_SERVER_API_ANTHROPIC_ANTHROPIC_H
#define MOTE_SERVER_API_ANTHROPIC_ANTHROPIC_H

#include "server/api/common/dialect.h"

/* Handlers of the route table. */
void handle_messages(exchange *x);
void handle_count_tokens(exchange *x);

typedef enum anthropic_block {
    BLOCK_NONE = 0,
    BLOCK_THINKING,
    BLOCK_TEXT,
    BLOCK_CALL
} anthropic_block;

/* request.own. There is one choice, so one sequence of content blocks. */
typedef struct anthropic_state {
    bool omit_thinking;   /* send thinking blocks without their text */
    anthropic_block open; /* the block being streamed */
    uint32_t blocks;      /* number of blocks started */
} anthropic_state;

/* Reads the body except max_tokens, which count_tokens does not require. */
bool anthropic_read_prompt(request *a, http_error *error);
bool anthropic_read(request *a, http_error *error);

#endif
