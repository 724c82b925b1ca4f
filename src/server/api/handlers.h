/* SPDX-License-Identifier: Apache-2.0 */
/* handlers.h - the functions behind the rows of routes.c, by the file that has them. */
#ifndef MOTE_SERVER_API_HANDLERS_H
#define MOTE_SERVER_API_HANDLERS_H

#include "server/http/exchange.h"

/* route_health.c: GET /, GET /health and /v1/health, OPTIONS of every path */
void handle_root(exchange *x);
void handle_health(exchange *x);
void handle_options(exchange *x);
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

/* dialect_anthropic.c: POST /v1/messages, /v1/messages/count_tokens */
void handle_messages(exchange *x);
void handle_count_tokens(exchange *x);
/* dialect_ollama.c: POST /api/chat, /api/generate */
void handle_ollama_chat(exchange *x);
void handle_ollama_generate(exchange *x);
/* route_ollama_models.c: GET and HEAD /api/version, /api/tags; GET /api/ps */
void handle_ollama_version(exchange *x);
void handle_ollama_tags(exchange *x);
void handle_ollama_ps(exchange *x);
void handle_ollama_show(exchange *x);        /* POST /api/show */
void handle_ollama_pull(exchange *x);        /* POST /api/pull */
void handle_ollama_delete(exchange *x);      /* DELETE /api/delete */
void handle_ollama_unsupported(exchange *x); /* POST /api/create, copy, push, blobs */
/* route_ollama_embed.c: POST /api/embed, /api/embeddings */
void handle_ollama_embed(exchange *x);
void handle_ollama_embeddings(exchange *x);
/* route_status.c: GET /metrics, /v1/status */
void handle_metrics(exchange *x);
void handle_status(exchange *x);
/* route_extras.c: GET /props, /slots, /v1/requests/ and a wildcard */
void handle_props(exchange *x);
void handle_props_change(exchange *x); /* POST /props */
void handle_slots(exchange *x);
void handle_not_offered(exchange *x); /* known paths without a function here */
void handle_request_stats(exchange *x);
/* route_cache.c: GET and DELETE /v1/cache; DELETE /v1/cache/ and a wildcard; POST /v1/cache/pin */
void handle_unload(exchange *x);
void handle_cache(exchange *x);
void handle_cache_prefix(exchange *x);
void handle_cache_pin(exchange *x);
void handle_tokenize(exchange *x);       /* POST /tokenize */
void handle_detokenize(exchange *x);     /* POST /detokenize */
void handle_apply_template(exchange *x); /* POST /apply-template */
/* route_score.c: POST /v1/score, /v1/rerank and /rerank; dialect_infill.c: POST /infill */
void handle_score(exchange *x);
void handle_rerank(exchange *x);
void handle_infill(exchange *x);

#endif
