/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parse_queue.c - the input queue of the parser: events out of it, the tokens behind its bytes, and
 * matching with bounded look-ahead. See parse_int.h.
 *
 * Token sources. A token may lead to content long after it arrived, in part, or not at all: blanks
 * before a tag are dropped, an incomplete UTF-8 character waits for its end, and a rejected call
 * becomes content. `sources` keeps the tokens until their bytes are sent or dropped.
 */
#include "base/mem.h"
#include "chat/parse/parse_int.h"

/* ---- events ---- */

void parse_emit(const chat_parser *p, chat_event event)
{
    p->options.event(p->options.with, &event);
}

void parse_warn(const chat_parser *p, chat_warning warning, str text)
{
    parse_emit(p, (chat_event){.kind = CHAT_EVENT_WARNING, .warning = warning, .text = text});
}

size_t parse_next_tag(const chat_parser *p, size_t from, size_t end)
{
    const char *tag = from < end ? memchr(p->held.p + from, TAG_BYTE, end - from) : NULL;
    return tag != NULL ? (size_t)(tag - p->held.p) : end;
}

void parse_spell(const chat_parser *p, strbuf *to, size_t begin, size_t end)
{
    while (begin < end) {
        const size_t tag = parse_next_tag(p, begin, end);
        strbuf_put(to, (str){p->held.p + begin, tag - begin});
        if (tag < end)
            strbuf_text(to, chat_tag_text((chat_tag)p->held.p[tag + 1]));
        begin = tag + 2;
    }
}

/* ---- which tokens lead to content ---- */

enum { FIRST_ROOM = 64 };

static bool source_reserve(chat_parser *p)
{
    if (p->n_sources < p->sources_room)
        return true;
    const size_t left = p->n_sources - p->first_source;
    if (p->first_source > p->sources_room / 2) {
        memmove(p->sources, p->sources + p->first_source, left * sizeof *p->sources);
        p->first_source = 0;
        p->n_sources = left;
        return true;
    }
    const size_t room = p->sources_room * 2 + FIRST_ROOM;
    parse_source *grown = mem_resize(p->sources, p->sources_room, room, sizeof *grown);
    if (grown == NULL)
        return false;
    p->sources = grown;
    p->sources_room = room;
    return true;
}

void source_add(chat_parser *p, size_t begin, mote_token id)
{
    if (!p->options.tokens)
        return;
    p->sources_failed |= !source_reserve(p);
    if (p->sources_failed)
        return;
    const bool half = p->stream.n_held > 0;
    p->sources[p->n_sources++] = (parse_source){.begin = p->moved + begin,
                                                .end = p->moved + p->held.n + half,
                                                .token = p->n_tokens - 1,
                                                .id = id};
}

void source_forget(chat_parser *p, size_t at)
{
    while (p->first_source < p->n_sources && p->sources[p->first_source].end <= p->moved + at)
        p->first_source++;
}

static void source_emit_first(chat_parser *p)
{
    const parse_source *s = &p->sources[p->first_source++];
    chat_event event = {.kind = CHAT_EVENT_TOKEN, .token = s->token};
    event.text.p = mote_token_bytes(p->options.model, s->id, &event.text.n);
    parse_emit(p, event);
}

size_t source_emit(chat_parser *p, size_t begin, size_t end)
{
    source_forget(p, begin);
    while (p->first_source < p->n_sources) {
        const size_t next = p->sources[p->first_source].begin;
        if (next > p->moved + begin)
            return next < p->moved + end ? next - p->moved : end;
        source_emit_first(p);
    }
    return end;
}

void source_emit_taken(chat_parser *p)
{
    while (p->first_source < p->n_sources &&
           p->sources[p->first_source].begin < p->moved + p->taken)
        source_emit_first(p);
}

/* ---- text out of the queue ---- */

static void queue_emit(const chat_parser *p, chat_event_kind kind, size_t begin, size_t end)
{
    while (begin < end) {
        const size_t tag = parse_next_tag(p, begin, end);
        if (tag > begin)
            parse_emit(p, (chat_event){.kind = kind, .text = {p->held.p + begin, tag - begin}});
        if (tag < end) {
            const char *text = chat_tag_text((chat_tag)p->held.p[tag + 1]);
            parse_emit(p, (chat_event){.kind = kind, .text = str_of(text)});
        }
        begin = tag + 2;
    }
}

void parse_emit_text(chat_parser *p, chat_event_kind kind, size_t begin, size_t end)
{
    while (kind == CHAT_EVENT_CONTENT && begin < end) {
        const size_t next = source_emit(p, begin, end);
        queue_emit(p, kind, begin, next);
        begin = next;
    }
    queue_emit(p, kind, begin, end);
    source_forget(p, end);
}

