/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mote_chat.h - conversations with a Qwen 3.5 model: messages in, answers out.
 *
 * This header is built on mote.h and adds one object:
 *
 *   mote_chat   a conversation: system text, tools, messages, and one session of the engine, which
 *               holds the KV cache and recurrent state of the conversation.
 *
 * How it works. A program adds a message and calls mote_chat_answer(). That call
 *
 *   1. renders all messages with the model's chat template to prompt tokens,
 *   2. keeps the longest prefix that the session already holds and prefills the tokens after it,
 *   3. decodes: samples token by token and sends reasoning, content and tool calls as events,
 *   4. adds the answer to the conversation as an assistant message.
 *
 * So an answer costs only its new tokens, and messages may be removed or replaced at any time: the
 * next answer finds out how much of the session is still valid. A complete program:
 *
 *     mote_model_open(&model, path, NULL, &err);
 *     mote_engine_new(&engine, model, NULL, &err);
 *     mote_chat_new(&chat, engine, NULL, &err);
 *     mote_chat_add(chat, MOTE_ROLE_USER, text, strlen(text), &err);
 *     mote_chat_answer(chat, &(mote_answer_options){.event = print_event}, &answer, &err);
 *
 * examples/chat.c is that program with error handling.
 *
 * Safety. Text of messages never becomes a control token, whatever it spells. Model output is never
 * an error: thinking is limited by a budget, repetition loops are detected and left, a malformed
 * tool call becomes content with a warning. mote_answer reports all of it.
 *
 * Conventions are those of mote.h. Functions that can fail return mote_status and take
 * `mote_error *err` last; err may be NULL and is written only on failure. A failed call leaves the
 * conversation unchanged. Options may be NULL; a zero struct means the defaults. Text is UTF-8,
 * passed as pointer and length; invalid UTF-8 is read as U+FFFD. Strings and arrays that are passed
 * in are copied, unless a comment says otherwise. `chat` must not be NULL, except in
 * mote_chat_free().
 *
 * Threads. A conversation belongs to the thread that uses its engine: one call at a time for an
 * engine and all its conversations. mote_chat_cancel() is the exception.
 */
#ifndef MOTE_CHAT_H
#define MOTE_CHAT_H

#include <mote.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the chat template of a model ---- */

/*
 * mote does not execute the template text of a model file. It implements the templates of Qwen 3.5,
 * 3.6 and 3.8 and unsloth's variants of them, and recognises them by hash. A file with another
 * template is rendered with the most similar one; check `known`.
 */
enum { MOTE_TEMPLATE_NOTE = 320 };
typedef struct mote_template_info {
    const char *name; /* the template that renders the messages, e.g. "qwen3.5"; a constant */
    bool known;       /* the file carries exactly this template */
    bool thinking;    /* an answer starts with thinking unless the options decide */
    char note[MOTE_TEMPLATE_NOTE]; /* what the file carries instead; empty if known */
} mote_template_info;

/* Describes the template of a model. Thread-safe. */
MOTE_API void mote_chat_template(const mote_model *model, mote_template_info *out);
/* The name of template i, for mote_chat_options.chat_template; NULL behind the last. Thread-safe.
 */
MOTE_API const char *mote_chat_template_name(size_t i);

/* ---- a conversation ---- */

typedef struct mote_chat mote_chat;

typedef struct mote_chat_options {
    const char *system; /* [system_bytes], the system text; NULL: none */
    size_t system_bytes;
    uint64_t context; /* tokens, as in mote_session_options; 0: an even share of the engine's */
    /* Render exactly as the model's own template does. The templates of Qwen 3.5 and 3.6 remove the
     * reasoning of earlier answers once the next user message follows, so their tokens change and
     * are prefilled again. Default: an answer keeps its tokens. docs/chat.md compares both. */
    bool official;
    /* A name of mote_chat_template_name(); NULL or "auto": the template of the model file. */
    const char *chat_template;
    /* [n_loras]: adapters, as in mote_session_options. */
    const mote_lora_use *loras;
    size_t n_loras;
} mote_chat_options;

