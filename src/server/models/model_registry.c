/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_registry.c - creation of the registry, division of memory between given models, scans of
 * the catalog, lookup by name. See model_registry.h.
 */
#include "server/models/model_registry.h"

#include "base/mem.h"
#include "base/os.h"
#include "server/core/limits.h"
#include "server/models/model_match.h"
#include "server/models/model_registry_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    ANSWER_TOKENS_BYTES = 64 << 20,       /* of all given models together */
    ANSWER_TOKENS_OF_INSTALLED = 4 << 20, /* of one model of the catalog */
    MAX_ENTRIES = 4096,
};
static const double SCAN_INTERVAL = 1; /* seconds between two scans of the catalog */

/* ---- options of a model ---- */

served_model_options registry_model_options(const model_registry *r)
{
    const model_registry_options *o = &r->options;
    served_model_options out = {.chat_template = o->chat_template,
                                .sched = o->sched,
                                .fork_server = o->fork_server,
                                .image_tokens = o->image_tokens,
                                .limits = o->limits,
                                .image_memory = r->image_memory,
                                .answer_tokens_bytes = ANSWER_TOKENS_OF_INSTALLED,
                                .keep_alive = o->keep_alive};
    if (o->n_models > 0)
        out.answer_tokens_bytes = ANSWER_TOKENS_BYTES / o->n_models;
    out.sched.core_lock = r->core_lock;
    return out;
}

static served_model_options registry_given_options(const model_registry *r, size_t i)
{
    served_model_options out = registry_model_options(r);
    out.model = r->options.models[i].model;
    out.path = r->options.models[i].path;
    out.name = r->options.models[i].name;
    out.loras = r->options.models[i].loras;
    out.n_loras = r->options.models[i].n_loras;
    return out;
}

uint32_t model_registry_n_vision(const model_registry_options *o)
{
    uint32_t n = 0;
    for (size_t i = 0; i < o->n_models; i++) {
        const served_model_options model = {.model = o->models[i].model,
                                            .fork_server = o->fork_server};
        n += served_model_has_vision(&model);
    }
    return n;
}

/* Bytes of the image cache of each model with a vision encoder: equal shares of the limit. The
 * default limit is capped at 1/8 of `memory`. */
static uint64_t registry_image_memory(const model_registry_options *o)
{
    const double limit = o->limits->at[LIMIT_IMAGE_MEMORY];
    const double eighth = (double)o->sched.memory / 8;
    const bool is_default = limit == limit_rows[LIMIT_IMAGE_MEMORY].initial;
    const uint32_t n = model_registry_n_vision(o);
    return (uint64_t)(is_default && eighth > 0 && eighth < limit ? eighth : limit) /
           (n > 0 ? n : 1);
}

/* ---- entries ---- */

static model_entry *entry_new(model_registry *r, const char *name)
{
    model_entry **entries = mem_resize(r->entries, r->n, r->n + 1, sizeof *entries);
    if (entries == NULL)
        return NULL;
    r->entries = entries;
    model_entry *e = mem_new(1, sizeof *e);
    if (e == NULL)
        return NULL;
    e->registry = r;
    e->order = (uint32_t)r->n;
    snprintf(e->name, sizeof e->name, "%s", name);
    r->entries[r->n++] = e;
    return e;
}

static void entry_free(model_entry *e)
{
    served_model_free(e->served);
    if (!e->given)
        mote_model_close(e->model);
    mem_free(e->weights);
    mem_free(e->mmproj);
    mem_free(e->mtp);
    mem_free(e->repo);
    mem_free(e);
}

char *path_copy(const char *path)
{
    const size_t n = path != NULL ? strlen(path) : 0;
    char *out = n > 0 ? mem_new(n + 1, 1) : NULL;
    if (out != NULL)
        memcpy(out, path, n);
    return out;
}

/* ---- given models ---- */

