/* SPDX-License-Identifier: Apache-2.0 */
/*
 * responses_output.c - an answer as items of the Responses API, the response object, and sealed
 * reasoning (encrypted_content).
 *
 * items_* keep the list of items in choice.own. responses_put() prints the whole response object;
 * responses_put_answer() prints the answer as messages, which are stored for a request with
 * previous_response_id.
 */
#include "base/base64.h"
#include "base/mem.h"
#include "base/os.h"
#include "json/json_writer.h"
#include "server/api/common/reply_json.h"
#include "server/api/openai/openai.h"
#include "store/digest.h"

#include <pthread.h>
#include <time.h>

/* ---- list of items ---- */

items *items_of(choice *c)
{
    enum { FIRST = 8 };
    if (c->own == NULL) {
        items *list = mem_new(1, sizeof *list + FIRST * sizeof *list->at);
        if (list == NULL)
            return NULL;
        list->room = FIRST;
        c->own = list;
    }
    return c->own;
}

item *items_add(choice *c, item_kind kind)
{
    static const char *const prefix[] = {"rs_", "msg_", "fc_", "ctc_"};
    items *list = items_of(c);
    if (list == NULL)
        return NULL;
    if (list->n == list->room) {
        const size_t head = sizeof *list, each = sizeof *list->at;
        items *moved = mem_resize(list, head + list->room * each, head + 2 * list->room * each, 1);
        if (moved == NULL)
            return NULL;
        c->own = list = moved;
        list->room *= 2;
    }
    item *it = &list->at[list->n++];
    *it = (item){.kind = kind};
    generation_random_id(it->id, sizeof it->id, prefix[kind]);
    return it;
}

bool items_is_custom(const generation *w, const choice_call *call)
{
    const json_node *tools = json_node_get(w->request.root, "tools");
    for (const json_node *t = json_node_first(tools); t != NULL; t = json_node_next(t))
        if (str_is(json_node_text(json_node_get(t, "type")), "custom") &&
            str_eq(json_node_text(json_node_get(t, "name")), strbuf_view(&call->name)))
            return true;
    return false;
}

const choice_call *items_call(const choice *c, const item *it)
{
    switch (it->place) {
    case CALL_WHOLE: return &c->calls[it->call];
    case CALL_LOST: return &c->lost[it->call];
    case CALL_OPEN: break;
    }
    return &c->open;
}

/* Parses before + text + after and appends the string, or the member `input` of the object. */
static bool custom_input_put_parsed(const char *before, str text, const char *after, strbuf *out)
{
    strbuf json = {0};
    json_doc *doc = NULL;
    strbuf_text(&json, before);
    strbuf_put(&json, text);
    strbuf_text(&json, after);
    const mote_status status =
        json.failed ? MOTE_E_MEMORY : json_doc_read(&doc, strbuf_view(&json), NULL);
    const json_node *root = status == MOTE_OK ? json_doc_root(doc) : NULL;
    strbuf_put(out, json_node_text(json_node_is(root, JSON_IS_OBJECT) ? json_node_get(root, "input")
                                                                      : root));
    out->failed |= status == MOTE_E_MEMORY;
    json_doc_free(doc);
    strbuf_fini(&json);
    return status == MOTE_OK;
}

/* A call that was cut may lack the closing quote and brace. */
void items_put_custom_input(const choice_call *call, strbuf *out)
{
    static const char *const endings[] = {"", "}", "\"}"};
    bool read = false;
    for (size_t i = 0; i < sizeof endings / sizeof *endings && !read; i++)
        read = custom_input_put_parsed("", strbuf_view(&call->arguments), endings[i], out);
}

/* Pieces never end inside an escape, so each can be parsed alone. If the arguments do not begin
 * with the input string, nothing is sent before the end of the call. */
void items_put_custom_piece(const choice_call *call, size_t bytes, item *it, strbuf *out)
{
    static const char head[] = "{\"input\": \"";
    const size_t before = sizeof head - 1;
    const str all = strbuf_view(&call->arguments);
    if (it->sent_all || all.n < before || memcmp(all.p, head, before) != 0)
        return;
    const size_t from = all.n - bytes > before ? all.n - bytes : before;
    size_t end = from;
    while (end < all.n && all.p[end] != '"')
        end += all.p[end] == '\\' ? 2 : 1;
    it->sent_all = end < all.n;
    const size_t had = out->n;
    custom_input_put_parsed("\"", (str){all.p + from, end - from}, "\"", out);
    it->sent += out->n - had;
}

