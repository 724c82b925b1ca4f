/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mote_chat.h - conversations with a Qwen 3.5 model: messages in, an answer out.
 *
 * Built on mote.h and usable beside it. One object:
 *
 *   mote_chat   a conversation on an engine: its messages, its tools and the session
 *               that has read them. Belongs to the thread that uses the engine
 *               (mote_chat_cancel excepted).
 *
 * A program adds a message and asks for the answer, which arrives in pieces while it
 * is written and is then itself part of the conversation; examples/chat.c is the whole
 * of it. What the session has read already is not read again: an answer costs its new
 * tokens.
 *
 * What people write never becomes a control token, whatever it spells. What the model
 * writes is never an error: thinking is brought to an end, loops are left, a broken
 * tool call is text with a warning, and the result says what was done.
 *
 * Conventions are those of mote.h: calls that can fail return mote_status and end with
 * `mote_error *err`; options may be NULL and all-zero options are the defaults; text is
 * UTF-8 as pointer and length, and what is no UTF-8 in it is read as U+FFFD.
 */
#ifndef MOTE_CHAT_H
#define MOTE_CHAT_H

#include <mote.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- a conversation ---- */

typedef struct mote_chat mote_chat;

typedef struct mote_chat_options {
    const char *system; /* [system_bytes], what the model is told first; may be NULL */
    size_t system_bytes;
    uint64_t context; /* as in mote_session_options; 0: an even share of the engine's */
    /* Render byte for byte as the model's own template does, which forgets thinking once
     * the next question comes and so reads answers again. Default: a turn keeps its tokens. */
    bool official;
} mote_chat_options;

/* Takes one of the engine's sessions. With a kept state or two (mote_engine_options) a loop
 * in a long answer costs little to leave; without, the conversation is read again. */
MOTE_API mote_status mote_chat_new(mote_chat **out, mote_engine *engine,
                                   const mote_chat_options *options, mote_error *err);
/* NULL is allowed. */
MOTE_API void mote_chat_free(mote_chat *chat);

typedef enum mote_role {
    MOTE_ROLE_USER = 0,
    MOTE_ROLE_ASSISTANT,
    MOTE_ROLE_SYSTEM, /* in the midst of a conversation; the first words are mote_chat_set_system's
                       */
    MOTE_ROLE_TOOL    /* what a tool returned; results follow the order of the calls */
} mote_role;

/* Replaces what the model is told first; NULL or 0 bytes: nothing. */
MOTE_API mote_status mote_chat_set_system(mote_chat *chat, const char *text, size_t bytes,
                                          mote_error *err);
/* The tools it may call, as a JSON array in OpenAI's form; NULL or 0 bytes: none. */
MOTE_API mote_status mote_chat_set_tools(mote_chat *chat, const char *json, size_t bytes,
                                         mote_error *err);
MOTE_API mote_status mote_chat_add(mote_chat *chat, mote_role role, const char *text, size_t bytes,
                                   mote_error *err);
/* A picture, or a film as the frames that were chosen of it. */
typedef struct mote_media {
    const mote_image *const *images; /* [n]; of a film each is two frames */
    const double *seconds;           /* [n]: the times of a film's; NULL: one picture */
    size_t n;
} mote_media;

/* A user's message that shows something before it says something. The pictures must live as long
 * as the conversation; a saved one does not keep them. */
MOTE_API mote_status mote_chat_add_media(mote_chat *chat, const mote_media *media, size_t n_media,
                                         const char *text, size_t bytes, mote_error *err);
/* One message in OpenAI's form, or an array of them: all are added, or none. */
MOTE_API mote_status mote_chat_add_json(mote_chat *chat, const char *json, size_t bytes,
                                        mote_error *err);

/* Messages so far, the system text not counted. */
MOTE_API size_t mote_chat_count(const mote_chat *chat);
/* Drops the messages from number `n` on. Never fails, and costs nothing before the next answer. */
MOTE_API void mote_chat_cut(mote_chat *chat, size_t n);
/* Drops what followed the last question, so that it can be answered again; returns how many. */
MOTE_API size_t mote_chat_drop_answer(mote_chat *chat);
/* Drops the last question and what followed; returns how many messages that were. */
MOTE_API size_t mote_chat_undo(mote_chat *chat);
/* Drops all messages; system text and tools stay. */
MOTE_API void mote_chat_clear(mote_chat *chat);

/* Message `i` or, with i = MOTE_CHAT_ALL, an array of all with the system text first, as JSON in
 * OpenAI's form. Writes at most `room` bytes and always the full count to *bytes, so a call
 * with room 0 measures. No terminating zero. */
#define MOTE_CHAT_ALL SIZE_MAX
MOTE_API mote_status mote_chat_json(const mote_chat *chat, size_t i, char *json, size_t room,
                                    size_t *bytes, mote_error *err);

