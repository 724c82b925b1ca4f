/* SPDX-License-Identifier: Apache-2.0 */
/* served_model.c - see served_model.h. */
#include "server/models/served_model.h"

#include "base/mem.h"
#include "base/os.h"
#include "chat/turn/response_format.h"
#include "media/decode/resize.h"
#include "store/digest.h"
#include "server/core/limits.h"
#include "server/vision/vision_service.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>

struct served_model {
    const mote_model *model;
    char *path;
    char name[MODEL_NAME_BYTES];
    char fingerprint[48];
    int64_t date;
    chat_context chat_ctx;
    struct token_trie *vocab;
    pthread_mutex_t token_trie_lock;
    sched *sched;
    vision_service *vision; /* NULL: no images */
    served_lora loras[SERVED_MAX_LORAS];
    size_t n_loras;
    answer_tokens *answer_tokens;
    uint64_t malformed;                     /* tool calls; loop thread */
    served_model_cache_counts cache_counts; /* loop thread */
    mote_file_state files;                  /* loop thread */
    double default_keep;                    /* keep_alive of the server */
    pthread_mutex_t keep_lock;              /* of the following members */
    uint32_t n_requests;                    /* running */
    double keep;                            /* keep_alive of the last request */
    double since;                           /* end of the last request */
};

/* ---- description ---- */

/* FNV-1a of name, parameters and file size: distinguishes models, not their contents. */
static void model_make_fingerprint(served_model *m)
{
    mote_model_info info;
    uint32_t hash = 2166136261u;
    char text[256];
    mote_model_describe(m->model, &info);
    snprintf(text, sizeof text, "%s %llu %llu", m->name, (unsigned long long)info.parameters,
             (unsigned long long)info.file_bytes);
    for (const char *p = text; *p != 0; p++)
        hash = (hash ^ (unsigned char)*p) * 16777619u;
    snprintf(m->fingerprint, sizeof m->fingerprint, "mote-%s-%08x", mote_version(), hash);
}

static void model_describe(served_model *m, const char *name)
{
    struct stat info;
    if (name != NULL)
        snprintf(m->name, sizeof m->name, "%s", name);
    else
        model_name_of_file(m->name, m->path);
    if (stat(m->path, &info) == 0)
        m->date = (int64_t)info.st_mtime;
    model_make_fingerprint(m);
}

/* ---- adapters ---- */

/* Room for the ranks of all adapters, because a request may use several. */
static uint32_t loras_rank(const served_model_options *o)
{
    uint32_t rank = 0;
    for (size_t i = 0; i < o->n_loras; i++) {
        mote_lora_info info;
        mote_lora_describe(o->loras[i].lora, &info);
        rank += info.rank;
    }
    return rank < MOTE_MAX_LORA_RANK ? rank : MOTE_MAX_LORA_RANK;
}

const served_lora *served_model_loras(const served_model *m, size_t *n)
{
    *n = m->n_loras;
    return m->loras;
}

const served_lora *served_model_lora(const served_model *m, str name)
{
    for (size_t i = 0; i < m->n_loras; i++)
        if (str_is(name, m->loras[i].name))
            return &m->loras[i];
    return NULL;
}

/* Options of the scheduler of the model. */
static sched_options model_sched_options(const served_model_options *o)
{
    sched_options work = o->sched;
    work.model = o->model;
    work.lora_rank = loras_rank(o);
    return work;
}

/* ---- vision ---- */

bool served_model_has_vision(const served_model_options *options)
{
    mote_model_info info;
    mote_model_describe(options->model, &info);
    return info.vision && options->fork_server != NULL;
}

static vision_service_options vision_service_options_of(const served_model_options *given)
{
    const double *at = given->limits->at;
    const sched_options *work = &given->sched;
    vision_service_options o = {.model = given->model,
                                .fork_server = given->fork_server,
                                .threads = work->threads,
                                .parallel = (uint32_t)at[LIMIT_IMAGES_IN_PARALLEL],
                                .queue = work->queue > 0 ? work->queue : SCHED_DEFAULT_QUEUE,
                                .images = (uint32_t)at[LIMIT_IMAGES],
                                .tokens = given->image_tokens,
                                .max_tokens = (uint32_t)at[LIMIT_IMAGE_TOKENS],
                                .file_bytes = (uint64_t)at[LIMIT_IMAGE_BYTES],
                                .pixels = (uint64_t)at[LIMIT_IMAGE_PIXELS],
                                .memory = given->image_memory,
                                .wake = work->wake,
                                .with = work->with};
    if (o.tokens == 0)
        o.tokens = MEDIA_DEFAULT_TOKENS;
    if (o.max_tokens < o.tokens)
        o.max_tokens = o.tokens;
    return o;
}

static mote_status model_vision_too_large(uint64_t taken, uint64_t memory, mote_error *err)
{
    return err_set(err, MOTE_E_MEMORY,
                   "images need %llu MB, of %llu MB in all: raise --memory, or lower "
                   "--limit image-cache-bytes or image-tokens",
                   (unsigned long long)taken / 1000000, (unsigned long long)memory / 1000000);
}

