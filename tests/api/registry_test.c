/* SPDX-License-Identifier: Apache-2.0 */
/*
 * registry_test.c - loads and unloads of installed models: the registry with its loader thread and
 * a real model file. The test is the loop thread.
 *
 * A file that cannot be opened yet is a named pipe: opening it waits for a writer, so the loader
 * thread stands still until the test lets it go on.
 */
#define _GNU_SOURCE
#include "base/mem.h"
#include "base/os.h"
#include "server/core/limits.h"
#include "server/generation/generation.h"
#include "server/models/model_registry.h"
#include "support/data.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { MAX_MODELS = 4, PATIENCE = 300 };

/* ---- the catalog and the loop ---- */

typedef struct stage {
    char tiny[TEST_PATH], pipe[64];
    installed_model models[MAX_MODELS];
    size_t n;
    limits limits;
    model_registry *registry;
    pthread_mutex_t lock;
    pthread_cond_t woken;
    bool wake;
    unsigned n_loaded, n_failed, n_unloaded;
} stage;

static mote_status stage_list(void *with, model_catalog_add *add, void *to, mote_error *err)
{
    const stage *s = with;
    (void)err;
    for (size_t i = 0; i < s->n; i++)
        add(to, &s->models[i]);
    return MOTE_OK;
}

static void stage_wake(void *with)
{
    stage *s = with;
    pthread_mutex_lock(&s->lock);
    s->wake = true;
    pthread_cond_signal(&s->woken);
    pthread_mutex_unlock(&s->lock);
}

static void stage_on_change(void *with, const model_change *change)
{
    stage *s = with;
    s->n_loaded += change->loaded != NULL;
    s->n_failed += change->error != NULL;
    s->n_unloaded += change->loaded == NULL && change->error == NULL;
}

/* One turn of the loop. */
static void stage_turn(stage *s)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec++;
    pthread_mutex_lock(&s->lock);
    if (!s->wake)
        pthread_cond_timedwait(&s->woken, &s->lock, &until);
    s->wake = false;
    pthread_mutex_unlock(&s->lock);
    model_registry_collect(s->registry, stage_on_change, s);
}

#define TURN_UNTIL(s, condition)                                                                   \
    do {                                                                                           \
        const double end = os_now() + PATIENCE;                                                    \
        while (!(condition)) {                                                                     \
            if (os_now() > end)                                                                    \
                fail_msg("never: %s", #condition);                                                 \
            stage_turn(s);                                                                         \
        }                                                                                          \
    } while (0)

static void stage_install(stage *s, const char *name, const char *path)
{
    s->models[s->n++] = (installed_model){
        .name = name, .weights = path, .bytes = 1, .date = 1, .repo = "", .quant = ""};
}

static void stage_open(stage *s, const model_registry_options *more)
{
    mote_error err = {0};
    model_registry_options o = *more;
    o.catalog = (model_catalog){.list = stage_list, .with = s};
    o.limits = &s->limits;
    o.sched.wake = stage_wake;
    o.sched.with = s;
    o.sched.threads = 1;
    o.sched.parallel = 2;
    if (o.sched.kv_tokens == 0)
        o.sched.kv_tokens = 1024;
    if (model_registry_new(&s->registry, &o, &err) != MOTE_OK)
        fail_msg("%s", err.text);
}

static int stage_set_up(void **state)
{
    stage *s = calloc(1, sizeof *s);
    assert_non_null(s);
    if (!test_data_path(s->tiny, "mote-tiny-Q4_K_M.gguf"))
        fail_msg("no mote-tiny-Q4_K_M.gguf");
    snprintf(s->pipe, sizeof s->pipe, "/tmp/mote-registry-%d.gguf", (int)getpid());
    unlink(s->pipe);
    assert_int_equal(mkfifo(s->pipe, 0600), 0);
    limits_init(&s->limits);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->woken, NULL);
    *state = s;
    return 0;
}

