/* SPDX-License-Identifier: Apache-2.0 */
/*
 * message_form.h - the form in which messages are compared with those of earlier requests.
 *
 * Clients do not send an assistant message back as the model wrote it. They remove the reasoning,
 * trim the text, drop blank lines and serialise the arguments of tool calls again. The form of a
 * message has none of that: two messages with equal forms have the same visible content.
 *
 *   text        without reasoning, outer white space, blank lines and blanks at the ends of lines;
 *               runs of blanks inside a line are one blank; indentation stays
 *   arguments   members sorted by name, numbers by value
 *   ids         of tool calls are not part of it
 */
#ifndef MOTE_SCHED_MESSAGE_FORM_H
#define MOTE_SCHED_MESSAGE_FORM_H

#include "chat/prompt/message.h"

/* Replaces `out` with the form of a message. Out of memory: out->failed. */
void message_form_of(strbuf *out, const chat_message *message);
/* The form has neither a text nor a call. */
bool message_form_is_empty(str form);

/* For two assistant messages with the same call id: is `sent` the message `stored`? The names of
 * the calls must be equal, and the values of arguments that both have. Clients fill in defaults and
 * remove unknown arguments, and some leave out the text next to a call. */
bool message_form_is_near(str stored, str sent);

#endif
