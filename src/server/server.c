/* SPDX-License-Identifier: Apache-2.0 */
/* server.c - the parts of a server put together, started, drained and taken apart. See server.h. */
#include "server/server.h"

#include "base/mem.h"
#include "base/os.h"
#include "chat/form.h"
#include "media/fit.h"
#include "server/server_int.h"
#include "server/systemd.h"

#include <ctype.h>
#include <stdio.h>
#include <sys/stat.h>

enum { RECALL_BYTES = 64 << 20, BODY_WITH_PICTURES = 32 << 20 };
static const double USUAL_DRAIN = 30;

/* ---- what the loop calls ---- */

static void on_woken(void *with)
{
    server *s = with;
    sched_collect(s->sched, api_collected, s);
    if (s->sight != NULL)
        sight_collect(s->sight);
}

static void on_connected(void *with, struct uv_stream_s *listener, bool is_unix)
{
    server *s = with;
    conns_accept(s->conns, listener, is_unix);
}

static void on_turn(void *with)
{
    server *s = with;
    conns_turn(s->conns);
}

static void finish(server *s)
{
    conns_close(s->conns);
    loop_finish(s->loop);
    s->finished = true;
}

static void on_tick(void *with, double now)
{
    server *s = with;
    if (s->finished)
        return;
    conns_sweep(s->conns, now);
    if (now - s->last_second >= 1) {
        s->last_second = now;
        peers_sweep(s->peers, now);
        api_tick(s);
    }
    if (s->watchdog > 0 && now - s->last_watchdog >= s->watchdog) {
        s->last_watchdog = now;
        systemd_tell("WATCHDOG=1");
    }
    if (s->draining && (conns_busy(s->conns) == 0 || now >= s->drain_until))
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
    loop_stop_listening(s->loop);
    sched_drain(s->sched);
    conns_drain(s->conns);
    server_log(s, 1, "stopping: %u connections are being answered", conns_busy(s->conns));
}

static void wake(void *with)
{
    server *s = with;
    loop_wake(s->loop);
}

/* ---- making one ---- */

/* "Qwen3.5-4B-Q4_K_M.gguf" is called "qwen3.5-4b-q4_k_m". */
static void name_from_file(char out[SERVER_NAME_BYTES], const char *path)
{
    const char *slash = strrchr(path, '/');
    snprintf(out, SERVER_NAME_BYTES, "%s", slash != NULL ? slash + 1 : path);
    size_t n = strlen(out);
    if (n > 5 && strcmp(out + n - 5, ".gguf") == 0)
        out[n - 5] = '\0';
    for (char *p = out; *p != '\0'; p++) {
        bool plain = isalnum((unsigned char)*p) || strchr("._-:", *p) != NULL;
        *p = plain ? (char)tolower((unsigned char)*p) : '-';
    }
}

static void describe_model(server *s)
{
    struct stat info;
    if (s->options.name != NULL)
        snprintf(s->name, sizeof s->name, "%s", s->options.name);
    else
        name_from_file(s->name, s->options.model_path);
    if (stat(s->options.model_path, &info) == 0)
        s->model_date = (int64_t)info.st_mtime;
}

/* Addresses others can reach need a key, unless somebody has said that he wants it otherwise. */
static mote_status check_exposure(const server *s, mote_error *err)
{
    for (size_t i = 0; i < s->listening.n; i++) {
        const listen_socket *at = &s->listening.sockets[i];
        if (at->wide && !access_has_keys(s->access) && !s->options.unauthenticated)
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
        TRY(loop_listen(s->loop, at->fd, at->is_unix, err));
        at->fd = -1;
    }
    return MOTE_OK;
}

static bool sees(const server *s)
{
    mote_model_info info;
    mote_model_describe(s->options.model, &info);
    return info.vision && s->options.nursery != NULL;
}

static mote_status make_door(server *s, mote_error *err)
{
    const loop_hooks hooks = {on_woken, on_tick, on_stop, on_connected, on_turn, s};
    limits_init(&s->limits);
    if (sees(s))
        s->limits.at[LIMIT_BODY] = BODY_WITH_PICTURES;
    for (size_t i = 0; i < s->options.n_limits; i++)
        TRY(limits_set(&s->limits, s->options.limits[i], err));
    TRY(access_new(&s->access, &s->options, err));
    TRY(open_sockets(s, err));
    s->peers = peers_new();
    if (s->peers == NULL)
        return err_set(err, MOTE_E_MEMORY, "no memory for the list of clients");
    TRY(loop_new(&s->loop, &hooks, (uint32_t)s->limits.at[LIMIT_CONNECTIONS], err));
    TRY(conns_new(&s->conns, s, s->loop, err));
    return MOTE_OK;
}

/* Where nobody said how much, and all of it is little, an eighth. */
static uint64_t picture_memory(const server *s)
{
    const double said = s->limits.at[LIMIT_PICTURE_MEMORY];
    const double eighth = (double)s->options.sched.memory / 8;
    const bool usual = said == limit_rows[LIMIT_PICTURE_MEMORY].initial;
    return (uint64_t)(usual && eighth > 0 && eighth < said ? eighth : said);
}

