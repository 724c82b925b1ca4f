/* SPDX-License-Identifier: Apache-2.0 */
/* batch_lines.c - see batch_lines.h. */
#include "server/batch/batch_lines.h"

#include "base/mem.h"
#include "server/batch/json_span.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

/* FNV-1a. It tells lines apart; nothing is protected by it. */
static uint64_t hash_more(uint64_t hash, str text)
{
    for (size_t i = 0; i < text.n; i++)
        hash = (hash ^ (unsigned char)text.p[i]) * 0x100000001b3u;
    return hash;
}

static uint64_t hash_of(str text)
{
    return hash_more(0xcbf29ce484222325u, text);
}

/* ---- reading ---- */

batch_request batch_line_read(const batch_line *line, bool bare)
{
    batch_request r = {0};
    str method;
    if (!json_span_is_object(line->text)) {
        r.code = "invalid_json_line";
        r.message = "the line is not a JSON object";
        return r;
    }
    json_span_member(line->text, "custom_id", &r.custom_id);
    if (bare && !json_span_member(line->text, "url", &r.url) &&
        !json_span_member(line->text, "body", &r.body)) {
        r.url = str_of("\"/v1/chat/completions\"");
        r.body = line->text;
        r.custom_id = (str){NULL, 0};
        return r;
    }
    const bool has_url = json_span_member(line->text, "url", &r.url);
    if (r.custom_id.n < 2 || r.custom_id.p[0] != '"') {
        r.custom_id = (str){NULL, 0};
        r.code = "missing_custom_id";
        r.message = "custom_id must be a string";
    } else if (line->repeated) {
        r.code = "duplicate_custom_id";
        r.message = "an earlier line has the same custom_id";
    } else if (json_span_member(line->text, "method", &method) &&
               !json_span_is_string(method, "POST")) {
        r.code = "invalid_method";
        r.message = "method must be POST";
    } else if (!has_url) {
        r.code = "missing_url";
        r.message = "url must be the path of a route, such as /v1/chat/completions";
    } else if (!json_span_member(line->text, "body", &r.body) || !json_span_is_object(r.body)) {
        r.code = "missing_body";
        r.message = "body must be a JSON object";
    }
    return r;
}

/* What decides the place of a line in the order. */
static void line_describe(batch_line *line)
{
    static const char *const before[] = {"model", "instructions", "tools"};
    static const char *const prompts[] = {"messages", "prompt", "input"};
    const batch_request r = batch_line_read(line, true);
    str value;
    line->hash = hash_of(line->text);
    line->custom = r.custom_id.n > 0 ? hash_of(r.custom_id) : 0;
    line->group = hash_of(r.url);
    line->prompt = (str){"", 0};
    for (size_t i = 0; i < sizeof before / sizeof *before; i++)
        if (json_span_member(r.body, before[i], &value))
            line->group = hash_more(line->group, value);
    for (size_t i = 0; i < sizeof prompts / sizeof *prompts; i++)
        if (json_span_member(r.body, prompts[i], &value))
            line->prompt = value;
}

static bool text_is_blank(str text)
{
    for (size_t i = 0; i < text.n; i++)
        if (strchr(" \t\r", text.p[i]) == NULL)
            return false;
    return true;
}

static mote_status lines_index(batch_lines *b, uint32_t most, mote_error *err)
{
    if (b->map.bytes == 0)
        return MOTE_OK; /* an empty file has no mapping */
    const char *at = (const char *)b->map.data, *end = at + b->map.bytes;
    for (uint32_t number = 0; at < end; number++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        const str text = {at, (size_t)((stop != NULL ? stop : end) - at)};
        at += text.n + 1;
        if (text_is_blank(text))
            continue;
        if (most > 0 && b->n == most)
            return err_set(err, MOTE_E_ARG, "the input file has more than %u lines; split it",
                           (unsigned)most);
        if (!mem_grow(&b->lines, b->n, &b->room, sizeof *b->lines))
            return err_set(err, MOTE_E_MEMORY, "out of memory for the lines of a batch");
        b->lines[b->n] = (batch_line){.text = text, .number = number};
        line_describe(&b->lines[b->n++]);
    }
    return MOTE_OK;
}

/* ---- order ---- */

