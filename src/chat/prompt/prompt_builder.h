/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prompt_builder.h - a prompt under construction: one text, and spans that mark its special parts.
 *
 * The text is what the template would print, so it can be trimmed, searched and cut as the template
 * does. A span records where template text has a control token. A control token that only the
 * content spells has no span and is tokenized as plain text.
 *
 * Used by render.c. One thread at a time.
 */
#ifndef MOTE_CHAT_PROMPT_PROMPT_BUILDER_H
#define MOTE_CHAT_PROMPT_PROMPT_BUILDER_H

#include "base/str.h"
#include "chat/prompt/render.h"

typedef enum chat_span_kind {
    CHAT_SPAN_TAG,    /* these bytes are control token `index` (a chat_tag) */
    CHAT_SPAN_TOKENS, /* these bytes are the known tokens of message `index` */
    CHAT_SPAN_IMAGE,  /* these bytes stand for the tokens of image `index` of the prompt */
    CHAT_SPAN_MARK    /* no bytes: a mark. Tokenization stops here, so no token crosses it */
} chat_span_kind;

typedef struct chat_span {
    chat_span_kind kind;
    chat_mark_kind mark;
    uint32_t index;
    size_t at;
    size_t n;
} chat_span;

/* All zero is empty. A failed allocation sets text.failed. */
typedef struct prompt_builder {
    strbuf text;
    chat_span *spans; /* [n_spans], ascending positions */
    size_t n_spans;
    size_t room;
} prompt_builder;

/* Bytes begin .. end of a text. */
typedef struct chat_range {
    size_t begin;
    size_t end;
} chat_range;

void prompt_builder_fini(prompt_builder *b);
void prompt_builder_clear(prompt_builder *b);

/* Adds template text: control tokens spelled in it become control tokens. */
void prompt_builder_template(prompt_builder *b, const char *text);
/* Adds client text: control tokens spelled in it stay text. */
void prompt_builder_content(prompt_builder *b, str text);
/* Adds a range of another text with the spans in it. */
void prompt_builder_append(prompt_builder *b, const prompt_builder *from, chat_range range);
/* Adds a mark at the end of the text; `index`: of the message, image or video. */
void prompt_builder_mark(prompt_builder *b, chat_mark_kind kind, size_t index);
/* Adds `pad`, which stands for image `index` of the prompt. */
void prompt_builder_image(prompt_builder *b, const char *pad, size_t index);
/* Adds the known tokens of message `index`. */
void prompt_builder_tokens(prompt_builder *b, const mote_model *model, const chat_message *message,
                           size_t index);

chat_range prompt_builder_all(const prompt_builder *b);
/* The range without leading and trailing white space, as Python's str.strip(). */
chat_range prompt_builder_trim(const prompt_builder *b, chat_range range);
/* The same for a text. */
str chat_text_trim(str text);
str prompt_builder_view(const prompt_builder *b, chat_range range);

/* Tokenizes: spans become their ids, the text between them is tokenized without control tokens. */
mote_status prompt_builder_encode(const prompt_builder *b, const mote_model *model,
                                  const chat_template *template, const chat_request *request,
                                  chat_prompt *out, mote_error *err);

#endif
