/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parse.h - the tokens of an answer to events.
 *
 * Fed token by token; each event is delivered as soon as it is certain. How the
 * answer was cut into tokens does not matter: adjacent deltas joined, the events are the same.
 *
 * The tags <think>, </think>, <tool_call> and </tool_call> count by id: text that
 * merely spells them is text. Inside thinking nothing is a call. A call is
 *
 *     <tool_call> <function=NAME> { <parameter=KEY> VALUE </parameter> } </function> </tool_call>
 *
 * of a tool that exists, outside of a ``` block. Without the outer tag it counts only at
 * the start of a line and if the next tag follows. Missing, doubled and wrong closing tags are
 * repaired where the next tag shows what was meant; so are JSON in place of parameters, and
 * another order of names and quotes. What cannot be repaired is content, with a warning. A
 * model's output is never an error: what fails here is memory alone.
 *
 * When a call is told of. A grammar that holds calls (form.h, options.formed) forces the
 * tags, a tool that exists, its parameters and an end. So what has a control token <tool_call>
 * outside of a block, <function=NAME> of a tool and a first <parameter=KEY>, with nothing to
 * repair so far, is a call for certain: it starts there, and pieces of its arguments follow while
 * it comes, values that can be nothing but strings as they are written, all but a tail that may be
 * a line break and a closing tag, other values when they close. What follows is then repaired in
 * any case. Only two things cancel such a call: the end of a cut answer inside it, and
 * CHAT_MAX_CALL_BYTES. All other calls, and all of them without a grammar, start when they
 * are whole, in one piece. The pieces joined are always the text of the end, byte for byte.
 *
 * Held back are at most the blanks before a tag, a possible tag, and a call that is not certain
 * until it is whole (chat/limits.h); nothing recurses.
 */
#ifndef MOTE_CHAT_PARSE_PARSE_H
#define MOTE_CHAT_PARSE_PARSE_H

#include "chat/prompt/message.h"
#include "chat/prompt/chat_context.h"

typedef enum chat_event_kind {
    CHAT_EVENT_REASONING,      /* text */
    CHAT_EVENT_CONTENT,        /* text */
    CHAT_EVENT_CALL_START,     /* call, name: one that is certain, or whole */
    CHAT_EVENT_CALL_ARGUMENTS, /* call, name, text: the next piece of a JSON object */
    CHAT_EVENT_CALL_END,       /* call, name, text: all of that object. Only now may it be made */
    CHAT_EVENT_CALL_CANCEL,    /* call, name: cut, or too long; forget what came of it */
    CHAT_EVENT_WARNING,        /* warning, text: what it is about, may be empty */
    CHAT_EVENT_TOKEN,          /* token, text: its bytes. Content it leads to follows. Of a turn
                                * also choice */
    CHAT_EVENT_END             /* cut, thinking_open; the last event */
} chat_event_kind;

typedef enum chat_warning {
    CHAT_WARN_UNKNOWN_TOOL, /* text: the name. The call is content */
    CHAT_WARN_MALFORMED,    /* looked like a call and is content */
    CHAT_WARN_REPAIRED,     /* text: the name. A call with faults that could be mended */
    CHAT_WARN_CUT,          /* a call was not finished when the answer was cut; it is gone */
    CHAT_WARN_TOO_LONG,     /* a call beyond CHAT_MAX_CALL_BYTES is content */
    CHAT_WARN_TYPE,         /* text: the parameter. Its value does not fit its schema */
    CHAT_WARN_DUPLICATE,    /* text: the parameter. Given twice; the first counts */
    CHAT_WARN_STRAY_TAG,    /* text: a control token where it means nothing; left out */
    CHAT_WARN_FENCED,       /* a call inside a ``` block is content */
    /* before the first token, from turn.h and chat_answer.c */
    CHAT_WARN_SCHEMA,      /* text: a tool and what of its schema is not held */
    CHAT_WARN_TOOL_IGNORED /* text: the type of a tool that is not a function */
} chat_warning;

typedef struct chat_event {
    chat_event_kind kind;
    uint32_t call; /* how many calls started before this one */
    str name;
    str text; /* a view, until the function that receives it returns */
    chat_warning warning;
    size_t token;              /* how many tokens the parser had got before this one */
    const mote_choice *choice; /* logprob 0 and no alternatives: there was no choice */
    bool cut;
    bool thinking_open;
} chat_event;

typedef void chat_event_fn(void *with, const chat_event *event);

typedef struct chat_parser_options {
    const mote_model *model;
    const chat_template *how;
    const json_node *const *tools; /* [n_tools], as in the request; they outlive the parser */
    size_t n_tools;
    const bool *tool_allowed; /* [n_tools]; NULL: all. The others are unknown */
    bool thinking;            /* chat_prompt.thinking */
    bool raw;                 /* every token is content, control tokens say nothing */
    bool tokens;              /* deliver CHAT_EVENT_TOKEN */
    bool formed;              /* a grammar holds calls from <tool_call> on */
    chat_event_fn *event;
    void *with;
} chat_parser_options;

typedef struct chat_parser chat_parser;

mote_status chat_parser_new(chat_parser **out, const chat_parser_options *options, mote_error *err);
/* NULL is allowed. */
void chat_parser_free(chat_parser *parser);

/* The next token. End tokens are ignored: whoever samples decides that it is over. */
mote_status chat_parser_token(chat_parser *parser, mote_token id, mote_error *err);

/* Nothing follows. `cut`: the model was stopped, it did not stop. */
mote_status chat_parser_end(chat_parser *parser, bool cut, mote_error *err);

/* Where the next token would go; what is held back may still change it. */
typedef enum chat_place {
    CHAT_PLACE_THINKING,
    CHAT_PLACE_CONTENT,
    CHAT_PLACE_CALL /* after <tool_call> or <function=NAME>, before the end of the call */
} chat_place;

chat_place chat_parser_place(const chat_parser *parser);
/* How many tokens are not needed any more: CHAT_EVENT_TOKEN of those before has come, or never
 * will. */
size_t chat_parser_settled(const chat_parser *parser);
/* Calls that ended so far. */
uint32_t chat_parser_calls(const chat_parser *parser);
/* "unknown_tool", "malformed" ... */
const char *chat_warning_name(chat_warning warning);

#endif
