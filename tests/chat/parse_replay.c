/* SPDX-License-Identifier: Apache-2.0 */
/* parse_replay.c - see parse_replay.h. */
#include "chat/parse_replay.h"

#include "base/utf8.h"

#include <stdio.h>
#include <stdlib.h>

static const char *const names[] = {"reasoning", "content", "call",  "arguments", "end",
                                    "cancel",    "warning", "token", "stop"};

void replay_init(replay *r, const mote_model *model, const chat_template *template)
{
    *r = (replay){.model = model, .template = template};
    for (mote_token id = 0; id < 1024; id++) {
        size_t n;
        const char *bytes = mote_token_bytes(model, id, &n);
        if (n == 1)
            r->of_byte[(unsigned char)bytes[0]] = id;
    }
}

void replay_fini(replay *r)
{
    strbuf_fini(&r->log);
    strbuf_fini(&r->arguments);
}

void replay_add_bytes(replay *r, str bytes)
{
    if (bytes.n == 0)
        return;
    if (r->n_pieces == REPLAY_MAX_PIECES)
        abort();
    r->pieces[r->n_pieces++] = (replay_piece){-1, bytes};
    r->bytes += bytes.n;
}

void replay_add_text(replay *r, str text)
{
    size_t plain = 0;
    for (size_t i = 0; i < text.n; i++) {
        for (int tag = 0; tag < CHAT_N_TAGS; tag++) {
            const str spelt = str_of(chat_tag_text((chat_tag)tag));
            if (text.n - i < spelt.n || memcmp(text.p + i, spelt.p, spelt.n) != 0)
                continue;
            replay_add_bytes(r, (str){text.p + plain, i - plain});
            if (r->n_pieces == REPLAY_MAX_PIECES)
                abort();
            r->pieces[r->n_pieces++] = (replay_piece){.control = r->template->tags[tag]};
            plain = i + spelt.n;
            i = plain - 1;
            break;
        }
    }
    replay_add_bytes(r, (str){text.p + plain, text.n - plain});
}

/* ---- events to lines ---- */

static bool is_utf8(str text)
{
    for (size_t at = 0; at < text.n;) {
        const int n = utf8_check((const unsigned char *)text.p + at, text.n - at);
        if (n <= 0)
            return false;
        at += (size_t)n;
    }
    return true;
}

static bool is_object(str text)
{
    json_doc *doc = NULL;
    const bool is = json_doc_read(&doc, text, NULL) == MOTE_OK &&
                    json_node_is(json_doc_root(doc), JSON_IS_OBJECT);
    json_doc_free(doc);
    return is;
}

/* The start of an object that ends inside a string or after a value, never inside an escape. */
static bool begins_object(str text)
{
    static const char *const rests[] = {"}", "\"}"};
    bool is = text.n == 0;
    for (size_t i = 0; i < 2 && !is; i++) {
        strbuf all = {0};
        strbuf_put(&all, text);
        strbuf_text(&all, rests[i]);
        is = is_object(strbuf_view(&all));
        strbuf_fini(&all);
    }
    return is;
}

static void check_call(replay *r, const chat_event *e)
{
    const bool starts = e->kind == CHAT_EVENT_CALL_START;
    if (starts == r->in_call)
        r->fault = "calls overlap";
    r->in_call = starts || e->kind == CHAT_EVENT_CALL_ARGUMENTS;
    if (starts)
        r->arguments.n = 0;
    if (e->kind == CHAT_EVENT_CALL_ARGUMENTS) {
        strbuf_put(&r->arguments, e->text);
        if (e->text.n == 0 || !is_utf8(e->text))
            r->fault = "an empty argument delta, or an incomplete character";
        if (r->constrained && !begins_object(strbuf_view(&r->arguments)) &&
            !is_object(strbuf_view(&r->arguments)))
            r->fault = "argument deltas are not the start of an object";
        if (!r->constrained && !is_object(e->text))
            r->fault = "a call without a grammar streams";
    }
    if (e->kind == CHAT_EVENT_CALL_CANCEL && !(r->constrained && r->cut))
        r->fault = "a call is canceled, but the answer was not cut";
    if (e->kind == CHAT_EVENT_CALL_END && !str_eq(strbuf_view(&r->arguments), e->text))
        r->fault = "the argument deltas differ from the whole";
    if (e->kind == CHAT_EVENT_CALL_END && !is_object(e->text))
        r->fault = "the arguments are not a JSON object";
}

