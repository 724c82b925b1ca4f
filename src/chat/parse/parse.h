/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parse.h - a streaming parser: answer tokens to events (reasoning, content, tool calls).
 *
 * The caller feeds one token at a time. An event is delivered as soon as it is certain. The events
 * do not depend on how the answer was cut into tokens, except that adjacent deltas may be joined.
 *
 * <think>, </think>, <tool_call> and </tool_call> count by token id: text that only spells them is
 * text. Inside thinking nothing is a tool call. A tool call is
 *
 *     <tool_call> <function=NAME> { <parameter=KEY> VALUE </parameter> } </function> </tool_call>
 *
 * of an existing tool, outside a ``` block. Without <tool_call> it counts only at the start of a
 * line and if the next tag follows. The parser repairs missing, doubled and wrong closing tags
 * where the next tag shows what was meant, JSON in place of parameters, and other orders of names
 * and quotes. What it cannot repair is content, with a warning. Model output is never an error;
 * only memory can run out.
 *
 * Streaming of tool calls. With a grammar (options.constrained, see response_format.h) the tags, an
 * existing tool, its parameters and an end are guaranteed. A call is then certain after the control
 * token <tool_call> outside a block, <function=NAME> and a first <parameter=KEY>, if nothing was
 * repaired so far. CALL_START is sent there, and argument deltas follow: values that can only be
 * strings are sent while they arrive, other values when they are complete. Later faults are always
 * repaired. Only two things cancel a call that has started: an answer that is cut inside it, and
 * CHAT_MAX_CALL_BYTES. All other calls are sent in one piece when they are complete. The deltas
 * joined always equal the text of CALL_END byte for byte.
 *
 * The parser holds back at most the blanks before a tag, a possible tag, and a call that is not yet
 * certain (limits in chat_limits.h). Nothing recurses. One thread at a time.
 */
#ifndef MOTE_CHAT_PARSE_PARSE_H
#define MOTE_CHAT_PARSE_PARSE_H

#include "chat/prompt/chat_context.h"
#include "chat/prompt/message.h"

typedef enum chat_event_kind {
    CHAT_EVENT_REASONING,      /* text */
    CHAT_EVENT_CONTENT,        /* text */
    CHAT_EVENT_CALL_START,     /* call, name: the call is certain or complete */
    CHAT_EVENT_CALL_ARGUMENTS, /* call, name, text: the next delta of a JSON object */
    CHAT_EVENT_CALL_END,       /* call, name, text: the whole object. Execute the call only now */
    CHAT_EVENT_CALL_CANCEL,    /* call, name: cut or too long; discard its deltas */
    CHAT_EVENT_WARNING,        /* warning, text: its subject, may be empty */
    CHAT_EVENT_TOKEN,          /* token, text: its bytes. Sent before the content that it leads to.
                                * A turn also sets choice */
    CHAT_EVENT_END             /* cut, thinking_open; the last event */
} chat_event_kind;

typedef enum chat_warning {
    CHAT_WARN_UNKNOWN_TOOL, /* text: the name. The call is content */
    CHAT_WARN_MALFORMED,    /* started like a call and is content */
    CHAT_WARN_REPAIRED,     /* text: the name. A call with repaired faults */
    CHAT_WARN_CUT,          /* the answer was cut inside a call; the call is dropped */
    CHAT_WARN_TOO_LONG,     /* a call longer than CHAT_MAX_CALL_BYTES is content */
    CHAT_WARN_TYPE,         /* text: the parameter. Its value does not fit its schema */
    CHAT_WARN_DUPLICATE,    /* text: the parameter. Given twice; the first value is used */
    CHAT_WARN_STRAY_TAG,    /* text: a control token without a meaning here; left out */
    CHAT_WARN_FENCED,       /* a call inside a ``` block is content */
    /* sent before the first token, by turn.c and chat_answer.c */
    CHAT_WARN_SCHEMA,      /* text: a tool and the part of its schema that is not enforced */
    CHAT_WARN_TOOL_IGNORED /* text: the type of a tool that is not a function */
} chat_warning;

typedef struct chat_event {
    chat_event_kind kind;
    uint32_t call; /* number of calls started before this one */
    str name;
    str text; /* a view, valid until the event function returns */
    chat_warning warning;
    size_t token;              /* index of the token among those given to the parser */
    const mote_choice *choice; /* logprob 0 and no alternatives: the token was inserted */
    bool cut;
    bool thinking_open;
} chat_event;

typedef void chat_event_fn(void *with, const chat_event *event);

typedef struct chat_parser_options {
    const mote_model *model;
    const chat_template *template;
    const json_node *const *tools; /* [n_tools], as in the request; must outlive the parser */
    size_t n_tools;
    const bool *tool_allowed; /* [n_tools]; NULL: all. A tool that is not allowed is unknown */
    bool thinking;            /* chat_prompt.thinking */
    bool raw;                 /* every token is content; control tokens have no meaning */
    bool tokens;              /* send CHAT_EVENT_TOKEN */
    bool constrained;         /* a grammar constrains calls from <tool_call> on */
    chat_event_fn *event;
    void *with; /* first argument of event */
} chat_parser_options;

typedef struct chat_parser chat_parser;

mote_status chat_parser_new(chat_parser **out, const chat_parser_options *options, mote_error *err);
/* NULL is allowed. */
void chat_parser_free(chat_parser *parser);

/* Adds the next token. End tokens are ignored: the caller decides when the answer ends. */
mote_status chat_parser_token(chat_parser *parser, mote_token id, mote_error *err);

/* Ends the answer. `cut`: the model was stopped; it did not end the answer itself. */
mote_status chat_parser_end(chat_parser *parser, bool cut, mote_error *err);

/* Where the next token would belong. Text that is held back may still change it. */
typedef enum chat_place {
    CHAT_PLACE_THINKING,
    CHAT_PLACE_CONTENT,
    CHAT_PLACE_CALL /* after <tool_call> or <function=NAME>, before the end of the call */
} chat_place;

chat_place chat_parser_place(const chat_parser *parser);
/* Number of leading tokens that are settled: their CHAT_EVENT_TOKEN was sent or never will be. */
size_t chat_parser_settled(const chat_parser *parser);
/* Number of completed calls. */
uint32_t chat_parser_calls(const chat_parser *parser);
/* "unknown_tool", "malformed" ... */
const char *chat_warning_name(chat_warning warning);

#endif
