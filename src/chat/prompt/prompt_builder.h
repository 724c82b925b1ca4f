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
typedef struct chat_text {
    strbuf text;
    chat_span *spans; /* [n_spans], by place */
    size_t n_spans;
    size_t room;
} chat_text;

/* A stretch of a text, by bytes. */
typedef struct chat_range {
    size_t begin;
    size_t end;
} chat_range;

void chat_text_fini(chat_text *t);
void chat_text_clear(chat_text *t);

/* Our own words: control tokens spelt in it are control tokens. */
void chat_text_scaffold(chat_text *t, const char *ours);
/* Their words: never. */
void chat_text_content(chat_text *t, str theirs);
/* A stretch of another text, with what is ours in it. */
void chat_text_append(chat_text *t, const chat_text *from, chat_range range);
void chat_text_mark(chat_text *t, chat_mark_kind kind, size_t index);
/* `pad` stands for picture `index` of the prompt. */
void prompt_builder_image(chat_text *t, const char *pad, size_t index);
void chat_text_tokens(chat_text *t, const mote_model *model, const chat_message *message,
                      size_t index);

/* The whole text; and without blanks at both ends, as Python's strip() sees them. */
chat_range chat_text_all(const chat_text *t);
chat_range chat_text_trim(const chat_text *t, chat_range range);
str chat_text_view(const chat_text *t, chat_range range);

/* To ids: tags as they are, the runs between them encoded without control tokens. */
mote_status chat_text_encode(const chat_text *t, const mote_model *model, const chat_template *how,
                             const chat_request *request, chat_prompt *out, mote_error *err);

#endif
