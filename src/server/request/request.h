/* SPDX-License-Identifier: Apache-2.0 */
/*
 * request.h - a request in one form, whatever dialect it was written in, and how to read it.
 *
 * Made on a thread of the pool, from nothing but the body, a few headers and what never
 * changes of the server. A dialect's reader goes through the same steps, each of which says
 * why it failed: the table of parameters (params.h), the model's name, the conversation, the
 * tools, the form of the answer, thinking. What the table covers, a reader never looks at.
 */
#ifndef MOTE_SERVER_REQUEST_REQUEST_H
#define MOTE_SERVER_REQUEST_REQUEST_H

#include "chat/prompt/render.h"
#include "chat/turn/thinking.h"
#include "server/http/http_error.h"
#include "server/core/context.h"
#include "server/http/exchange.h"
#include "server/models/model_registry.h"
#include "server/vision/vision_service.h"

enum {
    REQUEST_MAX_CHOICES = 8,   /* for each prompt */
    REQUEST_MAX_PROMPTS = 256, /* of embeddings; completions take fewer */
    REQUEST_MAX_BIAS = 1024,
    REQUEST_MAX_WARNINGS = 32,
    REQUEST_MAX_KEPT = 64
};

typedef struct warning {
    const char *code; /* a constant */
    char at[96];      /* JSON pointer or name, may be "" */
} warning;

/* What the client calls the fields of a conversation, for errors. */
typedef struct request_names {
    const char *messages;
    const char *tools;
    const char *tool_name, *tool_schema; /* inside of a tool */
} request_names;

typedef enum request_kind {
    REQUEST_CHAT = 0,   /* a conversation, by the template */
    REQUEST_COMPLETION, /* prompts as they are */
    REQUEST_EMBED       /* prompts to vectors */
} request_kind;

/* A request, read. Owns everything it points to. */
typedef struct request {
    request_kind kind;
    json_doc *body;
    const json_node *root; /* of body: an object */
    server_context *ctx;
    served_model *served;             /* the model that answers: request_choose */
    str think_word;                   /* behind its name: a setting of thinking; may be empty */
    bool known_model;                 /* it was asked for, or nothing else was */
    const request_defaults *settings; /* what the server decides where a request does not */
    bool strict;                      /* unknown fields are errors */
    bool no_ext;                      /* no `mote` object */
    bool codex;     /* the client wants to hear of a full context inside a stream */
    bool any_model; /* names of other models are answered with the first */
    uint64_t ns, client;
    bool admin;        /* it may decide how long the model stays, */
    bool has_keep;     /* and does: */
    double keep_alive; /* for so many seconds after it; negative: for ever */
    bool load;         /* nothing but that the model is loaded */

    chat_parsed parsed;   /* the conversation; empty for prompts */
    chat_request request; /* as it will be rendered: parsed.request with tokens recalled */
    mote_token *recalled; /* what the tokens of its messages are views of */

    vision_service *vision;            /* NULL: the model cannot see */
    uint32_t image_tokens, max_pixels; /* of each picture; 0: nobody said */
    double video_fps;                  /* of the film that is being read; likewise */
    vision_item *shown;                /* [n_shown]: what the messages show, in their order */
    size_t n_shown;
    request_names names;               /* all NULL: as in chat completions */
    const json_node *messages, *tools; /* lists that the conversation was read from */
    bool says_at; /* the messages are the dialect's own: each, and a part that shows something, may
                   * say where the client had it, as `at` */

    str *prompts;            /* [n_prompts]: texts, without a template */
    mote_token **prompt_ids; /* [n_prompts]: or ids; NULL: of the text */
    size_t *n_prompt_ids;    /* [n_prompts] */
    size_t n_prompts;
    bool parse_special; /* of prompts: spelled control tokens count */
    bool truncate;      /* prompts that are too long are cut */
    bool drop_oldest;   /* likewise conversations, their oldest turns first */

    char form_at[96];           /* the field the form of the answer came in */
    mote_answer_options answer; /* sampling.seed is decided, also if nobody named one */
    chat_think_setting think;
    bool has_seed;      /* the client named one */
    bool has_task;      /* likewise */
    uint32_t n;         /* choices for each prompt */
    bool no_answer;     /* max_tokens 0: read only */
    bool score_prompt;  /* log-probabilities of the prompt too */
    bool prompt_only;   /* the rendered prompt is all that is wanted: dialect.rendered */
    size_t *score_from; /* [n_prompts], the first token that is scored; NULL: 1 */
    bool stream, include_usage, echo;
    bool logprobs;
    bool show_ids; /* of the prompt, where a reply has a place for them */
    uint32_t min_tokens;
    bool ignore_end;
    bool *tool_allowed;     /* [parsed.request.n_tools]; NULL: all */
    uint64_t context_limit; /* 0: the server's */
    double seconds;         /* 0: none */
    bool no_reuse;
    bool no_repetition;         /* its penalty looks at no token */
    bool mean;                  /* of REQUEST_EMBED: over all tokens, not the last one's */
    bool keep_reasoning_inline; /* <think> stays in content */
    bool progress;              /* tell how far the prompt is read */
    bool continue_last;         /* true unless the client says no */
    str model;                  /* as asked for; empty: nobody said */
    str user_text;              /* of the last message of the user, for the soft switch */

    warning warnings[REQUEST_MAX_WARNINGS];
    size_t n_warnings;
    json_doc *made[8]; /* documents made on the way: messages or tools in our form */
    size_t n_made;
    void *kept[REQUEST_MAX_KEPT]; /* freed with it */
    size_t n_kept;
    void *own; /* what the dialect wants to remember; freed with mem_free */
} request;

