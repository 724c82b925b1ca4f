/* SPDX-License-Identifier: Apache-2.0 */
/* store.c - implements store.h: the list of installed models, and the model of an argument. */
#include "store/store.h"

#include "base/mem.h"
#include "store/gguf_head.h"
#include "store/hf_cache.h"
#include "store/other_programs.h"
#include "store/store_int.h"
#include "store/text_match.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static bool architecture_is_supported(const char *name)
{
    return strcmp(name, "qwen35") == 0 || strcmp(name, "qwen35moe") == 0;
}

const char *store_origin_name(store_origin origin)
{
    static const char *const names[] = {"Hugging Face cache", "Ollama",          "LM Studio",
                                        "directory",          "llama.cpp cache", "path"};
    return names[origin];
}

/* ---- open and close ---- */

static bool config_path(char out[FILE_PATH_BYTES], const store_env *env)
{
    if (env->xdg_config_home != NULL && env->xdg_config_home[0] == '/')
        return file_join(out, env->xdg_config_home, "mote/models");
    return env->home != NULL && env->home[0] != '\0' &&
           file_join(out, env->home, ".config/mote/models");
}

static mote_status read_known_file(store *s, const char *path, mote_error *err)
{
    conf_file f;
    bool found;
    TRY(conf_file_read(&f, path, &found, err));
    const mote_status status = found ? known_models_add(&s->known, &f, err) : MOTE_OK;
    conf_file_fini(&f);
    return status;
}

/* The system's file first, so that the user's takes precedence. */
static mote_status store_read_known(store *s, mote_error *err)
{
    char path[FILE_PATH_BYTES];
    TRY(known_models_init(&s->known, err));
    if (s->env.etc != NULL && file_join(path, s->env.etc, "models"))
        TRY(read_known_file(s, path, err));
    return config_path(path, &s->env) ? read_known_file(s, path, err) : MOTE_OK;
}

mote_status store_open(store **out, const store_env *env, mote_error *err)
{
    store *s = mem_new(1, sizeof *s);
    if (s == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: list of models");
    s->env = *env;
    if (!hf_cache_root(s->cache_root, env))
        s->cache_root[0] = '\0';
    const mote_status status = store_read_known(s, err);
    if (status != MOTE_OK) {
        store_close(s);
        return status;
    }
    *out = s;
    return MOTE_OK;
}

void store_close(store *s)
{
    if (s == NULL)
        return;
    for (uint32_t i = 0; i < s->n_texts; i++)
        mem_free(s->texts[i]);
    mem_free(s->texts);
    mem_free(s->list);
    mem_free(s->revisions);
    mem_free(s->problems);
    known_models_fini(&s->known);
    mem_free(s);
}

const known_models *store_known(const store *s)
{
    return &s->known;
}

const char *store_cache_root(const store *s)
{
    return s->cache_root;
}

/* ---- for the readers of the origins ---- */

const char *store_text(store *s, const char *text)
{
    const size_t n = strlen(text) + 1;
    char *copy = mem_new(n, 1);
    if (copy == NULL || !mem_grow(&s->texts, s->n_texts, &s->texts_room, sizeof *s->texts)) {
        mem_free(copy);
        s->no_memory = true;
        return "";
    }
    memcpy(copy, text, n);
    s->texts[s->n_texts++] = copy;
    return copy;
}

bool store_add_root(store *s, const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0) {
        if (errno != ENOENT && errno != ENOTDIR)
            store_add_unreadable(s, path, strerror(errno));
        return false;
    }
    if (s->n_roots == STORE_MAX_ROOTS || !S_ISDIR(info.st_mode))
        return false;
    for (size_t i = 0; i < s->n_roots; i++)
        if (strcmp(s->roots[i], path) == 0)
            return true;
    s->roots[s->n_roots++] = store_text(s, path);
    return true;
}

bool store_has_name(const store *s, const char *name)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (strcasecmp(s->list[i].name, name) == 0)
            return true;
    return false;
}

void store_add(store *s, const store_model *m)
{
    if (store_has_name(s, m->name)) {
        char why[600];
        snprintf(why, sizeof why, "the name %.400s is already that of another model", m->name);
        store_add_problem(s, m->weights, why);
        return;
    }
    if (s->n >= STORE_MAX_MODELS) {
        store_add_problem(s, m->weights, "more than 10000 models");
        return;
    }
    if (!mem_grow(&s->list, s->n, &s->room, sizeof *s->list)) {
        s->no_memory = true;
        return;
    }
    s->list[s->n++] = *m;
}

