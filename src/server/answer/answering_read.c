/* SPDX-License-Identifier: Apache-2.0 */
/* answering_read.c - what the head says; and the pool's part: a body becomes an ask, prompts, jobs.
 */
#include "base/mem.h"
#include "chat/form.h"
#include "server/answer/answering_int.h"
#include "server/answer/params.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

/* ---- the head ---- */

void answering_read_headers(answering *w)
{
    const server_options *o = server_settings(w->server);
    const str strict = exchange_header(w->x, "mote-strict"),
              ext = exchange_header(w->x, "mote-ext");
    const str limit = exchange_header(w->x, "mote-timeout-ms");
    const str origin = exchange_header(w->x, "originator");
    const str agent = exchange_header(w->x, "user-agent");
    w->ask.settings = o;
    if (o->preset > 0) {
        w->ask.answer.task = (mote_task)(o->preset - 1);
        w->ask.has_task = true;
    }
    w->ask.admin = exchange_request(w->x)->admin;
    w->ask.strict = o->strict || str_is(strict, "1");
    w->ask.no_ext = o->no_ext || str_is(ext, "0");
    w->ask.codex = (origin.n >= 5 && strncasecmp(origin.p, "codex", 5) == 0) ||
                   (agent.n >= 5 && strncasecmp(agent.p, "codex", 5) == 0);
    if (limit.n > 0 && limit.n < 10) {
        char digits[12] = {0};
        memcpy(digits, limit.p, limit.n);
        w->ask.seconds = (double)strtoul(digits, NULL, 10) / 1000;
    }
}

/* ---- the body ---- */

static bool read_json(answering *w)
{
    mote_error err;
    const mote_status status = json_doc_read(&w->ask.body, strbuf_view(&w->body), &err);
    strbuf_fini(&w->body);
    if (status == MOTE_E_FORMAT)
        api_error_set(&w->error, API_E_INVALID, "invalid_json", "the body is %s", err.text);
    else if (status != MOTE_OK)
        ask_error_of(&w->error, &err);
    if (status != MOTE_OK)
        return false;
    w->ask.root = json_doc_root(w->ask.body);
    if (json_doc_repeats(w->ask.body))
        ask_warn(&w->ask, "duplicate_key", "/");
    if (json_node_is(w->ask.root, JSON_IS_OBJECT))
        return true;
    api_error_set(&w->error, API_E_INVALID, "invalid_json", "the body is not a JSON object");
    return false;
}

static bool read_ask(answering *w)
{
    ask *a = &w->ask;
    const unsigned also_name = PARAM_IN_OLLAMA | PARAM_IN_OLLAMA_EMBED;
    const json_node *streaming = NULL;
    ask_choose(a, ask_name_in(a->root, (w->how->place & also_name) != 0));
    const param_limits limits = param_limits_of(a->served);
    if (!params_read(a, a->root, w->how->place, "", &limits, &w->error))
        return false;
    if ((w->how->place & PARAM_IN_OPENAI) != 0)
        streaming = json_node_get(a->root, "stream_options");
    if (!params_read(a, streaming, PARAM_IN_STREAM_OPTIONS, "stream_options", &limits, &w->error))
        return false;
    return ask_keep_alive(a, &w->error) && w->how->read(a, &w->error) &&
           params_settle(a, &w->error);
}

/* ---- prompts ---- */

bool answering_full(answering *w, size_t n)
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
             : w->ask.kind == ASK_CHAT         ? "messages"
                                               : "prompt");
    w->error.more = w->more;
    return false;
}

static bool failed(answering *w, const mote_error *err)
{
    ask_error_of(&w->error, err);
    return false;
}

static bool render(answering *w)
{
    mote_error err;
    const chat_kit *kit = served_kit(w->ask.served);
    chat_prompt_fini(&w->prompts[0]);
    return chat_render(kit->model, &kit->how, &w->ask.request, &w->prompts[0], &err) == MOTE_OK ||
           failed(w, &err);
}

