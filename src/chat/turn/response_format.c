/* SPDX-License-Identifier: Apache-2.0 */
/*
 * response_format.c - compiles the constraints of an answer and follows them token by token. See
 * response_format.h.
 */
#include "chat/turn/response_format.h"

#include "base/mem.h"
#include "chat/prompt/chat_limits.h"

/* ---- the vocabulary ---- */

static token_trie_kind trie_token_kind(const void *ctx, uint32_t id)
{
    const chat_context *chat_ctx = ctx;
    if (id >= chat_ctx->n_tokens)
        return TRIE_NEVER;
    if (mote_token_is_end(chat_ctx->model, (mote_token)id))
        return TRIE_END;
    if (mote_token_is_control(chat_ctx->model, (mote_token)id))
        return TRIE_NEVER;
    for (size_t i = 0; i < CHAT_N_TAGS; i++)
        if (chat_ctx->template.tags[i] == (mote_token)id)
            return TRIE_NEVER;
    return TRIE_TEXT;
}

static str trie_token_bytes(const void *ctx, uint32_t id)
{
    const chat_context *chat_ctx = ctx;
    str text;
    text.p = mote_token_bytes(chat_ctx->model, (mote_token)id, &text.n);
    return text;
}

mote_status chat_vocab_of(token_trie **out, const chat_context *chat_ctx, mote_error *err)
{
    mote_model_info info;
    mote_model_describe(chat_ctx->model, &info);
    const token_trie_source source = {
        .ctx = chat_ctx, .n = info.vocabulary, .kind = trie_token_kind, .bytes = trie_token_bytes};
    return token_trie_new(out, &source, err);
}

/* ---- grammars ---- */

static bool format_call_is_forced(const mote_answer_options *a)
{
    return a->tool_choice == MOTE_TOOLS_REQUIRED || a->tool_choice == MOTE_TOOLS_NAMED;
}

bool response_format_wanted(const mote_answer_options *a, size_t n_tools)
{
    return a->format != MOTE_FORMAT_TEXT || format_call_is_forced(a) ||
           (n_tools > 0 && a->tool_choice == MOTE_TOOLS_AUTO);
}

static mote_status format_compile_choices(response_format *f, str text, mote_error *err)
{
    json_doc *doc;
    str choices[GRAMMAR_MAX_CHOICES];
    size_t n = 0;
    TRY(json_doc_read(&doc, text, err));
    const json_node *root = json_doc_root(doc);
    mote_status status = MOTE_OK;
    if (!json_node_is(root, JSON_IS_ARRAY) || json_node_size(root) == 0 ||
        json_node_size(root) > GRAMMAR_MAX_CHOICES)
        status = err_set(err, MOTE_E_ARG, "choices must be a JSON array of 1 to %d strings",
                         GRAMMAR_MAX_CHOICES);
    const json_node *item = status == MOTE_OK ? json_node_first(root) : NULL;
    for (; item != NULL && status == MOTE_OK; item = json_node_next(item)) {
        choices[n++] = json_node_text(item);
        if (!json_node_is(item, JSON_IS_STRING))
            status = err_set(err, MOTE_E_ARG, "choice %zu must be a string", n - 1);
    }
    if (status == MOTE_OK)
        status = grammar_of_choices(&f->whole, f->options->vocab, choices, n, err);
    json_doc_free(doc);
    return status;
}

static mote_status format_compile_answer(response_format *f, mote_error *err)
{
    const mote_answer_options *a = f->options->answer;
    const str text = {a->format_text, a->format_bytes};
    switch (a->format) {
    case MOTE_FORMAT_TEXT: return MOTE_OK;
    case MOTE_FORMAT_JSON: return grammar_of_json(&f->whole, f->options->vocab, true, err);
    case MOTE_FORMAT_JSON_SCHEMA:
        return grammar_of_schema(&f->whole, f->options->vocab, text, NULL, err);
    case MOTE_FORMAT_REGEX: return grammar_of_regex(&f->whole, f->options->vocab, text, err);
    case MOTE_FORMAT_CHOICES: return format_compile_choices(f, text, err);
    case MOTE_FORMAT_GRAMMAR: return grammar_of_gbnf(&f->whole, f->options->vocab, text, err);
    }
    return err_set(err, MOTE_E_ARG, "format must be 0 to %d, got %d", MOTE_FORMAT_GRAMMAR,
                   (int)a->format);
}

static const json_node *tool_function(const json_node *tool)
{
    const json_node *function = json_node_get(tool, "function");
    return function != NULL ? function : tool;
}