/* Memory for a model outside of the list; it lives as long as the store. NULL: out of memory. */
static store_model *store_new_model(store *s)
{
    store_model *m = mem_new(1, sizeof *m);
    if (m == NULL || !mem_grow(&s->texts, s->n_texts, &s->texts_room, sizeof *s->texts)) {
        mem_free(m);
        s->no_memory = true;
        return NULL;
    }
    s->texts[s->n_texts++] = (char *)m;
    return m;
}

void store_add_revision(store *s, const store_model *m)
{
    store_model *copy = store_new_model(s);
    if (copy == NULL ||
        !mem_grow(&s->revisions, s->n_revisions, &s->revisions_room, sizeof(store_model *))) {
        s->no_memory = true;
        return;
    }
    *copy = *m;
    s->revisions[s->n_revisions++] = copy;
}

static void problem_add(store *s, const char *path, const char *why, bool unreadable)
{
    if (s->n_problems >= STORE_MAX_PROBLEMS)
        return;
    if (!mem_grow(&s->problems, s->n_problems, &s->problems_room, sizeof *s->problems)) {
        s->no_memory = true;
        return;
    }
    char plain[FILE_PATH_BYTES];
    snprintf(plain, sizeof plain, "%s", path);
    for (size_t n = strlen(plain); n > 1 && plain[n - 1] == '/'; n--)
        plain[n - 1] = '\0';
    s->problems[s->n_problems++] =
        (store_problem){store_text(s, plain), store_text(s, why), unreadable};
}

void store_add_problem(store *s, const char *path, const char *why)
{
    problem_add(s, path, why, false);
}

void store_add_unreadable(store *s, const char *path, const char *why)
{
    problem_add(s, path, why, true);
}

void store_add_unread(store *s, const char *root, const file_list *files)
{
    for (uint32_t i = 0; i < files->n_unread; i++) {
        const char *relative = files->unread[i].path;
        char path[FILE_PATH_BYTES];
        if (relative[0] == '\0')
            store_add_unreadable(s, root, files->unread[i].broken);
        else if (file_join(path, root, relative))
            store_add_unreadable(s, path, files->unread[i].broken);
    }
}

/* The path of a chosen file; NULL: it cannot be used, which is a problem. */
static const char *chosen_path(store *s, const listed_file *f, const char *root, const char *inside)
{
    char path[FILE_PATH_BYTES];
    const char *why = f->broken;
    if (!file_join(path, root, f->path))
        return NULL;
    if (why == NULL && (inside == NULL || file_inside(path, inside, &why)))
        return store_text(s, path);
    store_add_problem(s, path, why);
    return NULL;
}

void store_set_files(store *s, store_model *m, const file_list *files, const char *root,
                     const char *inside, const hub_choice *choice)
{
    char path[FILE_PATH_BYTES];
    const listed_file *first = &files->files[choice->weights[0]];
    m->weights = file_join(path, root, first->path) ? store_text(s, path) : "";
    m->modified = first->modified;
    m->parts = choice->n_weights;
    m->bytes = 0;
    for (uint32_t i = 0; i < choice->n_weights; i++) {
        const listed_file *f = &files->files[choice->weights[i]];
        m->bytes += f->bytes;
        if (m->broken == NULL && chosen_path(s, f, root, inside) == NULL)
            m->broken = f->broken != NULL ? store_text(s, f->broken)
                                          : "a part leads outside of the directory";
    }
    if (choice->mmproj != HUB_NO_FILE)
        m->mmproj = chosen_path(s, &files->files[choice->mmproj], root, inside);
    if (choice->mtp != HUB_NO_FILE)
        m->mtp = chosen_path(s, &files->files[choice->mtp], root, inside);
    store_check_files(s, m);
    m->bytes += m->mmproj != NULL ? files->files[choice->mmproj].bytes : 0;
    m->bytes += m->mtp != NULL ? files->files[choice->mtp].bytes : 0;
}

