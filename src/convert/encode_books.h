/* SPDX-License-Identifier: Apache-2.0 */
/*
 * encode_books.h - code books of IQ1, IQ2 and IQ3 for the encoders: which entry is near a point.
 *
 * An entry has `dims` values, each one of `levels` levels; level l stands for 2 l + 1. A point is any
 * combination of levels. A point that is no entry has a list of the entries with the smallest
 * distances; the encoder takes the one with the smallest weighted error.
 */
#ifndef MOTE_CONVERT_ENCODE_BOOKS_H
#define MOTE_CONVERT_ENCODE_BOOKS_H

#include <stdbool.h>
#include <stdint.h>

enum { BOOK_MAX_DIMS = 8 };

typedef struct encode_book {
    int dims, levels, entries;
    int distances;         /* a list has the entries with this many different distances */
    int points;            /* levels ^ dims */
    uint8_t *entry_levels; /* [entries][dims] */
    int32_t *map;          /* [points]: an entry, or -1 - start of a list */
    uint16_t *lists;       /* number of entries, entries: nearest first, then by number */
    int lists_room;
    bool ready;
} encode_book;

typedef enum encode_book_id {
    BOOK_IQ2_XXS,
    BOOK_IQ2_XS,
    BOOK_IQ2_S,
    BOOK_IQ3_XXS,
    BOOK_IQ3_S,
    BOOK_IQ1, /* level l stands for l - 1 */
    BOOK_N
} encode_book_id;

/* Builds the book on the first call, in milliseconds. The first call of each book must not run at
 * the same time as another one. */
const encode_book *encode_book_get(encode_book_id id);

/* The number of a point. */
static inline int encode_book_point(const encode_book *b, const uint8_t *levels)
{
    int point = 0;
    for (int i = b->dims - 1; i >= 0; i--)
        point = point * b->levels + levels[i];
    return point;
}

#endif
