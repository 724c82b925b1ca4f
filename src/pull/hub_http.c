/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hub_http.c - requests with libcurl: the options of all of them, and small ones with retries.
 *
 * libcurl follows no redirect (hub_redirect does) and uses HTTP/1.1, so that several ranges use
 * several connections. It has no switch to turn off the check of certificates.
 */
#define _DEFAULT_SOURCE
#include "pull/pull_int.h"

#include "base/os.h"
#include "base/os_socket.h"

#include <dlfcn.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    RETRIES_MAX = 5,
    SLOW_BYTES_PER_SECOND = 1000, /* slower for `timeout` seconds: the connection is given up */
    WAIT_MAX = 310,               /* seconds of one rate limit: the windows of the hub have 300 */
    WAIT_SUM_MAX = 930,
    WAIT_COUNTED_MIN = 10, /* a shorter wait counts as this, so the number of waits ends too */
    READ_BUFFER_BYTES = 512 << 10
};

/* ---- addresses ---- */

static bool address_is_proxy(const pull *p, const struct sockaddr *a)
{
    for (size_t i = 0; i < p->n_proxy; i++) {
        const struct sockaddr *b = (const struct sockaddr *)&p->proxy[i];
        if (a->sa_family != b->sa_family)
            continue;
        if (a->sa_family == AF_INET && memcmp(&((const struct sockaddr_in *)a)->sin_addr,
                                              &((const struct sockaddr_in *)b)->sin_addr, 4) == 0)
            return true;
        if (a->sa_family == AF_INET6 &&
            memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr,
                   &((const struct sockaddr_in6 *)b)->sin6_addr, 16) == 0)
            return true;
    }
    return false;
}

/* Called with the address before each connection, so a name that resolves to another address the
 * second time does not help. */
static curl_socket_t http_open_socket(void *with, curlsocktype purpose, struct curl_sockaddr *a)
{
    http_target *t = with;
    (void)purpose;
    if (!address_is_proxy(t->p, &a->addr) && hub_address_private(&a->addr)) {
        if (t->endpoint)
            t->p->endpoint_private = true;
        if (!t->p->endpoint_private) {
            t->refused = true;
            return CURL_SOCKET_BAD;
        }
    }
    return os_socket(a->family, a->socktype, a->protocol);
}

/* libc before 2.34 has the resolver in modules, which the sandbox would not let it load. A lookup
 * would load them too, but without a network it takes long. */
static void http_load_resolver(void)
{
    static const char *const modules[] = {"libnss_files.so.2", "libnss_dns.so.2"};
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++)
        (void)dlopen(modules[i], RTLD_NOW);
}

/* Looks up the proxy's own addresses, which may be private. */
static void http_resolve_proxy(pull *p)
{
    const char *url = p->request.proxy;
    char host[256] = "", text[HUB_URL_BYTES];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    char *part = NULL;
    if (url == NULL || *url == '\0')
        return;
    CURLU *u = curl_url();
    if (u == NULL)
        return;
    snprintf(text, sizeof text, "%s", url);
    if (curl_url_set(u, CURLUPART_URL, text, CURLU_GUESS_SCHEME | CURLU_NON_SUPPORT_SCHEME) ==
            CURLUE_OK &&
        curl_url_get(u, CURLUPART_HOST, &part, 0) == CURLUE_OK)
        snprintf(host, sizeof host, "%s", part[0] == '[' ? part + 1 : part);
    host[strcspn(host, "]")] = '\0';
    curl_free(part);
    curl_url_cleanup(u);
    if (host[0] == '\0' || getaddrinfo(host, NULL, &hints, &found) != 0)
        return;
    for (const struct addrinfo *a = found; a != NULL; a = a->ai_next)
        if (p->n_proxy < sizeof p->proxy / sizeof *p->proxy && a->ai_addrlen <= sizeof *p->proxy)
            memcpy(&p->proxy[p->n_proxy++], a->ai_addr, a->ai_addrlen);
    freeaddrinfo(found);
}

