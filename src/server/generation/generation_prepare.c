/* SPDX-License-Identifier: Apache-2.0 */
/* generation_read.c - what the head says; and the pool's part: a body becomes an ask, prompts,
 * jobs.
 */
#include "base/mem.h"
#include "chat/turn/response_format.h"
#include "server/generation/generation_int.h"
#include "server/request/params.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

/* ---- the head ---- */

void generation_read_headers(generation *w)
{
    const request_defaults *o = &w->ctx->defaults;
    const str strict = exchange_header(w->x, "mote-strict"),
              ext = exchange_header(w->x, "mote-ext");
    const str limit = exchange_header(w->x, "mote-timeout-ms");
    const str origin = exchange_header(w->x, "originator");
    const str agent = exchange_header(w->x, "user-agent");
    w->request.settings = o;
    if (o->preset > 0) {
        w->request.answer.task = (mote_task)(o->preset - 1);
        w->request.has_task = true;
    }
    w->request.admin = exchange_request(w->x)->admin;
    w->request.strict = o->strict || str_is(strict, "1");
    w->request.no_ext = o->no_ext || str_is(ext, "0");
    w->request.codex = (origin.n >= 5 && strncasecmp(origin.p, "codex", 5) == 0) ||
                       (agent.n >= 5 && strncasecmp(agent.p, "codex", 5) == 0);
    if (limit.n > 0 && limit.n < 10) {
        char digits[12] = {0};
        memcpy(digits, limit.p, limit.n);
        w->request.seconds = (double)strtoul(digits, NULL, 10) / 1000;
    }
}

/* ---- the body ---- */

static bool read_json(generation *w)
{
    mote_error err;
    const mote_status status = json_doc_read(&w->request.body, strbuf_view(&w->body), &err);
    strbuf_fini(&w->body);
    if (status == MOTE_E_FORMAT)
        api_error_set(&w->error, API_E_INVALID, "invalid_json", "the body is %s", err.text);
    else if (status != MOTE_OK)
        http_error_from(&w->error, &err);
    if (status != MOTE_OK)
        return false;
    w->request.root = json_doc_root(w->request.body);
    if (json_doc_repeats(w->request.body))
        request_warn(&w->request, "duplicate_key", "/");
    if (json_node_is(w->request.root, JSON_IS_OBJECT))
        return true;
    api_error_set(&w->error, API_E_INVALID, "invalid_json", "the body is not a JSON object");
    return false;
}

static bool read_request(generation *w)
{
    request *a = &w->request;
    const unsigned also_name = PARAM_IN_OLLAMA | PARAM_IN_OLLAMA_EMBED;
    const json_node *streaming = NULL;
    request_choose(a, request_name_in(a->root, (w->how->place & also_name) != 0));
    const param_limits limits = param_limits_of(a->served);
    if (!params_read(a, a->root, w->how->place, "", &limits, &w->error))
        return false;
    if ((w->how->place & PARAM_IN_OPENAI) != 0)
        streaming = json_node_get(a->root, "stream_options");
    if (!params_read(a, streaming, PARAM_IN_STREAM_OPTIONS, "stream_options", &limits, &w->error))
        return false;
    return request_keep_alive(a, &w->error) && w->how->read(a, &w->error) &&
           params_settle(a, &w->error);
}

/* ---- prompts ---- */

bool generation_full(generation *w, size_t n)
{
    const unsigned long long context = w->context;
    snprintf(w->more, sizeof w->more, ",\"n_prompt_tokens\":%zu,\"n_ctx\":%llu", n, context);
    api_error_set(&w->error, API_E_INVALID, "context_length_exceeded",
                  "prompt is too long: %zu tokens > %llu maximum. This model's maximum context "
                  "length is %llu tokens; the request (%zu tokens) exceeds the available context "
                  "size (%llu tokens).",
                  n, context, context, n, context);
    const unsigned with_input = PARAM_IN_RESPONSES | PARAM_IN_EMBEDDINGS | PARAM_IN_OLLAMA_EMBED;
    snprintf(w->error.param, sizeof w->error.param, "%s",
             (w->how->place & with_input) != 0 ? "input"
             : w->request.kind == REQUEST_CHAT ? "messages"
                                               : "prompt");
    w->error.more = w->more;
    return false;
}

