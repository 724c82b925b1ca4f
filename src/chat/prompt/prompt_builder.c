/* SPDX-License-Identifier: Apache-2.0 */
/* prompt_builder.c - see scaffold.h. */
#include "chat/prompt/prompt_builder.h"

#include "base/mem.h"

enum { FIRST_SPANS = 64 };

void prompt_builder_fini(prompt_builder *t)
{
    strbuf_fini(&t->text);
    mem_free(t->spans);
    *t = (prompt_builder){0};
}

void prompt_builder_clear(prompt_builder *t)
{
    t->text.n = 0;
    t->n_spans = 0;
}

static void add_span(prompt_builder *t, chat_span span)
{
    if (t->n_spans == t->room) {
        const size_t room = t->room > 0 ? 2 * t->room : FIRST_SPANS;
        chat_span *moved = mem_resize(t->spans, t->room, room, sizeof *moved);
        if (moved == NULL) {
            t->text.failed = true;
            return;
        }
        t->spans = moved;
        t->room = room;
    }
    t->spans[t->n_spans++] = span;
}

/* The control token that the text begins with; CHAT_N_TAGS: none. */
static chat_tag tag_at(const char *text)
{
    int tag = 0;
    while (tag < CHAT_N_TAGS && strncmp(text, chat_tag_text(tag), strlen(chat_tag_text(tag))) != 0)
        tag++;
    return (chat_tag)tag;
}

void prompt_builder_template(prompt_builder *t, const char *ours)
{
    while (*ours != 0) {
        const size_t plain = *ours == '<' ? 0 : strcspn(ours, "<");
        const chat_tag tag = plain == 0 ? tag_at(ours) : CHAT_N_TAGS;
        size_t n = plain > 0 ? plain : 1;
        if (tag != CHAT_N_TAGS) {
            n = strlen(chat_tag_text(tag));
            add_span(t, (chat_span){.kind = CHAT_SPAN_TAG, .index = tag, .at = t->text.n, .n = n});
        }
        strbuf_put(&t->text, (str){ours, n});
        ours += n;
    }
}

void prompt_builder_content(prompt_builder *t, str theirs)
{
    strbuf_put(&t->text, theirs);
}

void prompt_builder_append(prompt_builder *t, const prompt_builder *from, chat_range range)
{
    for (size_t i = 0; i < from->n_spans; i++) {
        chat_span span = from->spans[i];
        if (span.at < range.begin || span.at + span.n > range.end)
            continue;
        span.at = t->text.n + (span.at - range.begin);
        add_span(t, span);
    }
    strbuf_put(&t->text, prompt_builder_view(from, range));
    t->text.failed |= from->text.failed;
}

void prompt_builder_mark(prompt_builder *t, chat_mark_kind kind, size_t index)
{
    add_span(t,
             (chat_span){
                 .kind = CHAT_SPAN_MARK, .mark = kind, .index = (uint32_t)index, .at = t->text.n});
}

void prompt_builder_tokens(prompt_builder *t, const mote_model *model, const chat_message *message,
                           size_t index)
{
    const size_t at = t->text.n;
    for (size_t i = 0; i < message->n_tokens; i++) {
        size_t n;
        const char *bytes = mote_token_bytes(model, message->tokens[i], &n);
        strbuf_put(&t->text, (str){bytes, n});
    }
    add_span(
        t, (chat_span){
               .kind = CHAT_SPAN_TOKENS, .index = (uint32_t)index, .at = at, .n = t->text.n - at});
}

void prompt_builder_image(prompt_builder *t, const char *pad, size_t index)
{
    add_span(t, (chat_span){.kind = CHAT_SPAN_IMAGE,
                            .index = (uint32_t)index,
                            .at = t->text.n,
                            .n = strlen(pad)});
    strbuf_text(&t->text, pad);
}

chat_range prompt_builder_all(const prompt_builder *t)
{
    return (chat_range){0, t->text.n};
}

str prompt_builder_view(const prompt_builder *t, chat_range range)
{
    return (str){range.end > range.begin ? t->text.p + range.begin : "", range.end - range.begin};
}

/* The length of the blank that a text begins with, as Python's str.isspace() counts them. */
static size_t blank_at(const char *p, size_t n)
{
    const unsigned char *u = (const unsigned char *)p;
    if (n >= 1 && ((u[0] >= 0x09 && u[0] <= 0x0D) || (u[0] >= 0x1C && u[0] <= 0x20)))
        return 1;
    if (n >= 2 && u[0] == 0xC2 && (u[1] == 0x85 || u[1] == 0xA0))
        return 2;
    if (n < 3)
        return 0;
    const uint32_t three = (uint32_t)u[0] << 16 | (uint32_t)u[1] << 8 | u[2];
    const bool blank = three == 0xE19A80 || (three >= 0xE28080 && three <= 0xE2808A) ||
                       three == 0xE280A8 || three == 0xE280A9 || three == 0xE280AF ||
                       three == 0xE2819F || three == 0xE38080;
    return blank ? 3 : 0;
}

