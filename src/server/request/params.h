/* SPDX-License-Identifier: Apache-2.0 */
/*
 * params.h - the table of request fields.
 *
 * A row gives the name of a field, the bodies that may contain it, its type, its range and the
 * member of struct request that receives the value. The table drives reading, range errors,
 * warnings about unknown fields, the table in docs/api.md and the tests of all fields. If several
 * names set the same member, the first row wins.
 *
 * The functions run on a worker thread and use only the request passed to them.
 */
#ifndef MOTE_SERVER_REQUEST_PARAMS_H
#define MOTE_SERVER_REQUEST_PARAMS_H

#include "server/request/request.h"

/* The bodies and nested objects that may contain a field; a bit set. */
enum {
    PARAM_IN_CHAT = 1,
    PARAM_IN_COMPLETIONS = 2,
    PARAM_IN_RESPONSES = 4,
    PARAM_IN_EMBEDDINGS = 8,
    PARAM_IN_MESSAGES = 16,
    PARAM_IN_OLLAMA_CHAT = 32,
    PARAM_IN_OLLAMA_GENERATE = 64,
    PARAM_IN_OLLAMA_OPTIONS = 128, /* `options` of /api/chat and /api/generate */
    PARAM_IN_OLLAMA_EMBED = 256,
    PARAM_IN_STREAM_OPTIONS = 512, /* `stream_options` of chat, completions and responses */
    PARAM_IN_INFILL = 1024,
    PARAM_IN_SCORE = 2048,
    PARAM_IN_RERANK = 4096,
    PARAM_IN_VIDEO = 8192, /* a video part of a message */
    PARAM_IN_MOTE = 16384, /* `mote` of bodies that lead to an answer */

    PARAM_IN_OPENAI = PARAM_IN_CHAT | PARAM_IN_COMPLETIONS | PARAM_IN_RESPONSES,
    PARAM_IN_OLLAMA = PARAM_IN_OLLAMA_CHAT | PARAM_IN_OLLAMA_GENERATE,
    /* bodies with sampling fields; Ollama has them in `options` */
    PARAM_IN_SAMPLING =
        PARAM_IN_OPENAI | PARAM_IN_MESSAGES | PARAM_IN_OLLAMA_OPTIONS | PARAM_IN_INFILL,
    /* bodies with a response format; Ollama has it at the top level */
    PARAM_IN_ANSWERS = PARAM_IN_OPENAI | PARAM_IN_MESSAGES | PARAM_IN_OLLAMA | PARAM_IN_INFILL,
    PARAM_IN_CHATS = PARAM_IN_CHAT | PARAM_IN_RESPONSES | PARAM_IN_MESSAGES | PARAM_IN_OLLAMA_CHAT,
};

typedef enum param_kind {
    PARAM_REAL,       /* float */
    PARAM_DOUBLE,     /* double */
    PARAM_COUNT,      /* uint32_t */
    PARAM_BOOL,       /* bool */
    PARAM_NOT,        /* bool, stored inverted */
    PARAM_TEXT,       /* str */
    PARAM_SEED,       /* any 64-bit integer; -1: choose one */
    PARAM_MAX_TOKENS, /* capped at the context size, with a warning */
    PARAM_CONTEXT,    /* the same */
    PARAM_MS,         /* milliseconds; stored as seconds in a double */
    PARAM_STOP,       /* a string or an array of strings */
    PARAM_BIAS,       /* {"id": bias} or [[id, bias]] */
    PARAM_PRESET,     /* name of a sampling preset */
    PARAM_SPEC,       /* draft tokens per step: "auto", "off" or a number */
    PARAM_OTHER,      /* type-checked here, read by the dialect; `types` lists the JSON types */
    PARAM_WINDOW,     /* repeat_last_n */
    PARAM_UNUSED,     /* number that is range-checked and has no effect; a warning unless it
                       * equals `neutral` */
    PARAM_IGNORED,    /* any value, ignored */
    PARAM_WARNED,     /* ignored, with a warning */
    PARAM_REFUSED     /* not supported: an error unless null or false */
} param_kind;

/* JSON types of PARAM_OTHER; a bit set. */
enum {
    PARAM_IS_BOOL = 1 << JSON_IS_BOOL,
    PARAM_IS_NUMBER = 1 << JSON_IS_NUMBER,
    PARAM_IS_STRING = 1 << JSON_IS_STRING,
    PARAM_IS_ARRAY = 1 << JSON_IS_ARRAY,
    PARAM_IS_OBJECT = 1 << JSON_IS_OBJECT,
    PARAM_IS_ANY = 126
};

/* Values of `max` that stand for a limit of the model. */
#define PARAM_VOCABULARY (-1e9)
#define PARAM_POSITIONS  (-2e9)

typedef struct param {
    const char *name;
    unsigned in;
    param_kind kind;
    double min, max; /* both 0: no range */
    bool above;      /* the value must be greater than min */
    double neutral;  /* for PARAM_UNUSED */
    unsigned types;  /* for PARAM_OTHER */
    size_t at;       /* offset in struct request */
    unsigned set;    /* MOTE_SET_* */
    const char *about;
} param;

/* Row i; NULL behind the last row. */
const param *param_at(size_t i);

typedef struct param_limits {
    uint32_t vocabulary;
    uint64_t context;
} param_limits;

param_limits param_limits_of(const served_model *m);

/*
 * Reads the fields of `object` with the rows of `place`. `under` is the path of the object in the
 * body, for errors: "" for the body itself, "options" for its member. null counts as absent. An
 * unknown field causes a warning, or an error if the request is strict.
 */
bool params_read(request *a, const json_node *object, unsigned place, const char *under,
                 const param_limits *limits, http_error *error);
/* Checks fields against each other and chooses a seed if the request has none. Call it after the
 * last params_read. */
bool params_settle(request *a, http_error *error);

#endif
