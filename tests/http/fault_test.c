/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fault_test.c - every allocation that a request leads to fails once.
 *
 * A server in this process on a UNIX socket, and a client that does not allocate. For each request
 * allocation 1 fails, then 2, and so on until the request uses fewer. Each time the client gets a
 * complete reply (the normal one or a 5xx error) or a closed connection, and a later request gets
 * the same reply as before, byte for byte.
 */
#include "base/mem.h"
#include "media/sandbox/decoder.h"
#include "server/server.h"
#include "support/data.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum { REPLY = 1 << 20, MOST = 4000, AT_A_TIME = 24 };

static char path[64];

static void die(const char *what, const char *detail)
{
    fprintf(stderr, "%s: %s\n", what, detail);
    exit(1);
}

/* ---- a client ---- */

static int dial(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    const struct timeval patience = {.tv_sec = 20};
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) != 0 ||
        connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
        die("no connection to the server", path);
    return fd;
}

/* Reads the reply, zero-terminated; empty if the connection was closed. */
static void ask(const char *target, const char *body, char reply[REPLY])
{
    char head[512];
    const int fd = dial();
    size_t n = 0;
    reply[0] = 0;
    const int length = snprintf(head, sizeof head,
                                "POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                                "Content-Type: application/json\r\nMote-Ext: 0\r\n"
                                "Content-Length: %zu\r\n\r\n",
                                target, strlen(body));
    /* a server without memory may close before it has read the request */
    (void)!send(fd, head, (size_t)length, MSG_NOSIGNAL);
    (void)!send(fd, body, strlen(body), MSG_NOSIGNAL);
    for (;;) {
        const ssize_t got = read(fd, reply + n, REPLY - 1 - n);
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            die("no reply in time after", reply);
        if (got <= 0)
            break;
        n += (size_t)got;
    }
    reply[n] = 0;
    close(fd);
}

/* Replaces what differs between replies: ids, dates and times. */
static void normalise(char *reply)
{
    static const char *const before[] = {"req_",
                                         "chatcmpl-",
                                         "cmpl-",
                                         "resp_",
                                         "msg_",
                                         "call_",
                                         "fc_",
                                         "rs_",
                                         "\"created\":",
                                         "created_at\":",
                                         "completed_at\":",
                                         "Date: ",
                                         "processing-ms: ",
                                         "\"timings\":{",
                                         "cached_tokens\":",
                                         "created_at\":\"",
                                         "_duration\":",
                                         "input_tokens\":",
                                         "signature\":\""};
    for (size_t i = 0; i < sizeof before / sizeof *before; i++)
        for (char *at = strstr(reply, before[i]); at != NULL; at = strstr(at, before[i])) {
            at += strlen(before[i]);
            const char *end = before[i][strlen(before[i]) - 1] == '{' ? "}" : "\",}\r\n";
            char *rest = at + strcspn(at, end);
            memmove(at, rest, strlen(rest) + 1);
        }
}

/* Removes chunk sizes, which depend on timing. */
static void join_chunks(char *text)
{
    char *to = text, *from = text;
    if (strstr(text, "data: ") == NULL)
        return;
    for (;;) {
        char *line = strstr(from, "\r\n");
        const size_t size = line != NULL ? strtoul(from, NULL, 16) : 0;
        if (size == 0)
            break;
        memmove(to, line + 2, size);
        to += size;
        from = line + 2 + size + 2;
    }
    *to = 0;
}

/* Removes SSE comments, which depend on timing. */
static void drop_comments(char *text)
{
    char *at = text;
    while ((at = strstr(at, "\n: ")) != NULL) {
        const char *rest = strstr(at + 1, "\n\n");
        if (rest == NULL)
            return;
        memmove(at + 1, rest + 2, strlen(rest + 2) + 1);
    }
}

/* ---- requests ---- */

#define USER   "\"messages\":[{\"role\":\"user\",\"content\":\"Tell me the emblem of Venvia.\"}]"
#define GREEDY "\"temperature\":0,\"seed\":1"
#define TOOL                                                                                       \
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"get_weather\",\"parameters\":"     \
    "{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\"}},\"required\":[\"city\"]" \
    "}}}]"

#define PIXEL                                                                                      \
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGPgOvELAAKsAc2BdyHWAAAAAElFTkSuQmCC"
#define SHOWN                                                                                      \
    "\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"image_url\":\"" PIXEL \
    "\"},{\"type\":\"text\",\"text\":\"What is it?\"}]}]"
/* Replaced by another number each time, so that the image is not in the cache. */
#define CHANGED "1000"