/* Creates the vision service and subtracts its memory from that of the scheduler. */
static mote_status model_make_vision(served_model *m, const served_model_options *given,
                                     sched_options *rest, mote_error *err)
{
    const vision_service_options o = vision_service_options_of(given);
    const uint64_t taken = vision_service_plan(&o);
    if (rest->memory > 0 && rest->memory <= taken)
        return model_vision_too_large(taken, rest->memory, err);
    if (rest->memory > 0)
        rest->memory -= taken;
    return vision_service_new(&m->vision, &o, err);
}

mote_status served_model_least_memory(const served_model_options *options, uint64_t *out,
                                      mote_error *err)
{
    const vision_service_options vision = vision_service_options_of(options);
    const sched_options work = model_sched_options(options);
    TRY(sched_min_memory(&work, out, err));
    *out += served_model_has_vision(options) ? vision_service_plan(&vision) : 0;
    return MOTE_OK;
}

mote_status served_model_plan_memory(const served_model_options *options, uint64_t *out,
                                     bool *too_large, mote_error *err)
{
    sched_options work = model_sched_options(options);
    uint64_t images = 0;
    *too_large = false;
    if (served_model_has_vision(options)) {
        const vision_service_options vision = vision_service_options_of(options);
        images = vision_service_plan(&vision);
        *too_large = work.memory > 0 && work.memory <= images;
        if (*too_large)
            return model_vision_too_large(images, work.memory, err);
        work.memory -= work.memory > 0 ? images : 0;
    }
    TRY(sched_plan_memory(&work, out, too_large, err));
    *out += images;
    return MOTE_OK;
}

uint64_t served_model_memory(const served_model *m)
{
    mote_memory memory;
    sched_memory(m->sched, &memory);
    return memory.total + (m->vision != NULL ? vision_service_memory(m->vision) : 0);
}

/* ---- life cycle ---- */

/* Adds to the error how much memory the vision encoder takes: its file, its work, the images. */
static mote_status model_blame_vision(const served_model *m, mote_error *err)
{
    const mote_error refused = err != NULL ? *err : (mote_error){0};
    mote_model_info info;
    mote_model_describe(m->model, &info);
    const uint64_t bytes = info.vision_file_bytes + vision_service_memory(m->vision);
    return err_set(err, MOTE_E_MEMORY, "%s; without --mmproj %llu MB more are available",
                   refused.text, (unsigned long long)bytes / 1000000);
}

/* Answers are stored next to the disk cache, if there is one. Without the file they are lost at the
 * end. */
static void model_open_answers(served_model *m, const sched_options *o)
{
    enum { PART_OF_CAP = 64 };
    answer_file *file;
    disk_key binding;
    unsigned char identity[MOTE_IDENTITY_BYTES];
    mote_error err;
    _Static_assert(sizeof binding == sizeof identity, "both are 128-bit hashes");
    if (!sched_disk_identity(m->sched, identity))
        return;
    memcpy(&binding, identity, sizeof binding);
    if (answer_file_open(&file, o->disk_directory, o->disk_bytes / PART_OF_CAP, binding,
                         o->disk_cipher, &err) == MOTE_OK)
        answer_tokens_use_file(m->answer_tokens, file);
    else if (o->warn != NULL)
        o->warn(o->warn_with, err.text);
}

