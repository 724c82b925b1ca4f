/* SPDX-License-Identifier: Apache-2.0 */
/*
 * download.c - the content of one file: several connections fetch missing ranges, a thread hashes
 * the file, and the hash decides.
 *
 * A piece is one request for some ranges in a row. libcurl's callback writes the data to its place
 * in the part file at once, and ranges.c notes each range that is complete. A piece that fails
 * returns its ranges; what follows depends on the verdict. Failures without progress in between are
 * counted per file, once per wait: four connections that break together are one failure.
 *
 * A range that is complete is never written again: the thread may have hashed it, and only bytes
 * that were hashed may be published. It is forgotten if the hash of the whole file is wrong, not
 * because of a reply.
 */
#include "pull/pull_int.h"

#include "base/mem.h"
#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    FAILURES_MAX = 5,
    SPAN_RANGES_MAX = 8,            /* of one request */
    WHOLES_MAX = 2,                 /* then the server knows no ranges */
    PROGRESS_BYTES_MIN = 256 << 10, /* less than this is no progress */
    POLL_MS = 100
};

/* What the end of a piece means. */
typedef enum verdict {
    VERDICT_NONE,     /* no objection */
    VERDICT_RETRY,    /* a failure that may pass */
    VERDICT_LIMIT,    /* 429 */
    VERDICT_REDIRECT, /* to another URL */
    VERDICT_RESOLVE,  /* an odd reply: the URL has expired or the content has changed; the metadata
                         says which */
    VERDICT_WHOLE,    /* the whole file instead of a range */
    VERDICT_FATAL     /* download.why says it */
} verdict;

typedef struct download download;

typedef struct piece {
    download *d;
    CURL *easy;
    http_target target;
    bool active;
    bool checked;       /* status and headers are accepted */
    bool ranged;        /* the request has a Range header */
    uint64_t begin, at; /* of the request; next byte */
    size_t n_complete;  /* ranges of the file that were complete before */
    uint64_t end;       /* of the ranges that are taken */
    uint64_t stop;      /* where the reply ends */
    verdict verdict;
    hub_headers headers;
    char detail[CURL_ERROR_SIZE];
} piece;

struct download {
    pull *p;
    const pull_file *f;
    hub_meta *meta;
    CURLM *multi;
    piece *pieces; /* [jobs] */
    size_t jobs;
    ranges map;
    int fd;
    hash_follow *hash;
    bool whole;        /* one request without Range */
    char etag[256];    /* of the content; all pieces must have the same */
    unsigned failures; /* without progress */
    unsigned wholes;   /* replies in a row with the whole file instead of ranges */
    unsigned wrong_hashes;
    double not_before; /* the wait after a failure */
    mote_error why;    /* of the last failure */
    pull_code why_code;
};

/* ---- replies ---- */

/* Sets the cause of a failure. */
#define download_why(d, code, ...)                                                                 \
    ((d)->why_code = (code), (void)err_set(&(d)->why, MOTE_E_IO, __VA_ARGS__))

/* Says how a reply differs from the request. */
static verdict reply_differs(piece *k, long status)
{
    const unsigned sent = k->headers.count[HUB_CONTENT_RANGE];
    if (k->headers.count[HUB_CONTENT_LENGTH] > 1)
        download_why(k->d, PULL_BAD_REPLY, "%s sends two Content-Length headers for %.200s",
                     k->d->meta->url.host, k->d->f->path);
    else
        download_why(k->d, PULL_BAD_REPLY,
                     "%s answers a request for bytes %" PRIu64 "-%" PRIu64
                     " of %.200s with status %ld, %s Content-Range%s%.80s",
                     k->d->meta->url.host, k->begin, k->end - 1, k->d->f->path, status,
                     sent == 0   ? "without a"
                     : sent == 1 ? "with"
                                 : "with more than one",
                     sent == 1 ? " " : "", hub_headers_get(&k->headers, HUB_CONTENT_RANGE));
    return VERDICT_RESOLVE;
}