/* Sets the minimum of each model, and *spare to the memory left after all minimums. */
static mote_status registry_divide_memory(const model_registry *r,
                                          uint64_t least[SERVER_MAX_MODELS], uint64_t *spare,
                                          mote_error *err)
{
    const model_registry_options *o = &r->options;
    const uint64_t all = o->sched.memory;
    uint64_t sum = 0;
    for (size_t i = 0; i < o->n_models; i++) {
        const served_model_options model = registry_given_options(r, i);
        TRY(served_model_least_memory(&model, &least[i], err));
        sum += least[i];
    }
    *spare = all > sum ? all - sum : 0;
    if (all >= sum || o->n_models == 1) /* a single model reports the shortage in more detail */
        return MOTE_OK;
    const char *source = o->sched.memory_source;
    return err_set(err, MOTE_E_MEMORY,
                   "%llu MB%s%s are not enough for %zu models, which need at least %llu MB; %s "
                   "--parallel or serve fewer models",
                   (unsigned long long)all / 1000000, source != NULL ? " of " : "",
                   source != NULL ? source : "", o->n_models, (unsigned long long)sum / 1000000,
                   source != NULL ? "lower" : "raise --memory, lower");
}

static mote_status registry_add_given(model_registry *r, const served_model_options *model,
                                      mote_error *err)
{
    served_model *served;
    TRY(served_model_new(&served, model, err));
    model_entry *e = entry_new(r, served_model_name(served));
    if (e == NULL) {
        served_model_free(served);
        return err_set(err, MOTE_E_MEMORY, "out of memory for the list of models");
    }
    e->given = e->installed = true;
    e->state = ENTRY_LOADED;
    e->served = served;
    e->weights = path_copy(model->path);
    e->date = served_model_date(served);
    e->memory = served_model_memory(served);
    e->context = served_model_context(served);
    r->n_loaded++;
    r->memory += e->memory;
    return e->weights != NULL ? MOTE_OK : err_set(err, MOTE_E_MEMORY, "out of memory for a path");
}

/* Each model gets its minimum and an even share of the memory that earlier models left over. */
static mote_status registry_create_given(model_registry *r, mote_error *err)
{
    const model_registry_options *o = &r->options;
    const uint64_t all = o->sched.memory;
    uint64_t least[SERVER_MAX_MODELS] = {0}, spare = 0;
    if (all > 0)
        TRY(registry_divide_memory(r, least, &spare, err));
    for (size_t i = 0; i < o->n_models; i++) {
        served_model_options model = registry_given_options(r, i);
        if (o->n_models > 1 && all > 0)
            model.sched.memory = least[i] + spare / (o->n_models - i);
        TRY(registry_add_given(r, &model, err));
        const uint64_t used = r->entries[i]->memory;
        spare -= used > least[i] && spare > 0 ? used - least[i] : 0;
    }
    return MOTE_OK;
}

/* ---- scans of the catalog ---- */

static model_entry *registry_entry_named(const model_registry *r, const char *name)
{
    for (size_t i = 0; i < r->n; i++)
        if (strcmp(r->entries[i]->name, name) == 0)
            return r->entries[i];
    return NULL;
}

static bool path_is(const char *path, const char *other)
{
    return strcmp(path != NULL ? path : "", other != NULL ? other : "") == 0;
}

/* A loaded model keeps its old file until it has no leases, then it is unloaded. */
static void entry_replace_files(model_entry *e, const installed_model *m)
{
    char *weights = path_copy(m->weights), *mmproj = path_copy(m->mmproj);
    if (weights != NULL) {
        mem_free(e->weights);
        mem_free(e->mmproj);
        mem_free(e->mtp);
        mem_free(e->repo);
        e->weights = weights;
        e->mmproj = mmproj;
        e->mtp = path_copy(m->mtp); /* without memory for it the model has no MTP head */
        e->repo = path_copy(m->repo);
        snprintf(e->quant, sizeof e->quant, "%s", m->quant != NULL ? m->quant : "");
        e->bytes = m->bytes;
        e->date = m->date;
        snprintf(e->digest, sizeof e->digest, "%s", m->digest != NULL ? m->digest : "");
        e->context = 0;
    } else {
        mem_free(mmproj);
    }
    e->version++; /* for a load under way */
    e->draining = e->unload = e->state == ENTRY_LOADED;
    e->reason = UNLOAD_REMOVED;
}

typedef struct catalog_scan {
    model_registry *registry;
    uint64_t number;
    uint32_t n;
} catalog_scan;

