/* SPDX-License-Identifier: Apache-2.0 */
/*
 * start_page.c - GET /: the text that Ollama's clients check for, or a page for browsers.
 *
 * Browsers get the chat page of web_page.c. With --no-web they get a page with the version, the
 * models and a first request. It is public, so it shows nothing that /health does not show too, and
 * it is escaped text without scripts. The policy header allows the one style sheet and nothing else.
 * Event loop thread.
 */
#include "base/mem.h"
#include "server/api/native/native.h"
#include "server/api/native/web_page.h"
#include "server/auth/access.h"
#include "server/auth/api_keys.h"
#include "server/models/model_registry.h"

#include <mote.h>

/* STYLE_HASH is the SHA-256 of STYLE in base64: a test compares the two. */
#define STYLE                                                                                      \
    "body{font-family:sans-serif;line-height:1.5;max-width:46em;margin:2em auto;padding:0 1em}"    \
    "pre{overflow-x:auto;padding:1em;border:1px solid gray}"
#define STYLE_HASH "GO+JM7wYRKbvAgC6qCNI3t3Z+AL/x0okIU1tcwFsGqk="

/* ---- the page ---- */

static void put_escaped(strbuf *out, str text)
{
    for (size_t i = 0; i < text.n; i++) {
        switch (text.p[i]) {
        case '&': strbuf_text(out, "&amp;"); break;
        case '<': strbuf_text(out, "&lt;"); break;
        case '>': strbuf_text(out, "&gt;"); break;
        case '"': strbuf_text(out, "&quot;"); break;
        case '\'': strbuf_text(out, "&#39;"); break;
        default: strbuf_byte(out, text.p[i]);
        }
    }
}

static void put_models(strbuf *out, model_registry *models)
{
    model_entry **list;
    size_t n;
    out->failed |= model_registry_list(models, false, &list, &n, NULL) != MOTE_OK;
    strbuf_text(out, "<ul>\n");
    for (size_t i = 0; i < n; i++) {
        strbuf_text(out, "<li>");
        put_escaped(out, str_of(model_entry_name(list[i])));
        strbuf_text(out, "</li>\n");
    }
    strbuf_text(out, "</ul>\n");
    mem_free(list);
}

/* The access check has compared the Host header with the allowed names. */
static void put_first_request(strbuf *out, str host, bool keys)
{
    strbuf_text(out, "<p>A first request:</p>\n<pre>curl http://");
    put_escaped(out, host);
    strbuf_text(out, "/v1/chat/completions \\\n");
    if (keys)
        strbuf_text(out, "    -H \"Authorization: Bearer $MOTE_API_KEY\" \\\n");
    strbuf_text(out, "    -H 'Content-Type: application/json' \\\n"
                     "    -d '{\"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}]}'"
                     "</pre>\n");
}

static void put_page(strbuf *out, const server_context *s, str host)
{
    const bool keys = api_keys_count(access_keys(s->access)) > 0;
    strbuf_text(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                     "<title>mote</title>\n<style>" STYLE "</style>\n</head>\n<body>\n<h1>mote ");
    put_escaped(out, str_of(mote_version()));
    strbuf_text(out, "</h1>\n<p>This server runs language models. Programs use it through the "
                     "OpenAI, Anthropic and Ollama APIs. Models:</p>\n");
    put_models(out, s->models);
    put_first_request(out, host, keys);
    strbuf_text(out, "<ul>\n<li><a href=\"/health\">/health</a>: state of the server</li>\n"
                     "<li><a href=\"/v1/models\">/v1/models</a>: the models with their settings"
                     "</li>\n<li><a href=\"/metrics\">/metrics</a>: values for Prometheus</li>\n"
                     "</ul>\n");
    if (keys)
        strbuf_text(out, "<p>All routes except /health need an API key.</p>\n");
    strbuf_text(out, "</body>\n</html>\n");
}

void handle_root(exchange *x)
{
    const server_context *s = exchange_context(x);
    const bool browser = accept_lists(exchange_header(x, "accept"), "text/html");
    exchange_vary_by_accept(x);
    if (browser && s->web) {
        web_page_reply(x, str_of("index.html"));
        return;
    }
    exchange_add_header(x, "X-Content-Type-Options", "nosniff");
    if (!browser) {
        exchange_reply(x, 200, "text/plain; charset=utf-8", str_of("Ollama is running"));
        return;
    }
    strbuf page = {0};
    exchange_add_header(x, "Content-Security-Policy",
                        "default-src 'none'; style-src 'sha256-" STYLE_HASH
                        "'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
    exchange_add_header(x, "Referrer-Policy", "no-referrer");
    put_page(&page, s, exchange_header(x, "host"));
    exchange_reply_built(x, "text/html; charset=utf-8", &page);
}
