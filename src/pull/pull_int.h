/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pull_int.h - private to mote-pull: the state of one pull and the steps of it.
 *
 *   hub_api.c     which commit, which files          hub_http.c   one request and its retries
 *   cache_writer.c paths, locks, publishing           ranges.c     which parts of a file are there
 *   download.c    one file over several connections  hash_follow.c  its hash, in a thread
 *
 * Functions return mote_status and fill mote_error. pull_fail also notes the code of the failure,
 * which the error event and the exit code need.
 */
#ifndef MOTE_PULL_PULL_INT_H
#define MOTE_PULL_PULL_INT_H

#include "pull/hub_url.h"
#include "pull/pull_request.h"

#include <curl/curl.h>
#include <signal.h>

/* ---- the pull (pull_main.c) ---- */

/* One file of the model. */
typedef struct pull_file {
    char path[HUB_NAME_BYTES]; /* in the repository */
    char hash[HUB_HASH_BYTES]; /* the name of its blob; "" until known */
    uint64_t size;
    bool installed;   /* the blob is in the cache and its hash is right */
    bool fresh;       /* this run published it */
    bool in_snapshot; /* it lies in snapshots/ itself, because symbolic links are not available */
} pull_file;

typedef struct pull {
    pull_request request;
    hub_url endpoint;
    bool endpoint_private;            /* it is on a private address, so others may be too */
    struct sockaddr_storage proxy[8]; /* addresses of the proxy */
    size_t n_proxy;
    struct curl_slist *headers[2]; /* without and with the token */
    CURL *easy;                    /* for requests other than content */
    char commit[HUB_COMMIT_BYTES];
    pull_file files[PULL_FILES_MAX];
    size_t n_files;
    double give_up_at;  /* the time when requests fail; 0: never */
    double not_before;  /* rate limit: no request before this time */
    double waited;      /* seconds of rate limits so far */
    char warned[8][64]; /* topics of X-HF-Warning that were reported */
    size_t n_warned;
    uint64_t done_before; /* bytes of the files before the current one */
    uint64_t total;       /* bytes of all files */
    uint64_t downloaded;  /* bytes received in this run */
    char own[16]; /* in the names of temporary files if locks do not work, so that no other process
                     has the same; "" with locks */
    unsigned umask;
    bool cache_ready; /* the directories exist */
    int repo_fd;      /* the directory of the repository, with a shared flock; -1: none */
    int repo_error;   /* errno of its creation */
    bool repo_made;   /* by this process */
    pull_code code;   /* of the failure */
} pull;

