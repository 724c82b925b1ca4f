/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parse.c - the parser object and its states outside tool calls: tokens into the queue, thinking
 * and content out of it. parse_tool_call.c has the states of a call.
 */
#include "chat/parse/parse.h"

#include "base/mem.h"
#include "chat/parse/parse_int.h"

/* ---- thinking ---- */

/* `end` minus trailing blanks. At most CHAT_MAX_BLANKS are held back. */
static size_t queue_before_blanks(const chat_parser *p, size_t end)
{
    size_t n = 0;
    while (end - n > p->taken && n < CHAT_MAX_BLANKS && parse_is_blank(p->held.p[end - n - 1]))
        n++;
    return end - n;
}

static void queue_skip_leading_blanks(chat_parser *p)
{
    while (p->fresh && p->taken < p->held.n && parse_is_blank(p->held.p[p->taken]))
        p->taken++;
    if (p->fresh && p->taken < p->held.n && p->held.p[p->taken] != TAG_BYTE)
        p->fresh = false;
    source_forget(p, p->taken);
}

static void queue_emit_until(chat_parser *p, chat_event_kind kind, size_t end)
{
    if (end > p->taken)
        parse_emit_text(p, kind, p->taken, end);
    p->taken = end > p->taken ? end : p->taken;
}

/* Drops the blanks at both ends of thinking. */
static bool parse_thinking(chat_parser *p)
{
    queue_skip_leading_blanks(p);
    const size_t at = parse_next_tag(p, p->taken, p->held.n);
    if (at == p->held.n) {
        queue_emit_until(p, CHAT_EVENT_REASONING, queue_before_blanks(p, at));
        return false;
    }
    const chat_tag tag = (chat_tag)p->held.p[at + 1];
    if (tag == CHAT_TAG_THINK_END) {
        queue_emit_until(p, CHAT_EVENT_REASONING, queue_before_blanks(p, at));
        p->taken = at + 2;
        parse_enter_content(p);
    } else if (tag == CHAT_TAG_THINK && p->fresh) {
        p->taken = at + 2; /* the prompt has opened the block already */
    } else {
        queue_emit_until(p, CHAT_EVENT_REASONING, at + 2);
        p->fresh = false;
    }
    return true;
}

/* ---- content ---- */

/* Tracks line starts, indent, and code blocks between lines of ``` or ~~~. */
static void content_track_line(chat_parser *p, char c)
{
    enum { FENCE = 3 };
    if (c == '\n' || c == '\r') {
        p->in_line = false;
        p->indent = 0;
        p->run = 0;
        p->run_of = 0;
    } else if (!p->in_line && c == ' ' && p->indent < 3) {
        p->indent++;
    } else if (c == p->run_of && p->run > 0) {
        p->run++;
        if (p->run == FENCE && (p->fence == 0 || p->fence == c))
            p->fence = p->fence == 0 ? c : 0;
    } else {
        const bool begins = !p->in_line && (c == '`' || c == '~');
        p->run_of = begins ? c : 0;
        p->run = begins;
        p->in_line = true;
    }
}

/* A control token in content. <tool_call> and <think> open a section, others are stray. */
static void content_tag(chat_parser *p)
{
    const chat_tag tag = (chat_tag)p->held.p[p->at + 1];
    const size_t at = p->at;
    if (tag == CHAT_TAG_CALL && p->fence == 0) {
        queue_emit_until(p, CHAT_EVENT_CONTENT, queue_before_blanks(p, at));
        parse_open_call(p, at + 2);
    } else if (tag == CHAT_TAG_CALL || (tag == CHAT_TAG_CALL_END && p->fence != 0)) {
        queue_emit_until(p, CHAT_EVENT_CONTENT, at);
        if (tag == CHAT_TAG_CALL)
            parse_warn(p, CHAT_WARN_FENCED, str_of(""));
        queue_emit_until(p, CHAT_EVENT_CONTENT, at + 2);
        p->fresh = false;
        p->in_line = true;
        p->run = 0;
        p->at = at + 2;
    } else if (tag == CHAT_TAG_THINK) {
        queue_emit_until(p, CHAT_EVENT_CONTENT, queue_before_blanks(p, at));
        p->taken = p->at = at + 2;
        p->state = PARSE_THINK;
        p->fresh = true;
    } else {
        queue_emit_until(p, CHAT_EVENT_CONTENT, at);
        parse_warn(p, CHAT_WARN_STRAY_TAG, str_of(chat_tag_text(tag)));
        p->taken = p->at = at + 2;
    }
}

