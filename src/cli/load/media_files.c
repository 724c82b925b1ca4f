/* SPDX-License-Identifier: Apache-2.0 */
/* media_files.c - image and video files to encoded images; see media_files.h. */
#define _DEFAULT_SOURCE /* GLOB_BRACE */
#include "cli/load/media_files.h"

#include "base/mem.h"
#include "base/os.h"
#include "cli/load/load.h"
#include "cli/term/output.h"
#include "cli/term/text.h"
#include "json/json_writer.h"
#include "media/sandbox/decoder.h"

#include <ctype.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- files of a video: one file, a directory of frames, or a pattern ---- */

enum { PATTERN_BYTES = 8192, SUFFIX_BYTES = 8 };

/* The bytes of all files, concatenated. */
typedef struct video_files {
    strbuf bytes;
    uint64_t *parts; /* [n_parts]: size of each file */
    size_t n_parts;  /* 0: one file */
} video_files;

/* The digits at *text without leading zeros; *text is set to their end. */
static str number_take(const char **text)
{
    const char *from = *text + strspn(*text, "0");
    *text = from + strspn(from, "0123456789");
    return (str){from, (size_t)(*text - from)};
}

/* Compares names; numbers in them by value: "f9" is before "f10". */
static int names_compare(const char *a, const char *b)
{
    const char *one = a, *other = b;
    while (*one != '\0' && *other != '\0') {
        if (isdigit((unsigned char)*one) && isdigit((unsigned char)*other)) {
            const str x = number_take(&one), y = number_take(&other);
            const int order = x.n != y.n ? (x.n < y.n ? -1 : 1) : memcmp(x.p, y.p, x.n);
            if (order != 0)
                return order;
        } else if (*one++ != *other++) {
            return (unsigned char)one[-1] < (unsigned char)other[-1] ? -1 : 1;
        }
    }
    return *one != '\0' ? 1 : *other != '\0' ? -1 : strcmp(a, b);
}

static int frames_by_number(const void *a, const void *b)
{
    return names_compare(*(char *const *)a, *(char *const *)b);
}

static bool path_exists(const char *path, bool *directory)
{
    struct stat info;
    const bool exists = stat(path, &info) == 0;
    *directory = exists && S_ISDIR(info.st_mode);
    return exists;
}

/* Braces in a pattern are an extension of glibc and the BSDs. */
#ifndef GLOB_BRACE
#define GLOB_BRACE 0
#endif

/* The pattern of all files with a suffix in a directory; special characters of its name are
 * escaped.
 */
static bool frames_pattern(const char *directory, const char *suffix, char *out)
{
    size_t n = 0;
    for (const char *p = directory; *p != '\0'; p++) {
        if (n + SUFFIX_BYTES + 2 > PATTERN_BYTES)
            return false;
        if (strchr("*?[]{}\\,~", *p) != NULL)
            out[n++] = '\\';
        out[n++] = *p;
    }
    snprintf(out + n, PATTERN_BYTES - n, "/*.%s", suffix);
    return true;
}

/* Frames are ordered by name; numbers in names compare by value. */
static int frames_read(video_files *out, glob_t *found)
{
    qsort(found->gl_pathv, found->gl_pathc, sizeof *found->gl_pathv, frames_by_number);
    out->parts = mem_new(found->gl_pathc, sizeof *out->parts);
    if (out->parts == NULL)
        return msg_no_memory("the frames of a video");
    for (size_t i = 0; i < found->gl_pathc; i++) {
        const size_t before = out->bytes.n;
        const int code = input_read(&out->bytes, found->gl_pathv[i]);
        if (code != CLI_DONE)
            return code;
        out->parts[out->n_parts++] = out->bytes.n - before;
    }
    return CLI_DONE;
}

/* Reads and frees what was found. */
static int frames_read_found(video_files *out, glob_t *found, const char *path)
{
    const int code = found->gl_pathc > 0
                         ? frames_read(out, found)
                         : msg_fail(CLI_FAILED, "not_found", "no images in %s", path);
    globfree(found);
    return code;
}

static int frames_read_pattern(video_files *out, const char *pattern)
{
    glob_t found = {0};
    glob(pattern, GLOB_APPEND | GLOB_BRACE, NULL, &found);
    return frames_read_found(out, &found, pattern);
}