/* ---- certificate authorities ---- */

/* The libcurl of a distribution knows where they are. That of a static binary does not. */
static mote_status http_find_authorities(pull *p, mote_error *err)
{
    static const char *const files[] = {
        "/etc/ssl/certs/ca-certificates.crt",                /* Debian, Alpine, Arch */
        "/etc/pki/tls/certs/ca-bundle.crt",                  /* Fedora until 42 */
        "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", /* Fedora */
        "/etc/ssl/ca-bundle.pem",                            /* openSUSE */
        "/etc/ssl/cert.pem",                                 /* BSD, macOS */
        "/data/data/com.termux/files/usr/etc/tls/cert.pem",
    };
    const curl_version_info_data *built = curl_version_info(CURLVERSION_NOW);
    pull_request *r = &p->request;
    if ((r->ca_file != NULL && *r->ca_file != '\0') || (r->ca_dir != NULL && *r->ca_dir != '\0') ||
        built->cainfo != NULL || built->capath != NULL)
        return MOTE_OK;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (access(files[i], R_OK) == 0) {
            r->ca_file = files[i];
            return MOTE_OK;
        }
    return pull_fail(p, PULL_TLS, err,
                     "no certificate authorities in %s and %zu other places; install the package "
                     "ca-certificates, or set SSL_CERT_FILE to a file of them",
                     files[0], sizeof files / sizeof *files - 1);
}

/* ---- start and stop ---- */

static mote_status http_make_headers(pull *p, mote_error *err)
{
    static const char *const plain[] = {"Accept-Encoding: identity", "User-Agent: mote/0.1.0"};
    const char *token = p->request.token;
    for (int with = 0; with < 2; with++)
        for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
            p->headers[with] = curl_slist_append(p->headers[with], plain[i]);
    if (token != NULL && *token != '\0') {
        char line[1100];
        if (!hub_token_valid(token))
            return pull_fail(p, PULL_TOKEN, err,
                             "the token contains a character that no token has; check HF_TOKEN or "
                             "the token file");
        snprintf(line, sizeof line, "Authorization: Bearer %s", token);
        p->headers[1] = curl_slist_append(p->headers[1], line);
        os_erase(line, sizeof line);
    }
    if (p->headers[0] == NULL || p->headers[1] == NULL)
        return pull_fail(p, PULL_NO_MEMORY, err, "out of memory for a request");
    return MOTE_OK;
}

/* A token that was configured for one hub is not sent to another one. */
static mote_status http_check_token(pull *p, mote_error *err)
{
    const char *of = p->request.token_endpoint, *token = p->request.token;
    hub_url owner;
    mote_error why;
    if (of == NULL || *of == '\0' || token == NULL || *token == '\0')
        return MOTE_OK;
    if (hub_url_parse(&owner, of, &why) != MOTE_OK)
        return pull_fail(p, PULL_BAD_REQUEST, err, "cannot use the endpoint %.200s: %s", of,
                         why.text);
    if (hub_url_gets_token(&p->endpoint, &owner))
        return MOTE_OK;
    char text[600];
    snprintf(text, sizeof text,
             "the token for %.255s is not sent to %.255s; --token-file FILE names one for it",
             owner.host, p->endpoint.host);
    event_warning(text);
    p->request.token = NULL;
    return MOTE_OK;
}

