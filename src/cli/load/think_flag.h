/* SPDX-License-Identifier: Apache-2.0 */
/* think_flag.h - what --think takes, in every command that has it, and /think in a chat. */
#ifndef MOTE_CLI_LOAD_THINK_FLAG_H
#define MOTE_CLI_LOAD_THINK_FLAG_H

#include <mote_chat.h>

#define THINK_FLAG_WORDS "on, off, auto, minimal, low, medium, high, max or a number of tokens"
#define THINK_FLAG_HELP                                                                            \
    "on, off, auto (by size), minimal, low, medium, high, max, or a number of tokens"

/* NULL or empty leaves both as they are. Otherwise an exit code, with what is wrong said. */
int think_flag_read(const char *how, mote_think *think, uint32_t *budget);

#endif
