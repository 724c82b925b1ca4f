/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server_client.h - asking a running `mote serve`, for the commands that are about it.
 *
 * One GET or POST at a time over TCP or a UNIX socket. Functions return an exit code and have said
 * what is wrong unless it is 0.
 */
#ifndef MOTE_CLI_SERVE_SERVER_CLIENT_H
#define MOTE_CLI_SERVE_SERVER_CLIENT_H

#include "base/strbuf.h"
#include "cli/args/command.h"
#include "json/json.h"

typedef struct client_options {
    const char *host; /* as the flag has it */
    const char *key_file;
} client_options;

/* For the `flags` of a flag_group whose base is a client_options. */
extern const cli_flag client_flags[];
enum { CLIENT_N_FLAGS = 2 };
#define CLIENT_FLAG_GROUP(base)                                                                    \
    {                                                                                              \
        "Which server", client_flags, CLIENT_N_FLAGS, base                                         \
    }

enum { CLIENT_KEY_BYTES = 600, CLIENT_HOST_BYTES = 256 };

typedef struct server_client {
    char host[CLIENT_HOST_BYTES]; /* without port; of a UNIX socket its path */
    char port[8];
    bool is_unix;
    char key[CLIENT_KEY_BYTES]; /* "": none */
} server_client;

/* "127.0.0.1:11435", "http://localhost:11435/", "[::1]:11435", "unix:PATH". False: it is none of
 * these.
 */
bool client_parse(server_client *r, const char *address);
int client_open(server_client *r, const client_options *options);
/* The body of a reply with status 200, which replaces what is in `body`. */
int client_get(const server_client *r, const char *path, strbuf *body);
/* The same after sending a JSON document. */
int client_post(const server_client *r, const char *path, str document, strbuf *body);
/* A member of a reply that counts something; 0 also if it is not there. */
static inline uint64_t client_number(const json_node *object, const char *name)
{
    int64_t n = 0;
    return json_node_int64(json_node_get(object, name), &n) && n > 0 ? (uint64_t)n : 0;
}
/* Where a reply's body begins, and its status; 0: it is no HTTP. */
int client_status(str reply, size_t *body);

#endif
