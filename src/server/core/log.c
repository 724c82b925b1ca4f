/* SPDX-License-Identifier: Apache-2.0 */
/* log.c - see log.h. A line is written with one call, so lines of several writers stay whole. */
#include "server/core/log.h"

#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

/* ---- lines ---- */

typedef struct line_buffer {
    char *p;
    size_t n;
} line_buffer;

static void add(line_buffer *b, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(line_buffer *b, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int n = vsnprintf(b->p + b->n, LOG_LINE_BYTES - b->n, format, arguments);
    va_end(arguments);
    if (n > 0)
        b->n += (size_t)n;
    if (b->n >= LOG_LINE_BYTES)
        b->n = LOG_LINE_BYTES - 1;
}

/* Control characters, and in JSON also its own, come out as escapes; room for the two bytes that
 * close a JSON line is always left. */
static void add_escaped(line_buffer *b, const char *text, bool as_json)
{
    enum { MOST_FOR_ONE = 6, CLOSING = 3 };
    for (; *text != '\0' && b->n + MOST_FOR_ONE + CLOSING < LOG_LINE_BYTES; text++) {
        const unsigned char c = (unsigned char)*text;
        if (c < 0x20 || c == 0x7F)
            add(b, as_json ? "\\u%04x" : "\\x%02x", (unsigned)c);
        else if (as_json && (c == '"' || c == '\\'))
            add(b, "\\%c", c);
        else
            add(b, "%c", c);
    }
}

static void add_time(line_buffer *b)
{
    const time_t now = time(NULL);
    struct tm t;
    char text[32];
    if (gmtime_r(&now, &t) != NULL && strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &t) > 0)
        add(b, "%s", text);
}

static void add_stats_json(line_buffer *b, const log_stats *f)
{
    add(b,
        ",\"prompt_tokens\":%llu,\"cached_tokens\":%llu,\"output_tokens\":%llu,"
        "\"thinking_tokens\":%llu,\"queue_seconds\":%.4f,\"first_token_seconds\":%.4f,"
        "\"tokens_per_second\":%.2f,\"stop\":\"%s\"",
        (unsigned long long)f->prompt, (unsigned long long)f->cached, (unsigned long long)f->out,
        (unsigned long long)f->think, f->queue, f->first_token, f->rate, f->stop);
}

static void add_stats(line_buffer *b, const log_stats *f)
{
    add(b, " q=%.2f prompt=%llu cached=%llu out=%llu think=%llu ttft=%.2f t/s=%.1f stop=%s",
        f->queue, (unsigned long long)f->prompt, (unsigned long long)f->cached,
        (unsigned long long)f->out, (unsigned long long)f->think, f->first_token, f->rate, f->stop);
}

size_t log_request_line(char line[LOG_LINE_BYTES], const log_request *r, bool as_json)
{
    line_buffer b = {line, 0};
    add(&b, "%s", as_json ? "{\"time\":\"" : "");
    add_time(&b);
    add(&b,
        as_json ? "\",\"level\":\"info\",\"request_id\":\"%s\",\"method\":\"%s\",\"route\":\"%s\","
                  "\"status\":%d,\"seconds\":%.4f,\"bytes_in\":%llu,\"bytes_out\":%llu"
                : " %s %s %s %d %.3fs in=%llu out=%llu",
        r->id, r->method, r->label, r->status, r->seconds, (unsigned long long)r->in,
        (unsigned long long)r->out);
    if (r->key != NULL && r->key[0] != '\0')
        add(&b, as_json ? ",\"key\":\"%s\"" : " key=%s", r->key);
    if (r->stats != NULL && r->stats->model != NULL) {
        add(&b, as_json ? ",\"model\":\"" : " model=");
        add_escaped(&b, r->stats->model, as_json);
        add(&b, as_json ? "\"" : "");
    }
    if (r->stats != NULL && as_json)
        add_stats_json(&b, r->stats);
    else if (r->stats != NULL)
        add_stats(&b, r->stats);
    if (as_json)
        add(&b, "}");
    return b.n;
}

size_t log_text_line(char line[LOG_LINE_BYTES], const char *text, bool as_json)
{
    line_buffer b = {line, 0};
    if (as_json) {
        add(&b, "{\"time\":\"");
        add_time(&b);
        add(&b, "\",\"level\":\"info\",\"message\":\"");
    } else {
        add_time(&b);
        add(&b, " ");
    }
    add_escaped(&b, text, as_json);
    if (as_json)
        add(&b, "\"}");
    return b.n;
}

/* ---- writing them ---- */

/* Lines of the whole process that nobody took since the last one that somebody did. */
static atomic_uint_fast64_t dropped;

/* A pipe that nobody reads must not stop the loop: what it has no room for is dropped, and
 * counted. A line is shorter than what a pipe promises to take whole once it takes anything. */
static bool has_reader(void)
{
    _Static_assert(LOG_LINE_BYTES <= PIPE_BUF, "a line is written whole or not at all");
    struct pollfd to = {.fd = STDERR_FILENO, .events = POLLOUT};
    if (poll(&to, 1, 0) != 1 || !(to.revents & POLLOUT)) {
        atomic_fetch_add(&dropped, 1);
        return false;
    }
    return true;
}

static void write_line(char line[LOG_LINE_BYTES], size_t n)
{
    if (!has_reader())
        return;
    line[n] = '\n'; /* in place of the zero */
    /* Nobody can be told that the log cannot be written. */
    ssize_t written = write(STDERR_FILENO, line, n + 1);
    (void)written;
}

void log_write_request(const log_options *o, const log_request *r)
{
    char line[LOG_LINE_BYTES];
    if (o->level >= 1)
        write_line(line, log_request_line(line, r, o->json));
}

void log_message(const log_options *o, int level, const char *format, ...)
{
    if (o->level < level)
        return;
    char line[LOG_LINE_BYTES], text[LOG_LINE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    const int n = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (n > 0)
        write_line(line, log_text_line(line, text, o->json));
}