static verdict check_content(piece *k)
{
    download *d = k->d;
    const char *encoding = hub_headers_get(&k->headers, HUB_CONTENT_ENCODING);
    const char *etag = hub_headers_get(&k->headers, HUB_ETAG);
    char hash[HUB_HASH_BYTES];
    if (k->headers.count[HUB_CONTENT_ENCODING] > 0 && strcasecmp(encoding, "identity") != 0) {
        download_why(d, PULL_BAD_REPLY,
                     "%s sends %.100s with Content-Encoding %.40s: not the bytes of the file",
                     d->meta->url.host, d->f->path, encoding);
        return VERDICT_FATAL;
    }
    if (d->meta->token && hub_etag_hash(etag, hash) && strcmp(hash, d->meta->hash) != 0)
        return VERDICT_RESOLVE;
    if (d->etag[0] == '\0')
        snprintf(d->etag, sizeof d->etag, "%.255s", etag);
    if (strncmp(d->etag, etag, sizeof d->etag - 1) == 0)
        return VERDICT_NONE;
    download_why(d, PULL_BAD_REPLY, "%s sends parts of different contents for %.200s",
                 d->meta->url.host, d->f->path);
    return VERDICT_RESOLVE;
}

/* 206: the range must begin where it was requested; it may end early. */
static verdict check_partial(piece *k)
{
    hub_content_range got;
    if (!k->ranged ||
        !hub_content_range_read(hub_headers_get(&k->headers, HUB_CONTENT_RANGE), &got) ||
        got.first != k->begin || got.total != k->d->map.size || got.last >= k->end)
        return reply_differs(k, 206);
    k->stop = got.last + 1;
    k->d->wholes = 0;
    return check_content(k);
}

/* 200: the whole file. */
static verdict check_whole(piece *k)
{
    uint64_t length;
    if (k->begin != 0 || k->end != k->d->map.size)
        return VERDICT_WHOLE;
    if (hub_number(hub_headers_get(&k->headers, HUB_CONTENT_LENGTH), &length) &&
        length != k->d->map.size)
        return reply_differs(k, 200);
    return check_content(k);
}

static verdict piece_check(piece *k)
{
    long status = 0;
    curl_easy_getinfo(k->easy, CURLINFO_RESPONSE_CODE, &status);
    download_why(k->d, PULL_NETWORK, "%s answers with status %ld", k->d->meta->url.host, status);
    /* libcurl uses the last of two. */
    if (k->headers.count[HUB_CONTENT_LENGTH] > 1)
        return reply_differs(k, status);
    switch (status) {
    case 200: return check_whole(k);
    case 206: return check_partial(k);
    case 301:
    case 302:
    case 303:
    case 307:
    case 308: return VERDICT_REDIRECT;
    case 408: return VERDICT_RETRY;
    case 429: return VERDICT_LIMIT;
    case 401:
    case 403:
    case 404:
    case 410: return VERDICT_RESOLVE;
    default: return status >= 500 ? VERDICT_RETRY : reply_differs(k, status);
    }
}

/* ---- callbacks of libcurl; returning another number than the bytes given ends the transfer ----
 */

static size_t piece_on_header(char *line, size_t each, size_t n, void *with)
{
    piece *k = with;
    if (hub_headers_add(&k->headers, (str){line, each * n}))
        return each * n;
    download_why(k->d, PULL_BAD_REPLY, "the headers of a reply are too large");
    k->verdict = VERDICT_FATAL;
    return 0;
}

static bool piece_pwrite(piece *k, const char *data, size_t n, uint64_t at)
{
    download *d = k->d;
    while (n > 0) {
        const ssize_t put = pwrite(d->fd, data, n, (off_t)at);
        if (put <= 0) {
            if (put < 0 && errno == EINTR)
                continue;
            pull_fail_errno(d->p, &d->why, "write", d->f->path);
            d->why_code = d->p->code;
            return false;
        }
        data += put;
        n -= (size_t)put;
        at += (uint64_t)put;
    }
    return true;
}

