/* SPDX-License-Identifier: Apache-2.0 */
/* wrap.c - see wrap.h. */
#include "cli/chat/wrap.h"

#include "cli/term/text.h"

#include <string.h>
#include <utf8proc.h>

enum { TAB = 8, FENCE_TICKS = 3 };

void wrap_begin(wrap *w, cli_out *to, unsigned (*columns)(void))
{
    *w = (wrap){.to = to, .columns = columns};
}

unsigned wrap_char_columns(uint32_t code)
{
    int width = utf8proc_charwidth((utf8proc_int32_t)code);
    if (width > 0)
        return (unsigned)width;
    /* The library gives nothing to characters it does not know; terminals give them a box. */
    utf8proc_category_t kind = utf8proc_category((utf8proc_int32_t)code);
    bool joins = kind == UTF8PROC_CATEGORY_MN || kind == UTF8PROC_CATEGORY_ME ||
                 kind == UTF8PROC_CATEGORY_CF;
    return joins ? 0 : 1;
}

static void new_line(wrap *w)
{
    out_write(w->to, "\n", 1);
    w->column = 0;
    w->blanks = 0;
}

/* Writes the word, on the next line if this one has no room for it. */
static void place_word(wrap *w)
{
    if (w->n_word == 0)
        return;
    unsigned columns = w->columns != NULL ? w->columns() : 0;
    if (columns > 0 && w->column > 0 && w->column + w->blanks + w->word_columns > columns)
        new_line(w);
    out_spaces(w->to, w->blanks);
    out_write(w->to, w->word, w->n_word);
    w->column += w->blanks + w->word_columns;
    w->blanks = 0;
    w->n_word = 0;
    w->word_columns = 0;
}

static void add_to_word(wrap *w, const char *shown, size_t n_shown, unsigned columns)
{
    bool longer_than_a_line = w->columns != NULL && w->word_columns + columns > w->columns();
    if (longer_than_a_line || w->n_word + n_shown > WRAP_WORD_BYTES)
        place_word(w);
    memcpy(w->word + w->n_word, shown, n_shown);
    w->n_word += n_shown;
    w->word_columns += columns;
}

static void end_line(wrap *w)
{
    place_word(w);
    new_line(w);
    w->inside_line = false;
    w->ticks = 0;
}

/* Looks for ``` at the beginning of a line, behind blanks or none. */
static void watch_for_fence(wrap *w, uint32_t code)
{
    if (w->inside_line || code == ' ')
        return;
    if (code != '`') {
        w->inside_line = true;
        return;
    }
    if (++w->ticks < FENCE_TICKS)
        return;
    w->inside_line = true;
    w->fence = !w->fence;
}

static void add_blank(wrap *w, uint32_t code)
{
    place_word(w);
    unsigned at = w->column + w->blanks;
    w->blanks += code == '\t' ? TAB - at % TAB : 1;
    if (w->fence) { /* blanks at the end of a line of code are part of it */
        out_spaces(w->to, w->blanks);
        w->column += w->blanks;
        w->blanks = 0;
    }
}

static void add_char(wrap *w, uint32_t code, const char *shown, size_t n_shown, bool escaped)
{
    unsigned columns = escaped ? (unsigned)n_shown : wrap_char_columns(code);
    watch_for_fence(w, code);
    if (w->fence) {
        place_word(w);
        out_write(w->to, shown, n_shown);
        w->column += columns;
        return;
    }
    bool alone = columns == 2 && !escaped;
    if (alone)
        place_word(w);
    add_to_word(w, shown, n_shown, columns);
    if (alone)
        place_word(w);
}

void wrap_text(wrap *w, const char *text, size_t n)
{
    while (n > 0) {
        uint32_t code = 0;
        text_char(text, n, &code);
        char shown[TEXT_SHOWN_BYTES];
        size_t n_shown;
        size_t taken = text_show(text, n, TEXT_LINES, shown, &n_shown);
        if (code == '\n')
            end_line(w);
        else if (code == ' ' || code == '\t')
            add_blank(w, code);
        else
            add_char(w, code, shown, n_shown, n_shown != taken || memcmp(shown, text, taken) != 0);
        text += taken;
        n -= taken;
    }
}

void wrap_end(wrap *w)
{
    place_word(w);
}
