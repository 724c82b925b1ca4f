/* SPDX-License-Identifier: Apache-2.0 */
/*
 * video_files.h - what --video and /video may name: a file, a folder of frames, or a pattern.
 */
#ifndef MOTE_CLI_LOAD_VIDEO_FILES_H
#define MOTE_CLI_LOAD_VIDEO_FILES_H

#include "cli/load/input.h"

/* The bytes of all files one after the other; of several also how many each has. */
typedef struct video_files {
    input_text bytes;
    uint64_t *parts; /* [n_parts] */
    size_t n_parts;  /* 0: one file */
} video_files;

/* Frames come in the order of their names, numbers in them by value. Returns an exit code and has
 * said what is wrong unless it is 0; free it in any case. */
int video_files_read(video_files *out, const char *path);
void video_files_free(video_files *files);

#endif