/* The session that reads for this conversation, for its length, context and tokens. Appending to
 * it or going back is allowed: the next answer finds out what is still right. */
MOTE_API mote_session *mote_chat_session(const mote_chat *chat);

/* Writes the conversation to `path` as JSON, and beside it, as `path`.state, what its session
 * remembers. */
MOTE_API mote_status mote_chat_save(const mote_chat *chat, const char *path, mote_error *err);
/* A conversation as it was saved. If the state is missing or of another model, the next answer
 * reads the text again; *remembered, if not NULL, says which. Of the options only `context` and
 * `official` count. */
MOTE_API mote_status mote_chat_load(mote_chat **out, mote_engine *engine, const char *path,
                                    const mote_chat_options *options, bool *remembered,
                                    mote_error *err);

/* ---- an answer ---- */

typedef enum mote_think {
    MOTE_THINK_AUTO = 0, /* by size: off for 0.8B and 2B, on for 4B and more */
    MOTE_THINK_ON,
    MOTE_THINK_OFF
} mote_think;

/* Tokens of thinking for the words people use. */
enum {
    MOTE_THINK_MINIMAL = 256,
    MOTE_THINK_LOW = 1024,
    MOTE_THINK_MEDIUM = 4096, /* the default */
    MOTE_THINK_HIGH = 16384,
    MOTE_THINK_XHIGH = 32768
};
#define MOTE_THINK_MAX UINT32_MAX /* all the room there is, but for the answer */

/* auto; off, none, no, false, 0; on, yes, true; minimal, low, medium, high, xhigh, max; a number of
 * tokens, of which negative ones mean max. In any case of letters. false: it is none of these. */
MOTE_API bool mote_think_parse(const char *text, size_t bytes, mote_think *think, uint32_t *budget);

typedef enum mote_task {
    MOTE_TASK_GENERAL = 0,
    MOTE_TASK_CODING,
    MOTE_TASK_REASONING, /* hard questions without thinking */
    MOTE_TASK_VISION
} mote_task;

typedef enum mote_format {
    MOTE_FORMAT_TEXT = 0,
    MOTE_FORMAT_JSON,        /* any object */
    MOTE_FORMAT_JSON_SCHEMA, /* `format_text` is the schema */
    MOTE_FORMAT_REGEX,       /* `format_text` is an expression; all of the answer matches it */
    MOTE_FORMAT_CHOICES, /* `format_text` is a JSON array of strings; the answer is one of them */
    /* `format_text` is a grammar in GBNF, rules that call each other:
     *     root ::= "yes" | "no, because " word (" " word){2,11} "."
     *     word ::= [a-zA-Z'-]+
     * The answer is a text of `root`. docs/structured-output.md has the language. */
    MOTE_FORMAT_GRAMMAR
} mote_format;

typedef enum mote_tool_choice {
    MOTE_TOOLS_AUTO = 0, /* the model decides */
    MOTE_TOOLS_NONE,     /* it is not told of them and cannot call */
    MOTE_TOOLS_REQUIRED, /* at least one call */
    MOTE_TOOLS_NAMED     /* a call of `tool_name` */
} mote_tool_choice;

/* Which fields of `sampling` count. The others come from the preset: the model card's settings
 * for this size, with or without thinking, for this task. */
enum {
    MOTE_SET_TEMPERATURE = 1,
    MOTE_SET_TOP_K = 2,
    MOTE_SET_TOP_P = 4,
    MOTE_SET_MIN_P = 8,
    MOTE_SET_PRESENCE = 16,
    MOTE_SET_FREQUENCY = 32,
    MOTE_SET_REPETITION = 64,
    MOTE_SET_TYPICAL_P = 128,
    MOTE_SET_REPEAT_LAST = 256
};

typedef enum mote_chat_event_kind {
    MOTE_CHAT_PREFILL,        /* done of total tokens of the prompt are read */
    MOTE_CHAT_REASONING,      /* text: the next piece of thinking */
    MOTE_CHAT_CONTENT,        /* text: the next piece of the answer */
    MOTE_CHAT_CALL_START,     /* call, name: it is sure to be one */
    MOTE_CHAT_CALL_ARGUMENTS, /* call, name, text: the next piece of a JSON object */
    MOTE_CHAT_CALL_END,       /* call, name, text: all of that object. Only now may it be made */
    MOTE_CHAT_CALL_CANCEL,    /* call, name: the answer was cut inside it; forget what came of it */
    MOTE_CHAT_WARNING         /* name: a short stable word; text: what it is about, may be empty */
} mote_chat_event_kind;

