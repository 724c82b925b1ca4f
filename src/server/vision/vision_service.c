/* SPDX-License-Identifier: Apache-2.0 */
/* vision_service.c - the queue, its threads, and the processing of one file. See vision_service.h.
 */
#include "base/base64.h"
#include "base/mem.h"
#include "base/os.h"
#include "media/sandbox/decoder.h"
#include "server/vision/vision_int.h"

#include <mote.h>
#include <stdio.h>

/* ---- errors of an item ---- */

static bool item_refuse(vision_request *r, const vision_item *item, const char *code,
                        const char *why)
{
    return http_error_refused(&r->error, item->at, code, why);
}

static bool item_too_large(vision_request *r, const vision_item *item, const char *why)
{
    return item_refuse(r, item, "image_too_large", why);
}

/* The decoder process failed, not the file: the client may retry. */
static bool item_no_decoder(vision_request *r, const mote_error *err)
{
    http_error_set(&r->error, HTTP_E_UNAVAILABLE, "vision_unavailable", "%s", err->text);
    return false;
}

static bool item_failed(vision_request *r, const vision_item *item, const mote_error *err)
{
    switch (err->status) {
    case MOTE_E_MEMORY: return http_error_no_memory(&r->error);
    case MOTE_E_IO: return item_no_decoder(r, err);
    case MOTE_E_FULL: return item_too_large(r, item, err->text);
    default: return item_refuse(r, item, "image_parse_error", err->text);
    }
}

/* ---- files and cache key ---- */

/* One file, or the frames of a video, concatenated. */
typedef struct vision_files {
    strbuf bytes;
    uint64_t *parts; /* [item->n_frames]: bytes of each frame */
} vision_files;

/* Digest of everything that the embeddings depend on, and of the cache namespace. */
static bool item_key(const vision_request *r, const vision_item *item, vision_files *files,
                     digest *out)
{
    strbuf *b = &files->bytes;
    const uint64_t more[4] = {item->tokens, item->video, item->n_frames, r->ns};
    const size_t n = b->n;
    strbuf_put(b, (str){(const char *)files->parts, item->n_frames * sizeof *files->parts});
    strbuf_put(b, (str){(const char *)&item->fps, sizeof item->fps});
    strbuf_put(b, (str){(const char *)more, sizeof more});
    const bool fine = !b->failed && digest_of(out, strbuf_view(b));
    b->n = n;
    return fine;
}

static bool item_read_file(const vision_service *s, http_error *error, const char *at, str text,
                           strbuf *out)
{
    static const char large[] = "has too many bytes (--limit image-bytes)";
    const size_t before = out->n;
    if (text.n / 4 * 3 > s->options.file_bytes + 3)
        return http_error_refused(error, at, "image_too_large", large);
    if (!base64_get(out, text))
        return out->failed
                   ? http_error_no_memory(error)
                   : http_error_refused(error, at, "image_parse_error", "is not valid base64");
    if (out->n == before)
        return http_error_refused(error, at, "image_parse_error", "is empty");
    return out->n - before <= s->options.file_bytes ||
           http_error_refused(error, at, "image_too_large", large);
}

static bool item_read_files(const vision_service *s, vision_request *r, const vision_item *item,
                            vision_files *out)
{
    if (item->frames == NULL)
        return item_read_file(s, &r->error, item->at, item->text, &out->bytes);
    out->parts = mem_new(item->n_frames, sizeof *out->parts);
    if (out->parts == NULL)
        return http_error_no_memory(&r->error);
    for (size_t i = 0; i < item->n_frames; i++) {
        char at[128];
        const size_t before = out->bytes.n;
        snprintf(at, sizeof at, "%s.frames[%zu]", item->at, i);
        if (!item_read_file(s, &r->error, at, item->frames[i], &out->bytes))
            return false;
        out->parts[i] = out->bytes.n - before;
    }
    return true;
}

/* ---- decoding and encoding ---- */

/* Adds to the totals of the request and checks them. */
static bool item_count(vision_request *r, const vision_item *item, size_t images, size_t tokens)
{
    r->images += images;
    r->tokens += tokens;
    if (r->images > VISION_MAX_IMAGES)
        return item_too_large(r, item, "has too many frames for one request");
    if (r->room == 0 || r->tokens < r->room)
        return true;
    item_refuse(r, item, "context_length_exceeded", "does not fit the context");
    return false;
}

