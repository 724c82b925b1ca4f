/* SPDX-License-Identifier: Apache-2.0 */
/*
 * media_files.h - what a message shows: files on the command line to pictures of the model.
 *
 * Functions return an exit code and have said what is wrong unless it is 0.
 */
#ifndef MOTE_CLI_LOAD_MEDIA_FILES_H
#define MOTE_CLI_LOAD_MEDIA_FILES_H

#include "cli/term/json_out.h"
#include "cli/run/run.h"
#include "media/decode/resize.h"

struct fork_server;

/* One file: as it was seen, and what stands for it. */
typedef struct shown {
    char *path;
    bool video;
    uint32_t width, height; /* as it was given to the model */
    size_t tokens;
    mote_image **images; /* [n] */
    double *seconds;     /* [n], of a film */
    size_t n;
    size_t message; /* that shows it, if it was sent */
} shown;

enum { IMAGES_ATTACHED = FLAG_LIST_MAX }; /* to one message, at most */

/* In the order of the messages that show them; behind `sent` what the next one will. */
typedef struct images {
    struct fork_server *fork_server;
    shown *list; /* [n] */
    size_t n, room;
    size_t sent;
} images;

/* Does the command show anything? */
bool images_wanted(const run_options *o);
/* Starts the process that decodes. */
int images_start(images *p);
/* What to say of a model that cannot see. */
extern const char images_blind[];
/* --image-tokens, unless it is given. */
#define IMAGES_TOKENS           IMAGES_SPELLED(MEDIA_DEFAULT_TOKENS)
#define IMAGES_SPELLED(number)  IMAGES_SPELLED_(number)
#define IMAGES_SPELLED_(digits) #digits
/* Decodes and looks at everything that the flags name. */
int images_see(images *p, const mote_model *model, const run_options *o);
/* Decodes and looks at one more file. */
int images_add(images *p, const char *path, bool video, const mote_model *model,
               const run_options *o);

/* What is attached and not sent, as a message wants it; returns how many. The view lives until
 * something is added. */
size_t images_attached(const images *p, mote_media out[IMAGES_ATTACHED]);
/* Message number `message` shows what was attached. */
void images_send(images *p, size_t message);
/* Those of message number `message` and later ones are attached again. */
void images_take_back(images *p, size_t message);
/* Those of later messages are dropped; what is attached stays. */
void images_forget(images *p, size_t messages);
/* All but the first n are dropped. No conversation may show them any more. */
void images_drop(images *p, size_t n);
void images_free(images *p);

/* "images": [{"w", "h", "tokens"}] */
void images_write(const images *p, json *j);

#endif
