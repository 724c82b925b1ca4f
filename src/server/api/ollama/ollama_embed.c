/* SPDX-License-Identifier: Apache-2.0 */
/* ollama_embed.c - POST /api/embed and its predecessor /api/embeddings. */
#include "base/mem.h"
#include "base/os.h"
#include "server/api/common/dialect.h"
#include "server/api/common/reply_json.h"
#include "server/request/params.h"
#include "server/api/ollama/ollama.h"

/* request.own */
typedef struct embed_state {
    size_t dimensions; /* 0: all */
    bool single;       /* /api/embeddings: one vector */
} embed_state;

static bool embed_read_dimensions(const request *a, size_t *out, http_error *error)
{
    const json_node *node = json_node_get(a->root, "dimensions");
    mote_model_info info;
    int64_t n = 0;
    mote_model_describe(served_model_chat_context(a->served)->model, &info);
    if (!node_given(node))
        return true;
    if (!json_node_int64(node, &n) || n < 1 || n > (int64_t)info.embedding)
        return http_error_invalid(error, "dimensions", "must be an integer of 1 to %u",
                                  (unsigned)info.embedding);
    *out = (size_t)n;
    return true;
}

static bool embed_read_common(request *a, bool single, http_error *error)
{
    const json_node *cut = json_node_get(a->root, "truncate");
    embed_state *state = mem_new(1, sizeof *state);
    str suffix;
    a->own = state;
    if (state == NULL)
        return http_error_no_memory(error);
    state->single = single;
    a->kind = REQUEST_EMBED;
    a->truncate = !node_given(cut) || json_node_truth(cut);
    if (a->model.n == 0) {
        return request_missing(error, "model");
    }
    return request_model(a, &suffix, error) && embed_read_dimensions(a, &state->dimensions, error);
}

static bool embed_read(request *a, http_error *error)
{
    const json_node *input = json_node_get(a->root, "input");
    if (!embed_read_common(a, false, error))
        return false;
    /* no input: an empty list of vectors */
    a->prompt_only =
        !node_given(input) || (json_node_is(input, JSON_IS_ARRAY) && json_node_size(input) == 0);
    return a->prompt_only || request_prompts(a, input, "input", REQUEST_MAX_PROMPTS, error);
}

static bool embed_read_single(request *a, http_error *error)
{
    const json_node *prompt = json_node_get(a->root, "prompt");
    return embed_read_common(a, true, error) &&
           request_add_prompt(a, json_node_text(prompt), error);
}

/* Both routes return vectors of length 1; Ollama promises it for /api/embed only. */
static void embed_put_vector(const choice *c, size_t dimensions, strbuf *out)
{
    const size_t all = c->result.n_embedding;
    embedding_put_unit(c->result.embedding, dimensions > 0 && dimensions < all ? dimensions : all,
                       false, out);
}

static void embed_end(generation *w)
{
    const embed_state *state = w->request.own;
    strbuf *out = &w->out;
    jw_open(out, '{');
    if (state->single) {
        jw_key(out, "embedding");
        embed_put_vector(&w->choices[0], 0, out);
        jw_close(out, '}');
        generation_reply(w, 200);
        return;
    }
    jw_key_text(out, "model", request_model_name(&w->request));
    jw_key(out, "embeddings");
    jw_open(out, '[');
    for (size_t i = 0; i < w->n_choices; i++)
        embed_put_vector(&w->choices[i], state->dimensions, out);
    jw_close(out, ']');
    jw_key_uint(out, "total_duration", (uint64_t)(1e9 * (os_now() - w->began)));
    jw_key_uint(out, "load_duration",
                (uint64_t)(1e9 * (w->load_seconds +
                                  (w->n_choices > 0 ? w->choices[0].result.load_wait : 0))));
    jw_key_uint(out, "prompt_eval_count", generation_usage(w).prompt);
    jw_close(out, '}');
    generation_reply(w, 200);
}

void handle_ollama_embed(exchange *x)
{
    static const dialect embed = {
        .label = "ollama",
        .fields = PARAM_IN_OLLAMA_EMBED,
        .read = embed_read,
        .printer =
            {
                .call_prefix = "call_",
                .rendered = embed_end,
                .end = embed_end,
            },
    };
    dispatch_start(x, &embed);
}

void handle_ollama_embeddings(exchange *x)
{
    static const dialect embeddings = {
        .label = "ollama",
        .fields = PARAM_IN_OLLAMA_EMBED,
        .read = embed_read_single,
        .printer =
            {
                .call_prefix = "call_",
                .end = embed_end,
            },
    };
    dispatch_start(x, &embeddings);
}
