/* SPDX-License-Identifier: Apache-2.0 */
/*
 * render.h - a conversation to token ids.
 *
 * Control tokens come from the scaffold alone, as ids. Everything a client can fill
 * (texts, names, descriptions, schemas, results, arguments) is encoded with control
 * tokens disabled, so nothing it spells can become one. Between two control tokens
 * scaffold and content are encoded together, which gives the ids of the reference
 * wherever the content spells no control token.
 */
#ifndef MOTE_CHAT_PROMPT_RENDER_H
#define MOTE_CHAT_PROMPT_RENDER_H

#include "chat/prompt/message.h"
#include "chat/prompt/chat_context.h"

typedef enum chat_mark_kind {
    CHAT_MARK_TOOLS,   /* the tools end: what stands before does not depend on the system text */
    CHAT_MARK_SYSTEM,  /* the first system turn ends */
    CHAT_MARK_MESSAGE, /* message `index` ends */
    CHAT_MARK_PROMPT,  /* all messages end, the generation prompt begins */
    CHAT_MARK_IMAGE,   /* the pad token of picture `index` stands here; so with VIDEO */
    CHAT_MARK_VIDEO,
    CHAT_MARK_SHOWN /* picture `index` of the prompt and what closes it end */
} chat_mark_kind;

/* Tokens before `position` are the same in every request that begins alike up to here. */
typedef struct chat_mark {
    chat_mark_kind kind;
    uint32_t index; /* of the message or picture; else 0 */
    size_t position;
} chat_mark;

typedef struct chat_prompt {
    mote_token *ids; /* [n] */
    size_t n;
    chat_mark *marks; /* [n_marks], in the order of positions */
    size_t n_marks;
    const mote_image **images; /* [n_images], whose tokens are among the ids */
    size_t n_images;
    strbuf text;   /* what the ids spell; of turns that brought their tokens, their bytes */
    bool thinking; /* the prompt ends inside an open think block: tell the parser */
} chat_prompt;

/* MOTE_E_ARG: the template refuses the conversation; the text of the error is the template's own.
 * On failure *out is empty. */
mote_status chat_render(const mote_model *model, const chat_template *how,
                        const chat_request *request, chat_prompt *out, mote_error *err);
void chat_prompt_fini(chat_prompt *prompt);

/* Owns the arrays of a request and the documents of arguments that came as strings. */
typedef struct chat_parsed {
    chat_request request;
    chat_message *messages;
    chat_part *parts; /* of all messages, one after another */
    chat_call *calls; /* likewise */
    const json_node **tools;
    json_doc **documents; /* [n_documents] */
    size_t n_documents;
    strbuf details;                   /* texts that are joined from several */
    const json_node *const *left_out; /* [tools_left_out], tools of unknown types */
    uint32_t tools_left_out;
    uint32_t odd_arguments; /* calls whose arguments were a string without an object in it */
} chat_parsed;

/* `body` must outlive *out. MOTE_E_ARG names the message at fault. On failure *out is empty. */
mote_status chat_parsed_read(chat_parsed *out, const json_node *body, chat_mode mode,
                             mote_error *err);
void chat_parsed_fini(chat_parsed *parsed);

#endif