chat_range prompt_builder_trim(const prompt_builder *t, chat_range range)
{
    for (size_t n = 1; n > 0 && range.begin < range.end; range.begin += n)
        n = blank_at(t->text.p + range.begin, range.end - range.begin);
    while (range.end > range.begin) {
        const size_t left = range.end - range.begin;
        size_t n = 1; /* no blank ends like a shorter one */
        while (n <= 3 && n <= left && blank_at(t->text.p + range.end - n, n) != n)
            n++;
        if (n > 3 || n > left)
            break;
        range.end -= n;
    }
    return range;
}

/* ---- to ids ---- */

typedef struct encoder {
    const mote_model *model;
    const prompt_builder *text;
    chat_prompt *out;
    size_t room; /* of out->ids */
} encoder;

static mote_status make_room(encoder *e, size_t n, mote_error *err)
{
    const size_t needed = e->out->n + n;
    if (needed <= e->room)
        return MOTE_OK;
    const size_t room = needed > 2 * e->room ? needed : 2 * e->room;
    mote_token *moved = mem_resize(e->out->ids, e->room, room, sizeof *moved);
    if (moved == NULL)
        return err_set(err, MOTE_E_MEMORY, "no memory for a prompt of %zu tokens", room);
    e->out->ids = moved;
    e->room = room;
    return MOTE_OK;
}

static mote_status put_ids(encoder *e, const mote_token *ids, size_t n, mote_error *err)
{
    TRY(make_room(e, n, err));
    if (n > 0)
        memcpy(e->out->ids + e->out->n, ids, n * sizeof *ids);
    e->out->n += n;
    return MOTE_OK;
}

/* A token has a byte at least, so the bytes of a run are room enough, unless normalising it makes
 * it longer: then the count says so. */
static mote_status put_run(encoder *e, size_t begin, size_t end, mote_error *err)
{
    const str run = prompt_builder_view(e->text, (chat_range){begin, end});
    size_t n = run.n;
    if (n == 0)
        return MOTE_OK;
    for (size_t room = 0; room < n;) {
        room = n;
        TRY(make_room(e, room, err));
        TRY(mote_tokenize(e->model, run.p, run.n, 0, e->out->ids + e->out->n, room, &n, err));
    }
    e->out->n += n;
    return MOTE_OK;
}

/* Text goes on across this mark, so a token may: the only place is a tool's result that begins a
 * conversation in official mode. The tools end where a word does. */
static bool inside_a_run(const prompt_builder *t, size_t i, size_t run_begin)
{
    const size_t at = t->spans[i].at;
    if (t->spans[i].kind != CHAT_SPAN_MARK || t->spans[i].mark == CHAT_MARK_TOOLS)
        return false;
    while (i < t->n_spans && t->spans[i].kind == CHAT_SPAN_MARK)
        i++;
    return at > run_begin && at < (i < t->n_spans ? t->spans[i].at : t->text.n);
}

static mote_status put_span(encoder *e, const chat_span *span, const chat_template *how,
                            const chat_request *request, mote_error *err)
{
    chat_prompt *out = e->out;
    switch (span->kind) {
    case CHAT_SPAN_TAG: return put_ids(e, &how->tags[span->index], 1, err);
    case CHAT_SPAN_TOKENS: {
        const chat_message *message = &request->messages[span->index];
        return put_ids(e, message->tokens, message->n_tokens, err);
    }
    case CHAT_SPAN_IMAGE: {
        size_t n;
        const mote_token *ids = mote_image_tokens(out->images[span->index], &n);
        return put_ids(e, ids, n, err);
    }
    case CHAT_SPAN_MARK: break;
    }
    out->marks[out->n_marks++] = (chat_mark){span->mark, span->index, out->n};
    return MOTE_OK;
}

mote_status prompt_builder_encode(const prompt_builder *t, const mote_model *model,
                                  const chat_template *how, const chat_request *request,
                                  chat_prompt *out, mote_error *err)
{
    encoder e = {.model = model, .text = t, .out = out};
    size_t at = 0;
    out->marks = mem_new(t->n_spans, sizeof *out->marks);
    if (out->marks == NULL)
        return err_set(err, MOTE_E_MEMORY, "no memory for the marks of a prompt");
    for (size_t i = 0; i < t->n_spans; i++) {
        const chat_span *span = &t->spans[i];
        if (inside_a_run(t, i, at)) { /* it moves to where the run begins */
            TRY(put_span(&e, span, how, request, err));
            continue;
        }
        TRY(put_run(&e, at, span->at, err));
        TRY(put_span(&e, span, how, request, err));
        at = span->at + span->n;
    }
    return put_run(&e, at, t->text.n, err);
}
