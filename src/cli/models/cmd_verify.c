/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_verify.c - `mote verify`: hashes the files of installed models again.
 *
 * The name of a blob in the Hugging Face cache and in Ollama's store is its hash. Other files have
 * no such reference; their hash is printed.
 */
#include "base/mem.h"
#include "cli/args/command.h"
#include "cli/load/find_model.h"
#include "cli/term/output.h"
#include "cli/term/terminal.h"
#include "cli/term/text.h"
#include "gguf/gguf_files.h"
#include "json/json_writer.h"
#include "store/file_hash.h"
#include "store/hf_cache.h"

#include <stdio.h>
#include <stdlib.h>

typedef enum verify_state { VERIFY_OK, VERIFY_DAMAGED, VERIFY_NO_REFERENCE } verify_state;
static const char *const state_names[] = {"ok", "damaged", "no reference"};

/* One hashed file; models may share it. */
typedef struct verified_file {
    file_identity identity;
    char hash[HASH_TEXT_BYTES];
} verified_file;

typedef struct verify_run {
    const cli_call *call;
    char directory[VERIFIED_PATH_BYTES]; /* of the list of verified files */
    bool has_directory;
    strbuf json;
    verified_file *done;
    uint32_t n_done, done_room;
    uint32_t n_files, n_damaged;
    progress progress;
} verify_run;

/* ---- one file ---- */

/* "sha256-HEX" is the name of a blob of Ollama. */
static bool expected_hash(char out[HASH_TEXT_BYTES], hash_kind *kind, const char *path)
{
    static const char ollama[] = "sha256-";
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    out[0] = '\0';
    if (hf_cache_hash(out, path))
        return hash_kind_of(kind, str_of(out));
    if (strncmp(name, ollama, sizeof ollama - 1) != 0 ||
        !hash_kind_of(kind, str_of(name + sizeof ollama - 1)))
        return false;
    snprintf(out, HASH_TEXT_BYTES, "%s", name + sizeof ollama - 1);
    return true;
}

static bool verify_on_progress(void *ctx, uint64_t done, uint64_t total)
{
    verify_run *v = ctx;
    (void)total;
    progress_at(&v->progress, done);
    return !interrupt_pending();
}

static bool run_find_done(const verify_run *v, const file_identity *identity, bool sha256,
                          char hash[HASH_TEXT_BYTES])
{
    for (uint32_t i = 0; i < v->n_done; i++)
        if (memcmp(&v->done[i].identity, identity, sizeof *identity) == 0 &&
            (strlen(v->done[i].hash) == 64) == sha256) {
            memcpy(hash, v->done[i].hash, HASH_TEXT_BYTES);
            return true;
        }
    return false;
}

static mote_status run_hash(verify_run *v, const char *path, const char *label, hash_kind kind,
                            char hash[HASH_TEXT_BYTES], file_identity *identity, mote_error *err)
{
    if (!file_identity_of(identity, path))
        return err_set(err, MOTE_E_IO, "cannot open %.300s", path);
    if (run_find_done(v, identity, kind == HASH_SHA256, hash))
        return MOTE_OK;
    progress_begin(&v->progress, label, PROGRESS_BYTES, 0, identity->bytes);
    const mote_status status = file_hash(hash, kind, path, identity, verify_on_progress, v, err);
    progress_end(&v->progress);
    if (status != MOTE_OK)
        return status;
    if (!mem_grow(&v->done, v->n_done, &v->done_room, sizeof *v->done))
        return err_set(err, MOTE_E_MEMORY, "out of memory: list of files");
    v->done[v->n_done].identity = *identity;
    memcpy(v->done[v->n_done++].hash, hash, HASH_TEXT_BYTES);
    return MOTE_OK;
}

static void run_print_file(verify_run *v, const char *name, const char *hash, const char *expected,
                           uint64_t bytes, verify_state state)
{
    char a[TEXT_NUMBER_BYTES];
    if (v->call->common.json) {
        jw_open(&v->json, '{');
        jw_key_text(&v->json, "file", name);
        jw_key_uint(&v->json, "bytes", bytes);
        jw_key_text(&v->json, "hash", hash);
        jw_key_text(&v->json, "expected", expected[0] != '\0' ? expected : NULL);
        jw_key_text(&v->json, "state", state_names[state]);
        jw_close(&v->json, '}');
    } else if (!v->call->common.quiet) {
        out_printf(v->call->out, "  %-12s  %9s  %s  %s\n", state_names[state], text_bytes(a, bytes),
                   hash, name);
        out_flush(v->call->out);
    }
}

static void repair_command(char *out, size_t room, const store_model *m)
{
    if (m->origin == STORE_HF_CACHE)
        snprintf(out, room, "mote pull %.300s", m->name);
    else if (m->origin == STORE_OLLAMA)
        snprintf(out, room, "ollama pull %.300s", m->name);
    else
        snprintf(out, room, "download it again");
}

