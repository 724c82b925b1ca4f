/* SPDX-License-Identifier: Apache-2.0 */
/* served.c - one model at work, put together and taken apart. See served.h. */
#include "server/served.h"

#include "base/mem.h"
#include "base/os.h"
#include "chat/form.h"
#include "media/fit.h"
#include "server/door/digest.h"
#include "server/door/door_limits.h"
#include "server/model_name.h"
#include "server/sight/sight.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>

struct served {
    const mote_model *model;
    const char *path;
    char name[MODEL_NAME_BYTES];
    char fingerprint[48];
    int64_t date;
    chat_kit kit;
    struct vocab *vocab;
    pthread_mutex_t vocab_lock;
    sched *sched;
    sight *sight; /* NULL: it cannot see */
    recall *recall;
    uint64_t malformed; /* calls; of the loop */
    double usual_keep;
    pthread_mutex_t rest_lock; /* of what follows */
    uint32_t asking;           /* requests at work */
    double keep, since;        /* after the last one; when that was over */
};

/* ---- what it is called ---- */

/* Enough to see that another model answers: its name, and how large it is. */
static void make_fingerprint(served *m)
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

static void describe(served *m, const char *name)
{
    struct stat info;
    if (name != NULL)
        snprintf(m->name, sizeof m->name, "%s", name);
    else
        model_name_of_file(m->name, m->path);
    if (stat(m->path, &info) == 0)
        m->date = (int64_t)info.st_mtime;
    make_fingerprint(m);
}

/* ---- seeing ---- */

bool served_sees(const served_options *options)
{
    mote_model_info info;
    mote_model_describe(options->model, &info);
    return info.vision && options->nursery != NULL;
}

static sight_options sight_options_of(const served_options *given)
{
    const double *at = given->limits->at;
    const sched_options *work = &given->sched;
    sight_options o = {.model = given->model,
                       .nursery = given->nursery,
                       .threads = work->threads,
                       .at_once = (uint32_t)at[LIMIT_PICTURES_AT_ONCE],
                       .queue = work->queue > 0 ? work->queue : SCHED_USUAL_QUEUE,
                       .pictures = (uint32_t)at[LIMIT_PICTURES],
                       .tokens = given->image_tokens,
                       .most_tokens = (uint32_t)at[LIMIT_PICTURE_TOKENS],
                       .file_bytes = (uint64_t)at[LIMIT_PICTURE_BYTES],
                       .pixels = (uint64_t)at[LIMIT_PICTURE_PIXELS],
                       .memory = given->picture_memory,
                       .wake = work->wake,
                       .with = work->with};
    if (o.tokens == 0)
        o.tokens = MEDIA_USUAL_TOKENS;
    if (o.most_tokens < o.tokens)
        o.most_tokens = o.tokens;
    return o;
}

/* Of what everything may take, what seeing does not. */
static mote_status make_sight(served *m, const served_options *given, sched_options *rest,
                              mote_error *err)
{
    const sight_options o = sight_options_of(given);
    const uint64_t taken = sight_plan(&o);
    if (rest->memory > 0 && rest->memory <= taken)
        return err_set(err, MOTE_E_MEMORY,
                       "pictures may take %llu MB, which is all of `memory`: raise it, or lower "
                       "--limit picture-memory-bytes or picture-tokens",
                       (unsigned long long)taken / 1000000);
    if (rest->memory > 0)
        rest->memory -= taken;
    return sight_new(&m->sight, &o, err);
}

mote_status served_least_memory(const served_options *options, uint64_t *out, mote_error *err)
{
    const sight_options seeing = sight_options_of(options);
    sched_options work = options->sched;
    work.model = options->model;
    TRY(sched_least_memory(&work, out, err));
    *out += served_sees(options) ? sight_plan(&seeing) : 0;
    return MOTE_OK;
}

uint64_t served_memory(const served *m)
{
    mote_memory memory;
    sched_memory(m->sched, &memory);
    return memory.total + (m->sight != NULL ? sight_memory(m->sight) : 0);
}

/* ---- life ---- */

/* What is refused is only what the tower leaves of the memory that was given. */
static mote_status blame_tower(const served *m, mote_error *err)
{
    const mote_error refused = err != NULL ? *err : (mote_error){0};
    return err_set(err, MOTE_E_MEMORY, "%s; without `mmproj` there would be %llu MB more",
                   refused.text, (unsigned long long)sight_memory(m->sight) / 1000000);
}

