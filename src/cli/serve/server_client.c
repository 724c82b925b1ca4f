/* SPDX-License-Identifier: Apache-2.0 */
/* server_client.c - see server_client.h. Requests send Connection: close, so a reply ends with the
 * connection. */
#include "cli/serve/server_client.h"

#include "base/os_socket.h"
#include "base/runtime_file.h"
#include "cli/load/load.h"
#include "cli/term/output.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum { MAX_REPLY = 16 << 20, TIMEOUT = 10 /* seconds */ };

#define AT(member) offsetof(client_options, member)

const cli_flag client_flags[] = {
    {.name = "host",
     .kind = FLAG_TEXT,
     .value = "ADDRESS",
     .initial = "127.0.0.1:11435",
     .env = "MOTE_HOST",
     .at = AT(host),
     .help = "HOST:PORT, [IPV6]:PORT or unix:PATH"},
    {.name = "api-key-file",
     .kind = FLAG_TEXT,
     .value = "FILE",
     .at = AT(key_file),
     .help = "file with the API key as its first word; else MOTE_API_KEY, else the key that a "
             "local server without API keys made for its user"},
};

_Static_assert(sizeof client_flags / sizeof *client_flags == CLIENT_N_FLAGS, "CLIENT_N_FLAGS");

static bool client_copy(char *to, size_t room, const char *from, size_t n)
{
    if (n == 0 || n >= room)
        return false;
    memcpy(to, from, n);
    to[n] = '\0';
    return true;
}

static bool client_parse_port(server_client *r, const char *text)
{
    const size_t n = strspn(text, "0123456789");
    return n <= 5 && client_copy(r->port, sizeof r->port, text, n) &&
           (text[n] == '\0' || strcmp(text + n, "/") == 0);
}

bool client_parse(server_client *r, const char *address)
{
    r->is_unix = strncmp(address, "unix:", 5) == 0;
    snprintf(r->port, sizeof r->port, "11435");
    if (r->is_unix)
        return client_copy(r->host, sizeof r->host, address + 5, strlen(address + 5));
    if (strncmp(address, "http://", 7) == 0)
        address += 7;
    if (address[0] == '[') {
        const char *end = strchr(address, ']');
        return end != NULL &&
               client_copy(r->host, sizeof r->host, address + 1, (size_t)(end - address - 1)) &&
               (end[1] == '\0' || (end[1] == ':' && client_parse_port(r, end + 2)));
    }
    const size_t n = strcspn(address, ":/");
    return client_copy(r->host, sizeof r->host, address, n) &&
           (address[n] == '\0' || strcmp(address + n, "/") == 0 ||
            (address[n] == ':' && client_parse_port(r, address + n + 1)));
}

/* The key becomes part of a header: printable ASCII without spaces. */
static bool client_is_key(str text)
{
    for (size_t i = 0; i < text.n; i++)
        if (text.p[i] <= ' ' || text.p[i] > '~')
            return false;
    return text.n < CLIENT_KEY_BYTES;
}

static int client_find_key(server_client *r, const client_options *options)
{
    strbuf file = {0};
    const char *key = getenv("MOTE_API_KEY");
    str found = key != NULL ? str_of(key) : (str){"", 0};
    int code = options->key_file != NULL ? input_read(&file, options->key_file) : CLI_DONE;
    if (code == CLI_DONE && options->key_file != NULL) {
        found = (str){file.p, 0};
        while (found.n < file.n && file.p[found.n] > ' ')
            found.n++;
    }
    if (code == CLI_DONE && !client_is_key(found))
        code = msg_usage("invalid API key: only printable ASCII without spaces is possible");
    if (code == CLI_DONE && found.n > 0)
        memcpy(r->key, found.p, found.n);
    strbuf_fini(&file);
    return code;
}