/* At a `<`: true if this is, or may become, a call without the control token <tool_call>. */
static bool content_bare_call(chat_parser *p)
{
    if (p->in_line || p->fence != 0 || p->n_tools == 0)
        return false;
    const bool last = p->ended && !p->cut; /* in a cut answer, a possible call counts as a call */
    p->ended = last;
    const parse_match found = match_bare_call(p, p->at);
    p->ended = last || p->cut;
    if (found == MATCH_NO)
        return false;
    queue_emit_until(p, CHAT_EVENT_CONTENT, queue_before_blanks(p, p->at));
    if (found == MATCH_MAYBE && p->ended) {
        parse_warn(p, CHAT_WARN_CUT, str_of(""));
        p->taken = p->at = p->held.n;
    }
    if (found == MATCH_YES) {
        size_t head = p->at;
        if (match_text(p, p->at, chat_tag_text(CHAT_TAG_CALL), &head) != MATCH_YES)
            head = p->at;
        parse_open_call(p, head);
        p->repaired = true;
    }
    return true;
}

static bool parse_content(chat_parser *p)
{
    if (p->fresh) {
        queue_skip_leading_blanks(p);
        while (p->at < p->taken)
            content_track_line(p, p->held.p[p->at++]);
    }
    for (; p->at < p->held.n; p->at++) {
        const char c = p->held.p[p->at];
        if (c == TAG_BYTE) {
            content_tag(p);
            return true;
        }
        if (c == '<' && content_bare_call(p))
            return p->state != PARSE_CONTENT;
        content_track_line(p, c);
    }
    queue_emit_until(p, CHAT_EVENT_CONTENT,
                     p->ended ? p->held.n : queue_before_blanks(p, p->held.n));
    return false;
}

/* ---- the queue ---- */

/* Runs the current state. False: it waits for more input. */
static bool parse_step(chat_parser *p)
{
    switch (p->state) {
    case PARSE_RAW: queue_emit_until(p, CHAT_EVENT_CONTENT, p->held.n); return false;
    case PARSE_THINK: return parse_thinking(p);
    case PARSE_CONTENT: return parse_content(p);
    case PARSE_HEAD: return parse_head(p);
    case PARSE_BODY: return parse_body(p);
    case PARSE_VALUE: return parse_value(p);
    case PARSE_JSON: return parse_json(p);
    case PARSE_AFTER: return parse_after(p);
    case PARSE_BROKEN: return parse_broken(p);
    }
    return false;
}

static mote_status parse_check_memory(const chat_parser *p, mote_error *err)
{
    const strbuf *all[] = {&p->held, &p->raw, &p->arguments, &p->keys, &p->key, &p->value};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        TRY(strbuf_check(all[i], err));
    return !p->sources_failed
               ? MOTE_OK
               : err_set(err, MOTE_E_MEMORY, "out of memory: token list of a parser");
}

/* Runs the states until they need more input, then removes the consumed bytes from the queue. */
static mote_status parse_run(chat_parser *p, mote_error *err)
{
    while (!p->held.failed && parse_step(p))
        continue;
    if (p->taken > 0) {
        memmove(p->held.p, p->held.p + p->taken, p->held.n - p->taken);
        p->held.n -= p->taken;
        p->at = p->at > p->taken ? p->at - p->taken : 0;
        p->moved += p->taken;
        p->taken = 0;
    }
    return parse_check_memory(p, err);
}

static void queue_add_text(chat_parser *p, mote_token id)
{
    char piece[MOTE_PIECE_BYTES];
    const size_t n = mote_text_next(p->options.model, &p->stream, id, piece, sizeof piece);
    strbuf_put(&p->held, (str){piece, n});
}

/* The tag of this id, if it has a meaning in an answer; otherwise CHAT_N_TAGS. */
static chat_tag parse_tag_of(const chat_parser *p, mote_token id)
{
    int tag = CHAT_TAG_THINK;
    while (tag <= CHAT_TAG_CALL_END && p->options.template->tags[tag] != id)
        tag++;
    return !p->options.raw && tag <= CHAT_TAG_CALL_END ? (chat_tag)tag : CHAT_N_TAGS;
}

