/* SPDX-License-Identifier: Apache-2.0 */
/* fim.h - a gap between two texts as a prompt: the model's own marks around what is there. */
#ifndef MOTE_SERVER_REQUEST_FIM_H
#define MOTE_SERVER_REQUEST_FIM_H

#include "server/request/request.h"

/* A prompt more. `extra` is NULL or an array of {filename, text} that stand before it, as files
 * of the same project. */
bool fim_add_prompt(request *a, str before, str after, const json_node *extra, http_error *error);

#endif
