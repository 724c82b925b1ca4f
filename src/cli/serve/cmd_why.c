/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_why.c - `mote why`: what the prefix cache reused of a prompt, and the first difference. */
#include "base/str.h"
#include "cli/args/command.h"
#include "cli/serve/server_client.h"
#include "cli/term/output.h"
#include "cli/term/text.h"
#include "json/json.h"

#include <stdio.h>

enum { MIN_CACHED = 64 }; /* tokens, as src/sched/idle_sessions.c */

typedef struct why_options {
    client_options remote;
} why_options;

static const flag_group groups[] = {
    CLIENT_FLAG_GROUP(offsetof(why_options, remote)),
};

static void why_print_text(cli_out *o, const char *name, const json_node *text)
{
    const str shown = json_node_text(text);
    out_printf(o, "    %-5s  ", name);
    out_quoted(o, shown.p, shown.n);
    out_text(o, "\n");
}

/* What the difference costs: not all that was prefilled is due to it. */
static void why_print_miss_cost(cli_out *o, const json_node *miss)
{
    char a[TEXT_NUMBER_BYTES], b[TEXT_NUMBER_BYTES];
    if (json_node_get(miss, "tokens") == NULL)
        return;
    out_printf(o, "  without it %s more would be reused: %s\n",
               text_counted(a, client_number(miss, "tokens"), "token"),
               text_seconds(b, json_node_double(json_node_get(miss, "seconds"))));
}

static void why_print_miss(cli_out *o, const json_node *miss)
{
    const json_node *message = json_node_get(miss, "message");
    char a[TEXT_NUMBER_BYTES], b[TEXT_NUMBER_BYTES];
    text_count(a, client_number(miss, "token"));
    if (message != NULL)
        out_printf(o, "  first difference: message %s, token %s\n",
                   text_count(b, client_number(miss, "message")), a);
    else
        out_printf(o, "  first difference: token %s, outside of messages\n", a);
    if (json_node_get(miss, "before") != NULL)
        why_print_text(o, "after", json_node_get(miss, "before"));
    why_print_text(o, "had", json_node_get(miss, "had"));
    why_print_text(o, "got", json_node_get(miss, "got"));
    const uint64_t token = client_number(miss, "token"), usable = client_number(miss, "usable");
    if (usable < token)
        out_printf(o,
                   "  of these %s tokens %s can be reused: the last position before the "
                   "difference with a recurrent state\n",
                   a, text_count(b, usable));
    why_print_miss_cost(o, miss);
}

/* How the sampled tokens of earlier answers were found. */
static void why_print_answers(cli_out *o, const json_node *answers)
{
    char a[TEXT_NUMBER_BYTES], b[TEXT_NUMBER_BYTES], c[TEXT_NUMBER_BYTES];
    if (answers == NULL)
        return;
    out_printf(o, "  answers  %s matched by call id, %s by text, %s unknown\n",
               text_count(a, client_number(answers, "by_id")),
               text_count(b, client_number(answers, "by_text")),
               text_count(c, client_number(answers, "unknown")));
}

/* Without a difference to show: what the cache held. */
static void why_print_no_miss(cli_out *o, const json_node *cache)
{
    if (json_node_get(cache, "compared") == NULL || client_number(cache, "compared") > 0)
        return;
    if (client_number(cache, "prompt") < MIN_CACHED)
        out_printf(o,
                   "  no prompt of this API key was cached; a conversation of fewer than %d "
                   "tokens is not kept\n",
                   MIN_CACHED);
    else
        out_printf(o,
                   "  no prompt of this API key was cached: the first request, or earlier ones "
                   "had fewer than %d tokens or were evicted (--kv-tokens keeps more)\n",
                   MIN_CACHED);
}

static void why_print_cost(cli_out *o, uint64_t prefilled, double seconds)
{
    char a[TEXT_NUMBER_BYTES], b[TEXT_NUMBER_BYTES], c[TEXT_NUMBER_BYTES];
    out_printf(o, "  cost     %s prefilled, %s", text_counted(a, prefilled, "token"),
               text_seconds(b, seconds));
    if (seconds > 0)
        out_printf(o, " (%s t/s)", text_rate(c, (double)prefilled / seconds));
    out_text(o, "\n");
}

static void why_print(cli_out *o, const json_node *mote)
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
        out_text(o, "  the request generated nothing, so no prompt was prefilled\n");
        return;
    }
    out_printf(o, "  reused   %s of %s tokens (%llu %%)", text_count(a, reused),
               text_count(b, prompt), (unsigned long long)(reused * 100 / prompt));
    if (reused > 0) {
        out_text(o, "   from ");
        out_shown(o, from.p, from.n);
    }
    const double restore = (double)client_number(json_node_get(mote, "ms"), "restore") / 1000;
    if (restore > 0)
        out_printf(o, ", restored in %s", text_seconds(a, restore));
    out_text(o, "\n");
    why_print_answers(o, json_node_get(cache, "answers"));
    const json_node *miss = json_node_get(cache, "miss");
    if (miss != NULL)
        why_print_miss(o, miss);
    else if (reused == 0)
        why_print_no_miss(o, cache);
    why_print_cost(o, client_number(cache, "prefilled"),
                   (double)client_number(json_node_get(mote, "ms"), "prefill") / 1000);
    const str advice = json_node_text(json_node_get(miss, "advice"));
    if (advice.n > 0) {
        out_text(o, "  advice   ");
        out_shown(o, advice.p, advice.n);
        out_text(o, "\n");
    }
}

/* The id becomes part of a URL path. */
static bool why_is_id(const char *word)
{
    for (const char *p = word; *p != '\0'; p++)
        if (!((*p >= '0' && *p <= '9') || (*p >= 'a' && *p <= 'z') || *p == '_'))
            return false;
    return word[0] != '\0' && strlen(word) <= 64;
}

static int why_run(const cli_call *call)
{
    const why_options *f = call->options;
    const char *id = call->n_words > 0 ? call->words[0] : "last";
    char path[96];
    server_client r;
    strbuf body = {0};
    json_doc *doc = NULL;
    mote_error err;
    if (!why_is_id(id))
        return msg_usage("invalid request id; an id looks like req_0123456789abcdef01234567");
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
            why_print(call->out, json_doc_root(doc));
    }
    json_doc_free(doc);
    strbuf_fini(&body);
    return code;
}

const cli_command cmd_why = {
    .name = "why",
    .section = "Server",
    .summary = "why a prompt was not taken from the prefix cache",
    .usage = "[REQUEST_ID]",
    .max_words = 1,
    .groups = groups,
    .n_groups = sizeof groups / sizeof *groups,
    .options_bytes = sizeof(why_options),
    .about = "Shows how much of a request's prompt a running `mote serve` took from the prefix "
             "cache, and "
             "the first tokens that differ from an earlier prompt of the same API key.\n"
             "Without an id it shows the last request of this API key, which needs the scope "
             "`infer`. Ids "
             "are in the header x-request-id of every reply and in the server's log.",
    .examples = "mote why\nmote why req_0123456789abcdef01234567 --json",
    .run = why_run,
};
