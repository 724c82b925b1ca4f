/* SPDX-License-Identifier: Apache-2.0 */
/* progress.c - see progress.h. */
#include "cli/term/progress.h"

#include "base/os.h"
#include "cli/term/terminal.h"
#include "cli/term/text.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { BAR_CELLS = 24, LINE_BYTES = 512 };

/* Work shorter than this shows nothing, a redraw more often than this is not seen. */
static const double first_draw_after = 0.25, redraw_after = 0.1;

static bool line_on_screen;

void progress_begin(progress *p, const char *label, progress_unit unit, uint64_t total)
{
    *p = (progress){label, unit, total, os_now(), 0};
}

/* Columns of text whose characters are all one column wide. */
static size_t width_of(const char *text)
{
    size_t width = 0;
    for (; *text != '\0'; text++)
        width += ((unsigned char)*text & 0xC0) != 0x80;
    return width;
}

/* Appends a part if the line stays within its columns. */
static bool append(char *line, size_t room, unsigned columns, const char *part)
{
    size_t at = strlen(line);
    if (width_of(line) + width_of(part) > columns || at + strlen(part) >= room)
        return false;
    memcpy(line + at, part, strlen(part) + 1);
    return true;
}

static void write_bar(char *bar, size_t room, double share, bool utf8)
{
    size_t full = (size_t)(share * BAR_CELLS + 0.5), at = 0;
    at += (size_t)snprintf(bar, room, utf8 ? "  " : "  [");
    for (size_t i = 0; i < BAR_CELLS; i++) {
        const char *cell = i < full ? (utf8 ? "█" : "#") : (utf8 ? "░" : "-");
        at += (size_t)snprintf(bar + at, room - at, "%s", cell);
    }
    snprintf(bar + at, room - at, utf8 ? "" : "]");
}

static void write_amount(char *part, size_t room, const progress *p, uint64_t done)
{
    char a[TEXT_NUMBER_BYTES], b[TEXT_NUMBER_BYTES];
    if (p->unit == PROGRESS_BYTES)
        snprintf(part, room, "  %s / %s", text_bytes(a, done), text_bytes(b, p->total));
    else
        snprintf(part, room, "  %s / %s tokens", text_count(a, done), text_count(b, p->total));
}

static void write_rate(char *part, size_t room, const progress *p, double per_second)
{
    char a[TEXT_NUMBER_BYTES];
    if (p->unit == PROGRESS_BYTES)
        snprintf(part, room, "   %s/s", text_bytes(a, (uint64_t)per_second));
    else
        snprintf(part, room, "   %s t/s", text_rate(a, per_second));
}

/* Whole seconds: a digit that changes ten times a second tells nothing. */
static void write_left(char *part, size_t room, double seconds)
{
    char a[TEXT_NUMBER_BYTES];
    if (seconds < 60)
        snprintf(part, room, "   %.0f s left", seconds);
    else
        snprintf(part, room, "   %s left", text_seconds(a, seconds));
}

void progress_line(char *line, size_t room, const progress *p, uint64_t done, double seconds,
                   unsigned columns, bool utf8)
{
    line[0] = '\0';
    if (!append(line, room, columns, p->label))
        return;
    double share = p->total > 0 ? (double)done / (double)p->total : 0;
    share = share > 1 ? 1 : share;
    char part[LINE_BYTES];
    write_bar(part, sizeof part, share, utf8);
    /* On a narrow terminal the figures are worth more than the bar. */
    if (columns >= 70)
        append(line, room, columns, part);
    write_amount(part, sizeof part, p, done);
    if (!append(line, room, columns, part) || seconds <= 0 || done == 0)
        return;
    double per_second = (double)done / seconds;
    write_rate(part, sizeof part, p, per_second);
    if (!append(line, room, columns, part))
        return;
    write_left(part, sizeof part,
               (double)(p->total - (done < p->total ? done : p->total)) / per_second);
    append(line, room, columns, part);
}

void progress_at(progress *p, uint64_t done)
{
    if (!term_progress())
        return;
    double now = os_now();
    if (now - p->started < first_draw_after || now - p->drawn < redraw_after)
        return;
    p->drawn = now;
    char line[LINE_BYTES];
    /* The last column stays free: writing there makes some terminals wrap. */
    progress_line(line, sizeof line, p, done, now - p->started, term_columns(STDERR_FILENO) - 1,
                  term_utf8());
    progress_show(line);
}

void progress_show(const char *line)
{
    if (!term_progress())
        return;
    fprintf(stderr, "\r%s\033[K", line);
    fflush(stderr);
    line_on_screen = true;
}

void progress_wipe(void)
{
    if (!line_on_screen)
        return;
    fputs("\r\033[K", stderr);
    fflush(stderr);
    line_on_screen = false;
}

void progress_end(progress *p)
{
    p->drawn = 0;
    progress_wipe();
}
