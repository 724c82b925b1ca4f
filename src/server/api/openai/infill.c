/* SPDX-License-Identifier: Apache-2.0 */
/* infill.c - POST /infill: what belongs between two pieces of a file, as editors ask. */
#include "server/generation/dialect.h"
#include "server/request/fim.h"
#include "server/request/params.h"
#include "server/api/openai/openai.h"
#include "server/api/handlers.h"

static bool read_infill(request *a, http_error *error)
{
    const str before = json_node_text(json_node_get(a->root, "input_prefix"));
    const str after = json_node_text(json_node_get(a->root, "input_suffix"));
    const str typed = json_node_text(json_node_get(a->root, "prompt"));
    char *joined = request_memory(a, before.n + typed.n + 1, 1, error);
    str suffix;
    if (joined == NULL)
        return false;
    memcpy(joined, before.p, before.n);
    memcpy(joined + before.n, typed.p, typed.n);
    a->any_model = true;
    a->kind = REQUEST_COMPLETION;
    a->think = (chat_think_setting){.think = MOTE_THINK_OFF, .source = "infill"};
    a->answer.think = MOTE_THINK_OFF;
    return request_model(a, &suffix, error) && request_extra_formats(a, error) &&
           fim_add_prompt(a, (str){joined, before.n + typed.n}, after,
                          json_node_get(a->root, "input_extra"), error);
}

static const char *stop_type(stop_cause cause)
{
    return cause == STOP_EOS ? "eos" : cause == STOP_TEXT ? "word" : "limit";
}

static void event(generation *w, choice *c, const chat_event *e)
{
    (void)c;
    if (e->kind != CHAT_EVENT_CONTENT)
        return;
    jw_open(&w->out, '{');
    jw_key_str(&w->out, "content", e->text);
    jw_key_bool(&w->out, "stop", false);
    jw_close(&w->out, '}');
    generation_sse(w, NULL);
}

static void waiting(generation *w, const sched_job_status *where, double silent)
{
    (void)silent;
    generation_put_where(w, where);
}

/* In a stream the content was told already. */
static void end(generation *w)
{
    const choice *c = &w->choices[0];
    const usage u = generation_usage(w);
    strbuf *out = &w->out;
    const char *word = generation_stop_text(c);
    jw_open(out, '{');
    jw_key_str(out, "content", w->streaming ? (str){"", 0} : strbuf_view(&c->content));
    jw_key_bool(out, "stop", true);
    jw_key_text(out, "stop_type", stop_type(c->cause));
    jw_key_text(out, "stopping_word", word != NULL ? word : "");
    jw_key_text(out, "model", served_model_name(w->request.served));
    jw_key_uint(out, "tokens_predicted", u.out);
    jw_key_uint(out, "tokens_evaluated", u.prompt);
    jw_key_uint(out, "tokens_cached", u.cached);
    generation_put_timings(w, out);
    generation_put_mote(w, out);
    jw_close(out, '}');
    if (w->streaming)
        generation_sse(w, NULL);
    else
        generation_reply(w, 200);
}

void handle_infill(exchange *x)
{
    static const dialect infill = {.label = "openai",
                                   .content_type = "text/event-stream; charset=utf-8",
                                   .call_prefix = "call_",
                                   .place = PARAM_IN_INFILL,
                                   .read = read_infill,
                                   .event = event,
                                   .waiting = waiting,
                                   .end = end,
                                   .broken = openai_broken};
    generation_start(x, &infill);
}