static void check_event(replay *r, const chat_event *e)
{
    switch (e->kind) {
    case CHAT_EVENT_CALL_START:
    case CHAT_EVENT_CALL_ARGUMENTS:
    case CHAT_EVENT_CALL_END:
    case CHAT_EVENT_CALL_CANCEL: check_call(r, e); break;
    case CHAT_EVENT_END:
        if (r->in_call)
            r->fault = "a call is not closed";
        break;
    case CHAT_EVENT_REASONING:
    case CHAT_EVENT_CONTENT:
        if (e->text.n == 0)
            r->fault = "an empty delta";
        break;
    default: break;
    }
    for (size_t i = 0; e->kind != CHAT_EVENT_TOKEN && i < e->text.n; i++)
        if (e->text.p[i] == (char)0xFF)
            r->fault = "TAG_BYTE in an event";
}

static void line(replay *r, const char *name, str text)
{
    if (r->open)
        strbuf_byte(&r->log, '\n');
    strbuf_text(&r->log, name);
    strbuf_byte(&r->log, ' ');
    json_put_escaped(&r->log, text);
    r->open = true;
}

/* Each token has at most one event, in order, after it was fed, and its content follows. */
static void check_token(replay *r, const chat_event *e)
{
    if (e->kind == CHAT_EVENT_TOKEN) {
        if (e->token < r->next_token || e->token >= r->fed)
            r->fault = "a token event is repeated, out of order, or too early";
        r->next_token = e->token + 1;
        r->token_bytes += e->text.n;
    } else if (r->after_token && e->kind != CHAT_EVENT_CONTENT) {
        r->fault = "no content follows a token event";
    } else if (e->kind == CHAT_EVENT_CONTENT && r->tokens) {
        r->content_bytes += e->text.n;
        if (r->content_bytes > 3 * r->token_bytes) /* a byte may become U+FFFD */
            r->fault = "content without a token event";
    }
    r->after_token = e->kind == CHAT_EVENT_TOKEN;
}

static void on_event(void *with, const chat_event *e)
{
    replay *r = with;
    check_event(r, e);
    check_token(r, e);
    const bool joins = r->open && e->kind == r->last &&
                       (e->kind == CHAT_EVENT_REASONING || e->kind == CHAT_EVENT_CONTENT);
    switch (e->kind) {
    case CHAT_EVENT_REASONING:
    case CHAT_EVENT_CONTENT:
        if (joins)
            json_put_escaped(&r->log, e->text);
        else
            line(r, names[e->kind], e->text);
        break;
    case CHAT_EVENT_CALL_ARGUMENTS: return; /* CALL_END has them all */
    case CHAT_EVENT_TOKEN: return;
    case CHAT_EVENT_CALL_START:
    case CHAT_EVENT_CALL_CANCEL: line(r, names[e->kind], e->name); break;
    case CHAT_EVENT_CALL_END: line(r, names[e->kind], e->text); break;
    case CHAT_EVENT_WARNING: line(r, names[e->kind], str_of(chat_warning_name(e->warning))); break;
    case CHAT_EVENT_END:
        line(r, names[e->kind], str_of(e->thinking_open ? "thinking" : e->cut ? "cut" : "done"));
        break;
    }
    r->last = e->kind;
}

/* ---- feeding ---- */

