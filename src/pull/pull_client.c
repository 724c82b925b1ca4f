/* SPDX-License-Identifier: Apache-2.0 */
/* pull_client.c - implements pull_client.h. */
#include "pull/pull_client.h"

#include "base/fd_pass.h"
#include "base/mem.h"
#include "base/os.h"
#include "base/os_process.h"
#include "base/os_socket.h"
#include "pull/pull_main.h"
#include "store/file_hash.h"
#include "store/hf_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- settings ---- */

/* An environment variable; NULL if it is not set or empty. */
static const char *env(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && *value != '\0' ? value : NULL;
}

static const char *env_first(const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (env(names[i]) != NULL)
            return env(names[i]);
    return NULL;
}

/* As huggingface_hub reads a switch. */
static bool env_is_true(const char *name)
{
    static const char *const words[] = {"1", "on", "yes", "true"};
    const char *value = env(name);
    for (size_t i = 0; value != NULL && i < sizeof words / sizeof *words; i++)
        if (strcasecmp(value, words[i]) == 0)
            return true;
    return false;
}

const char *pull_offline(void)
{
    static const char *const names[] = {"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE",
                                        "MOTE_NO_NETWORK"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (env_is_true(names[i]))
            return names[i];
    return NULL;
}

/* Writes the path of a directory: `base` with a leading "~" replaced, then `tail`. */
static bool settings_path(char *out, const char *base, const char *tail)
{
    const char *home = env("HOME");
    char relative_to[PULL_PATH_BYTES] = "";
    const bool tilde = base[0] == '~' && (base[1] == '/' || base[1] == '\0');
    if (tilde && home == NULL)
        return false;
    if (!tilde && base[0] != '/' && getcwd(relative_to, sizeof relative_to - 1) == NULL)
        return false;
    const int n = tilde ? snprintf(out, PULL_PATH_BYTES, "%s%s%s", home, base + 1, tail)
                  : base[0] == '/'
                      ? snprintf(out, PULL_PATH_BYTES, "%s%s", base, tail)
                      : snprintf(out, PULL_PATH_BYTES, "%s/%s%s", relative_to, base, tail);
    return n > 0 && n < PULL_PATH_BYTES;
}

/* Home directory of huggingface_hub. */
static bool hf_home(char *out, const char *tail)
{
    char rest[256];
    snprintf(rest, sizeof rest, "/huggingface%s", tail);
    if (env("HF_HOME") != NULL)
        return settings_path(out, env("HF_HOME"), tail);
    if (env("XDG_CACHE_HOME") != NULL)
        return settings_path(out, env("XDG_CACHE_HOME"), rest);
    snprintf(rest, sizeof rest, "/.cache/huggingface%s", tail);
    return settings_path(out, "~", rest);
}

static bool settings_cache(char *out)
{
    const store_env variables = {
        .home = env("HOME"),
        .xdg_cache_home = env("XDG_CACHE_HOME"),
        .hf_hub_cache = env("HF_HUB_CACHE"),
        .huggingface_hub_cache = env("HUGGINGFACE_HUB_CACHE"),
        .hf_home = env("HF_HOME"),
    };
    char root[FILE_PATH_BYTES];
    return hf_cache_root(root, &variables) && settings_path(out, root, "");
}

/* Copies a token without outer blanks and line ends. */
static bool token_copy(char *token, size_t room, str text)
{
    static const char blank[] = " \t\r\n";
    while (text.n > 0 && strchr(blank, text.p[0]) != NULL && text.p[0] != '\0')
        text.p++, text.n--;
    while (text.n > 0 && strchr(blank, text.p[text.n - 1]) != NULL && text.p[text.n - 1] != '\0')
        text.n--;
    if (text.n >= room || (text.n > 0 && memchr(text.p, '\0', text.n) != NULL))
        return false;
    memcpy(token, text.p, text.n);
    token[text.n] = '\0';
    return true;
}

mote_status pull_token_read(char *token, size_t room, const char *path, mote_error *err)
{
    char text[4096];
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd >= 0 ? read(fd, text, sizeof text) : -1;
    const int error = errno;
    if (fd >= 0)
        close(fd);
    if (n < 0)
        return err_set(err, MOTE_E_IO, "cannot read the token file %s: %s", path, strerror(error));
    if (!token_copy(token, room, (str){text, (size_t)n}))
        return err_set(err, MOTE_E_ARG, "the file %s is not a token", path);
    return MOTE_OK;
}

/* HF_TOKEN, HUGGING_FACE_HUB_TOKEN, then the file that `hf auth login` writes. */
static mote_status settings_token(pull_settings *s, mote_error *err)
{
    static const char *const names[] = {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"};
    const char *direct = env_first(names, sizeof names / sizeof *names);
    char path[PULL_PATH_BYTES];
    if (env_is_true("HF_HUB_DISABLE_IMPLICIT_TOKEN"))
        return MOTE_OK;
    if (direct != NULL && !token_copy(s->token, sizeof s->token, str_of(direct)))
        return err_set(err, MOTE_E_ARG, "the token in HF_TOKEN is too long");
    if (s->token[0] != '\0')
        return MOTE_OK;
    const bool found = env("HF_TOKEN_PATH") != NULL ? settings_path(path, env("HF_TOKEN_PATH"), "")
                                                    : hf_home(path, "/token");
    if (!found || access(path, F_OK) != 0)
        return MOTE_OK;
    return pull_token_read(s->token, sizeof s->token, path, err);
}

static void settings_proxy(pull_request *r)
{
    static const char *const proxies[] = {"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"};
    static const char *const exceptions[] = {"no_proxy", "NO_PROXY"};
    if (r->proxy == NULL)
        r->proxy = env_first(proxies, sizeof proxies / sizeof *proxies);
    if (r->no_proxy == NULL)
        r->no_proxy = env_first(exceptions, sizeof exceptions / sizeof *exceptions);
}

/* Whole seconds, as huggingface_hub reads them; 0 is the default. More than an hour is an hour. */
static mote_status settings_seconds(double *out, const char *name, mote_error *err)
{
    char *end;
    const char *text = env(name);
    if (*out > 0 || text == NULL)
        return MOTE_OK;
    const long seconds = strtol(text, &end, 10);
    if (end == text || end[strspn(end, " \t\r\n")] != '\0' || seconds < 0)
        return err_set(err, MOTE_E_FORMAT, "%s is '%.60s'; it must be a whole number of seconds",
                       name, text);
    *out = seconds < 3600 ? (double)seconds : 3600;
    return MOTE_OK;
}

mote_status pull_settings_read(pull_settings *s, pull_request *r, mote_error *err)
{
    *s = (pull_settings){.token = ""};
    if (r->cache == NULL && !settings_cache(s->cache))
        return err_set(err, MOTE_E_ARG,
                       "no directory for models: HOME is not set; set HF_HUB_CACHE");
    if (r->cache == NULL)
        r->cache = s->cache;
    if (r->state == NULL && verified_directory(s->state, env("XDG_CACHE_HOME"), env("HOME")))
        r->state = s->state;
    if (r->endpoint == NULL)
        r->endpoint = env("HF_ENDPOINT");
    if (r->token == NULL) {
        TRY(settings_token(s, err));
        r->token = s->token;
        r->token_endpoint = env("HF_ENDPOINT") != NULL ? env("HF_ENDPOINT") : PULL_ENDPOINT;
    }
    settings_proxy(r);
    if (r->ca_file == NULL)
        r->ca_file = env("SSL_CERT_FILE");
    if (r->ca_dir == NULL)
        r->ca_dir = env("SSL_CERT_DIR");
    TRY(settings_seconds(&r->timeout, "HF_HUB_DOWNLOAD_TIMEOUT", err));
    TRY(settings_seconds(&r->etag_timeout, "HF_HUB_ETAG_TIMEOUT", err));
    if (r->retry_wait <= 0 && env("MOTE_PULL_RETRY_WAIT") != NULL) {
        const double seconds = strtod(env("MOTE_PULL_RETRY_WAIT"), NULL);
        r->retry_wait = seconds > 0 && seconds <= 60 ? seconds : 0;
    }
    r->no_symlinks = r->no_symlinks || env_is_true("HF_HUB_DISABLE_SYMLINKS");
    return MOTE_OK;
}

/* ---- the process ---- */

#ifdef MOTE_ONE_FILE
bool pull_client_program(char *out, size_t room)
{
    return os_program_again(out, room);
}
#else
bool pull_client_program(char *out, size_t room)
{
    static const char *const directories[] = {"", "../libexec/mote/"};
    char own[PULL_PATH_BYTES];
    if (!os_program_path(own, sizeof own))
        return false;
    char *slash = strrchr(own, '/');
    if (slash == NULL)
        return false;
    *slash = '\0';
    for (size_t i = 0; i < sizeof directories / sizeof *directories; i++)
        if (snprintf(out, room, "%s/%smote-pull", own, directories[i]) < (int)room &&
            access(out, X_OK) == 0)
            return true;
    return false;
}
#endif

static mote_status program_missing(mote_error *err)
{
    return err_set(err, MOTE_E_UNSUPPORTED,
                   "the program mote-pull is not installed; it is built if libcurl is found "
                   "(Debian: libcurl4-openssl-dev)");
}

/* Starts the program with its standard input and output, and an argument or NULL. Only LD_LIBRARY_PATH is passed on: the
 * environment may hold secrets. */
static bool spawn_program(pid_t *pid, const char *program, char *argument, int in, int out)
{
    char loader[PULL_PATH_BYTES];
    const char *libraries = getenv("LD_LIBRARY_PATH");
    snprintf(loader, sizeof loader, "LD_LIBRARY_PATH=%s", libraries != NULL ? libraries : "");
    char name[] = PULL_PROGRAM;
    char *const arguments[] = {name, argument, NULL};
    char *const environment[] = {libraries != NULL ? loader : NULL, NULL};
    posix_spawn_file_actions_t actions;
    if (posix_spawn_file_actions_init(&actions) != 0)
        return false;
    const bool started = posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO) == 0 &&
                         posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO) == 0 &&
                         posix_spawn(pid, program, &actions, NULL, arguments, environment) == 0;
    posix_spawn_file_actions_destroy(&actions);
    return started;
}

