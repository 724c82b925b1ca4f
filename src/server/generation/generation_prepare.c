/* SPDX-License-Identifier: Apache-2.0 */
/*
 * generation_prepare.c - from a parsed request to prompts and jobs; what an answer leaves in the
 * answer-token cache.
 *
 * Chat: assistant messages get their sampled tokens back from the answer-token cache, then the
 * conversation is rendered by the chat template. Other kinds: texts are tokenized, token ids are
 * used as given. Each prompt gets n jobs, and one more if it is scored. Worker thread, except
 * generation_remember_tokens().
 */
#include "base/mem.h"
#include "chat/turn/response_format.h"
#include "disk_cache/disk_session.h"
#include "server/generation/generation_int.h"
#include "server/request/params.h"

#include <stdio.h>

/* ---- prompts ---- */

bool generation_context_exceeded(generation *w, size_t n, bool at_least)
{
    const unsigned long long context = w->context;
    snprintf(w->more, sizeof w->more, ",\"n_prompt_tokens\":%zu,\"n_ctx\":%llu", n, context);
    /* Clients search for "N tokens > M maximum" and "maximum context length is M tokens". */
    http_error_set(&w->error, HTTP_E_INVALID, "context_length_exceeded",
                   "prompt is too long: %zu tokens > %llu maximum. This model's maximum context "
                   "length is %llu tokens; the request (%zu tokens) exceeds the available "
                   "context size (%llu tokens).%s",
                   n, context, context, n, context,
                   at_least ? " The number of tokens is a lower bound." : "");
    snprintf(w->error.param, sizeof w->error.param, "%s",
             w->request.kind == REQUEST_EMBED  ? "input"
             : w->request.kind == REQUEST_CHAT ? w->request.names.messages
                                               : "prompt");
    w->error.more = w->more;
    return false;
}

static bool prepare_failed(generation *w, const mote_error *err)
{
    http_error_from(&w->error, err);
    return false;
}

/* Longer prompts are an error; SIZE_MAX: they are cut, or only counted. */
static size_t prepare_most_tokens(const generation *w)
{
    const request *a = &w->request;
    const bool any = a->truncate || a->drop_oldest || generation_prompt_only(w);
    return any ? SIZE_MAX : (size_t)w->context;
}

static bool prepare_render(generation *w)
{
    mote_error err;
    const chat_context *chat_ctx = served_model_chat_context(w->request.served);
    w->request.request.max_tokens = prepare_most_tokens(w);
    w->request.request.hook = w->request.hook;
    w->request.request.hook_ctx = w->request.hook_ctx;
    chat_prompt_fini(&w->prompts[0]);
    const mote_status status = chat_render(chat_ctx->model, &chat_ctx->template,
                                           &w->request.request, &w->prompts[0], &err);
    if (status == MOTE_E_FULL)
        return generation_context_exceeded(w, w->prompts[0].n, true);
    return status == MOTE_OK || prepare_failed(w, &err);
}

/* Number of messages from `first` to remove so that at least `spare` tokens go; whole turns. 0: not
 * possible. */
static size_t prompt_turns_to_drop(const generation *w, size_t first, size_t spare)
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

/* Removes the oldest turns until the prompt fits in 3/4 of the context. */
static bool prompt_drop_oldest(generation *w)
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
    const size_t n = prompt_turns_to_drop(w, first, w->prompts[0].n - want);
    if (n == 0)
        return true; /* one turn only: prepare_prompts() checks the length */
    memmove(messages + first, messages + first + n, (q->n_messages - first - n) * sizeof *messages);
    q->n_messages -= n;
    request_warn(&w->request, "turns_dropped", w->request.names.messages);
    return prepare_render(w);
}