/*
 * Starts a conversation. It uses one session of the engine until mote_chat_free(); the engine must
 * outlive it. On failure *out is NULL.
 *
 * Set mote_engine_options.kept_states to 1 or 2 per conversation. mote then keeps a copy of the
 * recurrent state before each answer, and a rewind (after a removed message or a repetition loop)
 * starts there. Without kept states a rewind may prefill the conversation again.
 *
 * MOTE_E_UNSUPPORTED: the model's vocabulary lacks a control token of the chat template.
 * MOTE_E_ARG: chat_template is unknown; the error text lists the names. Otherwise the errors of
 * mote_session_new().
 */
MOTE_API mote_status mote_chat_new(mote_chat **out, mote_engine *engine,
                                   const mote_chat_options *options, mote_error *err);

/* Frees the conversation and its session. NULL is allowed. */
MOTE_API void mote_chat_free(mote_chat *chat);

/* Replaces the system text. NULL or 0 bytes removes it. The next answer prefills the conversation
 * again, because the system text comes first in the prompt. */
MOTE_API mote_status mote_chat_set_system(mote_chat *chat, const char *text, size_t bytes,
                                          mote_error *err);

/* Replaces the tools that the model may call: a JSON array in OpenAI's format, at most 128. NULL or
 * 0 bytes removes them. Tools with a type other than "function" are left out, with the warning
 * "tool_type_ignored" in each answer. MOTE_E_FORMAT: not JSON. MOTE_E_ARG: not an array, or too
 * many. */
MOTE_API mote_status mote_chat_set_tools(mote_chat *chat, const char *json, size_t bytes,
                                         mote_error *err);

/* ---- messages ---- */

typedef enum mote_role {
    MOTE_ROLE_USER = 0,
    MOTE_ROLE_ASSISTANT,
    MOTE_ROLE_SYSTEM, /* inside a conversation; the first one is mote_chat_set_system() */
    MOTE_ROLE_TOOL    /* the result of a tool call; results follow the order of the calls */
} mote_role;

/* Adds a text message. A conversation has at most 2,047 messages: more are MOTE_E_ARG. */
MOTE_API mote_status mote_chat_add(mote_chat *chat, mote_role role, const char *text, size_t bytes,
                                   mote_error *err);

/* An image, or a video as a list of frames. */
typedef struct mote_media {
    const mote_image *const *images; /* [n]; an image: n is 1. A video: each covers two frames */
    const double *seconds;           /* [n], timestamps of a video; NULL: this is an image */
    size_t n;
} mote_media;

/*
 * Adds a user message: images and videos in the given order, then text. At most 16 images and
 * videos.
 *
 * The arrays are copied, the images are not: they must stay valid until the message is removed or
 * the conversation is freed. mote_chat_save() does not store them; after mote_chat_load() such a
 * message must be removed and added again before the next answer.
 */
MOTE_API mote_status mote_chat_add_media(mote_chat *chat, const mote_media *media, size_t n_media,
                                         const char *text, size_t bytes, mote_error *err);

/* Adds one message in OpenAI's format, or an array of them: all or none. Reads role, content
 * (string or parts), reasoning_content, tool_calls and tool_call_id. MOTE_E_FORMAT: not JSON.
 * MOTE_E_ARG: not a message; the error text names the field. */
MOTE_API mote_status mote_chat_add_json(mote_chat *chat, const char *json, size_t bytes,
                                        mote_error *err);

/* Number of messages, without the system text. */
MOTE_API size_t mote_chat_count(const mote_chat *chat);

/* Removes the messages from index n on. The session is rewound by the next answer. */
MOTE_API void mote_chat_cut(mote_chat *chat, size_t n);
/* Removes everything after the last user message, to answer it again. Returns how many. */
MOTE_API size_t mote_chat_drop_answer(mote_chat *chat);
/* Removes the last user message and everything after it. Returns how many. */
MOTE_API size_t mote_chat_undo(mote_chat *chat);
/* Removes all messages. System text and tools stay. */
MOTE_API void mote_chat_clear(mote_chat *chat);