/* Reserves memory of the image cache for the result, before it is encoded. */
static bool item_reserve(vision_service *s, vision_request *r, const vision_item *item,
                         image_cache_entry *e)
{
    const uint64_t bytes = e->result.tokens * (s->embedding * sizeof(float) + sizeof(mote_token)) +
                           sizeof *e + e->result.media.n * (sizeof(void *) + sizeof(double) + 256);
    r->bytes += bytes;
    if (image_cache_make_room(s, e, bytes))
        return true;
    if (r->bytes > s->options.memory)
        return item_too_large(r, item,
                              "does not fit in the image cache with the images before it (--limit "
                              "image-cache-bytes)");
    return http_error_no_memory(&r->error);
}

static bool item_encode_frames(vision_service *s, vision_request *r, const vision_item *item,
                               const media_frames *frames, image_cache_entry *e)
{
    mote_error err;
    const size_t n = e->result.media.n;
    const mote_image **images = mem_new(n, sizeof *images);
    double *seconds = mem_new(n, sizeof *seconds);
    e->result.media.images = images;
    e->result.media.seconds = seconds;
    if (images == NULL || seconds == NULL)
        return http_error_no_memory(&r->error);
    for (size_t i = 0; i < n; i++) {
        mote_image *image;
        if (r->dropped)
            return item_refuse(r, item, "canceled", "was canceled");
        if (media_pair(frames, item->video, i, s->options.model, s->options.threads, &image,
                       &seconds[i], &err) != MOTE_OK)
            return item_failed(r, item, &err);
        images[i] = image;
    }
    return true;
}

static bool item_encode(vision_service *s, vision_request *r, const vision_item *item,
                        const vision_files *files, image_cache_entry *e)
{
    mote_error err;
    media_frames frames;
    const media_request wanted = {
        .file = strbuf_view(&files->bytes),
        .parts = files->parts,
        .n_parts = item->n_frames,
        .video = item->video,
        .fps = item->fps,
        .limits = {.max_pixels = (uint64_t)item->tokens * MEDIA_TOKEN_PIXELS}};
    if (media_load(s->options.fork_server, &wanted, &frames, &err) != MOTE_OK)
        return item_failed(r, item, &err);
    e->result.width = frames.width;
    e->result.height = frames.height;
    e->result.media.n = media_pairs(&frames, item->video);
    e->result.tokens = e->result.media.n * frames.width * frames.height / MEDIA_TOKEN_PIXELS;
    bool fine = (uint64_t)frames.stored_width * frames.stored_height <= s->options.pixels ||
                item_too_large(r, item, "has too many pixels (--limit image-pixels)");
    fine = fine && item_count(r, item, e->result.media.n, e->result.tokens) &&
           item_reserve(s, r, item, e) && item_encode_frames(s, r, item, &frames, e);
    media_frames_fini(&frames);
    return fine;
}

/* ---- one item ---- */

/* Sets the result of an item, from the image cache if it has it. Images of the cache count towards
 * the limits of the request too. */
static bool item_find_or_encode(vision_service *s, vision_request *r, vision_item *item,
                                vision_files *files)
{
    digest key;
    bool mine;
    if (!item_read_files(s, r, item, files))
        return false;
    if (!item_key(r, item, files, &key))
        return http_error_no_memory(&r->error);
    image_cache_entry *e = image_cache_get(s, &key, &mine);
    if (e == NULL)
        return http_error_no_memory(&r->error);
    if (mine) {
        if (!item_encode(s, r, item, files, e)) {
            image_cache_fail(s, e);
            return false;
        }
        image_cache_ready(s, e);
    }
    item->result = &e->result;
    if (mine)
        return true;
    r->bytes += e->bytes;
    return item_count(r, item, e->result.media.n, e->result.tokens);
}

/* Processes the next item of a request. A failure is in r->error. */
static void vision_encode_item(vision_service *s, vision_request *r)
{
    vision_files files = {0};
    item_find_or_encode(s, r, &r->items[r->next_item++], &files);
    strbuf_fini(&files.bytes);
    mem_free(files.parts);
}

/* ---- lists; called with the lock held ---- */

static void list_append(vision_request ***end, vision_request *r)
{
    r->next = NULL;
    **end = r;
    *end = &r->next;
}

static vision_request *list_take_first(vision_request **first, vision_request ***end)
{
    vision_request *r = *first;
    *first = r->next;
    if (*first == NULL)
        *end = first;
    return r;
}

