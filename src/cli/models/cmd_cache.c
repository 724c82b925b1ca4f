/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_cache.c - `mote cache`: lists, checks and empties the prefix cache on disk. */
#include "base/mem.h"
#include "cli/args/command.h"
#include "cli/load/cache_cipher.h"
#include "cli/load/load.h"
#include "cli/term/output.h"
#include "cli/term/text.h"
#include "disk_cache/disk_cache.h"
#include "json/json_writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { DIRECTORY_BYTES = 1024, ID_DIGITS = 12 };

typedef struct cache_options {
    bool all;
    const char *cache_key;
} cache_options;

static const cli_flag flags[] = {
    {.name = "all",
     .kind = FLAG_SWITCH,
     .once = true,
     .at = offsetof(cache_options, all),
     .help = "rm: remove everything"},
    {CACHE_KEY_FLAG, .at = offsetof(cache_options, cache_key)},
};

static const flag_group groups[] = {FLAG_GROUP("Flags", flags, 0)};

/* An open cache with a list of its records. */
typedef struct cache_view {
    char directory[DIRECTORY_BYTES];
    disk_cipher *cipher; /* of --cache-key; NULL: none */
    disk_cache *cache;
    disk_item *items; /* [n] */
    size_t n;
} cache_view;

static const char other_key[] = "(another key: use --cache-key FILE)";

static int view_open(cache_view *v, const cache_options *o)
{
    mote_error err;
    *v = (cache_view){0};
    const int code = cache_key_open(&v->cipher, o->cache_key);
    if (code != CLI_DONE)
        return code;
    if (!load_disk_directory(v->directory, sizeof v->directory))
        return msg_fail(CLI_FAILED, "no_directory",
                        "no cache directory: set MOTE_CACHE, XDG_CACHE_HOME or HOME");
    if (disk_cache_open(&v->cache, v->directory, UINT64_MAX / 2, false, v->cipher, &err) != MOTE_OK)
        return msg_error(&err);
    v->n = disk_cache_list(v->cache, NULL, 0);
    v->items = mem_new(v->n + 1, sizeof *v->items);
    if (v->items == NULL)
        return msg_no_memory("the list of records");
    disk_cache_list(v->cache, v->items, v->n);
    return CLI_DONE;
}

static void view_close(cache_view *v)
{
    mem_free(v->items);
    disk_cache_close(v->cache);
    cache_cipher_free(v->cipher);
}

/* The key of the record was not given. */
static bool item_is_locked(const disk_item *item)
{
    return item->is_sealed && item->is_foreign;
}

static void id_text(char out[ID_DIGITS + 1], disk_key key)
{
    snprintf(out, ID_DIGITS + 1, "%012llx", (unsigned long long)(key.word[0] >> 16));
}

/* ---- ls ---- */

static int item_newer(const void *a, const void *b)
{
    const disk_item *x = a, *y = b;
    return x->created != y->created ? (x->created < y->created ? 1 : -1)
                                    : (x->position < y->position) - (x->position > y->position);
}

static void ls_write_json(cli_out *out, const cache_view *v)
{
    strbuf j = {0};
    char id[ID_DIGITS + 1];
    jw_open(&j, '[');
    for (size_t i = 0; i < v->n; i++) {
        const disk_item *item = &v->items[i];
        if (item->kind != DISK_STATE)
            continue;
        id_text(id, item->key);
        jw_open(&j, '{');
        jw_key_text(&j, "id", id);
        jw_key_text(&j, "model", item->label);
        jw_key_uint(&j, "tokens", item->position);
        jw_key_uint(&j, "bytes", item->bytes);
        jw_key_uint(&j, "created", item->created);
        jw_key_bool(&j, "encrypted", item->is_sealed);
        jw_key_bool(&j, "readable", !item_is_locked(item));
        jw_close(&j, '}');
    }
    jw_close(&j, ']');
    out_printf(out, "%.*s\n", (int)j.n, j.p != NULL ? j.p : "");
    strbuf_fini(&j);
}