/*
 * Writes message i as JSON in OpenAI's format; with i = MOTE_CHAT_ALL an array of all messages, the
 * system text first. Writes at most `room` bytes without a terminating zero, and always sets *bytes
 * to the full length, so a call with room 0 measures.
 */
#define MOTE_CHAT_ALL SIZE_MAX
MOTE_API mote_status mote_chat_json(const mote_chat *chat, size_t i, char *json, size_t room,
                                    size_t *bytes, mote_error *err);

/* The session of the conversation, for example for its length, context and tokens. Owned by the
 * conversation. The program may append to it or rewind it: the next answer compares its tokens. */
MOTE_API mote_session *mote_chat_session(const mote_chat *chat);

/* Saves the conversation to `path` as JSON and the session snapshot to `path`.state, so that
 * mote_chat_load() continues without prefill. Each file is replaced atomically. */
MOTE_API mote_status mote_chat_save(const mote_chat *chat, const char *path, mote_error *err);

/*
 * Loads a saved conversation. If `path`.state is missing, damaged, from another model or with other
 * adapters, only the messages are loaded and the next answer prefills them; *restored, if not NULL,
 * says which. The system text of the options is not used. MOTE_E_FORMAT: not a saved conversation.
 */
MOTE_API mote_status mote_chat_load(mote_chat **out, mote_engine *engine, const char *path,
                                    const mote_chat_options *options, bool *restored,
                                    mote_error *err);

/* ---- options of an answer ---- */

/* Thinking: reasoning inside a <think> block before the visible answer. */
typedef enum mote_think {
    MOTE_THINK_AUTO = 0, /* by model size: off for 0.8B and 2B, on for 4B and larger */
    MOTE_THINK_ON,
    MOTE_THINK_OFF
} mote_think;

/* Thinking budgets in tokens, by the effort levels of the HTTP APIs. */
enum {
    MOTE_THINK_MINIMAL = 256,
    MOTE_THINK_LOW = 1024,
    MOTE_THINK_MEDIUM = 4096, /* the default */
    MOTE_THINK_HIGH = 16384,
    MOTE_THINK_XHIGH = 32768
};
#define MOTE_THINK_MAX UINT32_MAX /* all of max_tokens except the reserve for the answer */

/*
 * Parses a thinking setting: auto; off, none, no, false, 0; on, yes, true; minimal, low, medium,
 * high, xhigh, max; or a number of tokens, where a negative number means max. Letter case does not
 * matter. *budget is 0 if the text sets none. false: unknown text, nothing is written. Thread-safe.
 */
MOTE_API bool mote_think_parse(const char *text, size_t bytes, mote_think *think, uint32_t *budget);

/* Selects the sampler preset, together with model size and thinking. */
typedef enum mote_task {
    MOTE_TASK_GENERAL = 0,
    MOTE_TASK_CODING,
    MOTE_TASK_REASONING, /* hard questions without thinking */
    MOTE_TASK_VISION
} mote_task;

/* Response format (structured output): a grammar masks the tokens, so the visible answer always
 * matches. Applies after thinking. With tools, the answer is either text in the format or tool
 * calls. docs/structured-output.md lists what is supported. */
typedef enum mote_format {
    MOTE_FORMAT_TEXT = 0,    /* no constraint */
    MOTE_FORMAT_JSON,        /* any JSON object */
    MOTE_FORMAT_JSON_SCHEMA, /* format_text is a JSON Schema */
    MOTE_FORMAT_REGEX,       /* format_text is a regular expression for the whole answer */
    MOTE_FORMAT_CHOICES,     /* format_text is a JSON array of strings; the answer is one of them */
    /* format_text is a GBNF grammar; the answer matches `root`:
     *     root ::= "yes" | "no, because " word (" " word){2,11} "."
     *     word ::= [a-zA-Z'-]+ */
    MOTE_FORMAT_GRAMMAR
} mote_format;

typedef enum mote_tool_choice {
    MOTE_TOOLS_AUTO = 0, /* the model decides */
    MOTE_TOOLS_NONE,     /* the tools are left out of the prompt, calls are forbidden */
    MOTE_TOOLS_REQUIRED, /* the answer starts with a tool call */
    MOTE_TOOLS_NAMED     /* the answer starts with a call of tool_name */
} mote_tool_choice;

