/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_stop.c - `mote stop`: unloads models of a running server. */
#include "cli/args/command.h"
#include "cli/serve/server_client.h"
#include "cli/term/output.h"
#include "json/json_writer.h"

typedef struct stop_options {
    client_options remote;
} stop_options;

static const flag_group groups[] = {
    CLIENT_FLAG_GROUP(offsetof(stop_options, remote)),
};

typedef struct stop_state {
    server_client server;
    cli_out *out;
    strbuf *j; /* JSON output; NULL: one line per model */
} stop_state;

/* Prints the name from the reply: the argument may be an alias. */
static int stop_print(stop_state *s, str reply)
{
    json_doc *doc = NULL;
    mote_error err;
    if (json_doc_read(&doc, reply, &err) != MOTE_OK)
        return msg_error(&err);
    const str name = json_node_text(json_node_get(json_doc_root(doc), "model"));
    if (s->j != NULL) {
        jw_str(s->j, (str){name.p, name.n});
    } else {
        out_shown(s->out, name.p, name.n);
        out_text(s->out, "  unloaded\n");
    }
    json_doc_free(doc);
    return CLI_DONE;
}

static int stop_one(stop_state *s, str name)
{
    strbuf document = {0}, reply = {0};
    mote_error err;
    jw_open(&document, '{');
    jw_key_str(&document, "model", name);
    jw_close(&document, '}');
    int code = strbuf_check(&document, &err) == MOTE_OK ? CLI_DONE : msg_error(&err);
    if (code == CLI_DONE)
        code = client_post(&s->server, "/v1/unload", strbuf_view(&document), &reply);
    if (code == CLI_DONE)
        code = stop_print(s, strbuf_view(&reply));
    strbuf_fini(&document);
    strbuf_fini(&reply);
    return code;
}

/* A busy model does not prevent the others from being unloaded. */
static int stop_all(stop_state *s)
{
    strbuf body = {0};
    json_doc *doc = NULL;
    mote_error err;
    int code = client_get(&s->server, "/v1/models", &body);
    if (code == CLI_DONE && json_doc_read(&doc, strbuf_view(&body), &err) != MOTE_OK)
        code = msg_error(&err);
    const json_node *models = code == CLI_DONE ? json_node_get(json_doc_root(doc), "data") : NULL;
    for (const json_node *m = json_node_first(models); m != NULL; m = json_node_next(m)) {
        const int one = stop_one(s, json_node_text(json_node_get(m, "id")));
        code = one != CLI_DONE ? one : code;
    }
    json_doc_free(doc);
    strbuf_fini(&body);
    return code;
}

static int stop_run(const cli_call *call)
{
    const stop_options *f = call->options;
    strbuf j = {0};
    stop_state s = {.out = call->out, .j = call->common.json ? &j : NULL};
    int code = client_open(&s.server, &f->remote);
    if (code != CLI_DONE)
        return code;
    if (s.j != NULL) {
        jw_open(&j, '{');
        jw_key(&j, "unloaded");
        jw_open(&j, '[');
    }
    code = call->n_words > 0 ? stop_one(&s, str_of(call->words[0])) : stop_all(&s);
    if (s.j != NULL) {
        jw_close(&j, ']');
        jw_close(&j, '}');
        const int written = out_json(call->out, &j);
        code = code == CLI_DONE ? written : code;
    }
    return code;
}

const cli_command cmd_stop = {
    .name = "stop",
    .section = "Server",
    .summary = "unload a model of a running server",
    .usage = "[MODEL]",
    .arguments = "MODEL",
    .max_words = 1,
    .groups = groups,
    .n_groups = sizeof groups / sizeof *groups,
    .options_bytes = sizeof(stop_options),
    .about = "Unloads MODEL, or all models, of a running `mote serve` and drops their prefix "
             "caches. The "
             "server keeps running; the next request loads the model again. A model with running "
             "requests "
             "is not unloaded, and the exit code is 1.\n"
             "The API key needs the scope `admin`, without MODEL also `infer`. To stop the server "
             "itself, "
             "press Ctrl-C or send SIGTERM.",
    .examples = "mote stop qwen3.5-4b-q4_k_m\nmote stop",
    .run = stop_run,
};
