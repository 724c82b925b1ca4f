/* SPDX-License-Identifier: Apache-2.0 */
/* terminal.c - see term.h. */
#include "cli/term/terminal.h"

#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

enum { NARROWEST = 20, WIDEST = 1000, USUAL = 80 };

static struct {
    bool utf8;
    bool color[3]; /* by descriptor */
    bool progress;
    bool quiet;
    uint64_t verbose;
    volatile bool silent; /* `loud` is how the terminal was */
    struct termios loud;
} facts;

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

static bool wants_color(int fd, cli_color color)
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
    facts.utf8 = strcasecmp(nl_langinfo(CODESET), "UTF-8") == 0;
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++)
        facts.color[fd] = wants_color(fd, (cli_color)common->color);
    facts.quiet = common->quiet;
    facts.verbose = common->verbose;
    facts.progress = term_capable(STDERR_FILENO) && !common->quiet && !common->no_progress;
}

unsigned term_columns(int fd)
{
    const char *said = getenv("COLUMNS");
    long columns = said != NULL ? strtol(said, NULL, 10) : 0;
    struct winsize size;
    if (columns <= 0 && isatty(fd) == 1 && ioctl(fd, TIOCGWINSZ, &size) == 0)
        columns = size.ws_col;
    if (columns <= 0)
        return USUAL;
    return columns < NARROWEST ? NARROWEST : columns > WIDEST ? WIDEST : (unsigned)columns;
}

bool term_utf8(void)
{
    return facts.utf8;
}

bool term_color(int fd)
{
    return facts.color[fd];
}

bool term_progress(void)
{
    return facts.progress;
}

bool term_quiet(void)
{
    return facts.quiet;
}

uint64_t term_verbose(void)
{
    return facts.verbose;
}

const char *term_code(int fd, term_style style)
{
    static const char *const codes[] = {
        [TERM_PLAIN] = "\033[0m",
        [TERM_BOLD] = "\033[1m",
        [TERM_DIM] = "\033[2m",
        [TERM_RED] = "\033[31m",
    };
    return facts.color[fd] ? codes[style] : "";
}

void term_echo(bool on)
{
    if (on && facts.silent) {
        tcsetattr(STDIN_FILENO, TCSANOW, &facts.loud);
        facts.silent = false;
    } else if (!on && !facts.silent && tcgetattr(STDIN_FILENO, &facts.loud) == 0) {
        struct termios wanted = facts.loud;
        wanted.c_lflag &= ~(tcflag_t)ECHO;
        wanted.c_lflag |= NOFLSH; /* Ctrl-C must not throw away what is on its way to the screen */
        facts.silent = true;
        tcsetattr(STDIN_FILENO, TCSANOW, &wanted);
    }
}
