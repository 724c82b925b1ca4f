/* SPDX-License-Identifier: Apache-2.0 */
/* server.c - assembles, starts, drains and frees a server. See server.h. */
#include "server/server.h"

#include "base/mem.h"
#include "base/os.h"
#include "base/runtime_file.h"
#include "media/sandbox/decoder.h"
#include "server/api/native/native.h"
#include "server/api/router.h"
#include "server/auth/api_keys.h"
#include "server/auth/local_key.h"
#include "server/batch/batches.h"
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
    local_key local_key;
    double last_second, last_watchdog; /* os_now() of the last tick of each */
    double watchdog;                   /* interval of the systemd watchdog; 0: none */
    fork_server_stats decoders;        /* at the last tick */
    server_sandbox sandbox;
};

/* ---- hooks of the HTTP server ---- */

/* A file with an unknown template is served with another one: the operator must know. */
static void server_report_template(const server *s, const served_model *m)
{
    char note[MOTE_TEMPLATE_NOTE];
    chat_template_note(&served_model_chat_context(m)->template, note);
    if (note[0] != '\0')
        log_message(&s->context.log, 0, "%s: %s", served_model_name(m), note);
}

static void server_log_change(void *with, const model_change *c)
{
    const server *s = with;
    const log_options *log = &s->context.log;
    if (c->error != NULL) {
        log_message(log, 0, "model %s cannot be loaded: %s", c->name, c->error->text);
        return;
    }
    log_message(log, 1, "model %s %s%s, %.2f s, %llu MB; all loaded models: %llu MB", c->name,
                c->loaded != NULL ? "loaded" : "unloaded: ",
                c->loaded != NULL ? "" : model_unload_reason_name(c->reason), c->seconds,
                (unsigned long long)c->bytes / 1000000, (unsigned long long)c->total / 1000000);
    if (c->loaded == NULL)
        return;
    const uint64_t context = served_model_context(c->loaded);
    if (context < s->options.sched.context)
        log_message(log, 0, "model %s: --context %llu is reduced to %llu, which it is trained for",
                    c->name, (unsigned long long)s->options.sched.context,
                    (unsigned long long)context);
    server_report_template(s, c->loaded);
}

static void server_on_wake(void *context)
{
    server *s = context;
    model_set set; /* the last lease of a model may end inside sched_collect() */
    model_registry_hold(s->context.models, &set);
    for (size_t i = 0; i < set.n; i++) {
        served_model *m = set.models[i];
        sched_collect(served_model_sched(m), generation_on_event, NULL);
        if (served_model_vision(m) != NULL)
            vision_service_collect(served_model_vision(m));
    }
    model_set_release(&set);
    model_registry_collect(s->context.models, server_log_change, s);
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
    else if (change.added + change.removed + change.altered > 0)
        log_message(&s->context.log, 1,
                    "key file reloaded: %zu keys; %zu new, %zu removed, %zu changed",
                    server_n_keys(s), change.added, change.removed, change.altered);
}

static void server_check_files(server *s)
{
    static const char *const texts[] = {
        [MOTE_FILE_SAME] = "its file is readable again",
        [MOTE_FILE_REPLACED] = "its file was replaced or removed; the model keeps the old contents "
                               "until the server restarts",
        [MOTE_FILE_DAMAGED] = "its file was truncated, overwritten or cannot be read; its requests "
                              "fail until the file is back",
    };
    model_set set;
    model_registry_hold(s->context.models, &set);
    for (size_t i = 0; i < set.n; i++) {
        served_model *m = set.models[i];
        bool changed;
        const mote_file_state state = served_model_check_files(m, &changed);
        if (changed)
            log_message(&s->context.log, 0, "model %s: %s", served_model_name(m), texts[state]);
    }
    model_set_release(&set);
}

static void server_on_tick(void *context, double now)
{
    server *s = context;
    if (s->options.local.start != NULL)
        s->options.local.tick(s->options.local.with, now);
    if (s->context.batches != NULL)
        batches_tick(s->context.batches, now);
    if (now - s->last_second >= 1) {
        s->last_second = now;
        generation_tick(&s->context);
        server_check_decoders(s);
        server_reload_keys(s);
        server_check_files(s);
        model_registry_tick(s->context.models, now);
    }
    if (s->watchdog > 0 && now - s->last_watchdog >= s->watchdog) {
        s->last_watchdog = now;
        systemd_notify("WATCHDOG=1");
    }
}