static str tool_name(const json_node *tool)
{
    return json_node_text(json_node_get(tool_function(tool), "name"));
}

static void format_set_fault(const response_format *f, chat_fault fault)
{
    if (f->options->fault != NULL)
        *f->options->fault = fault;
}

/* The fault is the tool with this name (compared by pointer); empty: all tools together. */
static void format_set_tool_fault(const response_format *f, str name)
{
    size_t i = 0;
    while (i < f->options->n_tools && tool_name(f->options->tools[i]).p != name.p)
        i++;
    format_set_fault(f, (chat_fault){.of = CHAT_FAULT_TOOL, .tool = i});
}

/* The tools that may be called, after tool_allowed and tool_choice. */
static size_t format_callable_tools(const response_format *f, grammar_tool tools[CHAT_MAX_TOOLS])
{
    const chat_turn_options *o = f->options;
    const mote_answer_options *a = o->answer;
    size_t n = 0;
    for (size_t i = 0; i < o->n_tools && n < CHAT_MAX_TOOLS; i++) {
        const json_node *from = tool_function(o->tools[i]);
        const str name = tool_name(o->tools[i]);
        if (name.n == 0 || (a->tool_choice == MOTE_TOOLS_NAMED && !str_is(name, a->tool_name)) ||
            (o->tool_allowed != NULL && !o->tool_allowed[i]))
            continue;
        tools[n++] = (grammar_tool){.name = name,
                                    .parameters = json_node_get(from, "parameters"),
                                    .strict = json_node_truth(json_node_get(from, "strict"))};
    }
    return n;
}

static mote_status format_build_call(grammar **out, const token_trie *v, const grammar_tool *tools,
                                     size_t n, strbuf *warnings, mote_error *err)
{
    grammar_builder builder;
    grammar_begin(&builder, err);
    grammar_add_tool_call(&builder, tools, n, warnings);
    return grammar_finish(&builder, v, out);
}

static void format_widen_tool(response_format *f, grammar_tool *tool, const json_node *any,
                              const char *why)
{
    tool->parameters = any;
    strbuf_put(&f->warnings, tool->name);
    strbuf_text(&f->warnings, ": schema not enforced: ");
    strbuf_text(&f->warnings, why);
    strbuf_byte(&f->warnings, '\n');
}

/* A tool with a schema that does not compile accepts any object; a strict one is an error. */
static mote_status format_widen_broken(response_format *f, grammar_tool *tools, size_t n,
                                       const json_node *any, mote_error *err)
{
    for (size_t i = 0; i < n; i++) {
        grammar *alone;
        mote_error why;
        const mote_status status =
            format_build_call(&alone, f->options->vocab, &tools[i], 1, NULL, &why);
        grammar_free(alone);
        if (status == MOTE_E_MEMORY)
            return err_set(err, status, "out of memory: a response format");
        if (status != MOTE_OK && tools[i].strict) {
            format_set_tool_fault(f, tools[i].name);
            return err_set(err, status, "tool %.*s: %s", STR_ARG(tools[i].name), why.text);
        }
        if (status != MOTE_OK)
            format_widen_tool(f, &tools[i], any, why.text);
    }
    return MOTE_OK;
}

/* Tries three times: all schemas, without those that do not compile, without all that are not
 * strict. */
static mote_status format_compile_tools(response_format *f, grammar_tool *tools, size_t n,
                                        const json_node *any, mote_error *err)
{
    const token_trie *v = f->options->vocab;
    mote_error why;
    mote_status status = format_build_call(&f->call, v, tools, n, &f->warnings, &why);
    if (status != MOTE_OK && status != MOTE_E_MEMORY) {
        f->warnings.n = 0;
        TRY(format_widen_broken(f, tools, n, any, err));
        status = format_build_call(&f->call, v, tools, n, &f->warnings, &why);
    }
    if (status != MOTE_OK && status != MOTE_E_MEMORY) {
        f->warnings.n = 0;
        for (size_t i = 0; i < n; i++)
            if (!tools[i].strict)
                format_widen_tool(f, &tools[i], any, why.text);
        status = format_build_call(&f->call, v, tools, n, &f->warnings, &why);
    }
    if (status != MOTE_OK) {
        format_set_tool_fault(f, (str){0});
        return err_set(err, status, "%s", why.text);
    }
    return strbuf_check(&f->warnings, err);
}

