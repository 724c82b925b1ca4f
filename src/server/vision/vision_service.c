/* SPDX-License-Identifier: Apache-2.0 */
/* vision_service.c - those who wait to have something looked at, and the threads that do. See
 * sight.h. */
#include "base/mem.h"
#include "base/os.h"
#include "server/vision/vision_int.h"

#include <mote.h>

/* ---- lists; under the lock ---- */

static void put_last(vision_request ***end, vision_request *r)
{
    r->next = NULL;
    **end = r;
    *end = &r->next;
}

static vision_request *take_first(vision_request **first, vision_request ***end)
{
    vision_request *r = *first;
    *first = r->next;
    if (*first == NULL)
        *end = first;
    return r;
}

/* false: it is not in line. */
static bool take_out(vision_service *s, const vision_request *r)
{
    vision_request **at = &s->line;
    while (*at != NULL && *at != r)
        at = &(*at)->next;
    if (*at == NULL)
        return false;
    *at = r->next;
    if (*at == NULL)
        s->line_end = at;
    return true;
}

/* ---- threads ---- */

static bool is_done(const vision_request *r)
{
    return r->dropped || r->error.code != NULL || r->next_item == r->n;
}

/* One file; then others have their turn. */
static void serve_one(vision_service *s)
{
    vision_request *r = take_first(&s->line, &s->line_end);
    const double began = os_now();
    s->stats.asked++;
    pthread_mutex_unlock(&s->lock);
    vision_encode_item(s, r);
    pthread_mutex_lock(&s->lock);
    s->stats.seconds += os_now() - began;
    s->stats.failed += r->error.code != NULL;
    if (!is_done(r)) {
        put_last(&s->line_end, r);
        return;
    }
    s->stats.waiting--;
    put_last(&s->over_end, r);
    pthread_mutex_unlock(&s->lock);
    s->options.wake(s->options.with);
    pthread_mutex_lock(&s->lock);
}

static void *run(void *with)
{
    vision_service *s = with;
    pthread_mutex_lock(&s->lock);
    while (!s->stop) {
        if (s->line != NULL)
            serve_one(s);
        else
            pthread_cond_wait(&s->work_is, &s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* ---- requests ---- */

bool vision_service_submit(vision_service *s, vision_request *r)
{
    pthread_mutex_lock(&s->lock);
    const bool room = s->stats.waiting < s->options.queue;
    if (room) {
        s->stats.waiting++;
        put_last(&s->line_end, r);
        pthread_cond_signal(&s->work_is);
    }
    pthread_mutex_unlock(&s->lock);
    return room;
}

void vision_service_drop(vision_service *s, vision_request *r)
{
    pthread_mutex_lock(&s->lock);
    r->dropped = true;
    const bool waits = take_out(s, r);
    if (waits) {
        s->stats.waiting--;
        put_last(&s->over_end, r);
    }
    pthread_mutex_unlock(&s->lock);
    if (waits)
        s->options.wake(s->options.with);
}

void vision_service_collect(vision_service *s)
{
    pthread_mutex_lock(&s->lock);
    while (s->over != NULL) {
        vision_request *r = take_first(&s->over, &s->over_end);
        pthread_mutex_unlock(&s->lock);
        r->done(r->with); /* it may be gone now */
        pthread_mutex_lock(&s->lock);
    }
    pthread_mutex_unlock(&s->lock);
}

void vision_service_read_stats(vision_service *s, vision_stats *out)
{
    pthread_mutex_lock(&s->lock);
    *out = s->stats;
    pthread_mutex_unlock(&s->lock);
}

/* ---- life ---- */

const vision_service_options *vision_service_settings(const vision_service *s)
{
    return &s->options;
}

/* The longest side that so many tokens can have. */
uint64_t vision_service_plan(const vision_service_options *o)
{
    const uint32_t side = MOTE_IMAGE_SIDE;
    return o->memory +
           o->at_once * mote_image_plan(o->model, o->most_tokens * side, side, o->threads);
}

uint64_t vision_service_memory(const vision_service *s)
{
    return vision_service_plan(&s->options);
}

static mote_status start(vision_service *s, mote_error *err)
{
    for (; s->n_threads < s->options.at_once; s->n_threads++)
        if (pthread_create(&s->threads[s->n_threads], NULL, run, s) != 0)
            return err_set(err, MOTE_E_IO, "no thread to look at pictures with");
    return MOTE_OK;
}

mote_status vision_service_new(vision_service **out, const vision_service_options *options,
                               mote_error *err)
{
    mote_model_info info;
    *out = NULL;
    vision_service *s = mem_new(1, sizeof *s);
    if (s == NULL)
        return err_set(err, MOTE_E_MEMORY, "no memory to look at pictures with");
    mote_model_describe(options->model, &info);
    s->options = *options;
    s->embedding = info.embedding;
    s->line_end = &s->line;
    s->over_end = &s->over;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->work_is, NULL);
    pthread_cond_init(&s->made, NULL);
    const mote_status status = start(s, err);
    if (status != MOTE_OK) {
        vision_service_free(s);
        return status;
    }
    *out = s;
    return MOTE_OK;
}

void vision_service_free(vision_service *s)
{
    if (s == NULL)
        return;
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    for (vision_request *r = s->line; r != NULL; r = r->next)
        r->dropped = true;
    pthread_cond_broadcast(&s->work_is);
    pthread_mutex_unlock(&s->lock);
    for (uint32_t i = 0; i < s->n_threads; i++)
        pthread_join(s->threads[i], NULL);
    while (s->line != NULL)
        put_last(&s->over_end, take_first(&s->line, &s->line_end));
    vision_service_collect(s);
    image_cache_drop_all(s);
    pthread_cond_destroy(&s->made);
    pthread_cond_destroy(&s->work_is);
    pthread_mutex_destroy(&s->lock);
    mem_free(s);
}
