/* SPDX-License-Identifier: Apache-2.0 */
/* responses_print.c - the response object, and an answer as messages to go on from. */
#include "server/dialects/dialect_responses.h"
#include "server/dialects/openai.h"
#include "server/json_print.h"

#include <time.h>

/* A field of the request as it came, or what it means to leave it out. */
static void put_echo(answering *w, const char *name, const char *otherwise)
{
    const json_node *node = json_node_get(w->ask.root, name);
    if (node == NULL || json_node_is(node, JSON_IS_NULL)) {
        jp_key_raw(&w->out, name, otherwise);
    } else {
        jp_key(&w->out, name);
        jp_node(&w->out, node);
    }
}

static void put_error(answering *w, const api_error *error)
{
    const char *code = "server_error";
    if (error == NULL) {
        jp_key_null(&w->out, "error");
        return;
    }
    if (error->kind == API_E_INVALID)
        code = error->code;
    else if (error->kind == API_E_RATE || error->kind == API_E_QUEUE)
        code = "rate_limit_exceeded";
    jp_key(&w->out, "error");
    jp_open(&w->out, '{');
    jp_key_text(&w->out, "code", code);
    jp_key_text(&w->out, "message", error->text);
    jp_close(&w->out, '}');
}

static void put_output(answering *w, bool over, const char *status)
{
    jp_key(&w->out, "output");
    jp_open(&w->out, '[');
    choice *c = over && w->n_choices > 0 ? &w->choices[0] : NULL;
    const items *list = c != NULL ? items_of(c) : NULL;
    w->out.failed |= c != NULL && list == NULL;
    for (size_t i = 0; list != NULL && i < list->n; i++)
        items_put(w, c, &list->at[i], true,
                  i + 1 < list->n || strcmp(status, "incomplete") != 0 ? "completed"
                                                                       : "incomplete");
    jp_close(&w->out, ']');
}

/* As they were used, once that is known; until then as they were asked for. */
static void put_sampling(answering *w, bool over)
{
    const mote_answer_options *o = &w->ask.answer;
    const mote_sampling *used =
        over && w->n_choices > 0 ? &w->choices[0].result.answer.sampling : NULL;
    const bool warm = (o->set & MOTE_SET_TEMPERATURE) != 0, top = (o->set & MOTE_SET_TOP_P) != 0;
    jp_key(&w->out, "temperature");
    if (used != NULL || warm)
        jp_float(&w->out, used != NULL ? used->temperature : o->sampling.temperature);
    else
        jp_null(&w->out);
    jp_key(&w->out, "top_p");
    if (used != NULL || top)
        jp_float(&w->out, used != NULL ? used->top_p : o->sampling.top_p);
    else
        jp_null(&w->out);
}

static void put_usage(answering *w)
{
    const usage u = answering_usage(w);
    strbuf *out = &w->out;
    jp_key(out, "usage");
    jp_open(out, '{');
    jp_key_uint(out, "input_tokens", u.prompt);
    jp_key(out, "input_tokens_details");
    jp_open(out, '{');
    jp_key_uint(out, "cached_tokens", u.cached);
    jp_key_uint(out, "cache_write_tokens", 0);
    jp_close(out, '}');
    jp_key_uint(out, "output_tokens", u.out);
    jp_key(out, "output_tokens_details");
    jp_open(out, '{');
    jp_key_uint(out, "reasoning_tokens", u.think);
    jp_close(out, '}');
    jp_key_uint(out, "total_tokens", u.prompt + u.out);
    jp_close(out, '}');
}

static void put_reasoning(answering *w)
{
    const json_node *asked = json_node_get(w->ask.root, "reasoning");
    const json_node *effort = json_node_get(asked, "effort");
    jp_key(&w->out, "reasoning");
    jp_open(&w->out, '{');
    jp_key(&w->out, "effort");
    jp_node(&w->out, effort);
    jp_key_null(&w->out, "summary");
    jp_close(&w->out, '}');
}

/* Clients read the format also if it is nobody's. */
static void put_text(answering *w)
{
    const json_node *asked = json_node_get(w->ask.root, "text");
    const json_node *format = json_node_get(asked, "format");
    const json_node *verbosity = json_node_get(asked, "verbosity");
    jp_key(&w->out, "text");
    jp_open(&w->out, '{');
    if (json_node_is(format, JSON_IS_OBJECT)) {
        jp_key(&w->out, "format");
        jp_node(&w->out, format);
    } else {
        jp_key_raw(&w->out, "format", "{\"type\":\"text\"}");
    }
    if (json_node_is(verbosity, JSON_IS_STRING))
        jp_key_str(&w->out, "verbosity", json_node_text(verbosity));
    jp_close(&w->out, '}');
}

static void put_request(answering *w)
{
    const responses_own *own = w->ask.own;
    strbuf *out = &w->out;
    put_echo(w, "instructions", "null");
    put_echo(w, "metadata", "{}");
    jp_key_text(out, "model", served_name(w->ask.served));
    jp_key_bool(out, "parallel_tool_calls", !w->ask.answer.one_call);
    put_echo(w, "tool_choice", "\"auto\"");
    put_echo(w, "tools", "[]");
    jp_key(out, "max_output_tokens");
    if (w->ask.answer.max_tokens > 0)
        jp_uint(out, w->ask.answer.max_tokens);
    else
        jp_null(out);
    jp_key(out, "previous_response_id");
    if (own->previous.n > 0)
        jp_str(out, own->previous);
    else
        jp_null(out);
    put_reasoning(w);
    put_text(w);
    jp_key_text(out, "truncation", own->drops ? "auto" : "disabled");
    jp_key_bool(out, "store", own->store);
    jp_key_bool(out, "background", false);
    jp_key_text(out, "service_tier", "default");
}

void responses_put(answering *w, const char *status, const api_error *error)
{
    strbuf *out = &w->out;
    const bool over = strcmp(status, "completed") == 0 || strcmp(status, "incomplete") == 0;
    jp_open(out, '{');
    jp_key_text(out, "id", w->id);
    jp_key_text(out, "object", "response");
    jp_key_int(out, "created_at", w->created);
    jp_key(out, "completed_at");
    if (over)
        jp_int(out, (int64_t)time(NULL));
    else
        jp_null(out);
    jp_key_text(out, "status", status);
    put_error(w, error);
    jp_key_raw(out, "incomplete_details",
               strcmp(status, "incomplete") == 0 ? "{\"reason\":\"max_output_tokens\"}" : "null");
    put_request(w);
    put_sampling(w, over);
    put_output(w, over, status);
    if (over) {
        put_usage(w);
        answering_put_mote(w, out);
    } else {
        jp_key_null(out, "usage");
    }
    jp_close(out, '}');
}

/* ---- to go on from ---- */

void responses_put_answer(const choice *c, strbuf *out)
{
    jp_open(out, '{');
    jp_key_text(out, "role", "assistant");
    jp_key_str(out, "content", strbuf_view(&c->content));
    if (c->reasoning.n > 0)
        jp_key_str(out, "reasoning_content", strbuf_view(&c->reasoning));
    if (c->n_calls > 0)
        openai_put_calls(c, out);
    jp_close(out, '}');
}