static void give_up(const mote_error *err)
{
    fprintf(stderr, "replay: %s\n", err->text);
    exit(1);
}

static void feed(replay *r, chat_parser *p, mote_token id)
{
    mote_error err;
    r->fed++;
    if (chat_parser_token(p, id, &err) != MOTE_OK)
        give_up(&err);
}

/* Whether the tokens spell exactly these bytes. The tokenizer normalizes to NFC, so they may not.
 */
static bool are_bytes(const replay *r, const mote_token *ids, size_t n, str bytes)
{
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        size_t length;
        const char *p = mote_token_bytes(r->model, ids[i], &length);
        if (length > bytes.n - at || memcmp(bytes.p + at, p, length) != 0)
            return false;
        at += length;
    }
    return at == bytes.n;
}

/* Feeds bytes as the tokenizer cuts them, or one by one if it changes them. */
static void feed_bytes(replay *r, chat_parser *p, str bytes)
{
    static mote_token ids[1 << 16];
    size_t n = 0;
    if (bytes.n > 1 && is_utf8(bytes) &&
        mote_tokenize(r->model, bytes.p, bytes.n, 0, ids, 1 << 16, &n, NULL) == MOTE_OK &&
        are_bytes(r, ids, n, bytes)) {
        for (size_t i = 0; i < n; i++)
            feed(r, p, ids[i]);
        return;
    }
    for (size_t i = 0; i < bytes.n; i++)
        feed(r, p, r->of_byte[(unsigned char)bytes.p[i]]);
}

void replay_run(replay *r, const bool *cuts)
{
    chat_parser *p;
    mote_error err;
    size_t at = 0;
    r->tokens = !r->tokens; /* token events must not change the other events */
    r->fed = r->next_token = r->token_bytes = r->content_bytes = 0;
    r->after_token = r->in_call = false;
    const chat_parser_options options = {.model = r->model,
                                         .template = r->template,
                                         .tools = r->tools,
                                         .n_tools = r->n_tools,
                                         .thinking = r->thinking,
                                         .tokens = r->tokens,
                                         .constrained = r->constrained,
                                         .event = on_event,
                                         .with = r};
    r->log.n = 0;
    r->open = false;
    if (chat_parser_new(&p, &options, &err) != MOTE_OK)
        give_up(&err);
    for (size_t i = 0; i < r->n_pieces; i++) {
        const replay_piece *piece = &r->pieces[i];
        size_t from = 0;
        if (piece->control >= 0) {
            feed(r, p, piece->control);
            continue;
        }
        for (size_t to = 1; to <= piece->bytes.n; to++) {
            at++;
            if (to < piece->bytes.n && !(cuts != NULL && cuts[at]))
                continue;
            feed_bytes(r, p, (str){piece->bytes.p + from, to - from});
            from = to;
        }
    }
    if (chat_parser_end(p, r->cut, &err) != MOTE_OK)
        give_up(&err);
    chat_parser_free(p);
    strbuf_byte(&r->log, '\n');
}

static bool begins(str text, const char *with)
{
    const size_t n = strlen(with);
    return text.n >= n && memcmp(text.p, with, n) == 0;
}

static str take_line(str *log)
{
    const char *end = memchr(log->p, '\n', log->n);
    const size_t n = end != NULL ? (size_t)(end - log->p) + 1 : log->n;
    const str one = {log->p, n};
    *log = (str){log->p + n, log->n - n};
    return one;
}

void replay_outcome(const replay *r, strbuf *out)
{
    str left = strbuf_view(&r->log);
    while (left.n > 0) {
        const str one = take_line(&left);
        if (!begins(one, "call ") && !begins(one, "cancel "))
            strbuf_put(out, one);
    }
}

bool replay_may_differ(const replay *r, str log)
{
    bool malformed = false;
    while (log.n > 0)
        malformed |= begins(take_line(&log), "warning malformed");
    return malformed && !r->cut;
}
