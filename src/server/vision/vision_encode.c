/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vision_encode_item.c - one look: the text of a picture or film to rows of the model. See sight.h.
 *
 * Whatever a file does is an error of the request that brought it.
 */
#include "base/base64.h"
#include "base/mem.h"
#include "media/sandbox/decoder.h"
#include "server/vision/vision_int.h"

#include <stdio.h>

/* ---- what is wrong ---- */

static bool wrong(vision_request *r, const vision_item *item, const char *code, const char *why)
{
    return http_error_refused(&r->error, item->at, code, why);
}

static bool too_large(vision_request *r, const vision_item *item, const char *why)
{
    return wrong(r, item, "image_too_large", why);
}

/* Not the fault of any file: it may come again. */
static bool no_decoder(vision_request *r, const mote_error *err)
{
    api_error_set(&r->error, API_E_UNAVAILABLE, "vision_unavailable", "%s", err->text);
    return false;
}

static bool not_seen(vision_request *r, const vision_item *item, const mote_error *err)
{
    switch (err->status) {
    case MOTE_E_MEMORY: return http_error_no_memory(&r->error);
    case MOTE_E_IO: return no_decoder(r, err);
    case MOTE_E_FULL: return too_large(r, item, err->text);
    default: return wrong(r, item, "image_parse_error", err->text);
    }
}

/* ---- bytes ---- */

/* One file, or the frames of a film one after the other. */
typedef struct vision_files {
    strbuf bytes;
    uint64_t *parts; /* [item->n_frames]: bytes of each frame */
} vision_files;

/* Everything that a picture depends on, and who may find it again. */
static bool key_of(const vision_request *r, const vision_item *item, vision_files *files,
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

static bool read_file(const vision_service *s, http_error *error, const char *at, str text,
                      strbuf *out)
{
    static const char large[] = "is a file with more bytes than are taken";
    const size_t before = out->n;
    if (text.n / 4 * 3 > s->options.file_bytes + 3)
        return http_error_refused(error, at, "image_too_large", large);
    if (!base64_get(out, text))
        return out->failed ? http_error_no_memory(error)
                           : http_error_refused(error, at, "image_parse_error", "is not base64");
    if (out->n == before)
        return http_error_refused(error, at, "image_parse_error", "is empty");
    return out->n - before <= s->options.file_bytes ||
           http_error_refused(error, at, "image_too_large", large);
}

static bool read_files(const vision_service *s, vision_request *r, const vision_item *item,
                       vision_files *out)
{
    if (item->frames == NULL)
        return read_file(s, &r->error, item->at, item->text, &out->bytes);
    out->parts = mem_new(item->n_frames, sizeof *out->parts);
    if (out->parts == NULL)
        return http_error_no_memory(&r->error);
    for (size_t i = 0; i < item->n_frames; i++) {
        char at[128];
        const size_t before = out->bytes.n;
        snprintf(at, sizeof at, "%s.frames[%zu]", item->at, i);
        if (!read_file(s, &r->error, at, item->frames[i], &out->bytes))
            return false;
        out->parts[i] = out->bytes.n - before;
    }
    return true;
}

/* ---- pixels ---- */

static bool count_in(vision_request *r, const vision_item *item, size_t images, size_t tokens)
{
    r->images += images;
    r->tokens += tokens;
    if (r->images > VISION_MAX_IMAGES)
        return too_large(r, item, "has more frames than are taken in one request");
    if (r->room == 0 || r->tokens < r->room)
        return true;
    wrong(r, item, "context_length_exceeded", "does not fit the context");
    return false;
}

static bool has_room(vision_service *s, vision_request *r, const vision_item *item,
                     image_cache_entry *e)
{
    const uint64_t bytes = e->seen.tokens * (s->embedding * sizeof(float) + sizeof(mote_token)) +
                           sizeof *e + e->seen.media.n * (sizeof(void *) + sizeof(double) + 256);
    r->bytes += bytes;
    if (image_cache_make_room(s, e, bytes))
        return true;
    if (r->bytes > s->options.memory)
        return too_large(r, item, "and what comes before it need more memory than pictures have");
    return http_error_no_memory(&r->error);
}

static bool look_at(vision_service *s, vision_request *r, const vision_item *item,
                    const media_frames *seen, image_cache_entry *e)
{
    mote_error err;
    const size_t n = e->seen.media.n;
    const mote_image **images = mem_new(n, sizeof *images);
    double *seconds = mem_new(n, sizeof *seconds);
    e->seen.media.images = images;
    e->seen.media.seconds = seconds;
    if (images == NULL || seconds == NULL)
        return http_error_no_memory(&r->error);
    for (size_t i = 0; i < n; i++) {
        mote_image *image;
        if (r->dropped)
            return wrong(r, item, "canceled", "is not wanted any more");
        if (media_pair(seen, item->video, i, s->options.model, s->options.threads, &image,
                       &seconds[i], &err) != MOTE_OK)
            return not_seen(r, item, &err);
        images[i] = image;
    }
    return true;
}

static bool see(vision_service *s, vision_request *r, const vision_item *item,
                const vision_files *files, image_cache_entry *e)
{
    mote_error err;
    media_frames seen;
    const media_request wanted = {
        .file = strbuf_view(&files->bytes),
        .parts = files->parts,
        .n_parts = item->n_frames,
        .video = item->video,
        .fps = item->fps,
        .limits = {.max_pixels = (uint64_t)item->tokens * MEDIA_TOKEN_PIXELS}};
    if (media_load(s->options.fork_server, &wanted, &seen, &err) != MOTE_OK)
        return not_seen(r, item, &err);
    e->seen.width = seen.width;
    e->seen.height = seen.height;
    e->seen.media.n = media_pairs(&seen, item->video);
    e->seen.tokens = e->seen.media.n * seen.width * seen.height / MEDIA_TOKEN_PIXELS;
    bool fine = (uint64_t)seen.stored_width * seen.stored_height <= s->options.pixels ||
                too_large(r, item, "has more pixels than are taken");
    fine = fine && count_in(r, item, e->seen.media.n, e->seen.tokens) && has_room(s, r, item, e) &&
           look_at(s, r, item, &seen, e);
    media_frames_fini(&seen);
    return fine;
}

/* ---- both ---- */

static bool find_or_see(vision_service *s, vision_request *r, vision_item *item,
                        vision_files *files)
{
    digest key;
    bool mine;
    if (!read_files(s, r, item, files))
        return false;
    if (!key_of(r, item, files, &key))
        return http_error_no_memory(&r->error);
    image_cache_entry *e = image_cache_get(s, &key, &mine);
    if (e == NULL)
        return http_error_no_memory(&r->error);
    if (mine) {
        if (!see(s, r, item, files, e)) {
            image_cache_fail(s, e);
            return false;
        }
        image_cache_ready(s, e);
    }
    item->seen = &e->seen;
    if (mine)
        return true;
    r->bytes += e->bytes;
    return count_in(r, item, e->seen.media.n, e->seen.tokens);
}

void vision_encode_item(vision_service *s, vision_request *r)
{
    vision_files files = {0};
    find_or_see(s, r, &r->items[r->next_item++], &files);
    strbuf_fini(&files.bytes);
    mem_free(files.parts);
}