/* Only for this machine: another one must not get to know the key. */
static bool client_is_here(const server_client *r)
{
    return r->is_unix || strcmp(r->host, "localhost") == 0 || strcmp(r->host, "::1") == 0 ||
           strncmp(r->host, "127.", 4) == 0;
}

/* The key of a request: the given one, else the one that a server without API keys writes for its
 * user. That key has all scopes and changes with every start of the server. So it is read for a
 * request and is not part of r, which `mote env` prints for other programs. */
static void client_request_key(const server_client *r, char key[CLIENT_KEY_BYTES])
{
    char address[CLIENT_HOST_BYTES + 16], name[RUNTIME_FILE_NAME_BYTES];
    snprintf(key, CLIENT_KEY_BYTES, "%s", r->key);
    if (key[0] != '\0' || !client_is_here(r))
        return;
    snprintf(address, sizeof address, "%s%s", r->is_unix ? "unix:" : ":",
             r->is_unix ? r->host : r->port);
    runtime_file_key_name(name, address);
    if (!runtime_file_read(getenv("XDG_RUNTIME_DIR"), name, key, CLIENT_KEY_BYTES) ||
        !client_is_key(str_of(key)))
        key[0] = '\0';
}

int client_open(server_client *r, const client_options *options)
{
    *r = (server_client){0};
    if (!client_parse(r, options->host))
        return msg_usage("invalid address %.200s (HOST:PORT, [IPV6]:PORT or unix:PATH)",
                         options->host);
    return client_find_key(r, options);
}

/* ---- sockets ---- */

static int client_no_server(const server_client *r, const char *why)
{
    return msg_fail(CLI_NO_SERVER, "no_server", "no server at %s%s%s: %s (start one: mote serve)",
                    r->host, r->is_unix ? "" : ":", r->is_unix ? "" : r->port, why);
}

static int client_connect_unix(const server_client *r)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    if (strlen(r->host) >= sizeof to.sun_path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(to.sun_path, r->host, strlen(r->host));
    const int fd = os_socket(AF_UNIX, SOCK_STREAM, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&to, sizeof to) != 0) {
        const int saved = errno;
        close(fd);
        errno = saved;
        return -1;
    }
    return fd;
}

/* Connects to the first address of the name that accepts. */
static int client_connect_tcp(const server_client *r, const char **why)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *all;
    const int code = getaddrinfo(r->host, r->port, &hints, &all);
    int fd = -1;
    if (code != 0) {
        *why = gai_strerror(code);
        return -1;
    }
    for (const struct addrinfo *a = all; a != NULL && fd < 0; a = a->ai_next) {
        fd = os_socket(a->ai_family, a->ai_socktype, a->ai_protocol);
        if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) != 0) {
            *why = strerror(errno);
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(all);
    return fd;
}

