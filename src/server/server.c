/* SPDX-License-Identifier: Apache-2.0 */
/* server.c - assembles, starts, drains and frees a server. See server.h. */
#include "server/server.h"

#include "base/mem.h"
#include "base/os.h"
#include "media/sandbox/decoder.h"
#include "server/api/native/native.h"
#include "server/api/router.h"
#include "server/auth/api_keys.h"
#include "server/generation/generation.h"
#include "server/http/http_server.h"
#include "server/vision/vision_service.h"

enum { BODY_WITH_IMAGES = 32 << 20 }; /* default of --limit body-bytes with a vision encoder */

/* Limits of each cache namespace. */
static const text_store_options responses_limits = {
    .entries = 1024, .bytes = (size_t)64 << 20, .seconds = 24 * 3600.0};
static const text_store_options items_limits = {
    .entries = 4096, .bytes = (size_t)64 << 20, .seconds = 24 * 3600.0};
static const text_store_options reports_limits = {
    .entries = 1024, .bytes = (size_t)4 << 20, .seconds = 24 * 3600.0};

struct server {
    server_context context; /* first: the hooks get a pointer to it */
    server_options options;
    limits limits;
    request_counts counts;
    http_server *http;
    double last_second, last_watchdog; /* os_now() of the last tick of each */
    double watchdog;                   /* interval of the systemd watchdog; 0: none */
    fork_server_stats decoders;        /* at the last tick */
};

/* ---- hooks of the HTTP server ---- */

static void server_on_wake(void *context)
{
    const server_context *ctx = context;
    for (size_t i = 0; i < model_registry_count(ctx->models); i++) {
        served_model *m = model_registry_at(ctx->models, i);
        sched_collect(served_model_sched(m), generation_on_event, NULL);
        if (served_model_vision(m) != NULL)
            vision_service_collect(served_model_vision(m));
    }
}

static void server_check_decoders(server *s)
{
    const uint64_t exits = s->decoders.lost;
    if (s->options.fork_server == NULL)
        return;
    fork_server_poll(s->options.fork_server, &s->decoders);
    s->context.decoder_exits = s->decoders.lost;
    if (s->decoders.lost != exits)
        log_message(&s->context.log, 0,
                    "the image decoder process has exited (%s, %d); the next image starts a new "
                    "one",
                    s->decoders.signal != 0 ? strsignal(s->decoders.signal) : "no signal",
                    s->decoders.signal);
}

static void server_reload_keys(server *s)
{
    api_keys_change change;
    mote_error err;
    if (access_reload_keys(s->context.access, &change, &err) != MOTE_OK)
        log_message(&s->context.log, 0,
                    "the key file has changed and is NOT used, the old keys stay valid: %s",
                    err.text);
    else if (change.added + change.gone + change.altered > 0)
        log_message(&s->context.log, 1,
                    "key file reloaded: %zu keys; %zu new, %zu removed, %zu changed",
                    server_n_keys(s), change.added, change.gone, change.altered);
}

static void server_on_tick(void *context, double now)
{
    server *s = context;
    if (now - s->last_second >= 1) {
        s->last_second = now;
        generation_tick(&s->context);
        server_check_decoders(s);
        server_reload_keys(s);
        for (size_t i = 0; i < model_registry_count(s->context.models); i++)
            served_model_tick(model_registry_at(s->context.models, i), now);
    }
    if (s->watchdog > 0 && now - s->last_watchdog >= s->watchdog) {
        s->last_watchdog = now;
        systemd_notify("WATCHDOG=1");
    }
}

static void server_on_stop(void *context)
{
    server *s = context;
    s->context.draining = true;
    systemd_notify("STOPPING=1");
    for (size_t i = 0; i < model_registry_count(s->context.models); i++)
        sched_drain(served_model_sched(model_registry_at(s->context.models, i)));
    log_message(&s->context.log, 1, "stopping: %u connections with unfinished requests",
                http_server_busy(s->http));
}

/* Called by engine and vision threads. */
static void server_wake(void *with)
{
    const server *s = with;
    event_loop_wake(http_server_loop(s->http));
}

/* ---- creation ---- */

static model_registry_options server_registry_options(server *s)
{
    const server_options *o = &s->options;
    model_registry_options out = {.models = o->models,
                                  .n_models = o->n_models,
                                  .sched = o->sched,
                                  .fork_server = o->fork_server,
                                  .image_tokens = o->image_tokens,
                                  .limits = &s->limits,
                                  .keep_alive = o->keep_alive};
    out.sched.wake = server_wake;
    out.sched.with = s;
    return out;
}

