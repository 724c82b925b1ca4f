/* SPDX-License-Identifier: Apache-2.0 */
/* handlers.h - the functions behind the rows of routes.c, by the file that has them. */
#ifndef MOTE_SERVER_HANDLERS_H
#define MOTE_SERVER_HANDLERS_H

#include "server/exchange.h"

/* dialect_openai_chat.c: POST /v1/chat/completions, /chat/completions */
void handle_chat_completions(exchange *x);
void handle_chat_input_tokens(exchange *x); /* POST /v1/chat/completions/input_tokens */
void handle_chat_control(exchange *x);      /* POST /v1/chat/completions/control */
/* dialect_completions.c: POST /v1/completions */
void handle_completions(exchange *x);
/* route_models.c: GET /v1/models, GET /v1/models/ and a wildcard */
void handle_models(exchange *x);
void handle_model(exchange *x);
/* route_embeddings.c: POST /v1/embeddings */
void handle_embeddings(exchange *x);
/* dialect_responses.c: POST /v1/responses, POST /v1/responses/input_tokens */
void handle_responses(exchange *x);
void handle_responses_input_tokens(exchange *x);
/* GET, DELETE and POST /v1/responses/ and a wildcard: ID, ID/cancel, ID/input_items */
void handle_response(exchange *x);

#endif
