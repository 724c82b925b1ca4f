/* SPDX-License-Identifier: Apache-2.0 */
/*
 * batch_cancel_test.c - a cancellation is written while the list of batches is free.
 *
 * The event loop reads the list every 100 ms. This file has its own fsync(), which does not return
 * while the disk is slow.
 */
#define _DEFAULT_SOURCE
#include "base/mem.h"
#include "server/batch/batch_record.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool disk_is_slow, disk_waits, printed;

int fsync(int fd)
{
    (void)fd;
    pthread_mutex_lock(&lock);
    disk_waits = disk_is_slow;
    pthread_cond_broadcast(&changed);
    while (disk_is_slow)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    return 0;
}

static void set_flag(bool *flag, bool value)
{
    pthread_mutex_lock(&lock);
    *flag = value;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

/* false: it was not set for half a minute. */
static bool wait_for_flag(const bool *flag)
{
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 30;
    pthread_mutex_lock(&lock);
    while (!*flag && pthread_cond_timedwait(&changed, &lock, &end) == 0)
        continue;
    const bool set = *flag;
    pthread_mutex_unlock(&lock);
    return set;
}

typedef struct client {
    batches *batches;
    char id[BATCH_RECORD_ID_BYTES];
    strbuf reply;
} client;

static void *client_cancel(void *with)
{
    client *c = with;
    batches_cancel(c->batches, str_of(c->id), 1, &c->reply);
    return NULL;
}

static void *client_print(void *with)
{
    client *c = with;
    batches_print(c->batches, str_of(c->id), 1, &c->reply);
    set_flag(&printed, true);
    return NULL;
}

static void take_id(void *with, const char *name)
{
    snprintf(with, BATCH_RECORD_ID_BYTES, "%.*s", (int)(strlen(name) - strlen(".json")), name);
}

static void assert_has(const strbuf *text, const char *part)
{
    assert_non_null(text->p);
    assert_non_null(strstr(text->p, part));
}

static void list_is_free_while_a_cancellation_is_written(void **state)
{
    (void)state;
    char directory[] = "/tmp/mote-batch-cancel-XXXXXX", path[FILE_PATH_BYTES];
    const file_store_limits most = {.files = 10, .total_bytes = 1000};
    server_context *ctx = mem_new(1, sizeof *ctx);
    client canceller = {0}, reader = {0};
    stored_file input = {.ns = 1, .name = "a", .purpose = "batch"};
    file_store *files;
    batch_record record;
    strbuf created = {0};
    pthread_t threads[2];
    assert_non_null(ctx);
    assert_non_null(mkdtemp(directory));
    assert_int_equal(file_store_open(&files, directory, &most, &ctx->log, NULL), MOTE_OK);
    assert_int_equal(file_store_add(files, &input, str_of("{}"), NULL), MOTE_OK);
    assert_int_equal(batches_open(&canceller.batches, ctx, files, 1, NULL), MOTE_OK);
    const batch_order order = {.ns = 1,
                               .input = str_of(input.id),
                               .endpoint = str_of("/v1/chat/completions"),
                               .metadata = str_of("{\"a\":1}")};
    assert_int_equal(batches_create(canceller.batches, &order, &created, NULL), MOTE_OK);
    file_store_each(files, "batch_", ".json", take_id, canceller.id);
    reader.batches = canceller.batches;
    memcpy(reader.id, canceller.id, sizeof reader.id);

    set_flag(&disk_is_slow, true);
    assert_int_equal(pthread_create(&threads[0], NULL, client_cancel, &canceller), 0);
    const bool waits = wait_for_flag(&disk_waits);
    assert_int_equal(pthread_create(&threads[1], NULL, client_print, &reader), 0);
    const bool is_free = wait_for_flag(&printed);
    set_flag(&disk_is_slow, false);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    assert_true(waits);
    assert_true(is_free);
    assert_has(&canceller.reply, "\"status\":\"cancelling\"");
    assert_has(&reader.reply, "\"status\":\"cancelling\"");

    file_store_path(files, canceller.id, ".json", path);
    assert_true(batch_record_read(&record, path)); /* the reply came after the write */
    assert_int_equal(record.status, BATCH_CANCELLING);
    assert_true(record.cancelling > 0);
    assert_string_equal(record.metadata, "{\"a\": 1}");
    mem_free(record.metadata);
    unlink(path);
    assert_true(file_store_remove(files, str_of(input.id), 1));
    file_store_path(files, "lock", "", path);
    unlink(path);
    assert_int_equal(rmdir(directory), 0);
    strbuf_fini(&created);
    strbuf_fini(&canceller.reply);
    strbuf_fini(&reader.reply);
    batches_close(canceller.batches);
    file_store_close(files);
    mem_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(list_is_free_while_a_cancellation_is_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