static int stage_tear_down(void **state)
{
    stage *s = *state;
    model_registry_free(s->registry);
    unlink(s->pipe);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->woken);
    free(s);
    return 0;
}

static model_entry *entry(const stage *s, const char *name)
{
    model_entry *e = model_registry_find(s->registry, str_of(name));
    if (e == NULL)
        fail_msg("no entry %s", name);
    return e;
}

/* Lets the loader go on: it finds that the pipe is not a file, and fails. Close the result when that
 * is over. */
static int release_pipe(const stage *s)
{
    const int fd = open(s->pipe, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

/* ---- waits ---- */

typedef struct client {
    model_wait wait;
    bool over;
} client;

static void client_done(void *with)
{
    ((client *)with)->over = true;
}

static void client_begin(client *c, model_entry *e)
{
    *c = (client){.wait = {.entry = e, .done = client_done, .with = c}};
    assert_true(model_wait_begin(&c->wait));
}

static void client_load(stage *s, client *c, const char *name)
{
    client_begin(c, entry(s, name));
    TURN_UNTIL(s, c->over);
    if (c->wait.served == NULL)
        fail_msg("%s: %s", name, c->wait.error.text);
}

typedef struct unloader {
    model_unload unload;
    bool over;
} unloader;

static void unloader_done(void *with)
{
    ((unloader *)with)->over = true;
}

static void unloader_begin(unloader *u, model_entry *e)
{
    *u = (unloader){.unload = {.entry = e, .done = unloader_done, .with = u}};
    model_unload_begin(&u->unload);
}

static void check_reply(const model_wait *w, int status, const char *code)
{
    http_error error = {0};
    generation_load_error(w, &error);
    assert_int_equal(http_error_status(error.kind), status);
    assert_string_equal(error.code, code);
}

/* ---- cases ---- */

/* A file that was replaced is loaded again when its last request ends. Until then other models are
 * loaded, also for requests that came later. */
static void a_replaced_model_does_not_hold_up_others(void **state)
{
    stage *s = *state;
    client stream, next, other;
    stage_install(s, "a", s->tiny);
    stage_install(s, "b", s->tiny);
    stage_open(s, &(model_registry_options){.keep_alive = -1});
    client_load(s, &stream, "a");
    s->models[0].date++;
    model_registry_rescan(s->registry);
    assert_null(model_lease_try(entry(s, "a")));
    client_begin(&next, entry(s, "a"));
    client_begin(&other, entry(s, "b"));
    TURN_UNTIL(s, other.over);
    assert_non_null(other.wait.served);
    assert_false(next.over);
    model_lease_end(entry(s, "a"));
    TURN_UNTIL(s, next.over);
    assert_non_null(next.wait.served);
    model_lease_end(entry(s, "a"));
    model_lease_end(entry(s, "b"));
}

/* The wait gets the new file, although the load began with the old one. */
static void a_file_replaced_during_its_load_is_loaded_again(void **state)
{
    stage *s = *state;
    client c;
    stage_install(s, "a", s->pipe);
    stage_open(s, &(model_registry_options){.keep_alive = -1});
    client_begin(&c, entry(s, "a"));
    usleep(50000); /* the load has begun; if not, the case is an easy one */
    s->models[0].weights = s->tiny;
    s->models[0].date++;
    model_registry_rescan(s->registry);
    const int fd = release_pipe(s);
    TURN_UNTIL(s, c.over);
    close(fd);
    if (c.wait.served == NULL)
        fail_msg("%s", c.wait.error.text);
    model_lease_end(entry(s, "a"));
}

/* A request to unload does not wait for the loader thread, and gets its answer later. */
static void an_unload_does_not_block(void **state)
{
    stage *s = *state;
    client a, slow;
    unloader one, two, busy, gone;
    stage_install(s, "a", s->tiny);
    stage_install(s, "slow", s->pipe);
    stage_open(s, &(model_registry_options){.keep_alive = -1});
    client_load(s, &a, "a");
    unloader_begin(&busy, entry(s, "a"));
    TURN_UNTIL(s, busy.over);
    assert_false(busy.unload.unloaded);
    model_lease_end(entry(s, "a"));
    client_begin(&slow, entry(s, "slow"));
    usleep(50000); /* the loader stands still; if not, the case is an easy one */
    unloader_begin(&one, entry(s, "a"));
    unloader_begin(&two, entry(s, "a"));
    unloader_begin(&gone, entry(s, "a"));
    model_unload_cancel(&gone.unload);
    const int fd = release_pipe(s);
    TURN_UNTIL(s, one.over && two.over && slow.over);
    close(fd);
    assert_true(one.unload.unloaded && two.unload.unloaded);
    assert_false(gone.over);
    assert_null(slow.wait.served);
    unloader_begin(&one, entry(s, "a"));
    TURN_UNTIL(s, one.over);
    assert_true(one.unload.unloaded); /* it was not loaded */
}

/* A lease that comes first wins. */
static void a_request_ends_an_unload(void **state)
{
    stage *s = *state;
    client a, slow;
    unloader u;
    stage_install(s, "a", s->tiny);
    stage_install(s, "slow", s->pipe);
    stage_open(s, &(model_registry_options){.keep_alive = -1});
    client_load(s, &a, "a");
    model_lease_end(entry(s, "a"));
    client_begin(&slow, entry(s, "slow"));
    usleep(50000);
    unloader_begin(&u, entry(s, "a"));
    const bool leased = model_lease_try(entry(s, "a")) != NULL;
    const int fd = release_pipe(s);
    TURN_UNTIL(s, u.over && slow.over);
    close(fd);
    assert_int_equal(u.unload.unloaded, !leased);
    if (leased)
        model_lease_end(entry(s, "a"));
}

/* A load that no request waits for any more is given up; so is one when the server stops. */
static void a_canceled_wait_ends(void **state)
{
    stage *s = *state;
    client a, b;
    stage_install(s, "a", s->tiny);
    stage_install(s, "slow", s->pipe);
    stage_open(s, &(model_registry_options){.keep_alive = -1});
    for (int i = 0; i < 20; i++) {
        client_begin(&a, entry(s, "a"));
        client_begin(&b, entry(s, "a"));
        usleep((useconds_t)(i * 500)); /* any moment of a load */
        model_wait_cancel(&a.wait);
        if (i % 2 == 0) {
            TURN_UNTIL(s, b.over);
            assert_non_null(b.wait.served);
            model_lease_end(entry(s, "a"));
        } else {
            model_wait_cancel(&b.wait);
        }
        unloader u;
        unloader_begin(&u, entry(s, "a"));
        TURN_UNTIL(s, u.over);
        assert_false(a.over);
    }
    client_begin(&a, entry(s, "a"));
    model_wait_cancel(&a.wait); /* the registry is freed at once */
}

/* --context above what the model is trained for is reduced for this model. */
static void context_is_at_most_the_trained_one(void **state)
{
    stage *s = *state;
    client a;
    mote_model *model;
    mote_model_info info;
    assert_int_equal(mote_model_open(&model, s->tiny, NULL, NULL), MOTE_OK);
    mote_model_describe(model, &info);
    mote_model_close(model);
    stage_install(s, "a", s->tiny);
    stage_open(s, &(model_registry_options){
                      .keep_alive = -1,
                      .sched = {.context = 2ull * info.context, .kv_tokens = 2ull * info.context}});
    client_load(s, &a, "a");
    assert_int_equal(served_model_context(a.wait.served), info.context);
    model_lease_end(entry(s, "a"));
}

/* Options that no model can have are refused at the start. */
static void impossible_options_are_refused(void **state)
{
    stage *s = *state;
    mote_error err = {0};
    model_registry_options o = {.catalog = {.list = stage_list, .with = s},
                                .limits = &s->limits,
                                .sched = {.context = 8192, .kv_tokens = 1024}};
    assert_int_equal(model_registry_new(&s->registry, &o, &err), MOTE_E_ARG);
    assert_null(s->registry);
    assert_non_null(strstr(err.text, "--kv-tokens"));
}

static void a_model_above_the_limit_is_too_large(void **state)
{
    stage *s = *state;
    client a;
    stage_install(s, "a", s->tiny);
    stage_open(s, &(model_registry_options){.keep_alive = -1, .sched = {.memory = 10000000}});
    client_begin(&a, entry(s, "a"));
    TURN_UNTIL(s, a.over);
    assert_null(a.wait.served);
    assert_true(a.wait.too_large);
    assert_int_equal(a.wait.error.status, MOTE_E_MEMORY);
    check_reply(&a.wait, 400, "model_too_large");
}

/* Every allocation of a load fails once: the wait gets an error that does not last, nothing stays
 * reserved, and the next request loads the model. */
static void a_failed_allocation_does_not_last(void **state)
{
    enum { MOST = 100000 };
    stage *s = *state;
    model_registry_stats stats;
    stage_install(s, "a", s->tiny);
    stage_open(s, &(model_registry_options){.keep_alive = -1});
    model_entry *e = entry(s, "a");
    unsigned failed = 0;
    for (uint64_t n = 1; n < MOST; n += 1 + n / 8) {
        client a;
        unloader u;
        mem_fail_at(n);
        client_begin(&a, e);
        TURN_UNTIL(s, a.over);
        const bool hit = mem_failed();
        mem_fail_at(0);
        model_registry_read_stats(s->registry, &stats);
        if (a.wait.served == NULL) {
            failed++;
            assert_true(hit);
            assert_false(a.wait.too_large);
            assert_int_equal(a.wait.error.status, MOTE_E_MEMORY);
            check_reply(&a.wait, 503, "out_of_memory");
            assert_int_equal(stats.memory, 0);
            client_load(s, &a, "a");
        }
        model_lease_end(e);
        unloader_begin(&u, e);
        TURN_UNTIL(s, u.over);
        assert_true(u.unload.unloaded);
        model_registry_read_stats(s->registry, &stats);
        assert_int_equal(stats.memory + stats.loaded, 0);
        if (!hit)
            break;
    }
    print_message("%u loads failed\n", failed);
    assert_true(failed > 10);
}

/* Two names that are equal up to the longest length: the first one counts, at every scan. */
static void long_names_are_cut_without_a_mix(void **state)
{
    stage *s = *state;
    client a;
    char one[200], two[200];
    memset(one, 'x', sizeof one);
    memcpy(two, one, sizeof two);
    one[sizeof one - 1] = two[sizeof two - 1] = '\0';
    two[sizeof two - 2] = 'y';
    stage_install(s, one, s->tiny);
    stage_install(s, two, s->pipe);
    stage_open(s, &(model_registry_options){.keep_alive = -1});
    one[MODEL_NAME_BYTES - 1] = '\0';
    client_load(s, &a, one);
    model_lease_end(entry(s, one));
    model_registry_rescan(s->registry);
    assert_non_null(model_lease_try(entry(s, one)));
    model_lease_end(entry(s, one));
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, stage_set_up, stage_tear_down)
    const struct CMUnitTest tests[] = {
        CASE(a_replaced_model_does_not_hold_up_others),
        CASE(a_file_replaced_during_its_load_is_loaded_again),
        CASE(an_unload_does_not_block),
        CASE(a_request_ends_an_unload),
        CASE(a_canceled_wait_ends),
        CASE(context_is_at_most_the_trained_one),
        CASE(impossible_options_are_refused),
        CASE(a_model_above_the_limit_is_too_large),
        CASE(a_failed_allocation_does_not_last),
        CASE(long_names_are_cut_without_a_mix),
    };
    return cmocka_run_group_tests_name("registry", tests, NULL, NULL);
}
