/* SPDX-License-Identifier: Apache-2.0 */
/*
 * message.h - a conversation, as data.
 *
 * Everything is a view: of the program's own strings, or of the JSON document that
 * chat/request_json.h made it from. All-zero is the default of every field. A
 * message can be wrong in ways that only matter when it is rendered (an unknown
 * role, content of a strange type); such messages are representable, and
 * chat_render refuses them, in the order in which the template would.
 */
#ifndef MOTE_CHAT_PROMPT_MESSAGE_H
#define MOTE_CHAT_PROMPT_MESSAGE_H

#include "base/str.h"
#include "json/json.h"

#include <mote.h>

typedef enum chat_role {
    CHAT_ROLE_UNKNOWN = 0,
    CHAT_ROLE_SYSTEM,
    CHAT_ROLE_USER,
    CHAT_ROLE_ASSISTANT,
    CHAT_ROLE_TOOL,
    /* what some clients say for system and tool; the official template does not know them */
    CHAT_ROLE_DEVELOPER,
    CHAT_ROLE_FUNCTION
} chat_role;

typedef enum chat_part_kind {
    CHAT_PART_UNKNOWN = 0, /* of a type the template refuses */
    CHAT_PART_TEXT,
    CHAT_PART_IMAGE,
    CHAT_PART_VIDEO
} chat_part_kind;

/* A picture, or the frames of a film with their times. */
typedef struct chat_media {
    const mote_image *const *images; /* [n]; one unless it is a film */
    const double *seconds;           /* [n], of a film */
    size_t n;
} chat_media;

typedef struct chat_part {
    chat_part_kind kind;
    str text;                /* of a picture or film: where it comes from, as the client wrote it */
    const chat_media *media; /* what it shows; NULL: one pad token stands for it */
} chat_part;

typedef struct chat_call {
    str id; /* may be empty */
    str name;
    const json_node *arguments; /* an object; NULL: none were given */
} chat_call;

typedef struct chat_message {
    chat_role role;
    bool bad_content;       /* neither text nor parts nor nothing */
    const chat_part *parts; /* [n_parts], joined without anything between */
    size_t n_parts;

    /* of an assistant */
    bool has_reasoning;
    str reasoning;          /* if has_reasoning; otherwise content may hold it, before </think> */
    const chat_call *calls; /* [n_calls] */
    size_t n_calls;
    /* The very tokens of this turn, if they are still known: all that followed
     * "<|im_start|>assistant\n", without the end token. Stable mode repeats them. */
    const mote_token *tokens; /* [n_tokens]; NULL: not known */
    size_t n_tokens;

    /* of a tool; nothing is rendered from it */
    str call_id;
} chat_message;

typedef enum chat_mode {
    /* A turn, once rendered, keeps its tokens in every later request: a think block stays, the
     * empty one too. What clients send is accepted: system messages anywhere, no user turn. */
    CHAT_STABLE = 0,
    /* Byte for byte what the template of the model gives, and its refusals. */
    CHAT_OFFICIAL
} chat_mode;

typedef enum chat_thinking {
    CHAT_THINK_AUTO = 0, /* as the model's template does without being told */
    CHAT_THINK_ON,
    CHAT_THINK_OFF
} chat_thinking;

typedef struct chat_request {
    const chat_message *messages; /* [n_messages] */
    size_t n_messages;
    const json_node *const *tools; /* [n_tools], each a whole tool as the client wrote it */
    size_t n_tools;
    chat_mode mode;
    chat_thinking thinking;
    bool no_generation_prompt; /* end with the last message */
    bool continue_last;        /* stable: the last message is the beginning of the answer */
    bool number_media;         /* "Picture 1: " before each (add_vision_id) */
} chat_request;

#endif