void request_fini(request *a);
/* Beyond REQUEST_MAX_WARNINGS they are dropped. */
void request_warn(request *a, const char *code, const char *at);

/* Memory that lives as long as the ask; NULL: there is none, and *error says so. */
void *request_memory(request *a, size_t n, size_t each, http_error *error);
/* The same, taken over from elsewhere. false: no room; `block` was freed. */
bool request_keep(request *a, void *block, http_error *error);
/* A terminated copy. */
char *request_copy(request *a, str text, http_error *error);
/* Parses JSON that the dialect wrote itself; the document lives as long as the ask. */
const json_node *request_made(request *a, strbuf *json, http_error *error);

/* Where the client has what is read from message number `index`: `rest` is ".content" or so. */
enum { REQUEST_AT = 96 };
void request_message_at(const request *a, size_t index, const char *rest, char at[REQUEST_AT]);
/* Likewise for a tool of parsed.tools; `field` is a->names.tool_schema or so. */
void request_tool_at(const request *a, size_t tool, const char *field, char at[REQUEST_AT]);

/* ---- the steps ---- */

/* Writes a part of a message that shows a picture: its data in base64, and the name of the field
 * that it came in, for errors (says_at). */
void request_put_image(strbuf *out, const char *at, str data);
/*
 * Which model answers, by a name as clients write it: served, think_word and known_model. Never
 * fails: without a name, and with one that nobody has, it is the first. Before everything else
 * that is read, since ranges of parameters depend on it.
 */
void request_choose(request *a, str name);
/* The name in a body; `also_name`: as Ollama has it. */
str request_name_in(const json_node *body, bool also_name);
/* Was it right to choose that one? An unknown name is an error, or a warning if any_model; *suffix
 * is the thinking setting behind a known one. */
bool request_model(request *a, str *suffix, http_error *error);
/* keep_alive: a duration, or seconds. */
bool request_keep_alive(request *a, http_error *error);
/*
 * Messages and tools from a body in OpenAI's form: the client's own or one that was made.
 * Refuses roles nobody knows, decides whether the last message is continued. Pictures are listed
 * in a->shown; who looks at them is answering.c.
 * `min_messages` 0: none at all is allowed.
 */
bool request_conversation(request *a, const json_node *body, size_t min_messages,
                          http_error *error);
/* A part of the former: what messages show. */
bool request_media(request *a, http_error *error);
/* What is scored cannot show anything: refused if it does. */
bool request_no_media(const request *a, http_error *error);
/* Everything was looked at: the conversation has its pictures. */
void request_media_ready(request *a);
/* tool_choice in the spelling of any dialect; `at` is its name. Absent is auto. */
bool request_tool_choice(request *a, const json_node *choice, const char *at, http_error *error);
/* The form of the answer. Each can be called once: a second form is an error. */
bool request_json_object(request *a, const char *at, http_error *error);
bool request_json_schema(request *a, const json_node *schema, const char *at, http_error *error);
/* response_format as OpenAI has it; Responses' text.format and Anthropic's output_config.format
 * are the same with the schema one level up. */
bool request_response_format(request *a, const json_node *format, const char *at,
                             http_error *error);
/* json_schema, regex, choice, grammar and structured_outputs, which all dialects take. */
bool request_extra_formats(request *a, http_error *error);
/* The form of the answer or of a tool cannot be had: an error that names its field. Always false.
 */
bool request_format_refused(const request *a, const chat_fault *fault, const mote_error *why,
                            http_error *error);
/* An answer failed while it was written: if the form that it was held to was too much, the error
 * names its field. */
void request_answer_failed(const request *a, const mote_error *why, http_error *error);
/* Thinking, after model, conversation and tools. */
/* The server's own system message, if the conversation has none. After all that numbers messages.
 */
bool request_default_system(request *a, http_error *error);
bool request_thinking(request *a, chat_dialect dialect, str model_suffix, http_error *error);
/* A string, strings, ids or arrays of ids, at most `max` of them, as prompts. */
bool request_prompts(request *a, const json_node *node, const char *at, size_t max,
                     http_error *error);
/* One prompt more, of text that lives as long as the ask. */
bool request_add_prompt(request *a, str text, http_error *error);
/* Adds a fill-in-the-middle prompt: the text between `before` and `after` is generated. `extra` is
 * NULL or an array of {filename, text}: other files of the project, placed before it. */
bool request_add_fim_prompt(request *a, str before, str after, const json_node *extra,
                            http_error *error);

#endif
