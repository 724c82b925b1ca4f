/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parse_int.h - the inside of the parser, shared by its files.
 *
 * All input becomes one queue, `held`: text, and control tokens as two bytes, TAG_BYTE
 * and the tag. TAG_BYTE is in no UTF-8 text. States take from its front, or wait because
 * they cannot decide yet; what they decide depends on the queue and on whether it is the
 * last of it, never on how it was filled.
 */
#ifndef MOTE_CHAT_PARSE_PARSE_INT_H
#define MOTE_CHAT_PARSE_PARSE_INT_H

#include "base/strbuf.h"
#include "chat/prompt/chat_limits.h"
#include "chat/parse/parse.h"

#define TAG_BYTE ((char)0xFF)

typedef enum parse_state {
    PARSE_RAW, /* all is content */
    PARSE_THINK,
    PARSE_CONTENT,
    PARSE_HEAD,  /* after <tool_call> */
    PARSE_BODY,  /* inside a function, between parameters */
    PARSE_VALUE, /* inside a parameter */
    PARSE_JSON,  /* inside a call that is JSON */
    PARSE_AFTER, /* after </function> */
    PARSE_BROKEN /* content up to </tool_call> */
} parse_state;

typedef struct parse_tool {
    str name;
    const json_node *parameters;
} parse_tool;

/* A token of which nobody was told yet, and its bytes, counted from the first that ever was
 * queued. If it ends inside a character, the first byte of that counts as its own. */
typedef struct parse_source {
    size_t begin, end;
    size_t token; /* how many came before it */
    mote_token id;
} parse_source;

struct chat_parser {
    chat_parser_options options;
    parse_tool tools[CHAT_MAX_TOOLS];
    size_t n_tools;
    parse_state state;
    mote_text_stream stream;
    strbuf held;
    size_t taken; /* of held: gone */
    size_t at;    /* of held: looked at, >= taken */
    bool ended;   /* held is the last of it */
    bool cut;

    /* what came from which token, if options.tokens */
    size_t n_tokens;       /* given so far */
    size_t moved;          /* bytes that left the queue */
    parse_source *sources; /* [sources_room]; first_source .. n_sources are in use */
    size_t first_source, n_sources, sources_room;
    bool sources_failed;

    /* thinking and content */
    bool fresh;   /* nothing but blanks since it began: they are left out */
    bool in_line; /* something but up to three spaces stands before `at` in its line */
    uint32_t indent;
    char fence;   /* the ` or ~ of the block we are in; 0: in none */
    char run_of;  /* a line that began with this ... */
    uint32_t run; /* ... this many times so far */

    /* a call */
    strbuf raw;             /* all of it as text, with the blanks before, in case it is none */
    const parse_tool *tool; /* NULL: not yet known */
    bool tagged;            /* it began with the control token */
    bool started;           /* it was told of */
    uint32_t n_started, n_ended;
    bool repaired;   /* something in it was */
    bool junk;       /* text between its tags was passed over */
    bool whole_json; /* PARSE_JSON: name and arguments, not arguments alone */
    strbuf arguments;
    size_t shown; /* bytes of them that were told */
    strbuf keys;  /* those given, each followed by a zero */
    strbuf key;   /* the parameter at hand */
    strbuf value; /* if it does not stream */
    unsigned types;
    bool streams;     /* its JSON goes out while it comes in */
    bool unwanted;    /* a second value for the same key */
    bool value_fresh; /* the line break after <parameter=KEY> may still come */
    char value_last;  /* the byte of it that was taken last; a line break before the first */
};

typedef enum parse_match { MATCH_NO, MATCH_YES, MATCH_MAYBE } parse_match;

/* ---- parse_match.c: what stands at a place of the queue ---- */

