/* SPDX-License-Identifier: Apache-2.0 */
/*
 * media_files.h - image and video files of messages (--image, --video, /image, /video), decoded and
 * encoded.
 *
 * Files are decoded in a separate process (media/sandbox) and encoded by the model's vision encoder
 * when they are added, so errors are reported at once.
 *
 * Functions that return int return an exit code and have reported the error unless it is 0.
 */
#ifndef MOTE_CLI_LOAD_MEDIA_FILES_H
#define MOTE_CLI_LOAD_MEDIA_FILES_H

#include "base/str.h"
#include "cli/args/command.h"
#include "media/decode/resize.h"
#include "store/mmproj.h"

#include <mote.h>
#include <mote_chat.h>

struct fork_server;

/* Flags about images and videos. */
typedef struct media_options {
    flag_list image;
    flag_list video;
    double fps; /* of videos; 0: as stored in the file */
    const char *mmproj;
    uint64_t image_tokens; /* maximum per image, or per video */
} media_options;

/* Default of --image-tokens, as a string. */
#define MEDIA_FILES_TOKENS          MEDIA_FILES_STRING(MEDIA_DEFAULT_TOKENS)
#define MEDIA_FILES_STRING(number)  MEDIA_FILES_STRING_(number)
#define MEDIA_FILES_STRING_(digits) #digits

/* One file and its encoded images. */
typedef struct media_file {
    char *path;
    bool video;
    uint32_t width, height; /* after resizing for the encoder */
    size_t tokens;
    mote_image **images; /* [n] */
    double *seconds;     /* [n], timestamps of a video */
    size_t n;
    size_t message;        /* index of the message that contains it, once sent */
    uint64_t image_tokens; /* of its media_options */
    double fps;
} media_file;

enum { MEDIA_FILES_ATTACHED = FLAG_LIST_MAX }; /* per message, at most */

/* In the order of their messages. Entries from `sent` on are attached to the next message. */
typedef struct media_files {
    struct fork_server *fork_server;
    media_file *list; /* [n] */
    size_t n, room;
    size_t sent;
} media_files;

/* --image or --video is given. */
bool media_files_wanted(const media_options *o);
/* Starts the decoder process. Must run before threads are created. */
int media_files_start(media_files *p);
/* The message for a model without a vision encoder. */
extern const char media_files_no_encoder[];
/* Adds all files of the flags. `threads` is for the vision encoder; 0: one per core. */
int media_files_load(media_files *p, const mote_model *model, const media_options *o,
                     uint32_t threads);
/* Adds one file. */
int media_files_add(media_files *p, const char *path, bool video, const mote_model *model,
                    const media_options *o, uint32_t threads);

/* The attached files, as a message needs them; returns their number. Valid until a file is
 * added. */
size_t media_files_attached(const media_files *p, mote_media out[MEDIA_FILES_ATTACHED]);
/* The same for the files of a message that was sent. */
size_t media_files_of(const media_files *p, size_t message, mote_media out[MEDIA_FILES_ATTACHED]);
/* The attached files belong to message number `message` from now on. */
void media_files_mark_sent(media_files *p, size_t message);
/* Attaches the files of message number `message` and of later ones again. */
void media_files_reattach(media_files *p, size_t message);
/* Frees the files of message number `messages` and of later ones; attached files stay. */
void media_files_drop_after(media_files *p, size_t messages);
/* Frees all but the first n files. No conversation may use them any more. */
void media_files_truncate(media_files *p, size_t n);
void media_files_free(media_files *p);

/* Writes "images": [{"w", "h", "tokens"}] into the open JSON object. */
void media_files_write_json(const media_files *p, strbuf *j);

#endif
