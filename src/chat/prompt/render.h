/* SPDX-License-Identifier: Apache-2.0 */
/*
 * render.h - a conversation to prompt tokens, and a conversation from JSON.
 *
 * chat_render() replaces the Jinja template of the model. Only the template's own text produces
 * control tokens. Everything a client controls (texts, names, descriptions, schemas, tool results,
 * arguments) is tokenized with control tokens disabled, so it cannot inject one. Template text and
 * content between two control tokens are tokenized together. The ids therefore equal those of the
 * reference implementation unless the content spells a control token.
 *
 * chat_parsed_read() reads messages and tools in OpenAI's format.
 *
 * Thread-safe: no global state.
 */
#ifndef MOTE_CHAT_PROMPT_RENDER_H
#define MOTE_CHAT_PROMPT_RENDER_H

#include "chat/prompt/chat_context.h"
#include "chat/prompt/message.h"

/* ---- rendering ---- */

typedef enum chat_mark_kind {
    CHAT_MARK_TOOLS,   /* end of the tools; tokens before it do not depend on the system text */
    CHAT_MARK_SYSTEM,  /* end of the first system turn */
    CHAT_MARK_MESSAGE, /* end of message `index` */
    CHAT_MARK_PROMPT,  /* end of all messages, start of the generation prompt */
    CHAT_MARK_IMAGE,   /* the pad token of image `index` follows (part without media) */
    CHAT_MARK_VIDEO,   /* the same for video `index` */
    CHAT_MARK_SHOWN,   /* end of image `index` of the prompt, vision_end included */
    CHAT_MARK_VOLATILE /* start of a line that other sessions will not repeat (volatile_line.h), in
                          the system turn or in message `index`, the first of the user */
} chat_mark_kind;

/* A position in the prompt where prefixes can be shared: two requests that are equal up to here
 * have the same tokens before `position`. */
typedef struct chat_mark {
    chat_mark_kind kind;
    uint32_t index; /* of the message, image or video; otherwise 0 */
    size_t position;
} chat_mark;

typedef struct chat_prompt {
    mote_token *ids; /* [n] */
    size_t n;
    chat_mark *marks; /* [n_marks], ascending positions */
    size_t n_marks;
    const mote_image **images; /* [n_images]; their tokens are part of the ids. Not owned */
    size_t n_images;
    strbuf text;   /* the prompt as text; of messages with known tokens, the bytes of those */
    bool thinking; /* the prompt ends inside an open think block; pass this to the parser */
} chat_prompt;

/* MOTE_E_ARG: the template rejects the conversation; the error text is the template's own.
 * MOTE_E_FULL: the prompt has more than request->max_tokens tokens, judged by its length; out->n is
 * a lower bound. MOTE_E_CANCELED: request->hook returned false. On failure *out is empty otherwise.
 */
mote_status chat_render(const mote_model *model, const chat_template *template,
                        const chat_request *request, chat_prompt *out, mote_error *err);
void chat_prompt_fini(chat_prompt *prompt);

/* ---- a conversation from JSON (messages_json.c) ---- */

/*
 * Fields that are read:
 *
 *   messages               required, [1 .. CHAT_MAX_MESSAGES]
 *   tools                  array; an object is ignored, as in the template
 *   chat_template_kwargs   enable_thinking, preserve_thinking, add_vision_id,
 * add_generation_prompt, reasoning_effort; all but the last also at the top level
 *
 * Official mode accepts what the template accepts. Stable mode also accepts:
 *   - roles in any letter case
 *   - arguments as a JSON string; a string without a JSON object is kept as one text argument
 *   - `reasoning`, or the joined texts of `reasoning_details`, in place of reasoning_content
 *   - `refusal` as text, as a content part or in place of absent content
 *   - `input_text` parts
 *   - tools of unknown types, which are left out
 */
typedef struct chat_parsed {
    chat_request request; /* views of the arrays below and of the JSON body */
    chat_message *messages;
    chat_part *parts; /* of all messages, in order */
    chat_call *calls; /* of all messages, in order */
    const json_node **tools;
    json_doc **documents; /* [n_documents], arguments that came as strings */
    size_t n_documents;
    strbuf details;                   /* joined texts of reasoning_details */
    const json_node *const *left_out; /* [tools_left_out], tools of unknown types */
    uint32_t tools_left_out;
    uint32_t odd_arguments; /* calls with a string that contains no JSON object as arguments */
} chat_parsed;

/* `body` must outlive *out. MOTE_E_ARG names the message at fault. On failure *out is empty. */
mote_status chat_parsed_read(chat_parsed *out, const json_node *body, chat_mode mode,
                             mote_error *err);
void chat_parsed_fini(chat_parsed *parsed);

/* Sets what chat_template_kwargs and their fields at the top level say, by the rules of q->mode.
 * For a conversation that was read from another document than the settings. */
void chat_settings_read(chat_request *q, const json_node *body);

#endif