mote_status http_start(pull *p, mote_error *err)
{
    mote_error why;
    if (hub_url_parse(&p->endpoint, p->request.endpoint, &why) != MOTE_OK)
        return pull_fail(p, PULL_BAD_REQUEST, err, "cannot use the endpoint %.200s: %s",
                         p->request.endpoint, why.text);
    size_t n = strlen(p->endpoint.text);
    while (n > 0 && p->endpoint.text[n - 1] == '/')
        p->endpoint.text[--n] = '\0';
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK || (p->easy = curl_easy_init()) == NULL)
        return pull_fail(p, PULL_NO_MEMORY, err, "out of memory for libcurl");
    TRY(http_find_authorities(p, err));
    http_load_resolver();
    http_resolve_proxy(p);
    p->give_up_at = p->request.give_up > 0 ? os_now() + p->request.give_up : 0;
    TRY(http_check_token(p, err));
    return http_make_headers(p, err);
}

void http_stop(pull *p)
{
    curl_easy_cleanup(p->easy);
    curl_slist_free_all(p->headers[0]);
    curl_slist_free_all(p->headers[1]);
    curl_global_cleanup();
}

/* ---- options ---- */

static int http_on_progress(void *with, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    (void)with, (void)a, (void)b, (void)c, (void)d;
    event_check_reader();
    return pull_signal != 0;
}

/* Seconds for a connection, and seconds without data that end one. */
static void http_set_timeout(CURL *easy, double seconds)
{
    const long timeout = (long)(seconds * 1000);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, timeout > 0 ? timeout : 1L);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, (long)SLOW_BYTES_PER_SECOND);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, timeout >= 1000 ? timeout / 1000 : 1L);
}

void http_prepare(http_target *target, CURL *easy, const hub_url *url, bool token)
{
    pull *p = target->p;
    const pull_request *r = &p->request;
    target->endpoint = hub_url_same_origin(url, &p->endpoint);
    target->refused = false;
    curl_easy_setopt(easy, CURLOPT_URL, url->text);
    token = token && hub_url_gets_token(url, &p->endpoint);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, p->headers[token ? 1 : 0]);
    curl_easy_setopt(easy, CURLOPT_HEADEROPT, (long)CURLHEADER_SEPARATE); /* none to a proxy */
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "https");
    curl_easy_setopt(easy, CURLOPT_REDIR_PROTOCOLS_STR, "https");
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
    if (r->ca_file != NULL && *r->ca_file != '\0')
        curl_easy_setopt(easy, CURLOPT_CAINFO, r->ca_file);
    if (r->ca_dir != NULL && *r->ca_dir != '\0')
        curl_easy_setopt(easy, CURLOPT_CAPATH, r->ca_dir);
    curl_easy_setopt(easy, CURLOPT_PROXY, r->proxy != NULL ? r->proxy : ""); /* "": none */
    curl_easy_setopt(easy, CURLOPT_NOPROXY, r->no_proxy != NULL ? r->no_proxy : "");
    curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    curl_easy_setopt(easy, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
#if LIBCURL_VERSION_NUM >= 0x075700
    curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L); /* does not wait for a lookup that timed out */
#endif
    if (p->give_up_at > 0) {
        const double left = (p->give_up_at - os_now()) * 1000;
        curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, left > 1 ? (long)left : 1L);
    }
    http_set_timeout(easy, r->timeout);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, http_open_socket);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, target);
    curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, http_on_progress);
    curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, (long)READ_BUFFER_BYTES);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    /* A reply to HTTP/0.9 has no headers that could be checked. */
    curl_easy_setopt(easy, CURLOPT_HTTP09_ALLOWED, 0L);
}

/* ---- failures ---- */

bool http_may_retry(CURLcode code, const char *detail)
{
    switch (code) {
    case CURLE_SSL_CONNECT_ERROR: /* a reset connection, unless OpenSSL names an error */
        return strstr(detail, "error:") == NULL;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_PARTIAL_FILE:
    case CURLE_AGAIN: return true;
    default: return false;
    }
}

double http_backoff(const pull *p, unsigned n)
{
    return p->request.retry_wait * (double)(n < 4 ? 1u << (n - 1) : 8u);
}

/* Verification results of OpenSSL that a wrong clock causes. */
enum { X509_NOT_YET_VALID = 9, X509_EXPIRED = 10 };