/* A changed alias is a new one; the old one is no longer found by scans. */
static void scan_add_alias(catalog_scan *scan, const installed_model *m)
{
    model_registry *r = scan->registry;
    model_alias wanted = {.scan = scan->number};
    snprintf(wanted.name, sizeof wanted.name, "%s", m->name);
    snprintf(wanted.target, sizeof wanted.target, "%s", m->alias_of);
    snprintf(wanted.think, sizeof wanted.think, "%s", m->think != NULL ? m->think : "");
    pthread_mutex_lock(&r->lock);
    model_alias *a = r->aliases;
    while (a != NULL &&
           (strcmp(a->name, wanted.name) != 0 || strcmp(a->target, wanted.target) != 0 ||
            strcmp(a->think, wanted.think) != 0))
        a = a->next;
    if (a == NULL && r->n_aliases < MAX_ENTRIES && (a = mem_new(1, sizeof *a)) != NULL) {
        wanted.next = r->aliases;
        *a = wanted;
        r->aliases = a;
        r->n_aliases++;
    }
    if (a != NULL)
        a->scan = scan->number;
    pthread_mutex_unlock(&r->lock);
}

/* The function that `list` of the catalog calls. Takes the lock for each model: `list` reads
 * directories in between. */
static void scan_add(void *to, const installed_model *m)
{
    catalog_scan *scan = to;
    model_registry *r = scan->registry;
    if (m->alias_of != NULL) {
        scan_add_alias(scan, m);
        return;
    }
    char name[MODEL_NAME_BYTES]; /* long names are cut; of equal ones the first counts */
    snprintf(name, sizeof name, "%s", m->name);
    pthread_mutex_lock(&r->lock);
    model_entry *e = registry_entry_named(r, name);
    const bool is_new = e == NULL;
    if (is_new && r->n < MAX_ENTRIES)
        e = entry_new(r, name);
    if (e != NULL && e->scan != scan->number) {
        e->installed = true;
        e->order = scan->n++;
        e->scan = scan->number;
        if (is_new || e->bytes != m->bytes || e->date != m->date ||
            !path_is(e->weights, m->weights) || !path_is(e->mmproj, m->mmproj) ||
            !path_is(e->mtp, m->mtp))
            entry_replace_files(e, m);
    }
    pthread_mutex_unlock(&r->lock);
}

/* After a scan: entries that were not seen are no longer installed. */
static void scan_end(model_registry *r, uint64_t number)
{
    pthread_mutex_lock(&r->lock);
    r->stats.installed = 0;
    r->aliases_from = number;
    for (size_t i = 0; i < r->n; i++) {
        model_entry *e = r->entries[i];
        e->installed = e->scan == number;
        r->stats.installed += e->installed;
        if (!e->installed && e->state == ENTRY_LOADED && !e->unload) {
            e->draining = e->unload = true;
            e->reason = UNLOAD_REMOVED;
        }
    }
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
}

/* A scan that fails leaves the entries as they are. */
static mote_status registry_scan(model_registry *r, mote_error *err)
{
    catalog_scan scan = {.registry = r, .number = ++r->scans};
    TRY(r->options.catalog.list(r->options.catalog.with, scan_add, &scan, err));
    scan_end(r, scan.number);
    return MOTE_OK;
}

/* Reads the catalog again unless that happened within the last second. */
static void registry_refresh(model_registry *r)
{
    if (r->options.catalog.list == NULL)
        return;
    pthread_mutex_lock(&r->scan_lock);
    if (os_now() - r->scanned >= SCAN_INTERVAL) {
        registry_scan(r, NULL);
        r->scanned = os_now();
    }
    pthread_mutex_unlock(&r->scan_lock);
}

void model_registry_rescan(model_registry *r)
{
    if (r->options.catalog.list == NULL)
        return;
    pthread_mutex_lock(&r->scan_lock);
    registry_scan(r, NULL);
    r->scanned = os_now();
    pthread_mutex_unlock(&r->scan_lock);
}

/* ---- creation ---- */

static mote_status registry_init(model_registry *r, mote_error *err)
{
    const model_registry_options *o = &r->options;
    const bool catalog = o->catalog.list != NULL;
    if (catalog || o->n_models > 1)
        TRY(core_lock_new(&r->core_lock, err));
    if (catalog) /* the options of given models are checked with the models */
        TRY(sched_check_options(&o->sched, err));
    r->image_memory = registry_image_memory(o);
    r->stats.limit = o->sched.memory;
    if (!catalog)
        return registry_create_given(r, err);
    TRY(registry_scan(r, err));
    r->scanned = os_now();
    r->has_loader = pthread_create(&r->loader, NULL, loader_run, r) == 0;
    return r->has_loader ? MOTE_OK : err_set(err, MOTE_E_MEMORY, "cannot start the loader thread");
}

