/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pull_main.c - mote-pull: downloads the files of one model into the Hugging Face cache.
 *
 * Reads a request from stdin (pull_request.h), writes events to stdout and ends with the exit code
 * of the last event. Not meant to be run by hand: `mote pull` and `mote serve` start it.
 */
#define _DEFAULT_SOURCE
#include "pull/pull_main.h"

#include "pull/pull_int.h"

#include "base/fd_pass.h"
#include "base/mem.h"
#include "base/os.h"
#include "base/os_process.h"
#include "store/known_models.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- failures and signals ---- */

volatile sig_atomic_t pull_signal;

mote_status pull_fail(pull *p, pull_code code, mote_error *err, const char *format, ...)
{
    char text[sizeof err->text];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    p->code = code;
    return err_set(err, code == PULL_NO_MEMORY ? MOTE_E_MEMORY : MOTE_E_IO, "%s", text);
}

mote_status pull_fail_errno(pull *p, mote_error *err, const char *what, const char *path)
{
    const int error = errno;
    const bool full = error == ENOSPC || error == EDQUOT || error == EFBIG;
    return pull_fail(p, full ? PULL_DISK_FULL : PULL_NOT_WRITABLE, err, "cannot %s %s: %s%s", what,
                     path, strerror(error), full ? "; the part is kept" : "");
}

mote_status pull_check_signal(pull *p, mote_error *err)
{
    event_check_reader();
    if (pull_signal == 0)
        return MOTE_OK;
    return pull_fail(p, pull_signal == SIGINT ? PULL_INTERRUPTED : PULL_TERMINATED, err,
                     "interrupted; the same command continues the download");
}

mote_status pull_sleep(pull *p, double seconds, mote_error *err)
{
    const double until = os_now() + seconds;
    for (double left = seconds; left > 0 && pull_signal == 0; left = until - os_now()) {
        const double step = left < 0.1 ? left : 0.1; /* a signal may come just before the call */
        nanosleep(&(struct timespec){0, (long)(step * 1e9)}, NULL);
        event_check_reader();
    }
    return pull_check_signal(p, err);
}

static void on_signal(int number)
{
    pull_signal = number;
}

static void install_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a write above the limit fails with EFBIG */
    os_end_with_parent(SIGTERM);
}

/* ---- the steps ---- */

static mote_status check_names(pull *p, mote_error *err)
{
    const pull_request *r = &p->request;
    if (!hub_repo_valid(str_of(r->repo)))
        return pull_fail(p, PULL_BAD_REQUEST, err, "%.100s is not the name of a repository",
                         r->repo);
    if (!hub_revision_valid(str_of(r->revision)))
        return pull_fail(p, PULL_BAD_REQUEST, err, "%.100s is not a valid revision", r->revision);
    for (size_t i = 0; i < r->n_files; i++)
        if (!hub_path_valid(str_of(r->files[i])))
            return pull_fail(p, PULL_BAD_REQUEST, err, "%.200s is not a valid file name",
                             r->files[i]);
    return MOTE_OK;
}

/* Downloads a file under its lock. *changed: the hub has another content now. */
static mote_status fetch_locked(pull *p, pull_file *f, hub_meta *meta, bool *changed,
                                mote_error *err)
{
    int lock, part;
    *changed = false;
    TRY(cache_lock(p, f->hash, &lock, err));
    mote_status status = cache_find(p, f, err); /* another process may have downloaded it */
    if (status == MOTE_OK && !f->installed) {
        cache_remove_stale(p, f);
        status = download_file(p, f, meta, &part, changed, err);
        if (status == MOTE_OK && !*changed) {
            status = cache_publish(p, f, part, err);
            close(part);
        }
    }
    cache_unlock(lock);
    return status;
}

static mote_status fetch_file(pull *p, pull_file *f, mote_error *err)
{
    enum { CHANGES_MAX = 3 };
    hub_meta meta;
    bool changed = true;
    TRY(hub_resolve(p, f, &meta, err));
    for (int i = 0; changed && !f->installed; i++) {
        if (i == CHANGES_MAX)
            return pull_fail(p, PULL_BAD_REPLY, err, "the hub changes %s all the time", f->path);
        p->total += meta.size - f->size;
        memcpy(f->hash, meta.hash, sizeof f->hash);
        f->size = meta.size;
        TRY(cache_prepare(p, err));
        TRY(fetch_locked(p, f, &meta, &changed, err));
    }
    return MOTE_OK;
}

static bool from_directory(const pull *p)
{
    return p->request.from != NULL && p->request.from[0] != '\0';
}

static mote_status fetch_files(pull *p, const char *directory, mote_error *err)
{
    for (size_t i = 0; i < p->n_files; i++) {
        pull_file *f = &p->files[i];
        char path[PULL_PATH_BYTES] = "";
        const bool was_installed = f->installed;
        if (!was_installed && from_directory(p))
            TRY(from_directory_copy(p, f, directory, err));
        else if (!was_installed)
            TRY(fetch_file(p, f, err));
        cache_remove_part(p, f);
        p->done_before += f->size;
        cache_snapshot_path(p, f->path, path);
        event_file(p, f, path, was_installed);
    }
    return MOTE_OK;
}

static mote_status pull_run(pull *p, mote_error *err)
{
    const double started = os_now();
    char snapshot[PULL_PATH_BYTES] = "", directory[PULL_PATH_BYTES] = "";
    uint64_t free_bytes;
    if (from_directory(p))
        TRY(from_directory_list(p, directory, err));
    else
        TRY(hub_list(p, err));
    for (size_t i = 0; i < p->n_files; i++)
        TRY(cache_find(p, &p->files[i], err));
    TRY(cache_check_space(p, &free_bytes, err));
    event_plan(p, free_bytes);
    if (p->request.dry_run)
        return MOTE_OK;
    TRY(fetch_files(p, directory, err));
    TRY(cache_link_all(p, err));
    cache_snapshot_path(p, "", snapshot);
    event_done(p, snapshot, os_now() - started);
    return MOTE_OK;
}

