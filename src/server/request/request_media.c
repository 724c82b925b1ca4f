/* SPDX-License-Identifier: Apache-2.0 */
/*
 * request_media.c - images and videos of a conversation, as items for the vision service.
 *
 * request_media() collects them in message order and checks sources, counts and token limits. It
 * does not decode anything: generation.c submits the items to the vision service and calls
 * request_media_ready() when they are encoded. Worker thread.
 */
#include "base/mem.h"
#include "media/decode/resize.h"
#include "server/request/request.h"
#include "server/request/params.h"
#include "json/json_writer.h"

#include <stdio.h>
#include <strings.h>

static bool source_begins(str text, const char *with)
{
    const size_t n = strlen(with);
    return text.n >= n && strncasecmp(text.p, with, n) == 0;
}

/* ---- sources ---- */

/* Sets *out to the base64 data of a data: URL, or of a string that is base64 already. */
static bool media_read_source(str text, const char *at, str *out, http_error *error)
{
    static const char mark[] = ";base64";
    const size_t n = sizeof mark - 1;
    if (source_begins(text, "http://") || source_begins(text, "https://") ||
        source_begins(text, "file:"))
        return http_error_refused(error, at, "image_url_not_allowed",
                                  "must be a data: URL; the server does not fetch URLs");
    *out = text;
    if (text.n == 0)
        return http_error_refused(error, at, "image_parse_error",
                                  "has no data; send the image as a data: URL");
    if (!source_begins(text, "data:"))
        return true;
    const char *comma = memchr(text.p, ',', text.n);
    const size_t head = comma != NULL ? (size_t)(comma - text.p) : 0;
    if (head < n || strncasecmp(comma - n, mark, n) != 0)
        return http_error_refused(error, at, "image_parse_error", "must be a data: URL in base64");
    *out = (str){comma + 1, text.n - head - 1};
    return true;
}

/* A video as a list of frames. */
static bool media_read_frames(request *a, const json_node *frames, vision_item *item,
                              http_error *error)
{
    const size_t n = json_node_size(frames);
    if (n < 1 || n > MEDIA_FRAMES_MAX)
        return http_error_invalid(error, item->at, "must have 1 to %d frames, got %zu",
                                  MEDIA_FRAMES_MAX, n);
    str *list = request_memory(a, n, sizeof *list, error);
    if (list == NULL)
        return false;
    item->frames = list;
    for (const json_node *f = json_node_first(frames); f != NULL; f = json_node_next(f)) {
        char at[128];
        snprintf(at, sizeof at, "%s.frames[%zu]", item->at, item->n_frames);
        if (!json_node_is(f, JSON_IS_STRING))
            return http_error_invalid(error, at, "must be an image as a data: URL");
        if (!media_read_source(json_node_text(f), at, &list[item->n_frames++], error))
            return false;
    }
    return true;
}

static bool media_read_video(request *a, const json_node *node, vision_item *item,
                             http_error *error)
{
    const json_node *frames = json_node_get(node, "frames");
    a->video_fps = 0;
    if (!params_read(a, node, PARAM_IN_VIDEO, item->at, &(param_limits){0}, error))
        return false;
    item->fps = a->video_fps;
    if (json_node_is(frames, JSON_IS_ARRAY))
        return media_read_frames(a, frames, item, error);
    return media_read_source(item->part->text, item->at, &item->text, error);
}

void request_put_image(strbuf *out, const char *at, str data)
{
    jw_open(out, '{');
    jw_key_text(out, "type", "image_url");
    jw_key_text(out, "at", at);
    jw_key_str(out, "image_url", data);
    jw_close(out, '}');
}

/* ---- token limits ---- */

static bool media_read_detail(const json_node *node, const char *at, uint32_t *tokens,
                              http_error *error)
{
    static const struct {
        const char *name;
        uint32_t tokens; /* 0: the default */
    } levels[] = {{"auto", 0}, {"low", 256}, {"high", 2048}, {"original", MOTE_IMAGE_MAX_TOKENS}};
    const json_node *detail = json_node_get(node, "detail");
    if (detail == NULL)
        detail = json_node_get(json_node_get(node, "image_url"), "detail");
    if (detail == NULL || json_node_is(detail, JSON_IS_NULL))
        return true;
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
        if (str_is(json_node_text(detail), levels[i].name)) {
            *tokens = levels[i].tokens > 0 ? levels[i].tokens : *tokens;
            return true;
        }
    return http_error_invalid(error, at, "must have detail auto, low, high or original");
}