/* `n` bytes match; MAYBE: they would if more came. */
parse_match match_text(const chat_parser *p, size_t at, const char *text, size_t *end);
/* A tag as control token, or spelt. */
parse_match match_tag(const chat_parser *p, size_t at, chat_tag tag, size_t *end);
/* Blanks, any number up to a limit; MAYBE: they reach the end of the queue, and more may come. */
parse_match match_blanks(const chat_parser *p, size_t at, size_t *end);
/* <WORD=NAME> or <WORD name="NAME">; a parameter's may end with its line. */
parse_match match_head(const chat_parser *p, size_t at, const char *word, str *name, size_t *end);
/* <function=NAME> of a tool that exists. */
parse_match match_function(const chat_parser *p, size_t at, const parse_tool **tool, size_t *end);
/* The best of several: one YES is YES, else one MAYBE is MAYBE. */
parse_match match_either(parse_match a, parse_match b);
/* A whole call without <tool_call>, as far as it can be told from its beginning. */
parse_match match_bare_call(const chat_parser *p, size_t at);
/* Does the value end here, and where does reading go on? */
parse_match match_value_end(const chat_parser *p, size_t at, size_t *end, bool *regular);
const parse_tool *find_tool(const chat_parser *p, str name);
bool key_given(const chat_parser *p, str key);

/* ---- parse.c ---- */

void parse_emit(const chat_parser *p, chat_event event);
void parse_warn(const chat_parser *p, chat_warning warning, str text);
/* Where the next control token stands; `end`: there is none before it. */
size_t parse_next_tag(const chat_parser *p, size_t from, size_t end);
/* A stretch of the queue as text of this kind, tags spelt. */
void parse_emit_text(chat_parser *p, chat_event_kind kind, size_t begin, size_t end);
/* Spells what stands there at the end of `to`. */
void parse_spell(const chat_parser *p, strbuf *to, size_t begin, size_t end);
void parse_enter_content(chat_parser *p);

/* ---- parse_source.c: which tokens lead to content ---- */

/* A token was queued from `begin` on. */
void source_add(chat_parser *p, size_t begin, mote_token id);
/* Tokens that end before here lead to nothing. */
void source_forget(chat_parser *p, size_t at);
/* Content is about to begin here: tells of the tokens that lead to it. Returns where the next one
 * begins, at most `end`. */
size_t source_tell(chat_parser *p, size_t begin, size_t end);
/* All that was taken so far, and nobody was told of, is content after all. */
void source_tell_taken(chat_parser *p);

/* ---- parse_call.c: the call as a whole ---- */

/* Keeps a copy of what is taken, in case it has to be given back. */
void call_take(chat_parser *p, size_t end);
str call_tool_name(const chat_parser *p);
/* <function=NAME> was read. */
void call_enter(chat_parser *p, const parse_tool *tool);
/* A parameter begins: the call is told of from here on if it is certain. */
void call_start_if_certain(chat_parser *p);
/* Tells what was added to the arguments, if the call was told of. */
void call_show_arguments(chat_parser *p);
void call_end(chat_parser *p);
/* It is no call: what was taken of it becomes content, and the rest follows. */
void call_give_back(chat_parser *p, chat_warning warning, str about);
/* The answer was cut inside it: half a call is worth nothing to anybody. */
void call_drop(chat_parser *p);
/* It is, and was given back. */
bool call_too_long(chat_parser *p);

/* ---- parse_call.c and parse_value.c: each takes what it can; false: it waits ---- */

/* Everything of the queue before `head_at` belongs to a call: blanks, and its outer tag if any. */
void parse_open_call(chat_parser *p, size_t head_at);
/* <parameter=KEY> ends here. */
void call_begin_value(chat_parser *p, str key, size_t end);
bool parse_head(chat_parser *p);
bool parse_body(chat_parser *p);
bool parse_value(chat_parser *p);
bool parse_json(chat_parser *p);
bool parse_after(chat_parser *p);
bool parse_broken(chat_parser *p);

/* ---- tool_arguments.c ---- */

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

/* What the schema of a tool's parameters allows for one of them; never 0. Follows type, nullable,
 * enum, const, anyOf, oneOf, allOf and $ref inside the schema, with bounded work. */
unsigned chat_argument_types(const json_node *schema, str name);
/* The parameter is named in `properties`. */
bool chat_argument_declared(const json_node *schema, str name);

/* Writes the value as JSON. false: no allowed type fits, and a string was written. */
bool chat_argument_put(strbuf *out, str text, unsigned types);

/* A Python literal (quotes of either kind, True, None, tuples, commas before a bracket) as JSON;
 * false: it is none, and `out` is then of no use. What comes out still has to be parsed. */
bool chat_python_to_json(strbuf *out, str text);

#endif
