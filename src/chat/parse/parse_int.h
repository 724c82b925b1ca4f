/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parse_int.h - internals of the parser. Call order: parse.c (states thinking and content) calls
 * parse_tool_call.c (states of a call), which calls parse_queue.c and tool_arguments.c.
 *
 * All input becomes one queue, `held`: text, and control tokens as two bytes, TAG_BYTE and the
 * chat_tag. TAG_BYTE never occurs in UTF-8. Each state consumes bytes from the front or waits if it
 * cannot decide yet. A decision depends only on the queue and on `ended`, never on how the queue
 * was filled. That makes the events independent of token boundaries.
 */
#ifndef MOTE_CHAT_PARSE_PARSE_INT_H
#define MOTE_CHAT_PARSE_PARSE_INT_H

#include "base/str.h"
#include "chat/parse/parse.h"
#include "chat/prompt/chat_limits.h"

#define TAG_BYTE ((char)0xFF)

typedef enum parse_state {
    PARSE_RAW, /* everything is content */
    PARSE_THINK,
    PARSE_CONTENT,
    PARSE_HEAD,  /* after <tool_call> */
    PARSE_BODY,  /* inside a function, between parameters */
    PARSE_VALUE, /* inside a parameter */
    PARSE_JSON,  /* inside a call written as JSON */
    PARSE_AFTER, /* after </function> */
    PARSE_BROKEN /* a rejected call: content up to </tool_call> */
} parse_state;

typedef struct parse_tool {
    str name;
    const json_node *parameters;
} parse_tool;

/* A token without a CHAT_EVENT_TOKEN yet. Byte positions count from the start of the answer. If
 * the token ends inside a UTF-8 character, it also owns the first byte of that character. */
typedef struct parse_source {
    size_t begin, end;
    size_t token; /* index among all tokens */
    mote_token id;
} parse_source;

struct chat_parser {
    chat_parser_options options;
    parse_tool tools[CHAT_MAX_TOOLS];
    size_t n_tools;
    parse_state state;
    mote_text_stream stream;
    strbuf held;  /* the queue */
    size_t taken; /* bytes of held that are consumed */
    size_t at;    /* bytes of held that are examined, >= taken */
    bool ended;   /* no more input follows */
    bool cut;

    /* which bytes came from which token, if options.tokens */
    size_t n_tokens;       /* given so far */
    size_t moved;          /* bytes removed from the front of the queue */
    parse_source *sources; /* [sources_room]; first_source .. n_sources are in use */
    size_t first_source, n_sources, sources_room;
    bool sources_failed;

    /* thinking and content */
    bool fresh;   /* only blanks so far in this section: they are dropped */
    bool in_line; /* the current line has more than three leading spaces or other text before at */
    uint32_t indent;
    char fence;   /* ` or ~ of the open code block; 0: none */
    char run_of;  /* the line started with this character ... */
    uint32_t run; /* ... this many times so far */

    /* the current call */
    strbuf raw;             /* its text and the blanks before it, in case it is rejected */
    const parse_tool *tool; /* NULL: not yet known */
    bool tagged;            /* it started with the control token */
    bool started;           /* CALL_START was sent */
    uint32_t n_started, n_ended;
    bool repaired;
    bool junk;       /* text between its tags was skipped */
    bool whole_json; /* PARSE_JSON: name and arguments, not arguments alone */
    strbuf arguments;
    size_t shown; /* bytes of arguments that were sent */
    strbuf keys;  /* parameters so far, each followed by a zero byte */
    strbuf key;   /* the current parameter */
    strbuf value; /* its value, unless it streams */
    unsigned types;
    bool streams;     /* the value is sent while it arrives */
    bool unwanted;    /* a second value for the same key */
    bool value_fresh; /* the line break after <parameter=KEY> may still follow */
    char value_last;  /* last byte taken of the value; '\n' before the first */
};

static inline bool parse_is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* ---- parse_queue.c: events ---- */

void parse_emit(const chat_parser *p, chat_event event);
void parse_warn(const chat_parser *p, chat_warning warning, str text);
/* Position of the next control token in from .. end; `end` if there is none. */
size_t parse_next_tag(const chat_parser *p, size_t from, size_t end);
/* Sends a range of the queue as text events of this kind. Control tokens are spelled. */
void parse_emit_text(chat_parser *p, chat_event_kind kind, size_t begin, size_t end);
/* Appends a range of the queue to `to`. Control tokens are spelled. */
void parse_spell(const chat_parser *p, strbuf *to, size_t begin, size_t end);
/* Content starts at `taken`. */
void parse_enter_content(chat_parser *p);

