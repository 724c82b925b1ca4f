/* SPDX-License-Identifier: Apache-2.0 */
/* background.c - see aside.h. */
#include "server/api/common/background.h"

#include "base/mem.h"
#include "server/request/request.h"

static void finish(background_job *s)
{
    json_doc_free(s->doc);
    strbuf_fini(&s->text);
    strbuf_fini(&s->tail);
    strbuf_fini(&s->out);
    mem_free(s);
}

static bool read_body(background_job *s)
{
    mote_error err;
    const mote_status status = json_doc_read(&s->doc, strbuf_view(&s->text), &err);
    if (status == MOTE_E_FORMAT)
        api_error_set(&s->error, API_E_INVALID, "invalid_json", "the body is not JSON: %s",
                      err.text);
    else if (status != MOTE_OK)
        http_error_from(&s->error, &err);
    if (status != MOTE_OK)
        return false;
    s->body = json_doc_root(s->doc);
    if (json_node_is(s->body, JSON_IS_OBJECT))
        return true;
    api_error_set(&s->error, API_E_INVALID, "invalid_json", "the body is not a JSON object");
    return false;
}

static void work(void *with)
{
    background_job *s = with;
    if (s->text.n == 0 || read_body(s))
        s->run(s);
    if (s->out.failed)
        http_error_no_memory(&s->error);
}

static void done(void *with)
{
    background_job *s = with;
    exchange *x = s->x;
    if (x != NULL && s->error.code != NULL)
        exchange_fail(x, &s->error);
    else if (x != NULL)
        exchange_reply(x, 200, s->content_type, strbuf_view(&s->out));
    finish(s);
}

static void gone(void *with)
{
    background_job *s = with;
    s->x = NULL;
}

void background_start(exchange *x, void (*run)(background_job *s), bool with_body)
{
    background_job *s = mem_new(1, sizeof *s);
    http_error error;
    http_error_no_memory(&error);
    if (s == NULL) {
        exchange_fail(x, &error);
        return;
    }
    s->ctx = exchange_context(x);
    s->ns = exchange_request(x)->ns;
    s->admin = exchange_request(x)->admin;
    s->x = x;
    s->run = run;
    s->content_type = EXCHANGE_JSON;
    strbuf_put(&s->tail, exchange_request(x)->tail);
    if (with_body) {
        strbuf_put(&s->text, exchange_request(x)->body);
        if (s->text.n == 0) /* so that reading it says what is wrong with it */
            strbuf_byte(&s->text, ' ');
    }
    exchange_on_gone(x, gone, s);
    if (s->text.failed || s->tail.failed || !event_loop_work(s->ctx->loop, work, done, s)) {
        exchange_fail(x, &error);
        finish(s);
    }
}

bool background_text(background_job *s, const char *name, str *out)
{
    const json_node *node = json_node_get(s->body, name);
    *out = json_node_text(node);
    if (json_node_is(node, JSON_IS_STRING))
        return true;
    if (node == NULL || json_node_is(node, JSON_IS_NULL)) {
        http_error_invalid(&s->error, name, "is required");
        s->error.code = "missing_field";
        return false;
    }
    return http_error_invalid(&s->error, name, "must be of type string");
}