mote_status pull_client_start(pull_client *c, const pull_request *r, mote_error *err)
{
    char program[PULL_PATH_BYTES];
    int in[2], out[2];
    strbuf request = {0};
    *c = (pull_client){.fd = -1, .pid = -1};
    if (!pull_client_program(program, sizeof program))
        return program_missing(err);
    pull_request_put(&request, r);
    TRY(strbuf_check(&request, err));
    bool started = false;
    if (os_pipe(in)) {
        if (os_pipe(out)) {
            started = spawn_program(&c->pid, program, NULL, in[0], out[1]);
            close(out[1]);
            c->fd = out[0];
        }
        close(in[0]);
        started = started && os_write_all(in[1], request.p, request.n);
        close(in[1]);
    }
    memset(request.p, 0, request.n); /* the token */
    strbuf_fini(&request);
    return started ? MOTE_OK : err_set(err, MOTE_E_IO, "cannot start mote-pull");
}

/* Takes a line from the buffer. */
static bool client_line(pull_client *c, str *line)
{
    const str rest = {c->buffer.p + c->used, c->buffer.n - c->used};
    const char *newline = rest.n > 0 ? memchr(rest.p, '\n', rest.n) : NULL;
    if (newline == NULL)
        return false;
    *line = (str){rest.p, (size_t)(newline - rest.p)};
    c->used += line->n + 1;
    return true;
}