/* Notes the ranges that are complete now. */
static bool piece_note(piece *k, uint64_t from)
{
    download *d = k->d;
    if (from / RANGE_BYTES == k->at / RANGE_BYTES && k->at != d->map.size)
        return true;
    /* Start writing it to the disk now, so that fsync at the end is short. */
    os_start_writing(d->fd, from / RANGE_BYTES * RANGE_BYTES, RANGE_BYTES);
    if (ranges_complete_to(&d->map, from, k->at, &d->why) == MOTE_OK)
        return true;
    pull_fail_errno(d->p, &d->why, "write the record of", d->f->path);
    d->why_code = d->p->code;
    return false;
}

/* Writes bytes of ranges that are missing. Only a reply with the whole file has others, too. */
static bool piece_write(piece *k, const char *data, size_t n)
{
    while (n > 0) {
        const uint64_t from = k->at, left = RANGE_BYTES - from % RANGE_BYTES;
        const size_t now = n < left ? n : (size_t)left;
        const bool taken = k->d->map.state[from / RANGE_BYTES] == RANGE_TAKEN;
        if (taken && !piece_pwrite(k, data, now, from))
            return false;
        k->at += now;
        if (taken && !piece_note(k, from))
            return false;
        data += now;
        n -= now;
    }
    return true;
}

static size_t piece_on_body(char *data, size_t each, size_t n, void *with)
{
    piece *k = with;
    const size_t bytes = each * n;
    if (!k->checked) {
        k->verdict = piece_check(k);
        k->checked = true;
    }
    if (k->verdict != VERDICT_NONE)
        return 0;
    const uint64_t room = k->stop - k->at;
    k->d->p->downloaded += bytes;
    if (!piece_write(k, data, bytes < room ? bytes : (size_t)room)) {
        k->verdict = VERDICT_FATAL;
        return 0;
    }
    return bytes <= room ? bytes : 0; /* bytes after the end are not accepted */
}

/* ---- pieces ---- */

static mote_status piece_begin(download *d, piece *k, uint64_t from, uint64_t end, mote_error *err)
{
    CURL *easy = k->easy;
    char range[64];
    *k = (piece){.d = d,
                 .easy = easy,
                 .target = {.p = d->p},
                 .begin = from,
                 .at = from,
                 .end = end,
                 .stop = end,
                 .n_complete = d->map.n_complete,
                 .active = true,
                 .ranged = !d->whole};
    curl_easy_reset(easy);
    http_prepare(&k->target, easy, &d->meta->url, d->meta->token);
    if (k->ranged) {
        snprintf(range, sizeof range, "%" PRIu64 "-%" PRIu64, from, end - 1);
        curl_easy_setopt(easy, CURLOPT_RANGE, range);
    }
    if (d->p->request.limit_rate > 0) {
        const uint64_t rate = d->p->request.limit_rate / d->jobs;
        curl_easy_setopt(easy, CURLOPT_MAX_RECV_SPEED_LARGE, (curl_off_t)(rate > 0 ? rate : 1));
        curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, 16384L);
        if (rate < 8000)
            curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, (long)(rate / 8));
    }
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, k->detail);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, piece_on_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, k);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, piece_on_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, k);
    curl_easy_setopt(easy, CURLOPT_PRIVATE, k);
    if (curl_multi_add_handle(d->multi, easy) == CURLM_OK)
        return MOTE_OK;
    k->active = false;
    return pull_fail(d->p, PULL_NO_MEMORY, err, "out of memory for a request");
}

static void piece_release(download *d, piece *k)
{
    if (!k->active)
        return;
    curl_multi_remove_handle(d->multi, k->easy);
    ranges_release(&d->map, k->at, k->end);
    k->active = false;
}

