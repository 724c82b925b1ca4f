/* SPDX-License-Identifier: Apache-2.0 */
/* sight_int.h - between the files of sight: those who wait, what is kept, one look. */
#ifndef MOTE_SERVER_SIGHT_SIGHT_INT_H
#define MOTE_SERVER_SIGHT_SIGHT_INT_H

#include "server/door/digest.h"
#include "server/sight/sight.h"

#include <pthread.h>

enum { SIGHT_MOST_THREADS = 16 };

/* A file that was seen, or is being looked at. */
typedef struct sight_entry {
    sight_seen seen; /* first: what others have of it */
    digest key;
    bool making; /* somebody looks at it just now */
    uint32_t holders;
    uint64_t bytes, used;
    struct sight_entry *next;
} sight_entry;

struct sight {
    sight_options options;
    uint64_t embedding; /* numbers in a row */
    pthread_t threads[SIGHT_MOST_THREADS];
    uint32_t n_threads;
    pthread_mutex_t lock; /* of all that follows */
    pthread_cond_t work_is;
    pthread_cond_t made; /* an entry is no longer being made */
    bool stop;
    sight_request *line, **line_end;
    sight_request *over, **over_end;
    sight_entry *entries;
    uint64_t clock;
    sight_figures figures;
};

/* ---- sight_keep.c ---- */

/* One of this key, held once more; if there was none, the caller's to be made (*mine). NULL: no
 * memory. */
sight_entry *sight_hold(sight *s, const digest *key, bool *mine);
/* Room for an entry that is being made. false: others hold too much. */
bool sight_make_room(sight *s, sight_entry *e, uint64_t bytes);
/* It is made. */
void sight_made(sight *s, sight_entry *e);
/* It will not be. */
void sight_give_up(sight *s, sight_entry *e);
void sight_forget_all(sight *s);

/* ---- sight_look.c ---- */

/* Looks at the next item of a request; what is wrong is in its error. */
void sight_look(sight *s, sight_request *r);

#endif
