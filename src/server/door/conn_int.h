/* SPDX-License-Identifier: Apache-2.0 */
/* conn_int.h - a connection from the inside: for conn.c, which runs one, and conns.c, which has
 * all of them. */
#ifndef MOTE_SERVER_DOOR_CONN_INT_H
#define MOTE_SERVER_DOOR_CONN_INT_H

#include "server/door/conn.h"
#include "server/door/reader.h"

#include <uv.h>

enum { CONN_READ_BYTES = 65536 };

typedef enum conn_phase {
    CONN_OPEN,
    CONN_LINGERING, /* the reply is sent, the client may still be writing */
    CONN_CLOSING
} conn_phase;

struct conn {
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } as;
    conns *all;
    peer *who;
    conn_phase phase;
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
    struct conn *next, *previous; /* of all */
    struct conn *next_touched;
};

struct conns {
    server *server;
    loop *loop;
    conn *first;
    conn *touched;
    uint32_t n;
    /* Listeners with a connection that there was no memory for: libuv says nothing of others before
     * it is accepted, so it is tried again at the next sweep. */
    struct {
        uv_stream_t *listener;
        bool is_unix;
    } later[SERVER_MAX_LISTEN];
    size_t n_later;
    char buffer[CONN_READ_BYTES]; /* of one read; its bytes are taken before the next */
};

/* Its turn at the end of the loop's: sends, goes on with the next request, or ends. */
void conn_turn(conn *c);
/* Asks for what the client sends. */
void conn_start_reading(conn *c);
/* Bytes of replies that the system has not taken. */
size_t conn_unsent(const conn *c);
/* Not under the hands of a handler: at the end of a turn, or before anybody knows it. */
void conn_close_now(conn *c);

#endif
