/* SPDX-License-Identifier: Apache-2.0 */
/* http_server_test.c - src/server/http alone: a handler of a few lines, no model, no API. */
#include "server/http/http_server.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- the server under test ---- */

typedef struct app {
    int finished, last_status;
    bool stopped;
} app;

static bool on_head(void *context, const exchange *x, http_request *request, http_error *error)
{
    (void)context;
    (void)x;
    if (!str_is(request->path, "/missing"))
        return true;
    http_error_set(error, HTTP_E_NOT_FOUND, "not_found", "unknown path");
    return false;
}

static void on_request(void *context, exchange *x)
{
    const http_request *r = exchange_request(x);
    assert_ptr_equal(context, exchange_context(x));
    if (!str_is(r->path, "/stream")) {
        exchange_reply(x, 200, "text/plain", r->method == HTTP_POST ? r->body : r->path);
        return;
    }
    exchange_begin(x, 200, "text/plain");
    exchange_write(x, str_of("one "));
    exchange_write(x, str_of("two"));
    exchange_end(x);
}

static void on_finished(void *context, const exchange *x, log_request *line)
{
    app *a = context;
    (void)x;
    a->finished++;
    a->last_status = line->status;
}

static int app_print_error(void *context, const exchange *x, const http_error *e, strbuf *out)
{
    (void)context;
    (void)x;
    strbuf_text(out, e->code);
    return http_error_status(e->kind);
}

static void on_stop(void *context)
{
    app *a = context;
    a->stopped = true;
}

static void *run(void *with)
{
    http_server_run(with);
    return NULL;
}

/* ---- a client ---- */

static int connect_to(const char *path)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    snprintf(to.sun_path, sizeof to.sun_path, "%s", path);
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_true(fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0);
    return fd;
}

/* Sends a request on a new connection and reads until the server closes it. */
static void talk(const char *path, const char *request, char *reply, size_t room)
{
    const int fd = connect_to(path);
    assert_int_equal(write(fd, request, strlen(request)), strlen(request));
    size_t n = 0;
    for (ssize_t got; (got = read(fd, reply + n, room - 1 - n)) > 0;)
        n += (size_t)got;
    reply[n] = '\0';
    close(fd);
}

static void check(const char *path, const char *request, const char *status, const char *end)
{
    char reply[4096];
    talk(path, request, reply, sizeof reply);
    assert_memory_equal(reply, status, strlen(status));
    assert_true(strlen(reply) >= strlen(end));
    assert_string_equal(reply + strlen(reply) - strlen(end), end);
}

static void test_server(void **state)
{
    (void)state;
    app a = {0};
    char path[64], address[80];
    snprintf(path, sizeof path, "http-server-%ld.sock", (long)getpid());
    snprintf(address, sizeof address, "unix:%s", path);
    const char *const listen[] = {address};
    limits l;
    limits_init(&l);
    l.at[LIMIT_BODY] = 1024;
    const http_server_options options = {.limits = &l, .listen = listen, .n_listen = 1};
    const http_hooks hooks = {.on_head = on_head,
                              .on_request = on_request,
                              .on_finished = on_finished,
                              .print_error = app_print_error,
                              .on_stop = on_stop,
                              .context = &a};
    mote_error err;
    http_server *h;
    pthread_t thread;
    assert_int_equal(http_server_new(&h, &options, &hooks, &err), MOTE_OK);
    assert_int_equal(http_server_listening(h)->n, 1);
    assert_int_equal(http_server_start(h, &err), MOTE_OK);
    assert_int_equal(pthread_create(&thread, NULL, run, h), 0);

#define CLOSE "Host: localhost\r\nConnection: close\r\n"
    check(path, "GET /a%20b HTTP/1.1\r\n" CLOSE "\r\n", "HTTP/1.1 200 OK\r\n", "\r\n\r\n/a b");
    check(path, "POST / HTTP/1.1\r\n" CLOSE "Content-Length: 5\r\n\r\nhello", "HTTP/1.1 200 OK\r\n",
          "\r\n\r\nhello");
    check(path, "GET /stream HTTP/1.1\r\n" CLOSE "\r\n", "HTTP/1.1 200 OK\r\n",
          "\r\n\r\n7\r\none two\r\n0\r\n\r\n");
    check(path, "GET /missing HTTP/1.1\r\n" CLOSE "\r\n", "HTTP/1.1 404 Not Found\r\n",
          "\r\n\r\nnot_found");
    check(path, "POST / HTTP/1.1\r\n" CLOSE "Content-Length: 1025\r\n\r\n",
          "HTTP/1.1 413 Content Too Large\r\n", "\r\n\r\nrequest_too_large");
    check(path, "GET / HTTP/1.1\n\n", "HTTP/1.1 400 Bad Request\r\n", "\r\n\r\nbad_request");
    /* two requests on one connection */
    check(path, "GET /1 HTTP/1.1\r\nHost: localhost\r\n\r\nGET /2 HTTP/1.1\r\n" CLOSE "\r\n",
          "HTTP/1.1 200 OK\r\n", "\r\n\r\n/2");
#undef CLOSE

    http_server_stop(h);
    pthread_join(thread, NULL);
    http_stats stats;
    http_server_read_stats(h, &stats);
    assert_int_equal(stats.connections, 0);
    assert_int_equal(stats.requests, 5);
    assert_int_equal(stats.refused_requests, 3);
    assert_int_equal(stats.body_bytes, 0);
    assert_int_equal(a.finished, 8);
    assert_int_equal(a.last_status, 200);
    assert_true(a.stopped);
    http_server_free(h);
    assert_int_equal(access(path, F_OK), -1); /* the socket is removed */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_server)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
