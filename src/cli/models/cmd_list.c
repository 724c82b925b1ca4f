/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_list.c - `mote list`: the installed models. */
#include "cli/args/command.h"
#include "cli/load/find_model.h"
#include "cli/term/output.h"
#include "cli/term/text.h"
#include "json/json_writer.h"
#include "store/file_hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ID_DIGITS = 12, STATE_BYTES = 700 };

typedef struct list_options {
    bool all;
} list_options;

static const cli_flag flags[] = {
    {.name = "all",
     .letter = 'a',
     .kind = FLAG_SWITCH,
     .once = true,
     .at = offsetof(list_options, all),
     .help = "also models of architectures that mote does not run"},
};

static const flag_group groups[] = {FLAG_GROUP("Flags", flags, 0)};

/* ---- state ---- */

typedef enum list_state {
    LIST_VERIFIED,     /* hashed before; unchanged since */
    LIST_NOT_VERIFIED, /* the cache claims the hash; it was not checked */
    LIST_EXTERNAL,     /* of another program, or a plain file */
    LIST_DAMAGED,      /* the hash is wrong */
    LIST_UNUSABLE
} list_state;

static const char *const state_names[] = {"verified", "not verified", "external", "damaged",
                                          "unusable"};

static list_state state_of(const store_model *m)
{
    char directory[VERIFIED_PATH_BYTES], hash[HASH_TEXT_BYTES];
    file_identity identity;
    if (m->broken != NULL)
        return LIST_UNUSABLE;
    if (m->sha256 != NULL &&
        verified_directory(directory, getenv("XDG_CACHE_HOME"), getenv("HOME")) &&
        file_identity_of(&identity, m->weights) &&
        verified_find(directory, &identity, hash, NULL) && strlen(hash) == strlen(m->sha256))
        return strcmp(hash, m->sha256) == 0 ? LIST_VERIFIED : LIST_DAMAGED;
    return m->origin == STORE_HF_CACHE ? LIST_NOT_VERIFIED : LIST_EXTERNAL;
}

/* The state with its reason or its cure. */
static void state_text(char out[STATE_BYTES], const store_model *m, list_state state)
{
    const char *name = state_names[state];
    if (state == LIST_UNUSABLE)
        snprintf(out, STATE_BYTES, "%s (%s)", name, m->broken);
    else if (state == LIST_DAMAGED && m->repo != NULL)
        snprintf(out, STATE_BYTES, "%s (run: mote pull %s)", name, m->name);
    else if (m->origin != STORE_HF_CACHE)
        snprintf(out, STATE_BYTES, "%s (%s)", name, store_origin_name(m->origin));
    else
        snprintf(out, STATE_BYTES, "%s", name);
}

/* "2 days ago" */
static void age_text(char *out, size_t room, double seconds)
{
    static const struct {
        const char *noun;
        double seconds;
    } units[] = {{"year", 365 * 86400.0}, {"month", 30 * 86400.0}, {"week", 7 * 86400.0},
                 {"day", 86400},          {"hour", 3600},          {"minute", 60}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        const unsigned long n = seconds > 0 ? (unsigned long)(seconds / units[i].seconds) : 0;
        if (n > 0) {
            snprintf(out, room, "%lu %s%s ago", n, units[i].noun, n > 1 ? "s" : "");
            return;
        }
    }
    snprintf(out, room, "just now");
}

/* ---- output ---- */

static void list_print_row(cli_out *o, const store_model *m, int name_columns, time_t now)
{
    char size[TEXT_NUMBER_BYTES], age[48], state[STATE_BYTES], shown[4 * 400 + 1];
    char id[ID_DIGITS + 1] = "-";
    if (m->sha256 != NULL)
        snprintf(id, sizeof id, "%.12s", m->sha256);
    age_text(age, sizeof age, difftime(now, (time_t)m->modified));
    text_fit(shown, sizeof shown, m->name, strlen(m->name), 400);
    out_printf(o, "%-*s  %-12s  %8s  %-14s  ", name_columns, shown, id, text_bytes(size, m->bytes),
               age);
    state_text(state, m, state_of(m));
    text_fit(shown, sizeof shown, state, strlen(state), 400);
    out_printf(o, "%s\n", shown);
}

