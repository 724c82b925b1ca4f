/* SPDX-License-Identifier: Apache-2.0 */
/* terminal.c - capabilities of the terminal and the progress line; see terminal.h. */
#include "cli/term/terminal.h"

#include "base/os.h"
#include "cli/term/text.h"

#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

enum { MIN_COLUMNS = 20, MAX_COLUMNS = 1000, DEFAULT_COLUMNS = 80 };

static struct {
    bool utf8;
    bool color[3]; /* by descriptor */
    bool progress;
    bool quiet;
    uint64_t verbose;
    volatile bool echo_off;
    struct termios saved; /* settings before echo was switched off */
} term;

static bool env_is_set(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0';
}

bool term_capable(int fd)
{
    const char *kind = getenv("TERM");
    return isatty(fd) == 1 && kind != NULL && kind[0] != '\0' && strcmp(kind, "dumb") != 0;
}

static bool term_wants_color(int fd, cli_color color)
{
    if (color != COLOR_AUTO)
        return color == COLOR_ALWAYS;
    if (env_is_set("NO_COLOR"))
        return false;
    return term_capable(fd) || (env_is_set("CLICOLOR_FORCE") && getenv("CLICOLOR_FORCE")[0] != '0');
}

void term_init(const cli_common *common)
{
    setlocale(LC_CTYPE, "");
    term.utf8 = strcasecmp(nl_langinfo(CODESET), "UTF-8") == 0;
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++)
        term.color[fd] = term_wants_color(fd, (cli_color)common->color);
    term.quiet = common->quiet;
    term.verbose = common->verbose;
    term.progress = term_capable(STDERR_FILENO) && !common->quiet && !common->no_progress;
}

unsigned term_columns(int fd)
{
    const char *value = getenv("COLUMNS");
    long columns = value != NULL ? strtol(value, NULL, 10) : 0;
    struct winsize size;
    if (columns <= 0 && isatty(fd) == 1 && ioctl(fd, TIOCGWINSZ, &size) == 0)
        columns = size.ws_col;
    if (columns <= 0)
        return DEFAULT_COLUMNS;
    return columns < MIN_COLUMNS   ? MIN_COLUMNS
           : columns > MAX_COLUMNS ? MAX_COLUMNS
                                   : (unsigned)columns;
}

bool term_utf8(void)
{
    return term.utf8;
}

bool term_color(int fd)
{
    return term.color[fd];
}

bool term_progress(void)
{
    return term.progress;
}

bool term_quiet(void)
{
    return term.quiet;
}

uint64_t term_verbose(void)
{
    return term.verbose;
}

const char *term_code(int fd, term_style style)
{
    static const char *const codes[] = {
        [TERM_PLAIN] = "\033[0m",
        [TERM_BOLD] = "\033[1m",
        [TERM_DIM] = "\033[2m",
        [TERM_RED] = "\033[31m",
    };
    return term.color[fd] ? codes[style] : "";
}

void term_echo(bool on)
{
    if (on && term.echo_off) {
        tcsetattr(STDIN_FILENO, TCSANOW, &term.saved);
        term.echo_off = false;
    } else if (!on && !term.echo_off && tcgetattr(STDIN_FILENO, &term.saved) == 0) {
        struct termios quiet = term.saved;
        quiet.c_lflag &= ~(tcflag_t)ECHO;
        quiet.c_lflag |= NOFLSH; /* Ctrl-C must not discard pending output */
        term.echo_off = true;
        tcsetattr(STDIN_FILENO, TCSANOW, &quiet);
    }
}

/* ---- the progress line ---- */

enum { BAR_CELLS = 24, LINE_BYTES = 512 };

static const double first_draw_after = 0.25, redraw_after = 0.1; /* seconds */

static bool progress_drawn;

void progress_begin(progress *p, const char *label, progress_unit unit, uint64_t from,
                    uint64_t total)
{
    *p = (progress){label, unit, from, total, os_now(), 0};
}

/* Every character is one column wide. */
static size_t progress_width(const char *text)
{
    size_t width = 0;
    for (; *text != '\0'; text++)
        width += ((unsigned char)*text & 0xC0) != 0x80;
    return width;
}

/* Appends a part if it fits. */
static bool progress_append(char *line, size_t room, unsigned columns, const char *part)
{
    size_t at = strlen(line);
    if (progress_width(line) + progress_width(part) > columns || at + strlen(part) >= room)
        return false;
    memcpy(line + at, part, strlen(part) + 1);
    return true;
}

void progress_bar(char *bar, size_t room, double share, bool utf8)
{
    size_t full = (size_t)(share * BAR_CELLS + 0.5), at = 0;
    at += (size_t)snprintf(bar, room, utf8 ? "  " : "  [");
    for (size_t i = 0; i < BAR_CELLS; i++) {
        const char *cell = i < full ? (utf8 ? "█" : "#") : (utf8 ? "░" : "-");
        at += (size_t)snprintf(bar + at, room - at, "%s", cell);
    }
    snprintf(bar + at, room - at, utf8 ? "" : "]");
}

static void progress_amount(char *part, size_t room, const progress *p, uint64_t done)
{
    char a[TEXT_NUMBER_BYTES], b[TEXT_NUMBER_BYTES];
    if (p->unit == PROGRESS_BYTES)
        snprintf(part, room, "  %s / %s", text_bytes(a, done), text_bytes(b, p->total));
    else
        snprintf(part, room, "  %s / %s tokens", text_count(a, done), text_count(b, p->total));
}

static void progress_rate(char *part, size_t room, const progress *p, double per_second)
{
    char a[TEXT_NUMBER_BYTES];
    if (p->unit == PROGRESS_BYTES)
        snprintf(part, room, "   %s/s", text_bytes(a, (uint64_t)per_second));
    else
        snprintf(part, room, "   %s t/s", text_rate(a, per_second));
}

/* Whole seconds: a digit that changes ten times a second is unreadable. */
static void progress_left(char *part, size_t room, double seconds)
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
    if (!progress_append(line, room, columns, p->label))
        return;
    double share = p->total > 0 ? (double)done / (double)p->total : 0;
    share = share > 1 ? 1 : share;
    char part[LINE_BYTES];
    progress_bar(part, sizeof part, share, utf8);
    /* On a narrow terminal the numbers are more useful than the bar. */
    if (columns >= 70)
        progress_append(line, room, columns, part);
    progress_amount(part, sizeof part, p, done);
    if (!progress_append(line, room, columns, part) || seconds <= 0 || done <= p->from)
        return;
    double per_second = (double)(done - p->from) / seconds;
    progress_rate(part, sizeof part, p, per_second);
    if (!progress_append(line, room, columns, part))
        return;
    progress_left(part, sizeof part,
                  (double)(p->total - (done < p->total ? done : p->total)) / per_second);
    progress_append(line, room, columns, part);
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
    /* The last column stays free: some terminals wrap after writing to it. */
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
    progress_drawn = true;
}

void progress_clear(void)
{
    if (!progress_drawn)
        return;
    fputs("\r\033[K", stderr);
    fflush(stderr);
    progress_drawn = false;
}

void progress_end(progress *p)
{
    p->drawn = 0;
    progress_clear();
}
