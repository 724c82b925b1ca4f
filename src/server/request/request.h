/* SPDX-License-Identifier: Apache-2.0 */
/*
 * request.h - a parsed request, independent of the API it came from, and the steps to read one.
 *
 * dispatch.c applies the parameter table (params.h). The `read` function of a dialect then calls
 * the steps below in this order: model, conversation or prompts, tool choice, response format,
 * thinking. Each step returns false and sets *error on failure. A dialect never reads a field that
 * the table stores.
 *
 * Threading: a request is built on a worker thread from the body, some headers and the constant
 * part of the server context.
 */
#ifndef MOTE_SERVER_REQUEST_REQUEST_H
#define MOTE_SERVER_REQUEST_REQUEST_H

#include "chat/prompt/render.h"
#include "chat/turn/thinking.h"
#include "server/core/context.h"
#include "server/http/exchange.h"
#include "server/models/model_registry.h"
#include "server/vision/vision_service.h"

enum {
    REQUEST_MAX_CHOICES = 8,   /* per prompt */
    REQUEST_MAX_PROMPTS = 256, /* for embeddings; completions allow fewer */
    REQUEST_MAX_BIAS = 1024,
    REQUEST_MAX_WARNINGS = 32,
    REQUEST_MAX_KEPT = 64
};

typedef struct warning {
    const char *code; /* a constant */
    char at[96];      /* JSON pointer or field name, may be "" */
    uint32_t choice;
} warning;

/* Field names of the API for the parts of a conversation, for errors. */
typedef struct request_names {
    const char *messages;
    const char *tools;
    const char *tool_name, *tool_schema; /* inside a tool */
} request_names;

typedef enum request_kind {
    REQUEST_CHAT = 0,   /* a conversation, rendered by the chat template */
    REQUEST_COMPLETION, /* prompts without a template */
    REQUEST_EMBED       /* prompts to vectors */
} request_kind;

