/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server_client.h - HTTP client for the commands about a running `mote serve`.
 *
 * One GET or POST at a time, over TCP or a UNIX socket, with a timeout of 10 s. Functions that
 * return int return an exit code and have reported the error unless it is 0.
 */
#ifndef MOTE_CLI_SERVE_SERVER_CLIENT_H
#define MOTE_CLI_SERVE_SERVER_CLIENT_H

#include "base/str.h"
#include "cli/args/command.h"
#include "json/json.h"

typedef struct client_options {
    const char *host; /* address, see client_parse */
    const char *key_file;
} client_options;

/* The flags of a flag_group with a client_options at its base. */
extern const cli_flag client_flags[];
enum { CLIENT_N_FLAGS = 2 };
#define CLIENT_FLAG_GROUP(base)                                                                    \
    {                                                                                              \
        "Server", client_flags, CLIENT_N_FLAGS, base                                               \
    }

enum { CLIENT_KEY_BYTES = 600, CLIENT_HOST_BYTES = 256 };

typedef struct server_client {
    char host[CLIENT_HOST_BYTES]; /* without port; the path of a UNIX socket */
    char port[8];
    bool is_unix;
    char key[CLIENT_KEY_BYTES]; /* "": none */
} server_client;

/* Parses "127.0.0.1:11435", "http://localhost:11435/", "[::1]:11435" or "unix:PATH". */
bool client_parse(server_client *r, const char *address);
int client_open(server_client *r, const client_options *options);
/* Replaces `body` with the body of a reply with status 200. */
int client_get(const server_client *r, const char *path, strbuf *body);
/* The same for a POST of a JSON document. */
int client_post(const server_client *r, const char *path, str document, strbuf *body);
/* A count in a reply; 0 if the member is missing. */
static inline uint64_t client_number(const json_node *object, const char *name)
{
    int64_t n = 0;
    return json_node_int64(json_node_get(object, name), &n) && n > 0 ? (uint64_t)n : 0;
}
/* Status of a reply and the offset of its body; 0: not HTTP. */
int client_status(str reply, size_t *body);

#endif
