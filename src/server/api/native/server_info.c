/* SPDX-License-Identifier: Apache-2.0 */
/* server_info.c - whether the server is there and ready, for everybody; and OPTIONS. */
#include "json/json.h"
#include "server/api/handlers.h"
#include "server/server.h"

#include <mote.h>

/* The words that programs for Ollama look for before they ask anything else. */
void handle_root(exchange *x)
{
    exchange_reply(x, 200, "text/plain; charset=utf-8", str_of("Ollama is running"));
}

/* The form of the 503 is that of llama-server, which programs that wait for a model know. */
void handle_health(exchange *x)
{
    const server *s = exchange_server(x);
    if (server_draining(s)) {
        exchange_add_header(x, "Retry-After", "1");
        exchange_reply(
            x, 503, EXCHANGE_JSON,
            str_of("{\"error\":{\"code\":503,\"message\":\"The server is about to stop\","
                   "\"type\":\"unavailable_error\"}}"));
        return;
    }
    strbuf body = {0};
    strbuf_text(&body, "{\"status\":\"ok\",\"model\":");
    json_put_string(&body, str_of(served_model_name(server_model(s, 0))));
    strbuf_text(&body, ",\"sandbox\":\"off\",\"version\":\"");
    strbuf_text(&body, mote_version());
    strbuf_text(&body, "\"}");
    exchange_reply_built(x, EXCHANGE_JSON, &body);
}

/* A list of header names, as a browser asks for them. */
static bool is_name_list(str text)
{
    enum { MOST = 1024 };
    for (size_t i = 0; i < text.n; i++) {
        char c = text.p[i];
        bool alnum = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!alnum && strchr("!#$%&'*+-.^_`|~, ", c) == NULL)
            return false;
    }
    return text.n > 0 && text.n <= MOST;
}

/* Only pages of an origin on the list come as far as this; whether to say which one it is
 * belongs to every reply and is done there. */
void handle_options(exchange *x)
{
    str wanted = exchange_header(x, "access-control-request-headers");
    exchange_add_header(x, "Allow", "GET, HEAD, POST, DELETE, OPTIONS");
    if (exchange_header(x, "origin").n > 0) {
        exchange_add_header(x, "Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS");
        exchange_add_header(x, "Access-Control-Max-Age", "600");
        char names[1025];
        if (is_name_list(wanted)) {
            memcpy(names, wanted.p, wanted.n);
            names[wanted.n] = '\0';
            exchange_add_header(x, "Access-Control-Allow-Headers", names);
        }
    }
    exchange_reply(x, 204, NULL, (str){"", 0});
}