static void server_on_stop(void *context)
{
    server *s = context;
    s->context.stopping = true;
    if (s->context.batches != NULL)
        batches_stop(s->context.batches);
    if (s->options.local.start != NULL) {
        s->options.local.stop(s->options.local.with);
        return;
    }
    systemd_notify("STOPPING=1");
    log_message(&s->context.log, 1, "stopping: %u connections with unfinished requests",
                http_server_busy(s->http));
}

static void server_on_drain(void *context)
{
    server *s = context;
    s->context.draining = true;
}

static void server_on_cut(void *context)
{
    server *s = context;
    const unsigned n = generation_cut(&s->context);
    if (s->context.pulls != NULL)
        model_pulls_cut(s->context.pulls);
    log_message(&s->context.log, 0, "--drain is over: %u unfinished requests end with an error", n);
}

/* Called by engine and vision threads. */
static void server_wake(void *with)
{
    const server *s = with;
    event_loop_wake(http_server_loop(s->http));
}

/* Any thread. */
static void server_warn(void *with, const char *text)
{
    const server *s = with;
    log_message(&s->context.log, 0, "%s", text);
}

/* ---- creation ---- */

static model_registry_options server_registry_options(server *s)
{
    const server_options *o = &s->options;
    model_registry_options out = {.models = o->models,
                                  .n_models = o->n_models,
                                  .catalog = o->catalog,
                                  .isa = o->isa,
                                  .sched = o->sched,
                                  .fork_server = o->fork_server,
                                  .image_tokens = o->image_tokens,
                                  .chat_template = o->chat_template,
                                  .limits = &s->limits,
                                  .keep_alive = o->keep_alive};
    out.sched.wake = server_wake;
    out.sched.warn = server_warn;
    out.sched.warn_with = s;
    out.sched.with = s;
    return out;
}

