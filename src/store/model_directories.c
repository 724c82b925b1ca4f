/* SPDX-License-Identifier: Apache-2.0 */
/* model_directories.c - directories of GGUF files: LM Studio, MOTE_MODELS, llama.cpp's old cache;
 * see other_programs.h. */
#define _XOPEN_SOURCE 700
#include "base/mem.h"
#include "json/json.h"
#include "store/other_programs.h"
#include "store/store_int.h"
#include "store/text_match.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_FILES = 20000, MAX_SETTINGS_BYTES = 1 << 18 };

/* A sandbox must allow the directory that a link leads to. */
static void allow_target(store *s, const char *path)
{
    char real[PATH_MAX];
    if (realpath(path, real) == NULL)
        return;
    *strrchr(real, '/') = '\0';
    store_add_root(s, real[0] != '\0' ? real : "/");
}

static void directory_add(store *s, store_origin origin, const char *root, const file_list *files,
                          const hub_file *listing, uint32_t i)
{
    char name[MODEL_NAME_BYTES], quant[KNOWN_QUANT_BYTES];
    const char *path = files->files[i].path, *why;
    hub_choice choice;
    mote_error err;
    store_model m = {.origin = origin};
    if (hub_choose_files(&choice, listing, files->n, path, &err) != MOTE_OK) {
        choice = (hub_choice){{(int32_t)i}, 1, HUB_NO_FILE, HUB_NO_FILE, files->files[i].bytes};
        m.broken = store_text(s, err.text);
    }
    /* The user chose these directories, so links may lead out of them. */
    store_set_files(s, &m, files, root, NULL, &choice);
    if (!file_inside(m.weights, root, &why))
        allow_target(s, m.weights);
    if (m.mmproj != NULL && !file_inside(m.mmproj, root, &why))
        allow_target(s, m.mmproj);
    model_name_of_file(name, path);
    hub_quant_of(path, quant);
    m.name = store_text(s, name);
    m.quant = store_text(s, quant);
    store_add(s, &m);
}

static mote_status directory_scan(store *s, store_origin origin, const char *root, unsigned depth,
                                  mote_error *err)
{
    file_list files;
    if (!store_add_root(s, root))
        return MOTE_OK;
    TRY(file_list_read(&files, root, depth, MAX_FILES, err));
    store_add_unread(s, root, &files);
    if (files.cut && origin == STORE_DIRECTORY)
        store_add_problem(s, root, "too many files or directories; not all are used");
    hub_file *listing = mem_new(files.n, sizeof *listing);
    mote_status status = MOTE_OK;
    if (listing == NULL)
        status = err_set(err, MOTE_E_MEMORY, "out of memory: %u files", files.n);
    for (uint32_t i = 0; i < files.n && status == MOTE_OK; i++)
        listing[i] = (hub_file){files.files[i].path, files.files[i].bytes};
    for (uint32_t i = 0; i < files.n && status == MOTE_OK; i++)
        if (!files.files[i].directory && hub_is_model(files.files[i].path))
            directory_add(s, origin, root, &files, listing, i);
    mem_free(listing);
    file_list_fini(&files);
    return status;
}

/* The directory that LM Studio's settings name; false: not set. */
static bool lm_studio_moved(char out[FILE_PATH_BYTES], store *s)
{
    char path[FILE_PATH_BYTES];
    strbuf text = {0};
    json_doc *doc = NULL;
    const char *why = NULL;
    bool found = false;
    const bool read = file_join(path, s->env.home, ".lmstudio/settings.json") &&
                      file_read_small(&text, path, MAX_SETTINGS_BYTES, &why);
    if (read && json_doc_read(&doc, strbuf_view(&text), NULL) != MOTE_OK)
        why = "invalid JSON";
    if (why != NULL)
        store_add_problem(s, path, why);
    if (doc != NULL) {
        const str moved = json_node_text(json_node_get(json_doc_root(doc), "downloadsFolder"));
        found = moved.n > 0 && moved.n < FILE_PATH_BYTES && moved.p[0] == '/' &&
                memchr(moved.p, '\0', moved.n) == NULL;
        if (found)
            snprintf(out, FILE_PATH_BYTES, "%s", moved.p);
    }
    json_doc_free(doc);
    strbuf_fini(&text);
    return found;
}

mote_status lm_studio_scan(store *s, mote_error *err)
{
    char root[FILE_PATH_BYTES];
    if (!store_env_set(s->env.home))
        return MOTE_OK;
    if (lm_studio_moved(root, s) || file_join(root, s->env.home, ".lmstudio/models"))
        TRY(directory_scan(s, STORE_LM_STUDIO, root, 2, err));
    return file_join(root, s->env.home, ".cache/lm-studio/models")
               ? directory_scan(s, STORE_LM_STUDIO, root, 2, err)
               : MOTE_OK;
}

static bool user_directory(const store *s, char root[FILE_PATH_BYTES])
{
    if (store_env_set(s->env.xdg_data_home))
        return file_join(root, s->env.xdg_data_home, "mote/models");
    return store_env_set(s->env.home) && file_join(root, s->env.home, ".local/share/mote/models");
}

const char *store_own_directory(store *s)
{
    char root[FILE_PATH_BYTES] = "";
    if (store_env_set(s->env.mote_models)) {
        str rest = str_of(s->env.mote_models);
        const str first = str_next_word(&rest, ":");
        if (first.n < sizeof root)
            snprintf(root, sizeof root, "%.*s", (int)first.n, first.p);
    } else if (!user_directory(s, root)) {
        root[0] = '\0';
    }
    return store_text(s, root);
}

mote_status directories_scan(store *s, mote_error *err)
{
    char root[FILE_PATH_BYTES];
    struct stat info;
    if (store_env_set(s->env.mote_models)) {
        str rest = str_of(s->env.mote_models);
        for (str one = str_next_word(&rest, ":"); one.n > 0; one = str_next_word(&rest, ":")) {
            if (one.n >= sizeof root)
                continue;
            snprintf(root, sizeof root, "%.*s", (int)one.n, one.p);
            if (stat(root, &info) == 0 && !S_ISDIR(info.st_mode))
                store_add_unreadable(s, root, strerror(ENOTDIR));
            else if (access(root, F_OK) != 0 && (errno == ENOENT || errno == ENOTDIR))
                store_add_unreadable(s, root, strerror(errno));
            TRY(directory_scan(s, STORE_DIRECTORY, root, 2, err));
        }
        return MOTE_OK;
    }
    return user_directory(s, root) ? directory_scan(s, STORE_DIRECTORY, root, 2, err) : MOTE_OK;
}

mote_status llama_cpp_scan(store *s, mote_error *err)
{
    char root[FILE_PATH_BYTES];
    if (store_env_set(s->env.llama_cache))
        return directory_scan(s, STORE_LLAMA_CPP, s->env.llama_cache, 0, err);
    if (!store_env_set(s->env.home) || !file_join(root, s->env.home, ".cache/llama.cpp"))
        return MOTE_OK;
    return directory_scan(s, STORE_LLAMA_CPP, root, 0, err);
}