static bool prepare_chat(generation *w)
{
    request *a = &w->request;
    if (!request_default_system(a, &w->error))
        return false;
    a->request = a->parsed.request;
    if (a->answer.tool_choice == MOTE_TOOLS_NONE)
        a->request.n_tools = 0;
    /* With other adapters the same text may have other tokens. */
    const uint64_t ns = a->ns ^ disk_adapters(a->loras, a->n_loras);
    answer_tokens_fill(served_model_answer_tokens(w->request.served), ns, &a->request,
                       a->parsed.messages, &a->answers);
    if (!prepare_render(w))
        return false;
    if (w->prompts[0].thinking && (a->answer.set & MOTE_SET_TEMPERATURE) != 0 &&
        a->answer.sampling.temperature == 0)
        request_warn(a, "greedy_thinking", "temperature"); /* model cards warn of repetition */
    return !a->drop_oldest || w->prompts[0].n < w->context || prompt_drop_oldest(w);
}

/* Texts that cannot fit are refused before they are tokenized. */
static bool prepare_text(generation *w, str text, chat_prompt *out)
{
    const mote_model *model = served_model_chat_context(w->request.served)->model;
    unsigned flags = w->request.parse_special ? MOTE_TEXT_CONTROL : 0;
    if (text.n == 0) { /* an empty prompt is the beginning of a document */
        text = str_of("<|endoftext|>");
        flags = MOTE_TEXT_CONTROL;
    }
    const size_t least = mote_tokens_at_least(model, text.p, text.n);
    if (least + 1 > prepare_most_tokens(w))
        return generation_context_exceeded(w, least, true);
    return request_tokenize(&w->request, text, flags, &out->ids, &out->n, &w->error);
}

static bool prepare_ids(generation *w, size_t i, chat_prompt *out)
{
    const uint32_t known = param_limits_of(w->request.served).vocabulary;
    const size_t n = w->request.n_prompt_ids[i];
    for (size_t k = 0; k < n; k++)
        if ((uint32_t)w->request.prompt_ids[i][k] >= known)
            return http_error_invalid(&w->error, "prompt", "must have token ids of 0 to %u, got %d",
                                      (unsigned)known - 1, (int)w->request.prompt_ids[i][k]);
    out->ids = w->request.prompt_ids[i];
    out->n = n;
    w->request.prompt_ids[i] = NULL;
    return true;
}

static bool prepare_prompts(generation *w)
{
    request *a = &w->request;
    w->n_prompts = a->kind == REQUEST_CHAT ? 1 : a->n_prompts;
    w->prompts = mem_new(w->n_prompts, sizeof *w->prompts);
    if (w->prompts == NULL)
        return http_error_no_memory(&w->error);
    for (size_t i = 0; i < w->n_prompts; i++) {
        chat_prompt *p = &w->prompts[i];
        if (a->kind == REQUEST_CHAT    ? !prepare_chat(w)
            : a->prompt_ids[i] != NULL ? !prepare_ids(w, i, p)
                                       : !prepare_text(w, a->prompts[i], p))
            return false;
        if (p->n + 1 > w->context && a->truncate)
            p->n = (size_t)w->context - 1;
        if (p->n + 1 > w->context && !generation_prompt_only(w)) /* counting tokens has no limit */
            return generation_context_exceeded(w, p->n, false);
    }
    return true;
}

/* ---- jobs ---- */

static sched_kind choice_kind(const generation *w, size_t index)
{
    if (w->request.kind == REQUEST_EMBED)
        return SCHED_EMBED;
    if (index >= w->n_answers)
        return SCHED_SCORE;
    /* prefill only: an embedding job does that */
    return w->request.no_answer ? SCHED_EMBED : SCHED_ANSWER;
}

static void choice_init(generation *w, size_t index)
{
    choice *c = &w->choices[index];
    const bool answers = index < w->n_answers;
    c->of = w;
    c->index = (uint32_t)index;
    c->prompt = (uint32_t)(answers ? index / w->request.n : index - w->n_answers);
    c->kind = choice_kind(w, index);
    c->answer = w->request.answer;
    if (answers) /* choice 0 equals the answer of a request with n = 1 */
        c->answer.sampling.seed += index % w->request.n;
}

