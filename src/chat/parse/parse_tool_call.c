/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parse_tool_call.c - the parser states from <tool_call> or <function=NAME> to the end of the call:
 * head, parameters and their values, JSON in place of parameters.
 *
 * Every state consumes a tag or some text from the front of the queue and appends it to `raw`, so
 * that a rejected call can be sent as content.
 */
#include "chat/parse/parse_int.h"

/* Consumes the queue up to `end`. */
static void call_take(chat_parser *p, size_t end)
{
    parse_spell(p, &p->raw, p->taken, end);
    p->taken = p->at = end;
}

static str call_tool_name(const chat_parser *p)
{
    return p->tool != NULL ? p->tool->name : str_of("");
}

static void call_reset(chat_parser *p)
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
    call_reset(p);
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

/* <function=NAME> was read. */
static void call_enter(chat_parser *p, const parse_tool *tool)
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

/* A parameter starts: sends CALL_START if the call is certain (see parse.h). */
static void call_start_if_certain(chat_parser *p)
{
    if (p->options.constrained && p->tagged && !p->repaired)
        call_start(p);
}

/* Sends what was added to the arguments, if the call has started. */
static void call_emit_arguments(chat_parser *p)
{
    if (!p->started || p->arguments.failed || p->arguments.n == p->shown)
        return;
    const str piece = {p->arguments.p + p->shown, p->arguments.n - p->shown};
    p->shown = p->arguments.n;
    call_emit(p, CHAT_EVENT_CALL_ARGUMENTS, piece);
}

static void call_end(chat_parser *p)
{
    strbuf_text(&p->arguments, p->arguments.n == 0 ? "{}" : "}");
    call_start(p);
    call_emit_arguments(p);
    if (p->repaired)
        parse_warn(p, CHAT_WARN_REPAIRED, call_tool_name(p));
    p->n_ended++;
    call_emit(p, CHAT_EVENT_CALL_END, strbuf_view(&p->arguments));
    call_reset(p);
    source_forget(p, p->taken);
    p->state = PARSE_AFTER;
}

/* Rejects the call: sends what was consumed as content. PARSE_BROKEN sends what follows. */
static void call_to_content(chat_parser *p, chat_warning warning, str about)
{
    if (p->started)
        call_emit(p, CHAT_EVENT_CALL_CANCEL, str_of(""));
    parse_warn(p, warning, about);
    if (p->raw.n > 0)
        source_emit_taken(p);
    if (p->raw.n > 0 && !p->raw.failed)
        parse_emit(p, (chat_event){.kind = CHAT_EVENT_CONTENT, .text = strbuf_view(&p->raw)});
    call_reset(p);
    p->state = PARSE_BROKEN;
}

/* The answer was cut inside the call: drops it. */
static void call_drop(chat_parser *p)
{
    if (p->started)
        call_emit(p, CHAT_EVENT_CALL_CANCEL, str_of(""));
    parse_warn(p, CHAT_WARN_CUT, call_tool_name(p));
    call_reset(p);
    p->taken = p->at = p->held.n;
    source_forget(p, p->taken);
    p->state = PARSE_AFTER;
}

/* true: the call exceeds CHAT_MAX_CALL_BYTES and was rejected. */
static bool call_too_long(chat_parser *p)
{
    if (p->raw.n <= CHAT_MAX_CALL_BYTES)
        return false;
    call_to_content(p, CHAT_WARN_TOO_LONG, call_tool_name(p));
    return true;
}

/* ---- inside <parameter=KEY> ---- */

static void call_put_key(chat_parser *p)
{
    strbuf_text(&p->arguments, p->arguments.n == 0 ? "{" : ", ");
    json_put_string(&p->arguments, strbuf_view(&p->key));
    strbuf_text(&p->arguments, ": ");
}

/* <parameter=KEY> ends at `end`. */
static void value_begin(chat_parser *p, str key, size_t end)
{
    p->key.n = 0;
    strbuf_put(&p->key, key);
    p->unwanted = parse_key_given(p, key);
    p->types = chat_argument_types(p->tool->parameters, key);
    p->streams = p->types == CHAT_TYPE_STRING && !p->unwanted;
    p->value.n = 0;
    p->value_fresh = true;
    p->value_last = '\n';
    call_take(p, end);
    p->state = PARSE_VALUE;
    call_start_if_certain(p);
    if (p->unwanted) {
        parse_warn(p, CHAT_WARN_DUPLICATE, strbuf_view(&p->key));
        return;
    }
    strbuf_put(&p->keys, strbuf_view(&p->key));
    strbuf_byte(&p->keys, 0);
    if (!p->streams)
        return;
    call_put_key(p);
    strbuf_byte(&p->arguments, '"');
    call_emit_arguments(p);
}

