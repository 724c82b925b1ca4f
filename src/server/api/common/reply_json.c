/* SPDX-License-Identifier: Apache-2.0 */
/* reply_json.c - embeddings and log-probabilities as JSON. */
#include "server/api/common/reply_json.h"

#include "base/base64.h"
#include "base/mem.h"
#include "base/os.h"
#include "json/json_writer.h"

#include <math.h>

float *embedding_unit(const float *from, size_t n)
{
    float *unit = mem_new(n, sizeof *unit);
    double sum = 0;
    if (unit == NULL)
        return NULL;
    for (size_t i = 0; i < n; i++)
        sum += (double)from[i] * (double)from[i];
    const double scale = sum > 0 ? 1 / sqrt(sum) : 0;
    for (size_t i = 0; i < n; i++)
        unit[i] = (float)((double)from[i] * scale);
    return unit;
}

void embedding_put(const float *vector, size_t n, strbuf *out)
{
    jw_open(out, '[');
    for (size_t i = 0; i < n; i++)
        jw_float(out, vector[i]);
    jw_close(out, ']');
}

/* base/os.h asserts that this machine is little-endian. */
void embedding_put_base64(const float *vector, size_t n, strbuf *out)
{
    jw_raw(out, str_of("\""));
    base64_put(out, (str){(const char *)vector, n * sizeof *vector}, false);
    strbuf_byte(out, '"');
}

void embedding_put_unit(const float *from, size_t n, bool base64, strbuf *out)
{
    float *unit = embedding_unit(from, n);
    if (unit == NULL)
        out->failed = true;
    else if (base64)
        embedding_put_base64(unit, n, out);
    else
        embedding_put(unit, n, out);
    mem_free(unit);
}

/* ---- log-probabilities ---- */

str reply_token_text(const generation *w, mote_token token)
{
    str text;
    text.p = mote_token_bytes(served_model_chat_context(w->request.served)->model, token, &text.n);
    return text;
}

float reply_finite_logprob(float logprob)
{
    return logprob >= -9999 ? logprob : -9999;
}

static void reply_open_token(strbuf *out, str text, float logprob)
{
    jw_open(out, '{');
    jw_key_str(out, "token", text);
    jw_key_float(out, "logprob", reply_finite_logprob(logprob));
    jw_key(out, "bytes");
    jw_bytes(out, text);
}

void reply_put_token(const generation *w, str text, const mote_choice *m, strbuf *out)
{
    reply_open_token(out, text, m->logprob);
    jw_key(out, "top_logprobs");
    jw_open(out, '[');
    for (uint32_t k = 0; k < m->n_top; k++) {
        reply_open_token(out, reply_token_text(w, m->top[k].token), m->top[k].logprob);
        jw_close(out, '}');
    }
    jw_close(out, ']');
    jw_close(out, '}');
}

void reply_put_logprobs(const choice *c, size_t from, strbuf *out)
{
    jw_open(out, '[');
    for (size_t i = from; i < c->n_tokens; i++)
        reply_put_token(c->of, generation_token_text(c, &c->tokens[i]), &c->tokens[i].choice, out);
    jw_close(out, ']');
}