static mote_status server_set_limits(server *s, mote_error *err)
{
    limits *l = &s->limits;
    const model_registry_options models = server_registry_options(s);
    limits_init(l);
    if (model_registry_n_vision(&models) > 0 ||
        (models.catalog.list != NULL && models.fork_server != NULL))
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

/* A missing local key closes routes, which is safe: the server starts without it. */
static void server_make_local_key(server *s)
{
    mote_error err;
    if (server_n_keys(s) > 0 || s->options.local.start != NULL)
        return;
    if (local_key_create(&s->local_key, http_server_listening(s->http), &err) == MOTE_OK)
        access_set_local_key(s->context.access, &s->local_key.digest);
    else
        log_message(&s->context.log, 1, "no key for mote ps, top, stop and why: %s", err.text);
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
                                   .n_origins = o->n_origins,
                                   .own_page = o->web};
    const http_server_options http = {.limits = &s->limits,
                                      .listen = o->listen,
                                      .n_listen = o->n_listen,
                                      .no_sockets = o->local.start != NULL,
                                      .vary_origin = o->n_origins > 0,
                                      .drain_delay = o->drain_delay,
                                      .drain_seconds = o->drain_seconds};
    http_hooks hooks = {.on_wake = server_on_wake,
                        .on_tick = server_on_tick,
                        .on_stop = server_on_stop,
                        .on_drain = server_on_drain,
                        .on_cut = server_on_cut,
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
    server_make_local_key(s);
    return MOTE_OK;
}

static mote_status server_make_models(server *s, mote_error *err)
{
    server_context *c = &s->context;
    const model_registry_options models = server_registry_options(s);
    TRY(model_registry_new(&c->models, &models, err));
    for (size_t i = 0; i < s->options.n_models; i++)
        server_report_template(s, server_model(s, i));
    const model_pulls_options pulls = {.source = s->options.pull,
                                       .loop = c->loop,
                                       .models = c->models,
                                       .most = (unsigned)s->limits.at[LIMIT_PULLS]};
    if (pulls.source.start != NULL)
        TRY(model_pulls_new(&c->pulls, &pulls, err));
    TRY(text_store_new(&c->responses, &responses_limits, err));
    TRY(text_store_new(&c->items, &items_limits, err));
    return text_store_new(&c->reports, &reports_limits, err);
}

/* Uploads, and batches that an earlier server has left. */
static mote_status server_open_files(server *s, mote_error *err)
{
    server_context *c = &s->context;
    const uint32_t parallel = s->options.sched.parallel;
    const file_store_limits most = {.files = (uint32_t)s->limits.at[LIMIT_FILES],
                                    .total_bytes = (uint64_t)s->limits.at[LIMIT_FILES_BYTES]};
    if (s->options.files == NULL)
        return MOTE_OK;
    TRY(file_store_open(&c->files, s->options.files, &most, &c->log, err));
    return batches_open(&c->batches, c, c->files, parallel, err);
}

/* ---- sandbox ---- */

static void server_limit_files(server *s)
{
    const server_options *o = &s->options;
    server_sandbox_files files = {0};
    for (size_t i = 0; i < o->n_models; i++)
        files.read[files.n_read++] = o->models[i].path;
    if (o->key_file != NULL)
        files.read[files.n_read++] = o->key_file;
    files.directories = o->directories;
    files.n_directories = o->n_directories;
    char key[RUNTIME_FILE_PATH_BYTES];
    if (local_key_path(&s->local_key, key, sizeof key))
        files.read[files.n_read++] = files.removed[files.n_removed++] = key;
    for (size_t i = 0; i < o->n_listen; i++)
        if (strncmp(o->listen[i], "unix:", 5) == 0)
            files.removed[files.n_removed++] = o->listen[i] + 5;
    files.written = o->files;
    files.cached = o->sched.disk_directory;
    server_sandbox_limit_files(&s->sandbox, &files);
}

/* A filter of system calls cannot limit the files that are written. So the disk cache needs Landlock
 * if there is a filter. */
static void server_limit_disk_cache(server *s)
{
    server_options *o = &s->options;
    if (o->sched.disk_directory == NULL || s->sandbox.landlock > 0 || !server_sandbox_has_filter())
        return;
    log_message(&s->context.log, 0,
                "disk cache off: the sandbox needs Landlock to limit it to its directory; use "
                "--sandbox off to have it nevertheless");
    o->sched.disk_directory = NULL;
}
_Static_assert(SERVER_MAX_MODELS + 2 <= (int)SERVER_SANDBOX_PATHS &&
                   LISTEN_MAX + 1 <= (int)SERVER_SANDBOX_PATHS,
               "SERVER_SANDBOX_PATHS");

/* Fails if a part of a required sandbox is missing. */
static mote_status server_check_sandbox(const server *s, bool complete, mote_error *err)
{
    if (complete || s->options.sandbox != SERVER_SANDBOX_REQUIRE)
        return MOTE_OK;
    return err_set(err, MOTE_E_UNSUPPORTED, "--sandbox require: %s", s->sandbox.reason);
}

static mote_status server_init(server *s, const server_options *o, mote_error *err)
{
    server_context *c = &s->context;
    s->options = *o;
    c->defaults = o->defaults;
    c->web = o->web;
    c->log = o->log;
    c->memory_limit = o->sched.memory_source == NULL ? o->sched.memory : 0;
    c->counts = &s->counts;
    c->limits = &s->limits;
    c->sandbox = &s->sandbox;
    c->several_models = o->n_models != 1;
    TRY(server_set_limits(s, err));
    TRY(server_make_http(s, err));
    TRY(server_open_files(s, err));
    if (o->sandbox != SERVER_SANDBOX_OFF)
        server_limit_files(s); /* before server_make_models starts threads */
    if (o->sandbox != SERVER_SANDBOX_OFF)
        server_limit_disk_cache(s);
    TRY(server_check_sandbox(s, s->sandbox.landlock > 0, err));
    TRY(server_make_models(s, err));
    TRY(http_server_start(s->http, err));
    if (o->sandbox != SERVER_SANDBOX_OFF)
        server_sandbox_limit_calls(&s->sandbox, s->options.files != NULL ||
                                                    s->options.sched.disk_directory != NULL);
    return server_check_sandbox(s, s->sandbox.seccomp, err);
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
    const server_local *local = &s->options.local;
    s->context.started = s->last_second = s->last_watchdog = os_now();
    if (local->start != NULL) {
        local->start(local->with, &s->context);
    } else {
        s->watchdog = systemd_watchdog();
        systemd_notify("READY=1");
    }
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
    batches_close(s->context.batches);
    file_store_close(s->context.files);
    text_store_free(s->context.reports);
    text_store_free(s->context.items);
    text_store_free(s->context.responses);
    model_pulls_free(s->context.pulls);
    model_registry_free(s->context.models); /* its threads wake the loop: before the HTTP server */
    http_server_free(s->http);
    local_key_remove(&s->local_key);
    access_free(s->context.access);
    mem_free(s);
}

/* ---- for the startup message ---- */

const server_options *server_settings(const server *s)
{
    return &s->options;
}

const server_sandbox *server_sandbox_state(const server *s)
{
    return &s->sandbox;
}

size_t server_n_models(const server *s)
{
    return s->options.n_models;
}

served_model *server_model(const server *s, size_t i)
{
    return model_registry_given(s->context.models, i);
}

void server_registry_stats(const server *s, model_registry_stats *out)
{
    model_registry_read_stats(s->context.models, out);
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
