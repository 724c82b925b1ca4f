/* SPDX-License-Identifier: Apache-2.0 */
/* find_model.c - implements find_model.h. */
#include "cli/load/find_model.h"

#include "cli/load/choose_size.h"
#include "cli/load/load.h"
#include "cli/load/pull_model.h"
#include "cli/term/output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A model was pulled. */
enum { FIND_AGAIN = -1 };

void find_store_env(store_env *env)
{
    *env = (store_env){
        .home = getenv("HOME"),
        .xdg_config_home = getenv("XDG_CONFIG_HOME"),
        .xdg_cache_home = getenv("XDG_CACHE_HOME"),
        .xdg_data_home = getenv("XDG_DATA_HOME"),
        .hf_hub_cache = getenv("HF_HUB_CACHE"),
        .huggingface_hub_cache = getenv("HUGGINGFACE_HUB_CACHE"),
        .hf_home = getenv("HF_HOME"),
        .ollama_models = getenv("OLLAMA_MODELS"),
        .ollama_service = "/usr/share/ollama/.ollama/models",
        .llama_cache = getenv("LLAMA_CACHE"),
        .mote_models = getenv("MOTE_MODELS"),
        .etc = "/etc/mote",
    };
}

int find_open_store(store **out)
{
    store_env env;
    mote_error err;
    find_store_env(&env);
    return store_open(out, &env, &err) == MOTE_OK ? CLI_DONE : msg_error(&err);
}

void find_note_unreadable(const store *s)
{
    size_t n;
    const store_problem *problems = store_problems(s, &n);
    for (size_t i = 0; i < n; i++)
        if (problems[i].unreadable)
            msg_note("cannot read the directory %s: %s; models in it are not found",
                     problems[i].path, problems[i].why);
}

/* The model may be in a directory that cannot be read. */
static int find_nothing(const store *s, const mote_error *err)
{
    find_note_unreadable(s);
    return msg_fail(CLI_NO_MODEL, "not_found", "%s", err->text);
}

/* The exit code of a failed store_find. */
static int find_failed(const store *s, const model_name *name, const mote_error *err)
{
    if (err->status == MOTE_E_ARG)
        return find_nothing(s, err);
    if (err->status != MOTE_E_IO)
        return msg_error(err);
    const int code = load_check_file(name->text);
    return code != CLI_DONE ? code : msg_error(err);
}

int find_installed(store *s, const char *argument, model_name *name, const store_model **model)
{
    mote_error err;
    if (store_find(s, argument, name, model, &err) != MOTE_OK)
        return err.status == MOTE_E_ARG || err.status == MOTE_E_IO ? find_nothing(s, &err)
                                                                   : msg_error(&err);
    if (*model != NULL)
        return CLI_DONE;
    store_not_installed(name, &err);
    return find_nothing(s, &err);
}

/* Replaces the name of a family by that of the size to use. */
static int find_size(store *s, model_name *name, uint64_t memory, const store_model **m)
{
    char chosen[CHOSEN_NAME_BYTES];
    mote_error err;
    const char *think = name->think;
    const int code = choose_size(chosen, s, name->text, CHOOSE_INSTALLED, memory);
    if (code != CLI_DONE)
        return code;
    if (store_find(s, chosen, name, m, &err) != MOTE_OK)
        return find_failed(s, name, &err);
    name->think = think;
    return CLI_DONE;
}

/* *may_pull: the caller can download a model that is not installed; set to false if there is
 * nothing to download. */
