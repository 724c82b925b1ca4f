/* SPDX-License-Identifier: Apache-2.0 */
/* access.c - access checks of a request. See access.h. */
#include "server/auth/access.h"

#include "base/mem.h"
#include "base/str.h"
#include "server/auth/api_keys.h"
#include "server/http/listen.h"

#include <strings.h>

enum {
    MAX_HOST_BYTES = 255,
    MAX_ORIGIN_BYTES = 255,
    MAX_HOSTS = ACCESS_MAX_HOSTS + LISTEN_MAX,
    ALL_SCOPES =
        1 << PRIVILEGE_INFER | 1 << PRIVILEGE_METRICS | 1 << PRIVILEGE_ADMIN | 1 << PRIVILEGE_OWN
};

typedef struct short_text {
    char p[MAX_HOST_BYTES + 1];
    size_t n;
} short_text;

struct access_rules {
    api_keys *keys;
    api_keys_file file;          /* the file of the keys */
    const digest *local;         /* see access_set_local_key() */
    short_text hosts[MAX_HOSTS]; /* lower case, without port */
    size_t n_hosts;
    short_text origins[ACCESS_MAX_HOSTS];
    size_t n_origins;
    bool own_page;
};

static bool access_same_word(str a, str b)
{
    return a.n == b.n && strncasecmp(a.p, b.p, a.n) == 0;
}

/* ---- creation ---- */

static mote_status access_add_text(short_text *list, size_t *n, size_t room, str text,
                                   const char *what, mote_error *err)
{
    if (*n == room)
        return err_set(err, MOTE_E_ARG, "too many %ss; at most %zu", what, room);
    if (text.n == 0 || text.n > MAX_HOST_BYTES)
        return err_set(err, MOTE_E_ARG, "%.*s is not a valid %s", STR_ARG(text), what);
    memcpy(list[*n].p, text.p, text.n);
    list[*n].n = text.n;
    (*n)++;
    return MOTE_OK;
}

mote_status access_allow_host(access_rules *a, str name, mote_error *err)
{
    return access_add_text(a->hosts, &a->n_hosts, MAX_HOSTS, name, "host", err);
}

static mote_status access_add_origin(access_rules *a, str origin, mote_error *err)
{
    const char *scheme = origin.n > 8 && memcmp(origin.p, "https://", 8) == 0  ? origin.p + 8
                         : origin.n > 7 && memcmp(origin.p, "http://", 7) == 0 ? origin.p + 7
                                                                               : NULL;
    if (scheme == NULL || memchr(scheme, '/', origin.n - (size_t)(scheme - origin.p)) != NULL)
        return err_set(err, MOTE_E_ARG,
                       "%.*s is not an origin; write scheme, host and port only, as browsers do: "
                       "https://example.com",
                       STR_ARG(origin));
    return access_add_text(a->origins, &a->n_origins, ACCESS_MAX_HOSTS, origin, "origin", err);
}

static mote_status access_fill(access_rules *a, const access_options *o, mote_error *err)
{
    api_keys_change change;
    TRY(api_keys_set(a->keys, o->keys, o->key_file != NULL, &change, err));
    for (size_t i = 0; i < o->n_hosts; i++)
        TRY(access_allow_host(a, str_of(o->hosts[i]), err));
    for (size_t i = 0; i < o->n_origins; i++)
        TRY(access_add_origin(a, str_of(o->origins[i]), err));
    return MOTE_OK;
}

