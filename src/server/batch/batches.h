/* SPDX-License-Identifier: Apache-2.0 */
/*
 * batches.h - the batches of /v1/batches: records in the directory of files, and their runs.
 *
 *   batch_ID.json   the record: what the API shows, and the namespace of the key
 *   batch_ID.out    the journal: results so far (batch_journal.h)
 *
 *   validating -> in_progress -> finalizing -> completed
 *                      \-> cancelling -> cancelled        failed: the input
 *
 * A record is written at every change of its status. After a restart, unfinished batches continue
 * from their journals. A finished batch has up to two files: results and errors, in the order of the
 * input. An error of the disk ends no batch: it continues after BATCH_RETRY_SECONDS from its journal,
 * which exists until results and record are on the disk.
 *
 * Runs have low priority: the scheduler takes their requests only while no other request needs the
 * time (sched.h). BATCHES_RUNNING batches run at the same time, one per key; the oldest first.
 *
 * Threads: batches_tick() and batches_stop() belong to the event loop. Worker threads read the files
 * and write the records. The other functions are thread-safe; those that touch the disk are for
 * worker threads.
 */
#ifndef MOTE_SERVER_BATCH_BATCHES_H
#define MOTE_SERVER_BATCH_BATCHES_H

#include "server/batch/file_store.h"
#include "server/core/context.h"

typedef struct batches batches;

enum {
    BATCHES_RUNNING = 4,
    BATCHES_MOST = 1000, /* records of one key */
    BATCH_LINES_MOST = 50000,
    BATCH_METADATA_BYTES = 16384,
    BATCH_PATIENCE_SECONDS = 24 * 3600, /* for a line that the server refuses: completion_window */
    BATCH_RETRY_SECONDS = 5
};

typedef enum batch_status {
    BATCH_VALIDATING,
    BATCH_IN_PROGRESS,
    BATCH_FINALIZING,
    BATCH_CANCELLING,
    BATCH_COMPLETED,
    BATCH_CANCELLED,
    BATCH_FAILED
} batch_status;

/* `parallel`: requests at the same time in each run. */
mote_status batches_open(batches **out, server_context *ctx, file_store *files, uint32_t parallel,
                         mote_error *err);
/* After batches_stop() and the end of the event loop. NULL is allowed. */
void batches_close(batches *b);
/* Every 100 ms: starts, continues and ends runs. */
void batches_tick(batches *b, double now);
/* The server stops: ends all requests. Unfinished batches continue after a restart. */
void batches_stop(batches *b);

typedef struct batch_order {
    uint64_t ns, client;
    str input;    /* id of a file of the key */
    str endpoint; /* the url of all lines */
    str metadata; /* a JSON object; empty: none */
} batch_order;

/* Creates a batch and prints it; drops the oldest finished one of the key if it has BATCHES_MOST.
 * MOTE_E_ARG: no such file. MOTE_E_FULL: too many batches. */
mote_status batches_create(batches *b, const batch_order *order, strbuf *out, mote_error *err);
/* Prints a batch. false: the key has no such batch. */
bool batches_print(batches *b, str id, uint64_t ns, strbuf *out);
/* Cancels it if it is not over, and prints it. false: the key has no such batch. */
bool batches_cancel(batches *b, str id, uint64_t ns, strbuf *out);
/* Prints at most `most` batches of the key, newest first, after the batch `after` (empty: from the
 * first one), as a list. */
void batches_list(batches *b, uint64_t ns, str after, size_t most, strbuf *out);
/* Does an unfinished batch of the key need this file? */
bool batches_use_file(batches *b, str file_id, uint64_t ns);

#endif
