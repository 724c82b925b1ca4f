/* SPDX-License-Identifier: Apache-2.0 */
/*
 * router.c - see router.h.
 *
 * Order of the checks of a request head:
 *
 *   Host, Origin -> route -> API key -> 404 or 405 -> scope -> draining -> Content-Type
 *
 * The key is checked before 404 and 405 are sent, so a client without a key cannot find out which
 * paths exist. Only public routes need no key.
 */
#include "server/api/router.h"

#include "base/os.h"
#include "server/api/common/error_format.h"
#include "server/api/native/native.h"
#include "server/api/routes.h"
#include "server/core/context.h"

static access_request router_access_request(const server_context *ctx, const exchange *x)
{
    return (access_request){
        .method = exchange_request(x)->method,
        .has_body = exchange_has_body(x),
        .host = exchange_find_header(x, "host"),
        .origin = exchange_find_header(x, "origin"),
        .fetch_site = exchange_find_header(x, "sec-fetch-site"),
        .content_type = exchange_find_header(x, "content-type"),
        .authorization = exchange_find_header(x, "authorization"),
        .api_key = exchange_find_header(x, "x-api-key"),
        .any_fetch_field = exchange_has_header_prefix(x, "sec-fetch-"),
        .peer = exchange_peer(x),
        .now = os_now(),
        .max_failures = (uint32_t)ctx->limits->at[LIMIT_FAILURES],
    };
}

static bool router_no_route(unsigned allow, http_error *error)
{
    if (allow == 0) {
        http_error_set(error, HTTP_E_NOT_FOUND, "not_found", "unknown path");
        return false;
    }
    char names[HTTP_METHODS_BYTES];
    http_method_names(names, allow);
    http_error_set(error, HTTP_E_METHOD, "method_not_allowed", "method not allowed (allowed: %s)",
                   names);
    error->allow = allow | HTTP_OPTIONS;
    return false;
}

static bool router_find_route(const server_context *ctx, const access_request *q,
                              access_result *result, http_request *r, http_error *error)
{
    unsigned allow = 0;
    r->route = route_find(r->path, r->method, &r->tail, &allow);
    if (r->route != NULL)
        r->dialect = r->route->dialect;
    const bool is_public = r->route != NULL && r->route->privilege == PRIVILEGE_PUBLIC;
    if (!is_public && !access_check_key(ctx->access, q, result, error))
        return false;
    if (r->route == NULL)
        return router_no_route(allow, error);
    return access_check_scope(result, r->route->privilege, error);
}

static bool router_on_head(void *context, const exchange *x, http_request *r, http_error *error)
{
    const server_context *ctx = context;
    const access_request q = router_access_request(ctx, x);
    access_result result = {0};
    r->dialect = route_dialect_of(r->path);
    bool ok = access_check_browser(ctx->access, &q, &result, error) &&
              router_find_route(ctx, &q, &result, r, error);
    r->cors = result.cors;
    r->key = result.key;
    if (!ok)
        return false;
    r->client = result.client;
    r->ns = result.ns;
    r->admin = result.scopes & 1u << PRIVILEGE_ADMIN;
    r->quota = result.quota;
    if (ctx->draining && r->route->privilege != PRIVILEGE_PUBLIC) {
        http_error_set(error, HTTP_E_UNAVAILABLE, "draining", "the server is shutting down");
        return false;
    }
    if (!route_is_upload(r->route))
        return access_check_type(&q, error);
    r->max_body = ctx->limits->at[LIMIT_FILE];
    return access_check_form(&q, result.cors, error);
}

static void router_on_request(void *context, exchange *x)
{
    (void)context;
    exchange_request(x)->route->handler(x);
}

static void router_on_finished(void *context, const exchange *x, log_request *line)
{
    const server_context *ctx = context;
    const http_request *r = exchange_request(x);
    line->label = r->route != NULL ? r->route->label : "-";
    line->key = r->key;
    request_counts_add(ctx->counts, (api_dialect)r->dialect, line->label, line->status);
    log_write_request(&ctx->log, line);
}

static int router_print_error(void *context, const exchange *x, const http_error *e, strbuf *out)
{
    (void)context;
    const http_request *r = exchange_request(x); /* on_head may not have been called */
    const api_dialect dialect =
        r->route != NULL ? (api_dialect)r->dialect : route_dialect_of(r->path);
    return error_format_print(e, dialect, exchange_id(x), out);
}

void router_set_hooks(http_hooks *hooks)
{
    hooks->on_head = router_on_head;
    hooks->on_request = router_on_request;
    hooks->on_finished = router_on_finished;
    hooks->print_error = router_print_error;
}
