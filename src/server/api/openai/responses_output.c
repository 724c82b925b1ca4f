/* SPDX-License-Identifier: Apache-2.0 */
/* responses_output.c - the response object, and an answer as messages to go on from. */
#include "server/api/openai/responses.h"
#include "server/api/openai/openai.h"
#include "json/json_writer.h"

#include <time.h>

/* A field of the request as it came, or what it means to leave it out. */
static void put_echo(generation *w, const char *name, const char *otherwise)
{
    const json_node *node = json_node_get(w->request.root, name);
    if (node == NULL || json_node_is(node, JSON_IS_NULL)) {
        jw_key_raw(&w->out, name, otherwise);
    } else {
        jw_key(&w->out, name);
        jw_node(&w->out, node);
    }
}

static void put_error(generation *w, const http_error *error)
{
    const char *code = "server_error";
    if (error == NULL) {
        jw_key_null(&w->out, "error");
        return;
    }
    if (error->kind == API_E_INVALID)
        code = error->code;
    else if (error->kind == API_E_RATE || error->kind == API_E_QUEUE)
        code = "rate_limit_exceeded";
    jw_key(&w->out, "error");
    jw_open(&w->out, '{');
    jw_key_text(&w->out, "code", code);
    jw_key_text(&w->out, "message", error->text);
    jw_close(&w->out, '}');
}

static void put_output(generation *w, bool over, const char *status)
{
    jw_key(&w->out, "output");
    jw_open(&w->out, '[');
    choice *c = over && w->n_choices > 0 ? &w->choices[0] : NULL;
    const items *list = c != NULL ? items_of(c) : NULL;
    w->out.failed |= c != NULL && list == NULL;
    for (size_t i = 0; list != NULL && i < list->n; i++)
        items_put(w, c, &list->at[i], true,
                  i + 1 < list->n || strcmp(status, "incomplete") != 0 ? "completed"
                                                                       : "incomplete");
    jw_close(&w->out, ']');
}

/* As they were used, once that is known; until then as they were asked for. */
static void put_sampling(generation *w, bool over)
{
    const mote_answer_options *o = &w->request.answer;
    const mote_sampling *used =
        over && w->n_choices > 0 ? &w->choices[0].result.answer.sampling : NULL;
    const bool warm = (o->set & MOTE_SET_TEMPERATURE) != 0, top = (o->set & MOTE_SET_TOP_P) != 0;
    jw_key(&w->out, "temperature");
    if (used != NULL || warm)
        jw_float(&w->out, used != NULL ? used->temperature : o->sampling.temperature);
    else
        jw_null(&w->out);
    jw_key(&w->out, "top_p");
    if (used != NULL || top)
        jw_float(&w->out, used != NULL ? used->top_p : o->sampling.top_p);
    else
        jw_null(&w->out);
}

static void put_usage(generation *w)
{
    const usage u = generation_usage(w);
    strbuf *out = &w->out;
    jw_key(out, "usage");
    jw_open(out, '{');
    jw_key_uint(out, "input_tokens", u.prompt);
    jw_key(out, "input_tokens_details");
    jw_open(out, '{');
    jw_key_uint(out, "cached_tokens", u.cached);
    jw_key_uint(out, "cache_write_tokens", 0);
    jw_close(out, '}');
    jw_key_uint(out, "output_tokens", u.out);
    jw_key(out, "output_tokens_details");
    jw_open(out, '{');
    jw_key_uint(out, "reasoning_tokens", u.think);
    jw_close(out, '}');
    jw_key_uint(out, "total_tokens", u.prompt + u.out);
    jw_close(out, '}');
}

static void put_reasoning(generation *w)
{
    const json_node *asked = json_node_get(w->request.root, "reasoning");
    const json_node *effort = json_node_get(asked, "effort");
    jw_key(&w->out, "reasoning");
    jw_open(&w->out, '{');
    jw_key(&w->out, "effort");
    jw_node(&w->out, effort);
    jw_key_null(&w->out, "summary");
    jw_close(&w->out, '}');
}

/* Clients read the format also if it is nobody's. */
static void put_text(generation *w)
{
    const json_node *asked = json_node_get(w->request.root, "text");
    const json_node *format = json_node_get(asked, "format");
    const json_node *verbosity = json_node_get(asked, "verbosity");
    jw_key(&w->out, "text");
    jw_open(&w->out, '{');
    if (json_node_is(format, JSON_IS_OBJECT)) {
        jw_key(&w->out, "format");
        jw_node(&w->out, format);
    } else {
        jw_key_raw(&w->out, "format", "{\"type\":\"text\"}");
    }
    if (json_node_is(verbosity, JSON_IS_STRING))
        jw_key_str(&w->out, "verbosity", json_node_text(verbosity));
    jw_close(&w->out, '}');
}

static void put_request(generation *w)
{
    const responses_own *own = w->request.own;
    strbuf *out = &w->out;
    put_echo(w, "instructions", "null");
    put_echo(w, "metadata", "{}");
    jw_key_text(out, "model", served_model_name(w->request.served));
    jw_key_bool(out, "parallel_tool_calls", !w->request.answer.one_call);
    put_echo(w, "tool_choice", "\"auto\"");
    put_echo(w, "tools", "[]");
    jw_key(out, "max_output_tokens");
    if (w->request.answer.max_tokens > 0)
        jw_uint(out, w->request.answer.max_tokens);
    else
        jw_null(out);
    jw_key(out, "previous_response_id");
    if (own->previous.n > 0)
        jw_str(out, own->previous);
    else
        jw_null(out);
    put_reasoning(w);
    put_text(w);
    jw_key_text(out, "truncation", own->drops ? "auto" : "disabled");
    jw_key_bool(out, "store", own->store);
    jw_key_bool(out, "background", false);
    jw_key_text(out, "service_tier", "default");
}

void responses_put(generation *w, const char *status, const http_error *error)
{
    strbuf *out = &w->out;
    const bool over = strcmp(status, "completed") == 0 || strcmp(status, "incomplete") == 0;
    jw_open(out, '{');
    jw_key_text(out, "id", w->id);
    jw_key_text(out, "object", "response");
    jw_key_int(out, "created_at", w->created);
    jw_key(out, "completed_at");
    if (over)
        jw_int(out, (int64_t)time(NULL));
    else
        jw_null(out);
    jw_key_text(out, "status", status);
    put_error(w, error);
    jw_key_raw(out, "incomplete_details",
               strcmp(status, "incomplete") == 0 ? "{\"reason\":\"max_output_tokens\"}" : "null");
    put_request(w);
    put_sampling(w, over);
    put_output(w, over, status);
    if (over) {
        put_usage(w);
        generation_put_mote(w, out);
    } else {
        jw_key_null(out, "usage");
    }
    jw_close(out, '}');
}

/* ---- to go on from ---- */

void responses_put_answer(const choice *c, strbuf *out)
{
    jw_open(out, '{');
    jw_key_text(out, "role", "assistant");
    jw_key_str(out, "content", strbuf_view(&c->content));
    if (c->reasoning.n > 0)
        jw_key_str(out, "reasoning_content", strbuf_view(&c->reasoning));
    if (c->n_calls > 0)
        openai_put_calls(c, out);
    jw_close(out, '}');
}