/* ---- parse_queue.c: which tokens lead to content ---- */

/* Records the token that was queued from `begin` on. */
void source_add(chat_parser *p, size_t begin, mote_token id);
/* Drops the tokens that end before `at`: they lead to no content. */
void source_forget(chat_parser *p, size_t at);
/* Content starts at `begin`: sends the tokens that lead to it. Returns where the next token
 * starts, at most `end`. */
size_t source_emit(chat_parser *p, size_t begin, size_t end);
/* All consumed bytes are content: sends their tokens. */
void source_emit_taken(chat_parser *p);

/* ---- parse_queue.c: what stands at a position of the queue ---- */

typedef enum parse_match { MATCH_NO, MATCH_YES, MATCH_MAYBE } parse_match;

/* MAYBE: the queue ends before the decision. On YES *end is the position after the match. */
parse_match match_text(const chat_parser *p, size_t at, const char *text, size_t *end);
/* A tag as control token or spelled. */
parse_match match_tag(const chat_parser *p, size_t at, chat_tag tag, size_t *end);
/* Zero to CHAT_MAX_BLANKS blanks. MAYBE: they reach the end of the queue and more may follow. */
parse_match match_blanks(const chat_parser *p, size_t at, size_t *end);
/* <WORD=NAME> or <WORD name="NAME">. A parameter head may end with its line. */
parse_match match_head(const chat_parser *p, size_t at, const char *word, str *name, size_t *end);
/* <function=NAME> of an existing tool. */
parse_match match_function(const chat_parser *p, size_t at, const parse_tool **tool, size_t *end);
/* YES if one is YES, otherwise MAYBE if one is MAYBE. */
parse_match match_either(parse_match a, parse_match b);
/* A call without the control token <tool_call>, as far as its start shows. */
parse_match match_bare_call(const chat_parser *p, size_t at);
/* The end of a value. *end is where parsing continues; *regular: it ended with </parameter>. */
parse_match match_value_end(const chat_parser *p, size_t at, size_t *end, bool *regular);
const parse_tool *parse_find_tool(const chat_parser *p, str name);
bool parse_key_given(const chat_parser *p, str key);

/* ---- parse_tool_call.c ---- */

/* A call starts. Consumes the queue up to `head_at`: blanks, and <tool_call> if present. */
void parse_open_call(chat_parser *p, size_t head_at);

/* One function per state. Each consumes what it can; false: it waits for more input. */
bool parse_head(chat_parser *p);
bool parse_body(chat_parser *p);
bool parse_value(chat_parser *p);
bool parse_json(chat_parser *p);
bool parse_after(chat_parser *p);
bool parse_broken(chat_parser *p);

/* ---- tool_arguments.c: the JSON value of a parameter ---- */

enum {
    CHAT_TYPE_NULL = 1,
    CHAT_TYPE_INTEGER = 2,
    CHAT_TYPE_NUMBER = 4,
    CHAT_TYPE_BOOLEAN = 8,
    CHAT_TYPE_OBJECT = 16,
    CHAT_TYPE_ARRAY = 32,
    CHAT_TYPE_STRING = 64,
    CHAT_TYPE_ANY = 127
};

/* The types that the parameter schema of a tool allows for parameter `name`; never 0. Follows
 * type, nullable, enum, const, anyOf, oneOf, allOf and local $ref, with bounded work. */
unsigned chat_argument_types(const json_node *schema, str name);
/* Whether the parameter is listed in `properties`. */
bool chat_argument_declared(const json_node *schema, str name);

/* Writes `text` as JSON of the first allowed type that fits, in the order of the enum above.
 * false: none fits, and a string was written. */
bool chat_argument_put(strbuf *out, str text, unsigned types);

/* Rewrites a Python literal (both kinds of quotes, True, None, tuples, trailing commas) as JSON.
 * false: not a Python literal; `out` is then undefined. The result still has to be parsed. */
bool chat_python_to_json(strbuf *out, str text);

#endif
