/* SPDX-License-Identifier: Apache-2.0 */
/* prompt_builder.c - text with spans, and its tokenization. See prompt_builder.h. */
#include "chat/prompt/prompt_builder.h"

#include "base/mem.h"

enum { FIRST_SPANS = 64 };

void prompt_builder_fini(prompt_builder *b)
{
    strbuf_fini(&b->text);
    mem_free(b->spans);
    *b = (prompt_builder){0};
}

void prompt_builder_clear(prompt_builder *b)
{
    b->text.n = 0;
    b->n_spans = 0;
}

static void builder_add_span(prompt_builder *b, chat_span span)
{
    if (b->n_spans == b->room) {
        const size_t room = b->room > 0 ? 2 * b->room : FIRST_SPANS;
        chat_span *moved = mem_resize(b->spans, b->room, room, sizeof *moved);
        if (moved == NULL) {
            b->text.failed = true;
            return;
        }
        b->spans = moved;
        b->room = room;
    }
    b->spans[b->n_spans++] = span;
}

/* The control token at the start of the text; CHAT_N_TAGS: none. */
static chat_tag builder_tag_at(const char *text)
{
    int tag = 0;
    while (tag < CHAT_N_TAGS && strncmp(text, chat_tag_text(tag), strlen(chat_tag_text(tag))) != 0)
        tag++;
    return (chat_tag)tag;
}

void prompt_builder_template(prompt_builder *b, const char *text)
{
    while (*text != 0) {
        const size_t plain = *text == '<' ? 0 : strcspn(text, "<");
        const chat_tag tag = plain == 0 ? builder_tag_at(text) : CHAT_N_TAGS;
        size_t n = plain > 0 ? plain : 1;
        if (tag != CHAT_N_TAGS) {
            n = strlen(chat_tag_text(tag));
            builder_add_span(
                b, (chat_span){.kind = CHAT_SPAN_TAG, .index = tag, .at = b->text.n, .n = n});
        }
        strbuf_put(&b->text, (str){text, n});
        text += n;
    }
}

void prompt_builder_content(prompt_builder *b, str text)
{
    strbuf_put(&b->text, text);
}

void prompt_builder_append(prompt_builder *b, const prompt_builder *from, chat_range range)
{
    for (size_t i = 0; i < from->n_spans; i++) {
        chat_span span = from->spans[i];
        if (span.at < range.begin || span.at + span.n > range.end)
            continue;
        span.at = b->text.n + (span.at - range.begin);
        builder_add_span(b, span);
    }
    strbuf_put(&b->text, prompt_builder_view(from, range));
    b->text.failed |= from->text.failed;
}

void prompt_builder_mark(prompt_builder *b, chat_mark_kind kind, size_t index)
{
    builder_add_span(
        b, (chat_span){
               .kind = CHAT_SPAN_MARK, .mark = kind, .index = (uint32_t)index, .at = b->text.n});
}

void prompt_builder_tokens(prompt_builder *b, const mote_model *model, const chat_message *message,
                           size_t index)
{
    const size_t at = b->text.n;
    for (size_t i = 0; i < message->n_tokens; i++) {
        size_t n;
        const char *bytes = mote_token_bytes(model, message->tokens[i], &n);
        strbuf_put(&b->text, (str){bytes, n});
    }
    builder_add_span(
        b, (chat_span){
               .kind = CHAT_SPAN_TOKENS, .index = (uint32_t)index, .at = at, .n = b->text.n - at});
}

void prompt_builder_image(prompt_builder *b, const char *pad, size_t index)
{
    builder_add_span(b, (chat_span){.kind = CHAT_SPAN_IMAGE,
                                    .index = (uint32_t)index,
                                    .at = b->text.n,
                                    .n = strlen(pad)});
    strbuf_text(&b->text, pad);
}

chat_range prompt_builder_all(const prompt_builder *b)
{
    return (chat_range){0, b->text.n};
}

str prompt_builder_view(const prompt_builder *b, chat_range range)
{
    return (str){range.end > range.begin ? b->text.p + range.begin : "", range.end - range.begin};
}

/* Bytes of the white space character at the start of p, by Python's str.isspace(); 0: none. */
static size_t python_space_at(const char *p, size_t n)
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

str chat_text_trim(str text)
{
    for (size_t n = 1; n > 0 && text.n > 0; text.p += n, text.n -= n)
        n = python_space_at(text.p, text.n);
    while (text.n > 0) {
        size_t n = 1; /* no UTF-8 white space ends with the bytes of a shorter one */
        while (n <= 3 && n <= text.n && python_space_at(text.p + text.n - n, n) != n)
            n++;
        if (n > 3 || n > text.n)
            break;
        text.n -= n;
    }
    return text;
}

chat_range prompt_builder_trim(const prompt_builder *b, chat_range range)
{
    const str all = prompt_builder_view(b, range), text = chat_text_trim(all);
    const size_t begin = range.begin + (size_t)(text.p - all.p);
    return (chat_range){begin, begin + text.n};
}

/* ---- tokenization ---- */

typedef struct encoder {
    const mote_model *model;
    const prompt_builder *text;
    const chat_request *request;
    chat_prompt *out;
    size_t room; /* of out->ids */
} encoder;

