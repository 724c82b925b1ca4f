/* SPDX-License-Identifier: Apache-2.0 */
/* serve_catalog.c - implements serve_catalog.h. */
#define _XOPEN_SOURCE 700 /* realpath */
#include "cli/serve/serve_catalog.h"

#include "base/mem.h"
#include "cli/args/command.h"
#include "cli/load/find_model.h"
#include "cli/term/output.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- directories ---- */

static bool directory_is_below(const char *directory, const char *root)
{
    const size_t n = strlen(root);
    return strncmp(directory, root, n) == 0 && (directory[n] == '/' || directory[n] == '\0');
}

/* Adds a directory unless an earlier one contains it. false: out of memory. */
static bool catalog_add_directory(serve_catalog *c, const char *directory)
{
    for (size_t i = 0; i < c->n; i++)
        if (directory_is_below(directory, c->directories[i]))
            return true;
    char **all = mem_resize(c->directories, c->n, c->n + 1, sizeof *all);
    if (all == NULL)
        return false;
    c->directories = all;
    const size_t n = strlen(directory);
    all[c->n] = mem_new(n + 1, 1);
    if (all[c->n] == NULL)
        return false;
    memcpy(all[c->n++], directory, n);
    return true;
}

/* The directory of the target, if the path leads out of the roots through a symbolic link. */
static bool catalog_add_target(serve_catalog *c, const char *path)
{
    char target[PATH_MAX];
    if (path == NULL || realpath(path, target) == NULL)
        return true;
    char *slash = strrchr(target, '/');
    if (slash == NULL || slash == target)
        return true;
    *slash = '\0';
    return catalog_add_directory(c, target);
}

/* A directory below one of the user's: $XDG_..._HOME, else below the home directory. "": unknown. */
static void catalog_user_directory(char path[PATH_MAX], const char *xdg, const char *home,
                                   const char *in_home, const char *name)
{
    path[0] = '\0';
    if (xdg != NULL && xdg[0] != '\0')
        snprintf(path, PATH_MAX, "%s/%s", xdg, name);
    else if (home != NULL && home[0] != '\0')
        snprintf(path, PATH_MAX, "%s/%s/%s", home, in_home, name);
}

static void catalog_config_directory(const store_env *e, char path[PATH_MAX])
{
    catalog_user_directory(path, e->xdg_config_home, e->home, ".config", "mote");
}

/* The directories of the tables of known models, which each scan reads. */
static bool catalog_add_config(serve_catalog *c)
{
    char path[PATH_MAX];
    catalog_config_directory(&c->env, path);
    return (path[0] == '\0' || catalog_add_directory(c, path)) &&
           catalog_add_directory(c, c->env.etc);
}

