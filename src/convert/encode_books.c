/* SPDX-License-Identifier: Apache-2.0 */
/* encode_books.c - see encode_books.h. */
#include "convert/encode_books.h"

#include "quant/grids.h"

#include <assert.h>
#include <string.h>

enum { POINTS_IQ2 = 6561, POINTS_IQ3 = 4096, MAX_ENTRIES = 2048 };

/* Room for the lists of all points, exactly. */
enum {
    LISTS_IQ2_XXS = 119462,
    LISTS_IQ2_XS = 187770,
    LISTS_IQ2_S = 50253,
    LISTS_IQ3_XXS = 22825,
    LISTS_IQ3_S = 28317,
    LISTS_IQ1 = 332234
};

#define BOOK_MEMORY(name, entries, dims, points, lists)                                            \
    static uint8_t name##_levels[(entries) * (dims)];                                              \
    static int32_t name##_map[points];                                                             \
    static uint16_t name##_lists[lists];

BOOK_MEMORY(iq2_xxs, 256, 8, POINTS_IQ2, LISTS_IQ2_XXS)
BOOK_MEMORY(iq2_xs, 512, 8, POINTS_IQ2, LISTS_IQ2_XS)
BOOK_MEMORY(iq2_s, 1024, 8, POINTS_IQ2, LISTS_IQ2_S)
BOOK_MEMORY(iq3_xxs, 256, 4, POINTS_IQ3, LISTS_IQ3_XXS)
BOOK_MEMORY(iq3_s, 512, 4, POINTS_IQ3, LISTS_IQ3_S)
BOOK_MEMORY(iq1, 2048, 8, POINTS_IQ2, LISTS_IQ1)

#define BOOK(name, dims, levels, entries, distances, points, lists)                                \
    {                                                                                              \
        dims, levels, entries, distances, points, name##_levels, name##_map, name##_lists, lists,  \
            false                                                                                  \
    }

static encode_book books[BOOK_N] = {
    [BOOK_IQ2_XXS] = BOOK(iq2_xxs, 8, 3, 256, 2, POINTS_IQ2, LISTS_IQ2_XXS),
    [BOOK_IQ2_XS] = BOOK(iq2_xs, 8, 3, 512, 2, POINTS_IQ2, LISTS_IQ2_XS),
    [BOOK_IQ2_S] = BOOK(iq2_s, 8, 3, 1024, 1, POINTS_IQ2, LISTS_IQ2_S),
    [BOOK_IQ3_XXS] = BOOK(iq3_xxs, 4, 8, 256, 2, POINTS_IQ3, LISTS_IQ3_XXS),
    [BOOK_IQ3_S] = BOOK(iq3_s, 4, 8, 512, 3, POINTS_IQ3, LISTS_IQ3_S),
    [BOOK_IQ1] = BOOK(iq1, 8, 3, 2048, 3, POINTS_IQ2, LISTS_IQ1),
};

/* Level of value i of an entry; grids.h has magnitudes. */
static uint8_t grid_level(encode_book_id id, int entry, int i)
{
    const int shift = 8 * i;
    switch (id) {
    case BOOK_IQ2_XXS: return (uint8_t)((quant_grid_iq2_xxs[entry] >> shift & 255) / 17);
    case BOOK_IQ2_XS: return (uint8_t)((quant_grid_iq2_xs[entry] >> shift & 255) / 17);
    case BOOK_IQ2_S: return (uint8_t)((quant_grid_iq2_s[entry] >> shift & 255) / 17);
    case BOOK_IQ3_XXS: return (uint8_t)((quant_grid_iq3_xxs[entry] >> shift & 255) / 8);
    case BOOK_IQ3_S: return (uint8_t)((quant_grid_iq3_s[entry] >> shift & 255) / 2);
    default: return (uint8_t)((quant_grid_iq1[entry] >> shift & 255) / 8 - 15);
    }
}

/* Distances of all entries from a point, in units of one level. */
static void point_distances(const encode_book *b, int point, uint16_t *out)
{
    int levels[BOOK_MAX_DIMS];
    for (int i = 0; i < b->dims; i++, point /= b->levels)
        levels[i] = point % b->levels;
    for (int e = 0; e < b->entries; e++) {
        int sum = 0;
        for (int i = 0; i < b->dims; i++) {
            const int diff = b->entry_levels[e * b->dims + i] - levels[i];
            sum += diff * diff;
        }
        out[e] = (uint16_t)sum;
    }
}

/* Appends the list of a point at `at`; returns its end. */
static int list_append(encode_book *b, const uint16_t *distances, int at)
{
    int n = 0, beyond = -1;
    for (int k = 0; k < b->distances; k++) {
        int next = UINT16_MAX;
        for (int e = 0; e < b->entries; e++)
            if (distances[e] > beyond && distances[e] < next)
                next = distances[e];
        for (int e = 0; e < b->entries && next < UINT16_MAX; e++)
            if (distances[e] == next) {
                assert(at + 1 + n < b->lists_room);
                b->lists[at + 1 + n++] = (uint16_t)e;
            }
        beyond = next;
    }
    b->lists[at] = (uint16_t)n;
    return at + 1 + n;
}

static void book_build(encode_book *b, encode_book_id id)
{
    uint16_t distances[MAX_ENTRIES];
    int end = 0;
    for (int point = 0; point < b->points; point++)
        b->map[point] = -1;
    for (int e = 0; e < b->entries; e++) {
        uint8_t *levels = b->entry_levels + e * b->dims;
        for (int i = 0; i < b->dims; i++)
            levels[i] = grid_level(id, e, i);
        b->map[encode_book_point(b, levels)] = e;
    }
    for (int point = 0; point < b->points; point++) {
        if (b->map[point] >= 0)
            continue;
        b->map[point] = -1 - end;
        point_distances(b, point, distances);
        end = list_append(b, distances, end);
    }
    b->ready = true;
}

const encode_book *encode_book_get(encode_book_id id)
{
    encode_book *b = &books[id];
    if (!b->ready)
        book_build(b, id);
    return b;
}