str items_text(const choice *c, const item *it)
{
    const strbuf *from = it->kind == ITEM_REASONING ? &c->reasoning : &c->content;
    return it->to > it->from ? (str){from->p + it->from, it->to - it->from} : (str){"", 0};
}

/* ---- items as JSON ---- */

void items_put_logprobs(generation *w, const choice *c, const item *it, size_t from)
{
    jw_key(&w->out, "logprobs");
    jw_open(&w->out, '[');
    for (size_t i = from; i < it->first_token + it->n_tokens; i++) {
        const choice_token *t = &c->tokens[i];
        reply_put_token(w, generation_token_text(c, t), &t->choice, &w->out);
    }
    jw_close(&w->out, ']');
}

void items_put_part(generation *w, const choice *c, const item *it, bool done)
{
    const bool reasoning = it->kind == ITEM_REASONING;
    jw_open(&w->out, '{');
    jw_key_text(&w->out, "type", reasoning ? "reasoning_text" : "output_text");
    jw_key_str(&w->out, "text", done ? items_text(c, it) : (str){"", 0});
    if (!reasoning) {
        jw_key_raw(&w->out, "annotations", "[]");
        if (done)
            items_put_logprobs(w, c, it, it->first_token);
        else
            jw_key_raw(&w->out, "logprobs", "[]");
    }
    jw_close(&w->out, '}');
}

static void item_put_call(generation *w, const choice *c, const item *it, bool done)
{
    const choice_call *call = items_call(c, it);
    const bool custom = it->kind == ITEM_CUSTOM_CALL;
    strbuf input = {0};
    if (custom && done)
        items_put_custom_input(call, &input);
    jw_key_text(&w->out, "call_id", call->id);
    jw_key_str(&w->out, "name", strbuf_view(&call->name));
    jw_key_str(&w->out, custom ? "input" : "arguments",
               !done    ? (str){"", 0}
               : custom ? strbuf_view(&input)
                        : strbuf_view(&call->arguments));
    w->out.failed |= input.failed;
    strbuf_fini(&input);
}

static void item_put_text(generation *w, const choice *c, const item *it, bool done)
{
    const responses_state *own = w->request.own;
    if (it->kind == ITEM_MESSAGE)
        jw_key_text(&w->out, "role", "assistant");
    else
        jw_key_raw(&w->out, "summary", "[]");
    jw_key(&w->out, "content");
    jw_open(&w->out, '[');
    if (done)
        items_put_part(w, c, it, true);
    jw_close(&w->out, ']');
    if (it->kind == ITEM_REASONING && done && own->encrypted) {
        strbuf sealed = {0};
        responses_seal(items_text(c, it), &sealed);
        jw_key_str(&w->out, "encrypted_content", strbuf_view(&sealed));
        w->out.failed |= sealed.failed;
        strbuf_fini(&sealed);
    }
}

void items_put(generation *w, const choice *c, const item *it, bool done, const char *status)
{
    static const char *const types[] = {"reasoning", "message", "function_call",
                                        "custom_tool_call"};
    jw_open(&w->out, '{');
    jw_key_text(&w->out, "id", it->id);
    jw_key_text(&w->out, "type", types[it->kind]);
    jw_key_text(&w->out, "status", it->place == CALL_LOST ? "incomplete" : status);
    if (it->kind == ITEM_REASONING || it->kind == ITEM_MESSAGE)
        item_put_text(w, c, it, done);
    else
        item_put_call(w, c, it, done);
    jw_close(&w->out, '}');
}

/* ---- sealed reasoning ---- */

enum { KEY_BYTES = 32, MAC_BYTES = 16 };

/* Random per process, made at first use. Text sealed by another process is ignored, not an error.
 */
static unsigned char seal_key[KEY_BYTES];
static bool seal_has_key;

static void seal_make_key(void)
{
    seal_has_key = os_random(seal_key, sizeof seal_key);
}

