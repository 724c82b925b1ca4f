/* SPDX-License-Identifier: Apache-2.0 */
/* files_api.c - /v1/files: upload, list, retrieve, contents, delete. See batch_api.h. */
#include "base/mem.h"
#include "server/api/common/dialect.h"
#include "server/batch/batch_api.h"
#include "server/batch/batches.h"

#include <stdio.h>
#include <stdlib.h>

enum { LIST_INITIAL = 100, LIST_MOST = 1000 };

bool batch_api_is_on(exchange *x)
{
    const server_context *ctx = exchange_context(x);
    http_error error;
    if (ctx->files != NULL)
        return true;
    http_error_set(&error, HTTP_E_UNSUPPORTED, "unsupported",
                   "this server stores no files: start it with --files DIR");
    exchange_fail(x, &error);
    return false;
}

str query_value(str query, const char *name)
{
    const size_t n = strlen(name);
    while (query.n > 0) {
        const str pair = str_next_word(&query, "&");
        if (pair.n > n && memcmp(pair.p, name, n) == 0 && pair.p[n] == '=')
            return (str){pair.p + n + 1, pair.n - n - 1};
    }
    return (str){"", 0};
}

size_t query_limit(str query, size_t initial, size_t most)
{
    char digits[12] = {0};
    const str text = query_value(query, "limit");
    if (text.n == 0 || text.n >= sizeof digits)
        return initial;
    memcpy(digits, text.p, text.n);
    const unsigned long n = strtoul(digits, NULL, 10);
    return n < 1 ? initial : n > most ? most : n;
}

/* ---- printing ---- */

static void file_print(const stored_file *f, strbuf *out)
{
    jw_open(out, '{');
    jw_key_text(out, "id", f->id);
    jw_key_text(out, "object", "file");
    jw_key_uint(out, "bytes", f->bytes);
    jw_key_int(out, "created_at", f->created);
    jw_key_null(out, "expires_at");
    jw_key_text(out, "filename", f->name);
    jw_key_text(out, "purpose", f->purpose);
    jw_key_text(out, "status", "processed");
    jw_key_null(out, "status_details");
    jw_close(out, '}');
}

void file_missing(http_error *error, str id)
{
    http_error_set(error, HTTP_E_NOT_FOUND, "not_found", "there is no file %.*s", STR_ARG(id));
    snprintf(error->param, sizeof error->param, "id");
}

/* ---- upload ---- */

static void name_copy(char *out, size_t room, str name)
{
    size_t n = 0;
    for (size_t i = 0; i < name.n && n + 1 < room; i++)
        if ((unsigned char)name.p[i] >= 0x20 && name.p[i] != 0x7F)
            out[n++] = name.p[i];
    out[n] = '\0';
}

static void upload_run(background_job *s)
{
    str rest = strbuf_view(&s->text), boundary = {"", 0}, purpose = {"", 0}, contents = {NULL, 0};
    stored_file file = {.ns = s->ns, .name = "upload"};
    form_part part;
    mote_error err;
    while (form_next(&rest, &boundary, &part)) {
        if (str_is(part.name, "purpose"))
            purpose = part.contents;
        if (str_is(part.name, "file")) {
            contents = part.contents;
            if (part.filename.n > 0)
                name_copy(file.name, sizeof file.name, part.filename);
        }
    }
    if (rest.p == NULL) {
        http_error_set(&s->error, HTTP_E_INVALID, "invalid_value",
                       "the body is not valid multipart/form-data");
        return;
    }
    if (contents.p == NULL) {
        http_error_invalid(&s->error, "file", "is required");
        return;
    }
    if (!str_is(purpose, "batch")) {
        http_error_invalid(&s->error, "purpose", "must be batch, got %.*s", STR_ARG(purpose));
        return;
    }
    snprintf(file.purpose, sizeof file.purpose, "batch");
    const mote_status status = file_store_add(s->ctx->files, &file, contents, &err);
    if (status == MOTE_E_FULL)
        http_error_set(&s->error, HTTP_E_INVALID, "storage_full", "%s", err.text);
    else if (status != MOTE_OK)
        http_error_set(&s->error, HTTP_E_UNAVAILABLE, "storage_failed",
                       "the file could not be stored");
    if (status != MOTE_OK && status != MOTE_E_FULL)
        log_message(&s->ctx->log, 0, "a file could not be stored: %s", err.text);
    if (status == MOTE_OK)
        file_print(&file, &s->out);
}

void handle_file_upload(exchange *x)
{
    if (batch_api_is_on(x))
        background_start_raw(x, upload_run);
}

/* ---- list ---- */

static void list_run(background_job *s)
{
    const str query = strbuf_view(&s->query);
    const size_t limit = query_limit(query, LIST_INITIAL, LIST_MOST);
    bool more;
    stored_file *files = mem_new(limit, sizeof *files);
    if (files == NULL) {
        http_error_no_memory(&s->error);
        return;
    }
    const size_t n = file_store_list(s->ctx->files, s->ns, query_value(query, "purpose"),
                                     query_value(query, "after"), files, limit, &more);
    jw_open(&s->out, '{');
    jw_key_text(&s->out, "object", "list");
    jw_key(&s->out, "data");
    jw_open(&s->out, '[');
    for (size_t i = 0; i < n; i++)
        file_print(&files[i], &s->out);
    jw_close(&s->out, ']');
    jw_key_text(&s->out, "first_id", n > 0 ? files[0].id : NULL);
    jw_key_text(&s->out, "last_id", n > 0 ? files[n - 1].id : NULL);
    jw_key_bool(&s->out, "has_more", more);
    jw_close(&s->out, '}');
    mem_free(files);
}

void handle_files(exchange *x)
{
    if (batch_api_is_on(x))
        background_start(x, list_run, false);
}

/* ---- one file ---- */

static void retrieve_run(background_job *s)
{
    stored_file file;
    if (file_store_find(s->ctx->files, strbuf_view(&s->tail), s->ns, &file))
        file_print(&file, &s->out);
    else
        file_missing(&s->error, strbuf_view(&s->tail));
}

static void delete_run(background_job *s)
{
    const str id = strbuf_view(&s->tail);
    if (batches_use_file(s->ctx->batches, id, s->ns)) {
        http_error_set(&s->error, HTTP_E_CONFLICT, "file_in_use",
                       "a batch that is not over needs the file; cancel it first");
        return;
    }
    if (!file_store_remove(s->ctx->files, id, s->ns)) {
        file_missing(&s->error, id);
        return;
    }
    jw_open(&s->out, '{');
    jw_key_str(&s->out, "id", id);
    jw_key_text(&s->out, "object", "file");
    jw_key_bool(&s->out, "deleted", true);
    jw_close(&s->out, '}');
}

static bool str_ends(str text, const char *with)
{
    const size_t n = strlen(with);
    return text.n > n && memcmp(text.p + text.n - n, with, n) == 0;
}

void handle_file(exchange *x)
{
    const http_request *r = exchange_request(x);
    http_error error;
    if (!batch_api_is_on(x))
        return;
    if (r->method == HTTP_DELETE) {
        background_start(x, delete_run, false);
    } else if (str_ends(r->tail, "/content")) {
        download_start(x);
    } else if (memchr(r->tail.p, '/', r->tail.n) == NULL) {
        background_start(x, retrieve_run, false);
    } else {
        http_error_set(&error, HTTP_E_NOT_FOUND, "not_found", "unknown path");
        exchange_fail(x, &error);
    }
}
