/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_why.c - `mote why`: how much of a request's prompt was read again, and from which words on.
 */
#include "base/str.h"
#include "cli/args/commands.h"
#include "cli/serve/server_client.h"
#include "cli/term/output_messages.h"
#include "cli/term/text.h"
#include "json/json.h"

#include <stdio.h>

typedef struct why_options {
    client_options remote;
} why_options;

static const flag_group groups[] = {
    CLIENT_FLAG_GROUP(offsetof(why_options, remote)),
};

static void print_text(cli_out *o, const char *name, const json_node *text)
{
    const str shown = json_node_text(text);
    out_printf(o, "    %s  ", name);
    out_quoted(o, shown.p, shown.n);
    out_text(o, "\n");
}

static void print_miss(cli_out *o, const json_node *miss)
{
    const json_node *message = json_node_get(miss, "message");
    char a[TEXT_NUMBER_BYTES], b[TEXT_NUMBER_BYTES];
    text_count(a, client_number(miss, "token"));
    if (message != NULL)
        out_printf(o, "  first difference: message %s, token %s\n",
                   text_count(b, client_number(miss, "message")), a);
    else
        out_printf(o, "  first difference: token %s, in no message\n", a);
    print_text(o, "had", json_node_get(miss, "had"));
    print_text(o, "got", json_node_get(miss, "got"));
}

static void print_why(cli_out *o, const json_node *mote)
{
    const str id = json_node_text(json_node_get(mote, "request_id"));
    const str model = json_node_text(json_node_get(mote, "model"));
    const json_node *cache = json_node_get(mote, "cache");
    const uint64_t prompt = client_number(cache, "prompt"), reused = client_number(cache, "reused");
    const str from = json_node_text(json_node_get(cache, "from"));
    char a[TEXT_NUMBER_BYTES], b[TEXT_NUMBER_BYTES];
    out_shown(o, id.p, id.n);
    out_text(o, "  ");
    out_shown(o, model.p, model.n);
    out_text(o, "\n");
    if (prompt == 0) {
        out_text(o, "  nothing was answered, so no prompt was read for an answer\n");
        return;
    }
    out_printf(o, "  reused   %s of %s tokens (%llu %%)", text_count(a, reused),
               text_count(b, prompt), (unsigned long long)(reused * 100 / prompt));
    if (reused > 0) {
        out_text(o, "   from ");
        out_shown(o, from.p, from.n);
    }
    out_text(o, "\n");
    if (json_node_get(cache, "miss") != NULL)
        print_miss(o, json_node_get(cache, "miss"));
    const double seconds = (double)client_number(json_node_get(mote, "ms"), "prefill") / 1000;
    out_printf(o, "  cost     %s read, %s\n",
               text_counted(a, client_number(cache, "prefilled"), "token"),
               text_seconds(b, seconds));
}

/* It becomes part of a path. */
static bool is_id(const char *word)
{
    for (const char *p = word; *p != '\0'; p++)
        if (!((*p >= '0' && *p <= '9') || (*p >= 'a' && *p <= 'z') || *p == '_'))
            return false;
    return word[0] != '\0' && strlen(word) <= 64;
}

static int run(const cli_call *call)
{
    const why_options *f = call->options;
    const char *id = call->n_words > 0 ? call->words[0] : "last";
    char path[96];
    server_client r;
    strbuf body = {0};
    json_doc *doc = NULL;
    mote_error err;
    if (!is_id(id))
        return msg_usage("the id of a request looks like req_0123456789abcdef01234567");
    snprintf(path, sizeof path, "/v1/requests/%s", id);
    int code = client_open(&r, &f->remote);
    if (code == CLI_DONE)
        code = client_get(&r, path, &body);
    if (code == CLI_DONE && call->common.json) {
        out_write(call->out, body.p, body.n);
        out_text(call->out, "\n");
    } else if (code == CLI_DONE) {
        if (json_doc_read(&doc, strbuf_view(&body), &err) != MOTE_OK)
            code = msg_error(&err);
        else
            print_why(call->out, json_doc_root(doc));
    }
    json_doc_free(doc);
    strbuf_fini(&body);
    return code;
}

const cli_command cmd_why = {
    .name = "why",
    .section = "Server",
    .summary = "what of a request's prompt was read again, and why",
    .usage = "[REQUEST_ID]",
    .max_words = 1,
    .groups = groups,
    .n_groups = sizeof groups / sizeof *groups,
    .options_bytes = sizeof(why_options),
    .about =
        "Asks a running `mote serve` how much of a prompt it could reuse, and which words were "
        "the first to differ from an earlier prompt of the same key.\n"
        "Without an id it is the last request of this key, whose scope is `infer`. Ids are in "
        "the header x-request-id of every reply and in the server's log.",
    .examples = "mote why\nmote why req_0123456789abcdef01234567 --json",
    .run = run,
};
