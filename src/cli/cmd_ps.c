/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_ps.c - `mote ps`: which model a running server holds, and how much of the machine. */
#include "base/str.h"
#include "cli/commands.h"
#include "cli/remote.h"
#include "cli/say.h"
#include "cli/text.h"
#include "json/json.h"

#include <stdio.h>

typedef struct ps_options {
    bool memory;
    bool health;
    remote_options remote;
} ps_options;

static const cli_flag flags[] = {
    {.name = "mem",
     .kind = FLAG_SWITCH,
     .at = offsetof(ps_options, memory),
     .help = "say what the memory is used for"},
    {.name = "health",
     .kind = FLAG_SWITCH,
     .at = offsetof(ps_options, health),
     .help = "print nothing; the exit code is 0 if the server takes requests (no key needed)"},
};

static const flag_group groups[] = {
    FLAG_GROUP("What to say", flags, 0),
    REMOTE_FLAG_GROUP(offsetof(ps_options, remote)),
};

static uint64_t number(const json_node *object, const char *name)
{
    int64_t n = 0;
    return json_node_int64(json_node_get(object, name), &n) && n > 0 ? (uint64_t)n : 0;
}

static void put_cell(cli_out *o, size_t width, str text)
{
    out_shown(o, text.p, text.n);
    out_spaces(o, text.n < width ? width - text.n : 0);
    out_text(o, "  ");
}

static void print_memory(cli_out *o, const json_node *memory)
{
    static const char *const kinds[] = {"weights", "model",  "kv",   "state",
                                        "scratch", "vision", "total"};
    char text[TEXT_NUMBER_BYTES];
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        out_printf(o, "  %-8s %10s\n", kinds[i], text_bytes(text, number(memory, kinds[i])));
}

static void print_table(cli_out *o, const json_node *status, bool memory)
{
    const str name = json_node_text(json_node_get(status, "model"));
    const json_node *kinds = json_node_get(status, "memory");
    char size[TEXT_NUMBER_BYTES], context[32], busy[96];
    const size_t width = name.n > 4 ? name.n : 4;
    text_bytes(size, number(kinds, "total"));
    snprintf(context, sizeof context, "%llu", (unsigned long long)number(status, "context"));
    snprintf(busy, sizeof busy, "%llu of %llu, %llu waiting",
             (unsigned long long)(number(status, "reading") + number(status, "writing")),
             (unsigned long long)number(status, "parallel"),
             (unsigned long long)number(status, "queued"));
    put_cell(o, width, str_of("NAME"));
    out_printf(o, "%-9s  %-9s  %-9s  %-20s  SEES  UNTIL\n", "SIZE", "PROCESSOR", "CONTEXT",
               "ANSWERS");
    put_cell(o, width, name);
    out_printf(o, "%-9s  %-9s  %-9s  %-20s  %-4s  %s\n", size, "100% CPU", context, busy,
               json_node_get(status, "pictures") != NULL ? "yes" : "no",
               json_node_truth(json_node_get(status, "draining")) ? "stopping" : "stopped");
    if (memory)
        print_memory(o, kinds);
}

static int run(const cli_call *call)
{
    const ps_options *f = call->options;
    remote r;
    strbuf body = {0};
    json_doc *doc = NULL;
    mote_error err;
    int code = remote_open(&r, &f->remote);
    if (code == CLI_DONE)
        code = remote_get(&r, f->health ? "/health" : "/v1/status", &body);
    if (code == CLI_DONE && !f->health && call->common.json) {
        out_write(call->out, body.p, body.n);
        out_text(call->out, "\n");
    } else if (code == CLI_DONE && !f->health) {
        if (json_doc_read(&doc, strbuf_view(&body), &err) != MOTE_OK)
            code = say_error(&err);
        else
            print_table(call->out, json_doc_root(doc), f->memory);
    }
    json_doc_free(doc);
    strbuf_fini(&body);
    return code;
}

const cli_command cmd_ps = {
    .name = "ps",
    .section = "Server",
    .summary = "what a running server holds",
    .usage = "",
    .groups = groups,
    .n_groups = sizeof groups / sizeof *groups,
    .options_bytes = sizeof(ps_options),
    .about = "Asks a running `mote serve` which model it has and how much memory it takes.\n"
             "Its key needs the scope `metrics`.",
    .examples = "mote ps --mem\nmote ps --host unix:/run/mote.sock --json",
    .run = run,
};
