/* SPDX-License-Identifier: Apache-2.0 */
/* pull_request.c - the request as JSON, both ways; names and exit codes of failures. */
#include "pull/pull_request.h"

#include "json/json_writer.h"

#include <stddef.h>

/* ---- fields ---- */

typedef enum field_kind { FIELD_TEXT, FIELD_COUNT, FIELD_SECONDS, FIELD_SWITCH } field_kind;

static const struct request_field {
    const char *name;
    field_kind kind;
    size_t at;
    double max; /* of a count or of seconds */
} request_fields[] = {
    /* what to pull */
    {"repo", FIELD_TEXT, offsetof(pull_request, repo), 0},
    {"revision", FIELD_TEXT, offsetof(pull_request, revision), 0},
    {"quant", FIELD_TEXT, offsetof(pull_request, quant), 0},
    {"weights", FIELD_TEXT, offsetof(pull_request, weights), 0},
    {"mmproj", FIELD_TEXT, offsetof(pull_request, mmproj), 0},
    {"mtp", FIELD_TEXT, offsetof(pull_request, mtp), 0},
    /* settings */
    {"cache", FIELD_TEXT, offsetof(pull_request, cache), 0},
    {"state", FIELD_TEXT, offsetof(pull_request, state), 0},
    {"from", FIELD_TEXT, offsetof(pull_request, from), 0},
    {"endpoint", FIELD_TEXT, offsetof(pull_request, endpoint), 0},
    {"token", FIELD_TEXT, offsetof(pull_request, token), 0},
    {"token_endpoint", FIELD_TEXT, offsetof(pull_request, token_endpoint), 0},
    {"proxy", FIELD_TEXT, offsetof(pull_request, proxy), 0},
    {"no_proxy", FIELD_TEXT, offsetof(pull_request, no_proxy), 0},
    {"ca_file", FIELD_TEXT, offsetof(pull_request, ca_file), 0},
    {"ca_dir", FIELD_TEXT, offsetof(pull_request, ca_dir), 0},
    {"jobs", FIELD_COUNT, offsetof(pull_request, jobs), PULL_JOBS_MAX},
    {"limit_rate", FIELD_COUNT, offsetof(pull_request, limit_rate), 1e15},
    {"etag_timeout", FIELD_SECONDS, offsetof(pull_request, etag_timeout), 3600},
    {"timeout", FIELD_SECONDS, offsetof(pull_request, timeout), 3600},
    {"give_up", FIELD_SECONDS, offsetof(pull_request, give_up), 3600},
    {"retry_wait", FIELD_SECONDS, offsetof(pull_request, retry_wait), 60},
    {"dry_run", FIELD_SWITCH, offsetof(pull_request, dry_run), 0},
    {"checkpoint", FIELD_SWITCH, offsetof(pull_request, checkpoint), 0},
    {"no_symlinks", FIELD_SWITCH, offsetof(pull_request, no_symlinks), 0},
};
enum { N_FIELDS = sizeof request_fields / sizeof *request_fields, N_MODEL_FIELDS = 6 };

/* The first n fields, and the files. */
static void request_put(strbuf *out, const pull_request *r, size_t n)
{
    jw_open(out, '{');
    for (size_t i = 0; i < n; i++) {
        const struct request_field *f = &request_fields[i];
        const void *value = (const char *)r + f->at;
        if (f->kind == FIELD_TEXT && *(const char *const *)value != NULL)
            jw_key_text(out, f->name, *(const char *const *)value);
        else if (f->kind == FIELD_COUNT)
            jw_key_uint(out, f->name, *(const uint64_t *)value);
        else if (f->kind == FIELD_SECONDS)
            jw_key_double(out, f->name, *(const double *)value);
        else if (f->kind == FIELD_SWITCH)
            jw_key_bool(out, f->name, *(const bool *)value);
    }
    jw_key(out, "files");
    jw_open(out, '[');
    for (size_t i = 0; i < r->n_files; i++)
        jw_text(out, r->files[i]);
    jw_close(out, ']');
    jw_close(out, '}');
}

void pull_request_put(strbuf *out, const pull_request *r)
{
    request_put(out, r, N_FIELDS);
}

void pull_request_put_model(strbuf *out, const pull_request *r)
{
    request_put(out, r, N_MODEL_FIELDS);
}

/* A text without NUL, shorter than PULL_PATH_BYTES. */
static bool request_text(const json_node *node, const char **out)
{
    const str text = json_node_text(node);
    if (!json_node_is(node, JSON_IS_STRING) || text.n >= PULL_PATH_BYTES ||
        memchr(text.p, '\0', text.n) != NULL)
        return false;
    *out = text.p;
    return true;
}

