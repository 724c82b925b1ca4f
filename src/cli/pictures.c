/* SPDX-License-Identifier: Apache-2.0 */
/* pictures.c - see pictures.h. */
#include "cli/pictures.h"

#include "base/mem.h"
#include "base/os.h"
#include "cli/say.h"
#include "cli/text.h"
#include "media/frame_pairs.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

enum { TOKEN_PIXELS = MOTE_PICTURE_SIDE * MOTE_PICTURE_SIDE };

bool pictures_wanted(const run_options *o)
{
    return o->image.n + o->video.n > 0;
}

int pictures_start(pictures *p)
{
    mote_error err;
    return media_nursery_start(&p->nursery, &err) == MOTE_OK ? CLI_DONE : say_error(&err);
}

/* ---- the tower's file ---- */

static bool is_tower(const char *name)
{
    const size_t n = strlen(name);
    return strncmp(name, "mmproj", 6) == 0 && n > 5 && strcmp(name + n - 5, ".gguf") == 0;
}

/* Two of them say nothing: which one belongs to the model? */
void pictures_tower(char *out, const char *model_path, const char *given)
{
    const char *slash = strrchr(model_path, '/');
    const int n = slash != NULL ? (int)(slash - model_path) + 1 : 0;
    char folder[PICTURES_PATH_BYTES];
    size_t found = 0;
    out[0] = '\0';
    if (given != NULL && strcmp(given, "none") == 0)
        return;
    if (given != NULL) {
        snprintf(out, PICTURES_PATH_BYTES, "%s", given);
        return;
    }
    snprintf(folder, sizeof folder, "%.*s", n, model_path);
    DIR *d = opendir(n > 0 ? folder : ".");
    for (struct dirent *e = d != NULL ? readdir(d) : NULL; e != NULL; e = readdir(d))
        if (is_tower(e->d_name) && found++ == 0)
            snprintf(out, PICTURES_PATH_BYTES, "%.2000s%.255s", folder, e->d_name);
    if (d != NULL)
        closedir(d);
    if (found != 1)
        out[0] = '\0';
}

/* ---- looking ---- */

static int named(const char *path, mote_error *err)
{
    err_prefix(err, path);
    return say_error(err);
}

static int look(shown *s, const media_seen *seen, const mote_model *model, uint32_t threads)
{
    mote_error err;
    s->n = media_pairs(seen, s->film);
    s->pictures = mem_new(s->n, sizeof *s->pictures);
    s->seconds = mem_new(s->n, sizeof *s->seconds);
    if (s->pictures == NULL || s->seconds == NULL)
        return say_fail(CLI_FAILED, "out_of_memory", "no memory for the frames of %s", s->path);
    for (size_t i = 0; i < s->n; i++) {
        size_t n;
        if (media_pair(seen, s->film, i, model, threads, &s->pictures[i], &s->seconds[i], &err) !=
            MOTE_OK)
            return named(s->path, &err);
        mote_picture_tokens(s->pictures[i], &n);
        s->tokens += n;
    }
    return CLI_DONE;
}

static int see_file(pictures *p, shown *s, const mote_model *model, const run_options *o)
{
    input_text file = {0};
    media_seen seen;
    mote_error err;
    const double began = os_now();
    int code = input_read(&file, s->path);
    if (code != CLI_DONE)
        return code;
    const media_ask ask = {.file = {file.p, file.n},
                           .film = s->film,
                           .limits = {.most = o->image_tokens * TOKEN_PIXELS}};
    if (media_see(p->nursery, &ask, &seen, &err) != MOTE_OK) {
        input_text_free(&file);
        return named(s->path, &err);
    }
    s->width = seen.width;
    s->height = seen.height;
    code = look(s, &seen, model, (uint32_t)o->load.threads);
    char a[TEXT_NUMBER_BYTES], b[TEXT_NUMBER_BYTES];
    if (code == CLI_DONE)
        say_note("%s   %u x %u, seen as %u x %u%s   %s in %s", s->path, seen.stored_width,
                 seen.stored_height, seen.width, seen.height, s->film ? ", frames" : "",
                 text_counted(a, s->tokens, "token"), text_seconds(b, os_now() - began));
    media_seen_fini(&seen);
    input_text_free(&file);
    return code;
}

static int see_list(pictures *p, const flag_list *files, bool film, const mote_model *model,
                    const run_options *o)
{
    for (size_t i = 0; i < files->n; i++) {
        shown *s = &p->list[p->n];
        *s = (shown){.path = files->items[i], .film = film};
        p->n++;
        const int code = see_file(p, s, model, o);
        if (code != CLI_DONE)
            return code;
        p->media[p->n - 1] = (mote_media){.pictures = (const mote_picture *const *)s->pictures,
                                          .seconds = film ? s->seconds : NULL,
                                          .n = s->n};
    }
    return CLI_DONE;
}

int pictures_see(pictures *p, const mote_model *model, const run_options *o)
{
    mote_model_info info;
    mote_model_describe(model, &info);
    if (!info.vision)
        return say_fail(CLI_NO_MODEL, "no_vision",
                        "this model was opened without its picture tower; put its mmproj file "
                        "beside it, or name it with --mmproj");
    int code = see_list(p, &o->image, false, model, o);
    return code == CLI_DONE ? see_list(p, &o->video, true, model, o) : code;
}

void pictures_free(pictures *p)
{
    for (size_t i = 0; i < p->n; i++) {
        for (size_t j = 0; p->list[i].pictures != NULL && j < p->list[i].n; j++)
            mote_picture_free(p->list[i].pictures[j]);
        mem_free(p->list[i].pictures);
        mem_free(p->list[i].seconds);
    }
    media_nursery_stop(p->nursery);
    *p = (pictures){0};
}

void pictures_write(const pictures *p, json *j)
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