/* Returns an exit code; a damaged file is reported and counted, and is not a failure here. */
static int run_verify_file(verify_run *v, const store_model *m, const char *path)
{
    char hash[HASH_TEXT_BYTES], expected[HASH_TEXT_BYTES], repair[400];
    const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
    hash_kind kind = HASH_SHA256;
    file_identity identity;
    mote_error err;
    const bool known = expected_hash(expected, &kind, path);
    const mote_status status = run_hash(v, path, name, kind, hash, &identity, &err);
    if (status == MOTE_E_CANCELED && interrupt_pending())
        return interrupt_exit_code();
    if (status != MOTE_OK)
        return msg_error(&err);
    const verify_state state = !known                        ? VERIFY_NO_REFERENCE
                               : strcmp(hash, expected) == 0 ? VERIFY_OK
                                                             : VERIFY_DAMAGED;
    v->n_files++;
    if (v->has_directory) /* a cache: a failure does not matter. A wrong hash is shown by mote list
                           */
        verified_add(v->directory, &identity, hash, NULL);
    run_print_file(v, name, hash, expected, identity.bytes, state);
    if (state != VERIFY_DAMAGED)
        return CLI_DONE;
    v->n_damaged++;
    repair_command(repair, sizeof repair, m);
    msg_fail(CLI_DAMAGED, mote_status_name(MOTE_E_FORMAT),
             "%s: %s is damaged: its hash is %s, expected %s; repair it with: %s", m->name, name,
             hash, expected, repair);
    return CLI_DONE;
}

/* ---- models ---- */

static int run_verify_weights(verify_run *v, const store_model *m)
{
    gguf_part_name name;
    if (m->parts <= 1 || !gguf_part_name_parse(&name, str_of(m->weights)))
        return run_verify_file(v, m, m->weights);
    int code = CLI_DONE;
    for (uint32_t i = 1; i <= name.count && code == CLI_DONE; i++) {
        char path[FILE_PATH_BYTES];
        if (gguf_part_name_print(path, sizeof path, &name, i))
            code = run_verify_file(v, m, path);
    }
    return code;
}

static int run_verify_model(verify_run *v, const store_model *m)
{
    if (v->call->common.json) {
        jw_open(&v->json, '{');
        jw_key_text(&v->json, "name", m->name);
        jw_key_text(&v->json, "origin", store_origin_name(m->origin));
        jw_key(&v->json, "files");
        jw_open(&v->json, '[');
    } else if (!v->call->common.quiet && !m->foreign) {
        out_printf(v->call->out, "%s\n", m->name);
    }
    int code = CLI_DONE;
    if (m->foreign) {
        msg_note("%s: not a Qwen 3.5 model (architecture %s); mote does not use it", m->name,
                 m->architecture);
    } else if (m->broken != NULL) {
        v->n_damaged++;
        msg_fail(CLI_DAMAGED, mote_status_name(MOTE_E_FORMAT), "%s cannot be used: %s", m->name,
                 m->broken);
    } else {
        code = run_verify_weights(v, m);
    }
    if (code == CLI_DONE && m->mmproj != NULL && !m->foreign)
        code = run_verify_file(v, m, m->mmproj);
    if (code == CLI_DONE && m->mtp != NULL)
        code = run_verify_file(v, m, m->mtp);
    if (v->call->common.json) {
        jw_close(&v->json, ']');
        jw_key_bool(&v->json, "supported", !m->foreign);
        jw_close(&v->json, '}');
    }
    return code;
}

static int run_verify_argument(verify_run *v, store *s, const char *argument)
{
    model_name name;
    const store_model *m;
    const char *aliased = config_alias(v->call->config, argument);
    const int code = find_installed(s, aliased != NULL ? aliased : argument, &name, &m);
    return code == CLI_DONE ? run_verify_model(v, m) : code;
}

static int run_verify_all(verify_run *v, store *s)
{
    const store_model *list;
    size_t n;
    mote_error err;
    if (store_list(s, &list, &n, &err) != MOTE_OK)
        return msg_error(&err);
    int code = CLI_DONE;
    for (size_t i = 0; i < n && code == CLI_DONE; i++)
        code = run_verify_model(v, &list[i]);
    if (n == 0)
        msg_note("no model is installed");
    return code;
}

static int verify_run_command(const cli_call *call)
{
    store *s;
    verify_run v = {.call = call};
    int code = find_open_store(&s);
    if (code != CLI_DONE)
        return code;
    v.has_directory = verified_directory(v.directory, getenv("XDG_CACHE_HOME"), getenv("HOME"));
    if (call->common.json)
        jw_open(&v.json, '[');
    for (size_t i = 0; i < call->n_words && code == CLI_DONE; i++)
        code = run_verify_argument(&v, s, call->words[i]);
    if (call->n_words == 0)
        code = run_verify_all(&v, s);
    if (call->common.json) {
        jw_close(&v.json, ']');
        const int written = out_json(call->out, &v.json);
        code = code != CLI_DONE ? code : written;
    }
    mem_free(v.done);
    store_close(s);
    if (code != CLI_DONE)
        return code;
    if (v.n_damaged == 0)
        return CLI_DONE;
    return CLI_DAMAGED;
}

const cli_command cmd_verify = {
    .name = "verify",
    .section = "Models",
    .summary = "hash the files of installed models again",
    .usage = "[MODEL]...",
    .arguments = "MODEL...",
    .max_words = 64,
    .about =
        "Reads every file of the models, or of all installed models, and compares its hash with "
        "the one that the Hugging Face cache or Ollama recorded: SHA-256, or the git blob id of a "
        "small file. A model that is not Qwen 3.5 is not read. A file without a recorded hash is "
        "\"no reference\"; its SHA-256 is printed.\n"
        "Results are kept in the mote directory of the cache, so that mote pull need not hash a "
        "file that has not changed.\n"
        "Exit code 6: a file is damaged. The message says how to repair it.",
    .examples = "mote verify\nmote verify qwen3.5:4b --json",
    .run = verify_run_command,
};