/* Consumes the value up to `end`. */
static void value_add(chat_parser *p, size_t end)
{
    if (end <= p->taken)
        return;
    const size_t at = p->value.n;
    p->value_last = p->held.p[end - 1];
    parse_spell(p, &p->value, p->taken, end);
    const size_t examined = p->at;
    call_take(p, end);
    p->at = examined > end ? examined : end;
    if (p->streams && !p->value.failed) {
        json_put_escaped(&p->arguments, (str){p->value.p + at, p->value.n - at});
        call_emit_arguments(p);
    }
    if (p->streams || p->unwanted)
        p->value.n = 0;
}

static void value_end(chat_parser *p)
{
    p->state = PARSE_BODY;
    if (p->unwanted)
        return;
    if (p->streams) {
        strbuf_byte(&p->arguments, '"');
    } else {
        call_put_key(p);
        if (!chat_argument_put(&p->arguments, strbuf_view(&p->value), p->types))
            parse_warn(p, CHAT_WARN_TYPE, strbuf_view(&p->key));
    }
    call_emit_arguments(p);
}

/* Drops one line break after <parameter=KEY>. false: it may still arrive. */
static bool value_skip_first_break(chat_parser *p)
{
    const size_t left = p->held.n - p->taken;
    const char *text = left > 0 ? p->held.p + p->taken : "";
    if (!p->ended && (left == 0 || (left == 1 && text[0] == '\r')))
        return false;
    if (left > 0 && text[0] == '\n')
        call_take(p, p->taken + 1);
    else if (left > 1 && text[0] == '\r' && text[1] == '\n')
        call_take(p, p->taken + 2);
    p->value_fresh = false;
    return true;
}

/* `end` minus one line break: it is dropped before </parameter>, so it is held back until then. */
static size_t value_before_break(const chat_parser *p, size_t end)
{
    if (end > p->taken && p->held.p[end - 1] == '\n')
        end--;
    if (end > p->taken && p->held.p[end - 1] == '\r')
        end--;
    return end;
}

static bool call_has_all_required(const chat_parser *p)
{
    const json_node *list = json_node_get(p->tool->parameters, "required");
    const json_node *one = json_node_is(list, JSON_IS_ARRAY) ? json_node_first(list) : NULL;
    for (; one != NULL; one = json_node_next(one))
        if (!parse_key_given(p, json_node_text(one)))
            return false;
    return true;
}

/* The answer ends inside a value. If the model ended it, only the closing tags are missing: the
 * call is repaired if it has started or has all required parameters. */
static bool value_unfinished(chat_parser *p)
{
    if (p->cut) {
        call_drop(p);
        return true;
    }
    if (!p->started && !call_has_all_required(p)) {
        call_take(p, p->held.n);
        call_to_content(p, CHAT_WARN_MALFORMED, call_tool_name(p));
        return true;
    }
    p->repaired = true;
    value_add(p, value_before_break(p, p->held.n));
    call_take(p, p->held.n);
    value_end(p);
    return true;
}

bool parse_value(chat_parser *p)
{
    if (p->value_fresh && !value_skip_first_break(p))
        return false;
    for (; p->at < p->held.n; p->at++) {
        const char c = p->held.p[p->at];
        size_t end;
        bool regular;
        if (c != '<' && c != TAG_BYTE)
            continue;
        const parse_match found = match_value_end(p, p->at, &end, &regular);
        if (found == MATCH_YES) {
            value_add(p, value_before_break(p, p->at));
            call_take(p, end > p->taken ? end : p->taken);
            p->repaired |= !regular;
            value_end(p);
            return true;
        }
        if (found == MATCH_MAYBE) {
            value_add(p, value_before_break(p, p->at));
            return call_too_long(p);
        }
        p->at += c == TAG_BYTE; /* two bytes */
    }
    if (p->ended)
        return value_unfinished(p);
    value_add(p, value_before_break(p, p->held.n));
    return call_too_long(p);
}

/* ---- JSON in place of parameters ---- */

/* false: not JSON, or out of memory; parse_check_memory() in parse.c reports the latter. */
static bool call_read_json(chat_parser *p, json_doc **doc, str text)
{
    const mote_status status = json_doc_read(doc, text, NULL);
    p->arguments.failed |= status == MOTE_E_MEMORY;
    return status == MOTE_OK;
}

/* Ends the call with an object as its arguments. */
static void call_end_json(chat_parser *p, const json_node *arguments)
{
    if (json_node_size(arguments) > 0) {
        json_put_as_spelt(&p->arguments, arguments);
        if (!p->arguments.failed)
            p->arguments.n--; /* call_end() adds the closing brace */
    }
    p->repaired = true;
    call_end(p);
}