static bool socket_send(int fd, str text)
{
    while (text.n > 0) {
        const ssize_t n = send(fd, text.p, text.n, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        text.p += n;
        text.n -= (size_t)n;
    }
    return true;
}

static bool socket_read(int fd, strbuf *out)
{
    while (out->n < MAX_REPLY && strbuf_reserve(out, 65536)) {
        const ssize_t n = recv(fd, out->p + out->n, 65536, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n == 0;
        out->n += (size_t)n;
    }
    return false;
}

/* `document` NULL: a GET. */
static int client_head(char *head, size_t room, const server_client *r, const char *path,
                       const str *document)
{
    char content[96] = "", key[CLIENT_KEY_BYTES];
    client_request_key(r, key);
    if (document != NULL)
        snprintf(content, sizeof content,
                 "Content-Type: application/json\r\nContent-Length: %zu\r\n", document->n);
    return snprintf(
        head, room, "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%s%s%s%s\r\n",
        document != NULL ? "POST" : "GET", path, content,
        key[0] != '\0' ? "Authorization: Bearer " : "", key, key[0] != '\0' ? "\r\n" : "");
}

static int client_exchange(const server_client *r, const char *path, const str *document,
                           strbuf *reply)
{
    const struct timeval timeout = {.tv_sec = TIMEOUT};
    const char *why = "";
    char head[2 * CLIENT_KEY_BYTES];
    errno = 0;
    const int fd = r->is_unix ? client_connect_unix(r) : client_connect_tcp(r, &why);
    if (fd < 0)
        return client_no_server(r, why[0] != '\0' ? why : strerror(errno));
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
    const int n = client_head(head, sizeof head, r, path, document);
    const bool good = n > 0 && (size_t)n < sizeof head && socket_send(fd, (str){head, (size_t)n}) &&
                      (document == NULL || socket_send(fd, *document)) && socket_read(fd, reply);
    const int code =
        good ? CLI_DONE : client_no_server(r, errno != 0 ? strerror(errno) : "connection closed");
    close(fd);
    return code;
}

/* ---- replies ---- */

int client_status(str reply, size_t *body)
{
    if (reply.n < 12 || memcmp(reply.p, "HTTP/1.", 7) != 0)
        return 0;
    for (size_t i = 12; i + 4 <= reply.n; i++)
        if (memcmp(reply.p + i, "\r\n\r\n", 4) == 0) {
            const char *d = reply.p + 9;
            *body = i + 4;
            return (d[0] - '0') * 100 + (d[1] - '0') * 10 + (d[2] - '0');
        }
    return 0;
}

/* Reports an error body in OpenAI's format. */
static int client_report_error(int status, const char *path, str body)
{
    enum { FORBIDDEN = 403 };
    json_doc *doc = NULL;
    mote_error err;
    char name[48];
    if (json_doc_read(&doc, body, &err) != MOTE_OK)
        doc = NULL;
    const json_node *error = doc != NULL ? json_node_get(json_doc_root(doc), "error") : NULL;
    const str text = json_node_text(json_node_get(error, "message"));
    const str code = json_node_text(json_node_get(error, "code"));
    int exit_code = status == FORBIDDEN               ? CLI_REFUSED
                    : str_is(code, "model_not_found") ? CLI_NO_MODEL
                                                      : CLI_FAILED;
    snprintf(name, sizeof name, "%.*s", STR_ARG(code));
    if (text.n > 0)
        msg_fail(exit_code, name, "server: %.*s", STR_ARG(text));
    else
        msg_fail(exit_code, "http_status", "%s: status %d", path, status);
    json_doc_free(doc);
    return exit_code;
}

static int client_refused(int status, const char *path, str body)
{
    enum { UNAUTHORIZED = 401 };
    if (status == UNAUTHORIZED)
        return msg_fail(
            CLI_REFUSED, "invalid_api_key",
            "the server requires an API key: set MOTE_API_KEY or give --api-key-file; the "
            "user that started a server without API keys needs none");
    if (status == 0)
        return msg_fail(CLI_FAILED, "no_http", "the reply is not HTTP");
    return client_report_error(status, path, body);
}

static int client_request(const server_client *r, const char *path, const str *document,
                          strbuf *body)
{
    enum { GOOD = 200 };
    strbuf reply = {0};
    size_t at = 0;
    int code = client_exchange(r, path, document, &reply);
    if (code == CLI_DONE) {
        const str all = strbuf_view(&reply);
        const int status = client_status(all, &at);
        code =
            status == GOOD ? CLI_DONE : client_refused(status, path, (str){all.p + at, all.n - at});
    }
    body->n = 0;
    if (code == CLI_DONE)
        strbuf_put(body, (str){reply.p + at, reply.n - at});
    if (code == CLI_DONE && (reply.failed || body->failed))
        code = msg_no_memory("the reply of the server");
    strbuf_fini(&reply);
    return code;
}

int client_get(const server_client *r, const char *path, strbuf *body)
{
    return client_request(r, path, NULL, body);
}

int client_post(const server_client *r, const char *path, str document, strbuf *body)
{
    return client_request(r, path, &document, body);
}