/* Control tokens that have no meaning in an answer and are not shown. */
static bool parse_is_stray(const chat_parser *p, mote_token id)
{
    const mote_token *tags = p->options.template->tags;
    return mote_token_is_control(p->options.model, id) ||
           (!p->options.raw &&
            (id == tags[CHAT_TAG_RESPONSE] || id == tags[CHAT_TAG_RESPONSE_END]));
}

mote_status chat_parser_token(chat_parser *p, mote_token id, mote_error *err)
{
    const chat_tag tag = parse_tag_of(p, id);
    const size_t begin = p->held.n;
    p->n_tokens++;
    if (tag != CHAT_N_TAGS) {
        const char bytes[2] = {TAG_BYTE, (char)tag};
        queue_add_text(p, -1);
        strbuf_put(&p->held, (str){bytes, sizeof bytes});
    } else if (mote_token_is_end(p->options.model, id)) {
        return MOTE_OK;
    } else if (parse_is_stray(p, id)) {
        size_t n;
        const char *text = mote_token_bytes(p->options.model, id, &n);
        if (!p->options.raw)
            parse_warn(p, CHAT_WARN_STRAY_TAG, (str){text, n});
        return MOTE_OK;
    } else {
        queue_add_text(p, id);
    }
    source_add(p, begin, id);
    return parse_run(p, err);
}

mote_status chat_parser_end(chat_parser *p, bool cut, mote_error *err)
{
    queue_add_text(p, -1);
    p->ended = true;
    p->cut = cut;
    TRY(parse_run(p, err));
    parse_emit(
        p,
        (chat_event){.kind = CHAT_EVENT_END, .cut = cut, .thinking_open = p->state == PARSE_THINK});
    return MOTE_OK;
}

/* ---- the object ---- */

/* Accepts {"type": "function", "function": {...}} and the inner object alone. */
static void parse_add_tool(chat_parser *p, const json_node *tool)
{
    const json_node *function = json_node_get(tool, "function");
    const json_node *from = json_node_is(function, JSON_IS_OBJECT) ? function : tool;
    const json_node *name = json_node_get(from, "name");
    if (json_node_is(name, JSON_IS_STRING) && p->n_tools < CHAT_MAX_TOOLS)
        p->tools[p->n_tools++] =
            (parse_tool){json_node_text(name), json_node_get(from, "parameters")};
}

mote_status chat_parser_new(chat_parser **out, const chat_parser_options *options, mote_error *err)
{
    *out = NULL;
    chat_parser *p = mem_new(1, sizeof *p);
    if (p == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: a parser");
    p->options = *options;
    for (size_t i = 0; i < options->n_tools; i++)
        if (options->tool_allowed == NULL || options->tool_allowed[i])
            parse_add_tool(p, options->tools[i]);
    parse_enter_content(p);
    p->state = options->raw ? PARSE_RAW : options->thinking ? PARSE_THINK : PARSE_CONTENT;
    p->fresh = options->thinking; /* without thinking, the answer may continue a partial line: keep
                                     its leading blanks */
    *out = p;
    return MOTE_OK;
}

void chat_parser_free(chat_parser *p)
{
    if (p == NULL)
        return;
    strbuf *all[] = {&p->held, &p->raw, &p->arguments, &p->keys, &p->key, &p->value};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        strbuf_fini(all[i]);
    mem_free(p->sources);
    mem_free(p);
}

chat_place chat_parser_place(const chat_parser *p)
{
    switch (p->state) {
    case PARSE_THINK: return CHAT_PLACE_THINKING;
    case PARSE_HEAD:
    case PARSE_BODY:
    case PARSE_VALUE:
    case PARSE_JSON: return CHAT_PLACE_CALL;
    default: return CHAT_PLACE_CONTENT;
    }
}

uint32_t chat_parser_calls(const chat_parser *p)
{
    return p->n_ended;
}

size_t chat_parser_settled(const chat_parser *p)
{
    return p->first_source < p->n_sources ? p->sources[p->first_source].token : p->n_tokens;
}

const char *chat_warning_name(chat_warning warning)
{
    static const char *const names[] = {
        "unknown_tool", "malformed",      "repaired",         "cut",
        "too_long",     "type",           "duplicate",        "stray_tag",
        "fenced",       "schema_widened", "tool_type_ignored"};
    return names[warning];
}