static int cache_ls(const cli_call *call, cache_view *v)
{
    char id[ID_DIGITS + 1], tokens[TEXT_NUMBER_BYTES], size[TEXT_NUMBER_BYTES], when[40];
    size_t shown = 0;
    qsort(v->items, v->n, sizeof *v->items, item_newer);
    if (call->common.json) {
        ls_write_json(call->out, v);
        return CLI_DONE;
    }
    for (size_t i = 0; i < v->n; i++) {
        const disk_item *item = &v->items[i];
        const time_t created = (time_t)item->created;
        struct tm parts;
        if (item->kind != DISK_STATE)
            continue;
        if (shown++ == 0 && !call->common.quiet)
            out_printf(call->out, "%-12s  %9s  %9s  %-16s  %-9s  %s\n", "ID", "TOKENS", "STATE",
                       "WRITTEN", "ENCRYPTED", "MODEL");
        id_text(id, item->key);
        if (localtime_r(&created, &parts) == NULL ||
            strftime(when, sizeof when, "%Y-%m-%d %H:%M", &parts) == 0)
            snprintf(when, sizeof when, "-");
        const bool locked = item_is_locked(item);
        out_printf(call->out, "%-12s  %9s  %9s  %-16s  %-9s  %s\n", id,
                   locked ? "?" : text_count(tokens, item->position), text_bytes(size, item->bytes),
                   when, item->is_sealed ? "yes" : "no", locked ? other_key : item->label);
    }
    if (shown == 0)
        msg_note("the disk cache is empty (%s)", v->directory);
    return CLI_DONE;
}

/* ---- stats ---- */

static int cache_stats(const cli_call *call, const cache_view *v)
{
    disk_stats s;
    char a[TEXT_NUMBER_BYTES], b[TEXT_NUMBER_BYTES], c[TEXT_NUMBER_BYTES];
    disk_cache_read_stats(v->cache, &s);
    const double days = s.since > 0 ? difftime(time(NULL), (time_t)s.since) / 86400 : 0;
    if (call->common.json) {
        strbuf j = {0};
        jw_open(&j, '{');
        jw_key_text(&j, "directory", v->directory);
        jw_key_uint(&j, "bytes", s.bytes);
        jw_key_uint(&j, "pages", s.pages);
        jw_key_uint(&j, "states", s.states);
        jw_key_uint(&j, "encrypted_records", s.sealed);
        jw_key_uint(&j, "other_key_records", s.foreign);
        jw_key_uint(&j, "written_records", s.written);
        jw_key_uint(&j, "written_bytes", s.write_bytes);
        jw_key_uint(&j, "evicted_records", s.evicted);
        jw_key_uint(&j, "since", s.since);
        jw_close(&j, '}');
        out_printf(call->out, "%.*s\n", (int)j.n, j.p != NULL ? j.p : "");
        strbuf_fini(&j);
        return CLI_DONE;
    }
    out_printf(call->out, "directory  %s\n", v->directory);
    out_printf(call->out, "size       %s in %s KV pages and %s states\n", text_bytes(a, s.bytes),
               text_count(b, s.pages), text_count(c, s.states));
    out_printf(call->out, "encrypted  %s of %s records", text_count(a, s.sealed),
               text_count(b, s.sealed + s.plain));
    if (s.foreign > 0)
        out_printf(call->out, ", %s of them with another key", text_count(c, s.foreign));
    out_text(call->out, "\n");
    out_printf(call->out, "written    %s in %s records", text_bytes(a, s.write_bytes),
               text_count(b, s.written));
    if (days >= 1)
        out_printf(call->out, ", %s a day",
                   text_bytes(c, (uint64_t)((double)s.write_bytes / days)));
    out_printf(call->out, "\nevicted    %s records\n", text_count(a, s.evicted));
    return CLI_DONE;
}

/* ---- rm, verify ---- */

static int cache_rm(const cli_call *call, cache_view *v)
{
    const cache_options *o = call->options;
    mote_error err;
    char a[TEXT_NUMBER_BYTES], id[ID_DIGITS + 1];
    disk_stats before;
    disk_cache_read_stats(v->cache, &before);
    if (o->all == (call->n_words > 1))
        return msg_usage("mote cache rm needs the ID of a state (mote cache ls), or --all");
    if (o->all) {
        if (disk_cache_remove_all(v->cache, &err) != MOTE_OK)
            return msg_error(&err);
        msg_note("removed %s from %s", text_bytes(a, before.bytes), v->directory);
        return CLI_DONE;
    }
    for (size_t i = 0; i < v->n; i++) {
        id_text(id, v->items[i].key);
        if (v->items[i].kind != DISK_STATE || strcmp(id, call->words[1]) != 0)
            continue;
        if (disk_cache_remove(v->cache, v->items[i].key, &err) != MOTE_OK)
            return msg_error(&err);
        msg_note("removed %s, %s; its KV pages are evicted when space is needed", id,
                 text_bytes(a, v->items[i].bytes));
        return CLI_DONE;
    }
    return msg_fail(CLI_FAILED, "not_found", "no state has the ID %.20s (mote cache ls lists them)",
                    call->words[1]);
}