/* How often the caller can look for signals. */
enum { CLIENT_POLL_MS = 200 };

bool pull_client_next(pull_client *c, str *line, bool *interrupted)
{
    char chunk[4096];
    *interrupted = false;
    while (!client_line(c, line)) {
        memmove(c->buffer.p, c->buffer.p + c->used, c->buffer.n - c->used);
        c->buffer.n -= c->used;
        c->used = 0;
        /* The timeout: a signal that comes before the call would not interrupt it. */
        struct pollfd readable = {.fd = c->fd, .events = POLLIN};
        const int ready = c->fd >= 0 ? poll(&readable, 1, CLIENT_POLL_MS) : 1;
        *interrupted = ready == 0 || (ready < 0 && errno == EINTR);
        if (*interrupted)
            return false;
        const ssize_t n = c->fd >= 0 ? read(c->fd, chunk, sizeof chunk) : 0;
        *interrupted = n < 0 && errno == EINTR;
        if (n <= 0 || c->buffer.n > (1 << 20))
            return false;
        strbuf_put(&c->buffer, (str){chunk, (size_t)n});
    }
    return true;
}

int pull_client_end(pull_client *c, int signal_number)
{
    int status = 0;
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
    strbuf_fini(&c->buffer);
    if (c->pid <= 0)
        return 1;
    if (signal_number != 0)
        kill(c->pid, signal_number);
    while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR)
        ;
    c->pid = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* ---- spawner ---- */