static mote_status http_failed_tls(pull *p, CURL *easy, const hub_url *url, const char *detail,
                                   mote_error *err)
{
    long result = 0;
    curl_easy_getinfo(easy, CURLINFO_SSL_VERIFYRESULT, &result);
    const bool clock = result == X509_NOT_YET_VALID || result == X509_EXPIRED;
    return pull_fail(p, PULL_TLS, err, "cannot verify the TLS certificate of %s: %s%s", url->host,
                     detail,
                     clock ? "; check the clock of this machine"
                           : "; a private authority is set with SSL_CERT_FILE");
}

mote_status http_failed(const http_target *target, CURL *easy, CURLcode code, const hub_url *url,
                        const char *detail, mote_error *err)
{
    pull *p = target->p;
    long connect_status = 0;
    curl_easy_getinfo(easy, CURLINFO_HTTP_CONNECTCODE, &connect_status);
    if (detail == NULL || detail[0] == '\0')
        detail = curl_easy_strerror(code);
    if (pull_signal != 0)
        return pull_check_signal(p, err);
    if (target->refused)
        return pull_fail(p, PULL_REDIRECT, err,
                         "%s resolves to a private address; a public hub must not send requests "
                         "there",
                         url->host);
    if (connect_status == 407)
        return pull_fail(p, PULL_PROXY, err,
                         "the proxy requires a user name and password (407); set them in "
                         "HTTPS_PROXY");
    if (connect_status >= 300 || code == CURLE_COULDNT_RESOLVE_PROXY || code == CURLE_PROXY)
        return pull_fail(p, PULL_PROXY, err, "the proxy failed: %s", detail);
    switch (code) {
    case CURLE_PEER_FAILED_VERIFICATION: return http_failed_tls(p, easy, url, detail, err);
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
        return pull_fail(p, PULL_TLS, err, "the TLS connection to %s failed: %s", url->host,
                         detail);
    case CURLE_OPERATION_TIMEDOUT:
        return pull_fail(p, PULL_NETWORK, err, "%s is too slow or does not answer: %s", url->host,
                         detail);
    case CURLE_OUT_OF_MEMORY:
        /* libcurl says so about a header line of more than 100 KB as well. */
        return pull_fail(p, PULL_BAD_REPLY, err,
                         "%s sends a header that is too long for the memory", url->host);
    default:
        return pull_fail(
            p, PULL_NETWORK, err, "the connection to %s failed: %s%s", url->host, detail,
            p->request.proxy != NULL && *p->request.proxy != '\0' ? " (through a proxy)" : "");
    }
}

mote_status http_rate_limited(pull *p, const hub_headers *headers, const hub_url *url,
                              mote_error *err)
{
    double wait = hub_wait_seconds(headers);
    if (wait < 0)
        wait = http_backoff(p, 4);
    if (wait > WAIT_MAX || p->waited + wait > WAIT_SUM_MAX)
        return pull_fail(p, PULL_RATE_LIMIT, err,
                         "%s limits the rate of requests (429); try again in %.0f s, or log in "
                         "with HF_TOKEN for a higher limit",
                         url->host, wait);
    p->waited += wait > WAIT_COUNTED_MIN ? wait : WAIT_COUNTED_MIN;
    p->not_before = os_now() + wait;
    event_wait("rate_limit", wait);
    return MOTE_OK;
}

mote_status http_wait_turn(pull *p, mote_error *err)
{
    const double left = p->not_before - os_now();
    return left > 0 ? pull_sleep(p, left, err) : MOTE_OK;
}

