/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pull_events.c - one JSON object per line on standard output. README.md lists the events.
 *
 * The pull ends as with SIGTERM if the reader of the events has gone: a parent that may not send
 * signals, such as the server in its sandbox, cancels it by closing its end.
 */
#include "pull/pull_int.h"

#include "base/os.h"
#include "json/json_writer.h"

#include <poll.h>
#include <unistd.h>

static const double progress_after = 0.25; /* seconds between progress events */

static void event_begin(strbuf *line, const char *name)
{
    jw_open(line, '{');
    jw_key_text(line, "event", name);
}

static void event_send(strbuf *line)
{
    jw_close(line, '}');
    strbuf_byte(line, '\n');
    for (size_t at = 0; !line->failed && at < line->n;) {
        const ssize_t n = write(STDOUT_FILENO, line->p + at, line->n - at);
        if (n <= 0 && pull_signal == 0)
            pull_signal = SIGTERM;
        if (n <= 0)
            break;
        at += (size_t)n;
    }
    strbuf_fini(line);
}

void event_check_reader(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO};
    if (pull_signal == 0 && poll(&out, 1, 0) > 0 && (out.revents & (POLLERR | POLLHUP)) != 0)
        pull_signal = SIGTERM;
}

static void event_put_files(const pull *p, strbuf *line)
{
    jw_key(line, "files");
    jw_open(line, '[');
    for (size_t i = 0; i < p->n_files; i++) {
        const pull_file *f = &p->files[i];
        jw_open(line, '{');
        jw_key_text(line, "file", f->path);
        jw_key_uint(line, "size", f->size);
        jw_key_text(line, "hash", f->hash);
        jw_key_bool(line, "installed", f->installed);
        jw_close(line, '}');
    }
    jw_close(line, ']');
}

void event_plan(const pull *p, uint64_t free_bytes)
{
    strbuf line = {0};
    uint64_t missing = 0;
    for (size_t i = 0; i < p->n_files; i++)
        missing += p->files[i].installed ? 0 : p->files[i].size;
    event_begin(&line, "plan");
    jw_key_text(&line, "repo", p->request.repo);
    jw_key_text(&line, "commit", p->commit);
    event_put_files(p, &line);
    jw_key_uint(&line, "total", p->total);
    jw_key_uint(&line, "missing", missing);
    jw_key_uint(&line, "free", free_bytes);
    event_send(&line);
}

/* Speed of the last seconds: a moving average, restarted for each file and action. */
static struct progress_meter {
    const pull_file *file;
    const char *action;
    double at, speed;
    uint64_t completed;
} meter;

static void meter_update(const pull_file *f, const char *action, uint64_t completed, double now)
{
    if (meter.file != f || meter.action != action || completed < meter.completed) {
        meter = (struct progress_meter){f, action, now, 0, completed};
        return;
    }
    const double passed = now - meter.at;
    if (passed <= 0)
        return;
    const double current = (double)(completed - meter.completed) / passed;
    const double weight = meter.speed > 0 && passed < 3 ? passed / 3 : 1;
    meter.speed += (current - meter.speed) * weight;
    meter.at = now;
    meter.completed = completed;
}

void event_progress(pull *p, const pull_file *f, const char *action, uint64_t completed, bool last)
{
    const double now = os_now();
    if (!last && meter.file == f && meter.action == action && now - meter.at < progress_after)
        return;
    meter_update(f, action, completed, now);
    strbuf line = {0};
    event_begin(&line, "progress");
    jw_key_text(&line, "action", action);
    jw_key_text(&line, "file", f->path);
    jw_key_text(&line, "hash", f->hash);
    jw_key_uint(&line, "completed", completed);
    jw_key_uint(&line, "total", f->size);
    jw_key_uint(&line, "all_completed", p->done_before + completed);
    jw_key_uint(&line, "all_total", p->total);
    jw_key_uint(&line, "speed", (uint64_t)meter.speed);
    if (meter.speed > 0)
        jw_key_double(&line, "seconds_left",
                      (double)(uint64_t)((double)(f->size - completed) / meter.speed * 10) / 10);
    else
        jw_key_null(&line, "seconds_left");
    event_send(&line);
}

void event_wait(const char *reason, double seconds)
{
    strbuf line = {0};
    event_begin(&line, "wait");
    jw_key_text(&line, "reason", reason);
    jw_key_double(&line, "seconds", seconds);
    event_send(&line);
}

void event_warning(const char *message)
{
    strbuf line = {0};
    event_begin(&line, "warning");
    jw_key_text(&line, "message", message);
    event_send(&line);
}

void event_file(const pull *p, const pull_file *f, const char *local, bool was_installed)
{
    strbuf line = {0};
    (void)p;
    event_begin(&line, "file");
    jw_key_text(&line, "file", f->path);
    jw_key_text(&line, "hash", f->hash);
    jw_key_uint(&line, "size", f->size);
    jw_key_text(&line, "path", local);
    jw_key_bool(&line, "was_installed", was_installed);
    event_send(&line);
}

void event_done(const pull *p, const char *snapshot, double seconds)
{
    strbuf line = {0};
    event_begin(&line, "done");
    jw_key_text(&line, "repo", p->request.repo);
    jw_key_text(&line, "commit", p->commit);
    jw_key_text(&line, "snapshot", snapshot);
    event_put_files(p, &line);
    jw_key_uint(&line, "total", p->total);
    jw_key_uint(&line, "downloaded", p->downloaded);
    jw_key_double(&line, "seconds", (double)(uint64_t)(seconds * 1000) / 1000);
    event_send(&line);
}

void event_error(pull_code code, const char *message)
{
    strbuf line = {0};
    event_begin(&line, "error");
    jw_key_text(&line, "code", pull_code_name(code));
    jw_key_int(&line, "exit", pull_code_exit(code));
    jw_key_text(&line, "message", message);
    event_send(&line);
}