static int frames_read_directory(video_files *out, const char *path)
{
    static const char *const suffixes[] = {"jpg", "jpeg", "png", "webp", "gif",
                                           "JPG", "JPEG", "PNG", "WEBP", "GIF"};
    char pattern[PATTERN_BYTES];
    glob_t found = {0};
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        if (!frames_pattern(path, suffixes[i], pattern)) {
            globfree(&found);
            return msg_usage("directory name too long: %.200s", path);
        }
        glob(pattern, GLOB_APPEND, NULL, &found);
    }
    return frames_read_found(out, &found, path);
}

/* `path` is a video file, a directory of frames, or a pattern of frame files. Free `out` also after
 * an error. */
static int video_files_read(video_files *out, const char *path)
{
    bool directory;
    const bool exists = path_exists(path, &directory);
    *out = (video_files){0};
    if (directory)
        return frames_read_directory(out, path);
    if (strpbrk(path, "*?[") != NULL && !exists)
        return frames_read_pattern(out, path);
    return input_read(&out->bytes, path);
}

static void video_files_free(video_files *files)
{
    strbuf_fini(&files->bytes);
    mem_free(files->parts);
    *files = (video_files){0};
}

/* ---- decoding and encoding ---- */

bool media_files_wanted(const media_options *o)
{
    return o->image.n + o->video.n > 0;
}

int media_files_start(media_files *p)
{
    mote_error err;
    return fork_server_start(&p->fork_server, &err) == MOTE_OK ? CLI_DONE : msg_error(&err);
}

static int media_file_failed(const media_file *s, mote_error *err)
{
    err_prefix(err, s->path);
    return msg_error(err);
}

static int media_file_encode(media_file *s, const media_frames *frames, const mote_model *model,
                             uint32_t threads)
{
    mote_error err;
    s->n = media_pairs(frames, s->video);
    s->images = mem_new(s->n, sizeof *s->images);
    s->seconds = mem_new(s->n, sizeof *s->seconds);
    if (s->images == NULL || s->seconds == NULL)
        return msg_no_memory("the frames of a video");
    for (size_t i = 0; i < s->n; i++) {
        size_t n;
        if (media_pair(frames, s->video, i, model, threads, &s->images[i], &s->seconds[i], &err) !=
            MOTE_OK)
            return media_file_failed(s, &err);
        mote_image_tokens(s->images[i], &n);
        s->tokens += n;
    }
    return CLI_DONE;
}

static void media_file_describe(const media_file *s, const media_frames *frames, double seconds)
{
    char a[TEXT_NUMBER_BYTES], b[TEXT_NUMBER_BYTES], c[TEXT_NUMBER_BYTES], video[64] = "";
    if (s->video)
        snprintf(video, sizeof video, ", %s of %.1f s", text_counted(c, frames->n, "frame"),
                 frames->times[frames->n - 1]);
    msg_note("%s   %u x %u, resized to %u x %u%s   %s in %s", s->path, frames->stored_width,
             frames->stored_height, frames->width, frames->height, video,
             text_counted(a, s->tokens, "token"), text_seconds(b, seconds));
}

static int media_file_load(media_files *p, media_file *s, const mote_model *model,
                           const media_options *o, uint32_t threads)
{
    video_files files = {0};
    media_frames frames;
    mote_error err;
    const double began = os_now();
    int code = s->video ? video_files_read(&files, s->path) : input_read(&files.bytes, s->path);
    if (code == CLI_DONE) {
        const media_request request = {
            .file = {files.bytes.p, files.bytes.n},
            .parts = files.parts,
            .n_parts = files.n_parts,
            .video = s->video,
            .fps = o->fps,
            .limits = {.max_pixels = o->image_tokens * MEDIA_TOKEN_PIXELS}};
        if (media_load(p->fork_server, &request, &frames, &err) != MOTE_OK)
            code = media_file_failed(s, &err);
    }
    video_files_free(&files);
    if (code != CLI_DONE)
        return code;
    s->width = frames.width;
    s->height = frames.height;
    code = media_file_encode(s, &frames, model, threads);
    if (code == CLI_DONE)
        media_file_describe(s, &frames, os_now() - began);
    media_frames_fini(&frames);
    return code;
}

static void media_file_free(media_file *s)
{
    for (size_t i = 0; s->images != NULL && i < s->n; i++)
        mote_image_free(s->images[i]);
    mem_free(s->images);
    mem_free(s->seconds);
    mem_free(s->path);
    *s = (media_file){0};
}

