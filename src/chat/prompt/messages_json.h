/* SPDX-License-Identifier: Apache-2.0 */
/*
 * messages_json.h - a conversation from JSON, as OpenAI's clients write it.
 *
 * Read are the messages, the tools and what decides how they are rendered:
 *
 *   messages               required, [1 .. CHAT_MAX_MESSAGES]
 *   tools                  array; an object is ignored, as the template does
 *   chat_template_kwargs   enable_thinking, add_vision_id, add_generation_prompt
 *   enable_thinking        beside it; the one inside wins
 *
 * Official mode takes what the template takes. Stable mode also takes arguments as a
 * JSON string (one that holds no object is kept as the text it is), roles in any case, `reasoning`
 * for reasoning_content or the texts of `reasoning_details` joined, `refusal` (a part, or beside a
 * content that is none) and `input_text` parts as text, and leaves out tools of types it does not
 * know.
 */
#ifndef MOTE_CHAT_PROMPT_MESSAGES_JSON_H
#define MOTE_CHAT_PROMPT_MESSAGES_JSON_H

#include "chat/prompt/message.h"

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