static mote_status server_set_limits(server *s, mote_error *err)
{
    limits *l = &s->limits;
    const model_registry_options models = server_registry_options(s);
    limits_init(l);
    if (model_registry_n_vision(&models) > 0)
        l->at[LIMIT_BODY] = BODY_WITH_IMAGES;
    for (size_t i = 0; i < s->options.n_limits; i++)
        TRY(limits_set(l, s->options.limits[i], err));
    return MOTE_OK;
}

/* Addresses that other machines can reach require an API key. */
static mote_status server_check_exposure(const server *s, mote_error *err)
{
    const listen_set *set = http_server_listening(s->http);
    for (size_t i = 0; i < set->n; i++)
        if (set->sockets[i].wide && server_n_keys(s) == 0 && !s->options.unauthenticated)
            return err_set(err, MOTE_E_ARG,
                           "%s is reachable from other machines and there is no API key: set one "
                           "with --api-key-file or MOTE_API_KEY, or listen on 127.0.0.1 (to serve "
                           "without a key: --i-know-this-is-unauthenticated)",
                           set->sockets[i].name);
    return MOTE_OK;
}

static mote_status server_make_http(server *s, mote_error *err)
{
    const server_options *o = &s->options;
    server_context *c = &s->context;
    const access_options access = {.keys = o->keys,
                                   .key_file = o->key_file,
                                   .hosts = o->hosts,
                                   .n_hosts = o->n_hosts,
                                   .origins = o->origins,
                                   .n_origins = o->n_origins};
    const http_server_options http = {.limits = &s->limits,
                                      .listen = o->listen,
                                      .n_listen = o->n_listen,
                                      .vary_origin = o->n_origins > 0,
                                      .drain_seconds = o->drain_seconds};
    http_hooks hooks = {.on_wake = server_on_wake,
                        .on_tick = server_on_tick,
                        .on_stop = server_on_stop,
                        .context = c};
    router_set_hooks(&hooks);
    TRY(access_new(&c->access, &access, err));
    TRY(http_server_new(&s->http, &http, &hooks, err));
    c->http = s->http;
    c->loop = http_server_loop(s->http);
    TRY(server_check_exposure(s, err));
    const listen_set *set = http_server_listening(s->http);
    for (size_t i = 0; i < set->n; i++)
        if (set->sockets[i].host[0] != '\0')
            TRY(access_allow_host(c->access, str_of(set->sockets[i].host), err));
    return MOTE_OK;
}

static mote_status server_make_models(server *s, mote_error *err)
{
    server_context *c = &s->context;
    const model_registry_options models = server_registry_options(s);
    TRY(model_registry_new(&c->models, &models, err));
    TRY(text_store_new(&c->responses, &responses_limits, err));
    TRY(text_store_new(&c->items, &items_limits, err));
    return text_store_new(&c->reports, &reports_limits, err);
}

static mote_status server_init(server *s, const server_options *o, mote_error *err)
{
    server_context *c = &s->context;
    s->options = *o;
    c->defaults = o->defaults;
    c->log = o->log;
    c->memory_limit = o->sched.memory;
    c->counts = &s->counts;
    c->limits = &s->limits;
    TRY(server_set_limits(s, err));
    TRY(server_make_http(s, err));
    TRY(server_make_models(s, err));
    return http_server_start(s->http, err);
}

mote_status server_new(server **out, const server_options *options, mote_error *err)
{
    *out = NULL;
    server *s = mem_new(1, sizeof *s);
    if (s == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: %zu bytes for the server", sizeof *s);
    const mote_status status = server_init(s, options, err);
    if (status != MOTE_OK) {
        server_free(s);
        return status;
    }
    *out = s;
    return MOTE_OK;
}

mote_status server_run(server *s, mote_error *err)
{
    (void)err;
    s->watchdog = systemd_watchdog();
    s->context.started = s->last_second = s->last_watchdog = os_now();
    systemd_notify("READY=1");
    http_server_run(s->http);
    return MOTE_OK;
}

void server_stop(server *s)
{
    http_server_stop(s->http);
}

void server_free(server *s)
{
    if (s == NULL)
        return;
    text_store_free(s->context.reports);
    text_store_free(s->context.items);
    text_store_free(s->context.responses);
    model_registry_free(s->context.models); /* its threads wake the loop: before the HTTP server */
    http_server_free(s->http);
    access_free(s->context.access);
    mem_free(s);
}

/* ---- for the startup message ---- */

const server_options *server_settings(const server *s)
{
    return &s->options;
}

size_t server_n_models(const server *s)
{
    return model_registry_count(s->context.models);
}

served_model *server_model(const server *s, size_t i)
{
    return model_registry_at(s->context.models, i);
}

size_t server_n_keys(const server *s)
{
    return api_keys_count(access_keys(s->context.access));
}

size_t server_n_addresses(const server *s)
{
    return http_server_listening(s->http)->n;
}

const char *server_address(const server *s, size_t i)
{
    return http_server_listening(s->http)->sockets[i].name;
}
