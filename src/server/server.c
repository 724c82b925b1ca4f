/* SPDX-License-Identifier: Apache-2.0 */
/* server.c - the parts of a server put together, started, drained and taken apart. See server.h. */
#include "server/server.h"

#include "base/mem.h"
#include "base/os.h"
#include "server/auth/api_keys.h"
#include "server/generation/generation.h"
#include "server/http/systemd.h"
#include "server/server_int.h"

enum { BODY_WITH_IMAGES = 32 << 20 };

/* Limits of each key. */
static const text_store_options responses_limits = {
    .entries = 1024, .bytes = (size_t)64 << 20, .seconds = 24 * 3600.0};
static const text_store_options items_limits = {
    .entries = 4096, .bytes = (size_t)64 << 20, .seconds = 24 * 3600.0};
static const text_store_options reports_limits = {
    .entries = 1024, .bytes = (size_t)4 << 20, .seconds = 24 * 3600.0};

static const double USUAL_DRAIN = 30;

/* ---- what the loop calls ---- */

static void on_woken(void *with)
{
    server *s = with;
    const model_registry *models = s->context.models;
    for (size_t i = 0; i < model_registry_count(models); i++) {
        served_model *m = model_registry_at(models, i);
        sched_collect(served_model_sched(m), generation_on_event, NULL);
        if (served_model_vision(m) != NULL)
            vision_service_collect(served_model_vision(m));
    }
}

static void on_connected(void *with, struct uv_stream_s *listener, bool is_unix)
{
    server *s = with;
    connection_set_accept(s->connection_set, listener, is_unix);
}

static void on_turn(void *with)
{
    server *s = with;
    connection_set_turn(s->connection_set);
}

static void finish(server *s)
{
    connection_set_close(s->connection_set);
    event_loop_finish(s->loop);
    s->finished = true;
}

/* Somebody ended the process that decodes pictures: the next picture starts another one. */
static void look_after_decoders(server *s)
{
    const uint64_t lost = s->decoders.lost;
    if (s->options.fork_server == NULL)
        return;
    fork_server_poll(s->options.fork_server, &s->decoders);
    s->context.decoder_exits = s->decoders.lost;
    if (s->decoders.lost != lost)
        log_message(&s->context.log, 0,
                    "the process that decodes pictures is gone (%s, %d): the next picture starts "
                    "another one",
                    s->decoders.signal != 0 ? strsignal(s->decoders.signal) : "by no signal",
                    s->decoders.signal);
}

/* What is wrong with the file of the keys is said once, and the keys stay as they were. */
static void look_after_keys(server *s)
{
    api_keys_change change;
    mote_error err;
    if (access_look(s->context.access, &change, &err) != MOTE_OK)
        log_message(&s->context.log, 0,
                    "the key file has changed and is NOT used, the keys are those of before: %s",
                    err.text);
    else if (change.added + change.gone + change.altered > 0)
        log_message(&s->context.log, 1,
                    "the key file was read again: %zu keys; %zu new, %zu gone, %zu altered",
                    server_n_keys(s), change.added, change.gone, change.altered);
}

static void on_tick(void *with, double now)
{
    server *s = with;
    if (s->finished)
        return;
    connection_set_sweep(s->connection_set, now);
    if (now - s->last_second >= 1) {
        s->last_second = now;
        peers_sweep(s->peers, now);
        generation_tick(&s->context);
        look_after_decoders(s);
        look_after_keys(s);
        for (size_t i = 0; i < model_registry_count(s->context.models); i++)
            served_model_tick(model_registry_at(s->context.models, i), now);
    }
    if (s->watchdog > 0 && now - s->last_watchdog >= s->watchdog) {
        s->last_watchdog = now;
        systemd_tell("WATCHDOG=1");
    }
    if (s->context.draining &&
        (connection_set_busy(s->connection_set) == 0 || now >= s->drain_until))
        finish(s);
}

/* The first time: nobody new, and those who are being answered have some time left. */
static void on_stop(void *with)
{
    server *s = with;
    if (s->finished)
        return;
    if (s->context.draining) {
        finish(s);
        return;
    }
    s->context.draining = true;
    s->drain_until =
        os_now() + (s->options.drain_seconds > 0 ? s->options.drain_seconds : USUAL_DRAIN);
    systemd_tell("STOPPING=1");
    event_loop_stop_listening(s->loop);
    for (size_t i = 0; i < model_registry_count(s->context.models); i++)
        sched_drain(served_model_sched(model_registry_at(s->context.models, i)));
    connection_set_drain(s->connection_set);
    log_message(&s->context.log, 1, "stopping: %u connections are being answered",
                connection_set_busy(s->connection_set));
}

static void wake(void *with)
{
    server *s = with;
    event_loop_wake(s->loop);
}

/* ---- making one ---- */

/* Addresses others can reach need a key, unless somebody has said that he wants it otherwise. */
static mote_status check_exposure(const server *s, mote_error *err)
{
    for (size_t i = 0; i < s->listening.n; i++) {
        const listen_socket *at = &s->listening.sockets[i];
        if (at->wide && server_n_keys(s) == 0 && !s->options.unauthenticated)
            return err_set(err, MOTE_E_ARG,
                           "%s can be reached by others, and there is no key: give one with "
                           "--api-key-file or MOTE_API_KEY, or listen on 127.0.0.1 (without a key "
                           "only by --i-know-this-is-unauthenticated)",
                           at->name);
    }
    return MOTE_OK;
}

