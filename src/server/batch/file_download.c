/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file_download.c - GET /v1/files/ID/content: a stored file as the body of a reply, piece by piece.
 *
 * Results have any size, so the file is never in memory as a whole. A worker thread reads a piece, the
 * event loop writes it, and the next one is read when the client has taken it. A client that stops
 * reading is disconnected like that of any other reply (--limit stall-seconds).
 */
#include "base/mem.h"
#include "server/batch/batch_api.h"
#include "server/batch/file_store.h"
#include "server/core/context.h"
#include "server/http/event_loop.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

typedef struct file_download {
    exchange *x; /* NULL: the client has disconnected */
    server_context *ctx;
    char path[FILE_PATH_BYTES];
    int fd; /* -1: not open yet */
    uint64_t bytes, sent;
    bool begun;   /* the head of the reply is written */
    bool reading; /* a worker has it */
    bool failed;  /* the file could not be read */
    size_t n, room;
    char *piece; /* [room], n of which are read */
} file_download;

static void download_free(file_download *d)
{
    if (d->fd >= 0)
        close(d->fd);
    mem_free(d->piece);
    mem_free(d);
}

/* Worker thread. */
static void download_read(void *with)
{
    file_download *d = with;
    const uint64_t left = d->bytes - d->sent;
    const size_t wanted = left < d->room ? (size_t)left : d->room;
    if (d->fd < 0)
        d->fd = open(d->path, O_RDONLY | O_CLOEXEC);
    d->failed = d->fd < 0;
    for (d->n = 0; d->n < wanted && !d->failed;) {
        const ssize_t n = pread(d->fd, d->piece + d->n, wanted - d->n, (off_t)(d->sent + d->n));
        if (n > 0)
            d->n += (size_t)n;
        else
            d->failed = n == 0 || errno != EINTR;
    }
}

static void download_fail(file_download *d)
{
    http_error error;
    if (d->begun) {
        exchange_abort(d->x); /* the client sees that the body is too short */
    } else {
        http_error_set(&error, HTTP_E_UNAVAILABLE, "storage_failed", "the file could not be read");
        exchange_fail(d->x, &error);
    }
    download_free(d);
}

static void download_next(void *with);

static void download_write(void *with)
{
    file_download *d = with;
    d->reading = false;
    if (d->x == NULL) {
        download_free(d);
        return;
    }
    if (d->failed) {
        download_fail(d);
        return;
    }
    if (!d->begun)
        exchange_begin_sized(d->x, 200, "application/octet-stream", (size_t)d->bytes);
    d->begun = true;
    exchange_write(d->x, (str){d->piece, d->n});
    d->sent += d->n;
    if (d->sent < d->bytes && exchange_request(d->x)->method != HTTP_HEAD) {
        exchange_on_drained(d->x, download_next, d);
        return;
    }
    exchange_end(d->x);
    download_free(d);
}

static void download_next(void *with)
{
    file_download *d = with;
    d->reading = event_loop_work(d->ctx->loop, WORK_SHORT, download_read, download_write, d);
    if (!d->reading)
        download_fail(d);
}

static void download_on_disconnect(void *with)
{
    file_download *d = with;
    d->x = NULL;
    if (!d->reading)
        download_free(d);
}

void download_start(exchange *x)
{
    const http_request *r = exchange_request(x);
    server_context *ctx = exchange_context(x);
    const str id = {r->tail.p, r->tail.n - strlen("/content")};
    stored_file file;
    http_error error;
    if (!file_store_find(ctx->files, id, r->ns, &file)) {
        file_missing(&error, id);
        exchange_fail(x, &error);
        return;
    }
    file_download *d = mem_new(1, sizeof *d);
    const size_t room = exchange_piece_bytes(x);
    char *piece = mem_new(1, room);
    if (d == NULL || piece == NULL) {
        mem_free(d);
        mem_free(piece);
        http_error_no_memory(&error);
        exchange_fail(x, &error);
        return;
    }
    *d = (file_download){
        .x = x, .ctx = ctx, .fd = -1, .bytes = file.bytes, .room = room, .piece = piece};
    file_store_path(ctx->files, file.id, ".data", d->path);
    exchange_on_disconnect(x, download_on_disconnect, d);
    download_next(d);
}
