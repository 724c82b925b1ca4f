/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tokenize.c - POST /tokenize, /detokenize and /apply-template, as llama-server has them, and GET
 * /tokenizer_info as vLLM has it. The first two also accept and reply with vLLM's names of fields.
 */
#include "base/mem.h"
#include "server/api/common/dialect.h"
#include "server/api/native/native.h"
#include "server/api/openai/openai.h"
#include "server/request/params.h"

/* ---- /tokenize ---- */

static bool token_is_text(const mote_model *model, mote_token id, str bytes)
{
    char text[MOTE_PIECE_BYTES];
    mote_text_stream stream = {0};
    const size_t n = mote_text_next(model, &stream, id, text, sizeof text);
    return stream.n_held == 0 && str_eq(bytes, (str){text, n});
}

static void tokenize_put_pieces(const mote_model *model, const mote_token *ids, size_t n,
                                strbuf *out)
{
    for (size_t i = 0; i < n; i++) {
        str piece;
        piece.p = mote_token_bytes(model, ids[i], &piece.n);
        jw_open(out, '{');
        jw_key_int(out, "id", ids[i]);
        jw_key(out, "piece");
        if (token_is_text(model, ids[i], piece))
            jw_str(out, piece);
        else
            jw_bytes(out, piece);
        jw_close(out, '}');
    }
}

static void background_tokenize(background_job *s)
{
    /* vLLM: `prompt`, in which control tokens are recognised. */
    const bool prompt = json_node_get(s->body, "content") == NULL &&
                        json_node_is(json_node_get(s->body, "prompt"), JSON_IS_STRING);
    const bool special = prompt || json_node_truth(json_node_get(s->body, "parse_special"));
    const unsigned flags = special ? MOTE_TEXT_CONTROL : 0;
    str text;
    size_t n;
    mote_token *ids;
    if (!background_text(s, prompt ? "prompt" : "content", &text) ||
        !request_tokenize(&s->request, text, flags, &ids, &n, &s->error))
        return;
    strbuf_text(&s->out, "{\"tokens\":[");
    if (json_node_truth(json_node_get(s->body, "with_pieces")))
        tokenize_put_pieces(served_model_weights(s->request.served), ids, n, &s->out);
    else
        for (size_t i = 0; i < n; i++)
            jw_int(&s->out, ids[i]);
    strbuf_text(&s->out, "]}");
    mem_free(ids);
}

void handle_tokenize(exchange *x)
{
    background_start_with_model(x, background_tokenize);
}

/* ---- /detokenize ---- */

static void background_detokenize(background_job *s)
{
    const chat_context *chat_ctx = served_model_chat_context(s->request.served);
    const json_node *tokens = json_node_get(s->body, "tokens");
    char piece[MOTE_PIECE_BYTES];
    mote_text_stream stream = {0};
    if (!json_node_is(tokens, JSON_IS_ARRAY)) {
        http_error_invalid(&s->error, "tokens", "must be an array of token ids");
        return;
    }
    strbuf text = {0};
    for (const json_node *e = json_node_first(tokens); e != NULL; e = json_node_next(e)) {
        int64_t id;
        if (!json_node_int64(e, &id) || id < 0 || id >= (int64_t)chat_ctx->n_tokens) {
            http_error_invalid(&s->error, "tokens", "must have token ids of 0 to %u",
                               (unsigned)chat_ctx->n_tokens - 1);
            strbuf_fini(&text);
            return;
        }
        const size_t n =
            mote_text_next(chat_ctx->model, &stream, (mote_token)id, piece, sizeof piece);
        strbuf_put(&text, (str){piece, n});
    }
    const size_t n = mote_text_next(chat_ctx->model, &stream, -1, piece, sizeof piece);
    strbuf_put(&text, (str){piece, n});
    s->out.failed |= text.failed;
    jw_open(&s->out, '{');
    jw_key_str(&s->out, "content", strbuf_view(&text));
    jw_key_str(&s->out, "prompt", strbuf_view(&text));
    jw_close(&s->out, '}');
    strbuf_fini(&text);
}

void handle_detokenize(exchange *x)
{
    background_start_with_model(x, background_detokenize);
}

/* ---- /tokenizer_info ---- */

static bool text_is_end(const mote_model *model, const char *text)
{
    mote_token id;
    size_t n = 0;
    return mote_tokenize(model, text, strlen(text), MOTE_TEXT_CONTROL, &id, 1, &n, NULL) ==
               MOTE_OK &&
           n == 1 && mote_token_is_end(model, id);
}

void handle_tokenizer_info(exchange *x)
{
    static const char turn_end[] = "<|im_end|>", text_end[] = "<|endoftext|>";
    const server_context *ctx = exchange_context(x);
    mote_model_info info;
    strbuf out = {0};
    model_set set;
    model_registry_hold(ctx->models, &set);
    if (set.n == 0) {
        http_error error = {0};
        http_error_set(&error, HTTP_E_UNAVAILABLE, "no_model_loaded",
                       "no model is loaded; the first request loads one");
        exchange_fail(x, &error);
        return;
    }
    const mote_model *model = served_model_weights(set.models[0]);
    mote_model_describe(model, &info);
    jw_open(&out, '{');
    jw_key_text(&out, "tokenizer_class", "Qwen2Tokenizer");
    jw_key_text(&out, "eos_token", text_is_end(model, turn_end) ? turn_end : text_end);
    jw_key_text(&out, "bos_token", NULL);
    jw_key_text(&out, "pad_token", text_end);
    jw_key_uint(&out, "vocab_size", info.tokens);
    jw_key_uint(&out, "model_max_length", served_model_context(set.models[0]));
    jw_key_str(
        &out, "chat_template",
        (str){info.chat_template != NULL ? info.chat_template : "", info.chat_template_bytes});
    jw_close(&out, '}');
    model_set_release(&set);
    exchange_reply_built(x, EXCHANGE_JSON, &out);
}

/* ---- /apply-template ---- */

static void template_reply(generation *w)
{
    const chat_prompt *p = &w->prompts[0];
    jw_open(&w->out, '{');
    jw_key_str(&w->out, "prompt", strbuf_view(&p->text));
    if (w->request.show_ids) {
        jw_key(&w->out, "tokens");
        jw_open(&w->out, '[');
        for (size_t i = 0; i < p->n; i++)
            jw_int(&w->out, p->ids[i]);
        jw_close(&w->out, ']');
    }
    jw_close(&w->out, '}');
    generation_reply(w, 200);
}

static bool template_read(request *a, http_error *error)
{
    a->template_only = true;
    return openai_read_chat(a, error);
}

void handle_apply_template(exchange *x)
{
    static const dialect render = {
        .label = "openai",
        .fields = PARAM_IN_CHAT,
        .read = template_read,
        .printer =
            {
                .call_prefix = "call_",
                .rendered = template_reply,
            },
    };
    dispatch_start(x, &render);
}