/* Owns everything it points to, unless noted. */
typedef struct request {
    request_kind kind;
    json_doc *body;
    const json_node *root; /* of body: an object */
    server_context *ctx;
    model_entry *entry;               /* set by request_find_model(); NULL: no such model */
    served_model *served;             /* set by request_use_model(), with a lease; NULL: none */
    str think_word;                   /* thinking setting behind the model name; may be empty */
    bool known_model;                 /* the name matches `entry`, or the request has no name */
    const request_defaults *settings; /* values for fields the request does not set */
    bool strict;                      /* unknown fields are errors */
    bool no_ext;                      /* no `mote` object in the reply */
    bool codex;                       /* the client is Codex; see generation_printer.streams_full */
    bool any_model;                   /* an unknown model name is a warning, not an error */
    uint64_t ns, client;              /* cache namespace; client for fair queueing */
    bool background;                  /* other requests come first */
    bool (*hook)(void *ctx);          /* called while texts are tokenized; false: stop */
    void *hook_ctx;
    const served_lora *name_lora;        /* adapter behind the model name; NULL: none */
    mote_lora_use loras[MOTE_MAX_LORAS]; /* [n_loras]: adapters, set by request_model() */
    size_t n_loras;
    char shown_model[MODEL_NAME_BYTES + 64]; /* name in the reply: with the adapter behind it */
    bool admin;                              /* the key has scope admin */
    bool has_keep_alive;
    double keep_alive; /* idle seconds before unload after this request; negative: never */
    bool load;         /* load the model and generate nothing */

    chat_parsed parsed;   /* the conversation; empty for prompts */
    chat_request request; /* the conversation to render: parsed.request with known token ids */
    answer_found answers; /* from the answer-token cache; messages point into its memory */

    vision_service *vision;            /* NULL: the model has no vision encoder */
    uint32_t image_tokens, max_pixels; /* per image; 0: not set */
    double video_fps;                  /* of the video being read; 0: not set */
    vision_item *media;                /* [n_media]: images and videos in message order */
    size_t n_media;
    request_names names;               /* all NULL: as in chat completions */
    const json_node *messages, *tools; /* the arrays that the conversation was read from */
    /* The dialect wrote the messages; a message or media part may have a member `at`: the field it
     * came from, for errors. */
    bool has_at;

    str *prompts;            /* [n_prompts]: texts for REQUEST_COMPLETION and REQUEST_EMBED */
    mote_token **prompt_ids; /* [n_prompts]: token ids instead; NULL: use the text */
    size_t *n_prompt_ids;    /* [n_prompts] */
    size_t n_prompts;
    bool parse_special; /* parse control tokens in prompt texts */
    bool truncate;      /* cut prompts that are too long */
    bool drop_oldest;   /* drop the oldest turns of conversations that are too long */

    char format_at[96];         /* the field with the response format */
    mote_answer_options answer; /* sampling.seed is set by params_settle() */
    chat_think_setting think;
    bool has_seed;      /* the request sets a seed */
    bool has_task;      /* the request or the server sets a sampling preset */
    uint32_t n;         /* choices per prompt */
    bool no_answer;     /* max_tokens is 0: prefill only */
    bool score_prompt;  /* log-probabilities of the prompt tokens */
    bool prompt_only;   /* reply with the rendered prompt: generation_printer.rendered */
    size_t *score_from; /* [n_prompts]: first token to score; NULL: 1 */
    bool stream, include_usage, echo;
    bool logprobs;
    bool template_is_text; /* `template` may also be a template text, which is ignored */
    bool template_only;    /* /apply-template: nothing is generated, so images may lack data and
                          tools may have any name */
    bool show_ids;         /* /apply-template: token ids in the reply */
    uint32_t min_tokens;
    bool ignore_end;            /* ban the end-of-sequence token */
    bool *tool_allowed;         /* [parsed.request.n_tools]; NULL: all */
    uint64_t context_limit;     /* tokens; 0: the context of the model */
    double seconds;             /* time limit; 0: none */
    bool no_reuse;              /* do not use the prefix cache */
    bool no_repetition;         /* repeat_last_n is 0: no repetition penalty */
    bool mean;                  /* REQUEST_EMBED: mean pooling instead of the last token */
    bool keep_reasoning_inline; /* <think> stays in the content */
    bool progress;              /* send prefill progress */
    bool continue_last;         /* continue a final assistant message; default true */
    str model;                  /* name in the request; may be empty */
    str user_text;              /* last user message, for the soft switch of thinking */

    warning warnings[REQUEST_MAX_WARNINGS];
    size_t n_warnings;
    json_doc *made[8]; /* documents made by request_made() */
    size_t n_made;
    void *kept[REQUEST_MAX_KEPT]; /* freed with the request */
    size_t n_kept;
    void *own; /* state of the dialect; freed with mem_free() */
} request;

/* ---- memory ---- */

void request_fini(request *a);
/* Memory that is freed with the request. NULL: out of memory, *error is set. */
void *request_memory(request *a, size_t n, size_t each, http_error *error);
/* The same for a block allocated elsewhere. false: it was freed, *error is set. */
bool request_keep(request *a, void *block, http_error *error);
/* A NUL-terminated copy. */
char *request_copy(request *a, str text, http_error *error);
/* Parses JSON written by a dialect and frees the text. The document lives as long as the request.
 * NULL: *error is set. */
const json_node *request_made(request *a, strbuf *json, http_error *error);

/* ---- warnings and errors ---- */

/* Warnings beyond REQUEST_MAX_WARNINGS are dropped. */
void request_warn(request *a, const char *code, const char *at);
/* The same about a choice of the answer, counted from 0. Warnings are in order of the choices, not
 * in the order in which these end. */
void request_warn_choice(request *a, uint32_t choice, const char *code, const char *at);
/* Is the member present and not null? */
static inline bool node_given(const json_node *node)
{
    return node != NULL && !json_node_is(node, JSON_IS_NULL);
}
/* Fails with "NAME is required", code missing_field; always false. */
bool request_missing(http_error *error, const char *name);

enum { REQUEST_AT = 96 };
/* The client's name for a field of message `index`; `rest` is ".content" or similar. */
void request_message_at(const request *a, size_t index, const char *rest, char at[REQUEST_AT]);
/* The same for a tool of parsed.tools; `field` is a->names.tool_schema or similar. */
void request_tool_at(const request *a, size_t tool, const char *field, char at[REQUEST_AT]);

