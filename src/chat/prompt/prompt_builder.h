/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prompt_builder.h - a prompt while it is being written: one text, and which bytes of it are ours.
 *
 * The text is what the template would give, so that it can be trimmed, searched and
 * cut as the template does it. Spans say where in it a control token stands that the
 * scaffold put there; a control token that only the text spells has no span.
 */
#ifndef MOTE_CHAT_PROMPT_PROMPT_BUILDER_H
#define MOTE_CHAT_PROMPT_PROMPT_BUILDER_H

#include "base/strbuf.h"
#include "chat/prompt/render.h"

typedef enum chat_span_kind {
    CHAT_SPAN_TAG,    /* these bytes are control token `index` (a chat_tag) */
    CHAT_SPAN_TOKENS, /* these bytes are the tokens of message `index` */
    CHAT_SPAN_IMAGE,  /* these bytes stand for the tokens of picture `index` of the prompt */
    CHAT_SPAN_MARK    /* no bytes: a mark; words end here whatever follows */
} chat_span_kind;

typedef struct chat_span {
    chat_span_kind kind;
    chat_mark_kind mark;
    uint32_t index;
    size_t at;
    size_t n;
} chat_span;

/* All zero is empty. A refused allocation shows in text.failed. */
typedef struct prompt_builder {
    strbuf text;
    chat_span *spans; /* [n_spans], by place */
    size_t n_spans;
    size_t room;
} prompt_builder;

/* A stretch of a text, by bytes. */
typedef struct chat_range {
    size_t begin;
    size_t end;
} chat_range;

void prompt_builder_fini(prompt_builder *t);
void prompt_builder_clear(prompt_builder *t);

/* Our own words: control tokens spelt in it are control tokens. */
void prompt_builder_template(prompt_builder *t, const char *ours);
/* Their words: never. */
void prompt_builder_content(prompt_builder *t, str theirs);
/* A stretch of another text, with what is ours in it. */
void prompt_builder_append(prompt_builder *t, const prompt_builder *from, chat_range range);
void prompt_builder_mark(prompt_builder *t, chat_mark_kind kind, size_t index);
/* `pad` stands for picture `index` of the prompt. */
void prompt_builder_image(prompt_builder *t, const char *pad, size_t index);
void prompt_builder_tokens(prompt_builder *t, const mote_model *model, const chat_message *message,
                           size_t index);

/* The whole text; and without blanks at both ends, as Python's strip() sees them. */
chat_range prompt_builder_all(const prompt_builder *t);
chat_range prompt_builder_trim(const prompt_builder *t, chat_range range);
str prompt_builder_view(const prompt_builder *t, chat_range range);

/* To ids: tags as they are, the runs between them encoded without control tokens. */
mote_status prompt_builder_encode(const prompt_builder *t, const mote_model *model,
                                  const chat_template *how, const chat_request *request,
                                  chat_prompt *out, mote_error *err);

#endif
