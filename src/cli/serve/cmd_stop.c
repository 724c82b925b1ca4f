/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_stop.c - `mote stop`: a running server gives the memory of a model back. */
#include "cli/args/commands.h"
#include "cli/term/json_out.h"
#include "cli/serve/server_client.h"
#include "cli/term/output_messages.h"

typedef struct stop_options {
    client_options remote;
} stop_options;

static const flag_group groups[] = {
    CLIENT_FLAG_GROUP(offsetof(stop_options, remote)),
};

typedef struct stopping {
    server_client server;
    cli_out *out;
    json *j; /* NULL: a line for each */
} stopping;

/* The name of the reply is the model's own, whatever it was called here. */
static int tell(stopping *s, str reply)
{
    json_doc *doc = NULL;
    mote_error err;
    if (json_doc_read(&doc, reply, &err) != MOTE_OK)
        return msg_error(&err);
    const str name = json_node_text(json_node_get(json_doc_root(doc), "model"));
    if (s->j != NULL) {
        json_bytes(s->j, name.p, name.n);
    } else {
        out_shown(s->out, name.p, name.n);
        out_text(s->out, "  unloaded\n");
    }
    json_doc_free(doc);
    return CLI_DONE;
}

static int stop_one(stopping *s, str name)
{
    strbuf document = {0}, reply = {0};
    mote_error err;
    strbuf_text(&document, "{\"model\":");
    json_put_string(&document, name);
    strbuf_byte(&document, '}');
    int code = strbuf_check(&document, &err) == MOTE_OK ? CLI_DONE : msg_error(&err);
    if (code == CLI_DONE)
        code = client_post(&s->server, "/v1/unload", strbuf_view(&document), &reply);
    if (code == CLI_DONE)
        code = tell(s, strbuf_view(&reply));
    strbuf_fini(&document);
    strbuf_fini(&reply);
    return code;
}

/* One that answers does not keep the others from being stopped. */
static int stop_all(stopping *s)
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

static int run(const cli_call *call)
{
    const stop_options *f = call->options;
    json j = {.to = call->out};
    stopping s = {.out = call->out, .j = call->common.json ? &j : NULL};
    int code = client_open(&s.server, &f->remote);
    if (code != CLI_DONE)
        return code;
    if (s.j != NULL) {
        json_begin_object(&j);
        json_key(&j, "unloaded");
        json_begin_array(&j);
    }
    code = call->n_words > 0 ? stop_one(&s, str_of(call->words[0])) : stop_all(&s);
    if (s.j != NULL) {
        json_end_array(&j);
        json_end_object(&j);
    }
    return code;
}

const cli_command cmd_stop = {
    .name = "stop",
    .section = "Server",
    .summary = "have a running server unload a model",
    .usage = "[MODEL]",
    .max_words = 1,
    .groups = groups,
    .n_groups = sizeof groups / sizeof *groups,
    .options_bytes = sizeof(stop_options),
    .about =
        "Has a running `mote serve` give back the memory of MODEL, or of all its models, and "
        "forget what it kept of their conversations. The server goes on, and the next request "
        "loads the model again. A model that is answering is left as it is, with exit code 1.\n"
        "Its key needs the scope `admin`, without MODEL also `infer`. To end the server itself "
        "press Ctrl-C where it runs, or send it SIGTERM.",
    .examples = "mote stop qwen3.5-4b-q4_k_m\nmote stop",
    .run = run,
};
