/* SPDX-License-Identifier: Apache-2.0 */
/* dialect_infill.c - POST /infill: what belongs between two pieces of a file, as editors ask. */
#include "server/answer/dialect.h"
#include "server/answer/fim.h"
#include "server/answer/params.h"
#include "server/dialects/openai.h"
#include "server/handlers.h"

static bool read_infill(ask *a, api_error *error)
{
    const str before = json_node_text(json_node_get(a->root, "input_prefix"));
    const str after = json_node_text(json_node_get(a->root, "input_suffix"));
    const str typed = json_node_text(json_node_get(a->root, "prompt"));
    char *joined = ask_memory(a, before.n + typed.n + 1, 1, error);
    str suffix;
    if (joined == NULL)
        return false;
    memcpy(joined, before.p, before.n);
    memcpy(joined + before.n, typed.p, typed.n);
    a->any_model = true;
    a->kind = ASK_COMPLETION;
    a->think = (chat_think_setting){.think = MOTE_THINK_OFF, .source = "infill"};
    a->answer.think = MOTE_THINK_OFF;
    return ask_model(a, &suffix, error) && ask_extra_formats(a, error) &&
           fim_add_prompt(a, (str){joined, before.n + typed.n}, after,
                          json_node_get(a->root, "input_extra"), error);
}

static const char *stop_type(stop_cause cause)
{
    return cause == STOP_EOS ? "eos" : cause == STOP_TEXT ? "word" : "limit";
}

static void event(answering *w, choice *c, const chat_event *e)
{
    (void)c;
    if (e->kind != CHAT_EVENT_CONTENT)
        return;
    jp_open(&w->out, '{');
    jp_key_str(&w->out, "content", e->text);
    jp_key_bool(&w->out, "stop", false);
    jp_close(&w->out, '}');
    answering_sse(w, NULL);
}

static void waiting(answering *w, const sched_where *where, double silent)
{
    (void)silent;
    answering_put_where(w, where);
}

/* In a stream the content was told already. */
static void end(answering *w)
{
    const choice *c = &w->choices[0];
    const usage u = answering_usage(w);
    strbuf *out = &w->out;
    const char *word = answering_stop_text(c);
    jp_open(out, '{');
    jp_key_str(out, "content", w->streaming ? (str){"", 0} : strbuf_view(&c->content));
    jp_key_bool(out, "stop", true);
    jp_key_text(out, "stop_type", stop_type(c->cause));
    jp_key_text(out, "stopping_word", word != NULL ? word : "");
    jp_key_text(out, "model", served_name(w->ask.served));
    jp_key_uint(out, "tokens_predicted", u.out);
    jp_key_uint(out, "tokens_evaluated", u.prompt);
    jp_key_uint(out, "tokens_cached", u.cached);
    answering_put_timings(w, out);
    answering_put_mote(w, out);
    jp_close(out, '}');
    if (w->streaming)
        answering_sse(w, NULL);
    else
        answering_reply(w, 200);
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
    answering_start(x, &infill);
}
