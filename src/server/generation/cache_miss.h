/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cache_miss.h - why a prompt was not reused from the prefix cache: the kind of the first
 * difference to an earlier prompt, and what the client should change.
 */
#ifndef MOTE_SERVER_GENERATION_CACHE_MISS_H
#define MOTE_SERVER_GENERATION_CACHE_MISS_H

#include "base/str.h"

#include <stdbool.h>

typedef enum miss_kind {
    MISS_IMAGE,
    MISS_TOOLS,
    MISS_THINKING,
    MISS_WHITESPACE,
    MISS_TIME,
    MISS_ID,
    MISS_NUMBER,
    MISS_CALL,
    MISS_SYSTEM,
    MISS_MESSAGE,
    MISS_PROMPT,
    MISS_NEW, /* there was no prompt to compare with */
    MISS_KINDS
} miss_kind;

/* The part of the prompt that holds the first difference. */
typedef enum miss_place {
    MISS_IN_PROMPT,
    MISS_IN_TOOLS,
    MISS_IN_SYSTEM,
    MISS_IN_MESSAGE
} miss_place;

/* A difference as miss_classify sees it. The texts are UTF-8. */
typedef struct miss_difference {
    miss_place place;
    str before;    /* common text in front of the difference */
    str had, got;  /* text of the earlier and of this prompt from the difference on */
    bool image;    /* an image begins here in one of them */
    bool thinking; /* a think block begins here in one of them, or it is inside one */
    bool call;     /* inside a tool call */
} miss_difference;

miss_kind miss_classify(const miss_difference *d);
/* "timestamp", "tools" ...: stable words for JSON. */
const char *miss_kind_name(miss_kind kind);
/* One sentence: what the client should change. */
const char *miss_advice(miss_kind kind);

#endif