static mote_status encoder_reserve(encoder *e, size_t n, mote_error *err)
{
    const size_t needed = e->out->n + n;
    if (needed <= e->room)
        return MOTE_OK;
    const size_t room = needed > 2 * e->room ? needed : 2 * e->room;
    mote_token *moved = mem_resize(e->out->ids, e->room, room, sizeof *moved);
    if (moved == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: a prompt of %zu tokens", room);
    e->out->ids = moved;
    e->room = room;
    return MOTE_OK;
}

static mote_status encoder_add_ids(encoder *e, const mote_token *ids, size_t n, mote_error *err)
{
    TRY(encoder_reserve(e, n, err));
    if (n > 0)
        memcpy(e->out->ids + e->out->n, ids, n * sizeof *ids);
    e->out->n += n;
    return MOTE_OK;
}

/* Most texts have less than one token per three bytes. If there are more, the count is larger than
 * the room, and the second round uses it. */
static mote_status encoder_add_text(encoder *e, size_t begin, size_t end, mote_error *err)
{
    const str run = prompt_builder_view(e->text, (chat_range){begin, end});
    size_t n = run.n / 3 + 16;
    if (run.n == 0)
        return MOTE_OK;
    for (size_t room = 0; room < n;) {
        TRY(encoder_reserve(e, n, err));
        room = e->room - e->out->n;
        TRY(mote_tokenize_with_hook(e->model, run.p, run.n, 0, e->out->ids + e->out->n, room, &n,
                                    e->request->hook, e->request->hook_ctx, err));
    }
    e->out->n += n;
    return MOTE_OK;
}

/* Fails if the text between the spans is too long for request->max_tokens. The tokens of spans are
 * not counted. */
static mote_status encoder_check_length(const encoder *e, mote_error *err)
{
    const prompt_builder *b = e->text;
    size_t least = 0, at = 0;
    for (size_t i = 0; i <= b->n_spans; i++) {
        const size_t end = i < b->n_spans ? b->spans[i].at : b->text.n;
        const str run = prompt_builder_view(b, (chat_range){at, end});
        least += mote_tokens_at_least(e->model, run.p, run.n);
        at = i < b->n_spans ? end + b->spans[i].n : end;
    }
    if (e->request->max_tokens == 0 || least <= e->request->max_tokens)
        return MOTE_OK;
    e->out->n = least;
    return err_set(err, MOTE_E_FULL, "the prompt has at least %zu tokens; at most %zu", least,
                   e->request->max_tokens);
}

/* Whether text continues across this mark, so that a token may cross it. The only case is a tool
 * result at the start of a conversation in official mode. (CHAT_MARK_TOOLS and CHAT_MARK_VOLATILE
 * are at word boundaries of the pre-tokenizer, so no token crosses them.) */
static bool builder_mark_splits_text(const prompt_builder *b, size_t i, size_t run_begin)
{
    const size_t at = b->spans[i].at;
    if (b->spans[i].kind != CHAT_SPAN_MARK || b->spans[i].mark == CHAT_MARK_TOOLS ||
        b->spans[i].mark == CHAT_MARK_VOLATILE)
        return false;
    while (i < b->n_spans && b->spans[i].kind == CHAT_SPAN_MARK)
        i++;
    return at > run_begin && at < (i < b->n_spans ? b->spans[i].at : b->text.n);
}

static mote_status encoder_add_span(encoder *e, const chat_span *span,
                                    const chat_template *template, mote_error *err)
{
    chat_prompt *out = e->out;
    switch (span->kind) {
    case CHAT_SPAN_TAG: return encoder_add_ids(e, &template->tags[span->index], 1, err);
    case CHAT_SPAN_TOKENS: {
        const chat_message *message = &e->request->messages[span->index];
        return encoder_add_ids(e, message->tokens, message->n_tokens, err);
    }
    case CHAT_SPAN_IMAGE: {
        size_t n;
        const mote_token *ids = mote_image_tokens(out->images[span->index], &n);
        return encoder_add_ids(e, ids, n, err);
    }
    case CHAT_SPAN_MARK: break;
    }
    out->marks[out->n_marks++] = (chat_mark){span->mark, span->index, out->n};
    return MOTE_OK;
}

mote_status prompt_builder_encode(const prompt_builder *b, const mote_model *model,
                                  const chat_template *template, const chat_request *request,
                                  chat_prompt *out, mote_error *err)
{
    encoder e = {.model = model, .text = b, .request = request, .out = out};
    size_t at = 0;
    TRY(encoder_check_length(&e, err));
    out->marks = mem_new(b->n_spans, sizeof *out->marks);
    if (out->marks == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: %zu marks of a prompt", b->n_spans);
    for (size_t i = 0; i < b->n_spans; i++) {
        const chat_span *span = &b->spans[i];
        if (builder_mark_splits_text(b, i, at)) { /* the mark moves to the start of the text */
            TRY(encoder_add_span(&e, span, template, err));
            continue;
        }
        TRY(encoder_add_text(&e, at, span->at, err));
        TRY(encoder_add_span(&e, span, template, err));
        at = span->at + span->n;
    }
    return encoder_add_text(&e, at, b->text.n, err);
}