static int find_in(store *s, found_model *out, model_name *name, const char *argument,
                   uint64_t memory, bool *may_pull)
{
    const store_model *m;
    mote_error err;
    if (store_find(s, argument, name, &m, &err) != MOTE_OK)
        return *may_pull = false, find_failed(s, name, &err);
    const int code = name->kind == MODEL_NAME_FAMILY ? find_size(s, name, memory, &m) : CLI_DONE;
    if (code != CLI_DONE)
        return *may_pull = false, code;
    if (m == NULL && *may_pull)
        return CLI_NO_MODEL;
    *may_pull = false;
    if (m == NULL) {
        store_not_installed(name, &err);
        return find_nothing(s, &err);
    }
    if (m->foreign)
        return msg_fail(CLI_FAILED, mote_status_name(MOTE_E_UNSUPPORTED),
                        "%s is not a Qwen 3.5 model: %s", m->name, m->broken);
    if (m->broken != NULL)
        return msg_fail(CLI_DAMAGED, mote_status_name(MOTE_E_FORMAT), "%s cannot be used: %s",
                        m->name, m->broken);
    out->think = name->think;
    out->has_choice = strcmp(m->weights, name->text) != 0;
    out->origin = m->origin;
    snprintf(out->sha256, sizeof out->sha256, "%s", m->sha256 != NULL ? m->sha256 : "");
    snprintf(out->name, sizeof out->name, "%s", m->name);
    snprintf(out->path, sizeof out->path, "%s", m->weights);
    const char *mmproj = store_vision_path(m);
    snprintf(out->mmproj, sizeof out->mmproj, "%s", mmproj != NULL ? mmproj : "");
    snprintf(out->mtp, sizeof out->mtp, "%s", m->mtp != NULL ? m->mtp : "");
    return load_check_file(out->path);
}

/* One search in a new store. */
static int find_once(found_model *out, const char *argument, bool pull, bool ask, uint64_t memory)
{
    store *s;
    static model_name name;
    pulled_model pulled;
    bool may_pull = pull || ask;
    int code = find_open_store(&s);
    if (code != CLI_DONE)
        return code;
    memset(out, 0, sizeof *out);
    code = find_in(s, out, &name, argument, memory, &may_pull);
    const bool possible =
        may_pull && (name.kind == MODEL_NAME_KNOWN || name.kind == MODEL_NAME_HUB);
    bool wanted = pull;
    const int asked = possible && !pull ? pull_model_confirm(&name, &wanted) : CLI_DONE;
    if (asked != CLI_DONE) {
        code = asked;
    } else if (possible && wanted) {
        code = pull_model(&pulled, &name, &(pull_options){0}, NULL);
        code = code == CLI_DONE ? FIND_AGAIN : code;
    } else if (may_pull) {
        mote_error err;
        store_not_installed(&name, &err);
        code = find_nothing(s, &err);
    }
    store_close(s);
    return code;
}

int find_or_pull_model(found_model *out, const char *argument, bool pull, uint64_t memory)
{
    const bool ask =
        isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1 && pull_offline() == NULL;
    const int code = find_once(out, argument, pull, ask, memory);
    return code == FIND_AGAIN ? find_once(out, argument, false, false, memory) : code;
}

int find_model(found_model *out, const char *argument)
{
    return find_or_pull_model(out, argument, false, 0);
}

bool find_newest_model(char *name)
{
    store_env env;
    store *s;
    mote_error err;
    const store_model *list, *newest = NULL;
    size_t n = 0;
    find_store_env(&env);
    if (store_open(&s, &env, &err) != MOTE_OK)
        return false;
    if (store_list(s, &list, &n, &err) == MOTE_OK)
        for (size_t i = 0; i < n; i++)
            if (list[i].broken == NULL && (newest == NULL || list[i].modified > newest->modified))
                newest = &list[i];
    if (newest != NULL)
        snprintf(name, FOUND_NAME_BYTES, "%s", newest->name);
    store_close(s);
    return newest != NULL;
}

bool find_mmproj(char *out, char *why, const found_model *m, const char *given)
{
    if (given != NULL || !m->has_choice)
        return mmproj_find(out, why, m->path, given);
    snprintf(out, MMPROJ_PATH_BYTES, "%s", m->mmproj);
    why[0] = '\0';
    return true;
}

void find_mtp(char *out, const found_model *m)
{
    if (m->has_choice)
        snprintf(out, MTP_PATH_BYTES, "%s", m->mtp);
    else
        mtp_file_find(out, m->path);
}
