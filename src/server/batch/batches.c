/* SPDX-License-Identifier: Apache-2.0 */
/*
 * batches.c - see batches.h.
 *
 * The mutex `lock` protects the list and all fields of the records; the event loop takes it. The mutex
 * `disk` orders the writes of records, so that the newest status is on the disk at the end. It is held
 * during a write, and until the list has what was written. Only workers take it, before `lock`.
 *
 * A run belongs to the event loop; while `busy` is set, a worker opens or finishes it and the loop
 * leaves it alone.
 */
#include "server/batch/batches.h"

#include "base/mem.h"
#include "base/os.h"
#include "server/batch/batch_record.h"
#include "server/batch/batch_run.h"
#include "server/generation/generation.h"
#include "server/http/event_loop.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* A batch that has begun and is not over. */
typedef struct batch_work {
    batches *of;
    batch_record record; /* a copy */
    batch_lines lines;
    batch_journal journal;
    batch_run *run;
    bool busy;     /* with a worker */
    bool over;     /* the run is over */
    bool canceled; /* the run was stopped by the client */
    bool warned;   /* of an error of the disk */
    double again;  /* not before this time, after such an error */
    mote_error error;
    struct batch_work *next;
} batch_work;

struct batches {
    server_context *ctx;
    file_store *files;
    uint32_t parallel;
    bool stopped;
    pthread_mutex_t lock, disk;
    batch_record *records; /* [n], oldest first */
    uint32_t n, room;
    batch_work *works; /* event loop only */
    uint32_t n_works;
};

/* ---- records; under the mutex ---- */

static batch_record *record_find(const batches *b, str id, uint64_t ns)
{
    for (uint32_t i = 0; i < b->n; i++)
        if (b->records[i].ns == ns && str_is(id, b->records[i].id))
            return &b->records[i];
    return NULL;
}

static bool record_insert(batches *b, const batch_record *r)
{
    if (!mem_grow(&b->records, b->n, &b->room, sizeof *b->records))
        return false;
    uint32_t at = b->n++;
    for (; at > 0 && b->records[at - 1].created > r->created; at--)
        b->records[at] = b->records[at - 1];
    b->records[at] = *r;
    return true;
}

/* Takes a cancellation by the client into a work. */
static void record_take_cancel(const batch_record *r, batch_record *into)
{
    if (r->status != BATCH_CANCELLING || batch_status_is_final(into->status))
        return;
    into->status = r->status;
    into->cancelling = r->cancelling;
}

/* Takes the changes of a work into the list. */
static void record_update(batches *b, batch_record *from)
{
    pthread_mutex_lock(&b->lock);
    batch_record *r = record_find(b, str_of(from->id), from->ns);
    if (r != NULL) {
        char *metadata = r->metadata;
        record_take_cancel(r, from);
        *r = *from;
        r->metadata = metadata;
    }
    pthread_mutex_unlock(&b->lock);
}

/* ---- opening ---- */

static void batches_read_record(void *with, const char *name)
{
    batches *b = with;
    char path[FILE_PATH_BYTES], id[BATCH_RECORD_ID_BYTES];
    batch_record r;
    snprintf(id, sizeof id, "%.*s", (int)(strlen(name) - strlen(".json")), name);
    file_store_path(b->files, id, ".json", path);
    if (!batch_record_read(&r, path))
        return;
    if (!record_insert(b, &r))
        mem_free(r.metadata);
    file_store_path(b->files, id, ".out", path);
    if (batch_status_is_final(r.status))
        unlink(path); /* the server was killed before it did */
}