mote_status model_registry_new(model_registry **out, const model_registry_options *options,
                               mote_error *err)
{
    *out = NULL;
    model_registry *r = mem_new(1, sizeof *r);
    if (r == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: %zu bytes for the list of models",
                       sizeof *r);
    r->options = *options;
    r->notes_end = &r->notes;
    pthread_mutex_init(&r->lock, NULL);
    pthread_mutex_init(&r->scan_lock, NULL);
    pthread_cond_init(&r->changed, NULL);
    const mote_status status = registry_init(r, err);
    if (status != MOTE_OK) {
        model_registry_free(r);
        return status;
    }
    *out = r;
    return MOTE_OK;
}

void model_registry_free(model_registry *r)
{
    if (r == NULL)
        return;
    if (r->has_loader) {
        pthread_mutex_lock(&r->lock);
        r->stop = true;
        pthread_cond_broadcast(&r->changed);
        pthread_mutex_unlock(&r->lock);
        pthread_join(r->loader, NULL);
    }
    for (size_t i = 0; i < r->n; i++)
        entry_free(r->entries[i]);
    mem_free(r->entries);
    for (model_alias *a = r->aliases, *next; a != NULL; a = next) {
        next = a->next;
        mem_free(a);
    }
    for (change_note *note = r->notes, *next; note != NULL; note = next) {
        next = note->next;
        mem_free(note);
    }
    core_lock_free(r->core_lock);
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->scan_lock);
    pthread_mutex_destroy(&r->lock);
    mem_free(r);
}

served_model *model_registry_given(const model_registry *r, size_t i)
{
    return r->entries[i]->served;
}

bool model_registry_has_catalog(const model_registry *r)
{
    return r->options.catalog.list != NULL;
}

/* ---- names ---- */

/* The newest record of an alias; NULL: there is none, or its model is not installed. Locked. */
static const model_alias *registry_alias(const model_registry *r, str name)
{
    const model_alias *found = NULL;
    for (const model_alias *a = r->aliases; a != NULL; a = a->next) {
        const bool named = name.n == strlen(a->name) && strncasecmp(name.p, a->name, name.n) == 0;
        const model_entry *e =
            named && a->scan >= r->aliases_from ? registry_entry_named(r, a->target) : NULL;
        if (e != NULL && e->installed && (found == NULL || a->scan > found->scan))
            found = a;
    }
    return found;
}

static bool registry_has_alias(model_registry *r, str name)
{
    pthread_mutex_lock(&r->lock);
    const bool found = registry_alias(r, name) != NULL;
    pthread_mutex_unlock(&r->lock);
    return found;
}

str model_registry_alias_think(model_registry *r, str name)
{
    pthread_mutex_lock(&r->lock);
    const model_alias *a = registry_alias(r, name);
    pthread_mutex_unlock(&r->lock);
    return str_of(a != NULL ? a->think : "");
}

/* An alias, or the best match; of equal ones the first in the order of the catalog. */
static model_entry *registry_match(model_registry *r, str name)
{
    model_entry *found = NULL;
    model_match best = MATCH_NONE;
    pthread_mutex_lock(&r->lock);
    const model_alias *alias = registry_alias(r, name);
    if (alias != NULL)
        found = registry_entry_named(r, alias->target);
    for (size_t i = 0; alias == NULL && i < r->n; i++) {
        model_entry *e = r->entries[i];
        const model_names names = {.name = e->name, .repo = e->repo, .quant = e->quant};
        const model_match match = e->installed ? model_match_of(&names, name) : MATCH_NONE;
        if (match > best || (found != NULL && match == best && e->order < found->order)) {
            found = e;
            best = match;
        }
    }
    pthread_mutex_unlock(&r->lock);
    return found;
}

model_entry *model_registry_find(model_registry *r, str name)
{
    if (registry_has_alias(r, name))
        registry_refresh(r); /* mote cp may have given it to another model */
    model_entry *found = registry_match(r, name);
    if (found != NULL || name.n == 0 || !model_registry_has_catalog(r))
        return found;
    registry_refresh(r);
    return registry_match(r, name);
}

