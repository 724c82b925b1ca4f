/* SPDX-License-Identifier: Apache-2.0 */
/* log.c - see log.h. */
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

static void line_add(line_buffer *b, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void line_add(line_buffer *b, const char *format, ...)
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

/* Escapes control characters and, in JSON, quotes and backslashes. Always leaves space for the two
 * bytes that close a JSON line. */
static void line_add_escaped(line_buffer *b, const char *text, bool as_json)
{
    enum { MAX_ESCAPE = 6, CLOSING = 3 };
    for (; *text != '\0' && b->n + MAX_ESCAPE + CLOSING < LOG_LINE_BYTES; text++) {
        const unsigned char c = (unsigned char)*text;
        if (c < 0x20 || c == 0x7F)
            line_add(b, as_json ? "\\u%04x" : "\\x%02x", (unsigned)c);
        else if (as_json && (c == '"' || c == '\\'))
            line_add(b, "\\%c", c);
        else
            line_add(b, "%c", c);
    }
}

static void line_add_time(line_buffer *b)
{
    const time_t now = time(NULL);
    struct tm t;
    char text[32];
    if (gmtime_r(&now, &t) != NULL && strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &t) > 0)
        line_add(b, "%s", text);
}

static void line_add_stats_json(line_buffer *b, const log_stats *f)
{
    line_add(b,
             ",\"prompt_tokens\":%llu,\"cached_tokens\":%llu,\"output_tokens\":%llu,"
             "\"thinking_tokens\":%llu,\"queue_seconds\":%.4f,\"first_token_seconds\":%.4f,"
             "\"tokens_per_second\":%.2f,\"stop\":\"%s\"",
             (unsigned long long)f->prompt, (unsigned long long)f->cached,
             (unsigned long long)f->out, (unsigned long long)f->think, f->queue, f->first_token,
             f->rate, f->stop);
}

static void line_add_stats(line_buffer *b, const log_stats *f)
{
    line_add(b, " q=%.2f prompt=%llu cached=%llu out=%llu think=%llu ttft=%.2f t/s=%.1f stop=%s",
             f->queue, (unsigned long long)f->prompt, (unsigned long long)f->cached,
             (unsigned long long)f->out, (unsigned long long)f->think, f->first_token, f->rate,
             f->stop);
}

size_t log_request_line(char line[LOG_LINE_BYTES], const log_request *r, bool as_json)
{
    line_buffer b = {line, 0};
    line_add(&b, "%s", as_json ? "{\"time\":\"" : "");
    line_add_time(&b);
    line_add(&b,
             as_json
                 ? "\",\"level\":\"info\",\"request_id\":\"%s\",\"method\":\"%s\",\"route\":\"%s\","
                   "\"status\":%d,\"seconds\":%.4f,\"bytes_in\":%llu,\"bytes_out\":%llu"
                 : " %s %s %s %d %.3fs in=%llu out=%llu",
             r->id, r->method, r->label, r->status, r->seconds, (unsigned long long)r->in,
             (unsigned long long)r->out);
    if (r->key != NULL && r->key[0] != '\0')
        line_add(&b, as_json ? ",\"key\":\"%s\"" : " key=%s", r->key);
    if (r->stats != NULL && r->stats->model[0] != '\0') {
        line_add(&b, as_json ? ",\"model\":\"" : " model=");
        line_add_escaped(&b, r->stats->model, as_json);
        line_add(&b, as_json ? "\"" : "");
    }
    if (r->stats != NULL && as_json)
        line_add_stats_json(&b, r->stats);
    else if (r->stats != NULL)
        line_add_stats(&b, r->stats);
    if (as_json)
        line_add(&b, "}");
    return b.n;
}

size_t log_text_line(char line[LOG_LINE_BYTES], const char *text, bool as_json)
{
    line_buffer b = {line, 0};
    if (as_json) {
        line_add(&b, "{\"time\":\"");
        line_add_time(&b);
        line_add(&b, "\",\"level\":\"info\",\"message\":\"");
    } else {
        line_add_time(&b);
        line_add(&b, " ");
    }
    line_add_escaped(&b, text, as_json);
    if (as_json)
        line_add(&b, "\"}");
    return b.n;
}

/* ---- output ---- */

/* Number of lines dropped because stderr was full. */
static atomic_uint_fast64_t dropped;

/* Does stderr accept a line now? A full pipe must not block the event loop. Lines are at most
 * PIPE_BUF bytes of Linux, which are written to a pipe whole or not at all. On macOS PIPE_BUF is 512:
 * a longer line may wait for the reader of a pipe that is almost full. */
static bool stderr_is_writable(void)
{
    _Static_assert(LOG_LINE_BYTES <= 4096, "lines must be atomic writes");
    struct pollfd to = {.fd = STDERR_FILENO, .events = POLLOUT};
    if (poll(&to, 1, 0) != 1 || !(to.revents & POLLOUT)) {
        atomic_fetch_add(&dropped, 1);
        return false;
    }
    return true;
}

static void write_line(char line[LOG_LINE_BYTES], size_t n)
{
    if (!stderr_is_writable())
        return;
    line[n] = '\n'; /* replaces the terminating zero */
    const ssize_t written = write(STDERR_FILENO, line, n + 1);
    (void)written; /* a failed log has no place to be reported */
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