static bool choice_make_job(generation *w, choice *c, const struct token_trie *trie,
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
                 .vocab = trie,
                 .raw = a->kind != REQUEST_CHAT,
                 .logprobs = a->logprobs,
                 .min_tokens = a->min_tokens,
                 .ignore_end = a->ignore_end,
                 .fault = &fault},
        .marks = p->marks,
        .n_marks = p->n_marks,
        .images = p->images,
        .n_images = p->n_images,
        .loras = a->loras,
        .n_loras = a->n_loras,
        .client = a->client,
        .background = a->background,
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
        return generation_context_exceeded(w, p->n, false);
    return status == MOTE_OK || prepare_failed(w, &err);
}

/* Answers: no job if nothing is generated and a scoring job processes the prompt anyway. Scores: no
 * job if no token of the prompt is scored. */
static bool choice_has_job(const generation *w, const choice *c)
{
    const request *a = &w->request;
    if (c->index < w->n_answers)
        return !(a->no_answer && a->score_prompt);
    return (a->score_from != NULL ? a->score_from[c->prompt] : 1) < w->prompts[c->prompt].n;
}

/* Creates the choices and their jobs: n answers per prompt, then one score per prompt if requested.
 */
static bool prepare_choices(generation *w, void (*release)(void *choice))
{
    mote_error err;
    request *a = &w->request;
    const struct token_trie *trie = NULL;
    if (a->kind != REQUEST_EMBED && response_format_wanted(&a->answer, a->request.n_tools) &&
        served_model_vocab(w->request.served, &trie, &err) != MOTE_OK)
        return prepare_failed(w, &err);
    w->n_answers = w->n_prompts * a->n;
    w->n_choices = w->n_answers + (a->score_prompt ? w->n_prompts : 0);
    w->choices = mem_new(w->n_choices, sizeof *w->choices);
    if (w->choices == NULL) {
        w->n_choices = w->n_answers = 0;
        return http_error_no_memory(&w->error);
    }
    for (size_t i = 0; i < w->n_choices; i++) {
        choice_init(w, i);
        if (a->no_answer)
            w->choices[i].cause = STOP_MAX_TOKENS;
        if (choice_has_job(w, &w->choices[i]) && !choice_make_job(w, &w->choices[i], trie, release))
            return false;
    }
    return true;
}

bool generation_prompt_only(const generation *w)
{
    return w->printer->rendered != NULL && (w->request.prompt_only || w->printer->end == NULL);
}

static bool prepare_load(generation *w)
{
    mote_error err;
    return sched_load(served_model_sched(w->request.served), &err) == MOTE_OK ||
           prepare_failed(w, &err);
}

void generation_prepare_jobs(generation *w, void (*release)(void *choice))
{
    if (w->request.load && !prepare_load(w))
        return;
    if (prepare_prompts(w) && !generation_prompt_only(w))
        prepare_choices(w, release);
}

/* ---- answer-token cache ---- */

/* Index of the first answer token: behind "assistant\n", or the think tag in the prompt. */
static size_t choice_answer_begin(const generation *w, const choice *c)
{
    const chat_prompt *p = &w->prompts[c->prompt];
    const mote_token tag =
        served_model_chat_context(w->request.served)->template.tags[CHAT_TAG_THINK];
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
        calls[i] =
            (chat_call){.id = str_of(c->calls[i].id), .name = strbuf_view(&c->calls[i].name)};
        if (whole)
            calls[i].arguments = json_doc_root(docs[i]);
    }
    const size_t from = choice_answer_begin(w, c);
    const chat_part part = {.kind = CHAT_PART_TEXT, .text = strbuf_view(&c->content)};
    const chat_message message = {.role = CHAT_ROLE_ASSISTANT,
                                  .parts = &part,
                                  .n_parts = part.text.n > 0,
                                  .calls = calls,
                                  .n_calls = c->n_calls,
                                  .tokens = r->tokens + from,
                                  .n_tokens = r->n_tokens - from};
    if (whole)
        answer_tokens_put(served_model_answer_tokens(w->request.served), w->request.answers.key,
                          &message);
    for (size_t i = 0; i < c->n_calls; i++)
        json_doc_free(docs[i]);
}