void store_check_files(store *s, store_model *m)
{
    gguf_head head, vision;
    char why[200];
    m->architecture = "";
    if (m->broken != NULL)
        return;
    if (!gguf_head_read(&head, m->weights)) {
        m->broken = access(m->weights, R_OK) == 0 ? "it is not a GGUF file"
                                                  : store_text(s, strerror(errno));
        return;
    }
    m->architecture = store_text(s, head.architecture);
    if (head.architecture[0] != '\0' && !architecture_is_supported(head.architecture)) {
        m->foreign = true;
        snprintf(why, sizeof why, "mote does not run the architecture %s", head.architecture);
        m->broken = store_text(s, why);
    }
    m->vision_inside = m->mmproj == NULL && head.vision > 0;
    if (m->mmproj == NULL)
        return;
    if (!gguf_head_read(&vision, m->mmproj) || strcmp(vision.architecture, "clip") != 0) {
        store_add_problem(s, m->mmproj, "not a vision encoder");
        m->mmproj = NULL;
    } else if (vision.projection != 0 && head.embedding != 0 &&
               vision.projection != head.embedding) {
        snprintf(why, sizeof why, "the vision encoder is for embeddings of %u, not %u",
                 vision.projection, head.embedding);
        store_add_problem(s, m->mmproj, why);
        m->mmproj = NULL;
    }
}

/* ---- the list ---- */

static int by_name(const void *a, const void *b)
{
    const store_model *x = a, *y = b;
    return strcasecmp(x->name, y->name);
}

static mote_status store_scan(store *s, mote_error *err)
{
    s->n = s->n_problems = 0;
    s->n_roots = 0;
    s->no_memory = false;
    TRY(hf_cache_scan(s, err));
    TRY(ollama_scan(s, err));
    TRY(lm_studio_scan(s, err));
    TRY(directories_scan(s, err));
    TRY(llama_cpp_scan(s, err));
    if (s->no_memory)
        return err_set(err, MOTE_E_MEMORY, "out of memory: list of models");
    if (s->n > 0)
        qsort(s->list, s->n, sizeof *s->list, by_name);
    s->scanned = true;
    return MOTE_OK;
}

mote_status store_list(store *s, const store_model **list, size_t *n, mote_error *err)
{
    if (!s->scanned)
        TRY(store_scan(s, err));
    *list = s->list;
    *n = s->n;
    return MOTE_OK;
}

const store_problem *store_problems(const store *s, size_t *n)
{
    *n = s->n_problems;
    return s->problems;
}

const char *const *store_roots(const store *s, size_t *n)
{
    *n = s->n_roots;
    return s->roots;
}

/* ---- arguments ---- */

static const store_model *list_find(const store *s, const char *name)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (strcasecmp(s->list[i].name, name) == 0)
            return &s->list[i];
    return NULL;
}

const store_model *store_installed(store *s, const known_model *row, const char *quant)
{
    char name[KNOWN_FULL_NAME_BYTES];
    const store_model *list;
    size_t n;
    if (store_list(s, &list, &n, NULL) != MOTE_OK)
        return NULL;
    known_full_name(row, quant, name);
    return list_find(s, name);
}

/* The largest installed model of a family that can be used. */
static const store_model *find_family(const store *s, const char *family)
{
    const store_model *best = NULL;
    for (uint32_t i = 0; i < s->n; i++) {
        const store_model *m = &s->list[i];
        const size_t n = strlen(family);
        if (m->broken == NULL && strncasecmp(m->name, family, n) == 0 && m->name[n] == ':' &&
            (best == NULL || m->bytes > best->bytes))
            best = m;
    }
    return best;
}

/* ---- repositories ---- */

/* Models of one repository among which an argument chooses. */
typedef struct hub_models {
    const store_model **at; /* [n] */
    uint32_t n;
} hub_models;

/* The models of the list that are of the repository and, unless NULL, of the commit. */
static void hub_models_list(hub_models *out, const store *s, const char *repo, const char *commit)
{
    out->n = 0;
    for (uint32_t i = 0; i < s->n; i++)
        if (s->list[i].repo != NULL && strcasecmp(s->list[i].repo, repo) == 0 &&
            (commit == NULL || strcmp(s->list[i].commit, commit) == 0))
            out->at[out->n++] = &s->list[i];
}

