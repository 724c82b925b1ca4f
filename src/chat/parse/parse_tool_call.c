/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parse_tool_call.c - from <tool_call> or <function=NAME> to the end of the call.
 *
 * Every state takes a tag or a stretch from the front of the queue and keeps a copy in
 * `raw`, so that a call which turns out to be none can be given back as content.
 */
#include "chat/parse/parse_int.h"

void call_take(chat_parser *p, size_t end)
{
    parse_spell(p, &p->raw, p->taken, end);
    p->taken = p->at = end;
}

str call_tool_name(const chat_parser *p)
{
    return p->tool != NULL ? p->tool->name : str_of("");
}

static void call_forget(chat_parser *p)
{
    p->raw.n = 0;
    p->arguments.n = 0;
    p->keys.n = 0;
    p->shown = 0;
    p->tool = NULL;
    p->repaired = p->tagged = p->started = false;
}

/* ---- the call as a whole ---- */

void parse_open_call(chat_parser *p, size_t head_at)
{
    call_forget(p);
    p->tagged = head_at >= p->taken + 2 && p->held.p[head_at - 2] == TAG_BYTE;
    call_take(p, head_at);
    p->state = PARSE_HEAD;
}

static void call_emit(const chat_parser *p, chat_event_kind kind, str text)
{
    parse_emit(
        p, (chat_event){
               .kind = kind, .call = p->n_started - 1, .name = call_tool_name(p), .text = text});
}

void call_enter(chat_parser *p, const parse_tool *tool)
{
    p->tool = tool;
    p->junk = false;
    p->state = PARSE_BODY;
}

static void call_start(chat_parser *p)
{
    if (p->started)
        return;
    p->started = true;
    p->n_started++;
    call_emit(p, CHAT_EVENT_CALL_START, str_of(""));
}

void call_start_if_certain(chat_parser *p)
{
    if (p->options.formed && p->tagged && !p->repaired)
        call_start(p);
}

void call_show_arguments(chat_parser *p)
{
    if (!p->started || p->arguments.failed || p->arguments.n == p->shown)
        return;
    const str piece = {p->arguments.p + p->shown, p->arguments.n - p->shown};
    p->shown = p->arguments.n;
    call_emit(p, CHAT_EVENT_CALL_ARGUMENTS, piece);
}

void call_end(chat_parser *p)
{
    strbuf_text(&p->arguments, p->arguments.n == 0 ? "{}" : "}");
    call_start(p);
    call_show_arguments(p);
    if (p->repaired)
        parse_warn(p, CHAT_WARN_REPAIRED, call_tool_name(p));
    p->n_ended++;
    call_emit(p, CHAT_EVENT_CALL_END, strbuf_view(&p->arguments));
    call_forget(p);
    source_forget(p, p->taken);
    p->state = PARSE_AFTER;
}

/* It is no call: what was taken of it becomes content, and the rest follows. */
void call_give_back(chat_parser *p, chat_warning warning, str about)
{
    if (p->started)
        call_emit(p, CHAT_EVENT_CALL_CANCEL, str_of(""));
    parse_warn(p, warning, about);
    if (p->raw.n > 0)
        source_tell_taken(p);
    if (p->raw.n > 0 && !p->raw.failed)
        parse_emit(p, (chat_event){.kind = CHAT_EVENT_CONTENT, .text = strbuf_view(&p->raw)});
    call_forget(p);
    p->state = PARSE_BROKEN;
}

/* The answer was cut inside it: half a call is worth nothing to anybody. */
void call_drop(chat_parser *p)
{
    if (p->started)
        call_emit(p, CHAT_EVENT_CALL_CANCEL, str_of(""));
    parse_warn(p, CHAT_WARN_CUT, call_tool_name(p));
    call_forget(p);
    p->taken = p->at = p->held.n;
    source_forget(p, p->taken);
    p->state = PARSE_AFTER;
}

bool call_too_long(chat_parser *p)
{
    if (p->raw.n <= CHAT_MAX_CALL_BYTES)
        return false;
    call_give_back(p, CHAT_WARN_TOO_LONG, call_tool_name(p));
    return true;
}

/* ---- after <tool_call> ---- */

static bool head_function(chat_parser *p, str name, size_t end)
{
    const parse_tool *tool = find_tool(p, name);
    if (tool == NULL) {
        call_give_back(p, CHAT_WARN_UNKNOWN_TOOL, name);
        return true;
    }
    call_take(p, end);
    call_enter(p, tool);
    return true;
}

bool parse_head(chat_parser *p)
{
    size_t next, end;
    str name;
    parse_match waits = match_blanks(p, p->taken, &next);
    if (waits != MATCH_MAYBE && next < p->held.n) {
        if (p->held.p[next] == '{') {
            call_take(p, next);
            p->whole_json = true;
            p->state = PARSE_JSON;
            return true;
        }
        parse_match found = match_head(p, next, "<function", &name, &end);
        if (found == MATCH_YES)
            return head_function(p, name, end);
        waits = match_either(MATCH_NO, found);
        found = match_tag(p, next, CHAT_TAG_CALL, &end); /* said twice */
        if (found == MATCH_YES) {
            p->repaired = true;
            call_take(p, end);
            return true;
        }
        waits = match_either(waits, found);
    }
    if (waits == MATCH_MAYBE || (next == p->held.n && !p->ended))
        return false;
    if (p->ended && p->cut)
        call_drop(p);
    else
        call_give_back(p, CHAT_WARN_MALFORMED, str_of(""));
    return true;
}

