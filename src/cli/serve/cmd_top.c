/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_top.c - `mote top`: a running server, live. On a terminal a screen that keys control; a pipe
 * gets one JSON line for each reading.
 */
#include "base/os.h"
#include "cli/args/commands.h"
#include "cli/term/interrupt.h"
#include "cli/serve/server_client.h"
#include "cli/term/output_messages.h"
#include "cli/term/terminal.h"
#include "cli/serve/top_view.h"

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
     .at = offsetof(top_options, interval),
     .help = "time between two readings"},
    {.name = "count",
     .letter = 'n',
     .kind = FLAG_COUNT,
     .value = "N",
     .max = 1e9,
     .shown = "no end",
     .at = offsetof(top_options, count),
     .help = "end after so many readings"},
};

static const flag_group groups[] = {
    FLAG_GROUP("How often", flags, 0),
    CLIENT_FLAG_GROUP(offsetof(top_options, remote)),
};

typedef struct top {
    const top_options *options;
    server_client remote;
    cli_out *out;
    top_view view;
    struct termios usual;
    bool screen; /* a terminal on both sides */
    bool quit;
} top;

/* ---- the terminal ---- */

/* Keys come one by one and are not shown; Ctrl-C stays a signal. */
static void take_screen(top *t)
{
    struct termios keys;
    if (tcgetattr(STDIN_FILENO, &t->usual) != 0) {
        t->screen = false;
        return;
    }
    keys = t->usual;
    keys.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    keys.c_cc[VMIN] = 0;
    keys.c_cc[VTIME] = 0;
    tcsetattr(STDIN_FILENO, TCSANOW, &keys);
    out_text(t->out, "\x1b[?1049h\x1b[?25l");
}

static void give_screen_back(top *t)
{
    if (!t->screen)
        return;
    out_text(t->out, "\x1b[?25h\x1b[?1049l");
    out_flush(t->out);
    tcsetattr(STDIN_FILENO, TCSANOW, &t->usual);
}

static void draw(top *t)
{
    strbuf text = {0};
    struct winsize size;
    t->view.columns = term_columns(STDOUT_FILENO);
    t->view.rows =
        ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 2 ? size.ws_row - 1u : 23;
    t->view.utf8 = term_utf8();
    top_draw(&text, &t->view);
    /* Each line wipes what was behind it, so nothing flickers. */
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

static void on_key(top *t, char key)
{
    switch (key) {
    case 'q':
    case 'Q': t->quit = true; break;
    case 'p': t->view.paused = !t->view.paused; break;
    case 's': t->view.sort = (t->view.sort + 1) % TOP_SORTS; break;
    default: break;
    }
}

/* Until the next reading is due; keys are answered at once. */
static void wait_for(top *t, double until)
{
    while (!t->quit && !interrupt_came()) {
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
            on_key(t, keys[i]);
        draw(t);
    }
}

/* ---- readings ---- */

static int take_reading(top *t)
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
        t->view.now = (top_reading){doc, os_now()};
        draw(t);
    }
    strbuf_fini(&body);
    return code;
}

static int watch(top *t)
{
    int code = CLI_DONE;
    for (uint64_t n = 0; code == CLI_DONE && !t->quit && !interrupt_came(); n++) {
        const double next = os_now() + t->options->interval;
        if (t->options->count > 0 && n == t->options->count)
            break;
        if (!t->view.paused)
            code = take_reading(t);
        if (code == CLI_DONE && (t->options->count == 0 || n + 1 < t->options->count))
            wait_for(t, next);
    }
    return code;
}

static int run(const cli_call *call)
{
    top t = {.options = call->options, .out = call->out};
    strbuf first = {0};
    int code = client_open(&t.remote, &t.options->remote);
    /* Ask once before the screen is taken, so that a complaint stays on it. */
    if (code == CLI_DONE)
        code = client_get(&t.remote, "/v1/status", &first);
    strbuf_fini(&first);
    if (code != CLI_DONE)
        return code;
    t.screen = !call->common.json && term_capable(STDOUT_FILENO) && isatty(STDIN_FILENO) == 1;
    if (t.screen)
        take_screen(&t);
    code = watch(&t);
    give_screen_back(&t);
    json_doc_free(t.view.now.doc);
    json_doc_free(t.view.before.doc);
    return code == CLI_DONE && interrupt_came() ? interrupt_exit_code() : code;
}

const cli_command cmd_top = {
    .name = "top",
    .section = "Server",
    .summary = "a running server, live",
    .usage = "",
    .groups = groups,
    .n_groups = sizeof groups / sizeof *groups,
    .options_bytes = sizeof(top_options),
    .about =
        "Shows what a running `mote serve` does: answers, speeds, queue, memory. Keys: q quit, "
        "p pause, s sort. Into a pipe it writes one JSON line for each reading.\n"
        "Its key needs the scope `metrics`.",
    .examples = "mote top\nmote top --interval 5 | jq .writing",
    .run = run,
};