/* Bits of mote_answer_options.set: which fields of `sampling` override the preset. The preset has
 * the settings of the model card for this size, task and thinking mode. */
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
    /* done, total: prompt tokens, those of the running pass in proportion. Sent when prefill
     * starts, then every 0.1 s (a long sublayer may delay it), and at its end, where done equals
     * total */
    MOTE_CHAT_PREFILL,
    MOTE_CHAT_REASONING,      /* text: the next piece of thinking */
    MOTE_CHAT_CONTENT,        /* text: the next piece of the visible answer */
    MOTE_CHAT_CALL_START,     /* call, name: a tool call starts */
    MOTE_CHAT_CALL_ARGUMENTS, /* call, name, text: the next piece of its arguments, a JSON object */
    MOTE_CHAT_CALL_END,       /* call, name, text: all arguments. Execute the call only now */
    MOTE_CHAT_CALL_CANCEL,    /* call, name: the answer was cut inside the call; discard it */
    MOTE_CHAT_WARNING         /* name: a stable word such as "repaired"; text: subject, or empty */
} mote_chat_event_kind;

/* name and text are valid until the event function returns and are not zero-terminated. */
typedef struct mote_chat_event {
    mote_chat_event_kind kind;
    uint32_t call; /* index of the call in this answer */
    const char *name;
    size_t name_bytes;
    const char *text;
    size_t text_bytes;
    uint64_t done, total;
} mote_chat_event;

/* Called on the thread that runs mote_chat_answer(). It must not call functions of this chat or its
 * engine, except mote_chat_cancel(). */
typedef void mote_chat_event_fn(void *with, const mote_chat_event *event);

/* Limits of stop strings: how many, and bytes of each. */
enum { MOTE_CHAT_STOPS = 16, MOTE_CHAT_STOP_BYTES = 256 };

/*
 * Speculative decoding: mote guesses the next tokens (a draft) and verifies them in one step, which
 * costs far less than a step for each. AUTO measures the cost and the acceptance of drafts, and
 * drafts only where it is faster. Set mote_engine_options.logits_rows to MOTE_SPEC_ROWS: with fewer
 * rows drafts are shorter, with one row there are none. `drafts` there adds the MTP head.
 */
enum { MOTE_SPEC_OFF = -1, MOTE_SPEC_AUTO = 0, MOTE_SPEC_MAX = 8, MOTE_SPEC_ROWS = 9 };

/* Pointers must stay valid until mote_chat_answer() returns. */
typedef struct mote_answer_options {
    mote_think think;
    /* Maximum thinking tokens; 0: MOTE_THINK_MEDIUM. The prompt of Qwen 3.8 states the matching
     * effort: low up to MOTE_THINK_LOW, medium up to MOTE_THINK_MEDIUM, xhigh above and for 0. */
    uint32_t think_budget;
    uint32_t max_tokens; /* of the answer, thinking included; 0: 32,768. The context limits it */
    mote_task task;
    unsigned set;            /* MOTE_SET_*: fields of `sampling` that override the preset */
    mote_sampling sampling;  /* bias, seed and draw always count; generated_from is ignored */
    const char *const *stop; /* [n_stop], zero-terminated; content ends before the first match */
    size_t n_stop;
    mote_format format;
    const char *format_text; /* [format_bytes], see mote_format */
    size_t format_bytes;
    mote_tool_choice tool_choice;
    const char *tool_name; /* zero-terminated, for MOTE_TOOLS_NAMED */
    bool one_call;         /* end the answer after the first tool call */
    bool no_loop_guard;    /* do not detect repetition loops */
    /* Speculative decoding: MOTE_SPEC_AUTO, MOTE_SPEC_OFF, or a fixed draft length, 1 to
     * MOTE_SPEC_MAX. Affects the speed only, never the answer. */
    int32_t spec;
    mote_chat_event_fn *event; /* may be NULL */
    void *with;                /* first argument of event */
} mote_answer_options;

/* ---- an answer ---- */

