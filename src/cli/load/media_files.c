/* SPDX-License-Identifier: Apache-2.0 */
/* media_files.c - see pictures.h. */
#include "cli/load/media_files.h"

#include "base/mem.h"
#include "base/os.h"
#include "cli/load/video_files.h"
#include "cli/term/output_messages.h"
#include "cli/term/text.h"
#include "media/sandbox/decoder.h"

#include <stdio.h>
#include <string.h>

bool images_wanted(const run_options *o)
{
    return o->image.n + o->video.n > 0;
}

int images_start(images *p)
{
    mote_error err;
    return fork_server_start(&p->fork_server, &err) == MOTE_OK ? CLI_DONE : msg_error(&err);
}

/* ---- looking ---- */

static int named(const char *path, mote_error *err)
{
    err_prefix(err, path);
    return msg_error(err);
}

static int look(shown *s, const media_frames *seen, const mote_model *model, uint32_t threads)
{
    mote_error err;
    s->n = media_pairs(seen, s->video);
    s->images = mem_new(s->n, sizeof *s->images);
    s->seconds = mem_new(s->n, sizeof *s->seconds);
    if (s->images == NULL || s->seconds == NULL)
        return msg_fail(CLI_FAILED, "out_of_memory", "no memory for the frames of %s", s->path);
    for (size_t i = 0; i < s->n; i++) {
        size_t n;
        if (media_pair(seen, s->video, i, model, threads, &s->images[i], &s->seconds[i], &err) !=
            MOTE_OK)
            return named(s->path, &err);
        mote_image_tokens(s->images[i], &n);
        s->tokens += n;
    }
    return CLI_DONE;
}

static void describe(const shown *s, const media_frames *seen, double seconds)
{
    char a[TEXT_NUMBER_BYTES], b[TEXT_NUMBER_BYTES], c[TEXT_NUMBER_BYTES], frames[64] = "";
    if (s->video)
        snprintf(frames, sizeof frames, ", %s of %.1f s", text_counted(c, seen->n, "frame"),
                 seen->times[seen->n - 1]);
    msg_note("%s   %u x %u, seen as %u x %u%s   %s in %s", s->path, seen->stored_width,
             seen->stored_height, seen->width, seen->height, frames,
             text_counted(a, s->tokens, "token"), text_seconds(b, seconds));
}

static int see_file(images *p, shown *s, const mote_model *model, const run_options *o)
{
    video_files files = {0};
    media_frames seen;
    mote_error err;
    const double began = os_now();
    int code = s->video ? video_files_read(&files, s->path) : input_read(&files.bytes, s->path);
    if (code == CLI_DONE) {
        const media_request ask = {.file = {files.bytes.p, files.bytes.n},
                                   .parts = files.parts,
                                   .n_parts = files.n_parts,
                                   .video = s->video,
                                   .fps = o->fps,
                                   .limits = {.max_pixels = o->image_tokens * MEDIA_TOKEN_PIXELS}};
        if (media_load(p->fork_server, &ask, &seen, &err) != MOTE_OK)
            code = named(s->path, &err);
    }
    video_files_free(&files);
    if (code != CLI_DONE)
        return code;
    s->width = seen.width;
    s->height = seen.height;
    code = look(s, &seen, model, (uint32_t)o->load.threads);
    if (code == CLI_DONE)
        describe(s, &seen, os_now() - began);
    media_frames_fini(&seen);
    return code;
}

static void free_one(shown *s)
{
    for (size_t i = 0; s->images != NULL && i < s->n; i++)
        mote_image_free(s->images[i]);
    mem_free(s->images);
    mem_free(s->seconds);
    mem_free(s->path);
    *s = (shown){0};
}

/* An empty place at the end of the list; NULL: no memory. */
static shown *make_place(images *p, const char *path, bool video)
{
    if (p->n == p->room) {
        const size_t room = p->room > 0 ? 2 * p->room : 8;
        shown *list = mem_resize(p->list, p->room, room, sizeof *list);
        if (list == NULL)
            return NULL;
        p->list = list;
        p->room = room;
    }
    shown *s = &p->list[p->n];
    *s = (shown){.path = mem_new(strlen(path) + 1, 1), .video = video};
    if (s->path == NULL)
        return NULL;
    memcpy(s->path, path, strlen(path));
    return s;
}

int images_add(images *p, const char *path, bool video, const mote_model *model,
               const run_options *o)
{
    if (p->n - p->sent >= IMAGES_ATTACHED)
        return msg_fail(CLI_USAGE, "bad_argument", "more than %d pictures and films in a message",
                        IMAGES_ATTACHED);
    shown *s = make_place(p, path, video);
    if (s == NULL)
        return run_no_memory();
    const int code = see_file(p, s, model, o);
    if (code == CLI_DONE)
        p->n++;
    else
        free_one(s);
    return code;
}

static int see_list(images *p, const flag_list *files, bool video, const mote_model *model,
                    const run_options *o)
{
    int code = CLI_DONE;
    for (size_t i = 0; i < files->n && code == CLI_DONE; i++)
        code = images_add(p, files->items[i], video, model, o);
    return code;
}

const char images_blind[] =
    "this model was opened without its picture tower; put its mmproj file beside it, or name it "
    "with --mmproj";

int images_see(images *p, const mote_model *model, const run_options *o)
{
    mote_model_info info;
    mote_model_describe(model, &info);
    if (!info.vision)
        return msg_fail(CLI_NO_MODEL, "no_vision", "%s", images_blind);
    int code = see_list(p, &o->image, false, model, o);
    return code == CLI_DONE ? see_list(p, &o->video, true, model, o) : code;
}

/* ---- messages ---- */

size_t images_attached(const images *p, mote_media out[IMAGES_ATTACHED])
{
    for (size_t i = p->sent; i < p->n; i++) {
        const shown *s = &p->list[i];
        out[i - p->sent] = (mote_media){.images = (const mote_image *const *)s->images,
                                        .seconds = s->video ? s->seconds : NULL,
                                        .n = s->n};
    }
    return p->n - p->sent;
}

void images_send(images *p, size_t message)
{
    for (; p->sent < p->n; p->sent++)
        p->list[p->sent].message = message;
}

void images_take_back(images *p, size_t message)
{
    while (p->sent > 0 && p->list[p->sent - 1].message >= message)
        p->sent--;
}

void images_forget(images *p, size_t messages)
{
    const size_t end = p->sent;
    images_take_back(p, messages);
    for (size_t i = p->sent; i < end; i++)
        free_one(&p->list[i]);
    if (end > p->sent)
        memmove(&p->list[p->sent], &p->list[end], (p->n - end) * sizeof *p->list);
    p->n -= end - p->sent;
}

void images_drop(images *p, size_t n)
{
    while (p->n > n)
        free_one(&p->list[--p->n]);
    if (p->sent > n)
        p->sent = n;
}

void images_free(images *p)
{
    images_drop(p, 0);
    mem_free(p->list);
    fork_server_stop(p->fork_server);
    *p = (images){0};
}

void images_write(const images *p, json *j)
{
    json_key(j, "images");
    json_begin_array(j);
    for (size_t i = 0; i < p->n; i++) {
        json_begin_object(j);
        json_key_u64(j, "w", p->list[i].width);
        json_key_u64(j, "h", p->list[i].height);
        json_key_u64(j, "tokens", p->list[i].tokens);
        json_end_object(j);
    }
    json_end_array(j);
}