/* A keyed hash of the text: digest(key, digest(key, text)). The key is random per process. */
static bool seal_mac(str text, digest *out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    strbuf inner = {0};
    unsigned char outer[KEY_BYTES + DIGEST_BYTES];
    digest first;
    pthread_once(&once, seal_make_key);
    if (!seal_has_key)
        return false;
    strbuf_put(&inner, (str){(const char *)seal_key, KEY_BYTES});
    strbuf_put(&inner, text);
    const bool fine = !inner.failed && digest_of(&first, strbuf_view(&inner));
    strbuf_fini(&inner);
    if (!fine)
        return false;
    memcpy(outer, seal_key, KEY_BYTES);
    memcpy(outer + KEY_BYTES, first.bytes, DIGEST_BYTES);
    return digest_of(out, (str){(const char *)outer, sizeof outer});
}

void responses_seal(str text, strbuf *out)
{
    digest mac;
    strbuf all = {0};
    if (!seal_mac(text, &mac)) {
        out->failed = true;
        return;
    }
    strbuf_put(&all, (str){(const char *)mac.bytes, MAC_BYTES});
    strbuf_put(&all, text);
    base64_put(out, strbuf_view(&all), true);
    out->failed |= all.failed;
    strbuf_fini(&all);
}

bool responses_unseal(str sealed, strbuf *out)
{
    strbuf all = {0};
    digest mac, sent = {{0}};
    bool fine = base64_get(&all, sealed) && all.n > MAC_BYTES;
    if (fine) {
        const str text = {all.p + MAC_BYTES, all.n - MAC_BYTES};
        fine = seal_mac(text, &mac);
        memcpy(sent.bytes, all.p, MAC_BYTES);
        memset(mac.bytes + MAC_BYTES, 0, DIGEST_BYTES - MAC_BYTES);
        fine = fine && digest_equal(&mac, &sent);
        if (fine)
            strbuf_put(out, text);
    }
    strbuf_fini(&all);
    return fine;
}

/* ---- the response object ---- */

/* Copies a field of the request, or prints its default. */
static void response_put_echo(generation *w, const char *name, const char *otherwise)
{
    const json_node *node = json_node_get(w->request.root, name);
    if (node == NULL || json_node_is(node, JSON_IS_NULL)) {
        jw_key_raw(&w->out, name, otherwise);
    } else {
        jw_key(&w->out, name);
        jw_node(&w->out, node);
    }
}

static void response_put_error(generation *w, const http_error *error)
{
    const char *code = "server_error";
    if (error == NULL) {
        jw_key_null(&w->out, "error");
        return;
    }
    if (error->kind == HTTP_E_INVALID)
        code = error->code;
    else if (error->kind == HTTP_E_RATE || error->kind == HTTP_E_QUEUE)
        code = "rate_limit_exceeded";
    jw_key(&w->out, "error");
    jw_open(&w->out, '{');
    jw_key_text(&w->out, "code", code);
    jw_key_text(&w->out, "message", error->text);
    jw_close(&w->out, '}');
}

static void response_put_output(generation *w, bool over, const char *status)
{
    jw_key(&w->out, "output");
    jw_open(&w->out, '[');
    choice *c = over && w->n_choices > 0 ? &w->choices[0] : NULL;
    const items *list = c != NULL ? items_of(c) : NULL;
    w->out.failed |= c != NULL && list == NULL;
    for (size_t i = 0; list != NULL && i < list->n; i++)
        items_put(w, c, &list->at[i], true,
                  i + 1 < list->n || strcmp(status, "incomplete") != 0 ? "completed"
                                                                       : "incomplete");
    jw_close(&w->out, ']');
}

/* The values used once the answer is complete; before that the values of the request. */
static void response_put_sampling(generation *w, bool over)
{
    const mote_answer_options *o = &w->request.answer;
    const mote_sampling *used =
        over && w->n_choices > 0 ? &w->choices[0].result.answer.sampling : NULL;
    const bool has_temperature = (o->set & MOTE_SET_TEMPERATURE) != 0;
    const bool has_top_p = (o->set & MOTE_SET_TOP_P) != 0;
    jw_key(&w->out, "temperature");
    if (used != NULL || has_temperature)
        jw_float(&w->out, used != NULL ? used->temperature : o->sampling.temperature);
    else
        jw_null(&w->out);
    jw_key(&w->out, "top_p");
    if (used != NULL || has_top_p)
        jw_float(&w->out, used != NULL ? used->top_p : o->sampling.top_p);
    else
        jw_null(&w->out);
}