static void release_all(download *d)
{
    for (size_t i = 0; i < d->jobs; i++)
        piece_release(d, &d->pieces[i]);
}

/* What the end of a transfer means. */
static verdict piece_verdict(piece *k, CURLcode code)
{
    download *d = k->d;
    if (k->verdict == VERDICT_FATAL)
        return VERDICT_FATAL; /* the last bytes may have arrived and not be recorded */
    if (k->at == k->end)
        return VERDICT_NONE;
    if (k->verdict == VERDICT_NONE && !k->checked && code == CURLE_OK)
        k->verdict = piece_check(k); /* a reply without body */
    if (k->verdict != VERDICT_NONE)
        return k->verdict;
    if (code == CURLE_OK || k->at == k->stop) { /* it ended early */
        if (k->stop < k->end)
            return k->at == k->stop && k->at > k->begin ? VERDICT_NONE : VERDICT_RETRY;
        download_why(d, PULL_NETWORK, "the connection ended too early");
        return VERDICT_RETRY;
    }
    http_failed(&k->target, k->easy, code, &d->meta->url, k->detail, &d->why);
    d->why_code = d->p->code;
    return http_may_retry(code, k->detail) && !k->target.refused && pull_signal == 0
               ? VERDICT_RETRY
               : VERDICT_FATAL;
}

/* Starts requests until all connections are busy or no range is missing. */
static mote_status start_pieces(download *d, mote_error *err)
{
    const double now = os_now();
    uint64_t from, end;
    if (now < d->not_before || now < d->p->not_before)
        return MOTE_OK;
    const size_t missing = d->map.n - d->map.n_complete;
    size_t most = missing / (2 * d->jobs);
    most = most < 1 ? 1 : most > SPAN_RANGES_MAX ? SPAN_RANGES_MAX : most;
    for (size_t i = 0; i < d->jobs; i++) {
        if (d->pieces[i].active)
            continue;
        if (d->whole ? !ranges_take_all(&d->map, &from, &end)
                     : !ranges_take(&d->map, most, &from, &end))
            break;
        TRY(piece_begin(d, &d->pieces[i], from, end, err));
    }
    return MOTE_OK;
}

/* ---- what follows a verdict ---- */

/* Forgets all data of the file. */
static mote_status download_restart(download *d, mote_error *err)
{
    release_all(d);
    hash_follow_cancel(d->hash);
    d->hash = NULL;
    d->etag[0] = '\0';
    TRY(ranges_reset(&d->map, err));
    return hash_follow_start(&d->hash, d->fd, d->map.size, strlen(d->meta->hash) == 64, err);
}

/* Notes a failure and sets the wait before the next request. */
static mote_status note_failure(download *d, mote_error *err)
{
    const double now = os_now();
    if (now < d->not_before)
        return MOTE_OK; /* belongs to the failure that is waited for */
    if (++d->failures > FAILURES_MAX)
        return pull_fail(d->p, d->why_code, err, "%s; gave up after %d tries, the part is kept",
                         d->why.text, FAILURES_MAX);
    const double wait = http_backoff(d->p, d->failures);
    d->not_before = now + wait;
    event_wait("retry", wait);
    return MOTE_OK;
}

/* Requests the metadata again. What has arrived stays unless the content has changed: then the part
 * file of the new hash is another one. */
static mote_status resolve_again(download *d, bool *changed, mote_error *err)
{
    hub_meta now;
    release_all(d);
    TRY(hub_resolve(d->p, d->f, &now, err));
    *changed = strcmp(now.hash, d->meta->hash) != 0 || now.size != d->meta->size;
    *d->meta = now;
    d->etag[0] = '\0'; /* the hash decides about parts with different ETags */
    return *changed ? MOTE_OK : note_failure(d, err);
}

/* The server sent the whole file instead of a range. It is not needed if this happens once after
 * some ranges have arrived. */
