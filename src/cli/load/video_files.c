/* SPDX-License-Identifier: Apache-2.0 */
/* video_files.c - see video_files.h. */
#define _GNU_SOURCE /* numbers in names by their value, {a,b} in patterns */
#include "cli/load/video_files.h"

#include "base/mem.h"
#include "cli/args/command.h"
#include "cli/term/output_messages.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PATTERN_BYTES = 8192 };

static int by_number(const void *a, const void *b)
{
    return strverscmp(*(char *const *)a, *(char *const *)b);
}

static bool is_there(const char *path, bool *folder)
{
    struct stat info;
    const bool there = stat(path, &info) == 0;
    *folder = there && S_ISDIR(info.st_mode);
    return there;
}

/* The pictures in a folder, whose own name is no pattern. */
static bool pattern_of(const char *folder, char *out)
{
    static const char images[] = "/*.{jpg,jpeg,png,webp,gif,JPG,JPEG,PNG,WEBP,GIF}";
    size_t n = 0;
    for (const char *p = folder; *p != '\0'; p++) {
        if (n + sizeof images + 2 > PATTERN_BYTES)
            return false;
        if (strchr("*?[]{}\\,~", *p) != NULL)
            out[n++] = '\\';
        out[n++] = *p;
    }
    memcpy(out + n, images, sizeof images);
    return true;
}

static int read_frames(video_files *out, glob_t *found)
{
    qsort(found->gl_pathv, found->gl_pathc, sizeof *found->gl_pathv, by_number);
    out->parts = mem_new(found->gl_pathc, sizeof *out->parts);
    if (out->parts == NULL)
        return msg_fail(CLI_NO_MEMORY, mote_status_name(MOTE_E_MEMORY), "no memory for the film");
    for (size_t i = 0; i < found->gl_pathc; i++) {
        const size_t before = out->bytes.n;
        const int code = input_read(&out->bytes, found->gl_pathv[i]);
        if (code != CLI_DONE)
            return code;
        out->parts[out->n_parts++] = out->bytes.n - before;
    }
    return CLI_DONE;
}

static int read_pattern(video_files *out, const char *pattern, const char *path)
{
    glob_t found;
    int code = CLI_DONE;
    if (glob(pattern, GLOB_BRACE, NULL, &found) != 0)
        return msg_fail(CLI_FAILED, "not_found", "there are no pictures in %s", path);
    code = read_frames(out, &found);
    globfree(&found);
    return code;
}

int video_files_read(video_files *out, const char *path)
{
    char pattern[PATTERN_BYTES];
    bool folder;
    *out = (video_files){0};
    if (is_there(path, &folder) && folder)
        return pattern_of(path, pattern)
                   ? read_pattern(out, pattern, path)
                   : msg_usage("the name of the folder %.200s is too long", path);
    if (strpbrk(path, "*?[") != NULL && !is_there(path, &folder))
        return read_pattern(out, path, path);
    return input_read(&out->bytes, path);
}

void video_files_free(video_files *files)
{
    input_text_free(&files->bytes);
    mem_free(files->parts);
    *files = (video_files){0};
}
