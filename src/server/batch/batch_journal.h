/* SPDX-License-Identifier: Apache-2.0 */
/*
 * batch_journal.h - the results of a batch in a file, one line each, in the order of completion.
 *
 * The journal is all that a batch remembers. A killed process has appended whole lines and at most
 * one part of a line, which the next open removes; lines without a result run again. So each request
 * is in the file once. At the end the lines are written in the order of the input.
 *
 * A power cut may also leave blocks of zeros, or of anything, where the last lines were. A line that is
 * damaged in this way ends the journal: what is behind it runs again.
 *
 * A lock keeps a second process out.
 */
#ifndef MOTE_SERVER_BATCH_BATCH_JOURNAL_H
#define MOTE_SERVER_BATCH_BATCH_JOURNAL_H

#include "server/batch/batch_lines.h"

typedef struct journal_entry {
    uint64_t at;    /* in the file */
    uint64_t bytes; /* with the line break; 0: no result */
    bool failed;    /* its status is not 200 */
} journal_entry;

typedef struct batch_journal {
    char path[1024];
    int fd;
    bool is_open;
    uint64_t bytes;
    bool dirty;             /* written since the last sync */
    batch_lines *lines;     /* must outlive the journal */
    journal_entry *entries; /* [lines->n] */
    uint32_t n_done, n_failed;
} batch_journal;

typedef enum journal_opening {
    JOURNAL_CONTINUE, /* the file may be one of the user: what is not a result is left alone */
    JOURNAL_RESTART,  /* empties it first */
    JOURNAL_OWN       /* it is nothing but a journal: everything else is damage and removed */
} journal_opening;

/* Opens or creates the file, and sets `done` of the lines that it has results of. MOTE_E_MISMATCH: it
 * has something else. `mode`: of a new file. */
mote_status batch_journal_open(batch_journal *j, const char *path, batch_lines *lines,
                               journal_opening how, unsigned mode, mote_error *err);
void batch_journal_close(batch_journal *j);

/* Appends the result of a line, with a line break. After an error the file has whole lines only,
 * or the next call overwrites what was written. */
mote_status batch_journal_add(batch_journal *j, batch_line *line, str result, bool failed,
                              mote_error *err);
/* Writes what was added to the disk. */
mote_status batch_journal_sync(batch_journal *j, mote_error *err);

/* Writes the results to `path` in the order of the input, and replaces that file at once. `which`:
 * all results, or only those that succeeded or failed. The path may be that of the journal; then the
 * journal can only be closed. */
typedef enum journal_part { JOURNAL_ALL, JOURNAL_GOOD, JOURNAL_FAILED } journal_part;
mote_status batch_journal_export(const batch_journal *j, const char *path, journal_part which,
                                 mote_error *err);
/* Are the results in the order of the input already? */
bool batch_journal_in_order(const batch_journal *j);

#endif