/* ---- model ---- */

/* The model name in a body; `also_name`: also member `name`, as in the Ollama API. */
str request_name_in(const json_node *body, bool also_name);
/* Worker thread: sets entry, think_word and known_model. An absent name selects the default model
 * (model_registry_default()); with given models an unknown name does that too. */
void request_find_model(request *a, str name);
/* The request uses this loaded model from now on. It has the lease, which request_fini() ends. Call
 * it before the parameters are read: their ranges depend on the model. */
void request_use_model(request *a, served_model *leased);
/* Fails because `entry` is NULL: the error names similar models. Always false. */
bool request_no_model(const request *a, str name, http_error *error);
/* Checks the choice: an unknown name is an error, or a warning if any_model. *suffix: the thinking
 * setting behind the name. */
bool request_model(request *a, str *suffix, http_error *error);
/* The model in a reply: its name, and that of the adapter if the request named one there. */
const char *request_model_name(const request *a);
/* keep_alive: seconds or a duration. */
bool request_keep_alive(request *a, http_error *error);

/* ---- conversation ---- */

/* Reads messages and tools of a body in OpenAI's form: the client's, or one made by the dialect.
 * Rejects unknown roles, lists images and videos in a->media, and decides whether the last message
 * is continued. `min_messages` 0: an empty list is allowed. */
bool request_conversation(request *a, const json_node *body, size_t min_messages,
                          http_error *error);
/* The request field `template`, else --template. */
bool request_template(request *a, chat_mode *mode, http_error *error);
/* Step of request_conversation(): fills a->media. */
bool request_media(request *a, http_error *error);
/* Fails if the conversation has images or videos. */
bool request_no_media(const request *a, http_error *error);
/* The vision service has encoded all media: stores the results in the conversation. */
void request_media_ready(request *a);
/* Appends an image part with base64 data; `at`: the client's field, for errors (has_at). */
void request_put_image(strbuf *out, const char *at, str data);
/* Adds the server's system message if the conversation has none. Call it after the last function
 * that uses message numbers. */
bool request_default_system(request *a, http_error *error);
/* tool_choice in the form of any API; `at` is its field. Absent: auto. */
bool request_tool_choice(request *a, const json_node *choice, const char *at, http_error *error);
/* Thinking settings. Call it after model, conversation and tools. */
bool request_thinking(request *a, chat_dialect dialect, str model_suffix, http_error *error);

/* ---- response format: at most one per request ---- */

bool request_json_object(request *a, const char *at, http_error *error);
bool request_json_schema(request *a, const json_node *schema, const char *at, http_error *error);
/* OpenAI's response_format. text.format of the Responses API and output_config.format of Anthropic
 * have the schema one level higher; both are accepted. */
bool request_response_format(request *a, const json_node *format, const char *at,
                             http_error *error);
/* json_schema, regex, choice, grammar, structured_outputs and guided_*: accepted by all APIs. */
bool request_extra_formats(request *a, http_error *error);
/* The response format or the schema of a tool is not supported: an error that names its field.
 * Always false. */
bool request_format_refused(const request *a, const chat_fault *fault, const mote_error *why,
                            http_error *error);
/* The error of a failed answer; if its constraint was too complex, it names the field. */
void request_answer_failed(const request *a, const mote_error *why, http_error *error);

/* ---- prompts ---- */

/* Tokenizes a text; free *ids with mem_free(). Calls a->hook. */
bool request_tokenize(const request *a, str text, unsigned flags, mote_token **ids, size_t *n,
                      http_error *error);

/* Reads a string, strings, token ids or arrays of token ids; at most `max` prompts. */
bool request_prompts(request *a, const json_node *node, const char *at, size_t max,
                     http_error *error);
/* Adds one prompt; `text` must live as long as the request. */
bool request_add_prompt(request *a, str text, http_error *error);
/* Adds a fill-in-the-middle prompt: the model generates the text between `before` and `after`.
 * `extra`: NULL or an array of {filename, text}, other files of the project placed before it. */
bool request_add_fim_prompt(request *a, str before, str after, const json_node *extra,
                            http_error *error);

#endif