model_entry *model_registry_default(model_registry *r)
{
    if (!model_registry_has_catalog(r))
        return r->entries[0];
    model_entry *only = NULL;
    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < r->n && r->stats.installed == 1; i++)
        if (r->entries[i]->installed)
            only = r->entries[i];
    pthread_mutex_unlock(&r->lock);
    return only;
}

static int entry_compare_order(const void *a, const void *b)
{
    const model_entry *one = *(model_entry *const *)a, *other = *(model_entry *const *)b;
    return (one->order > other->order) - (one->order < other->order);
}

mote_status model_registry_list(model_registry *r, bool refresh, model_entry ***out, size_t *n,
                                mote_error *err)
{
    *n = 0;
    if (refresh)
        registry_refresh(r);
    pthread_mutex_lock(&r->lock);
    *out = mem_new(r->n + 1, sizeof **out);
    for (size_t i = 0; *out != NULL && i < r->n; i++)
        if (r->entries[i]->installed)
            (*out)[(*n)++] = r->entries[i];
    if (*n > 1)
        qsort(*out, *n, sizeof **out, entry_compare_order);
    pthread_mutex_unlock(&r->lock);
    return *out != NULL ? MOTE_OK : err_set(err, MOTE_E_MEMORY, "out of memory for a list");
}

const served_lora *model_entry_loras(const model_entry *e, size_t *n)
{
    *n = 0;
    return e->given ? served_model_loras(e->served, n) : NULL;
}

bool model_registry_find_lora(model_registry *r, str name, model_entry **model,
                              const served_lora **lora)
{
    size_t at = name.n;
    while (at > 0 && name.p[at - 1] != ':')
        at--;
    if (at == 0 || model_registry_has_catalog(r))
        return false;
    const str base = {name.p, at - 1};
    model_entry *e = base.n == 0 ? model_registry_default(r) : model_registry_find(r, base);
    const served_lora *found =
        e != NULL ? served_model_lora(e->served, (str){name.p + at, name.n - at}) : NULL;
    if (found == NULL)
        return false;
    *model = e;
    *lora = found;
    return true;
}

const char *model_entry_name(const model_entry *e)
{
    return e->name;
}

/* ---- similar names ---- */

enum { SIMILAR = 3, SIMILAR_BYTES = 64 };

static size_t least_of(size_t a, size_t b, size_t c)
{
    const size_t least = a < b ? a : b;
    return least < c ? least : c;
}

/* Edit distance of the first SIMILAR_BYTES bytes, without regard to case. */
static size_t name_distance(str a, str b)
{
    size_t row[SIMILAR_BYTES + 1];
    const size_t n = a.n < SIMILAR_BYTES ? a.n : SIMILAR_BYTES;
    const size_t m = b.n < SIMILAR_BYTES ? b.n : SIMILAR_BYTES;
    for (size_t k = 0; k <= m; k++)
        row[k] = k;
    for (size_t i = 1; i <= n; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t k = 1; k <= m; k++) {
            const bool same = (a.p[i - 1] | 32) == (b.p[k - 1] | 32);
            const size_t above = row[k];
            row[k] = least_of(above + 1, row[k - 1] + 1, diagonal + !same);
            diagonal = above;
        }
    }
    return row[m];
}

void model_registry_nearest(model_registry *r, str name, char *out, size_t room)
{
    const model_entry *best[SIMILAR] = {0};
    size_t far[SIMILAR], n = 0, used = 0;
    out[0] = '\0';
    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < r->n; i++) {
        const model_entry *e = r->entries[i];
        if (!e->installed)
            continue;
        const size_t distance = name_distance(name, str_of(e->name));
        size_t at = n < SIMILAR ? n++ : SIMILAR;
        for (; at > 0 && far[at - 1] > distance; at--)
            if (at < SIMILAR) {
                far[at] = far[at - 1];
                best[at] = best[at - 1];
            }
        if (at < SIMILAR) {
            far[at] = distance;
            best[at] = e;
        }
    }
    for (size_t i = 0; i < n && used < room; i++)
        used += (size_t)snprintf(out + used, room - used, "%s%s", i > 0 ? ", " : "", best[i]->name);
    pthread_mutex_unlock(&r->lock);
}
