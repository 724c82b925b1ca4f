/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_ps.c - `mote ps`: models of a running server, their load and memory. */
#include "base/str.h"
#include "cli/args/command.h"
#include "cli/serve/server_client.h"
#include "cli/term/output.h"
#include "cli/term/text.h"
#include "json/json.h"

#include <stdio.h>

typedef struct ps_options {
    bool memory;
    bool health;
    client_options remote;
} ps_options;

static const cli_flag flags[] = {
    {.name = "mem",
     .kind = FLAG_SWITCH,
     .once = true,
     .at = offsetof(ps_options, memory),
     .help = "print what the memory is used for"},
    {.name = "health",
     .kind = FLAG_SWITCH,
     .once = true,
     .at = offsetof(ps_options, health),
     .help = "print nothing; exit code 0 if the server accepts requests (no API key needed)"},
};

static const flag_group groups[] = {
    FLAG_GROUP("Output", flags, 0),
    CLIENT_FLAG_GROUP(offsetof(ps_options, remote)),
};

static void ps_print_cell(cli_out *o, size_t width, str text)
{
    out_shown(o, text.p, text.n);
    out_spaces(o, text.n < width ? width - text.n : 0);
    out_text(o, "  ");
}

static void ps_print_memory(cli_out *o, const json_node *memory)
{
    static const char *const kinds[] = {"weights", "model",  "kv_cache", "recurrent_state",
                                        "scratch", "vision", "total"};
    char text[TEXT_NUMBER_BYTES];
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        out_printf(o, "  %-15s %10s\n", kinds[i],
                   text_bytes(text, client_number(memory, kinds[i])));
}

static size_t ps_name_width(const json_node *models)
{
    size_t width = 4;
    for (const json_node *m = json_node_first(models); m != NULL; m = json_node_next(m)) {
        const size_t n = json_node_text(json_node_get(m, "name")).n;
        width = n > width ? n : width;
    }
    return width;
}

/* When the model will be unloaded. */
static void ps_until(char *out, size_t room, const json_node *m, bool stopping)
{
    const json_node *left = json_node_get(m, "leaves_in");
    char text[TEXT_NUMBER_BYTES];
    if (!json_node_truth(json_node_get(m, "loaded")))
        snprintf(out, room, "unloaded");
    else if (left != NULL)
        snprintf(out, room, "%s from now", text_seconds(text, json_node_double(left)));
    else
        snprintf(out, room, "%s", stopping ? "stopping" : "forever");
}

static void ps_print_model(cli_out *o, const json_node *m, size_t width, bool stopping)
{
    char size[TEXT_NUMBER_BYTES], context[32], busy[96], until[64];
    ps_until(until, sizeof until, m, stopping);
    text_bytes(size, client_number(json_node_get(m, "memory"), "total"));
    snprintf(context, sizeof context, "%llu", (unsigned long long)client_number(m, "context"));
    snprintf(busy, sizeof busy, "%llu of %llu, %llu queued",
             (unsigned long long)(client_number(m, "prefill") + client_number(m, "decode")),
             (unsigned long long)client_number(m, "parallel"),
             (unsigned long long)client_number(m, "queued"));
    ps_print_cell(o, width, json_node_text(json_node_get(m, "name")));
    out_printf(o, "%-9s  %-9s  %-9s  %-20s  %-6s  %s\n", size, "100% CPU", context, busy,
               json_node_get(m, "images") != NULL ? "yes" : "no", until);
}

static void ps_print_table(cli_out *o, const json_node *status, bool memory)
{
    const json_node *models = json_node_get(status, "models");
    const size_t width = ps_name_width(models);
    const bool stopping = json_node_truth(json_node_get(status, "draining"));
    ps_print_cell(o, width, str_of("NAME"));
    out_printf(o, "%-9s  %-9s  %-9s  %-20s  VISION  UNTIL\n", "SIZE", "PROCESSOR", "CONTEXT",
               "REQUESTS");
    for (const json_node *m = json_node_first(models); m != NULL; m = json_node_next(m))
        ps_print_model(o, m, width, stopping);
    if (memory)
        ps_print_memory(o, json_node_get(status, "memory"));
}

static int ps_run(const cli_call *call)
{
    const ps_options *f = call->options;
    server_client r;
    strbuf body = {0};
    json_doc *doc = NULL;
    mote_error err;
    int code = client_open(&r, &f->remote);
    if (code == CLI_DONE)
        code = client_get(&r, f->health ? "/health" : "/v1/status", &body);
    if (code == CLI_DONE && !f->health && call->common.json) {
        out_write(call->out, body.p, body.n);
        out_text(call->out, "\n");
    } else if (code == CLI_DONE && !f->health) {
        if (json_doc_read(&doc, strbuf_view(&body), &err) != MOTE_OK)
            code = msg_error(&err);
        else
            ps_print_table(call->out, json_doc_root(doc), f->memory);
    }
    json_doc_free(doc);
    strbuf_fini(&body);
    return code;
}

const cli_command cmd_ps = {
    .name = "ps",
    .section = "Server",
    .summary = "list the models of a running server",
    .usage = "",
    .groups = groups,
    .n_groups = sizeof groups / sizeof *groups,
    .options_bytes = sizeof(ps_options),
    .about = "Lists the models of a running `mote serve`, their load and memory.\n"
             "The API key needs the scope `metrics`.",
    .examples = "mote ps --mem\nmote ps --host unix:/run/mote.sock --json",
    .run = ps_run,
};