/* Reads {"name": ..., "arguments": {...}}, or the arguments alone unless whole_json. `arguments`
 * may be a string that contains JSON. */
static bool call_from_json(chat_parser *p, const json_node *root)
{
    const json_node *arguments = root;
    json_doc *inner = NULL;
    if (p->whole_json) {
        const json_node *function = json_node_get(root, "function");
        const json_node *from = json_node_is(function, JSON_IS_OBJECT) ? function : root;
        const json_node *name = json_node_get(from, "name");
        const parse_tool *tool =
            json_node_is(name, JSON_IS_STRING) ? parse_find_tool(p, json_node_text(name)) : NULL;
        if (tool == NULL)
            return false;
        arguments = json_node_get(from, "arguments");
        if (arguments == NULL)
            arguments = json_node_get(from, "parameters");
        if (json_node_is(arguments, JSON_IS_STRING) &&
            call_read_json(p, &inner, json_node_text(arguments)))
            arguments = json_doc_root(inner);
        if (arguments != NULL && !json_node_is(arguments, JSON_IS_OBJECT)) {
            json_doc_free(inner);
            return false;
        }
        call_enter(p, tool);
    }
    call_end_json(p, arguments);
    json_doc_free(inner);
    return true;
}

/* A call written as JSON ends at `end` of the queue. If it is not valid, it becomes content. */
static void json_end(chat_parser *p, size_t end)
{
    json_doc *doc = NULL;
    strbuf text = {0};
    parse_spell(p, &text, p->taken, end);
    bool sound = call_read_json(p, &doc, strbuf_view(&text));
    p->arguments.failed |= text.failed;
    strbuf_fini(&text);
    if (p->ended && p->cut && end == p->held.n) {
        call_drop(p);
    } else {
        call_take(p, end);
        sound = sound && json_node_is(json_doc_root(doc), JSON_IS_OBJECT) &&
                call_from_json(p, json_doc_root(doc));
        if (!sound)
            call_to_content(p, CHAT_WARN_MALFORMED, call_tool_name(p));
    }
    json_doc_free(doc);
}

bool parse_json(chat_parser *p)
{
    for (; p->at < p->held.n; p->at++) {
        const char c = p->held.p[p->at];
        size_t after;
        if (c != '<' && c != TAG_BYTE)
            continue;
        parse_match found = match_tag(p, p->at, CHAT_TAG_CALL_END, &after);
        found = match_either(found, match_text(p, p->at, "</function>", &after));
        if (found == MATCH_MAYBE)
            return false;
        if (found == MATCH_YES) {
            json_end(p, p->at);
            return true;
        }
        p->at += c == TAG_BYTE;
    }
    if (p->ended) {
        json_end(p, p->held.n);
        return true;
    }
    if (p->held.n - p->taken <= CHAT_MAX_CALL_BYTES)
        return false;
    call_take(p, p->held.n);
    return call_too_long(p);
}

/* ---- after <tool_call> ---- */

static bool head_function(chat_parser *p, str name, size_t end)
{
    const parse_tool *tool = parse_find_tool(p, name);
    if (tool == NULL) {
        call_to_content(p, CHAT_WARN_UNKNOWN_TOOL, name);
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
        found = match_tag(p, next, CHAT_TAG_CALL, &end); /* a doubled tag */
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
        call_to_content(p, CHAT_WARN_MALFORMED, str_of(""));
    return true;
}

/* ---- inside <function=NAME> ---- */

/* Handles a tag inside a function. false: there is none; *waits: it may still be completed. */
static bool body_tag(chat_parser *p, size_t next, parse_match *waits)
{
    const parse_tool *tool;
    size_t end;
    str key;
    parse_match found = match_head(p, next, "<parameter", &key, &end);
    if (found == MATCH_YES) {
        p->repaired |= p->held.p[end - 1] != '>';
        value_begin(p, key, end);
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
    if (found == MATCH_YES) { /* </function> is missing; PARSE_AFTER consumes the tag */
        p->repaired = true;
        p->taken = p->at = next;
        call_end(p);
        return true;
    }
    *waits = match_either(*waits, found);
    return false;
}

/* Skips text between parameters. */
static void body_skip_junk(chat_parser *p, size_t next)
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
    if (next == p->held.n) { /* </function> is missing */
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
    body_skip_junk(p, next);
    call_too_long(p);
    return true;
}

/* ---- after a call ---- */

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
    found = match_text(p, next, "</function>", &end); /* a doubled tag, or the end of a JSON call */
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
    found = match_function(p, next, &tool, &end); /* another call in the same <tool_call> */
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