/* false: the request is not in the queue. */
static bool queue_remove(vision_service *s, const vision_request *r)
{
    vision_request **at = &s->queue;
    while (*at != NULL && *at != r)
        at = &(*at)->next;
    if (*at == NULL)
        return false;
    *at = r->next;
    if (*at == NULL)
        s->queue_end = at;
    return true;
}

/* ---- threads ---- */

static bool request_is_done(const vision_request *r)
{
    return r->dropped || r->error.code != NULL || r->next_item == r->n;
}

/* Processes one file of the first request, which then goes to the end of the queue. */
static void vision_serve_one(vision_service *s)
{
    vision_request *r = list_take_first(&s->queue, &s->queue_end);
    const double began = os_now();
    s->stats.total++;
    pthread_mutex_unlock(&s->lock);
    vision_encode_item(s, r);
    pthread_mutex_lock(&s->lock);
    s->stats.seconds += os_now() - began;
    s->stats.failed += r->error.code != NULL;
    if (!request_is_done(r)) {
        list_append(&s->queue_end, r);
        return;
    }
    s->stats.waiting--;
    list_append(&s->finished_end, r);
    pthread_mutex_unlock(&s->lock);
    s->options.wake(s->options.with);
    pthread_mutex_lock(&s->lock);
}

static void *vision_thread_run(void *with)
{
    vision_service *s = with;
    pthread_mutex_lock(&s->lock);
    while (!s->stop) {
        if (s->queue != NULL)
            vision_serve_one(s);
        else
            pthread_cond_wait(&s->queue_filled, &s->lock);
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
        list_append(&s->queue_end, r);
        pthread_cond_signal(&s->queue_filled);
    }
    pthread_mutex_unlock(&s->lock);
    return room;
}

void vision_service_drop(vision_service *s, vision_request *r)
{
    pthread_mutex_lock(&s->lock);
    r->dropped = true;
    const bool waits = queue_remove(s, r);
    if (waits) {
        s->stats.waiting--;
        list_append(&s->finished_end, r);
    }
    pthread_mutex_unlock(&s->lock);
    if (waits)
        s->options.wake(s->options.with);
}

void vision_service_collect(vision_service *s)
{
    pthread_mutex_lock(&s->lock);
    while (s->finished != NULL) {
        vision_request *r = list_take_first(&s->finished, &s->finished_end);
        pthread_mutex_unlock(&s->lock);
        r->done(r->with); /* may free r */
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

/* ---- life cycle ---- */

const vision_service_options *vision_service_settings(const vision_service *s)
{
    return &s->options;
}

/* The encoder needs most scratch for the widest image: one row of max_tokens. */
uint64_t vision_service_plan(const vision_service_options *o)
{
    const uint32_t side = MOTE_IMAGE_SIDE;
    return o->memory +
           o->parallel * mote_image_plan(o->model, o->max_tokens * side, side, o->threads);
}

uint64_t vision_service_memory(const vision_service *s)
{
    return vision_service_plan(&s->options);
}

static mote_status vision_start_threads(vision_service *s, mote_error *err)
{
    for (; s->n_threads < s->options.parallel; s->n_threads++)
        if (pthread_create(&s->threads[s->n_threads], NULL, vision_thread_run, s) != 0)
            return err_set(err, MOTE_E_IO, "cannot create a vision thread");
    return MOTE_OK;
}

mote_status vision_service_new(vision_service **out, const vision_service_options *options,
                               mote_error *err)
{
    mote_model_info info;
    *out = NULL;
    vision_service *s = mem_new(1, sizeof *s);
    if (s == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: %zu bytes for the vision service",
                       sizeof *s);
    mote_model_describe(options->model, &info);
    s->options = *options;
    s->embedding = info.embedding;
    s->queue_end = &s->queue;
    s->finished_end = &s->finished;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->queue_filled, NULL);
    pthread_cond_init(&s->made, NULL);
    const mote_status status = vision_start_threads(s, err);
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
    for (vision_request *r = s->queue; r != NULL; r = r->next)
        r->dropped = true;
    pthread_cond_broadcast(&s->queue_filled);
    pthread_mutex_unlock(&s->lock);
    for (uint32_t i = 0; i < s->n_threads; i++)
        pthread_join(s->threads[i], NULL);
    while (s->queue != NULL)
        list_append(&s->finished_end, list_take_first(&s->queue, &s->queue_end));
    vision_service_collect(s);
    image_cache_drop_all(s);
    pthread_cond_destroy(&s->made);
    pthread_cond_destroy(&s->queue_filled);
    pthread_mutex_destroy(&s->lock);
    mem_free(s);
}
