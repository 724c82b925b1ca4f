/* SPDX-License-Identifier: Apache-2.0 */
/* openai.c - see openai.h. */
#include "server/api/openai/openai.h"

const char *openai_finish(stop_cause cause)
{
    if (cause == STOP_CALLS)
        return "tool_calls";
    return cause == STOP_EOS || cause == STOP_TEXT ? "stop" : "length";
}

str openai_token_text(const generation *w, mote_token token)
{
    str text;
    text.p = mote_token_bytes(served_model_chat_context(w->request.served)->model, token, &text.n);
    return text;
}

/* Clients want a number, and this one is as good as never. */
static float spelt(float logprob)
{
    return logprob >= -9999 ? logprob : -9999;
}

void openai_open_token(strbuf *out, str text, float logprob)
{
    jw_open(out, '{');
    jw_key_str(out, "token", text);
    jw_key_float(out, "logprob", spelt(logprob));
    jw_key(out, "bytes");
    jw_bytes(out, text);
}

void openai_put_logprobs(const choice *c, size_t from, strbuf *out)
{
    jw_open(out, '[');
    for (size_t i = from; i < c->n_tokens; i++) {
        const choice_token *t = &c->tokens[i];
        openai_open_token(out, generation_token_text(c, t), t->choice.logprob);
        jw_key(out, "top_logprobs");
        jw_open(out, '[');
        for (uint32_t k = 0; k < t->choice.n_top; k++) {
            openai_open_token(out, openai_token_text(c->of, t->choice.top[k].token),
                              t->choice.top[k].logprob);
            jw_close(out, '}');
        }
        jw_close(out, ']');
        jw_close(out, '}');
    }
    jw_close(out, ']');
}

void openai_put_head(generation *w, const char *object, strbuf *out)
{
    jw_open(out, '{');
    jw_key_text(out, "id", w->id);
    jw_key_text(out, "object", object);
    jw_key_int(out, "created", w->created);
    jw_key_text(out, "model", served_model_name(w->request.served));
    jw_key_text(out, "system_fingerprint", generation_fingerprint(w));
}

void openai_broken(generation *w, const http_error *error)
{
    api_error_print(error, API_OPENAI, w->request_id, &w->out);
    generation_sse(w, NULL);
}
