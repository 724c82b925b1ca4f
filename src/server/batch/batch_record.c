/* SPDX-License-Identifier: Apache-2.0 */
/* batch_record.c - see batch_record.h. */
#include "server/batch/batch_record.h"

#include "base/mem.h"
#include "base/os.h"
#include "json/json_writer.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char *const status_names[] = {
    [BATCH_VALIDATING] = "validating", [BATCH_IN_PROGRESS] = "in_progress",
    [BATCH_FINALIZING] = "finalizing", [BATCH_CANCELLING] = "cancelling",
    [BATCH_COMPLETED] = "completed",   [BATCH_CANCELLED] = "cancelled",
    [BATCH_FAILED] = "failed",
};
enum { N_STATUSES = sizeof status_names / sizeof *status_names };

const char *batch_status_name(batch_status status)
{
    return status_names[status];
}

bool batch_status_is_final(batch_status status)
{
    return status == BATCH_COMPLETED || status == BATCH_CANCELLED || status == BATCH_FAILED;
}

/* ---- printing ---- */

static void put_time(strbuf *out, const char *name, int64_t when)
{
    if (when > 0)
        jw_key_int(out, name, when);
    else
        jw_key_null(out, name);
}

static void put_id(strbuf *out, const char *name, const char *id)
{
    jw_key_text(out, name, id[0] != '\0' ? id : NULL);
}

static void put_errors(strbuf *out, const batch_record *r)
{
    jw_key(out, "errors");
    if (r->message[0] == '\0') {
        jw_null(out);
        return;
    }
    jw_open(out, '{');
    jw_key_text(out, "object", "list");
    jw_key(out, "data");
    jw_open(out, '[');
    jw_open(out, '{');
    jw_key_text(out, "code", "batch_failed");
    jw_key_text(out, "message", r->message);
    jw_key_null(out, "param");
    jw_key_null(out, "line");
    jw_close(out, '}');
    jw_close(out, ']');
    jw_close(out, '}');
}

/* Files are shown when they exist: at the end. */
static void put_members(strbuf *out, const batch_record *r, bool files)
{
    const bool final = batch_status_is_final(r->status);
    jw_key_text(out, "id", r->id);
    jw_key_text(out, "object", "batch");
    jw_key_text(out, "endpoint", r->endpoint);
    put_errors(out, r);
    jw_key_text(out, "input_file_id", r->input);
    jw_key_text(out, "completion_window", "24h");
    jw_key_text(out, "status", status_names[r->status]);
    put_id(out, "output_file_id", files ? r->output : "");
    put_id(out, "error_file_id", files ? r->errors : "");
    jw_key_int(out, "created_at", r->created);
    put_time(out, "in_progress_at", r->began);
    jw_key_null(out, "expires_at");
    put_time(out, "finalizing_at", r->finalizing);
    put_time(out, "completed_at", r->status == BATCH_COMPLETED ? r->ended : 0);
    put_time(out, "failed_at", r->status == BATCH_FAILED ? r->ended : 0);
    jw_key_null(out, "expired_at");
    put_time(out, "cancelling_at", r->cancelling);
    put_time(out, "cancelled_at", final && r->status == BATCH_CANCELLED ? r->ended : 0);
    jw_key(out, "request_counts");
    jw_open(out, '{');
    jw_key_uint(out, "total", r->total);
    jw_key_uint(out, "completed", r->done - r->failed);
    jw_key_uint(out, "failed", r->failed);
    jw_close(out, '}');
    if (r->metadata != NULL)
        jw_key_raw(out, "metadata", r->metadata);
    else
        jw_key_null(out, "metadata");
}

void batch_record_print(const batch_record *r, strbuf *out)
{
    jw_open(out, '{');
    put_members(out, r, batch_status_is_final(r->status));
    jw_close(out, '}');
}

/* ---- the disk ---- */