static const struct {
    const char *target, *body;
} requests[] = {
    {"/v1/chat/completions", "{" USER "," GREEDY ",\"logprobs\":true,\"n\":2}"},
    {"/v1/chat/completions", "{" USER "," GREEDY ",\"stream\":true,\"max_tokens\":6}"},
    {"/v1/chat/completions", "{" USER "," GREEDY "," TOOL ",\"tool_choice\":\"required\"}"},
    {"/v1/completions",
     "{\"prompt\":[\"The\",\"A\"]," GREEDY ",\"echo\":true,\"logprobs\":2,\"max_tokens\":3}"},
    {"/v1/responses", "{\"input\":\"What is 2 + 3?\"," GREEDY ",\"stream\":true,\"store\":true}"},
    {"/v1/embeddings", "{\"input\":[\"one\",\"two\"],\"dimensions\":8}"},
    {"/v1/messages",
     "{\"model\":\"m\",\"max_tokens\":8,\"temperature\":0," USER ",\"stream\":true}"},
    {"/api/chat", "{\"model\":\"m\"," USER ",\"stream\":false,\"options\":{" GREEDY "}}"},
    {"/v1/chat/completions", "{" SHOWN "," GREEDY ",\"image_tokens\":" CHANGED "}"},
    {"/api/chat",
     "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"What?\",\"images\":"
     "[\"" PIXEL "\"]}],\"stream\":false,\"options\":{" GREEDY "},\"image_tokens\":" CHANGED "}"},
};

/* Is this a valid reply of a server without memory? */
static bool is_acceptable(const char *reply)
{
    static const char *const begins[] = {"HTTP/1.1 200 ", "HTTP/1.1 500 ", "HTTP/1.1 503 ",
                                         "HTTP/1.1 429 ", "HTTP/1.1 529 "};
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        if (strncmp(reply, begins[i], strlen(begins[i])) == 0)
            return true;
    return reply[0] == 0;
}

static void send_request_number(size_t i, char reply[REPLY])
{
    static unsigned number = 1000;
    char body[1024], digits[8];
    snprintf(body, sizeof body, "%s", requests[i].body);
    char *changed = strstr(body, CHANGED);
    snprintf(digits, sizeof digits, "%u", ++number);
    if (changed != NULL)
        memcpy(changed, digits, 4);
    ask(requests[i].target, body, reply);
}

static void answer(size_t i, char reply[REPLY])
{
    send_request_number(i, reply);
    if (strncmp(reply, "HTTP/1.1 200 ", 13) != 0)
        die("a sound request failed", reply);
    char *text = strstr(reply, "\r\n\r\n") + 4;
    memmove(reply, text, strlen(text) + 1);
    join_chunks(reply);
    drop_comments(reply);
    normalise(reply);
}

/* Fails one allocation after another; every few failures it checks a normal reply. */
static void check_request(size_t i)
{
    static char wanted[REPLY], reply[REPLY];
    uint64_t n = 1, failures = 0;
    answer(i, wanted);
    for (; n < MOST; n++) {
        mem_fail_at(n);
        send_request_number(i, reply);
        const bool happened = mem_failed();
        mem_fail_at(0);
        if (!is_acceptable(reply))
            die("invalid reply without memory", reply);
        failures += happened;
        if (!happened)
            break;
        if (n % AT_A_TIME != 0)
            continue;
        answer(i, reply);
        if (strcmp(reply, wanted) != 0) {
            fprintf(stderr, "%s\n-- was --\n", reply);
            die("the reply has changed after a failure; before:", wanted);
        }
    }
    answer(i, reply);
    if (strcmp(reply, wanted) != 0)
        die("the reply has changed at the end", reply);
    printf("%s: %llu allocations failed\n", requests[i].target, (unsigned long long)failures);
    fflush(stdout);
}

/* ---- the server ---- */

static void *serve(void *with)
{
    mote_error err;
    if (server_run(with, &err) != MOTE_OK)
        die("the server ended", err.text);
    return NULL;
}

int main(int argc, char **argv)
{
    fork_server_begin(argc, argv);
    char model_path[TEST_PATH], mmproj_path[TEST_PATH], listen[80];
    mote_error err;
    fork_server *fs;
    mote_model *model;
    server *s;
    pthread_t thread;
    if (!test_data_path(model_path, "mote-tiny-Q4_K_M.gguf") ||
        !test_data_path(mmproj_path, "mmproj-mote-tiny-BF16.gguf"))
        return TEST_SKIPPED;
    if (fork_server_start(&fs, &err) != MOTE_OK)
        die("no fork server", err.text);
    snprintf(path, sizeof path, "fault-%ld.sock", (long)getpid());
    snprintf(listen, sizeof listen, "unix:%s", path);
    const mote_model_options opening = {.mmproj = mmproj_path};
    if (mote_model_open(&model, model_path, &opening, &err) != MOTE_OK)
        die("no model", err.text);
    static server_options options;
    options = (server_options){.models = {{.model = model, .path = model_path, .name = "m"}},
                               .n_models = 1,
                               .keep_alive = -1,
                               .fork_server = fs,
                               .limits = {"image-tokens=16384"},
                               .n_limits = 1,
                               .sched = {.parallel = 4, .kv_tokens = 4096, .threads = 1},
                               .listen = {listen},
                               .n_listen = 1,
                               .log = {.level = -1}};
    if (server_new(&s, &options, &err) != MOTE_OK)
        die("no server", err.text);
    if (pthread_create(&thread, NULL, serve, s) != 0)
        die("no thread", "");
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++)
        check_request(i);
    server_stop(s);
    pthread_join(thread, NULL);
    server_free(s);
    mote_model_close(model);
    fork_server_stop(fs);
    unlink(path);
    if (mem_count().blocks != 0)
        die("memory leak", "");
    return 0;
}