static bool failed(generation *w, const mote_error *err)
{
    http_error_from(&w->error, err);
    return false;
}

static bool render(generation *w)
{
    mote_error err;
    const chat_context *chat_ctx = served_model_chat_context(w->request.served);
    chat_prompt_fini(&w->prompts[0]);
    return chat_render(chat_ctx->model, &chat_ctx->how, &w->request.request, &w->prompts[0],
                       &err) == MOTE_OK ||
           failed(w, &err);
}

/* How many messages from `first` on have to go so that `spare` tokens do; whole turns. */
static size_t turns_to_drop(const generation *w, size_t first, size_t spare)
{
    const chat_request *q = &w->request.request;
    const chat_prompt *p = &w->prompts[0];
    size_t from = 0;
    for (size_t i = 0; i < p->n_marks; i++) {
        const chat_mark *m = &p->marks[i];
        if (m->kind == CHAT_MARK_SYSTEM || (m->kind == CHAT_MARK_MESSAGE && m->index + 1 == first))
            from = m->position;
        const bool next_is_user =
            m->index + 1 < q->n_messages && q->messages[m->index + 1].role == CHAT_ROLE_USER;
        if (m->kind == CHAT_MARK_MESSAGE && m->index >= first && next_is_user &&
            m->position >= from + spare)
            return m->index + 1 - first;
    }
    return 0;
}

/* The oldest turns go until there is room for the rest and an answer. */
static bool drop_oldest(generation *w)
{
    chat_request *q = &w->request.request;
    chat_message *messages = w->request.parsed.messages;
    size_t first = 0;
    while (first < q->n_messages && (messages[first].role == CHAT_ROLE_SYSTEM ||
                                     messages[first].role == CHAT_ROLE_DEVELOPER))
        first++;
    const size_t want = (size_t)(w->context - w->context / 4);
    if (w->prompts[0].n <= want)
        return true;
    const size_t n = turns_to_drop(w, first, w->prompts[0].n - want);
    if (n == 0)
        return true; /* there is one turn only: the length decides what becomes of it */
    memmove(messages + first, messages + first + n, (q->n_messages - first - n) * sizeof *messages);
    q->n_messages -= n;
    request_warn(&w->request, "turns_dropped", w->request.names.messages);
    return render(w);
}

static bool render_chat(generation *w)
{
    request *a = &w->request;
    if (!request_default_system(a, &w->error))
        return false;
    a->request = a->parsed.request;
    if (a->answer.tool_choice == MOTE_TOOLS_NONE)
        a->request.n_tools = 0;
    answer_tokens_fill(served_model_answer_tokens(w->request.served), a->ns, &a->request,
                       a->parsed.messages, &a->recalled);
    if (!render(w))
        return false;
    if (w->prompts[0].thinking && (a->answer.set & MOTE_SET_TEMPERATURE) != 0 &&
        a->answer.sampling.temperature == 0)
        request_warn(a, "greedy_thinking", "temperature"); /* the cards say: it goes in circles */
    return !a->drop_oldest || w->prompts[0].n < w->context || drop_oldest(w);
}

static bool encode(generation *w, str text, chat_prompt *out)
{
    mote_error err;
    size_t n = 0;
    const mote_model *model = served_model_chat_context(w->request.served)->model;
    unsigned flags = w->request.parse_special ? MOTE_TEXT_CONTROL : 0;
    if (text.n == 0) { /* nothing to go on from: a document begins */
        text = str_of("<|endoftext|>");
        flags = MOTE_TEXT_CONTROL;
    }
    if (mote_tokenize(model, text.p, text.n, flags, NULL, 0, &n, &err) != MOTE_OK)
        return failed(w, &err);
    out->ids = mem_new(n, sizeof *out->ids);
    if (out->ids == NULL)
        return http_error_no_memory(&w->error);
    if (mote_tokenize(model, text.p, text.n, flags, out->ids, n, &out->n, &err) != MOTE_OK)
        return failed(w, &err);
    return true;
}

