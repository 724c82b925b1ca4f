/* SPDX-License-Identifier: Apache-2.0 */
/*
 * local_exchange.c - see local_exchange.h.
 *
 * A handler may reply while it is called, and uses its objects after the reply. So a reply is only
 * noted, and delivered when no handler runs.
 */
#include "server/http/local_exchange.h"

#include "server/http/http_int.h"

exchange *local_exchange_start(http_server *h, const local_request *r, strbuf *body)
{
    exchange *x = exchange_new(h, NULL);
    if (x == NULL) {
        strbuf_fini(body);
        return NULL;
    }
    x->body = *body;
    *body = (strbuf){0};
    x->replied = r->replied;
    x->replied_with = r->with;
    x->request = (http_request){.method = HTTP_POST,
                                .path = str_of(r->path),
                                .query = {"", 0},
                                .body = strbuf_view(&x->body),
                                .tail = {"", 0},
                                .client = r->client,
                                .ns = r->ns,
                                .background = r->background};
    r->handler(x);
    return x;
}

void local_exchange_cancel(exchange *x)
{
    x->replied = NULL;
    if (x->over) /* local_exchange_turn() frees it */
        return;
    if (x->disconnect != NULL)
        x->disconnect(x->with);
    exchange_free(x);
}

int local_exchange_status(const exchange *x)
{
    return x->reply.failed ? 0 : x->status;
}

str local_exchange_body(const exchange *x)
{
    return strbuf_view(&x->reply);
}

void local_exchange_end(exchange *x)
{
    http_server *h = x->http;
    x->over = true;
    *h->last_replied = x;
    h->last_replied = &x->next_replied;
    event_loop_again(h->loop);
}

void local_exchange_turn(http_server *h)
{
    exchange *x;
    while ((x = h->replied) != NULL) {
        h->replied = x->next_replied;
        if (h->replied == NULL)
            h->last_replied = &h->replied;
        if (x->replied != NULL)
            x->replied(x->replied_with, x);
        exchange_free(x);
    }
}
