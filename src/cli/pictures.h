/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pictures.h - what a message shows: files on the command line to pictures of the model.
 *
 * Functions return an exit code and have said what is wrong unless it is 0.
 */
#ifndef MOTE_CLI_PICTURES_H
#define MOTE_CLI_PICTURES_H

#include "cli/json_out.h"
#include "cli/run.h"
#include "media/fit.h"

struct media_nursery;

/* One file: as it was seen, and what stands for it. */
typedef struct shown {
    char *path;
    bool film;
    uint32_t width, height; /* as it was given to the model */
    size_t tokens;
    mote_picture **pictures; /* [n] */
    double *seconds;         /* [n], of a film */
    size_t n;
    size_t message; /* that shows it, if it was sent */
} shown;

enum { PICTURES_ATTACHED = FLAG_LIST_MAX }; /* to one message, at most */

/* In the order of the messages that show them; behind `sent` what the next one will. */
typedef struct pictures {
    struct media_nursery *nursery;
    shown *list; /* [n] */
    size_t n, room;
    size_t sent;
} pictures;

/* Does the command show anything? */
bool pictures_wanted(const run_options *o);
/* Starts the process that decodes. */
int pictures_start(pictures *p);
/* What to say of a model that cannot see. */
extern const char pictures_blind[];
/* --image-tokens, unless it is given. */
#define PICTURES_TOKENS           PICTURES_SPELLED(MEDIA_USUAL_TOKENS)
#define PICTURES_SPELLED(number)  PICTURES_SPELLED_(number)
#define PICTURES_SPELLED_(digits) #digits
/* Decodes and looks at everything that the flags name. */
int pictures_see(pictures *p, const mote_model *model, const run_options *o);
/* Decodes and looks at one more file. */
int pictures_add(pictures *p, const char *path, bool film, const mote_model *model,
                 const run_options *o);

/* What is attached and not sent, as a message wants it; returns how many. The view lives until
 * something is added. */
size_t pictures_attached(const pictures *p, mote_media out[PICTURES_ATTACHED]);
/* Message number `message` shows what was attached. */
void pictures_send(pictures *p, size_t message);
/* Those of message number `message` and later ones are attached again. */
void pictures_take_back(pictures *p, size_t message);
/* Those of later messages are dropped; what is attached stays. */
void pictures_forget(pictures *p, size_t messages);
/* All but the first n are dropped. No conversation may show them any more. */
void pictures_drop(pictures *p, size_t n);
void pictures_free(pictures *p);

/* "images": [{"w", "h", "tokens"}] */
void pictures_write(const pictures *p, json *j);

#endif