static void list_print(const cli_call *call, const store_model *list, size_t n)
{
    const list_options *options = call->options;
    const time_t now = time(NULL);
    size_t columns = strlen("NAME"), hidden = 0, shown = 0;
    for (size_t i = 0; i < n; i++) {
        const bool show = options->all || !list[i].foreign;
        const size_t wide = strlen(list[i].name) < 60 ? strlen(list[i].name) : 60;
        columns = show && wide > columns ? wide : columns;
        hidden += !show;
        shown += show;
    }
    if (!call->common.quiet && shown > 0)
        out_printf(call->out, "%-*s  %-12s  %8s  %-14s  %s\n", (int)columns, "NAME", "ID", "SIZE",
                   "MODIFIED", "STATE");
    for (size_t i = 0; i < n; i++) {
        if (!options->all && list[i].foreign)
            continue;
        if (call->common.quiet)
            out_printf(call->out, "%s\n", list[i].name);
        else
            list_print_row(call->out, &list[i], (int)columns, now);
    }
    if (shown == 0)
        msg_note("no models are installed (try: mote pull qwen3.5:4b)");
    if (hidden > 0)
        msg_note("%zu models of other architectures are not shown (--all shows them)", hidden);
}

static void list_write_time(strbuf *j, const char *key, int64_t seconds)
{
    char text[40];
    struct tm parts;
    const time_t when = (time_t)seconds;
    if (gmtime_r(&when, &parts) == NULL || strftime(text, sizeof text, "%FT%TZ", &parts) == 0)
        jw_key_null(j, key);
    else
        jw_key_text(j, key, text);
}

static void list_write_model(strbuf *j, const store_model *m)
{
    jw_open(j, '{');
    jw_key_text(j, "name", m->name);
    jw_key_text(j, "sha256", m->sha256);
    jw_key_uint(j, "size", m->bytes);
    list_write_time(j, "modified", m->modified);
    jw_key_text(j, "state", state_names[state_of(m)]);
    jw_key_text(j, "reason", m->broken);
    jw_key_text(j, "origin", store_origin_name(m->origin));
    jw_key_text(j, "quantization", m->quant[0] != '\0' ? m->quant : NULL);
    jw_key_text(j, "architecture", m->architecture[0] != '\0' ? m->architecture : NULL);
    jw_key_text(j, "repository", m->repo);
    jw_key_text(j, "commit", m->commit);
    jw_key_text(j, "weights", m->weights);
    jw_key_uint(j, "parts", m->parts);
    jw_key_text(j, "mmproj", store_vision_path(m));
    jw_key_text(j, "mtp", m->mtp);
    jw_close(j, '}');
}

static int list_write_json(const cli_call *call, const store *s, const store_model *list, size_t n)
{
    const list_options *options = call->options;
    size_t n_problems;
    const store_problem *problems = store_problems(s, &n_problems);
    strbuf j = {0};
    jw_open(&j, '{');
    jw_key(&j, "models");
    jw_open(&j, '[');
    for (size_t i = 0; i < n; i++) {
        if (options->all || !list[i].foreign)
            list_write_model(&j, &list[i]);
        out_json_part(call->out, &j);
    }
    jw_close(&j, ']');
    jw_key(&j, "ignored");
    jw_open(&j, '[');
    for (size_t i = 0; i < n_problems; i++) {
        jw_open(&j, '{');
        jw_key_text(&j, "path", problems[i].path);
        jw_key_text(&j, "reason", problems[i].why);
        jw_close(&j, '}');
    }
    jw_close(&j, ']');
    jw_close(&j, '}');
    return out_json(call->out, &j);
}

/* ---- the command ---- */

static int list_with(const cli_call *call, store *s)
{
    const store_model *list;
    size_t n, n_problems;
    mote_error err;
    if (store_list(s, &list, &n, &err) != MOTE_OK)
        return msg_error(&err);
    if (call->common.json)
        return list_write_json(call, s, list, n);
    list_print(call, list, n);
    find_note_unreadable(s);
    const store_problem *problems = store_problems(s, &n_problems);
    for (size_t i = 0; i < n_problems; i++)
        if (!problems[i].unreadable)
            msg_detail("not used: %s: %s", problems[i].path, problems[i].why);
    return CLI_DONE;
}

static int list_run(const cli_call *call)
{
    store *s;
    int code = find_open_store(&s);
    if (code != CLI_DONE)
        return code;
    code = list_with(call, s);
    store_close(s);
    return code;
}

const cli_command cmd_list = {
    .name = "list",
    .alias = "ls",
    .section = "Models",
    .summary = "list the installed models",
    .usage = "",
    .groups = groups,
    .n_groups = sizeof groups / sizeof *groups,
    .options_bytes = sizeof(list_options),
    .about =
        "Lists the models in the Hugging Face cache (HF_HUB_CACHE, HF_HOME), and those of Ollama, "
        "LM Studio, llama.cpp's old cache and the directories of MOTE_MODELS, which mote uses "
        "where they are.\n"
        "STATE: verified: the SHA-256 was checked; not verified: it was not (mote verify checks "
        "it); external: of another program. -q prints the names only, -v also what was not used "
        "and why.",
    .examples = "mote list\n"
                "mote list --json\n"
                "MOTE_MODELS=/data/models mote list -v",
    .run = list_run,
};