/* Of what everything may take, what seeing does not. */
static mote_status make_sight(server *s, sched_options *rest, mote_error *err)
{
    const double *at = s->limits.at;
    sight_options o = {.model = s->options.model,
                       .nursery = s->options.nursery,
                       .threads = rest->threads,
                       .at_once = (uint32_t)at[LIMIT_PICTURES_AT_ONCE],
                       .queue = rest->queue > 0 ? rest->queue : SCHED_USUAL_QUEUE,
                       .pictures = (uint32_t)at[LIMIT_PICTURES],
                       .tokens = s->options.image_tokens,
                       .most_tokens = (uint32_t)at[LIMIT_PICTURE_TOKENS],
                       .file_bytes = (uint64_t)at[LIMIT_PICTURE_BYTES],
                       .pixels = (uint64_t)at[LIMIT_PICTURE_PIXELS],
                       .memory = picture_memory(s),
                       .wake = wake,
                       .with = s};
    if (o.tokens == 0)
        o.tokens = MEDIA_USUAL_TOKENS;
    if (o.most_tokens < o.tokens)
        o.most_tokens = o.tokens;
    TRY(sight_new(&s->sight, &o, err));
    const uint64_t taken = sight_memory(s->sight);
    if (rest->memory > 0 && rest->memory <= taken)
        return err_set(err, MOTE_E_MEMORY,
                       "pictures may take %llu MB, which is all of `memory`: raise it, or lower "
                       "--limit picture-memory-bytes or picture-tokens",
                       (unsigned long long)taken / 1000000);
    if (rest->memory > 0)
        rest->memory -= taken;
    return MOTE_OK;
}

static mote_status make_inside(server *s, mote_error *err)
{
    sched_options wanted = s->options.sched;
    wanted.model = s->options.model;
    wanted.wake = wake;
    wanted.with = s;
    describe_model(s);
    TRY(chat_kit_of(&s->kit, s->options.model, err));
    TRY(recall_new(&s->recall, RECALL_BYTES, err));
    if (sees(s))
        TRY(make_sight(s, &wanted, err));
    TRY(sched_new(&s->sched, &wanted, err));
    return api_new(&s->api, s, err);
}

mote_status server_new(server **out, const server_options *options, mote_error *err)
{
    *out = NULL;
    server *s = mem_new(1, sizeof *s);
    if (s == NULL)
        return err_set(err, MOTE_E_MEMORY, "no memory for a server");
    s->options = *options;
    pthread_mutex_init(&s->vocab_lock, NULL);
    mote_status status = make_door(s, err);
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
    loop_run(s->loop);
    return MOTE_OK;
}

void server_stop(server *s)
{
    loop_stop(s->loop);
}

void server_free(server *s)
{
    if (s == NULL)
        return;
    api_free(s->api);
    sched_free(s->sched);
    sight_free(s->sight); /* answers show what it holds */
    recall_free(s->recall);
    loop_free(s->loop);
    conns_free(s->conns);
    peers_free(s->peers);
    access_free(s->access);
    listen_close(&s->listening);
    vocab_free(s->vocab);
    pthread_mutex_destroy(&s->vocab_lock);
    mem_free(s);
}

/* ---- what handlers need ---- */

const server_options *server_settings(const server *s)
{
    return &s->options;
}

sched *server_sched(const server *s)
{
    return s->sched;
}

recall *server_recall(const server *s)
{
    return s->recall;
}

sight *server_sight(const server *s)
{
    return s->sight;
}

const chat_kit *server_kit(const server *s)
{
    return &s->kit;
}

api *server_api(const server *s)
{
    return s->api;
}

mote_status server_vocab(server *s, const struct vocab **out, mote_error *err)
{
    mote_status status = MOTE_OK;
    pthread_mutex_lock(&s->vocab_lock);
    if (s->vocab == NULL)
        status = chat_vocab_of(&s->vocab, &s->kit, err);
    *out = s->vocab;
    pthread_mutex_unlock(&s->vocab_lock);
    return status;
}

const char *server_model_name(const server *s)
{
    return s->name;
}

bool server_draining(const server *s)
{
    return s->draining;
}

int64_t server_model_date(const server *s)
{
    return s->model_date;
}

size_t server_n_addresses(const server *s)
{
    return s->listening.n;
}

const char *server_address(const server *s, size_t i)
{
    return s->listening.sockets[i].name;
}

void server_count_form(server *s)
{
    s->forms++;
}

void server_read_figures(const server *s, server_figures *out)
{
    loop_figures l;
    loop_read_figures(s->loop, &l);
    *out = (server_figures){
        .connections = conns_open(s->conns),
        .requests = s->requests,
        .refused_connections = s->refused_connections,
        .refused_requests = s->refused_requests,
        .body_bytes = s->body_bytes,
        .forms = s->forms,
        .loop_longest = l.longest,
        .loop_longest_lately = l.longest_lately,
        .loop_over_20_ms = l.over_20_ms,
        .loop_busy = l.busy,
    };
}
