/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_session.c - `mote session`: lists, removes, copies and exports named sessions. */
#include "base/os.h"
#include "cli/args/command.h"
#include "cli/load/cache_cipher.h"
#include "cli/load/session_store.h"
#include "cli/term/output.h"
#include "cli/term/text.h"
#include "disk_cache/sealed_text.h"
#include "json/json_writer.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { DIRECTORY_BYTES = 1024 };

typedef struct session_options {
    const char *cache_key;
} session_options;

static const cli_flag flags[] = {
    {CACHE_KEY_FLAG, .at = offsetof(session_options, cache_key)},
};

static const flag_group groups[] = {FLAG_GROUP("Flags", flags, 0)};

/* The prefix cache on disk; NULL: there is none. */
static disk_cache *open_cache(bool read_only)
{
    char directory[DIRECTORY_BYTES];
    disk_cache *cache = NULL;
    mote_error ignored;
    if (!load_disk_directory(directory, sizeof directory) || access(directory, F_OK) != 0 ||
        disk_cache_open(&cache, directory, UINT64_MAX / 2, read_only, session_cipher(), &ignored) !=
            MOTE_OK)
        return NULL;
    return cache;
}

/* Tokens of the session that need no prefill. */
static uint64_t cached_tokens(disk_cache *cache, const session_info *s)
{
    return cache != NULL && s->ids.n > 0
               ? disk_session_find(cache, &s->scope, s->ids.ids, s->ids.n, s->ids.n)
               : 0;
}

/* ---- ls ---- */

static int ls_write_json(cli_out *out, const session_list *list, disk_cache *cache)
{
    strbuf j = {0};
    jw_open(&j, '[');
    for (size_t i = 0; i < list->n; i++) {
        const session_info *s = &list->items[i];
        jw_open(&j, '{');
        jw_key_text(&j, "name", s->name);
        jw_key_text(&j, "model", s->model);
        jw_key_text(&j, "path", s->path);
        jw_key_uint(&j, "turns", s->turns);
        jw_key_uint(&j, "messages", s->messages);
        jw_key_uint(&j, "tokens", s->ids.n);
        jw_key_uint(&j, "cached_tokens", cached_tokens(cache, s));
        jw_key_uint(&j, "bytes", s->bytes);
        jw_key_uint(&j, "saved", s->saved);
        jw_close(&j, '}');
    }
    jw_close(&j, ']');
    return out_json(out, &j);
}

static void ls_print(cli_out *out, const session_info *s, disk_cache *cache)
{
    char turns[TEXT_NUMBER_BYTES], tokens[TEXT_NUMBER_BYTES], cached[TEXT_NUMBER_BYTES], when[40];
    const time_t saved = (time_t)s->saved;
    struct tm parts;
    if (localtime_r(&saved, &parts) == NULL ||
        strftime(when, sizeof when, "%Y-%m-%d %H:%M", &parts) == 0)
        snprintf(when, sizeof when, "-");
    out_printf(out, "%-20s  %6s  %9s  %9s  %-16s  ", s->name, text_count(turns, s->turns),
               text_count(tokens, s->ids.n), text_count(cached, cached_tokens(cache, s)), when);
    out_shown(out, s->model, strlen(s->model));
    out_text(out, "\n");
}

static int session_ls(const cli_call *call)
{
    session_list list;
    int code = session_list_read(&list);
    if (code != CLI_DONE)
        return code;
    disk_cache *cache = open_cache(true);
    if (call->common.json)
        code = ls_write_json(call->out, &list, cache);
    else if (list.n == 0)
        msg_note("no sessions (mote run MODEL --session NAME makes one)");
    else if (!call->common.quiet)
        out_printf(call->out, "%-20s  %6s  %9s  %9s  %-16s  %s\n", "NAME", "TURNS", "TOKENS",
                   "CACHED", "SAVED", "MODEL");
    for (size_t i = 0; i < list.n && !call->common.json; i++)
        if (call->common.quiet)
            out_printf(call->out, "%s\n", list.items[i].name);
        else
            ls_print(call->out, &list.items[i], cache);
    disk_cache_close(cache);
    session_list_free(&list);
    return code;
}

/* ---- rm ---- */

/* Tokens at the beginning of `s` that another session has too. */
static size_t shared_tokens(const session_list *list, const session_info *s)
{
    size_t most = 0;
    for (size_t i = 0; i < list->n; i++) {
        const session_info *other = &list->items[i];
        size_t same = 0;
        if (strcmp(other->name, s->name) == 0 ||
            !disk_key_equal(other->scope.binding, s->scope.binding))
            continue;
        while (same < s->ids.n && same < other->ids.n && s->ids.ids[same] == other->ids.ids[same])
            same++;
        most = same > most ? same : most;
    }
    return most;
}

/* Without the key of an encrypted session its records in the disk cache are not known. */
static int rm_check_key(const char *name, const char *path)
{
    strbuf text = {0};
    int code = input_read(&text, path);
    if (code == CLI_DONE && sealed_text_is(strbuf_view(&text)))
        code = msg_fail(CLI_FAILED, "encrypted",
                        "the session %s is encrypted: name its key file with --cache-key FILE. If "
                        "the key is lost, remove %s; its records in the disk cache are evicted "
                        "first",
                        name, path);
    strbuf_fini(&text);
    return code;
}