static mote_status format_compile_calls(response_format *f, bool forced, mote_error *err)
{
    grammar_tool tools[CHAT_MAX_TOOLS];
    json_doc *any;
    const size_t n = format_callable_tools(f, tools);
    f->no_calls = n == 0;
    if (n == 0 && forced)
        return err_set(err, MOTE_E_ARG, "a tool call is required, but no tool may be called");
    if (n == 0)
        return MOTE_OK;
    TRY(json_doc_read(&any, str_of("{\"type\": \"object\"}"), err));
    const mote_status status = format_compile_tools(f, tools, n, json_doc_root(any), err);
    json_doc_free(any);
    return status;
}

/* Errors of a compiled grammar other than memory: it is too ambiguous to track. */
static mote_status format_status(mote_status status, mote_error *err)
{
    if (status == MOTE_OK || status == MOTE_E_MEMORY)
        return status;
    err->status = MOTE_E_UNSUPPORTED;
    return MOTE_E_UNSUPPORTED;
}

/* Computes the first mask, so that a grammar that is too ambiguous is rejected before any output.
 */
static mote_status format_try_first(response_format *f, mote_error *err)
{
    const mote_status status = format_status(grammar_mask(f->whole_at, f->mask, err), err);
    if (status != MOTE_OK)
        format_set_fault(f, (chat_fault){.of = CHAT_FAULT_FORMAT});
    return status;
}

/* The grammar between and after the calls of an answer that has a format: the line break that the
 * model writes between calls, so that no text outside of the format can follow. */
static mote_status format_compile_after_call(response_format *f, mote_error *err)
{
    if (f->whole == NULL || f->call == NULL)
        return MOTE_OK;
    return grammar_of_regex(&f->after_call, f->options->vocab, str_of("\n?"), err);
}