/* The one that the rule for listings chooses; NULL: none, or out of memory. */
static const store_model *hub_models_choose(const hub_models *all, const char *selector)
{
    hub_file *listing = all->n > 0 ? mem_new(all->n, sizeof *listing) : NULL;
    hub_choice choice;
    if (listing == NULL)
        return NULL;
    for (uint32_t i = 0; i < all->n; i++)
        listing[i] = (hub_file){all->at[i]->file, all->at[i]->bytes};
    /* Parts of split weights after the first are not in this list, so an error about them does not
     * count: the model itself says what is missing. */
    const mote_status status = hub_choose_files(&choice, listing, all->n, selector, NULL);
    const bool found = status == MOTE_OK || (status == MOTE_E_FORMAT && choice.n_weights > 0);
    mem_free(listing);
    return found ? all->at[choice.weights[0]] : NULL;
}

/* The repository as the cache spells it: names of the hub have no case. */
static const char *hub_spelling(const store *s, const char *repo)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (s->list[i].repo != NULL && strcasecmp(s->list[i].repo, repo) == 0)
            return s->list[i].repo;
    return repo;
}

/* The snapshot of the revision counts, also where the list has the file of a newer one. */
static mote_status find_revision(store *s, const model_name *name, const store_model **model,
                                 mote_error *err)
{
    char commit[HF_COMMIT_BYTES];
    const char *repo = hub_spelling(s, name->repo), *why;
    if (!hf_cache_commit(commit, s->cache_root, repo, name->revision, &why))
        return why == NULL ? MOTE_OK
                           : err_set(err, MOTE_E_IO, "cannot read revision %.100s of %s: %s",
                                     name->revision, repo, why);
    s->n_revisions = 0;
    TRY(hf_cache_scan_revision(s, repo, name->revision, commit, err));
    if (s->no_memory)
        return err_set(err, MOTE_E_MEMORY, "out of memory: models of a revision");
    const hub_models all = {(const store_model **)s->revisions, s->n_revisions};
    *model = hub_models_choose(&all, name->selector);
    for (uint32_t i = 0; *model != NULL && i < s->n; i++) {
        const store_model *m = &s->list[i];
        if (m->repo != NULL && strcmp(m->repo, repo) == 0 && strcmp(m->commit, commit) == 0 &&
            strcmp(m->file, (*model)->file) == 0) {
            *model = m; /* it has a shorter name */
            break;
        }
    }
    return MOTE_OK;
}

