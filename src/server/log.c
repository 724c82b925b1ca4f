/* SPDX-License-Identifier: Apache-2.0 */
/* log.c - see log.h. A line is written with one call, so lines of several writers stay whole. */
#include "server/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { LINE_BYTES = 1024 };

static void write_line(char *line, size_t n)
{
    if (n > LINE_BYTES - 2)
        n = LINE_BYTES - 2;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7F)
            line[i] = '?';
    line[n] = '\n';
    /* Nobody can be told that the log cannot be written. */
    ssize_t written = write(STDERR_FILENO, line, n + 1);
    (void)written;
}

static void put_time(char out[32])
{
    time_t now = time(NULL);
    struct tm t;
    if (gmtime_r(&now, &t) == NULL || strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &t) == 0)
        out[0] = '\0';
}

void server_log_request(const server *s, const log_request *r)
{
    const server_options *o = server_settings(s);
    if (o->log_level < 1)
        return;
    char line[LINE_BYTES], when[32];
    put_time(when);
    const char *format = o->log_json ? "{\"time\":\"%s\",\"request_id\":\"%s\",\"method\":\"%s\","
                                       "\"route\":\"%s\",\"status\":%d,\"seconds\":%.4f,"
                                       "\"bytes_in\":%llu,\"bytes_out\":%llu}"
                                     : "%s %s %s %s %d %.4f s in=%llu out=%llu";
    int n = snprintf(line, sizeof line, format, when, r->id, r->method, r->label, r->status,
                     r->seconds, (unsigned long long)r->in, (unsigned long long)r->out);
    if (n > 0)
        write_line(line, (size_t)n);
}

void server_log(const server *s, int level, const char *format, ...)
{
    if (server_settings(s)->log_level < level)
        return;
    char line[LINE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (n > 0)
        write_line(line, (size_t)n);
}
