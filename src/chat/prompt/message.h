/* SPDX-License-Identifier: Apache-2.0 */
/*
 * message.h - a conversation as data.
 *
 * These structs own nothing. They are views of the caller's strings, or of the JSON document that
 * chat_parsed_read() (render.h) read. Zero is the default of every field.
 *
 * Invalid messages are representable, for example an unknown role. chat_render() rejects them, in
 * the order in which the model's template rejects them.
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
    /* Other names for system and tool. Stable mode maps them; most templates reject them. */
    CHAT_ROLE_DEVELOPER,
    CHAT_ROLE_FUNCTION
} chat_role;

typedef enum chat_part_kind {
    CHAT_PART_UNKNOWN = 0, /* rejected by chat_render() */
    CHAT_PART_TEXT,
    CHAT_PART_IMAGE,
    CHAT_PART_VIDEO
} chat_part_kind;

/* The encoded images of one content part: one image, or the frames of a video. */
typedef struct chat_media {
    const mote_image *const *images; /* [n]; n is 1 for an image */
    const double *seconds;           /* [n], timestamps of a video's frames */
    size_t n;
} chat_media;

typedef struct chat_part {
    chat_part_kind kind;
    str text;                /* the text; of an image or video: its source as the client wrote it */
    const chat_media *media; /* NULL: the part becomes one pad token */
} chat_part;

typedef struct chat_call {
    str id; /* may be empty */
    str name;
    /* An object; NULL: no arguments. Read in official mode: any value, which the template may
     * reject (and `name` may be empty). */
    const json_node *arguments;
} chat_call;

typedef struct chat_message {
    chat_role role;
    bool bad_content;       /* content is neither a string, an array nor null */
    const chat_part *parts; /* [n_parts], concatenated without a separator */
    size_t n_parts;

    /* assistant only */
    bool has_reasoning;
    str reasoning; /* if has_reasoning; otherwise content may contain it, before </think> */
    const chat_call *calls; /* [n_calls] */
    size_t n_calls;
    /* The sampled tokens of this turn, if known: everything after "<|im_start|>assistant\n" and
     * before the end token. Stable mode repeats them instead of tokenizing the text again. */
    const mote_token *tokens; /* [n_tokens]; NULL: not known */
    size_t n_tokens;

    /* tool only; not rendered */
    str call_id;
} chat_message;

/* The values official and keep-thinking of --template and of the request field `template`. */
typedef enum chat_mode {
    /* keep-thinking. A turn keeps its tokens in every later request, so the prefix cache keeps
     * matching. Think blocks stay, empty ones too. Also accepts what clients commonly send: system
     * messages anywhere, conversations without a user message. */
    CHAT_STABLE = 0,
    /* Byte for byte the output of the model's template, with the same rejections. */
    CHAT_OFFICIAL
} chat_mode;

/* Reads "keep-thinking" or "official". false: another word; nothing is written. */
bool chat_mode_parse(str word, chat_mode *mode);

typedef enum chat_thinking {
    CHAT_THINK_AUTO = 0, /* the default of the model's template */
    CHAT_THINK_ON,
    CHAT_THINK_OFF,
    /* enable_thinking is neither true nor false. As AUTO, but Qwen 3.8 then omits its effort line.
     */
    CHAT_THINK_OTHER
} chat_thinking;

/* preserve_thinking: whether earlier answers keep their think blocks. */
typedef enum chat_preserve {
    CHAT_PRESERVE_AUTO = 0, /* not given: stable mode keeps them, official mode asks the template */
    CHAT_PRESERVE_TRUE,
    CHAT_PRESERVE_NOT_TRUE /* false, or in official mode any other value */
} chat_preserve;

/* reasoning_effort: a line of the system turn in Qwen 3.8, nothing in other templates. */
typedef enum chat_effort {
    CHAT_EFFORT_AUTO = 0, /* not given: xhigh */
    CHAT_EFFORT_LOW,
    CHAT_EFFORT_MEDIUM,
    CHAT_EFFORT_HIGH, /* unsloth's name for xhigh; Qwen's own template rejects it */
    CHAT_EFFORT_XHIGH,
    CHAT_EFFORT_OTHER /* rejected; effort_value has it */
} chat_effort;

/* The effort for a thinking budget in tokens, so that prompt and budget agree: low up to
 * MOTE_THINK_LOW, medium up to MOTE_THINK_MEDIUM, else xhigh. 0: AUTO. */
chat_effort chat_effort_of_budget(uint32_t budget);

typedef struct chat_request {
    const chat_message *messages; /* [n_messages] */
    size_t n_messages;
    const json_node *const *tools; /* [n_tools], each a whole tool object as the client wrote it */
    size_t n_tools;
    chat_mode mode;
    chat_thinking thinking;
    chat_preserve preserve;
    chat_effort effort;
    const json_node *effort_value; /* of CHAT_EFFORT_OTHER, for the error text */
    bool no_generation_prompt;     /* end the prompt with the last message */
    bool continue_last;            /* stable mode: the last message is the start of the answer */
    bool number_media;             /* label images and videos with numbers (add_vision_id) */
    size_t max_tokens;             /* a prompt that must be longer is refused early; 0: no limit */
    bool (*hook)(void *ctx);       /* see mote_tokenize_with_hook; may be NULL */
    void *hook_ctx;
} chat_request;

#endif
