/* SPDX-License-Identifier: Apache-2.0 */
/* connection_int.h - a connection from the inside: for connection.c, which runs one, and
 * connection_set.c, which has all of them. */
#ifndef MOTE_SERVER_HTTP_CONNECTION_INT_H
#define MOTE_SERVER_HTTP_CONNECTION_INT_H

#include "server/http/connection.h"
#include "server/http/request_reader.h"

#include <uv.h>

enum { CONNECTION_READ_BYTES = 65536 };

typedef enum connection_phase {
    CONNECTION_OPEN,
    CONNECTION_LINGERING, /* the reply is sent, the client may still be writing */
    CONNECTION_CLOSING
} connection_phase;

struct connection {
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } as;
    connection_set *all;
    peer *who;
    connection_phase phase;
    reader reader;
    strbuf in;
    size_t in_at;   /* of `in`, used up */
    strbuf out;     /* to be handed to the system */
    strbuf sending; /* the system has it */
    uv_write_t write;
    uv_shutdown_t shutdown;
    bool writing, reading, ended, keep, doomed, touched;
    bool eof;           /* nothing more comes from the client */
    double progress;    /* the system last took something */
    size_t left_before; /* bytes it had not taken then */
    size_t lingered;
    struct connection *next, *previous; /* of all */
    struct connection *next_touched;
};

struct connection_set {
    server *server;
    event_loop *loop;
    connection *first;
    connection *touched;
    uint32_t n;
    /* Listeners with a connection that there was no memory for: libuv says nothing of others before
     * it is accepted, so it is tried again at the next sweep. */
    struct {
        uv_stream_t *listener;
        bool is_unix;
    } later[SERVER_MAX_LISTEN];
    size_t n_later;
    char buffer[CONNECTION_READ_BYTES]; /* of one read; its bytes are taken before the next */
};

/* Its turn at the end of the loop's: sends, goes on with the next request, or ends. */
void connection_turn(connection *c);
/* Asks for what the client sends. */
void connection_start_reading(connection *c);
/* Bytes of replies that the system has not taken. */
size_t connection_unsent(const connection *c);
/* Not under the hands of a handler: at the end of a turn, or before anybody knows it. */
void connection_close_now(connection *c);

#endif
