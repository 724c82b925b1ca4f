/* SPDX-License-Identifier: Apache-2.0 */
/*
 * params.h - the one table of the fields that requests may have.
 *
 * A row says what a field is called, in which bodies it may stand, its type and range, and
 * where its value goes. Reading, range errors, warnings about unknown fields, docs/api.md and the
 * tests of all fields come from it. Where one value has several names, the row that
 * stands first wins.
 */
#ifndef MOTE_SERVER_REQUEST_PARAMS_H
#define MOTE_SERVER_REQUEST_PARAMS_H

#include "server/request/request.h"

/* Bodies, and objects inside them. */
enum {
    PARAM_IN_CHAT = 1,
    PARAM_IN_COMPLETIONS = 2,
    PARAM_IN_RESPONSES = 4,
    PARAM_IN_EMBEDDINGS = 8,
    PARAM_IN_MESSAGES = 16,
    PARAM_IN_OLLAMA_CHAT = 32,
    PARAM_IN_OLLAMA_GENERATE = 64,
    PARAM_IN_OLLAMA_OPTIONS = 128, /* the `options` of both */
    PARAM_IN_OLLAMA_EMBED = 256,
    PARAM_IN_STREAM_OPTIONS = 512, /* of chat, completions and responses */
    PARAM_IN_INFILL = 1024,
    PARAM_IN_SCORE = 2048,
    PARAM_IN_RERANK = 4096,
    PARAM_IN_VIDEO = 8192, /* a part of a message that shows one */

    PARAM_IN_OPENAI = PARAM_IN_CHAT | PARAM_IN_COMPLETIONS | PARAM_IN_RESPONSES,
    PARAM_IN_OLLAMA = PARAM_IN_OLLAMA_CHAT | PARAM_IN_OLLAMA_GENERATE,
    /* those that are answered with text; Ollama keeps its sampling in `options` */
    PARAM_IN_SAMPLING =
        PARAM_IN_OPENAI | PARAM_IN_MESSAGES | PARAM_IN_OLLAMA_OPTIONS | PARAM_IN_INFILL,
    /* those that can have a form, Ollama's at the top */
    PARAM_IN_ANSWERS = PARAM_IN_OPENAI | PARAM_IN_MESSAGES | PARAM_IN_OLLAMA | PARAM_IN_INFILL,
    PARAM_IN_CHATS = PARAM_IN_CHAT | PARAM_IN_RESPONSES | PARAM_IN_MESSAGES | PARAM_IN_OLLAMA_CHAT,
};

typedef enum param_kind {
    PARAM_REAL,       /* float */
    PARAM_DOUBLE,     /* double */
    PARAM_COUNT,      /* uint32_t */
    PARAM_BOOL,       /* bool */
    PARAM_NOT,        /* bool, the other way round */
    PARAM_TEXT,       /* str */
    PARAM_SEED,       /* any 64-bit integer, -1: nobody's */
    PARAM_MAX_TOKENS, /* capped by the context, with a warning */
    PARAM_CONTEXT,    /* likewise */
    PARAM_MS,         /* double, in seconds */
    PARAM_STOP,       /* a string or strings */
    PARAM_BIAS,       /* {"id": add} or [[id, add]] */
    PARAM_PRESET,     /* the name of a task */
    PARAM_OTHER,      /* the dialect reads it; `types` says what it may be */
    PARAM_WINDOW,     /* repeat_last_n */
    PARAM_UNUSED,     /* REAL or COUNT that is checked and has no effect: a warning unless it
                       * is `neutral` */
    PARAM_IGNORED,    /* whatever it is, without a word */
    PARAM_WARNED,     /* ignored, with a warning */
    PARAM_REFUSED     /* an error unless null or false */
} param_kind;

/* JSON types of PARAM_OTHER. */
enum {
    PARAM_IS_BOOL = 1 << JSON_IS_BOOL,
    PARAM_IS_NUMBER = 1 << JSON_IS_NUMBER,
    PARAM_IS_STRING = 1 << JSON_IS_STRING,
    PARAM_IS_ARRAY = 1 << JSON_IS_ARRAY,
    PARAM_IS_OBJECT = 1 << JSON_IS_OBJECT,
    PARAM_IS_ANY = 126
};

/* Ends of ranges that depend on the server. */
#define PARAM_VOCABULARY (-1e9)
#define PARAM_POSITIONS  (-2e9)

typedef struct param {
    const char *name;
    unsigned in;
    param_kind kind;
    double min, max;
    bool above;     /* min itself is out of range */
    double neutral; /* of PARAM_UNUSED */
    unsigned types; /* of PARAM_OTHER */
    size_t at;      /* offset in struct ask */
    unsigned set;   /* MOTE_SET_* */
    const char *about;
} param;

/* Row i; NULL: there is none. */
const param *param_at(size_t i);

typedef struct param_limits {
    uint32_t vocabulary;
    uint64_t context;
} param_limits;

param_limits param_limits_of(const served_model *m);

/*
 * Reads the fields of `object` that the table has for `place`. `under` is what its pointers begin
 * with: "" at the top, "options" inside. null is absent. Unknown fields are warned of, or
 * refused if the ask is strict.
 */
bool params_read(request *a, const json_node *object, unsigned place, const char *under,
                 const param_limits *limits, http_error *error);
/* Decides what nobody said: the seed. After all params_read. */
bool params_settle(request *a, http_error *error);

#endif