static void response_put_usage(generation *w)
{
    const usage u = generation_usage(w);
    strbuf *out = &w->out;
    jw_key(out, "usage");
    jw_open(out, '{');
    jw_key_uint(out, "input_tokens", u.prompt);
    jw_key(out, "input_tokens_details");
    jw_open(out, '{');
    jw_key_uint(out, "cached_tokens", u.cached);
    jw_key_uint(out, "cache_write_tokens", 0);
    jw_close(out, '}');
    jw_key_uint(out, "output_tokens", u.out);
    jw_key(out, "output_tokens_details");
    jw_open(out, '{');
    jw_key_uint(out, "reasoning_tokens", u.think);
    jw_close(out, '}');
    jw_key_uint(out, "total_tokens", u.prompt + u.out);
    jw_close(out, '}');
}

static void response_put_reasoning(generation *w)
{
    const json_node *requested = json_node_get(w->request.root, "reasoning");
    const json_node *effort = json_node_get(requested, "effort");
    jw_key(&w->out, "reasoning");
    jw_open(&w->out, '{');
    jw_key(&w->out, "effort");
    jw_node(&w->out, effort);
    jw_key_null(&w->out, "summary");
    jw_close(&w->out, '}');
}

/* Clients expect `format` even if the request has none. */
static void response_put_text(generation *w)
{
    const json_node *requested = json_node_get(w->request.root, "text");
    const json_node *format = json_node_get(requested, "format");
    const json_node *verbosity = json_node_get(requested, "verbosity");
    jw_key(&w->out, "text");
    jw_open(&w->out, '{');
    if (json_node_is(format, JSON_IS_OBJECT)) {
        jw_key(&w->out, "format");
        jw_node(&w->out, format);
    } else {
        jw_key_raw(&w->out, "format", "{\"type\":\"text\"}");
    }
    if (json_node_is(verbosity, JSON_IS_STRING))
        jw_key_str(&w->out, "verbosity", json_node_text(verbosity));
    jw_close(&w->out, '}');
}

static void response_put_request(generation *w)
{
    const responses_state *own = w->request.own;
    strbuf *out = &w->out;
    response_put_echo(w, "instructions", "null");
    response_put_echo(w, "metadata", "{}");
    jw_key_text(out, "model", request_model_name(&w->request));
    jw_key_bool(out, "parallel_tool_calls", !w->request.answer.one_call);
    response_put_echo(w, "tool_choice", "\"auto\"");
    response_put_echo(w, "tools", "[]");
    jw_key(out, "max_output_tokens");
    if (w->request.answer.max_tokens > 0)
        jw_uint(out, w->request.answer.max_tokens);
    else
        jw_null(out);
    jw_key(out, "previous_response_id");
    if (own->previous.n > 0)
        jw_str(out, own->previous);
    else
        jw_null(out);
    response_put_reasoning(w);
    response_put_text(w);
    jw_key_text(out, "truncation", own->drops ? "auto" : "disabled");
    jw_key_bool(out, "store", own->store);
    jw_key_bool(out, "background", false);
    jw_key_text(out, "service_tier", "default");
}

void responses_put(generation *w, const char *status, const http_error *error)
{
    strbuf *out = &w->out;
    const bool over = strcmp(status, "completed") == 0 || strcmp(status, "incomplete") == 0;
    jw_open(out, '{');
    jw_key_text(out, "id", w->id);
    jw_key_text(out, "object", "response");
    jw_key_int(out, "created_at", w->created);
    jw_key(out, "completed_at");
    if (over)
        jw_int(out, (int64_t)time(NULL));
    else
        jw_null(out);
    jw_key_text(out, "status", status);
    response_put_error(w, error);
    jw_key_raw(out, "incomplete_details",
               strcmp(status, "incomplete") == 0 ? "{\"reason\":\"max_output_tokens\"}" : "null");
    response_put_request(w);
    response_put_sampling(w, over);
    response_put_output(w, over, status);
    if (over) {
        response_put_usage(w);
        generation_put_mote(w, out);
    }
    jw_close(out, '}');
}

/* ---- messages for previous_response_id ---- */

void responses_put_answer(const choice *c, strbuf *out)
{
    jw_open(out, '{');
    jw_key_text(out, "role", "assistant");
    jw_key_str(out, "content", strbuf_view(&c->content));
    if (c->reasoning.n > 0)
        jw_key_str(out, "reasoning_content", strbuf_view(&c->reasoning));
    if (c->n_calls > 0)
        openai_put_calls(c, out);
    jw_close(out, '}');
}
