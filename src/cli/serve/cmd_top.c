/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_top.c - `mote top`: live statistics of a running server, on a screen with key commands. A
 * pipe gets one JSON line per sample.
 */
#include "base/os.h"
#include "cli/args/command.h"
#include "cli/serve/server_client.h"
#include "cli/serve/top_view.h"
#include "cli/term/output.h"
#include "cli/term/terminal.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

typedef struct top_options {
    double interval;
    uint64_t count;
    client_options remote;
} top_options;

static const cli_flag flags[] = {
    {.name = "interval",
     .letter = 'd',
     .kind = FLAG_NUMBER,
     .value = "SECONDS",
     .initial = "1",
     .min = 0.1,
     .max = 3600,
     .once = true,
     .at = offsetof(top_options, interval),
     .help = "time between two samples"},
    {.name = "count",
     .letter = 'n',
     .kind = FLAG_COUNT,
     .value = "N",
     .max = 1e9,
     .shown = "unlimited",
     .once = true,
     .at = offsetof(top_options, count),
     .help = "exit after this many samples"},
};

static const flag_group groups[] = {
    FLAG_GROUP("Sampling", flags, 0),
    CLIENT_FLAG_GROUP(offsetof(top_options, remote)),
};

typedef struct top {
    const top_options *options;
    server_client remote;
    cli_out *out;
    top_view view;
    struct termios saved;
    bool screen; /* stdin and stdout are terminals */
    bool quit;
} top;

/* ---- the terminal ---- */

/* Keys are read one by one without echo; Ctrl-C stays a signal. */
static void top_open_screen(top *t)
{
    struct termios keys;
    if (tcgetattr(STDIN_FILENO, &t->saved) != 0) {
        t->screen = false;
        return;
    }
    keys = t->saved;
    keys.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    keys.c_cc[VMIN] = 0;
    keys.c_cc[VTIME] = 0;
    tcsetattr(STDIN_FILENO, TCSANOW, &keys);
    out_text(t->out, "\x1b[?1049h\x1b[?25l");
}

static void top_close_screen(top *t)
{
    if (!t->screen)
        return;
    out_text(t->out, "\x1b[?25h\x1b[?1049l");
    out_flush(t->out);
    tcsetattr(STDIN_FILENO, TCSANOW, &t->saved);
}

static void top_redraw(top *t)
{
    strbuf text = {0};
    struct winsize size;
    t->view.columns = term_columns(STDOUT_FILENO);
    t->view.rows =
        ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 2 ? size.ws_row - 1u : 23;
    t->view.utf8 = term_utf8();
    top_draw(&text, &t->view);
    /* Clears the rest of each line instead of the screen, which would flicker. */
    out_text(t->out, "\x1b[H");
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] == '\n')
            out_text(t->out, "\x1b[K");
        out_write(t->out, &text.p[i], 1);
    }
    out_text(t->out, "\x1b[J");
    out_flush(t->out);
    strbuf_fini(&text);
}

static void top_on_key(top *t, char key)
{
    switch (key) {
    case 'q':
    case 'Q': t->quit = true; break;
    case 'p': t->view.paused = !t->view.paused; break;
    case 's': t->view.sort = (t->view.sort + 1) % TOP_SORTS; break;
    default: break;
    }
}

/* Waits for the next sample; keys are handled at once. */
static void top_wait(top *t, double until)
{
    while (!t->quit && !interrupt_pending()) {
        const double left = until - os_now();
        char keys[16];
        struct pollfd from = {.fd = t->screen ? STDIN_FILENO : -1, .events = POLLIN};
        if (left <= 0)
            return;
        if (poll(&from, 1, (int)(left * 1000) + 1) <= 0 || !t->screen)
            continue;
        const ssize_t n = read(STDIN_FILENO, keys, sizeof keys);
        if (n <= 0) {
            t->quit = true;
            return;
        }
        for (ssize_t i = 0; i < n; i++)
            top_on_key(t, keys[i]);
        top_redraw(t);
    }
}

/* ---- samples ---- */

static int top_take_sample(top *t)
{
    strbuf body = {0};
    json_doc *doc = NULL;
    mote_error err;
    int code = client_get(&t->remote, "/v1/status", &body);
    if (code == CLI_DONE && !t->screen) {
        out_write(t->out, body.p, body.n);
        out_text(t->out, "\n");
        t->quit = !out_flush(t->out);
    } else if (code == CLI_DONE && json_doc_read(&doc, strbuf_view(&body), &err) != MOTE_OK) {
        code = msg_error(&err);
    } else if (code == CLI_DONE) {
        json_doc_free(t->view.before.doc);
        t->view.before = t->view.now;
        t->view.now = (top_sample){doc, os_now()};
        top_redraw(t);
    }
    strbuf_fini(&body);
    return code;
}

static int top_watch(top *t)
{
    int code = CLI_DONE;
    for (uint64_t n = 0; code == CLI_DONE && !t->quit && !interrupt_pending(); n++) {
        const double next = os_now() + t->options->interval;
        if (t->options->count > 0 && n == t->options->count)
            break;
        if (!t->view.paused)
            code = top_take_sample(t);
        if (code == CLI_DONE && (t->options->count == 0 || n + 1 < t->options->count))
            top_wait(t, next);
    }
    return code;
}

static int top_run(const cli_call *call)
{
    top t = {.options = call->options, .out = call->out};
    strbuf first = {0};
    int code = client_open(&t.remote, &t.options->remote);
    /* A first request before the screen is switched, so that an error message stays visible. */
    if (code == CLI_DONE)
        code = client_get(&t.remote, "/v1/status", &first);
    strbuf_fini(&first);
    if (code != CLI_DONE)
        return code;
    t.screen = !call->common.json && term_capable(STDOUT_FILENO) && isatty(STDIN_FILENO) == 1;
    if (t.screen)
        top_open_screen(&t);
    code = top_watch(&t);
    top_close_screen(&t);
    json_doc_free(t.view.now.doc);
    json_doc_free(t.view.before.doc);
    return code == CLI_DONE && interrupt_pending() ? interrupt_exit_code() : code;
}

const cli_command cmd_top = {
    .name = "top",
    .section = "Server",
    .summary = "live statistics of a running server",
    .usage = "",
    .groups = groups,
    .n_groups = sizeof groups / sizeof *groups,
    .options_bytes = sizeof(top_options),
    .about =
        "Shows requests, speed, queue and memory of a running `mote serve`. Keys: q quit, p pause, "
        "s sort. A pipe gets one JSON line per sample.\n"
        "The API key needs the scope `metrics`.",
    .examples = "mote top\nmote top --interval 5 | jq .decode",
    .run = top_run,
};
