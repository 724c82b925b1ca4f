/* SPDX-License-Identifier: Apache-2.0 */
/* route_ollama_embed.c - POST /api/embed and the older /api/embeddings. */
#include "base/mem.h"
#include "base/os.h"
#include "server/answer/dialect.h"
#include "server/answer/embedding.h"
#include "server/answer/params.h"
#include "server/handlers.h"

/* ask.own */
typedef struct embed_state {
    size_t dimensions; /* 0: all */
    bool single;       /* one vector, as the older route has it */
} embed_state;

static bool absent(const json_node *node)
{
    return node == NULL || json_node_is(node, JSON_IS_NULL);
}

static bool read_dimensions(const ask *a, size_t *out, api_error *error)
{
    const json_node *node = json_node_get(a->root, "dimensions");
    mote_model_info info;
    int64_t n = 0;
    mote_model_describe(served_kit(a->served)->model, &info);
    if (absent(node))
        return true;
    if (!json_node_int64(node, &n) || n < 1 || n > (int64_t)info.embedding)
        return ask_wrong(error, "dimensions", "must be a whole number from 1 to %u",
                         (unsigned)info.embedding);
    *out = (size_t)n;
    return true;
}

static bool read_common(ask *a, bool single, api_error *error)
{
    const json_node *cut = json_node_get(a->root, "truncate");
    embed_state *state = mem_new(1, sizeof *state);
    str suffix;
    a->own = state;
    if (state == NULL)
        return ask_no_memory(error);
    state->single = single;
    a->kind = ASK_EMBED;
    a->truncate = absent(cut) || json_node_truth(cut);
    if (a->model.n == 0) {
        ask_wrong(error, "model", "is required");
        error->code = "missing_field";
        return false;
    }
    return ask_model(a, &suffix, error) && read_dimensions(a, &state->dimensions, error);
}

static bool read_embed(ask *a, api_error *error)
{
    const json_node *input = json_node_get(a->root, "input");
    if (!read_common(a, false, error))
        return false;
    /* nothing in, nothing out */
    a->prompt_only =
        absent(input) || (json_node_is(input, JSON_IS_ARRAY) && json_node_size(input) == 0);
    return a->prompt_only || ask_prompts(a, input, "input", ASK_MAX_PROMPTS, error);
}

static bool read_embeddings(ask *a, api_error *error)
{
    const json_node *prompt = json_node_get(a->root, "prompt");
    return read_common(a, true, error) && ask_add_prompt(a, json_node_text(prompt), error);
}

/* Of length 1; the older route too, though it never promised it. */
static void put_vector(const choice *c, size_t dimensions, strbuf *out)
{
    const size_t all = c->result.n_embedding;
    embedding_put_unit(c->result.embedding, dimensions > 0 && dimensions < all ? dimensions : all,
                       false, out);
}

static void end(answering *w)
{
    const embed_state *state = w->ask.own;
    strbuf *out = &w->out;
    jp_open(out, '{');
    if (state->single) {
        jp_key(out, "embedding");
        put_vector(&w->choices[0], 0, out);
        jp_close(out, '}');
        answering_reply(w, 200);
        return;
    }
    jp_key_text(out, "model", served_name(w->ask.served));
    jp_key(out, "embeddings");
    jp_open(out, '[');
    for (size_t i = 0; i < w->n_choices; i++)
        put_vector(&w->choices[i], state->dimensions, out);
    jp_close(out, ']');
    jp_key_uint(out, "total_duration", (uint64_t)(1e9 * (os_now() - w->began)));
    jp_key_uint(out, "load_duration",
                w->n_choices > 0 ? (uint64_t)(1e9 * w->choices[0].result.load) : 0);
    jp_key_uint(out, "prompt_eval_count", answering_usage(w).prompt);
    jp_close(out, '}');
    answering_reply(w, 200);
}

void handle_ollama_embed(exchange *x)
{
    static const dialect embed = {.label = "ollama",
                                  .call_prefix = "call_",
                                  .place = PARAM_IN_OLLAMA_EMBED,
                                  .read = read_embed,
                                  .rendered = end,
                                  .end = end};
    answering_start(x, &embed);
}

void handle_ollama_embeddings(exchange *x)
{
    static const dialect embeddings = {.label = "ollama",
                                       .call_prefix = "call_",
                                       .place = PARAM_IN_OLLAMA_EMBED,
                                       .read = read_embeddings,
                                       .end = end};
    answering_start(x, &embeddings);
}