static mote_status model_init(served_model *m, const served_model_options *o, mote_error *err)
{
    sched_options wanted = model_sched_options(o);
    m->n_loras = o->n_loras;
    if (o->n_loras > 0)
        memcpy(m->loras, o->loras, o->n_loras * sizeof *m->loras);
    if (!os_random(&wanted.salt, sizeof wanted.salt))
        return err_set(err, MOTE_E_IO, "no random bytes from the system");
    m->path = mem_new(strlen(o->path) + 1, 1);
    if (m->path == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory for a path");
    memcpy(m->path, o->path, strlen(o->path));
    model_describe(m, o->name);
    TRY(chat_context_of(&m->chat_ctx, m->model, err));
    TRY(chat_template_choose(&m->chat_ctx.template, o->chat_template, err));
    TRY(answer_tokens_new(&m->answer_tokens, o->answer_tokens_bytes, err));
    if (served_model_has_vision(o))
        TRY(model_make_vision(m, o, &wanted, err));
    const mote_status made = sched_new(&m->sched, &wanted, err);
    if (made == MOTE_OK)
        model_open_answers(m, &wanted);
    return made == MOTE_E_MEMORY && m->vision != NULL ? model_blame_vision(m, err) : made;
}

mote_status served_model_new(served_model **out, const served_model_options *options,
                             mote_error *err)
{
    *out = NULL;
    served_model *m = mem_new(1, sizeof *m);
    if (m == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: %zu bytes for a model", sizeof *m);
    m->model = options->model;
    pthread_mutex_init(&m->token_trie_lock, NULL);
    pthread_mutex_init(&m->keep_lock, NULL);
    m->default_keep = m->keep = options->keep_alive;
    m->since = os_now();
    const mote_status status = model_init(m, options, err);
    if (status != MOTE_OK) {
        served_model_free(m);
        return status;
    }
    *out = m;
    return MOTE_OK;
}

void served_model_free(served_model *m)
{
    if (m == NULL)
        return;
    sched_free(m->sched);
    vision_service_free(m->vision); /* after the scheduler: its jobs use the images */
    answer_tokens_free(m->answer_tokens);
    token_trie_free(m->vocab);
    pthread_mutex_destroy(&m->token_trie_lock);
    pthread_mutex_destroy(&m->keep_lock);
    mem_free(m->path);
    mem_free(m);
}

/* ---- stats ---- */

void served_model_count_malformed(served_model *m)
{
    m->malformed++;
}

uint64_t served_model_malformed(const served_model *m)
{
    return m->malformed;
}

void served_model_count_miss(served_model *m, uint32_t kind)
{
    m->cache_counts.misses[kind]++;
}

void served_model_count_answers(served_model *m, const answer_found *found)
{
    m->cache_counts.answers_by_id += found->by_id;
    m->cache_counts.answers_by_text += found->by_text;
    m->cache_counts.answers_unknown += found->unknown;
}

const served_model_cache_counts *served_model_cache_stats(const served_model *m)
{
    return &m->cache_counts;
}

/* ---- files ---- */

mote_file_state served_model_check_files(served_model *m, bool *changed)
{
    const mote_file_state before = m->files;
    m->files = mote_model_file_state(m->model);
    *changed = m->files != before;
    return m->files;
}

mote_file_state served_model_file_state(const served_model *m)
{
    return m->files;
}

/* ---- keep-alive ---- */

void served_model_begin(served_model *m)
{
    pthread_mutex_lock(&m->keep_lock);
    m->n_requests++;
    pthread_mutex_unlock(&m->keep_lock);
}

void served_model_end(served_model *m, const double *keep)
{
    pthread_mutex_lock(&m->keep_lock);
    m->n_requests--;
    m->keep = keep != NULL ? *keep : m->default_keep;
    m->since = os_now();
    pthread_mutex_unlock(&m->keep_lock);
}

double served_model_leaves_in(served_model *m)
{
    const double now = os_now();
    pthread_mutex_lock(&m->keep_lock);
    const double until = (m->n_requests > 0 ? now : m->since) + m->keep;
    const double left = m->keep < 0 ? (double)INFINITY : until > now ? until - now : 0;
    pthread_mutex_unlock(&m->keep_lock);
    return left;
}

static bool model_has_requests(served_model *m)
{
    pthread_mutex_lock(&m->keep_lock);
    const bool any = m->n_requests > 0;
    pthread_mutex_unlock(&m->keep_lock);
    return any;
}

void served_model_unload(served_model *m)
{
    if (model_has_requests(m))
        return;
    if (m->vision != NULL)
        image_cache_drop_unused(m->vision);
    sched_unload(m->sched, false);
}

bool served_model_unloading(const served_model *m)
{
    return sched_unloading(m->sched);
}

void served_model_tick(served_model *m, double now)
{
    pthread_mutex_lock(&m->keep_lock);
    const bool over = m->n_requests == 0 && m->keep >= 0 && now - m->since >= m->keep;
    pthread_mutex_unlock(&m->keep_lock);
    if (over && sched_loaded(m->sched))
        served_model_unload(m);
}

bool served_model_loaded(const served_model *m)
{
    return sched_loaded(m->sched);
}

/* ---- accessors ---- */

const char *served_model_name(const served_model *m)
{
    return m->name;
}

const mote_model *served_model_weights(const served_model *m)
{
    return m->model;
}

const char *served_model_path(const served_model *m)
{
    return m->path;
}

int64_t served_model_date(const served_model *m)
{
    return m->date;
}

const char *served_model_fingerprint(const served_model *m)
{
    return m->fingerprint;
}

const chat_context *served_model_chat_context(const served_model *m)
{
    return &m->chat_ctx;
}

mote_status served_model_vocab(served_model *m, const struct token_trie **out, mote_error *err)
{
    mote_status status = MOTE_OK;
    pthread_mutex_lock(&m->token_trie_lock);
    if (m->vocab == NULL)
        status = chat_vocab_of(&m->vocab, &m->chat_ctx, err);
    *out = m->vocab;
    pthread_mutex_unlock(&m->token_trie_lock);
    return status;
}

sched *served_model_sched(const served_model *m)
{
    return m->sched;
}

uint64_t served_model_context(const served_model *m)
{
    return sched_settings(m->sched)->context;
}

vision_service *served_model_vision(const served_model *m)
{
    return m->vision;
}

answer_tokens *served_model_answer_tokens(const served_model *m)
{
    return m->answer_tokens;
}