/* A new entry behind the last one, not counted yet; NULL: out of memory. */
static media_file *media_files_next(media_files *p, const char *path, bool video)
{
    if (p->n == p->room) {
        const size_t room = p->room > 0 ? 2 * p->room : 8;
        media_file *list = mem_resize(p->list, p->room, room, sizeof *list);
        if (list == NULL)
            return NULL;
        p->list = list;
        p->room = room;
    }
    media_file *s = &p->list[p->n];
    *s = (media_file){.path = mem_new(strlen(path) + 1, 1), .video = video};
    if (s->path == NULL)
        return NULL;
    memcpy(s->path, path, strlen(path));
    return s;
}

int media_files_add(media_files *p, const char *path, bool video, const mote_model *model,
                    const media_options *o, uint32_t threads)
{
    if (p->n - p->sent >= MEDIA_FILES_ATTACHED)
        return msg_fail(CLI_USAGE, "bad_argument",
                        "too many images and videos; at most %d per message", MEDIA_FILES_ATTACHED);
    media_file *s = media_files_next(p, path, video);
    if (s == NULL)
        return msg_no_memory("a path");
    s->image_tokens = o->image_tokens;
    s->fps = o->fps;
    const int code = media_file_load(p, s, model, o, threads);
    if (code == CLI_DONE)
        p->n++;
    else
        media_file_free(s);
    return code;
}

static int media_files_add_list(media_files *p, const flag_list *files, bool video,
                                const mote_model *model, const media_options *o, uint32_t threads)
{
    int code = CLI_DONE;
    for (size_t i = 0; i < files->n && code == CLI_DONE; i++)
        code = media_files_add(p, files->items[i], video, model, o, threads);
    return code;
}

const char media_files_no_encoder[] =
    "this model was opened without a vision encoder; put its mmproj file into the model's "
    "directory, or give --mmproj FILE";

int media_files_load(media_files *p, const mote_model *model, const media_options *o,
                     uint32_t threads)
{
    mote_model_info info;
    mote_model_describe(model, &info);
    if (!info.vision)
        return msg_fail(CLI_NO_MODEL, "no_vision", "%s", media_files_no_encoder);
    int code = media_files_add_list(p, &o->image, false, model, o, threads);
    return code == CLI_DONE ? media_files_add_list(p, &o->video, true, model, o, threads) : code;
}

/* ---- messages ---- */

static mote_media media_of(const media_file *s)
{
    return (mote_media){.images = (const mote_image *const *)s->images,
                        .seconds = s->video ? s->seconds : NULL,
                        .n = s->n};
}

size_t media_files_attached(const media_files *p, mote_media out[MEDIA_FILES_ATTACHED])
{
    for (size_t i = p->sent; i < p->n; i++)
        out[i - p->sent] = media_of(&p->list[i]);
    return p->n - p->sent;
}

size_t media_files_of(const media_files *p, size_t message, mote_media out[MEDIA_FILES_ATTACHED])
{
    size_t n = 0;
    for (size_t i = 0; i < p->sent && n < MEDIA_FILES_ATTACHED; i++)
        if (p->list[i].message == message)
            out[n++] = media_of(&p->list[i]);
    return n;
}

void media_files_mark_sent(media_files *p, size_t message)
{
    for (; p->sent < p->n; p->sent++)
        p->list[p->sent].message = message;
}

void media_files_reattach(media_files *p, size_t message)
{
    while (p->sent > 0 && p->list[p->sent - 1].message >= message)
        p->sent--;
}

void media_files_drop_after(media_files *p, size_t messages)
{
    const size_t end = p->sent;
    media_files_reattach(p, messages);
    for (size_t i = p->sent; i < end; i++)
        media_file_free(&p->list[i]);
    if (end > p->sent)
        memmove(&p->list[p->sent], &p->list[end], (p->n - end) * sizeof *p->list);
    p->n -= end - p->sent;
}

void media_files_truncate(media_files *p, size_t n)
{
    while (p->n > n)
        media_file_free(&p->list[--p->n]);
    if (p->sent > n)
        p->sent = n;
}

void media_files_free(media_files *p)
{
    media_files_truncate(p, 0);
    mem_free(p->list);
    fork_server_stop(p->fork_server);
    *p = (media_files){0};
}

void media_files_write_json(const media_files *p, strbuf *j)
{
    jw_key(j, "images");
    jw_open(j, '[');
    for (size_t i = 0; i < p->n; i++) {
        jw_open(j, '{');
        jw_key_uint(j, "w", p->list[i].width);
        jw_key_uint(j, "h", p->list[i].height);
        jw_key_uint(j, "tokens", p->list[i].tokens);
        jw_close(j, '}');
    }
    jw_close(j, ']');
}
