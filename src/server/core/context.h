/* SPDX-License-Identifier: Apache-2.0 */
/*
 * context.h - what a server keeps for its dialects, and when the loop calls them.
 *
 * Made after the scheduler and freed before it; in between belongs to the loop thread.
 */
#ifndef MOTE_SERVER_CORE_CONTEXT_H
#define MOTE_SERVER_CORE_CONTEXT_H

#include "server/core/text_store.h"
#include "server/server.h"

typedef struct api api;
struct generation;

mote_status api_new(api **out, mote_error *err);
/* Nobody may be connected any more. NULL is allowed. */
void api_free(api *a);

/* The function for sched_collect, whatever `with` is: all jobs of a server are made by
 * answering.c, so all owners are its own. */
sched_event_fn api_collected;
/* Once a second, on the loop: those who wait are told that they do. */
void api_tick(server *s);

/* What server.c returns for server_api. */
struct generation **generation_list(api *a); /* the first of a list */
/* Replies of /v1/responses. Any thread. */
text_store *api_responses(api *a);
/* The items of those replies, each by its id. Any thread. */
text_store *api_items(api *a);

/* The `mote` objects of the last requests, for those who ask later. Forgetting is allowed. Any
 * thread. */
void report_store_put(api *a, const char *request_id, uint64_t ns, str json);
/* Appends it to *out; "last" is the last one of the realm. false: it is not known. */
bool report_store_get(api *a, str request_id, uint64_t ns, strbuf *out);

#endif