void parse_enter_content(chat_parser *p)
{
    p->state = PARSE_CONTENT;
    p->fresh = true;
    p->in_line = false;
    p->indent = 0;
    p->fence = 0;
    p->run = 0;
    p->run_of = 0;
    p->at = p->taken;
    source_forget(p, p->taken);
}

/* ---- what stands at a position of the queue ---- */

parse_match match_either(parse_match a, parse_match b)
{
    if (a == MATCH_YES || b == MATCH_YES)
        return MATCH_YES;
    return a == MATCH_MAYBE || b == MATCH_MAYBE ? MATCH_MAYBE : MATCH_NO;
}

parse_match match_text(const chat_parser *p, size_t at, const char *text, size_t *end)
{
    const size_t n = strlen(text), left = p->held.n - at;
    const size_t seen = left < n ? left : n;
    if (seen > 0 && memcmp(p->held.p + at, text, seen) != 0)
        return MATCH_NO;
    *end = at + n;
    if (seen == n)
        return MATCH_YES;
    return p->ended ? MATCH_NO : MATCH_MAYBE;
}

parse_match match_tag(const chat_parser *p, size_t at, chat_tag tag, size_t *end)
{
    if (at < p->held.n && p->held.p[at] == TAG_BYTE) {
        *end = at + 2;
        return p->held.p[at + 1] == (char)tag ? MATCH_YES : MATCH_NO;
    }
    return match_text(p, at, chat_tag_text(tag), end);
}

parse_match match_blanks(const chat_parser *p, size_t at, size_t *end)
{
    size_t n = 0;
    while (at + n < p->held.n && n < CHAT_MAX_BLANKS && parse_is_blank(p->held.p[at + n]))
        n++;
    *end = at + n;
    return at + n == p->held.n && n < CHAT_MAX_BLANKS && !p->ended ? MATCH_MAYBE : MATCH_YES;
}

const parse_tool *parse_find_tool(const chat_parser *p, str name)
{
    for (size_t i = 0; i < p->n_tools; i++)
        if (str_eq(p->tools[i].name, name))
            return &p->tools[i];
    return NULL;
}

bool parse_key_given(const chat_parser *p, str key)
{
    for (size_t at = 0; at < p->keys.n;) {
        const str given = str_of(p->keys.p + at);
        if (str_eq(given, key))
            return true;
        at += given.n + 1;
    }
    return false;
}

/* The name in ` name="NAME"` or `=NAME`, without the blanks and quotes around it. */
static bool head_clean_name(str inside, str *name)
{
    while (inside.n > 0 && parse_is_blank(inside.p[inside.n - 1]))
        inside.n--;
    if (inside.n > 0 && parse_is_blank(inside.p[0])) {
        while (inside.n > 0 && parse_is_blank(inside.p[0])) {
            inside.p++;
            inside.n--;
        }
        if (inside.n < 4 || memcmp(inside.p, "name", 4) != 0)
            return false;
        inside = (str){inside.p + 4, inside.n - 4};
    }
    if (inside.n == 0 || inside.p[0] != '=')
        return false;
    do {
        inside = (str){inside.p + 1, inside.n - 1};
    } while (inside.n > 0 && parse_is_blank(inside.p[0]));
    if (inside.n >= 2 && (inside.p[0] == '"' || inside.p[0] == '\'') &&
        inside.p[inside.n - 1] == inside.p[0])
        inside = (str){inside.p + 1, inside.n - 2};
    *name = inside;
    return inside.n > 0;
}

parse_match match_head(const chat_parser *p, size_t at, const char *word, str *name, size_t *end)
{
    size_t start, close;
    const parse_match opened = match_text(p, at, word, &start);
    if (opened != MATCH_YES)
        return opened;
    const bool may_break = strcmp(word, "<parameter") == 0;
    for (close = start; close < p->held.n && close - start < CHAT_MAX_HEAD; close++) {
        const char c = p->held.p[close];
        if (c == '>' || c == '\n' || c == '<' || c == TAG_BYTE || c == 0)
            break;
    }
    if (close - start == CHAT_MAX_HEAD)
        return MATCH_NO;
    const str inside = {p->held.p + start, close - start};
    if (close == p->held.n)
        return p->ended || (inside.n > 0 && inside.p[0] != '=' && inside.p[0] != ' ') ? MATCH_NO
                                                                                      : MATCH_MAYBE;
    *end = close + (p->held.p[close] == '>');
    if (p->held.p[close] != '>' && !(may_break && p->held.p[close] == '\n'))
        return MATCH_NO;
    return head_clean_name(inside, name) ? MATCH_YES : MATCH_NO;
}

parse_match match_function(const chat_parser *p, size_t at, const parse_tool **tool, size_t *end)
{
    str name;
    const parse_match head = match_head(p, at, "<function", &name, end);
    if (head != MATCH_YES)
        return head;
    *tool = parse_find_tool(p, name);
    return *tool != NULL ? MATCH_YES : MATCH_NO;
}