static int cache_verify(cache_view *v)
{
    mote_error err = {0};
    char a[TEXT_NUMBER_BYTES];
    size_t damaged = 0, locked = 0, sealed = 0;
    for (size_t i = 0; i < v->n; i++) {
        if (item_is_locked(&v->items[i])) {
            locked++;
            continue;
        }
        sealed += v->items[i].is_sealed;
        const mote_status status = disk_cache_verify(v->cache, v->items[i].key, &err);
        if (status == MOTE_E_FORMAT) {
            damaged++;
            msg_note("%s; removed", err.text);
        } else if (status != MOTE_OK) {
            msg_note("%s", err.text);
        }
    }
    if (locked > 0)
        msg_note("%s encrypted with another key, not verified: use --cache-key FILE",
                 text_counted(a, locked, "record"));
    if (damaged > 0)
        return msg_fail(CLI_FAILED, "damaged", "%zu of %zu records were damaged and are removed",
                        damaged, v->n);
    msg_note("%s are intact, %zu of them encrypted", text_counted(a, v->n - locked, "record"),
             sealed);
    return CLI_DONE;
}

/* Makes a key file. */
static int cache_key(const cli_call *call)
{
    if (call->n_words != 2)
        return msg_usage("mote cache key needs the name of a new file");
    const int code = cache_key_create(call->words[1]);
    if (code == CLI_DONE)
        msg_note("made the key file %.200s; use it with --cache-key or MOTE_CACHE_KEY. Without it, "
                 "what it encrypts is lost",
                 call->words[1]);
    return code;
}

static int cache_run(const cli_call *call)
{
    cache_view v;
    const char *what = call->words[0];
    if (strcmp(what, "key") == 0)
        return cache_key(call);
    const bool rm = strcmp(what, "rm") == 0, verify = strcmp(what, "verify") == 0;
    const bool ls = strcmp(what, "ls") == 0, stats = strcmp(what, "stats") == 0;
    if (!rm && !verify && !ls && !stats)
        return msg_usage("unknown action %.40s: use ls, rm, verify, stats or key", what);
    if (!rm && call->n_words > 1)
        return msg_usage("mote cache %s takes no further argument", what);
    int code = view_open(&v, call->options);
    if (code == CLI_DONE)
        code = rm       ? cache_rm(call, &v)
               : verify ? cache_verify(&v)
               : stats  ? cache_stats(call, &v)
                        : cache_ls(call, &v);
    view_close(&v);
    return code;
}

const cli_command cmd_cache = {
    .name = "cache",
    .section = "Understand",
    .summary = "the prefix cache on disk: list, check, empty",
    .usage = "ls|rm|verify|stats|key [ID|FILE]",
    .arguments = "ls|rm|verify|stats|key",
    .min_words = 1,
    .max_words = 2,
    .groups = groups,
    .n_groups = 1,
    .options_bytes = sizeof(cache_options),
    .about =
        "mote serve, run and chat keep the KV cache and recurrent states of conversations in a "
        "directory, so "
        "that they need no second prefill after a restart (--cache-disk). It is "
        "$MOTE_CACHE/prefix, else $XDG_CACHE_HOME/mote/prefix, else ~/.cache/mote/prefix.\n"
        "ls lists the states: positions at which a conversation can continue. rm removes one, or "
        "all with --all. verify reads every record, compares its checksum and removes damaged "
        "ones. stats prints size and the bytes written since the directory exists.\n"
        "key FILE makes a key for --cache-key, which encrypts the directory and named sessions. "
        "Records of another key, and those that were written without one, count for the size but "
        "are not used; they are evicted first. Other actions need the key to describe and verify "
        "encrypted records.",
    .examples = "mote cache ls\nmote cache stats\nmote cache rm --all\n"
                "mote cache key ~/.config/mote/cache.key\n"
                "mote cache verify --cache-key ~/.config/mote/cache.key",
    .run = cache_run,
};