/* ---- inside <function=NAME> ---- */

/* The tags that may follow in a function; false: none does, or none yet. */
static bool body_tag(chat_parser *p, size_t next, parse_match *waits)
{
    const parse_tool *tool;
    size_t end;
    str key;
    parse_match found = match_head(p, next, "<parameter", &key, &end);
    if (found == MATCH_YES) {
        p->repaired |= p->held.p[end - 1] != '>';
        call_begin_value(p, key, end);
        return true;
    }
    *waits = match_either(*waits, found);
    found = match_text(p, next, "</function>", &end);
    if (found == MATCH_YES) {
        call_take(p, end);
        call_end(p);
        return true;
    }
    *waits = match_either(*waits, found);
    found = match_text(p, next, "</parameter>", &end);
    if (found == MATCH_YES) {
        p->repaired = true;
        call_take(p, end);
        return true;
    }
    *waits = match_either(*waits, found);
    found = match_either(match_tag(p, next, CHAT_TAG_CALL_END, &end),
                         match_tag(p, next, CHAT_TAG_CALL, &end));
    found = match_either(found, match_function(p, next, &tool, &end));
    if (found == MATCH_YES) { /* </function> is missing; PARSE_AFTER takes the tag */
        p->repaired = true;
        p->taken = p->at = next;
        call_end(p);
        return true;
    }
    *waits = match_either(*waits, found);
    return false;
}

/* Text between parameters says nothing to anybody. */
static void skip_junk(chat_parser *p, size_t next)
{
    size_t end = next + (p->held.p[next] == TAG_BYTE ? 2 : 1);
    while (end < p->held.n && p->held.p[end] != '<' && p->held.p[end] != TAG_BYTE)
        end++;
    p->repaired = p->junk = true;
    call_take(p, end);
}

bool parse_body(chat_parser *p)
{
    size_t next;
    parse_match waits = MATCH_NO;
    if (match_blanks(p, p->taken, &next) == MATCH_MAYBE)
        return false;
    if (next == p->held.n && !p->ended)
        return false;
    if (next == p->held.n) { /* the rest is missing */
        p->taken = p->at = next;
        if (p->cut) {
            call_drop(p);
            return true;
        }
        p->repaired = true;
        call_end(p);
        return true;
    }
    if (body_tag(p, next, &waits)) {
        call_too_long(p);
        return true;
    }
    if (waits == MATCH_MAYBE)
        return false;
    if (p->held.p[next] == '{' && p->keys.n == 0 && !p->junk) {
        call_take(p, next);
        p->whole_json = false;
        p->state = PARSE_JSON;
        return true;
    }
    skip_junk(p, next);
    call_too_long(p);
    return true;
}

/* ---- behind a call ---- */

bool parse_after(chat_parser *p)
{
    const parse_tool *tool;
    size_t next, end;
    if (match_blanks(p, p->taken, &next) == MATCH_MAYBE || (next == p->held.n && !p->ended))
        return false;
    if (next == p->held.n) {
        p->taken = p->at = next;
        return false;
    }
    parse_match found = match_tag(p, next, CHAT_TAG_CALL_END, &end), waits = found;
    if (found == MATCH_YES) {
        p->taken = end;
        parse_enter_content(p);
        return true;
    }
    found = match_text(p, next, "</function>", &end); /* said twice, or JSON ended here */
    if (found == MATCH_YES) {
        p->taken = p->at = end;
        return true;
    }
    waits = match_either(waits, found);
    found = match_tag(p, next, CHAT_TAG_CALL, &end);
    if (found == MATCH_YES) {
        p->taken = p->at = next;
        parse_open_call(p, end);
        return true;
    }
    waits = match_either(waits, found);
    found = match_function(p, next, &tool, &end); /* another one in the same <tool_call> */
    if (found == MATCH_YES) {
        p->taken = p->at = next;
        parse_open_call(p, next);
        p->repaired = true;
        return true;
    }
    if (match_either(waits, found) == MATCH_MAYBE)
        return false;
    parse_enter_content(p);
    return true;
}

bool parse_broken(chat_parser *p)
{
    const size_t at = parse_next_tag(p, p->taken, p->held.n);
    if (at > p->taken)
        parse_emit_text(p, CHAT_EVENT_CONTENT, p->taken, at);
    p->taken = p->at = at;
    if (at == p->held.n)
        return false;
    const chat_tag tag = (chat_tag)p->held.p[at + 1];
    if (tag == CHAT_TAG_CALL) {
        parse_open_call(p, at + 2);
        return true;
    }
    if (tag == CHAT_TAG_CALL_END) {
        parse_emit_text(p, CHAT_EVENT_CONTENT, at, at + 2);
        p->taken = at + 2;
    }
    parse_enter_content(p);
    p->fresh = false;
    p->in_line = true;
    return true;
}
