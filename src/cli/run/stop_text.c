/* SPDX-License-Identifier: Apache-2.0 */
/* stop_text.c - see stop_text.h. */
#include "cli/run/stop_text.h"

#include "base/mem.h"

#include <assert.h>
#include <string.h>

mote_status stop_text_init(stop_text *s, const flag_list *words, mote_error *err)
{
    *s = (stop_text){.words = words, .room = STOP_WORD_MAX + MOTE_PIECE_BYTES};
    for (size_t i = 0; i < words->n; i++) {
        size_t n = strlen(words->items[i]);
        if (n == 0 || n > STOP_WORD_MAX)
            return err_set(err, MOTE_E_ARG, "--stop takes 1 to %d bytes of text", STOP_WORD_MAX);
    }
    s->held = mem_new(s->room, 1);
    return s->held != NULL ? MOTE_OK : err_set(err, MOTE_E_MEMORY, "no memory for --stop");
}

void stop_text_fini(stop_text *s)
{
    mem_free(s->held);
    *s = (stop_text){0};
}

/* Bytes before the first stop word that is complete; n_held: there is none. */
static size_t find_stop(const stop_text *s)
{
    for (size_t at = 0; at < s->n_held; at++)
        for (size_t i = 0; i < s->words->n; i++) {
            size_t n = strlen(s->words->items[i]);
            if (n <= s->n_held - at && memcmp(s->held + at, s->words->items[i], n) == 0)
                return at;
        }
    return s->n_held;
}

/* Bytes before the first place where the rest of the text begins a stop word. */
static size_t find_beginning(const stop_text *s)
{
    for (size_t at = 0; at < s->n_held; at++)
        for (size_t i = 0; i < s->words->n; i++)
            if (strlen(s->words->items[i]) > s->n_held - at &&
                memcmp(s->held + at, s->words->items[i], s->n_held - at) == 0)
                return at;
    return s->n_held;
}

size_t stop_text_add(stop_text *s, const char *piece, size_t n, bool *stopped)
{
    assert(n <= s->room - s->n_held);
    if (n > 0)
        memcpy(s->held + s->n_held, piece, n);
    s->n_held += n;
    size_t before = find_stop(s);
    *stopped = before < s->n_held;
    return *stopped ? before : find_beginning(s);
}

void stop_text_shown(stop_text *s, size_t n)
{
    memmove(s->held, s->held + n, s->n_held - n);
    s->n_held -= n;
}