/* image_tokens and max_pixels of the request override `detail`. */
static bool media_read_tokens(request *a, const json_node *node, const char *at, uint32_t *out,
                              http_error *error)
{
    const vision_service_options *o = vision_service_settings(a->vision);
    *out = o->tokens;
    if (!media_read_detail(node, at, out, error))
        return false;
    if (a->max_pixels > 0)
        *out = a->max_pixels / MEDIA_TOKEN_PIXELS;
    if (a->image_tokens > 0)
        *out = a->image_tokens;
    if (*out > o->max_tokens) {
        *out = o->max_tokens;
        request_warn(a, "image_tokens_capped", at);
    }
    return true;
}

/* ---- the list ---- */

/* /apply-template renders a part without data, or without a vision encoder, as one token. */
static bool media_stays_token(const request *a, const json_node *node, const chat_part *part)
{
    return a->template_only &&
           (a->vision == NULL || (part->text.n == 0 && json_node_get(node, "frames") == NULL));
}

static bool media_add(request *a, const json_node *node, chat_part *part, const char *at,
                      http_error *error)
{
    if (media_stays_token(a, node, part))
        return true;
    vision_item *item = &a->media[a->n_media];
    *item = (vision_item){.video = part->kind == CHAT_PART_VIDEO, .part = part};
    snprintf(item->at, sizeof item->at, "%s", at);
    if (item->video ? !media_read_video(a, node, item, error)
                    : !media_read_source(part->text, at, &item->text, error))
        return false;
    if (a->vision == NULL)
        return http_error_refused(error, at, "no_vision",
                                  "has an image or a video; this model supports text only");
    if (!media_read_tokens(a, node, at, &item->tokens, error))
        return false;
    a->n_media++;
    return true;
}

static bool part_is_media(const chat_part *part)
{
    return part->kind == CHAT_PART_IMAGE || part->kind == CHAT_PART_VIDEO;
}

static size_t media_count(const chat_request *q)
{
    size_t n = 0;
    for (size_t i = 0; i < q->n_messages; i++)
        for (size_t k = 0; k < q->messages[i].n_parts; k++)
            n += part_is_media(&q->messages[i].parts[k]);
    return n;
}

static bool media_add_message(request *a, size_t index, const json_node *message, http_error *error)
{
    const chat_message *m = &a->parsed.messages[index];
    const json_node *node = json_node_first(json_node_get(message, "content"));
    for (size_t k = 0; k < m->n_parts && node != NULL; k++, node = json_node_next(node)) {
        char at[REQUEST_AT];
        const json_node *field = a->has_at ? json_node_get(node, "at") : NULL;
        chat_part *part = &a->parsed.parts[m->parts - a->parsed.parts + (ptrdiff_t)k];
        if (!part_is_media(part))
            continue;
        request_message_at(a, index, ".content", at);
        if (field != NULL)
            snprintf(at, sizeof at, "%.*s", STR_ARG(json_node_text(field)));
        if (!media_add(a, node, part, at, error))
            return false;
    }
    return true;
}

bool request_media(request *a, http_error *error)
{
    const size_t n = media_count(&a->parsed.request);
    const json_node *message = json_node_first(a->messages);
    if (n == 0)
        return true;
    if (a->vision != NULL && n > vision_service_settings(a->vision)->images)
        return http_error_invalid(error, a->names.messages,
                                  "has %zu images and videos; at most %u (--limit images)", n,
                                  (unsigned)vision_service_settings(a->vision)->images);
    a->media = request_memory(a, n, sizeof *a->media, error);
    if (a->media == NULL)
        return false;
    for (size_t i = 0; i < a->parsed.request.n_messages; i++, message = json_node_next(message))
        if (!media_add_message(a, i, message, error))
            return false;
    if (!a->has_task)
        a->answer.task = MOTE_TASK_VISION;
    return true;
}

bool request_no_media(const request *a, http_error *error)
{
    return a->n_media == 0 ||
           http_error_unsupported(error, a->media[0].at, "scoring or ranking images and videos");
}

void request_media_ready(request *a)
{
    for (size_t i = 0; i < a->n_media; i++)
        a->media[i].part->media = &a->media[i].result->media;
}