mote_status batch_record_write(const batch_record *r, const char *path, mote_error *err)
{
    char number[24];
    strbuf j = {0};
    jw_open(&j, '{');
    put_members(&j, r, true);
    snprintf(number, sizeof number, "%016llx", (unsigned long long)r->ns);
    jw_key_text(&j, "ns", number);
    snprintf(number, sizeof number, "%016llx", (unsigned long long)r->client);
    jw_key_text(&j, "client", number);
    jw_key_int(&j, "ended", r->ended);
    jw_key_text(&j, "message", r->message);
    jw_close(&j, '}');
    mote_status status = strbuf_check(&j, err);
    if (status == MOTE_OK)
        status = os_file_replace(path, j.p, j.n, err);
    strbuf_fini(&j);
    return status;
}

static void read_text(char *out, size_t room, const json_node *root, const char *name)
{
    const json_node *node = json_node_get(root, name);
    snprintf(out, room, "%s", json_node_is(node, JSON_IS_STRING) ? json_node_text(node).p : "");
}

static int64_t read_number(const json_node *root, const char *name)
{
    int64_t n = 0;
    return json_node_int64(json_node_get(root, name), &n) ? n : 0;
}

static uint64_t read_hex(const json_node *root, const char *name)
{
    char text[24];
    read_text(text, sizeof text, root, name);
    return strtoull(text, NULL, 16);
}

static bool read_status(const json_node *root, batch_status *status)
{
    for (int i = 0; i < N_STATUSES; i++)
        if (str_is(json_node_text(json_node_get(root, "status")), status_names[i])) {
            *status = (batch_status)i;
            return true;
        }
    return false;
}

static bool read_metadata(batch_record *r, const json_node *root)
{
    const json_node *node = json_node_get(root, "metadata");
    strbuf text = {0};
    if (!json_node_is(node, JSON_IS_OBJECT))
        return true;
    jw_node(&text, node);
    r->metadata = text.failed ? NULL : mem_new(text.n + 1, 1);
    if (r->metadata != NULL)
        memcpy(r->metadata, text.p, text.n);
    strbuf_fini(&text);
    return r->metadata != NULL;
}

static bool record_parse(batch_record *r, const json_node *root)
{
    const json_node *counts = json_node_get(root, "request_counts");
    read_text(r->id, sizeof r->id, root, "id");
    read_text(r->endpoint, sizeof r->endpoint, root, "endpoint");
    read_text(r->input, sizeof r->input, root, "input_file_id");
    read_text(r->output, sizeof r->output, root, "output_file_id");
    read_text(r->errors, sizeof r->errors, root, "error_file_id");
    read_text(r->message, sizeof r->message, root, "message");
    r->ns = read_hex(root, "ns");
    r->client = read_hex(root, "client");
    r->created = read_number(root, "created_at");
    r->began = read_number(root, "in_progress_at");
    r->finalizing = read_number(root, "finalizing_at");
    r->cancelling = read_number(root, "cancelling_at");
    r->ended = read_number(root, "ended");
    r->total = (uint32_t)read_number(counts, "total");
    r->failed = (uint32_t)read_number(counts, "failed");
    r->done = (uint32_t)read_number(counts, "completed") + r->failed;
    return r->id[0] != '\0' && r->input[0] != '\0' && read_status(root, &r->status) &&
           read_metadata(r, root);
}

bool batch_record_read(batch_record *r, const char *path)
{
    enum { RECORD_BYTES = BATCH_METADATA_BYTES + 8192 };
    json_doc *doc;
    *r = (batch_record){0};
    char *text = mem_new(RECORD_BYTES, 1);
    const int fd = text != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    const ssize_t n = fd >= 0 ? read(fd, text, RECORD_BYTES) : -1;
    bool valid = false;
    if (fd >= 0)
        close(fd);
    if (n > 0 && json_doc_read(&doc, (str){text, (size_t)n}, NULL) == MOTE_OK) {
        valid = record_parse(r, json_doc_root(doc));
        json_doc_free(doc);
    }
    mem_free(text);
    return valid;
}
