/* SPDX-License-Identifier: Apache-2.0 */
/* server.c - the parts of a server put together, started, drained and taken apart. See server.h. */
#include "server/server.h"

#include "base/mem.h"
#include "base/os.h"
#include "server/auth/api_keys.h"
#include "server/http/systemd.h"
#include "server/server_int.h"

enum { ANSWER_TOKENS_BYTES = 64 << 20, BODY_WITH_IMAGES = 32 << 20 };
static const double USUAL_DRAIN = 30;

/* ---- what the loop calls ---- */

static void on_woken(void *with)
{
    server *s = with;
    for (size_t i = 0; i < s->n_models; i++) {
        sched_collect(served_model_sched(s->models[i]), api_collected, s);
        if (served_model_vision(s->models[i]) != NULL)
            vision_service_collect(served_model_vision(s->models[i]));
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
    if (s->decoders.lost != lost)
        server_log(s, 0,
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
    if (access_look(s->access, &change, &err) != MOTE_OK)
        server_log(s, 0,
                   "the key file has changed and is NOT used, the keys are those of before: %s",
                   err.text);
    else if (change.added + change.gone + change.altered > 0)
        server_log(s, 1, "the key file was read again: %zu keys; %zu new, %zu gone, %zu altered",
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
        api_tick(s);
        look_after_decoders(s);
        look_after_keys(s);
        for (size_t i = 0; i < s->n_models; i++)
            served_model_tick(s->models[i], now);
    }
    if (s->watchdog > 0 && now - s->last_watchdog >= s->watchdog) {
        s->last_watchdog = now;
        systemd_tell("WATCHDOG=1");
    }
    if (s->draining && (connection_set_busy(s->connection_set) == 0 || now >= s->drain_until))
        finish(s);
}

/* The first time: nobody new, and those who are being answered have some time left. */
static void on_stop(void *with)
{
    server *s = with;
    if (s->finished)
        return;
    if (s->draining) {
        finish(s);
        return;
    }
    s->draining = true;
    s->drain_until =
        os_now() + (s->options.drain_seconds > 0 ? s->options.drain_seconds : USUAL_DRAIN);
    systemd_tell("STOPPING=1");
    event_loop_stop_listening(s->loop);
    for (size_t i = 0; i < s->n_models; i++)
        sched_drain(served_model_sched(s->models[i]));
    connection_set_drain(s->connection_set);
    server_log(s, 1, "stopping: %u connections are being answered",
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
            TRY(access_allow_host(s->access, str_of(s->listening.sockets[i].host), err));
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

static served_model_options options_of(server *s, size_t i)
{
    const server_options *o = &s->options;
    served_model_options out = {.model = o->models[i].model,
                                .path = o->models[i].path,
                                .name = o->models[i].name,
                                .sched = o->sched,
                                .fork_server = o->fork_server,
                                .image_tokens = o->image_tokens,
                                .limits = &s->limits,
                                .answer_tokens_bytes = ANSWER_TOKENS_BYTES / o->n_models};
    out.sched.wake = wake;
    out.sched.with = s;
    out.sched.core_lock = s->core_lock;
    out.keep_alive = o->keep_alive;
    out.image_memory = s->image_memory;
    return out;
}

static uint32_t n_seeing(server *s)
{
    uint32_t n = 0;
    for (size_t i = 0; i < s->options.n_models; i++) {
        const served_model_options model = options_of(s, i);
        n += served_model_has_vision(&model);
    }
    return n;
}

static mote_status make_http(server *s, mote_error *err)
{
    const event_loop_hooks hooks = {on_woken, on_tick, on_stop, on_connected, on_turn, s};
    limits_init(&s->limits);
    if (n_seeing(s) > 0)
        s->limits.at[LIMIT_BODY] = BODY_WITH_IMAGES;
    for (size_t i = 0; i < s->options.n_limits; i++)
        TRY(limits_set(&s->limits, s->options.limits[i], err));
    TRY(access_new(&s->access, &s->options, err));
    TRY(open_sockets(s, err));
    s->peers = peers_new();
    if (s->peers == NULL)
        return err_set(err, MOTE_E_MEMORY, "no memory for the list of clients");
    TRY(event_loop_new(&s->loop, &hooks, (uint32_t)s->limits.at[LIMIT_CONNECTIONS], err));
    TRY(connection_set_new(&s->connection_set, s, s->loop, err));
    return MOTE_OK;
}

/* Each of those that see has the same part. Where nobody said how much, and all of it is little, an
 * eighth is for pictures. */
static uint64_t image_memory(server *s)
{
    const double said = s->limits.at[LIMIT_IMAGE_MEMORY];
    const double eighth = (double)s->options.sched.memory / 8;
    const bool usual = said == limit_rows[LIMIT_IMAGE_MEMORY].initial;
    const uint32_t n = n_seeing(s);
    return (uint64_t)(usual && eighth > 0 && eighth < said ? eighth : said) / (n > 0 ? n : 1);
}

/* What is left of the memory when every model has the least that it can work with. */
static mote_status divide_memory(server *s, uint64_t least[SERVER_MAX_MODELS], uint64_t *rest,
                                 mote_error *err)
{
    const uint64_t all = s->options.sched.memory;
    uint64_t sum = 0;
    for (size_t i = 0; i < s->options.n_models; i++) {
        const served_model_options model = options_of(s, i);
        TRY(served_model_least_memory(&model, &least[i], err));
        sum += least[i];
    }
    *rest = all > sum ? all - sum : 0;
    if (all >= sum || s->options.n_models == 1) /* alone it says itself what to lower */
        return MOTE_OK;
    return err_set(err, MOTE_E_MEMORY,
                   "%llu MB are not enough for %zu models, which take %llu MB at least; raise "
                   "`memory`, lower `parallel` or serve fewer",
                   (unsigned long long)all / 1000000, s->options.n_models,
                   (unsigned long long)sum / 1000000);
}

/* To each the least it needs and an equal part of the rest; what one cannot use is for those after
 * it. */
static mote_status make_models(server *s, mote_error *err)
{
    const uint64_t all = s->options.sched.memory;
    uint64_t least[SERVER_MAX_MODELS] = {0}, rest = 0;
    s->image_memory = image_memory(s);
    if (all > 0)
        TRY(divide_memory(s, least, &rest, err));
    for (; s->n_models < s->options.n_models; s->n_models++) {
        const size_t i = s->n_models, n = s->options.n_models;
        served_model_options model = options_of(s, i);
        if (n > 1 && all > 0)
            model.sched.memory = least[i] + rest / (n - i);
        TRY(served_model_new(&s->models[i], &model, err));
        const uint64_t taken = served_model_memory(s->models[i]);
        rest -= taken > least[i] && rest > 0 ? taken - least[i] : 0;
    }
    return MOTE_OK;
}

static mote_status make_inside(server *s, mote_error *err)
{
    if (s->options.n_models > 1)
        TRY(core_lock_new(&s->core_lock, err));
    TRY(make_models(s, err));
    return api_new(&s->api, err);
}

mote_status server_new(server **out, const server_options *options, mote_error *err)
{
    *out = NULL;
    server *s = mem_new(1, sizeof *s);
    if (s == NULL)
        return err_set(err, MOTE_E_MEMORY, "no memory for a server");
    s->options = *options;
    mote_status status = make_http(s, err);
    if (status == MOTE_OK)
        status = make_inside(s, err);
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
    s->started = s->last_second = s->last_watchdog = os_now();
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
    api_free(s->api);
    for (size_t i = 0; i < s->n_models; i++)
        served_model_free(s->models[i]);
    core_lock_free(s->core_lock);
    event_loop_free(s->loop);
    connection_set_free(s->connection_set);
    peers_free(s->peers);
    access_free(s->access);
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
    return s->n_models;
}

served_model *server_model(const server *s, size_t i)
{
    return s->models[i];
}

api *server_api(const server *s)
{
    return s->api;
}

bool server_draining(const server *s)
{
    return s->draining;
}

size_t server_n_keys(const server *s)
{
    return api_keys_count(access_keys(s->access));
}

size_t server_n_addresses(const server *s)
{
    return s->listening.n;
}

const char *server_address(const server *s, size_t i)
{
    return s->listening.sockets[i].name;
}

void server_count_structured_output(server *s)
{
    s->forms++;
}

void server_read_stats(const server *s, server_stats *out)
{
    event_loop_stats l;
    event_loop_read_stats(s->loop, &l);
    *out = (server_stats){
        .connections = connection_set_open(s->connection_set),
        .requests = s->requests,
        .refused_connections = s->refused_connections,
        .refused_requests = s->refused_requests,
        .body_bytes = s->body_bytes,
        .forms = s->forms,
        .loop_longest = l.longest,
        .loop_longest_lately = l.longest_lately,
        .loop_over_20_ms = l.over_20_ms,
        .loop_busy = l.busy,
        .decoders_lost = s->decoders.lost,
    };
}