typedef enum mote_finish {
    MOTE_FINISH_STOP = 0,   /* the model ended the answer */
    MOTE_FINISH_LENGTH,     /* max_tokens or the context is used up */
    MOTE_FINISH_TOOL_CALLS, /* the answer has tool calls; add their results next */
    MOTE_FINISH_STOP_TEXT,  /* a stop string was found */
    MOTE_FINISH_CANCELED,   /* mote_chat_cancel() */
    MOTE_FINISH_LOOP        /* the model repeated itself and retries did not help */
} mote_finish;

typedef enum mote_think_end {
    MOTE_THINK_END_NONE = 0, /* no thinking, or the answer was canceled during thinking */
    MOTE_THINK_END_NATURAL,  /* the model closed it */
    MOTE_THINK_END_SOFT,     /* the model closed it near the budget, with a raised logit */
    MOTE_THINK_END_BUDGET,   /* mote closed it: the budget is used up */
    MOTE_THINK_END_LOOP,     /* mote closed it: repetition */
    MOTE_THINK_END_CLIENT    /* a client of the server closed it; not possible with this header */
} mote_think_end;

typedef struct mote_answer {
    mote_finish finish;
    uint32_t stop; /* index of the stop string, for MOTE_FINISH_STOP_TEXT */
    uint64_t prompt_tokens;
    uint64_t reused_tokens;    /* prompt tokens that needed no prefill */
    uint64_t prefilled_tokens; /* the others; if canceled during prefill, those computed until then
                                */
    uint64_t answer_tokens;    /* thinking, tool calls and inserted tokens included */
    uint64_t think_tokens;     /* thinking tokens */
    uint64_t forced_tokens;    /* inserted without sampling: by the format, or to close thinking */
    uint64_t dropped_tokens;   /* sampled and discarded because of loops */
    bool thinking;             /* the answer started with thinking */
    uint32_t think_budget;     /* the budget that applied; 0 without thinking */
    mote_think_end think_end;  /* why thinking ended */
    uint32_t loops_detected;   /* repetition loops */
    uint32_t loops_recovered;  /* those after which the answer continued */
    uint32_t calls;            /* tool calls */
    uint32_t warnings;         /* MOTE_CHAT_WARNING events */
    const char *preset;        /* sampler preset, e.g. "small/direct/general"; a constant */
    mote_sampling sampling;    /* as used, without bias */
    double seconds_prefill;
    double seconds_decode;
    uint64_t drafted_tokens;  /* draft tokens of speculative decoding */
    uint64_t accepted_tokens; /* those of them that were right; the answer contains them */
} mote_answer;

/*
 * Answers the last message and adds the answer to the conversation. Blocks until the answer is
 * complete; events arrive meanwhile. `out` may be NULL.
 *
 * If the last message is an assistant message without tool calls, the answer continues it: no
 * thinking, and the new text is appended to that message. With `official` a new message follows.
 *
 * A canceled answer returns MOTE_OK and is added as far as it came, unless it is empty.
 *
 * MOTE_E_ARG: there is no message, an option is invalid, or an image is missing after
 * mote_chat_load(). MOTE_E_FULL: the conversation does not fit the context; the error text has the
 * numbers. MOTE_E_UNSUPPORTED: the response format, or the schema of a `strict` tool, uses a
 * feature that mote does not support. MOTE_E_MEMORY: out of memory. After a failure the messages
 * are unchanged.
 */
MOTE_API mote_status mote_chat_answer(mote_chat *chat, const mote_answer_options *options,
                                      mote_answer *out, mote_error *err);

/* Ends the running answer after its current step; no effect if none runs. May be called from the
 * event function, another thread or a signal handler. */
MOTE_API void mote_chat_cancel(mote_chat *chat);

/* Stable words for logs and JSON: "stop", "length", "tool_calls", "stop_text", "canceled", "loop".
 * "unknown" for other values. Constants. Thread-safe. */
MOTE_API const char *mote_finish_name(mote_finish finish);
/* The same: "none", "natural", "soft", "budget", "loop", "client". */
MOTE_API const char *mote_think_end_name(mote_think_end end);

#ifdef __cplusplus
}
#endif
#endif
