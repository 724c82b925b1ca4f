/* SPDX-License-Identifier: Apache-2.0 */
/* anthropic.h - between the reader and the printer of Anthropic's messages. */
#ifndef MOTE_SERVER_API_ANTHROPIC_ANTHROPIC_H
#define MOTE_SERVER_API_ANTHROPIC_ANTHROPIC_H

#include "server/generation/dialect.h"

typedef enum anthropic_block {
    BLOCK_NONE = 0,
    BLOCK_THINKING,
    BLOCK_TEXT,
    BLOCK_CALL
} anthropic_block;

/* ask.own. There is one choice, so one stream of blocks. */
typedef struct anthropic_state {
    bool omit_thinking;   /* its text is not wanted, that there was some is */
    anthropic_block open; /* the block that is being streamed */
    uint32_t blocks;      /* begun so far */
} anthropic_state;

/* Everything but max_tokens, which only an answer needs. */
bool anthropic_read_prompt(request *a, http_error *error);
bool anthropic_read(request *a, http_error *error);

#endif
