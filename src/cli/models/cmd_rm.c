/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_rm.c - `mote rm`: removes installed models from the Hugging Face cache. */
#include "cli/args/command.h"
#include "cli/load/find_model.h"
#include "cli/models/alias_file.h"
#include "cli/term/output.h"
#include "cli/term/terminal.h"
#include "cli/term/text.h"
#include "json/json_writer.h"
#include "store/store_remove.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

typedef struct rm_options {
    bool yes;
} rm_options;

static const cli_flag flags[] = {
    {.name = "yes",
     .letter = 'y',
     .kind = FLAG_SWITCH,
     .once = true,
     .at = offsetof(rm_options, yes),
     .help = "do not ask, even if something else uses a file of the model"},
};
static const flag_group groups[] = {FLAG_GROUP("Flags", flags, 0)};

/* True if the answer on the terminal begins with y. */
static bool rm_confirmed(const char *name)
{
    char line[16];
    progress_clear();
    fprintf(stderr, "mote: remove %s? [y/N] ", name);
    fflush(stderr);
    const ssize_t n = read(STDIN_FILENO, line, sizeof line);
    return n > 0 && (line[0] == 'y' || line[0] == 'Y');
}

/* Prints what else uses the files, and asks. Returns an exit code. */
static int rm_confirm(const store *s, const store_model *m, bool yes)
{
    strbuf users = {0};
    mote_error err;
    if (store_remove_users(s, m, &users, &err) != MOTE_OK) {
        strbuf_fini(&users);
        return err.status == MOTE_E_ARG ? msg_fail(CLI_REFUSED, "external_model", "%s", err.text)
                                        : msg_error(&err);
    }
    str rest = strbuf_view(&users);
    const bool used = rest.n > 0;
    while (rest.n > 0) {
        const str line = str_next_word(&rest, "\n");
        if (line.n > 0)
            msg_note("%.*s", (int)line.n, line.p);
    }
    strbuf_fini(&users);
    if (!used || yes)
        return CLI_DONE;
    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
        return msg_usage("other revisions or references use %s; to remove it nevertheless: mote rm "
                         "-y %s",
                         m->name, m->name);
    return rm_confirmed(m->name) ? CLI_DONE
                                 : msg_fail(CLI_FAILED, "not_removed", "%s stays", m->name);
}

static void rm_print(const cli_call *call, const char *name, const store_removed *removed,
                     strbuf *json)
{
    char a[TEXT_NUMBER_BYTES], b[TEXT_NUMBER_BYTES];
    if (call->common.json) {
        jw_open(json, '{');
        jw_key_text(json, "name", name);
        jw_key_uint(json, "files", removed->files);
        jw_key_uint(json, "freed", removed->freed);
        jw_key_uint(json, "shared", removed->shared);
        jw_close(json, '}');
        return;
    }
    if (call->common.quiet)
        return;
    out_printf(call->out, "removed %s: %u file%s, %s freed", name, removed->files,
               removed->files == 1 ? "" : "s", text_bytes(a, removed->freed));
    if (removed->shared > 0)
        out_printf(call->out, ", %s kept for other users", text_bytes(b, removed->shared));
    out_text(call->out, "\n");
}

static int rm_not_installed(const store *s, const model_name *name)
{
    char names[300];
    find_note_unreadable(s);
    if (name->kind == MODEL_NAME_FAMILY) {
        const size_t n = store_names(s, name->text, names, sizeof names);
        if (n == 0)
            return msg_fail(CLI_NO_MODEL, "not_found",
                            "no model of the family %s is installed (mote list shows what is)",
                            name->text);
        return msg_usage("%s is a family; installed: %s; try: mote rm %.*s", name->text, names,
                         (int)strcspn(names, ","), names);
    }
    if (store_names(s, NULL, names, sizeof names) == 0)
        return msg_fail(CLI_NO_MODEL, "not_found", "%.200s is not installed; no model is",
                        name->text);
    return msg_fail(CLI_NO_MODEL, "not_found", "%.200s is not installed; installed: %s", name->text,
                    names);
}

static int rm_model(const cli_call *call, store *s, const char *argument, strbuf *json)
{
    const rm_options *options = call->options;
    model_name name;
    const store_model *m;
    store_removed removed;
    mote_error err;
    if (store_find(s, argument, &name, &m, &err) != MOTE_OK) {
        find_note_unreadable(s);
        return err.status == MOTE_E_ARG || err.status == MOTE_E_IO
                   ? msg_fail(CLI_NO_MODEL, "not_found", "%s", err.text)
                   : msg_error(&err);
    }
    if (m == NULL || (name.kind == MODEL_NAME_FAMILY && strcasecmp(m->name, name.text) != 0))
        return rm_not_installed(s, &name);
    const int code = rm_confirm(s, m, options->yes);
    if (code != CLI_DONE)
        return code;
    if (store_remove(s, m, &removed, &err) != MOTE_OK)
        return err.status == MOTE_E_IO
                   ? msg_fail(CLI_NOT_WRITABLE, mote_status_name(err.status), "%s", err.text)
                   : msg_error(&err);
    rm_print(call, m->name, &removed, json);
    return CLI_DONE;
}

/* Every argument has a store of its own: the list of the last one is out of date. */
static int rm_argument(const cli_call *call, const char *argument, strbuf *json)
{
    store *s;
    mote_error err;
    bool removed;
    if (alias_file_remove(argument, &removed, &err) != MOTE_OK)
        return msg_error(&err);
    if (removed) {
        if (!call->common.json && !call->common.quiet)
            out_printf(call->out, "removed the alias %s\n", argument);
        return CLI_DONE;
    }
    int code = find_open_store(&s);
    if (code != CLI_DONE)
        return code;
    code = rm_model(call, s, argument, json);
    store_close(s);
    return code;
}

static int rm_run(const cli_call *call)
{
    strbuf json = {0};
    int code = CLI_DONE;
    if (call->common.json)
        jw_open(&json, '[');
    for (size_t i = 0; i < call->n_words && code == CLI_DONE; i++)
        code = rm_argument(call, call->words[i], &json);
    if (!call->common.json)
        return code;
    jw_close(&json, ']');
    const int written = out_json(call->out, &json);
    return code != CLI_DONE ? code : written;
}

const cli_command cmd_rm = {
    .name = "rm",
    .section = "Models",
    .summary = "remove installed models",
    .usage = "MODEL...",
    .arguments = "MODEL...",
    .min_words = 1,
    .max_words = 64,
    .groups = groups,
    .n_groups = sizeof groups / sizeof *groups,
    .options_bytes = sizeof(rm_options),
    .about =
        "Removes models from the Hugging Face cache: the weights, and the vision encoder and MTP "
        "file if no other model of the revision is left. A file that another revision uses stays. "
        "If another revision or reference uses a file, mote says so and asks.\n"
        "Files of Ollama, LM Studio and directories are never deleted. The name of an alias that "
        "mote cp made removes the alias.",
    .examples = "mote rm qwen3.5:4b\nmote rm -y qwen3.5:2b hf:owner/repo:Q8_0",
    .run = rm_run,
};
