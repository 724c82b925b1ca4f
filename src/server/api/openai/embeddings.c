/* SPDX-License-Identifier: Apache-2.0 */
/* embeddings.c - POST /v1/embeddings: texts or token ids to vectors of length 1. */
#include "base/mem.h"
#include "server/api/common/dialect.h"
#include "server/api/common/reply_json.h"
#include "server/request/params.h"
#include "server/api/openai/openai.h"

/* request.own */
typedef struct embeddings_state {
    size_t dimensions; /* 0: all */
    bool base64;
} embeddings_state;

/* ---- request ---- */

static bool embeddings_read_word(const request *a, const char *name, const char *const allowed[2],
                                 bool *second, http_error *error)
{
    const json_node *node = json_node_get(a->root, name);
    if (node == NULL || json_node_is(node, JSON_IS_NULL))
        return true;
    *second = str_is(json_node_text(node), allowed[1]);
    return *second || str_is(json_node_text(node), allowed[0]) ||
           http_error_invalid(error, name, "must be %s or %s", allowed[0], allowed[1]);
}

static bool embeddings_read_dimensions(const request *a, size_t *out, http_error *error)
{
    mote_model_info info;
    int64_t n;
    const json_node *node = json_node_get(a->root, "dimensions");
    mote_model_describe(served_model_weights(a->served), &info);
    if (node == NULL || json_node_is(node, JSON_IS_NULL))
        return true;
    if (!json_node_int64(node, &n) || n < 1 || n > info.embedding)
        return http_error_invalid(error, "dimensions", "must be an integer of 1 to %u",
                                  (unsigned)info.embedding);
    *out = (size_t)n;
    return true;
}

/* Puts `instruction` before every text. All texts share one allocation. */
static bool embeddings_add_instruction(request *a, http_error *error)
{
    const str words = json_node_text(json_node_get(a->root, "instruction"));
    strbuf all = {0};
    if (words.n == 0)
        return true;
    for (size_t i = 0; i < a->n_prompts; i++) {
        if (a->prompt_ids[i] != NULL) {
            strbuf_fini(&all);
            return http_error_invalid(error, "instruction",
                                      "must not be set for token ids; send texts");
        }
        strbuf_put(&all, words);
        strbuf_put(&all, a->prompts[i]);
    }
    if (all.failed) {
        strbuf_fini(&all);
        return http_error_no_memory(error);
    }
    for (size_t i = 0, at = 0; i < a->n_prompts; i++) {
        a->prompts[i] = (str){all.p + at, words.n + a->prompts[i].n};
        at += a->prompts[i].n;
    }
    return request_keep(a, all.p, error);
}

static bool embeddings_read(request *a, http_error *error)
{
    static const char *const formats[2] = {"float", "base64"}, *const poolings[2] = {"last",
                                                                                     "mean"};
    const json_node *input = json_node_get(a->root, "input");
    str suffix;
    embeddings_state *o = mem_new(1, sizeof *o);
    if (o == NULL)
        return http_error_no_memory(error);
    a->own = o;
    a->kind = REQUEST_EMBED;
    a->any_model = true;
    if (input == NULL || json_node_is(input, JSON_IS_NULL)) {
        return request_missing(error, "input");
    }
    return request_model(a, &suffix, error) &&
           embeddings_read_word(a, "encoding_format", formats, &o->base64, error) &&
           embeddings_read_word(a, "pooling", poolings, &a->mean, error) &&
           embeddings_read_dimensions(a, &o->dimensions, error) &&
           request_prompts(a, input, "input", REQUEST_MAX_PROMPTS, error) &&
           embeddings_add_instruction(a, error);
}

/* ---- reply ---- */

static void embeddings_put_vector(generation *w, const choice *c)
{
    const embeddings_state *o = w->request.own;
    const size_t all = c->result.n_embedding;
    const size_t n = o->dimensions > 0 && o->dimensions < all ? o->dimensions : all;
    embedding_put_unit(c->result.embedding, n, o->base64, &w->out);
}

static void embeddings_end(generation *w)
{
    strbuf *out = &w->out;
    const usage u = generation_usage(w);
    jw_open(out, '{');
    jw_key_text(out, "object", "list");
    jw_key_text(out, "model", request_model_name(&w->request));
    jw_key(out, "data");
    jw_open(out, '[');
    for (size_t i = 0; i < w->n_answers; i++) {
        jw_open(out, '{');
        jw_key_text(out, "object", "embedding");
        jw_key_uint(out, "index", i);
        jw_key(out, "embedding");
        embeddings_put_vector(w, &w->choices[i]);
        jw_close(out, '}');
    }
    jw_close(out, ']');
    jw_key(out, "usage");
    jw_open(out, '{');
    jw_key_uint(out, "prompt_tokens", u.prompt);
    jw_key_uint(out, "total_tokens", u.prompt);
    jw_close(out, '}');
    if (!w->request.no_ext)
        jw_key_raw(out, "mote",
                   w->request.mean ? "{\"pooling\":\"mean\",\"normalized\":true}"
                                   : "{\"pooling\":\"last\",\"normalized\":true}");
    jw_close(out, '}');
    generation_reply(w, 200);
}

void handle_embeddings(exchange *x)
{
    static const dialect embeddings = {
        .label = "openai",
        .fields = PARAM_IN_EMBEDDINGS,
        .read = embeddings_read,
        .printer =
            {
                .call_prefix = "",
                .end = embeddings_end,
                .failed = openai_failed,
            },
    };
    dispatch_start(x, &embeddings);
}