/* Whether a tag of a call follows after blanks. With `or_end`, the end of the answer or the start
 * of another call also counts. */
static parse_match match_next_tag(const chat_parser *p, size_t at, bool or_end)
{
    size_t next, end;
    if (match_blanks(p, at, &next) == MATCH_MAYBE)
        return MATCH_MAYBE;
    if (next == p->held.n)
        return p->ended && or_end ? MATCH_YES : p->ended ? MATCH_NO : MATCH_MAYBE;
    parse_match found = match_text(p, next, "<parameter", &end);
    found = match_either(found, match_text(p, next, "</function>", &end));
    found = match_either(found, match_text(p, next, "</parameter>", &end));
    found = match_either(found, match_tag(p, next, CHAT_TAG_CALL_END, &end));
    if (!or_end)
        return found;
    found = match_either(found, match_text(p, next, "<function", &end));
    return match_either(found, match_tag(p, next, CHAT_TAG_CALL, &end));
}

/* Whether the answer ends here or another call follows; with `or_closing` also </tool_call>. */
static parse_match match_end_of_call(const chat_parser *p, size_t at, bool or_closing)
{
    size_t next, end;
    if (match_blanks(p, at, &next) == MATCH_MAYBE)
        return MATCH_MAYBE;
    if (next == p->held.n)
        return p->ended ? MATCH_YES : MATCH_MAYBE;
    const parse_match found = match_tag(p, next, CHAT_TAG_CALL, &end);
    return or_closing ? match_either(found, match_tag(p, next, CHAT_TAG_CALL_END, &end)) : found;
}

parse_match match_bare_call(const chat_parser *p, size_t at)
{
    const parse_tool *tool;
    size_t next, end;
    const parse_match spelt = match_text(p, at, chat_tag_text(CHAT_TAG_CALL), &next);
    if (spelt == MATCH_YES) {
        if (match_blanks(p, next, &at) == MATCH_MAYBE)
            return MATCH_MAYBE;
    }
    const parse_match function = match_function(p, at, &tool, &end);
    if (function != MATCH_YES)
        return match_either(spelt == MATCH_MAYBE ? MATCH_MAYBE : MATCH_NO, function);
    return match_next_tag(p, end, false);
}

/* </KEY> in place of </parameter>, followed by the next tag. A value that really ends with the text
 * </KEY> is followed by </parameter> instead. */
static parse_match match_wrong_closing(const chat_parser *p, size_t at, size_t *end)
{
    char closing[CHAT_MAX_HEAD + 8];
    size_t next, after;
    if (p->key.n > CHAT_MAX_HEAD)
        return MATCH_NO;
    memcpy(closing, "</", 2);
    memcpy(closing + 2, p->key.p, p->key.n);
    memcpy(closing + 2 + p->key.n, ">", 2);
    const parse_match found = match_text(p, at, closing, end);
    if (found != MATCH_YES)
        return found;
    if (match_blanks(p, *end, &next) == MATCH_MAYBE)
        return MATCH_MAYBE;
    if (next == p->held.n)
        return p->ended ? MATCH_NO : MATCH_MAYBE;
    return match_either(match_text(p, next, "<parameter", &after),
                        match_text(p, next, "</function>", &after));
}

/* A line that starts with another parameter of the schema, although the value has not ended. */
static parse_match match_next_parameter(const chat_parser *p, size_t at)
{
    str name;
    size_t end;
    if ((at > p->taken ? p->held.p[at - 1] : p->value_last) != '\n')
        return MATCH_NO;
    const parse_match head = match_head(p, at, "<parameter", &name, &end);
    if (head != MATCH_YES)
        return head;
    return chat_argument_declared(p->tool->parameters, name) && !parse_key_given(p, name)
               ? MATCH_YES
               : MATCH_NO;
}

parse_match match_value_end(const chat_parser *p, size_t at, size_t *end, bool *regular)
{
    size_t after = at;
    *regular = true;
    parse_match found = match_text(p, at, "</parameter>", end), other;
    if (found == MATCH_YES)
        return match_next_tag(p, *end, true);
    *regular = false;
    other = match_wrong_closing(p, at, end);
    if (other == MATCH_YES)
        return MATCH_YES;
    found = match_either(found, other);
    *end = at; /* below, the tag is not consumed: PARSE_BODY reads it */
    other = match_text(p, at, "</function>", &after);
    if (other == MATCH_YES)
        return match_either(found, match_end_of_call(p, after, true));
    found = match_either(found, other);
    other = match_tag(p, at, CHAT_TAG_CALL_END, &after);
    if (other == MATCH_YES)
        return match_either(found, match_end_of_call(p, after, false));
    found = match_either(found, other);
    return match_either(found, match_next_parameter(p, at));
}