/* Views end when the function that receives them returns; none is terminated. */
typedef struct mote_chat_event {
    mote_chat_event_kind kind;
    uint32_t call; /* how many calls started before this one */
    const char *name;
    size_t name_bytes;
    const char *text;
    size_t text_bytes;
    uint64_t done, total;
} mote_chat_event;

/* Must not call the chat, mote_chat_cancel excepted. */
typedef void mote_chat_event_fn(void *with, const mote_chat_event *event);

enum { MOTE_CHAT_STOPS = 16, MOTE_CHAT_STOP_BYTES = 256 };

typedef struct mote_answer_options {
    mote_think think;
    uint32_t think_budget; /* tokens of thinking in this answer; 0: MOTE_THINK_MEDIUM */
    uint32_t max_tokens;   /* thinking included; 0: 32,768. Never more than the context has room */
    mote_task task;
    unsigned set; /* MOTE_SET_*: what `sampling` decides */
    mote_sampling
        sampling; /* also bias, seed and draw, which no preset has; generated_from is ours */
    const char *const *stop; /* [n_stop], each terminated: content ends before the first of them */
    size_t n_stop;
    mote_format format;
    const char *format_text; /* [format_bytes] */
    size_t format_bytes;
    mote_tool_choice tool_choice;
    const char *tool_name; /* terminated, for MOTE_TOOLS_NAMED */
    bool one_call;         /* the answer ends after its first call */
    bool no_loop_guard;    /* repetition is wanted */
    mote_chat_event_fn *event;
    void *with; /* first argument of event */
} mote_answer_options;

typedef enum mote_finish {
    MOTE_FINISH_STOP = 0,   /* the model ended its answer */
    MOTE_FINISH_LENGTH,     /* max_tokens or the context did */
    MOTE_FINISH_TOOL_CALLS, /* it ended with calls that want results */
    MOTE_FINISH_STOP_TEXT,  /* one of the stop strings came */
    MOTE_FINISH_CANCELED,   /* mote_chat_cancel came */
    MOTE_FINISH_LOOP        /* it repeated itself and could not be brought off it */
} mote_finish;

typedef enum mote_think_end {
    MOTE_THINK_END_NOT = 0, /* there was no thinking, or it was canceled */
    MOTE_THINK_END_NATURAL, /* the model closed it */
    MOTE_THINK_END_SOFT,    /* the model closed it, urged to */
    MOTE_THINK_END_BUDGET,  /* it was closed for the model */
    MOTE_THINK_END_LOOP,    /* it went in circles and was closed */
    MOTE_THINK_END_CLIENT   /* the program asked for its end; not by way of this header */
} mote_think_end;

typedef struct mote_answer {
    mote_finish finish;
    uint32_t stop; /* which stop string, if STOP_TEXT */
    uint64_t prompt_tokens;
    uint64_t reused_tokens; /* of the prompt: not read again */
    uint64_t answer_tokens; /* thinking, calls and what was put in for the model included */
    uint64_t think_tokens;
    uint64_t forced_tokens;  /* put in without a choice: closings, forms */
    uint64_t dropped_tokens; /* written and thrown away to leave a loop */
    bool thinking;           /* the answer began with thinking */
    uint32_t think_budget;   /* what was allowed; 0 without thinking */
    mote_think_end think_end;
    uint32_t loops_found;
    uint32_t loops_left; /* after which the answer went on */
    uint32_t calls;
    uint32_t warnings;
    const char *preset;     /* "small/direct/general"; a constant */
    mote_sampling sampling; /* as it was used, without bias */
    double seconds_prefill;
    double seconds_decode;
} mote_answer;

/*
 * Answers the last message: reads what is new, writes, delivers events, adds the answer to the
 * conversation. If the last message is the assistant's own text, without thinking and without
 * calls, the answer goes on from its end and is joined to it.
 *
 * A canceled answer returns MOTE_OK; what came of it is kept, unless nothing did.
 * MOTE_E_ARG: there is no message, or an option is wrong. MOTE_E_FULL: the conversation does not
 * fit the context; the text says by how much. MOTE_E_UNSUPPORTED: a format or schema mote does not
 * know. After a failure the messages are as before. `out` may be NULL.
 */
MOTE_API mote_status mote_chat_answer(mote_chat *chat, const mote_answer_options *options,
                                      mote_answer *out, mote_error *err);

/* Ends the running answer after its current pass; without one it does nothing. May be called
 * from the event function, another thread or a signal handler. */
MOTE_API void mote_chat_cancel(mote_chat *chat);

/* Short stable words: "stop", "length", "tool_calls" ...; "none", "natural", "soft" ... */
MOTE_API const char *mote_finish_name(mote_finish finish);
MOTE_API const char *mote_think_end_name(mote_think_end end);

#ifdef __cplusplus
}
#endif
#endif