/* X-HF-Warning: "topic; text", reported once per topic. */
void http_note_warning(pull *p, const hub_headers *headers)
{
    const char *text = hub_headers_get(headers, HUB_WARNING);
    char topic[sizeof *p->warned];
    if (*text == '\0' || p->n_warned == sizeof p->warned / sizeof *p->warned)
        return;
    snprintf(topic, sizeof topic, "%.*s", (int)strcspn(text, ";"), text);
    for (size_t i = 0; i < p->n_warned; i++)
        if (strcmp(p->warned[i], topic) == 0)
            return;
    memcpy(p->warned[p->n_warned++], topic, sizeof topic);
    const char *after = strchr(text, ';');
    event_warning(after != NULL ? after + 1 + strspn(after + 1, " ") : text);
}

/* ---- small requests ---- */

typedef struct request_sink {
    http_reply *reply;
    size_t body_max;
    bool too_large; /* headers or body */
} request_sink;

static size_t request_on_header(char *line, size_t each, size_t n, void *with)
{
    request_sink *s = with;
    if (hub_headers_add(&s->reply->headers, (str){line, each * n}))
        return each * n;
    s->too_large = true;
    return 0;
}

static size_t request_on_body(char *data, size_t each, size_t n, void *with)
{
    request_sink *s = with;
    const size_t bytes = each * n;
    if (bytes > s->body_max - s->reply->body.n) {
        s->too_large = true;
        return 0;
    }
    strbuf_put(&s->reply->body, (str){data, bytes});
    return s->reply->body.failed ? 0 : bytes;
}

static CURLcode request_perform(http_target *target, const hub_url *url, bool token,
                                request_sink *sink, char *detail)
{
    CURL *easy = target->p->easy;
    sink->reply->headers = (hub_headers){0};
    sink->reply->body.n = 0;
    sink->too_large = false;
    detail[0] = '\0';
    curl_easy_reset(easy); /* keeps connections */
    http_prepare(target, easy, url, token);
    curl_easy_setopt(easy, CURLOPT_NOBODY, sink->body_max == 0 ? 1L : 0L);
    if (sink->body_max == 0)
        http_set_timeout(easy, target->p->request.etag_timeout);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, detail);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, request_on_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, sink);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, request_on_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, sink);
    const CURLcode code = curl_easy_perform(easy);
    sink->reply->status = 0;
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &sink->reply->status);
    return code;
}

/* Statuses that may pass. */
static bool status_may_retry(long status)
{
    return status == 408 || status >= 500;
}

mote_status http_request(pull *p, const hub_url *url, bool token, size_t body_max,
                         http_reply *reply, mote_error *err)
{
    request_sink sink = {.reply = reply, .body_max = body_max};
    http_target target = {.p = p};
    char detail[CURL_ERROR_SIZE];
    for (unsigned failures = 0;;) {
        TRY(pull_check_signal(p, err));
        TRY(http_wait_turn(p, err));
        const CURLcode code = request_perform(&target, url, token, &sink, detail);
        if (sink.too_large)
            return pull_fail(p, PULL_BAD_REPLY, err, "the reply of %s is too large", url->host);
        if (reply->body.failed)
            return pull_fail(p, PULL_NO_MEMORY, err, "out of memory for a reply of %s", url->host);
        if (code == CURLE_OK && reply->status == 429) {
            TRY(http_rate_limited(p, &reply->headers, url, err));
            continue;
        }
        if (code == CURLE_OK && !status_may_retry(reply->status)) {
            http_note_warning(p, &reply->headers);
            return MOTE_OK;
        }
        const bool too_late =
            p->give_up_at > 0 && os_now() + http_backoff(p, failures + 1) >= p->give_up_at;
        const bool final = pull_signal != 0 || too_late || target.refused ||
                           ++failures > RETRIES_MAX ||
                           (code != CURLE_OK && !http_may_retry(code, detail));
        if (final && code != CURLE_OK)
            return http_failed(&target, p->easy, code, url, detail, err);
        if (final)
            return MOTE_OK; /* the caller reports the status */
        event_wait("retry", http_backoff(p, failures));
        TRY(pull_sleep(p, http_backoff(p, failures), err));
    }
}