static mote_status take_whole(download *d, mote_error *err)
{
    if (os_now() < d->not_before)
        return MOTE_OK;
    if (d->map.n_complete > 0 && ++d->wholes <= WHOLES_MAX)
        return note_failure(d, err);
    release_all(d);
    d->whole = true;
    return MOTE_OK;
}

static mote_status act_on(download *d, piece *k, verdict v, bool *changed, mote_error *err)
{
    switch (v) {
    case VERDICT_NONE: return MOTE_OK;
    case VERDICT_RETRY: return note_failure(d, err);
    case VERDICT_LIMIT:
        if (os_now() < d->p->not_before)
            return MOTE_OK; /* all connections share one wait */
        return http_rate_limited(d->p, &k->headers, &d->meta->url, err);
    case VERDICT_REDIRECT:
        release_all(d);
        return hub_redirect(d->p, &k->headers, &d->meta->url, &d->meta->token, &d->meta->redirects,
                            err);
    case VERDICT_RESOLVE: return resolve_again(d, changed, err);
    case VERDICT_WHOLE: return take_whole(d, err);
    case VERDICT_FATAL: break;
    }
    return pull_fail(d->p, d->why_code, err, "%s", d->why.text);
}

/* Bytes that are not requested again. Without ranges only complete ones count: each
 * request starts at the first byte. */
static bool piece_made_progress(const piece *k)
{
    return k->at == k->end || (k->ranged ? k->at - k->begin >= PROGRESS_BYTES_MIN
                                         : k->d->map.n_complete > k->n_complete);
}

static mote_status end_pieces(download *d, bool *changed, mote_error *err)
{
    int left;
    CURLMsg *m;
    while (!*changed && (m = curl_multi_info_read(d->multi, &left)) != NULL) {
        piece *k = NULL;
        const CURLcode code = m->data.result;
        if (m->msg != CURLMSG_DONE)
            continue;
        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&k);
        const verdict v = piece_verdict(k, code);
        if (piece_made_progress(k))
            d->failures = 0;
        piece_release(d, k);
        TRY(act_on(d, k, v, changed, err));
    }
    return MOTE_OK;
}

/* ---- the whole file ---- */

/* Bytes that arrived, including those of unfinished ranges. */
static uint64_t download_bytes(const download *d)
{
    uint64_t bytes = ranges_bytes(&d->map);
    for (size_t i = 0; i < d->jobs; i++)
        if (d->pieces[i].active)
            bytes += d->pieces[i].at % RANGE_BYTES;
    return bytes < d->map.size ? bytes : d->map.size;
}

static mote_status fetch_ranges(download *d, bool *changed, mote_error *err)
{
    int running;
    while (d->map.n_complete < d->map.n && !*changed) {
        TRY(pull_check_signal(d->p, err));
        TRY(start_pieces(d, err));
        curl_multi_perform(d->multi, &running);
        TRY(end_pieces(d, changed, err));
        hash_follow_advance(d->hash, ranges_prefix(&d->map));
        event_progress(d->p, d->f, "downloading", download_bytes(d), false);
        if (running > 0 || os_now() < d->not_before || os_now() < d->p->not_before)
            curl_multi_poll(d->multi, NULL, 0, POLL_MS, NULL);
    }
    return MOTE_OK;
}

static mote_status finish_hash(download *d, char hash[HUB_HASH_BYTES], mote_error *err)
{
    hash_follow_advance(d->hash, d->map.size);
    for (uint64_t done; (done = hash_follow_done(d->hash)) < d->map.size;) {
        event_progress(d->p, d->f, "verifying", done, false);
        TRY(pull_sleep(d->p, 0.002, err));
    }
    hash_follow *h = d->hash;
    d->hash = NULL;
    return hash_follow_end(h, hash, err);
}