static int compare_uint64(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

static int compare_custom(const void *x, const void *y)
{
    const batch_line *a = *(const batch_line *const *)x, *b = *(const batch_line *const *)y;
    const int order = compare_uint64(a->custom, b->custom);
    return order != 0 ? order : compare_uint64(a->number, b->number);
}

/* Texts that begin equally are neighbours. */
static int compare_prompts(const void *x, const void *y)
{
    const batch_line *a = *(const batch_line *const *)x, *b = *(const batch_line *const *)y;
    int order = compare_uint64(a->group, b->group);
    const size_t n = a->prompt.n < b->prompt.n ? a->prompt.n : b->prompt.n;
    if (order == 0)
        order = memcmp(a->prompt.p, b->prompt.p, n);
    if (order == 0)
        order = compare_uint64(a->prompt.n, b->prompt.n);
    return order != 0 ? order : compare_uint64(a->number, b->number);
}

/* Uses `order` as scratch. */
static void lines_mark_repeated(batch_lines *b)
{
    for (uint32_t i = 0; i < b->n; i++)
        b->order[i] = &b->lines[i];
    qsort(b->order, b->n, sizeof *b->order, compare_custom);
    for (uint32_t i = 1; i < b->n; i++)
        if (b->order[i]->custom != 0 && b->order[i]->custom == b->order[i - 1]->custom)
            b->lines[b->order[i] - b->lines].repeated = true;
}

/* A shard is a range of the sorted lines, so lines with a shared prefix meet on one machine. */
static void lines_sort(batch_lines *b, const batch_part *part)
{
    uint32_t n = b->n;
    if (part->limit > 0 && part->limit < n)
        n = part->limit;
    for (uint32_t i = 0; i < n; i++)
        b->order[i] = &b->lines[i];
    qsort(b->order, n, sizeof *b->order, compare_prompts);
    b->n_order = n;
    if (part->shards == 0)
        return;
    const uint32_t from = (uint32_t)((uint64_t)n * (part->shard - 1) / part->shards);
    const uint32_t to = (uint32_t)((uint64_t)n * part->shard / part->shards);
    memmove(b->order, b->order + from, (to - from) * sizeof *b->order);
    b->n_order = to - from;
}

/* ---- life cycle ---- */

mote_status batch_lines_open(batch_lines *b, const char *path, const batch_part *part,
                             mote_error *err)
{
    struct stat info;
    *b = (batch_lines){0};
    const bool empty = stat(path, &info) == 0 && S_ISREG(info.st_mode) && info.st_size == 0;
    if (!empty)
        TRY(os_map_open(&b->map, path, err));
    mote_status status = lines_index(b, part->most, err);
    if (status == MOTE_OK && (b->order = mem_new(b->n + 1, sizeof *b->order)) == NULL)
        status = err_set(err, MOTE_E_MEMORY, "out of memory for the lines of a batch");
    if (status != MOTE_OK) {
        batch_lines_close(b);
        return status;
    }
    lines_mark_repeated(b);
    lines_sort(b, part);
    return MOTE_OK;
}

void batch_lines_close(batch_lines *b)
{
    mem_free(b->order);
    mem_free(b->lines);
    if (b->map.slot != 0)
        os_map_close(&b->map);
    *b = (batch_lines){0};
}

batch_line *batch_lines_find(batch_lines *b, uint32_t number)
{
    uint32_t from = 0, to = b->n;
    while (from < to) {
        const uint32_t middle = from + (to - from) / 2;
        if (b->lines[middle].number < number)
            from = middle + 1;
        else
            to = middle;
    }
    return from < b->n && b->lines[from].number == number ? &b->lines[from] : NULL;
}

/* ---- ids ---- */

void batch_line_id(const batch_line *line, char out[BATCH_ID_BYTES])
{
    snprintf(out, BATCH_ID_BYTES, "batch_req_%08x%016llx", (unsigned)line->number,
             (unsigned long long)line->hash);
}

batch_line *batch_lines_find_id(batch_lines *b, str id)
{
    char digits[9] = {0}, expected[BATCH_ID_BYTES];
    if (id.n != BATCH_ID_BYTES - 1)
        return NULL;
    memcpy(digits, id.p + 10, 8);
    batch_line *line = batch_lines_find(b, (uint32_t)strtoul(digits, NULL, 16));
    if (line == NULL)
        return NULL;
    batch_line_id(line, expected);
    return str_is(id, expected) ? line : NULL;
}