static mote_status open_sockets(server *s, mote_error *err)
{
    const server_options *o = &s->options;
    for (size_t i = 0; i < o->n_listen; i++)
        TRY(listen_add(&s->listening, o->listen[i], err));
    if (o->n_listen == 0 && systemd_passed() > 0)
        TRY(listen_add(&s->listening, "systemd", err));
    else if (o->n_listen == 0)
        TRY(listen_add_loopback(&s->listening, err));
    TRY(check_exposure(s, err));
    for (size_t i = 0; i < s->listening.n; i++)
        if (s->listening.sockets[i].host[0] != '\0')
            TRY(access_allow_host(s->context.access, str_of(s->listening.sockets[i].host), err));
    return MOTE_OK;
}

/* The loop takes the descriptors over. */
static mote_status serve_sockets(server *s, mote_error *err)
{
    for (size_t i = 0; i < s->listening.n; i++) {
        listen_socket *at = &s->listening.sockets[i];
        TRY(event_loop_listen(s->loop, at->fd, at->is_unix, err));
        at->fd = -1;
    }
    return MOTE_OK;
}

static model_registry_options registry_options(server *s)
{
    const server_options *o = &s->options;
    model_registry_options out = {.models = o->models,
                                  .n_models = o->n_models,
                                  .sched = o->sched,
                                  .fork_server = o->fork_server,
                                  .image_tokens = o->image_tokens,
                                  .limits = &s->limits,
                                  .keep_alive = o->keep_alive};
    out.sched.wake = wake;
    out.sched.with = s;
    return out;
}

static mote_status make_http(server *s, mote_error *err)
{
    const event_loop_hooks hooks = {on_woken, on_tick, on_stop, on_connected, on_turn, s};
    const model_registry_options models = registry_options(s);
    limits_init(&s->limits);
    if (model_registry_n_vision(&models) > 0)
        s->limits.at[LIMIT_BODY] = BODY_WITH_IMAGES;
    for (size_t i = 0; i < s->options.n_limits; i++)
        TRY(limits_set(&s->limits, s->options.limits[i], err));
    TRY(access_new(&s->context.access, &s->options, err));
    TRY(open_sockets(s, err));
    s->peers = peers_new();
    if (s->peers == NULL)
        return err_set(err, MOTE_E_MEMORY, "no memory for the list of clients");
    TRY(event_loop_new(&s->loop, &hooks, (uint32_t)s->limits.at[LIMIT_CONNECTIONS], err));
    TRY(connection_set_new(&s->connection_set, s, s->loop, err));
    return MOTE_OK;
}

static mote_status server_make_context(server *s, mote_error *err)
{
    const server_options *o = &s->options;
    server_context *c = &s->context;
    const model_registry_options models = registry_options(s);
    c->defaults = (request_defaults){.strict = o->strict,
                                     .no_ext = o->no_ext,
                                     .no_soft_switch = o->no_soft_switch,
                                     .keep_volatile = o->keep_volatile,
                                     .think = o->think,
                                     .think_budget = o->think_budget,
                                     .preset = o->preset,
                                     .system = o->system};
    c->memory_limit = o->sched.memory;
    c->loop = s->loop;
    c->counts = &s->counts;
    TRY(model_registry_new(&c->models, &models, err));
    TRY(text_store_new(&c->responses, &responses_limits, err));
    TRY(text_store_new(&c->items, &items_limits, err));
    return text_store_new(&c->reports, &reports_limits, err);
}

mote_status server_new(server **out, const server_options *options, mote_error *err)
{
    *out = NULL;
    server *s = mem_new(1, sizeof *s);
    if (s == NULL)
        return err_set(err, MOTE_E_MEMORY, "no memory for a server");
    s->options = *options;
    s->context.log = (log_options){.level = options->log_level, .json = options->log_json};
    mote_status status = make_http(s, err);
    if (status == MOTE_OK)
        status = server_make_context(s, err);
    if (status == MOTE_OK)
        status = serve_sockets(s, err);
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
    systemd_tell("READY=1");
    event_loop_run(s->loop);
    return MOTE_OK;
}

void server_stop(server *s)
{
    event_loop_stop(s->loop);
}

void server_free(server *s)
{
    if (s == NULL)
        return;
    text_store_free(s->context.reports);
    text_store_free(s->context.items);
    text_store_free(s->context.responses);
    model_registry_free(s->context.models);
    event_loop_free(s->loop);
    connection_set_free(s->connection_set);
    peers_free(s->peers);
    access_free(s->context.access);
    listen_close(&s->listening);
    mem_free(s);
}

/* ---- what handlers need ---- */

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
    return s->listening.n;
}

const char *server_address(const server *s, size_t i)
{
    return s->listening.sockets[i].name;
}

void server_read_stats(const server_context *c, server_stats *out)
{
    const server *s = (const server *)c; /* the first member */
    event_loop_stats l;
    event_loop_read_stats(s->loop, &l);
    *out = (server_stats){
        .connections = connection_set_open(s->connection_set),
        .requests = s->requests,
        .refused_connections = s->refused_connections,
        .refused_requests = s->refused_requests,
        .body_bytes = s->body_bytes,
        .forms = c->structured_outputs,
        .loop_longest = l.longest,
        .loop_longest_lately = l.longest_lately,
        .loop_over_20_ms = l.over_20_ms,
        .loop_busy = l.busy,
        .decoders_lost = c->decoder_exits,
    };
}