static bool take_ids(generation *w, size_t i, chat_prompt *out)
{
    const uint32_t known = param_limits_of(w->request.served).vocabulary;
    const size_t n = w->request.n_prompt_ids[i];
    for (size_t k = 0; k < n; k++)
        if ((uint32_t)w->request.prompt_ids[i][k] >= known)
            return http_error_invalid(&w->error, "prompt",
                                      "holds an id that is not in the vocabulary");
    out->ids = w->request.prompt_ids[i];
    out->n = n;
    w->request.prompt_ids[i] = NULL;
    return true;
}

static bool make_prompts(generation *w)
{
    request *a = &w->request;
    w->n_prompts = a->kind == REQUEST_CHAT ? 1 : a->n_prompts;
    w->prompts = mem_new(w->n_prompts, sizeof *w->prompts);
    if (w->prompts == NULL)
        return http_error_no_memory(&w->error);
    for (size_t i = 0; i < w->n_prompts; i++) {
        chat_prompt *p = &w->prompts[i];
        if (a->kind == REQUEST_CHAT    ? !render_chat(w)
            : a->prompt_ids[i] != NULL ? !take_ids(w, i, p)
                                       : !encode(w, a->prompts[i], p))
            return false;
        if (p->n + 1 > w->context && a->truncate)
            p->n = (size_t)w->context - 1;
        if (p->n + 1 > w->context && !generation_prompt_only(w)) /* counting takes no room */
            return generation_full(w, p->n);
    }
    return true;
}

/* ---- jobs ---- */

static sched_kind kind_of(const generation *w, size_t index)
{
    if (w->request.kind == REQUEST_EMBED)
        return SCHED_EMBED;
    if (index >= w->n_answers)
        return SCHED_SCORE;
    /* nothing is to be written: a prompt is read when its hidden state is there */
    return w->request.no_answer ? SCHED_EMBED : SCHED_ANSWER;
}

static void set_choice(generation *w, size_t index)
{
    choice *c = &w->choices[index];
    const bool answers = index < w->n_answers;
    c->of = w;
    c->index = (uint32_t)index;
    c->prompt = (uint32_t)(answers ? index / w->request.n : index - w->n_answers);
    c->kind = kind_of(w, index);
    c->answer = w->request.answer;
    if (answers) /* the first of them is the one that comes alone */
        c->answer.sampling.seed += index % w->request.n;
}

static bool make_job(generation *w, choice *c, const struct token_trie *words,
                     void (*release)(void *choice))
{
    mote_error err;
    chat_fault fault = {0};
    const request *a = &w->request;
    const chat_prompt *p = &w->prompts[c->prompt];
    const sched_job_options options = {
        .kind = c->kind,
        .turn = {.chat_ctx = served_model_chat_context(w->request.served),
                 .prompt = p->ids,
                 .n_prompt = p->n,
                 .thinking = p->thinking,
                 .context = w->context,
                 .answer = &c->answer,
                 .tools = a->request.tools,
                 .n_tools = a->request.n_tools,
                 .tool_allowed = a->request.n_tools > 0 ? a->tool_allowed : NULL,
                 .vocab = words,
                 .raw = a->kind != REQUEST_CHAT,
                 .logprobs = a->logprobs,
                 .min_tokens = a->min_tokens,
                 .ignore_end = a->ignore_end,
                 .fault = &fault},
        .marks = p->marks,
        .n_marks = p->n_marks,
        .images = p->images,
        .n_images = p->n_images,
        .client = a->client,
        .ns = a->ns,
        .seconds = a->seconds,
        .no_reuse = a->no_reuse,
        .mean = a->mean,
        .score_from = a->score_from != NULL ? a->score_from[c->prompt] : 1,
        .owner = c,
        .release = release};
    const mote_status status =
        sched_job_new(&c->job, served_model_sched(w->request.served), &options, &err);
    if (fault.of != CHAT_FAULT_NONE)
        return request_format_refused(a, &fault, &err, &w->error);
    if (status == MOTE_E_FULL)
        return generation_full(w, p->n);
    return status == MOTE_OK || failed(w, &err);
}

/* What is scored anyway need not be read for an answer that is not wanted, and the first token
 * of a prompt has nothing before it to be scored by. */
static bool has_job(const generation *w, const choice *c)
{
    const request *a = &w->request;
    if (c->index < w->n_answers)
        return !(a->no_answer && a->score_prompt);
    return (a->score_from != NULL ? a->score_from[c->prompt] : 1) < w->prompts[c->prompt].n;
}

