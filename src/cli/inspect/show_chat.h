/* SPDX-License-Identifier: Apache-2.0 */
/* show_chat.h - how conversations with a model are written, and its sampler settings. */
#ifndef MOTE_CLI_INSPECT_SHOW_CHAT_H
#define MOTE_CLI_INSPECT_SHOW_CHAT_H

#include "cli/term/json_out.h"

#include <mote.h>

void show_chat_text(const mote_model *model, cli_out *o);
/* Writes the key "chat" and its value into the object that is open. */
void show_chat_json(const mote_model *model, json *j);

#endif