/* Without a revision: main if it has the file, else any snapshot of the list. */
static mote_status find_hub(store *s, const model_name *name, const store_model **model,
                            mote_error *err)
{
    char commit[HF_COMMIT_BYTES];
    const char *why;
    if (name->revision[0] != '\0')
        return find_revision(s, name, model, err);
    hub_models all = {mem_new(s->n + 1, sizeof(store_model *)), 0};
    if (all.at == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: models of a repository");
    if (hf_cache_commit(commit, s->cache_root, hub_spelling(s, name->repo), "main", &why)) {
        hub_models_list(&all, s, name->repo, commit);
        *model = hub_models_choose(&all, name->selector);
    }
    if (*model == NULL) {
        hub_models_list(&all, s, name->repo, NULL);
        *model = hub_models_choose(&all, name->selector);
    }
    mem_free(all.at);
    return MOTE_OK;
}

/* ---- paths ---- */

/* A directory with one model in it, directly. */
static mote_status find_directory(store *s, const char *path, store_model *m, mote_error *err)
{
    enum { MAX_FILES = 10000 };
    file_list files;
    hub_choice choice;
    uint32_t models = 0, last = 0, n = 0;
    TRY(file_list_read(&files, path, 0, MAX_FILES, err));
    hub_file *listing = mem_new(files.n, sizeof *listing);
    for (uint32_t i = 0; listing != NULL && i < files.n; i++, n++) {
        listing[i] = (hub_file){files.files[i].path, files.files[i].bytes};
        if (!files.files[i].directory && hub_is_model(files.files[i].path)) {
            models++;
            last = i;
        }
    }
    mote_status status = MOTE_OK;
    if (listing == NULL)
        status = err_set(err, MOTE_E_MEMORY, "out of memory: %u files", files.n);
    else if (files.n_unread > 0)
        status = file_list_check(&files, path, err);
    else if (models != 1)
        status = err_set(err, MOTE_E_ARG,
                         models == 0 ? "%s has no .gguf file of a model"
                                     : "%s has several models; give the path of a .gguf file in it",
                         path);
    else
        status = hub_choose_files(&choice, listing, n, files.files[last].path, err);
    if (status == MOTE_OK)
        store_set_files(s, m, &files, path, NULL, &choice);
    mem_free(listing);
    file_list_fini(&files);
    return status;
}

/* A path becomes a model of its own, which is not in the list. */
static mote_status find_path(store *s, const char *path, const store_model **model, mote_error *err)
{
    struct stat info;
    char name[MODEL_NAME_BYTES];
    store_model *m = store_new_model(s);
    if (m == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: path of a model");
    if (stat(path, &info) != 0)
        return err_set(err, MOTE_E_IO, "cannot open %s: %s", path, strerror(errno));
    *m = (store_model){.origin = STORE_PATH,
                       .weights = store_text(s, path),
                       .parts = 1,
                       .bytes = (uint64_t)info.st_size,
                       .modified = (int64_t)info.st_mtime,
                       .quant = ""};
    if (S_ISDIR(info.st_mode))
        TRY(find_directory(s, path, m, err));
    model_name_of_file(name, m->weights);
    m->name = store_text(s, name);
    *model = m;
    return s->no_memory ? err_set(err, MOTE_E_MEMORY, "out of memory: path of a model") : MOTE_OK;
}

/* Names of Ollama contain a slash too: user/model. */
static bool is_path(const char *text)
{
    struct stat info;
    return text[0] == '/' || text[0] == '.' || stat(text, &info) == 0;
}

size_t store_names(const store *s, const char *family, char *out, size_t room)
{
    static const char more[] = ", ...";
    const size_t n_family = family != NULL ? strlen(family) : 0;
    size_t n = 0, used = 0;
    bool cut = false;
    out[0] = '\0';
    for (uint32_t i = 0; i < s->n; i++) {
        const char *name = s->list[i].name;
        if (s->list[i].foreign ||
            (family != NULL && (strncasecmp(name, family, n_family) != 0 || name[n_family] != ':')))
            continue;
        cut = cut || used + strlen(name) + sizeof more + 2 > room;
        if (!cut)
            used += (size_t)snprintf(out + used, room - used, "%s%s", n > 0 ? ", " : "", name);
        n++;
    }
    if (cut)
        snprintf(out + used, room - used, "%s", used > 0 ? more : more + 2);
    return n;
}

/* The nearest thing to help with a name that nothing knows. */
static mote_status unknown_name(const store *s, const model_name *name, mote_error *err)
{
    char list[300];
    if (store_names(s, NULL, list, sizeof list) > 0)
        return err_set(err, MOTE_E_ARG, "no model %.100s; installed: %s", name->text, list);
    return err_set(err, MOTE_E_ARG,
                   "no model %.100s; give a name such as qwen3.5:4b, or the path of a .gguf file",
                   name->text);
}

mote_status store_find(store *s, const char *argument, model_name *name, const store_model **model,
                       mote_error *err)
{
    const store_model *list;
    size_t n;
    *model = NULL;
    const mote_status parsed = model_name_parse(name, &s->known, argument, err);
    if (parsed != MOTE_OK && name->text[0] == '\0')
        return parsed;
    if (parsed == MOTE_OK && name->kind == MODEL_NAME_PATH && is_path(name->text))
        return find_path(s, name->text, model, err);
    TRY(store_list(s, &list, &n, parsed == MOTE_OK ? err : NULL));
    *model = list_find(s, name->text);
    if (*model != NULL)
        return MOTE_OK;
    if (parsed != MOTE_OK)
        return parsed;
    if (name->kind == MODEL_NAME_KNOWN)
        *model = store_installed(s, name->known, name->quant);
    else if (name->kind == MODEL_NAME_FAMILY)
        *model = find_family(s, name->text);
    else if (name->kind == MODEL_NAME_HUB)
        return find_hub(s, name, model, err);
    else if (name->kind == MODEL_NAME_PATH)
        return find_path(s, name->text, model, err); /* reports it */
    else
        return unknown_name(s, name, err);
    return MOTE_OK;
}

mote_status store_not_installed(const model_name *name, mote_error *err)
{
    return err_set(err, MOTE_E_ARG, "%.200s is not installed; try: mote pull %.200s", name->text,
                   name->text);
}