mote_status access_new(access_rules **out, const access_options *options, mote_error *err)
{
    *out = NULL;
    access_rules *a = mem_new(1, sizeof *a);
    if (a == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: list of API keys");
    a->keys = api_keys_new();
    a->file.path = options->key_file;
    a->own_page = options->own_page;
    mote_status status = a->keys != NULL
                             ? access_fill(a, options, err)
                             : err_set(err, MOTE_E_MEMORY, "out of memory: list of API keys");
    if (status != MOTE_OK) {
        access_free(a);
        return status;
    }
    *out = a;
    return MOTE_OK;
}

void access_free(access_rules *a)
{
    if (a != NULL)
        api_keys_free(a->keys);
    mem_free(a);
}

const api_keys *access_keys(const access_rules *a)
{
    return a->keys;
}

mote_status access_reload_keys(access_rules *a, api_keys_change *change, mote_error *err)
{
    return api_keys_reload(a->keys, &a->file, change, err);
}

void access_set_local_key(access_rules *a, const digest *local)
{
    a->local = local;
}

/* ---- Host ---- */

static bool digits_only(str text, size_t most)
{
    for (size_t i = 0; i < text.n; i++)
        if (text.p[i] < '0' || text.p[i] > '9')
            return false;
    return text.n >= 1 && text.n <= most;
}

/* Parses name, name:port, [v6] or [v6]:port; *name is the part before the port, with brackets. */
static bool parse_host(str host, str *name)
{
    if (host.n > MAX_HOST_BYTES + 6 || host.n == 0)
        return false;
    size_t end = 0;
    if (host.p[0] == '[') {
        const char *close = memchr(host.p, ']', host.n);
        if (close == NULL || !str_has_only((str){host.p + 1, (size_t)(close - host.p) - 1}, ":."))
            return false;
        end = (size_t)(close - host.p) + 1;
    } else {
        while (end < host.n && host.p[end] != ':')
            end++;
        if (!str_has_only((str){host.p, end}, "-._~"))
            return false;
    }
    *name = (str){host.p, end};
    if (end == host.n)
        return true;
    str port = {host.p + end + 1, host.n - end - 1};
    if (host.p[end] != ':' || !digits_only(port, 5))
        return false;
    unsigned number = 0;
    for (size_t i = 0; i < port.n; i++)
        number = number * 10 + (unsigned)(port.p[i] - '0');
    return number > 0 && number <= 65535;
}

/* 127.x.x.x, as four decimal numbers without leading zeros. */
static bool is_loopback4(str name)
{
    unsigned parts = 0;
    for (size_t i = 0; i <= name.n; parts++) {
        size_t end = i;
        while (end < name.n && name.p[end] != '.')
            end++;
        str part = {name.p + i, end - i};
        if (!digits_only(part, 3) || (part.n > 1 && part.p[0] == '0') || parts == 4)
            return false;
        unsigned value = 0;
        for (size_t k = 0; k < part.n; k++)
            value = value * 10 + (unsigned)(part.p[k] - '0');
        if (value > 255 || (parts == 0 && value != 127))
            return false;
        i = end + 1;
    }
    return parts == 4;
}

static bool host_allowed(const access_rules *a, str name)
{
    if (access_same_word(name, str_of("localhost")) || str_is(name, "[::1]") || is_loopback4(name))
        return true;
    for (size_t i = 0; i < a->n_hosts; i++)
        if (access_same_word(name, (str){a->hosts[i].p, a->hosts[i].n}))
            return true;
    return false;
}

static bool origin_allowed(const access_rules *a, str origin)
{
    for (size_t i = 0; i < a->n_origins; i++)
        if (str_eq(origin, (str){a->origins[i].p, a->origins[i].n}))
            return true;
    return false;
}

/* The page that this server sends, as browsers report it: Origin is a scheme and the text of Host, and
 * Sec-Fetch-Site, which browsers send to https and localhost only, is same-origin. A page of another
 * port or scheme of the same machine differs in one of them. */
static bool origin_is_own(const access_rules *a, const access_request *q)
{
    static const char *const schemes[] = {"http://", "https://"};
    if (!a->own_page || q->origin.p == NULL ||
        (q->fetch_site.p != NULL && !access_same_word(q->fetch_site, str_of("same-origin"))))
        return false;
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        str host = q->origin;
        if (str_take_prefix(&host, schemes[i]) && host.n > 0 && access_same_word(host, q->host))
            return true;
    }
    return false;
}

bool access_check_browser(const access_rules *a, const access_request *q, access_result *out,
                          http_error *error)
{
    str name;
    *out = (access_result){.client = q->peer->id, .key = ""};
    if (!parse_host(q->host, &name)) {
        http_error_set(error, HTTP_E_INVALID, "bad_request",
                       "Host must be a name or address with an optional port");
        return false;
    }
    if (!host_allowed(a, name)) {
        http_error_set(
            error, HTTP_E_PERMISSION, "host_not_allowed",
            "the name in Host is not allowed; start the server with --allow-host NAME to "
            "allow it");
        return false;
    }
    out->cors = q->origin.p != NULL && origin_allowed(a, q->origin);
    bool cross_site =
        q->fetch_site.p != NULL && access_same_word(q->fetch_site, str_of("cross-site"));
    if ((q->origin.p != NULL || cross_site) && !out->cors && !origin_is_own(a, q)) {
        http_error_set(
            error, HTTP_E_PERMISSION, "origin_not_allowed",
            "requests from this origin are not allowed; start the server with --cors-origin "
            "ORIGIN to allow them");
        return false;
    }
    return true;
}

/* ---- keys ---- */

static str bearer_token(str authorization)
{
    str rest = authorization;
    str scheme = str_next_word(&rest, " ");
    return access_same_word(scheme, str_of("bearer")) ? str_next_word(&rest, " ") : (str){NULL, 0};
}