/* Sends a socket to the process and a text over it. It fits into the buffer of the socket, so the
 * write does not wait for the process. *fd: the other end of the socket. */
static bool spawner_send(const pull_spawner *s, str text, int *fd)
{
    int pair[2];
    if (!os_socket_pair(pair))
        return false;
    const bool sent = fd_send(s->control, pair[1], 0);
    close(pair[1]);
    *fd = pair[0];
    if (sent && send(pair[0], text.p, text.n, MSG_NOSIGNAL) == (ssize_t)text.n &&
        shutdown(pair[0], SHUT_WR) == 0)
        return true;
    close(pair[0]);
    return false;
}

static mote_status spawner_send_settings(pull_spawner *s, const pull_request *settings,
                                         mote_error *err)
{
    strbuf text = {0};
    int fd;
    pull_request_put(&text, settings);
    mote_status status = strbuf_check(&text, err);
    if (status == MOTE_OK && spawner_send(s, strbuf_view(&text), &fd))
        close(fd);
    else if (status == MOTE_OK)
        status = err_set(err, MOTE_E_IO, "cannot send the settings to mote-pull");
    if (text.p != NULL)
        memset(text.p, 0, text.n); /* the token */
    strbuf_fini(&text);
    return status;
}

mote_status pull_spawner_start(pull_spawner *s, const pull_request *settings, mote_error *err)
{
    char program[PULL_PATH_BYTES], argument[] = "--spawner";
    int pair[2];
    if (!pull_client_program(program, sizeof program))
        return program_missing(err);
    if (!os_socket_pair(pair))
        return err_set(err, MOTE_E_IO, "cannot start mote-pull: %s", strerror(errno));
    const bool started = spawn_program(&s->pid, program, argument, pair[1], STDERR_FILENO);
    close(pair[1]);
    s->control = pair[0];
    if (!started) {
        close(pair[0]);
        s->pid = 0;
        return err_set(err, MOTE_E_IO, "cannot start %s", program);
    }
    const mote_status status = spawner_send_settings(s, settings, err);
    if (status != MOTE_OK)
        pull_spawner_stop(s);
    return status;
}

mote_status pull_spawner_pull(pull_spawner *s, str request, int *fd, mote_error *err)
{
    if (spawner_send(s, request, fd))
        return MOTE_OK;
    return err_set(err, MOTE_E_IO,
                   "cannot start mote-pull: its parent process has ended; restart mote serve");
}

void pull_spawner_stop(pull_spawner *s)
{
    if (s->pid <= 0)
        return;
    close(s->control);
    while (waitpid(s->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    s->pid = 0;
}