static bool request_field_read(pull_request *r, const struct request_field *f,
                               const json_node *node)
{
    void *value = (char *)r + f->at;
    int64_t count;
    switch (f->kind) {
    case FIELD_TEXT: return request_text(node, value);
    case FIELD_COUNT:
        if (!json_node_int64(node, &count) || count < 0 || (double)count > f->max)
            return false;
        *(uint64_t *)value = (uint64_t)count;
        return true;
    case FIELD_SECONDS:
        *(double *)value = json_node_double(node);
        return json_node_is(node, JSON_IS_NUMBER) && *(double *)value >= 0 &&
               *(double *)value <= f->max;
    case FIELD_SWITCH:
        *(bool *)value = json_node_truth(node);
        return json_node_is(node, JSON_IS_BOOL);
    }
    return false;
}

static mote_status request_files(pull_request *r, const json_node *files, mote_error *err)
{
    for (const json_node *f = json_node_first(files); f != NULL; f = json_node_next(f)) {
        if (r->n_files == PULL_FILES_MAX || !request_text(f, &r->files[r->n_files]))
            return err_set(err, MOTE_E_ARG, "\"files\" must be at most %d file names",
                           PULL_FILES_MAX);
        r->n_files++;
    }
    return MOTE_OK;
}

static mote_status request_read_fields(pull_request *r, const json_node *root, size_t from,
                                       size_t to, mote_error *err)
{
    if (!json_node_is(root, JSON_IS_OBJECT))
        return err_set(err, MOTE_E_ARG, "the request must be a JSON object");
    for (size_t i = from; i < to; i++) {
        const json_node *node = json_node_get(root, request_fields[i].name);
        if (node != NULL && !request_field_read(r, &request_fields[i], node))
            return err_set(err, MOTE_E_ARG, "the value of \"%s\" is not valid",
                           request_fields[i].name);
    }
    return MOTE_OK;
}

mote_status pull_request_read_settings(pull_request *r, const json_node *root, mote_error *err)
{
    *r = (pull_request){0};
    TRY(request_read_fields(r, root, N_MODEL_FIELDS, N_FIELDS, err));
    if (r->cache == NULL || r->cache[0] != '/')
        return err_set(err, MOTE_E_ARG, "an absolute \"cache\" is required");
    if (r->endpoint == NULL || r->endpoint[0] == '\0')
        r->endpoint = PULL_ENDPOINT;
    r->jobs = r->jobs > 0 ? r->jobs : PULL_JOBS;
    r->etag_timeout = r->etag_timeout > 0 ? r->etag_timeout : 10;
    r->timeout = r->timeout > 0 ? r->timeout : 10;
    r->retry_wait = r->retry_wait > 0 ? r->retry_wait : 1;
    return MOTE_OK;
}

static mote_status request_read_model(pull_request *r, const json_node *root, mote_error *err)
{
    TRY(request_read_fields(r, root, 0, N_MODEL_FIELDS, err));
    TRY(request_files(r, json_node_get(root, "files"), err));
    if (r->repo == NULL)
        return err_set(err, MOTE_E_ARG, "\"repo\" is required");
    if (r->revision == NULL || r->revision[0] == '\0')
        r->revision = "main";
    return MOTE_OK;
}

mote_status pull_request_read_model(pull_request *r, const json_node *root, mote_error *err)
{
    for (size_t i = N_MODEL_FIELDS; i < N_FIELDS; i++)
        if (json_node_get(root, request_fields[i].name) != NULL)
            return err_set(err, MOTE_E_ARG, "\"%s\" is a setting, which a request cannot change",
                           request_fields[i].name);
    return request_read_model(r, root, err);
}

mote_status pull_request_read(pull_request *r, const json_node *root, mote_error *err)
{
    TRY(pull_request_read_settings(r, root, err));
    return request_read_model(r, root, err);
}

/* ---- failures ---- */

static const struct {
    const char *name;
    int exit_code;
} codes[PULL_CODES] = {
    [PULL_FAILED] = {"pull_failed", 1},
    [PULL_BAD_REQUEST] = {"bad_request", 2},
    [PULL_NOT_FOUND] = {"not_found", 3},
    [PULL_NO_MEMORY] = {"out_of_memory", 4},
    [PULL_NETWORK] = {"network", 5},
    [PULL_TLS] = {"tls", 5},
    [PULL_PROXY] = {"proxy", 5},
    [PULL_NOT_A_HUB] = {"not_a_hub", 5},
    [PULL_BAD_REPLY] = {"bad_reply", 5},
    [PULL_REDIRECT] = {"redirect_refused", 5},
    [PULL_RATE_LIMIT] = {"rate_limited", 5},
    [PULL_OFFLINE] = {"offline", 5},
    [PULL_HASH] = {"hash_mismatch", 6},
    [PULL_NOT_GGUF] = {"not_gguf", 6},
    [PULL_GATED] = {"gated", 11},
    [PULL_TOKEN] = {"token_refused", 11},
    [PULL_FORBIDDEN] = {"forbidden", 11},
    [PULL_DISK_FULL] = {"disk_full", 12},
    [PULL_NOT_WRITABLE] = {"not_writable", 12},
    [PULL_INTERRUPTED] = {"interrupted", 130},
    [PULL_TERMINATED] = {"terminated", 143},
};

const char *pull_code_name(pull_code code)
{
    return codes[code].name;
}

int pull_code_exit(pull_code code)
{
    return codes[code].exit_code;
}