static bool make_jobs(generation *w, void (*release)(void *choice))
{
    mote_error err;
    request *a = &w->request;
    const struct token_trie *words = NULL;
    if (a->kind != REQUEST_EMBED && response_format_wanted(&a->answer, a->request.n_tools) &&
        served_model_vocab(w->request.served, &words, &err) != MOTE_OK)
        return failed(w, &err);
    w->n_answers = w->n_prompts * a->n;
    w->n_choices = w->n_answers + (a->score_prompt ? w->n_prompts : 0);
    w->choices = mem_new(w->n_choices, sizeof *w->choices);
    if (w->choices == NULL) {
        w->n_choices = w->n_answers = 0;
        return http_error_no_memory(&w->error);
    }
    for (size_t i = 0; i < w->n_choices; i++) {
        set_choice(w, i);
        if (a->no_answer)
            w->choices[i].cause = STOP_MAX_TOKENS;
        if (has_job(w, &w->choices[i]) && !make_job(w, &w->choices[i], words, release))
            return false;
    }
    return true;
}

bool generation_prompt_only(const generation *w)
{
    return w->how->rendered != NULL && (w->request.prompt_only || w->how->end == NULL);
}

void generation_read(generation *w)
{
    const request *a = &w->request;
    if (!read_json(w) || !read_request(w))
        return;
    const uint64_t most = served_model_context(a->served);
    w->context = a->context_limit > 0 && a->context_limit < most ? a->context_limit : most;
}

static bool load(generation *w)
{
    mote_error err;
    return sched_load(served_model_sched(w->request.served), &err) == MOTE_OK || failed(w, &err);
}

void generation_make(generation *w, void (*release)(void *choice))
{
    if (w->request.load && !load(w))
        return;
    if (make_prompts(w) && !generation_prompt_only(w))
        make_jobs(w, release);
}

/* ---- afterwards ---- */

/* From behind "assistant\n", which is where the think tag stands, if there is one. */
static size_t answer_begins(const generation *w, const choice *c)
{
    const chat_prompt *p = &w->prompts[c->prompt];
    const mote_token tag = served_model_chat_context(w->request.served)->how.tags[CHAT_TAG_THINK];
    size_t from = 0;
    for (size_t i = 0; i < p->n_marks; i++)
        if (p->marks[i].kind == CHAT_MARK_PROMPT || p->marks[i].kind == CHAT_MARK_MESSAGE)
            from = p->marks[i].position;
    while (from < p->n && c->result.tokens[from] != tag)
        from++;
    return from;
}

void generation_remember_tokens(const generation *w, const choice *c)
{
    enum { MOST = 32 };
    const sched_result *r = &c->result;
    if (w->request.kind != REQUEST_CHAT || w->request.request.continue_last || r->open_thinking ||
        r->tokens == NULL || c->cause == STOP_TEXT || c->n_calls > MOST)
        return;
    chat_call calls[MOST] = {0};
    json_doc *docs[MOST] = {0};
    bool whole = true;
    for (size_t i = 0; i < c->n_calls && whole; i++) {
        whole = json_doc_read(&docs[i], strbuf_view(&c->calls[i].arguments), NULL) == MOTE_OK;
        calls[i] = (chat_call){.name = strbuf_view(&c->calls[i].name)};
        if (whole)
            calls[i].arguments = json_doc_root(docs[i]);
    }
    const size_t from = answer_begins(w, c);
    const chat_part part = {.kind = CHAT_PART_TEXT, .text = strbuf_view(&c->content)};
    const chat_message message = {.role = CHAT_ROLE_ASSISTANT,
                                  .parts = &part,
                                  .n_parts = part.text.n > 0,
                                  .calls = calls,
                                  .n_calls = c->n_calls,
                                  .tokens = r->tokens + from,
                                  .n_tokens = r->n_tokens - from};
    if (whole)
        answer_tokens_put(served_model_answer_tokens(w->request.served),
                          answer_key_of(w->request.ns, &w->request.request), &message);
    for (size_t i = 0; i < c->n_calls; i++)
        json_doc_free(docs[i]);
}
