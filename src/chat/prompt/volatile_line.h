/* SPDX-License-Identifier: Apache-2.0 */
/*
 * volatile_line.h - lines of prompts that differ between two sessions of the same program.
 *
 * Coding agents write the date and the working directory into their system prompt or first message,
 * usually near its end. Everything before such a line is equal in the next session. Rendering puts
 * a mark there, so that the prefix cache keeps a recurrent state in front of it.
 */
#ifndef MOTE_CHAT_PROMPT_VOLATILE_LINE_H
#define MOTE_CHAT_PROMPT_VOLATILE_LINE_H

#include "base/str.h"

/* Offset of the first line that names a date, a time or a working directory; text.n: none. The
 * first line of the text does not count, as nothing is before it. */
size_t volatile_line_find(str text);

#endif