static int rm_one(const session_list *list, disk_cache *cache, const char *name)
{
    char path[SESSION_PATH_BYTES], x[TEXT_NUMBER_BYTES];
    const session_info *s = NULL;
    size_t dropped = 0;
    int code = session_path(path, name);
    if (code == CLI_DONE && !session_exists(name))
        code = session_not_found(name);
    if (code != CLI_DONE)
        return code;
    for (size_t i = 0; i < list->n; i++)
        if (strcmp(list->items[i].name, name) == 0)
            s = &list->items[i];
    if (s == NULL && (code = rm_check_key(name, path)) != CLI_DONE)
        return code;
    if (s != NULL && cache != NULL && s->ids.n > 0)
        dropped = disk_session_drop(cache, &s->scope, s->ids.ids, s->ids.n, shared_tokens(list, s));
    if (unlink(path) != 0)
        return msg_fail(CLI_NOT_WRITABLE, "not_writable", "cannot remove %s", path);
    msg_note("removed %s and %s of the disk cache", name, text_counted(x, dropped, "record"));
    return CLI_DONE;
}

static int session_rm(const cli_call *call)
{
    int code = CLI_DONE;
    if (call->n_words < 2)
        return msg_usage("mote session rm needs the name of a session (mote session ls)");
    for (size_t i = 1; i < call->n_words && code == CLI_DONE; i++) {
        session_list list;
        code = session_list_read(&list);
        disk_cache *cache = open_cache(false);
        if (code == CLI_DONE)
            code = rm_one(&list, cache, call->words[i]);
        disk_cache_close(cache);
        session_list_free(&list);
    }
    return code;
}

/* ---- fork, export ---- */

static int session_fork(const cli_call *call)
{
    char to[SESSION_PATH_BYTES];
    strbuf text = {0};
    if (call->n_words != 3)
        return msg_usage("mote session fork needs the name of a session and a new name");
    int code = session_path(to, call->words[2]);
    if (code == CLI_DONE && session_exists(call->words[2]))
        code = msg_usage("the session %s exists (mote session rm %s removes it)", call->words[2],
                         call->words[2]);
    if (code == CLI_DONE)
        code = session_read_text(&text, call->words[1]);
    if (code == CLI_DONE)
        code = session_write_text(call->words[2], strbuf_view(&text));
    strbuf_fini(&text);
    if (code == CLI_DONE)
        msg_note("%s continues where %s is; both share their part of the disk cache",
                 call->words[2], call->words[1]);
    return code;
}

static int session_export(const cli_call *call)
{
    strbuf text = {0};
    mote_error err;
    if (call->n_words < 2 || call->n_words > 3)
        return msg_usage("mote session export needs the name of a session, and may have a file");
    int code = session_put_messages(&text, call->words[1]);
    if (code == CLI_DONE && strbuf_check(&text, &err) != MOTE_OK)
        code = msg_error(&err);
    if (code == CLI_DONE && call->n_words == 2)
        out_shown(call->out, text.p, text.n);
    else if (code == CLI_DONE && access(call->words[2], F_OK) == 0)
        code = msg_usage("%.200s exists", call->words[2]);
    else if (code == CLI_DONE && os_file_replace(call->words[2], text.p, text.n, &err) != MOTE_OK)
        code = msg_error(&err);
    strbuf_fini(&text);
    return code;
}

static int session_action(const cli_call *call)
{
    static const struct {
        const char *name;
        int (*run)(const cli_call *call);
    } actions[] = {
        {"ls", session_ls}, {"rm", session_rm}, {"fork", session_fork}, {"export", session_export}};
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++)
        if (strcmp(call->words[0], actions[i].name) == 0)
            return i == 0 && call->n_words > 1
                       ? msg_usage("mote session ls takes no further argument")
                       : actions[i].run(call);
    return msg_usage("unknown action %.40s: use ls, rm, fork or export", call->words[0]);
}

static int session_run(const cli_call *call)
{
    const session_options *o = call->options;
    disk_cipher *cipher;
    int code = cache_key_open(&cipher, o->cache_key);
    session_use_cipher(cipher);
    if (code == CLI_DONE)
        code = session_action(call);
    session_use_cipher(NULL);
    cache_cipher_free(cipher);
    return code;
}

const cli_command cmd_session = {
    .name = "session",
    .section = "Use a model",
    .summary = "named conversations: list, remove, copy, export",
    .usage = "ls|rm|fork|export [NAME...]",
    .arguments = "ls|rm|fork|export",
    .min_words = 1,
    .max_words = 64,
    .groups = groups,
    .n_groups = 1,
    .options_bytes = sizeof(session_options),
    .about =
        "A session is a conversation with a name: mote run or mote chat --session NAME, or /save "
        "NAME in a chat. Its file has the messages and tokens; KV cache and recurrent states are "
        "in the prefix cache on disk, so it continues without prefill. If they were evicted, the "
        "conversation is prefilled again.\n"
        "ls lists the sessions; CACHED is the number of tokens that need no prefill. rm removes "
        "sessions and their part of the disk cache. fork NAME NEW copies one; both share what "
        "they have in common. export NAME [FILE] writes its messages as JSON, which mote run "
        "--messages reads; it is not encrypted.",
    .examples = "mote run qwen3.5:4b --session essay \"Write an outline about tides\"\n"
                "mote run qwen3.5:4b --session essay \"Now the first chapter\"\n"
                "mote session fork essay essay-2\n"
                "mote session export essay essay.json",
    .run = session_run,
};