/* How many messages from `first` on have to go so that `spare` tokens do; whole turns. */
static size_t turns_to_drop(const answering *w, size_t first, size_t spare)
{
    const chat_request *q = &w->ask.request;
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
static bool drop_oldest(answering *w)
{
    chat_request *q = &w->ask.request;
    chat_message *messages = w->ask.parsed.messages;
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
    ask_warn(&w->ask, "turns_dropped", w->ask.names.messages);
    return render(w);
}

static bool render_chat(answering *w)
{
    ask *a = &w->ask;
    if (!ask_default_system(a, &w->error))
        return false;
    a->request = a->parsed.request;
    if (a->answer.tool_choice == MOTE_TOOLS_NONE)
        a->request.n_tools = 0;
    recall_fill(served_recall(w->ask.served), a->realm, &a->request, a->parsed.messages,
                &a->recalled);
    if (!render(w))
        return false;
    if (w->prompts[0].thinking && (a->answer.set & MOTE_SET_TEMPERATURE) != 0 &&
        a->answer.sampling.temperature == 0)
        ask_warn(a, "greedy_thinking", "temperature"); /* the cards say: it goes in circles */
    return !a->drop_oldest || w->prompts[0].n < w->context || drop_oldest(w);
}

static bool encode(answering *w, str text, chat_prompt *out)
{
    mote_error err;
    size_t n = 0;
    const mote_model *model = served_kit(w->ask.served)->model;
    unsigned flags = w->ask.parse_special ? MOTE_TEXT_CONTROL : 0;
    if (text.n == 0) { /* nothing to go on from: a document begins */
        text = str_of("<|endoftext|>");
        flags = MOTE_TEXT_CONTROL;
    }
    if (mote_tokenize(model, text.p, text.n, flags, NULL, 0, &n, &err) != MOTE_OK)
        return failed(w, &err);
    out->ids = mem_new(n, sizeof *out->ids);
    if (out->ids == NULL)
        return ask_no_memory(&w->error);
    if (mote_tokenize(model, text.p, text.n, flags, out->ids, n, &out->n, &err) != MOTE_OK)
        return failed(w, &err);
    return true;
}

static bool take_ids(answering *w, size_t i, chat_prompt *out)
{
    const uint32_t known = param_limits_of(w->ask.served).vocabulary;
    const size_t n = w->ask.n_prompt_ids[i];
    for (size_t k = 0; k < n; k++)
        if ((uint32_t)w->ask.prompt_ids[i][k] >= known)
            return ask_wrong(&w->error, "prompt", "holds an id that is not in the vocabulary");
    out->ids = w->ask.prompt_ids[i];
    out->n = n;
    w->ask.prompt_ids[i] = NULL;
    return true;
}

static bool make_prompts(answering *w)
{
    ask *a = &w->ask;
    w->n_prompts = a->kind == ASK_CHAT ? 1 : a->n_prompts;
    w->prompts = mem_new(w->n_prompts, sizeof *w->prompts);
    if (w->prompts == NULL)
        return ask_no_memory(&w->error);
    for (size_t i = 0; i < w->n_prompts; i++) {
        chat_prompt *p = &w->prompts[i];
        if (a->kind == ASK_CHAT        ? !render_chat(w)
            : a->prompt_ids[i] != NULL ? !take_ids(w, i, p)
                                       : !encode(w, a->prompts[i], p))
            return false;
        if (p->n + 1 > w->context && a->truncate)
            p->n = (size_t)w->context - 1;
        if (p->n + 1 > w->context && !answering_prompt_only(w)) /* counting takes no room */
            return answering_full(w, p->n);
    }
    return true;
}

/* ---- jobs ---- */

static sched_kind kind_of(const answering *w, size_t index)
{
    if (w->ask.kind == ASK_EMBED)
        return SCHED_EMBED;
    if (index >= w->n_answers)
        return SCHED_SCORE;
    /* nothing is to be written: a prompt is read when its hidden state is there */
    return w->ask.no_answer ? SCHED_EMBED : SCHED_ANSWER;
}

static void set_choice(answering *w, size_t index)
{
    choice *c = &w->choices[index];
    const bool answers = index < w->n_answers;
    c->of = w;
    c->index = (uint32_t)index;
    c->prompt = (uint32_t)(answers ? index / w->ask.n : index - w->n_answers);
    c->kind = kind_of(w, index);
    c->answer = w->ask.answer;
    if (answers) /* the first of them is the one that comes alone */
        c->answer.sampling.seed += index % w->ask.n;
}

static bool make_job(answering *w, choice *c, const struct vocab *words,
                     void (*release)(void *choice))
{
    mote_error err;
    chat_fault fault = {0};
    const ask *a = &w->ask;
    const chat_prompt *p = &w->prompts[c->prompt];
    const sched_job_options options = {
        .kind = c->kind,
        .turn = {.kit = served_kit(w->ask.served),
                 .prompt = p->ids,
                 .n_prompt = p->n,
                 .thinking = p->thinking,
                 .context = w->context,
                 .answer = &c->answer,
                 .tools = a->request.tools,
                 .n_tools = a->request.n_tools,
                 .tool_allowed = a->request.n_tools > 0 ? a->tool_allowed : NULL,
                 .vocab = words,
                 .raw = a->kind != ASK_CHAT,
                 .logprobs = a->logprobs,
                 .min_tokens = a->min_tokens,
                 .ignore_end = a->ignore_end,
                 .fault = &fault},
        .marks = p->marks,
        .n_marks = p->n_marks,
        .pictures = p->pictures,
        .n_pictures = p->n_pictures,
        .client = a->client,
        .realm = a->realm,
        .seconds = a->seconds,
        .no_reuse = a->no_reuse,
        .mean = a->mean,
        .score_from = a->score_from != NULL ? a->score_from[c->prompt] : 1,
        .owner = c,
        .release = release};
    const mote_status status = sched_job_new(&c->job, served_sched(w->ask.served), &options, &err);
    if (fault.of != CHAT_FAULT_NONE)
        return ask_form_refused(a, &fault, &err, &w->error);
    if (status == MOTE_E_FULL)
        return answering_full(w, p->n);
    return status == MOTE_OK || failed(w, &err);
}

/* What is scored anyway need not be read for an answer that is not wanted, and the first token
 * of a prompt has nothing before it to be scored by. */
static bool has_job(const answering *w, const choice *c)
{
    const ask *a = &w->ask;
    if (c->index < w->n_answers)
        return !(a->no_answer && a->score_prompt);
    return (a->score_from != NULL ? a->score_from[c->prompt] : 1) < w->prompts[c->prompt].n;
}

static bool make_jobs(answering *w, void (*release)(void *choice))
{
    mote_error err;
    ask *a = &w->ask;
    const struct vocab *words = NULL;
    if (a->kind != ASK_EMBED && chat_form_wanted(&a->answer, a->request.n_tools) &&
        served_vocab(w->ask.served, &words, &err) != MOTE_OK)
        return failed(w, &err);
    w->n_answers = w->n_prompts * a->n;
    w->n_choices = w->n_answers + (a->score_prompt ? w->n_prompts : 0);
    w->choices = mem_new(w->n_choices, sizeof *w->choices);
    if (w->choices == NULL) {
        w->n_choices = w->n_answers = 0;
        return ask_no_memory(&w->error);
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

bool answering_prompt_only(const answering *w)
{
    return w->how->rendered != NULL && (w->ask.prompt_only || w->how->end == NULL);
}

void answering_read(answering *w)
{
    const ask *a = &w->ask;
    if (!read_json(w) || !read_ask(w))
        return;
    const uint64_t most = served_context(a->served);
    w->context = a->context_limit > 0 && a->context_limit < most ? a->context_limit : most;
}

static bool load(answering *w)
{
    mote_error err;
    return sched_load(served_sched(w->ask.served), &err) == MOTE_OK || failed(w, &err);
}

void answering_make(answering *w, void (*release)(void *choice))
{
    if (w->ask.load && !load(w))
        return;
    if (make_prompts(w) && !answering_prompt_only(w))
        make_jobs(w, release);
}

/* ---- afterwards ---- */

/* From behind "assistant\n", which is where the think tag stands, if there is one. */
static size_t answer_begins(const answering *w, const choice *c)
{
    const chat_prompt *p = &w->prompts[c->prompt];
    const mote_token tag = served_kit(w->ask.served)->how.tags[CHAT_TAG_THINK];
    size_t from = 0;
    for (size_t i = 0; i < p->n_marks; i++)
        if (p->marks[i].kind == CHAT_MARK_PROMPT || p->marks[i].kind == CHAT_MARK_MESSAGE)
            from = p->marks[i].position;
    while (from < p->n && c->result.tokens[from] != tag)
        from++;
    return from;
}

void answering_recall(const answering *w, const choice *c)
{
    enum { MOST = 32 };
    const sched_result *r = &c->result;
    if (w->ask.kind != ASK_CHAT || w->ask.request.continue_last || r->open || r->tokens == NULL ||
        c->cause == STOP_TEXT || c->n_calls > MOST)
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
        recall_put(served_recall(w->ask.served), recall_key_of(w->ask.realm, &w->ask.request),
                   &message);
    for (size_t i = 0; i < c->n_calls; i++)
        json_doc_free(docs[i]);
}