/* The sandbox allows only directories that exist when it begins. */
static mote_status make_allowed_directories(pull *p, mote_error *err)
{
    char path[PULL_PATH_BYTES];
    mote_error ignored;
    if (p->request.state != NULL && p->request.state[0] == '/' &&
        snprintf(path, sizeof path, "%s", p->request.state) < (int)sizeof path)
        cache_make_directories(p, path, &ignored);
    if (p->request.dry_run)
        return MOTE_OK;
    TRY(cache_make_directories(p, p->request.cache, err));
    cache_begin(p);
    return MOTE_OK;
}

static mote_status pull_start(pull *p, mote_error *err)
{
    TRY(check_names(p, err));
    p->umask = umask(0);
    umask(p->umask);
    if (!from_directory(p))
        TRY(http_start(p, err));
    TRY(make_allowed_directories(p, err));
    const char *missing = pull_sandbox_enter(p);
    if (*missing != '\0')
        event_warning(missing);
    const mote_status status = pull_run(p, err);
    cache_end(p);
    return status;
}

/* ---- the request ---- */

/* Reads a JSON document from a descriptor, to its end. *doc: freed by the caller. */
static mote_status read_document(int fd, json_doc **doc, mote_error *err)
{
    char chunk[4096];
    strbuf text = {0};
    ssize_t n;
    while ((n = read(fd, chunk, sizeof chunk)) > 0 && text.n <= PULL_REQUEST_BYTES)
        strbuf_put(&text, (str){chunk, (size_t)n});
    os_erase(chunk, sizeof chunk);
    mote_status status =
        n == 0 ? strbuf_check(&text, err)
               : err_set(err, MOTE_E_ARG, "the request cannot be read or is too long");
    if (status == MOTE_OK)
        status = json_doc_read(doc, strbuf_view(&text), err);
    if (text.p != NULL)
        os_erase(text.p, text.n);
    strbuf_fini(&text);
    return status;
}

/* ---- the spawner ---- */

/* The first descriptor has the settings. The server sends it before it enters its sandbox and keeps
 * neither token nor the choice of hub and directory. The texts of *r belong to *doc. */
static mote_status spawner_read_settings(pull_request *r, json_doc **doc, mote_error *err)
{
    char nothing;
    const int fd = fd_receive(STDIN_FILENO, &nothing);
    if (fd < 0)
        _exit(0);
    mote_status status = read_document(fd, doc, err);
    close(fd);
    return status == MOTE_OK ? pull_request_read_settings(r, json_doc_root(*doc), err) : status;
}

/* `mote-pull --spawner`: forks one process per socket that comes over standard input, until that is
 * closed. The server starts it, because its sandbox allows neither fork nor exec. Returns in the
 * new process, with the socket as standard input and output. */
static void spawner_serve(void)
{
    char nothing;
    for (;;) {
        const int fd = fd_receive(STDIN_FILENO, &nothing);
        if (fd < 0)
            _exit(0);
        if (fork() == 0) {
            os_thread_name("mote-pull");
            signal(SIGCHLD, SIG_DFL);
            if (dup2(fd, STDIN_FILENO) < 0 || dup2(fd, STDOUT_FILENO) < 0)
                _exit(1);
            close(fd);
            return;
        }
        close(fd); /* without a process the parent sees the end of the events */
    }
}

static mote_status spawner_run(pull_request *r, json_doc **doc, mote_error *err)
{
    os_thread_name("mote-pull-spawn");
    setsid(); /* Ctrl-C ends the server, which decides about its pulls */
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    signal(SIGCHLD, SIG_IGN);
    os_close_from(STDERR_FILENO + 1);
    const mote_status status = spawner_read_settings(r, doc, err);
    spawner_serve(); /* with wrong settings every request gets the error */
    return status;
}

/* Reads what to do from standard input, as a process of its own or of a spawner. */
static mote_status read_request(pull *p, bool spawner, json_doc *docs[2], mote_error *err)
{
    mote_error ignored;
    const mote_status settings = spawner ? spawner_run(&p->request, &docs[0], err) : MOTE_OK;
    install_signals();
    if (settings != MOTE_OK) { /* a socket that is closed before it is read loses the error */
        read_document(STDIN_FILENO, &docs[1], &ignored);
        return settings;
    }
    TRY(read_document(STDIN_FILENO, &docs[1], err));
    return spawner ? pull_request_read_model(&p->request, json_doc_root(docs[1]), err)
                   : pull_request_read(&p->request, json_doc_root(docs[1]), err);
}

int pull_main(int argc, char **argv)
{
    static pull p = {.repo_fd = -1};
    json_doc *docs[2] = {NULL, NULL}; /* settings, request */
    mote_error err = {0};
    const bool spawner = argc == 2 && strcmp(argv[1], "--spawner") == 0;
    mote_status status = read_request(&p, spawner, docs, &err);
    if (status != MOTE_OK)
        p.code = PULL_BAD_REQUEST;
    if (status == MOTE_OK) {
        status = pull_start(&p, &err);
        http_stop(&p);
    }
    json_doc_free(docs[0]);
    json_doc_free(docs[1]);
    if (status == MOTE_OK)
        return 0;
    if (err.status == MOTE_E_MEMORY)
        p.code = PULL_NO_MEMORY;
    event_error(p.code, err.text);
    return pull_code_exit(p.code);
}