mote_status batches_open(batches **out, server_context *ctx, file_store *files, uint32_t parallel,
                         mote_error *err)
{
    batches *b = mem_new(1, sizeof *b);
    *out = b;
    if (b == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory for the list of batches");
    b->ctx = ctx;
    b->files = files;
    b->parallel = parallel;
    pthread_mutex_init(&b->lock, NULL);
    pthread_mutex_init(&b->disk, NULL);
    file_store_each(files, "batch_", ".json", batches_read_record, b);
    return MOTE_OK;
}

static void work_free(batch_work *w)
{
    batch_run_free(w->run);
    batch_journal_close(&w->journal);
    batch_lines_close(&w->lines);
    mem_free(w);
}

void batches_close(batches *b)
{
    if (b == NULL)
        return;
    for (batch_work *w = b->works, *next; w != NULL; w = next) {
        next = w->next;
        work_free(w);
    }
    for (uint32_t i = 0; i < b->n; i++)
        mem_free(b->records[i].metadata);
    mem_free(b->records);
    pthread_mutex_destroy(&b->lock);
    pthread_mutex_destroy(&b->disk);
    mem_free(b);
}

/* ---- workers ---- */

static void record_path(const batches *b, const batch_record *r, const char *suffix,
                        char out[FILE_PATH_BYTES])
{
    file_store_path(b->files, r->id, suffix, out);
}

/* Under `disk`: writes the record of a work. Clients see it later, in record_update(): what they see is
 * durable, except for a cancellation. */
static mote_status record_write(batches *b, batch_record *r, mote_error *err)
{
    char path[FILE_PATH_BYTES];
    record_path(b, r, ".json", path);
    pthread_mutex_lock(&b->lock);
    const batch_record *listed = record_find(b, str_of(r->id), r->ns);
    if (listed != NULL) {
        record_take_cancel(listed, r);
        r->metadata = listed->metadata; /* a listed record of a running batch stays */
    }
    pthread_mutex_unlock(&b->lock);
    const mote_status status = batch_record_write(r, path, err);
    r->metadata = NULL;
    return status;
}

/* Writes the record of a work, and takes it into the list. */
static mote_status record_save(batches *b, batch_record *r, mote_error *err)
{
    pthread_mutex_lock(&b->disk);
    const mote_status status = record_write(b, r, err);
    if (status == MOTE_OK)
        record_update(b, r);
    pthread_mutex_unlock(&b->disk);
    return status;
}

/* Writes the last change of a record, removes the journal, and takes the record into the list. */
static mote_status record_end(batches *b, batch_record *r, mote_error *err)
{
    char path[FILE_PATH_BYTES];
    record_path(b, r, ".out", path);
    pthread_mutex_lock(&b->disk);
    const mote_status status = record_write(b, r, err);
    if (status == MOTE_OK) { /* otherwise the journal stays: an earlier record is on the disk */
        unlink(path);
        record_update(b, r);
    }
    pthread_mutex_unlock(&b->disk);
    return status;
}

/* Writes a cancellation that the list has, unless a newer status is on the disk. */
static void record_save_cancel(batches *b, str id, uint64_t ns)
{
    char path[FILE_PATH_BYTES];
    batch_record copy = {0};
    mote_error err;
    pthread_mutex_lock(&b->disk);
    pthread_mutex_lock(&b->lock);
    const batch_record *r = record_find(b, id, ns);
    const bool newest = r != NULL && r->status == BATCH_CANCELLING;
    if (newest)
        copy = *r; /* the metadata stay: without `disk` it does not end, and is not dropped */
    pthread_mutex_unlock(&b->lock);
    record_path(b, &copy, ".json", path);
    if (newest && batch_record_write(&copy, path, &err) != MOTE_OK)
        log_message(&b->ctx->log, 0, "batch %s: %s", copy.id, err.text);
    pthread_mutex_unlock(&b->disk);
}

/* Opens the input. MOTE_E_ARG: it is deleted or not valid. Other errors may pass. */
static mote_status work_open_input(batch_work *w)
{
    file_store *files = w->of->files;
    const batch_record *r = &w->record;
    const batch_part all = {.most = BATCH_LINES_MOST};
    char path[FILE_PATH_BYTES];
    stored_file input;
    struct stat info;
    const char *deleted = "the input file was deleted";
    if (!file_store_find(files, str_of(r->input), r->ns, &input))
        return file_store_is_gone(files, r->input)
                   ? err_set(&w->error, MOTE_E_ARG, "%s", deleted)
                   : err_set(&w->error, MOTE_E_IO,
                             "the input file %s could not be read when the server started; make it "
                             "readable and restart",
                             r->input);
    file_store_path(files, r->input, ".data", path);
    const mote_status status = batch_lines_open(&w->lines, path, &all, &w->error);
    if (status == MOTE_E_IO && lstat(path, &info) != 0 && errno == ENOENT)
        return err_set(&w->error, MOTE_E_ARG, "%s", deleted);
    return status;
}

/* Opens input and journal. */
static void work_open(void *with)
{
    batch_work *w = with;
    batches *b = w->of;
    batch_record *r = &w->record;
    char path[FILE_PATH_BYTES];
    if (work_open_input(w) != MOTE_OK)
        return;
    record_path(b, r, ".out", path);
    if (batch_journal_open(&w->journal, path, &w->lines, JOURNAL_OWN, 0600, &w->error) != MOTE_OK)
        return;
    r->total = w->lines.n;
    r->done = w->journal.n_done;
    r->failed = w->journal.n_failed;
    if (r->total == 0)
        err_set(&w->error, MOTE_E_ARG, "the input file has no lines");
}

/* Makes a file of results, unless there is one from before a restart, or no results. */
static mote_status work_export(batch_work *w, char id[FILE_ID_BYTES], journal_part which,
                               mote_error *err)
{
    const bool failed = which == JOURNAL_FAILED;
    char path[FILE_PATH_BYTES];
    stored_file file = {.ns = w->record.ns, .purpose = "batch_output"};
    if ((failed ? w->journal.n_failed : w->journal.n_done - w->journal.n_failed) == 0) {
        id[0] = '\0';
        return MOTE_OK;
    }
    if (file_store_find(w->of->files, str_of(id), w->record.ns, &file))
        return MOTE_OK;
    memcpy(file.id, id, sizeof file.id);
    snprintf(file.name, sizeof file.name, "%s_%s.jsonl", w->record.id, failed ? "error" : "output");
    file_store_path(w->of->files, id, ".data", path);
    TRY(batch_journal_export(&w->journal, path, which, err));
    return file_store_adopt(w->of->files, &file, err);
}

/* Results to files. Their names are in the record first, so that a restart finds them. */
static mote_status work_export_all(batch_work *w, mote_error *err)
{
    batch_record *r = &w->record;
    if (r->output[0] == '\0')
        generation_random_id(r->output, sizeof r->output, "file-");
    if (r->errors[0] == '\0')
        generation_random_id(r->errors, sizeof r->errors, "file-");
    r->finalizing = (int64_t)time(NULL);
    r->status = w->canceled ? BATCH_CANCELLING : BATCH_FINALIZING;
    TRY(record_save(w->of, r, err));
    TRY(work_export(w, r->output, JOURNAL_GOOD, err));
    return work_export(w, r->errors, JOURNAL_FAILED, err);
}

/* An error of the disk or too little memory: it may pass. */
static bool work_may_continue(const batch_work *w)
{
    return w->error.status == MOTE_E_IO || w->error.status == MOTE_E_MEMORY;
}

/* The run is over, or the input is not valid: results to files, the last change of the record. */
static void work_finish(void *with)
{
    batch_work *w = with;
    batch_record *r = &w->record;
    const bool failed = w->error.status != MOTE_OK;
    mote_error err;
    if (!failed && work_export_all(w, &err) != MOTE_OK) {
        w->error = err;
        return;
    }
    batch_record last = *r;
    last.ended = (int64_t)time(NULL);
    last.status = failed ? BATCH_FAILED : w->canceled ? BATCH_CANCELLED : BATCH_COMPLETED;
    if (failed) {
        last.output[0] = last.errors[0] = '\0';
        snprintf(last.message, sizeof last.message, "%s", w->error.text);
    }
    if (record_end(w->of, &last, &err) != MOTE_OK)
        w->error = err;
    else if (failed)
        log_message(&w->of->ctx->log, 0, "batch %s has failed: %s", r->id, last.message);
}

/* ---- the event loop ---- */

static void work_on_over(void *with)
{
    batch_work *w = with;
    w->over = true;
}

static void works_remove(batches *b, batch_work *w)
{
    batch_work **link = &b->works;
    while (*link != w)
        link = &(*link)->next;
    *link = w->next;
    b->n_works--;
    b->ctx->batch_counts.running = b->n_works;
    work_free(w);
}

static void work_finished(void *with)
{
    batch_work *w = with;
    w->busy = false;
    if (!work_may_continue(w))
        works_remove(w->of, w);
}

static void work_send(batch_work *w, void (*run)(void *with), void (*done)(void *with))
{
    w->busy = true;
    if (!event_loop_work(w->of->ctx->loop, WORK_MEDIUM + 1, run, done, w))
        w->busy = false; /* out of memory: the next tick tries again */
}

static void work_saved(void *with)
{
    batch_work *w = with;
    w->busy = false;
}

static void work_save(void *with)
{
    batch_work *w = with;
    mote_error err;
    if (record_save(w->of, &w->record, &err) == MOTE_OK)
        return;
    log_message(&w->of->ctx->log, 0, "batch %s: %s", w->record.id, err.text);
    record_update(w->of, &w->record); /* it runs nevertheless */
}

/* Has the client cancelled it? */
static bool work_is_canceled(batch_work *w)
{
    batches *b = w->of;
    pthread_mutex_lock(&b->lock);
    const batch_record *r = record_find(b, str_of(w->record.id), w->record.ns);
    const bool canceled = r == NULL || r->status == BATCH_CANCELLING;
    if (r != NULL && canceled) {
        w->record.status = r->status;
        w->record.cancelling = r->cancelling;
    }
    pthread_mutex_unlock(&b->lock);
    return canceled;
}

static void work_opened(void *with)
{
    batch_work *w = with;
    batches *b = w->of;
    w->busy = false;
    if (w->error.status != MOTE_OK || b->stopped)
        return; /* the tick goes on */
    if (work_is_canceled(w)) {
        w->canceled = w->over = true;
        return;
    }
    const batch_run_options options = {.ctx = b->ctx,
                                       .lines = &w->lines,
                                       .journal = &w->journal,
                                       .parallel = b->parallel,
                                       .client = w->record.client,
                                       .ns = w->record.ns,
                                       .background = true,
                                       .endpoint = w->record.endpoint,
                                       .patience = BATCH_PATIENCE_SECONDS,
                                       .over = work_on_over,
                                       .with = w};
    w->run = batch_run_new(&options);
    if (w->run == NULL) {
        err_set(&w->error, MOTE_E_MEMORY, "out of memory for the requests of a batch");
        return;
    }
    if (w->record.status == BATCH_VALIDATING) {
        w->record.status = BATCH_IN_PROGRESS;
        w->record.began = (int64_t)time(NULL);
    }
    batch_run_start(w->run);
    work_send(w, work_save, work_saved);
}

static void work_count(batch_work *w)
{
    batch_progress p;
    batch_counts *counts = &w->of->ctx->batch_counts;
    batch_run_progress(w->run, &p);
    counts->done += p.done - w->record.done;
    counts->failed += p.failed - w->record.failed;
    if (p.done == w->record.done)
        return;
    w->record.done = p.done;
    w->record.failed = p.failed;
    record_update(w->of, &w->record);
}

/* Closes everything; the tick opens it again later. */
static void work_pause(batch_work *w, double now)
{
    if (!w->warned)
        log_message(&w->of->ctx->log, 0, "batch %s waits and tries again every %d s: %s",
                    w->record.id, BATCH_RETRY_SECONDS, w->error.text);
    batch_run_free(w->run);
    batch_journal_close(&w->journal);
    batch_lines_close(&w->lines);
    w->run = NULL;
    w->over = w->canceled = false;
    w->warned = true;
    w->error = (mote_error){0};
    w->again = now + BATCH_RETRY_SECONDS;
}

static void work_tick(batch_work *w, double now)
{
    mote_error err;
    if (w->busy || now < w->again)
        return;
    if (w->run != NULL && !w->over) {
        batch_run_tick(w->run, now);
        work_count(w);
        if (work_is_canceled(w)) {
            batch_run_stop(w->run);
            w->canceled = w->over = true;
        }
    }
    if (w->run != NULL && w->over && batch_run_error(w->run, &err) != MOTE_OK)
        w->error = err;
    if (work_may_continue(w))
        work_pause(w, now);
    else if (w->over || w->error.status != MOTE_OK)
        work_send(w, work_finish, work_finished);
    else if (w->run == NULL)
        work_send(w, work_open, work_opened);
}

static bool key_has_work(const batches *b, uint64_t ns)
{
    for (const batch_work *w = b->works; w != NULL; w = w->next)
        if (w->record.ns == ns)
            return true;
    return false;
}

static bool record_has_work(const batches *b, const batch_record *r)
{
    for (const batch_work *w = b->works; w != NULL; w = w->next)
        if (strcmp(w->record.id, r->id) == 0)
            return true;
    return false;
}

/* The next batch to begin: the oldest of a key without a running one. A cancelled batch ends at once,
 * even if it never began. */
static batch_work *work_new(batches *b)
{
    batch_work *w = NULL;
    pthread_mutex_lock(&b->lock);
    uint32_t waiting = 0;
    for (uint32_t i = 0; i < b->n; i++) {
        const batch_record *r = &b->records[i];
        if (batch_status_is_final(r->status) || record_has_work(b, r))
            continue;
        waiting++;
        const bool must_wait = b->n_works >= BATCHES_RUNNING || key_has_work(b, r->ns);
        if (w != NULL || (must_wait && r->status != BATCH_CANCELLING))
            continue;
        w = mem_new(1, sizeof *w);
        if (w == NULL)
            break;
        w->of = b;
        w->record = *r;
        w->record.metadata = NULL;
        w->journal.fd = -1;
    }
    b->ctx->batch_counts.waiting = waiting - (w != NULL);
    pthread_mutex_unlock(&b->lock);
    return w;
}

void batches_tick(batches *b, double now)
{
    batch_work *w;
    if (b->stopped)
        return;
    while ((w = work_new(b)) != NULL) {
        w->next = b->works;
        b->works = w;
        b->ctx->batch_counts.running = ++b->n_works;
    }
    for (w = b->works; w != NULL; w = w->next)
        work_tick(w, now); /* a work ends in work_finished(), never here */
}

void batches_stop(batches *b)
{
    b->stopped = true;
    for (batch_work *w = b->works; w != NULL; w = w->next)
        if (w->run != NULL && !w->over)
            batch_run_stop(w->run);
}

/* ---- the API ---- */

/* Under the mutex: makes room for one more record of the key. Drops that of the batch that was created
 * first, of those that are over. */
static bool records_make_room(batches *b, uint64_t ns)
{
    char path[FILE_PATH_BYTES];
    uint32_t n = 0;
    for (uint32_t i = 0; i < b->n; i++)
        n += b->records[i].ns == ns;
    if (n < BATCHES_MOST)
        return true;
    for (uint32_t i = 0; i < b->n; i++) {
        batch_record *r = &b->records[i];
        if (r->ns != ns || !batch_status_is_final(r->status))
            continue;
        record_path(b, r, ".json", path);
        unlink(path);
        mem_free(r->metadata);
        b->n--;
        memmove(r, r + 1, (b->n - i) * sizeof *r);
        return true;
    }
    return false;
}

mote_status batches_create(batches *b, const batch_order *order, strbuf *out, mote_error *err)
{
    stored_file input;
    char path[FILE_PATH_BYTES];
    batch_record r = {.ns = order->ns, .client = order->client, .created = (int64_t)time(NULL)};
    if (!file_store_find(b->files, order->input, order->ns, &input))
        return err_set(err, MOTE_E_ARG, "there is no file %.*s", STR_ARG(order->input));
    snprintf(r.input, sizeof r.input, "%s", input.id);
    snprintf(r.endpoint, sizeof r.endpoint, "%.*s", STR_ARG(order->endpoint));
    generation_random_id(r.id, sizeof r.id, "batch_");
    if (order->metadata.n > 0) {
        r.metadata = mem_new(order->metadata.n + 1, 1);
        if (r.metadata == NULL)
            return err_set(err, MOTE_E_MEMORY, "out of memory for the metadata of a batch");
        memcpy(r.metadata, order->metadata.p, order->metadata.n);
    }
    record_path(b, &r, ".json", path);
    mote_status status = batch_record_write(&r, path, err);
    pthread_mutex_lock(&b->lock);
    if (status == MOTE_OK && !records_make_room(b, order->ns))
        status = err_set(err, MOTE_E_FULL, "%d batches are not over; wait for one of them",
                         BATCHES_MOST);
    if (status == MOTE_OK && !record_insert(b, &r))
        status = err_set(err, MOTE_E_MEMORY, "out of memory for the list of batches");
    pthread_mutex_unlock(&b->lock);
    if (status == MOTE_OK) {
        batch_record_print(&r, out);
        return MOTE_OK;
    }
    unlink(path);
    mem_free(r.metadata);
    return status;
}

bool batches_print(batches *b, str id, uint64_t ns, strbuf *out)
{
    pthread_mutex_lock(&b->lock);
    const batch_record *r = record_find(b, id, ns);
    if (r != NULL)
        batch_record_print(r, out);
    pthread_mutex_unlock(&b->lock);
    return r != NULL;
}

bool batches_cancel(batches *b, str id, uint64_t ns, strbuf *out)
{
    pthread_mutex_lock(&b->lock);
    batch_record *r = record_find(b, id, ns);
    const bool found = r != NULL;
    const bool cancel = found && (r->status == BATCH_VALIDATING || r->status == BATCH_IN_PROGRESS);
    if (cancel) {
        r->status = BATCH_CANCELLING;
        r->cancelling = (int64_t)time(NULL);
    }
    if (found)
        batch_record_print(r, out);
    pthread_mutex_unlock(&b->lock);
    if (cancel)
        record_save_cancel(b, id, ns);
    return found;
}

void batches_list(batches *b, uint64_t ns, str after, size_t most, strbuf *out)
{
    char first[BATCH_RECORD_ID_BYTES] = "", last[BATCH_RECORD_ID_BYTES] = "";
    bool begun = after.n == 0, more = false;
    size_t n = 0;
    jw_open(out, '{');
    jw_key_text(out, "object", "list");
    jw_key(out, "data");
    jw_open(out, '[');
    pthread_mutex_lock(&b->lock);
    for (uint32_t i = b->n; i > 0 && !more; i--) {
        const batch_record *r = &b->records[i - 1];
        if (r->ns != ns)
            continue;
        more = begun && n == most;
        if (begun && !more) {
            batch_record_print(r, out);
            memcpy(n == 0 ? first : last, r->id, sizeof first);
            if (n++ == 0)
                memcpy(last, r->id, sizeof last);
        }
        begun |= str_is(after, r->id);
    }
    pthread_mutex_unlock(&b->lock);
    jw_close(out, ']');
    jw_key_text(out, "first_id", n > 0 ? first : NULL);
    jw_key_text(out, "last_id", n > 0 ? last : NULL);
    jw_key_bool(out, "has_more", more);
    jw_close(out, '}');
}

bool batches_use_file(batches *b, str file_id, uint64_t ns)
{
    bool used = false;
    pthread_mutex_lock(&b->lock);
    for (uint32_t i = 0; i < b->n; i++) {
        const batch_record *r = &b->records[i];
        used |= r->ns == ns && !batch_status_is_final(r->status) && str_is(file_id, r->input);
    }
    pthread_mutex_unlock(&b->lock);
    return used;
}