/* Sets the code and the error and returns a status. */
mote_status pull_fail(pull *p, pull_code code, mote_error *err, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The same for errno of a file operation: full, not writable or other. */
mote_status pull_fail_errno(pull *p, mote_error *err, const char *what, const char *path);

/* The signal that ends the pull; 0: none. */
extern volatile sig_atomic_t pull_signal;
/* Fails if a signal has come. */
mote_status pull_check_signal(pull *p, mote_error *err);
/* Sleeps; a signal ends it. */
mote_status pull_sleep(pull *p, double seconds, mote_error *err);

/* ---- events (pull_events.c): one line on stdout each ---- */

/* Sets pull_signal to SIGTERM if the reader of the events has gone. */
void event_check_reader(void);
void event_plan(const pull *p, uint64_t free_bytes);
/* `action`: "downloading", "verifying", "copying". Rate-limited; `last` is always sent. */
void event_progress(pull *p, const pull_file *f, const char *action, uint64_t completed, bool last);
void event_wait(const char *reason, double seconds);
void event_warning(const char *message);
void event_file(const pull *p, const pull_file *f, const char *local, bool was_installed);
void event_done(const pull *p, const char *snapshot, double seconds);
void event_error(pull_code code, const char *message);

/* ---- requests (hub_http.c) ---- */

typedef struct http_reply {
    long status;
    hub_headers headers;
    strbuf body; /* owned; free with strbuf_fini */
} http_reply;

/* Where a connection goes, for the check of its address. */
typedef struct http_target {
    pull *p;
    bool endpoint; /* the endpoint itself, on whatever address it is */
    bool refused;  /* a private address was refused */
} http_target;

mote_status http_start(pull *p, mote_error *err);
void http_stop(pull *p);
/* The options of every request. `token`: send it if the URL is of the endpoint. */
void http_prepare(http_target *target, CURL *easy, const hub_url *url, bool token);
/* One GET or HEAD, with retries of failures that may pass and waits for rate limits. Redirects are
 * not followed. The body is limited to `body_max` bytes; 0: HEAD. */
mote_status http_request(pull *p, const hub_url *url, bool token, size_t body_max,
                         http_reply *reply, mote_error *err);
/* Is another try of a failed transfer useful? `detail`: as for http_failed. */
bool http_may_retry(CURLcode code, const char *detail);
/* Turns a failed transfer into an error. `detail`: the buffer of CURLOPT_ERRORBUFFER. */
mote_status http_failed(const http_target *target, CURL *easy, CURLcode code, const hub_url *url,
                        const char *detail, mote_error *err);
/* Seconds before retry number n, from 1. */
double http_backoff(const pull *p, unsigned n);
/* Notes a 429: later requests wait. Fails when it waited too long. */
mote_status http_rate_limited(pull *p, const hub_headers *headers, const hub_url *url,
                              mote_error *err);
/* Waits until p->not_before. */
mote_status http_wait_turn(pull *p, mote_error *err);
void http_note_warning(pull *p, const hub_headers *headers);

/* ---- the hub (hub_api.c, hub_errors.c) ---- */

/* Sets p->commit and p->files from the listing of the repository. */
mote_status hub_list(pull *p, mote_error *err);

typedef struct hub_meta {
    char hash[HUB_HASH_BYTES];
    uint64_t size;
    hub_url url;        /* of the content */
    bool token;         /* the content is on a hub; the endpoint gets the token */
    unsigned redirects; /* so far */
} hub_meta;

/* Where the content of a file is, and its hash and size. */
mote_status hub_resolve(pull *p, const pull_file *f, hub_meta *meta, mote_error *err);
/* Follows a redirect: replaces *url, clears *token if the target must not get it. */
mote_status hub_redirect(pull *p, const hub_headers *headers, hub_url *url, bool *token,
                         unsigned *redirects, mote_error *err);
/* The error for a status that is no success. `path`: of the file, NULL for the API. */
mote_status hub_status_failed(pull *p, const http_reply *reply, const hub_url *url,
                              const char *path, mote_error *err);

/* ---- which parts of a file are there (ranges.c) ---- */

enum { RANGE_BYTES = 8 << 20 };
typedef enum range_state { RANGE_MISSING, RANGE_TAKEN, RANGE_COMPLETE } range_state;

typedef struct ranges {
    int fd; /* the record on disk; -1: none */
    uint64_t size;
    size_t n;
    uint8_t *state; /* range_state */
    uint32_t *have; /* bytes at the start of a missing range; in memory only */
    size_t n_complete;
    size_t first_incomplete;
} ranges;

/* Opens or creates the record at `path`. A record of another file or a damaged one counts as
 * empty; `fresh`: start empty. `name`: path in the repository. */
mote_status ranges_open(ranges *r, const char *path, const char *name, const char *hash,
                        uint64_t size, bool fresh, mote_error *err);
void ranges_close(ranges *r);
/* Forgets everything, on disk too. */
mote_status ranges_reset(ranges *r, mote_error *err);
/* Takes up to `most` missing ranges in a row. False: none is missing. *from: first byte that is
 * missing. */
bool ranges_take(ranges *r, size_t most, uint64_t *from, uint64_t *end);
/* Takes all missing ranges, for one request of the whole file. False: none is missing. */
bool ranges_take_all(ranges *r, uint64_t *from, uint64_t *end);
/* Marks all taken ranges complete that end in (from, to]. */
mote_status ranges_complete_to(ranges *r, uint64_t from, uint64_t to, mote_error *err);
/* Returns the taken ranges in [from, end) of which the bytes before `at` arrived. */
void ranges_release(ranges *r, uint64_t at, uint64_t end);
/* Bytes that are there. */
uint64_t ranges_bytes(const ranges *r);
/* Bytes from the start of the file without a gap. */
uint64_t ranges_prefix(const ranges *r);
/* The path in the repository that a record belongs to; false: no record. */
bool ranges_name(const char *path, char *name, size_t room);

/* ---- hashes (hash_follow.c) ---- */

/* Hashes a file in order while it is written: a thread reads what ranges_prefix says is there. */
typedef struct hash_follow hash_follow;

mote_status hash_follow_start(hash_follow **out, int fd, uint64_t size, bool sha256,
                              mote_error *err);
/* The first `bytes` of the file are there. */
void hash_follow_advance(hash_follow *h, uint64_t bytes);
/* Bytes hashed so far. */
uint64_t hash_follow_done(hash_follow *h);
/* Waits for the end and writes the hash. Frees `h`. */
mote_status hash_follow_end(hash_follow *h, char hash[HUB_HASH_BYTES], mote_error *err);
void hash_follow_cancel(hash_follow *h);

/* ---- one file (download.c) ---- */

/* Downloads a file into its part file and checks its hash. The lock of the blob is held. Leaves the
 * open part file in *fd. *changed: the hub now has another content than `meta`; start again. */
mote_status download_file(pull *p, const pull_file *f, hub_meta *meta, int *fd, bool *changed,
                          mote_error *err);

/* ---- files of a directory (from_directory.c) ---- */

/* Sets p->commit and p->files from p->request.from. `directory`: where the files are. */
mote_status from_directory_list(pull *p, char directory[PULL_PATH_BYTES], mote_error *err);
/* Copies and publishes a file. */
mote_status from_directory_copy(pull *p, pull_file *f, const char *directory, mote_error *err);

/* ---- the cache (cache_writer.c, cache_lock.c) ---- */

/* "<cache>/models--owner--name<tail>". False: too long. */
bool cache_path(const pull *p, char *out, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Creates a directory and its parents. */
mote_status cache_make_directories(pull *p, const char *path, mote_error *err);
/* Before the sandbox, which allows only directories that exist: makes the directories of the
 * repository and of its locks. cache_prepare reports a failure. */
void cache_begin(pull *p);
/* Removes these directories if this process made them and they are empty. */
void cache_end(pull *p);
/* Allows rights below them. */
void cache_allow(const pull *p, int ruleset, uint64_t rights);
/* Makes the directory of the blobs. Called before the first write. */
mote_status cache_prepare(pull *p, mote_error *err);
/* Is the file there with the right size? Verifies its hash unless a record says it was. */
mote_status cache_find(pull *p, pull_file *f, mote_error *err);
/* Checks that the missing bytes fit on the disk. */
mote_status cache_check_space(pull *p, uint64_t *free_bytes, mote_error *err);
/* Locks a blob as huggingface_hub does; waits. *fd: -1 if locks do not work; then
 * p->own is set. */
mote_status cache_lock(pull *p, const char *hash, int *fd, mote_error *err);
/* The same without waiting; -1: held by another process. */
int cache_lock_try(const pull *p, const char *hash);
void cache_unlock(int fd);
/* Holds a directory that is open; `alone`: only if no other process does. */
bool cache_hold(int fd, bool alone);
/* Removes what an earlier run left of a file that is installed. */
void cache_remove_part(pull *p, const pull_file *f);
/* Removes part files of older contents of this file. */
void cache_remove_stale(pull *p, const pull_file *f);
/* The part file becomes the blob. */
mote_status cache_publish(pull *p, pull_file *f, int fd, mote_error *err);
/* Links all files into the snapshot, then writes the ref. */
mote_status cache_link_all(pull *p, mote_error *err);
/* The path of a file in the snapshot. False: too long. */
bool cache_snapshot_path(const pull *p, const char *path, char *out);

/* ---- sandbox (pull_sandbox_linux.c, pull_sandbox_absent.c) ---- */

/* From now on the process can use the network, read the cache, certificates and resolver settings,
 * and write below the directory of the repository only. cache_begin comes before. Returns what is missing, "" if nothing is. */
const char *pull_sandbox_enter(const pull *p);

#endif