/* Downloads until the hash is right. */
static mote_status download_run(download *d, bool *changed, mote_error *err)
{
    char hash[HUB_HASH_BYTES];
    for (;;) {
        TRY(fetch_ranges(d, changed, err));
        if (*changed)
            return MOTE_OK;
        event_progress(d->p, d->f, "downloading", d->map.size, true);
        TRY(finish_hash(d, hash, err));
        if (strcmp(hash, d->meta->hash) == 0)
            return MOTE_OK;
        TRY(ranges_reset(&d->map, err)); /* wrong bytes are never used again */
        if (++d->wrong_hashes > 1)
            return pull_fail(d->p, PULL_HASH, err, "%s is damaged: its hash is %s, the hub says %s",
                             d->f->path, hash, d->meta->hash);
        event_warning("the hash of the file is wrong; it is downloaded again");
        TRY(download_restart(d, err));
    }
}

static mote_status download_init(download *d, mote_error *err)
{
    const size_t n_ranges = d->map.n;
    d->jobs = d->p->request.jobs < n_ranges ? d->p->request.jobs : n_ranges;
    d->pieces = mem_new(d->jobs, sizeof *d->pieces);
    d->multi = curl_multi_init();
    if (d->pieces == NULL || d->multi == NULL)
        return pull_fail(d->p, PULL_NO_MEMORY, err, "out of memory for a download");
    curl_multi_setopt(d->multi, CURLMOPT_MAXCONNECTS, (long)d->jobs + 1);
    for (size_t i = 0; i < d->jobs; i++)
        if ((d->pieces[i].easy = curl_easy_init()) == NULL)
            return pull_fail(d->p, PULL_NO_MEMORY, err, "out of memory for a download");
    return hash_follow_start(&d->hash, d->fd, d->map.size, strlen(d->meta->hash) == 64, err);
}

static void download_fini(download *d)
{
    hash_follow_cancel(d->hash);
    for (size_t i = 0; d->pieces != NULL && i < d->jobs; i++) {
        piece_release(d, &d->pieces[i]);
        curl_easy_cleanup(d->pieces[i].easy);
    }
    curl_multi_cleanup(d->multi);
    mem_free(d->pieces);
    ranges_close(&d->map);
}

/* Opens the part file and its record. */
static mote_status open_part(download *d, mote_error *err)
{
    char part[PULL_PATH_BYTES], record[PULL_PATH_BYTES];
    struct stat st;
    if (!cache_path(d->p, part, "/blobs/%s%s.mote-part", d->meta->hash, d->p->own) ||
        !cache_path(d->p, record, "/blobs/%s%s.mote-ranges", d->meta->hash, d->p->own))
        return pull_fail(d->p, PULL_NOT_WRITABLE, err, "the path of the cache is too long");
    d->fd = open(part, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (d->fd < 0 || fstat(d->fd, &st) != 0)
        return pull_fail_errno(d->p, err, "create", part);
    if (!S_ISREG(st.st_mode))
        return pull_fail(d->p, PULL_NOT_WRITABLE, err, "%s is not a regular file", part);
    const bool fresh = (uint64_t)st.st_size != d->meta->size;
    if (fresh && (ftruncate(d->fd, 0) != 0 || ftruncate(d->fd, (off_t)d->meta->size) != 0))
        return pull_fail_errno(d->p, err, "write", part);
    if (ranges_open(&d->map, record, d->f->path, d->meta->hash, d->meta->size, fresh, err))
        return pull_fail_errno(d->p, err, "write", record);
    return MOTE_OK;
}

mote_status download_file(pull *p, const pull_file *f, hub_meta *meta, int *fd, bool *changed,
                          mote_error *err)
{
    download d = {.p = p, .f = f, .meta = meta, .fd = -1, .map = {.fd = -1}};
    *fd = -1;
    *changed = false;
    mote_status status = open_part(&d, err);
    if (status == MOTE_OK)
        status = download_init(&d, err);
    if (status == MOTE_OK)
        status = download_run(&d, changed, err);
    download_fini(&d);
    if (status == MOTE_OK && !*changed)
        *fd = d.fd;
    else if (d.fd >= 0)
        close(d.fd);
    return status;
}