mote_status response_format_init(response_format *f, const chat_turn_options *options,
                                 mote_error *err)
{
    const mote_answer_options *a = options->answer;
    const bool forced = format_call_is_forced(a);
    *f = (response_format){.options = options};
    if (!response_format_wanted(a, options->n_tools))
        return MOTE_OK;
    if (options->vocab == NULL || (a->tool_choice == MOTE_TOOLS_NAMED && a->tool_name == NULL))
        return err_set(err, MOTE_E_ARG,
                       "a response format needs options.vocab, and MOTE_TOOLS_NAMED a tool_name");
    const mote_status status = format_compile_answer(f, err);
    if (status != MOTE_OK)
        format_set_fault(f, (chat_fault){.of = CHAT_FAULT_FORMAT});
    TRY(status);
    if (forced || (options->n_tools > 0 && a->tool_choice == MOTE_TOOLS_AUTO))
        TRY(format_compile_calls(f, forced, err));
    TRY(format_compile_after_call(f, err));
    if (f->whole != NULL && !forced)
        TRY(grammar_matcher_new(&f->whole_at, f->whole, err));
    f->mask = mem_new(options->vocab->words, sizeof *f->mask);
    if (f->mask == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: a response format");
    return f->whole_at != NULL ? format_try_first(f, err) : MOTE_OK;
}

void response_format_fini(response_format *f)
{
    grammar_matcher_free(f->whole_at);
    grammar_matcher_free(f->call_at);
    grammar_matcher_free(f->after_call_at);
    grammar_free(f->whole);
    grammar_free(f->call);
    grammar_free(f->after_call);
    mem_free(f->mask);
    strbuf_fini(&f->warnings);
    *f = (response_format){0};
}

/* ---- token by token ---- */

static mote_token format_tag(const response_format *f, chat_tag which)
{
    return f->options->chat_ctx->template.tags[which];
}

static grammar_matcher *format_matcher(const response_format *f)
{
    switch (f->phase) {
    case RESPONSE_FORMAT_ANSWER: return f->whole_at;
    case RESPONSE_FORMAT_CALL: return f->call_at;
    case RESPONSE_FORMAT_AFTER_CALL: return f->after_call_at;
    case RESPONSE_FORMAT_FREE: break;
    }
    return NULL;
}

void response_format_begin(response_format *f, size_t n)
{
    if (f->whole_at != NULL)
        grammar_rewind(f->whole_at, 0);
    f->must_call = format_call_is_forced(f->options->answer);
    f->phase = f->whole_at != NULL ? RESPONSE_FORMAT_ANSWER : RESPONSE_FORMAT_FREE;
    f->begin = f->from = n;
}

/* Starts a part of the answer at position n; without a grammar the part is free. */
static mote_status format_enter(response_format *f, response_format_phase phase, grammar *g,
                                grammar_matcher **matcher, size_t n, mote_error *err)
{
    f->phase = RESPONSE_FORMAT_FREE;
    f->from = n;
    if (g == NULL)
        return MOTE_OK;
    grammar_matcher_free(*matcher);
    *matcher = NULL;
    TRY(grammar_matcher_new(matcher, g, err));
    f->phase = phase;
    return MOTE_OK;
}

mote_status response_format_accept(response_format *f, mote_token token, size_t n, mote_error *err)
{
    if (token == format_tag(f, CHAT_TAG_CALL) && f->phase != RESPONSE_FORMAT_CALL) {
        f->must_call = false;
        return format_enter(f, RESPONSE_FORMAT_CALL, f->call, &f->call_at, n, err);
    }
    if (f->phase == RESPONSE_FORMAT_CALL && token == format_tag(f, CHAT_TAG_CALL_END))
        return format_enter(f, RESPONSE_FORMAT_AFTER_CALL, f->after_call, &f->after_call_at, n,
                            err);
    return format_matcher(f) != NULL
               ? format_status(grammar_accept(format_matcher(f), token, err), err)
               : MOTE_OK;
}

mote_status response_format_rewind(response_format *f, const mote_token *tokens, size_t n,
                                   mote_error *err)
{
    if (n >= f->from) {
        if (format_matcher(f) != NULL)
            grammar_rewind(format_matcher(f), n - f->from);
        return MOTE_OK;
    }
    /* An earlier part, with a matcher that no longer exists: follow the answer again. */
    response_format_begin(f, f->begin);
    for (size_t i = f->begin; i < n; i++)
        TRY(response_format_accept(f, tokens[i], i + 1, err));
    return MOTE_OK;
}

/* Whether a call may start here: instead of an answer in the format, or after another call. */
static bool format_may_call(const response_format *f)
{
    return f->call != NULL &&
           (f->phase == RESPONSE_FORMAT_AFTER_CALL ||
            (f->phase == RESPONSE_FORMAT_ANSWER && grammar_length(f->whole_at) == 0));
}

mote_status response_format_allowed(response_format *f, const uint32_t **allowed, mote_error *err)
{
    *allowed = NULL;
    if (format_matcher(f) == NULL && !f->must_call)
        return MOTE_OK;
    if (f->must_call)
        memset(f->mask, 0, f->options->vocab->words * sizeof *f->mask);
    else
        TRY(format_status(grammar_mask(format_matcher(f), f->mask, err), err));
    if (f->must_call || format_may_call(f))
        token_trie_allow(f->mask, (uint32_t)format_tag(f, CHAT_TAG_CALL));
    *allowed = f->mask;
    return MOTE_OK;
}

mote_status response_format_forced(response_format *f, mote_token *ids, size_t room, size_t *n,
                                   bool *ends, mote_error *err)
{
    char text[RESPONSE_FORMAT_FORCED];
    bool last;
    *n = 0;
    *ends = false;
    if (f->must_call || (f->phase == RESPONSE_FORMAT_CALL && grammar_is_complete(f->call_at))) {
        ids[(*n)++] = format_tag(f, f->must_call ? CHAT_TAG_CALL : CHAT_TAG_CALL_END);
        return MOTE_OK;
    }
    if (format_matcher(f) == NULL || format_may_call(f))
        return MOTE_OK;
    const size_t bytes =
        grammar_forced(format_matcher(f), text, sizeof text < room ? sizeof text : room, &last);
    if (bytes == GRAMMAR_NO_MEMORY)
        return err_set(err, MOTE_E_MEMORY, "out of memory: a response format");
    *ends = last && f->phase == RESPONSE_FORMAT_ANSWER; /* text may follow a call */
    if (bytes == 0)
        return MOTE_OK;
    TRY(mote_tokenize(f->options->chat_ctx->model, text, bytes, 0, ids, room, n, err));
    *n -= *n > 0 && !*ends; /* the model may choose a longer last token */
    return MOTE_OK;
}

mote_status response_format_complete(response_format *f, mote_token *ids, size_t room, size_t *n,
                                     bool *whole, mote_error *err)
{
    char text[RESPONSE_FORMAT_COMPLETION];
    const bool call = f->phase == RESPONSE_FORMAT_CALL;
    *n = 0;
    *whole = false;
    if (format_matcher(f) == NULL)
        return MOTE_OK;
    const size_t bytes = grammar_shortest(format_matcher(f), text, sizeof text);
    if (bytes > 0)
        TRY(mote_tokenize(f->options->chat_ctx->model, text, bytes, 0, ids, room, n, err));
    *whole = (bytes > 0 || grammar_is_complete(format_matcher(f))) && *n + call <= room;
    if (!*whole)
        *n = 0;
    else if (call)
        ids[(*n)++] = format_tag(f, CHAT_TAG_CALL_END);
    return MOTE_OK;
}