static mote_status make(served *m, const served_options *o, mote_error *err)
{
    sched_options wanted = o->sched;
    wanted.model = o->model;
    if (!digest_random(&wanted.salt, sizeof wanted.salt))
        return err_set(err, MOTE_E_IO, "the system has no random bytes to give");
    describe(m, o->name);
    TRY(chat_kit_of(&m->kit, m->model, err));
    TRY(recall_new(&m->recall, o->recall_bytes, err));
    if (served_sees(o))
        TRY(make_sight(m, o, &wanted, err));
    const mote_status made = sched_new(&m->sched, &wanted, err);
    return made == MOTE_E_MEMORY && m->sight != NULL ? blame_tower(m, err) : made;
}

mote_status served_new(served **out, const served_options *options, mote_error *err)
{
    *out = NULL;
    served *m = mem_new(1, sizeof *m);
    if (m == NULL)
        return err_set(err, MOTE_E_MEMORY, "no memory for a model at work");
    m->model = options->model;
    m->path = options->path;
    pthread_mutex_init(&m->vocab_lock, NULL);
    pthread_mutex_init(&m->rest_lock, NULL);
    m->usual_keep = m->keep = options->keep_alive;
    m->since = os_now();
    const mote_status status = make(m, options, err);
    if (status != MOTE_OK) {
        served_free(m);
        return status;
    }
    *out = m;
    return MOTE_OK;
}

void served_free(served *m)
{
    if (m == NULL)
        return;
    sched_free(m->sched);
    sight_free(m->sight); /* answers show what it holds */
    recall_free(m->recall);
    vocab_free(m->vocab);
    pthread_mutex_destroy(&m->vocab_lock);
    pthread_mutex_destroy(&m->rest_lock);
    mem_free(m);
}

/* ---- what is counted of it ---- */

void served_count_malformed(served *m)
{
    m->malformed++;
}

uint64_t served_malformed(const served *m)
{
    return m->malformed;
}

/* ---- how long it stays ---- */

void served_begin(served *m)
{
    pthread_mutex_lock(&m->rest_lock);
    m->asking++;
    pthread_mutex_unlock(&m->rest_lock);
}

void served_end(served *m, const double *keep)
{
    pthread_mutex_lock(&m->rest_lock);
    m->asking--;
    m->keep = keep != NULL ? *keep : m->usual_keep;
    m->since = os_now();
    pthread_mutex_unlock(&m->rest_lock);
}

double served_leaves_in(served *m)
{
    const double now = os_now();
    pthread_mutex_lock(&m->rest_lock);
    const double until = (m->asking > 0 ? now : m->since) + m->keep;
    const double left = m->keep < 0 ? (double)INFINITY : until > now ? until - now : 0;
    pthread_mutex_unlock(&m->rest_lock);
    return left;
}

static bool is_asked(served *m)
{
    pthread_mutex_lock(&m->rest_lock);
    const bool asked = m->asking > 0;
    pthread_mutex_unlock(&m->rest_lock);
    return asked;
}

static bool unload(served *m, bool wait)
{
    if (is_asked(m))
        return false;
    if (m->sight != NULL)
        sight_forget_unused(m->sight);
    return sched_unload(m->sched, wait);
}

void served_tick(served *m, double now)
{
    pthread_mutex_lock(&m->rest_lock);
    const bool over = m->asking == 0 && m->keep >= 0 && now - m->since >= m->keep;
    pthread_mutex_unlock(&m->rest_lock);
    if (over && sched_loaded(m->sched))
        unload(m, false);
}

bool served_unload(served *m)
{
    return unload(m, true);
}

bool served_loaded(const served *m)
{
    return sched_loaded(m->sched);
}

/* ---- what others need ---- */

const char *served_name(const served *m)
{
    return m->name;
}

const mote_model *served_model(const served *m)
{
    return m->model;
}

const char *served_path(const served *m)
{
    return m->path;
}

int64_t served_date(const served *m)
{
    return m->date;
}

const char *served_fingerprint(const served *m)
{
    return m->fingerprint;
}

const chat_kit *served_kit(const served *m)
{
    return &m->kit;
}

mote_status served_vocab(served *m, const struct vocab **out, mote_error *err)
{
    mote_status status = MOTE_OK;
    pthread_mutex_lock(&m->vocab_lock);
    if (m->vocab == NULL)
        status = chat_vocab_of(&m->vocab, &m->kit, err);
    *out = m->vocab;
    pthread_mutex_unlock(&m->vocab_lock);
    return status;
}

sched *served_sched(const served *m)
{
    return m->sched;
}

uint64_t served_context(const served *m)
{
    return sched_settings(m->sched)->context;
}

sight *served_sight(const served *m)
{
    return m->sight;
}

recall *served_recall(const served *m)
{
    return m->recall;
}
