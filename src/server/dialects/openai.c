/* SPDX-License-Identifier: Apache-2.0 */
/* openai.c - see openai.h. */
#include "server/dialects/openai.h"

const char *openai_finish(stop_cause cause)
{
    if (cause == STOP_CALLS)
        return "tool_calls";
    return cause == STOP_EOS || cause == STOP_TEXT ? "stop" : "length";
}

str openai_token_text(const answering *w, mote_token token)
{
    str text;
    text.p = mote_token_bytes(served_kit(w->ask.served)->model, token, &text.n);
    return text;
}

/* Clients want a number, and this one is as good as never. */
static float spelt(float logprob)
{
    return logprob >= -9999 ? logprob : -9999;
}

void openai_open_token(strbuf *out, str text, float logprob)
{
    jp_open(out, '{');
    jp_key_str(out, "token", text);
    jp_key_float(out, "logprob", spelt(logprob));
    jp_key(out, "bytes");
    jp_bytes(out, text);
}

void openai_put_logprobs(const choice *c, size_t from, strbuf *out)
{
    jp_open(out, '[');
    for (size_t i = from; i < c->n_tokens; i++) {
        const told_token *t = &c->tokens[i];
        openai_open_token(out, answering_token_text(c, t), t->choice.logprob);
        jp_key(out, "top_logprobs");
        jp_open(out, '[');
        for (uint32_t k = 0; k < t->choice.n_top; k++) {
            openai_open_token(out, openai_token_text(c->of, t->choice.top[k].token),
                              t->choice.top[k].logprob);
            jp_close(out, '}');
        }
        jp_close(out, ']');
        jp_close(out, '}');
    }
    jp_close(out, ']');
}

void openai_put_head(answering *w, const char *object, strbuf *out)
{
    jp_open(out, '{');
    jp_key_text(out, "id", w->id);
    jp_key_text(out, "object", object);
    jp_key_int(out, "created", w->created);
    jp_key_text(out, "model", served_name(w->ask.served));
    jp_key_text(out, "system_fingerprint", answering_fingerprint(w));
}

void openai_broken(answering *w, const api_error *error)
{
    api_error_print(error, API_OPENAI, w->request_id, &w->out);
    answering_sse(w, NULL);
}