static bool access_refuse_key(const access_request *q, bool sent, http_error *error)
{
    if (!sent) {
        http_error_set(error, HTTP_E_AUTH, "invalid_api_key",
                       "an API key is required: send Authorization: Bearer KEY or x-api-key: KEY");
        return false;
    }
    if (peer_failed(q->peer, q->now) > q->max_failures) {
        http_error_set(error, HTTP_E_RATE, "rate_limit_exceeded",
                       "too many wrong API keys from this address; try again in a minute");
        error->retry_ms = 60000;
        return false;
    }
    http_error_set(error, HTTP_E_AUTH, "invalid_api_key", "unknown API key");
    return false;
}

static bool access_is_local_key(const access_rules *a, str secret)
{
    digest d;
    return a->local != NULL && secret.n > 0 && digest_of(&d, secret) && digest_equal(&d, a->local);
}

/* Without keys all clients share a cache namespace, so none of its entries is a client's own. */
static void access_set_keyless(const access_rules *a, const access_request *q, access_result *out)
{
    const bool local = access_is_local_key(a, bearer_token(q->authorization)) ||
                       access_is_local_key(a, q->api_key);
    out->keyless = true;
    out->scopes = local ? ALL_SCOPES : 1u << PRIVILEGE_INFER;
}

bool access_check_key(access_rules *a, const access_request *q, access_result *out,
                      http_error *error)
{
    if (api_keys_count(a->keys) == 0) {
        access_set_keyless(a, q, out);
        return true;
    }
    api_key *one = NULL, *other = NULL;
    bool known = api_keys_find(a->keys, bearer_token(q->authorization), &one);
    known &= api_keys_find(a->keys, q->api_key, &other);
    api_key *key = one != NULL ? one : other;
    if (key == NULL && !known) {
        http_error_set(error, HTTP_E_UNAVAILABLE, "out_of_memory", "the server is out of memory");
        return false;
    }
    if (key == NULL)
        return access_refuse_key(q, q->authorization.p != NULL || q->api_key.p != NULL, error);
    out->scopes = key->scopes;
    if (key->scopes & (1u << PRIVILEGE_INFER | 1u << PRIVILEGE_ADMIN))
        out->scopes |= 1u << PRIVILEGE_OWN;
    out->client = digest_number(&key->digest);
    out->ns = out->client;
    out->key = key->name;
    out->quota = &key->quota;
    return true;
}

bool access_check_scope(const access_result *result, privilege needed, http_error *error)
{
    if (needed == PRIVILEGE_PUBLIC || result->scopes & 1u << needed)
        return true;
    if (result->keyless)
        http_error_set(error, HTTP_E_AUTH, "invalid_api_key",
                       "this route needs an API key with the scope %s, and this server has no API "
                       "keys: start it with --api-key-file or MOTE_API_KEY",
                       needed == PRIVILEGE_METRICS ? "metrics" : "admin");
    else
        http_error_set(error, HTTP_E_PERMISSION, "scope_missing", "the API key lacks the scope %s",
                       needed == PRIVILEGE_METRICS ? "metrics"
                       : needed == PRIVILEGE_ADMIN ? "admin"
                                                   : "infer");
    return false;
}

/* Browsers send forms to other sites without a preflight, but with one of these headers. The fetch of
 * Node.js sends Sec-Fetch-Mode and neither of them. */
bool access_check_form(const access_request *q, bool cors, http_error *error)
{
    str type = q->content_type;
    const str word = type.p != NULL ? str_next_word(&type, "; \t") : (str){NULL, 0};
    const bool browser = q->origin.p != NULL || q->fetch_site.p != NULL;
    if (word.p != NULL && access_same_word(word, str_of("multipart/form-data")) &&
        (cors || !browser))
        return true;
    http_error_set(error, HTTP_E_TYPE, "unsupported_media_type",
                   "send the file with Content-Type: multipart/form-data");
    return false;
}

bool access_check_type(const access_request *q, http_error *error)
{
    if (!q->has_body || (q->method != HTTP_POST && q->method != HTTP_DELETE))
        return true;
    str type = q->content_type;
    str word = type.p != NULL ? str_next_word(&type, "; \t") : (str){NULL, 0};
    if (word.p != NULL && access_same_word(word, str_of("application/json")))
        return true;
    bool form =
        word.p == NULL || access_same_word(word, str_of("application/x-www-form-urlencoded"));
    if (form && q->origin.p == NULL && !q->any_fetch_field)
        return true;
    http_error_set(error, HTTP_E_TYPE, "unsupported_media_type",
                   "send the body with Content-Type: application/json");
    return false;
}