bool serve_make_directories(const char *path)
{
    char part[PATH_MAX];
    if (snprintf(part, sizeof part, "%s", path) >= (int)sizeof part) {
        errno = ENAMETOOLONG;
        return false;
    }
    for (char *slash = strchr(part + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(part, 0777);
        *slash = '/';
    }
    return mkdir(part, 0777) == 0 || errno == EEXIST;
}

/* Creates the directories that `mote pull`, `mote cp` and users write to. Not those of MOTE_MODELS,
 * which may be mounted later, and not those of other programs. */
static void catalog_make_directories(const serve_catalog *c, const char *cache)
{
    const store_env *e = &c->env;
    char tables[PATH_MAX], models[PATH_MAX];
    catalog_config_directory(e, tables);
    catalog_user_directory(models, e->xdg_data_home, e->home, ".local/share", "mote/models");
    if (e->mote_models != NULL && e->mote_models[0] != '\0')
        models[0] = '\0';
    const char *const paths[] = {cache, models, tables};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (paths[i][0] != '\0' && !serve_make_directories(paths[i]))
            msg_note("cannot create %s: %s; files that appear there later are found after a "
                     "restart",
                     paths[i], strerror(errno));
}

static bool catalog_add_store(serve_catalog *c, const store *s, const store_model *list, size_t n)
{
    size_t n_roots;
    const char *const *roots = store_roots(s, &n_roots);
    bool done = catalog_add_config(c);
    for (size_t i = 0; done && i < n_roots; i++)
        done = catalog_add_directory(c, roots[i]);
    for (size_t i = 0; done && i < n; i++) {
        done = catalog_add_target(c, list[i].weights) && catalog_add_target(c, list[i].mmproj) &&
               catalog_add_target(c, list[i].mtp);
        c->n_models += list[i].broken == NULL;
    }
    return done;
}

int serve_catalog_open(serve_catalog *c)
{
    mote_error err;
    store *s;
    const store_model *list;
    size_t n;
    find_store_env(&c->env);
    int code = find_open_store(&s);
    if (code != CLI_DONE)
        return code;
    catalog_make_directories(c, store_cache_root(s));
    if (store_list(s, &list, &n, &err) != MOTE_OK)
        code = msg_error(&err);
    else if (!catalog_add_store(c, s, list, n))
        code = msg_no_memory("the directories of models");
    else
        find_note_unreadable(s);
    store_close(s);
    return code;
}

void serve_catalog_close(serve_catalog *c)
{
    for (size_t i = 0; i < c->n; i++)
        mem_free(c->directories[i]);
    mem_free(c->directories);
}

/* ---- aliases ---- */

/* The model of the list with the same file; NULL: none. */
static const store_model *list_find_file(const store_model *list, size_t n, const char *path)
{
    char wanted[PATH_MAX], real[PATH_MAX];
    if (realpath(path, wanted) == NULL)
        return NULL;
    for (size_t i = 0; i < n; i++)
        if (realpath(list[i].weights, real) != NULL && strcmp(real, wanted) == 0)
            return &list[i];
    return NULL;
}

/* Adds the aliases of models in the list. */
static void catalog_add_aliases(const config *c, store *s, const store_model *list, size_t n,
                                model_catalog_add *add, void *to)
{
    const char *alias;
    for (size_t i = 0; (alias = config_alias_at(c, i)) != NULL; i++) {
        const char *target = config_alias(c, alias);
        model_name name;
        const store_model *m;
        mote_error err;
        if (store_find(s, target, &name, &m, &err) != MOTE_OK || m == NULL)
            continue;
        if (m->origin == STORE_PATH)
            m = list_find_file(list, n, m->weights);
        if (m != NULL && m->broken == NULL)
            add(to,
                &(installed_model){.name = alias,
                                   .alias_of = m->name,
                                   .think = name.think != NULL ? strrchr(target, ':') + 1 : NULL});
    }
}

/* The files are read again, because mote cp may have changed them; a file that cannot be read, as
 * that of MOTE_CONFIG in the sandbox, keeps the aliases of the start. */
static void catalog_read_aliases(const serve_catalog *c, store *s, const store_model *list,
                                 size_t n, model_catalog_add *add, void *to)
{
    config now = {0};
    mote_error err;
    const bool read = config_open(&now, &err) == MOTE_OK;
    catalog_add_aliases(read ? &now : c->config, s, list, n, add, to);
    config_close(&now);
}

/* ---- list ---- */

mote_status serve_catalog_list(void *with, model_catalog_add *add, void *to, mote_error *err)
{
    const serve_catalog *c = with;
    const store_model *list;
    size_t n;
    store *s;
    TRY(store_open(&s, &c->env, err));
    const mote_status status = store_list(s, &list, &n, err);
    for (size_t i = 0; status == MOTE_OK && i < n; i++)
        if (list[i].broken == NULL)
            add(to, &(installed_model){.name = list[i].name,
                                       .weights = list[i].weights,
                                       .mmproj = store_vision_path(&list[i]),
                                       .mtp = list[i].mtp,
                                       .repo = list[i].repo,
                                       .quant = list[i].quant,
                                       .digest = list[i].sha256,
                                       .bytes = list[i].bytes,
                                       .date = list[i].modified});
    if (status == MOTE_OK)
        catalog_read_aliases(c, s, list, n, add, to);
    store_close(s);
    return status;
}
