/* SPDX-License-Identifier: Apache-2.0 */
/*
 * answer_file.h - the sampled tokens of answers in one file, shared by processes of one user.
 *
 * A conversation that continues after a restart finds its prefix on disk only if the prompt repeats
 * the sampled tokens of earlier answers. Clients send texts, so the tokens are stored here. The
 * file `answers` is in the directory of the disk cache. Its records are opaque to this code:
 *
 *   head      8 bytes: "MOTEANS\n"
 *   record    answer_head, then head.bytes bytes, padded with zeros to a multiple of 8
 *
 * With a cipher (disk_cipher.h) the bytes are a salt, a tag, and sealed binding and record. Records
 * of another key, and those that are not encrypted, are skipped.
 *
 * Records are appended under a lock (flock) and never change. A damaged record is skipped. One that
 * a killed process left unfinished, or a damaged head with all that follows, is cut off by the next
 * writer. At the size limit the newest half moves to a new file. Nothing is synced: after a power
 * failure the last answers may be missing, and their tokens are computed again.
 */
#ifndef MOTE_DISK_CACHE_ANSWER_FILE_H
#define MOTE_DISK_CACHE_ANSWER_FILE_H

#include "base/str.h"
#include "disk_cache/disk_record.h"

#define ANSWER_FILE_NAME "answers"

typedef struct answer_file answer_file;

/* The directory must exist. cap: most bytes of the file. binding: only records with the same one
 * are read. cipher: NULL, or it must outlive the object. Starts a thread, which writes. */
mote_status answer_file_open(answer_file **out, const char *directory, uint64_t cap,
                             disk_key binding, const disk_cipher *cipher, mote_error *err);
/* Writes what is pending. NULL is allowed. */
void answer_file_close(answer_file *f);

/* Thread-safe. Does not wait for the disk. Errors are not reported: the record is lost. */
void answer_file_append(answer_file *f, str record);

/* `record` is valid until the function returns. */
typedef void answer_file_fn(void *with, str record);
/* Thread-safe. Calls fn for the records of this binding that any process appended since the last
 * call; some may be repeated. */
void answer_file_read(answer_file *f, answer_file_fn *fn, void *with);

#endif
