/* SPDX-License-Identifier: Apache-2.0 */
/* generation_send.c - bytes on their way to the client, and the two ways a reply can end. */
#include "base/os.h"
#include "server/generation/generation_int.h"

#include <stdio.h>

static void send_out(generation *w)
{
    exchange *x = w->x;
    w->last_sent = os_now();
    if (x == NULL || w->over) {
        w->out.n = 0;
        return;
    }
    if (w->out.failed) {
        generation_conclude(w);
        exchange_abort(x);
        return;
    }
    exchange_write(x, strbuf_view(&w->out));
    w->out.n = 0;
}

void generation_send(generation *w)
{
    send_out(w);
    w->last_event = w->last_sent;
}

void generation_comment(generation *w)
{
    send_out(w);
}

void generation_sse(generation *w, const char *event_name)
{
    strbuf_text(&w->out, "\n\n");
    if (event_name != NULL) { /* the line before goes in front of what is there */
        char line[96];
        const int n = snprintf(line, sizeof line, "event: %s\ndata: ", event_name);
        const size_t body = w->out.n;
        if (strbuf_reserve(&w->out, (size_t)n)) {
            memmove(w->out.p + n, w->out.p, body);
            memcpy(w->out.p, line, (size_t)n);
            w->out.n += (size_t)n;
        }
    } else if (strbuf_reserve(&w->out, 6)) {
        memmove(w->out.p + 6, w->out.p, w->out.n);
        memcpy(w->out.p, "data: ", 6);
        w->out.n += 6;
    }
    generation_send(w);
}

void generation_put_where(generation *w, const sched_job_status *where)
{
    char line[96];
    if (where->phase == SCHED_QUEUED)
        snprintf(line, sizeof line, ": queue %u\n\n", (unsigned)where->position);
    else
        snprintf(line, sizeof line, ": prefill %llu/%llu %.1f\n\n", (unsigned long long)where->done,
                 (unsigned long long)where->total, where->eta);
    strbuf_text(&w->out, where->phase == SCHED_DECODE ? ": decode\n\n" : line);
    generation_comment(w);
}

void generation_reply(generation *w, int status)
{
    if (w->printing) { /* on the pool: the loop sends it */
        w->status = status;
        return;
    }
    exchange *x = w->x;
    if (x == NULL || w->over)
        return;
    if (w->out.failed) {
        http_error error = {0};
        http_error_no_memory(&error);
        generation_fail(w, &error);
        return;
    }
    strbuf body = w->out;
    w->out = (strbuf){0};
    generation_conclude(w);
    exchange_reply(x, status, EXCHANGE_JSON, strbuf_view(&body));
    strbuf_fini(&body);
}

void generation_fail(generation *w, const http_error *error)
{
    if (w->printing) {
        w->error = *error;
        return;
    }
    exchange *x = w->x;
    if (x == NULL || w->over)
        return;
    if (!w->streaming) {
        http_error sent = *error; /* it may be the answering's own */
        char more[sizeof w->more];
        memcpy(more, w->more, sizeof more);
        if (sent.more == w->more)
            sent.more = more;
        generation_conclude(w);
        exchange_fail(x, &sent);
        return;
    }
    w->out.n = 0;
    w->how->broken(w, error);
    if (w->x == NULL || w->over)
        return;
    generation_conclude(w);
    exchange_end(x);
}
