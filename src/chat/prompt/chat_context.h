/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chat_context.h - what all conversations with a model share.
 */
#ifndef MOTE_CHAT_PROMPT_CHAT_CONTEXT_H
#define MOTE_CHAT_PROMPT_CHAT_CONTEXT_H

#include "base/err.h"
#include "base/str.h"

#include <mote.h>

/* Spelt by the scaffold. The order is that of the table in template.c. */
typedef enum chat_tag {
    CHAT_TAG_IM_START,
    CHAT_TAG_IM_END,
    CHAT_TAG_THINK,
    CHAT_TAG_THINK_END,
    CHAT_TAG_CALL,
    CHAT_TAG_CALL_END,
    CHAT_TAG_RESPONSE,
    CHAT_TAG_RESPONSE_END,
    CHAT_TAG_VISION,
    CHAT_TAG_VISION_END,
    CHAT_TAG_IMAGE,
    CHAT_TAG_VIDEO,
    CHAT_N_TAGS
} chat_tag;

typedef enum chat_origin {
    CHAT_ORIGIN_OFFICIAL = 0, /* the file carries this very template */
    CHAT_ORIGIN_CHANGED,      /* one with the same last branch, otherwise different */
    CHAT_ORIGIN_FOREIGN,      /* something else */
    CHAT_ORIGIN_MISSING       /* nothing */
} chat_origin;

typedef struct chat_template {
    bool thinks;        /* by default: the template of 4B and larger */
    chat_origin origin; /* if FOREIGN or MISSING, `thinks` follows from the size of the model */
    mote_token tags[CHAT_N_TAGS];
} chat_template;

/* Of an open model. MOTE_E_UNSUPPORTED: its vocabulary lacks a control token. */
mote_status chat_template_of(chat_template *out, const mote_model *model, mote_error *err);

/* The two halves of it: the text alone, and the tokens alone. */
void chat_template_recognise(chat_template *out, str text, uint64_t parameters);
mote_status chat_template_tags(chat_template *out, const mote_model *model, mote_error *err);

const char *chat_tag_text(chat_tag tag);
/* "official", "changed", "foreign", "missing" */
const char *chat_origin_name(chat_origin origin);

typedef enum chat_size {
    CHAT_SIZE_SMALL, /* 0.8B and 2B */
    CHAT_SIZE_LARGE  /* 4B and more */
} chat_size;

typedef enum chat_task {
    CHAT_TASK_GENERAL = 0,
    CHAT_TASK_CODING,    /* precise coding */
    CHAT_TASK_REASONING, /* hard questions without thinking */
    CHAT_TASK_VISION
} chat_task;

typedef struct chat_preset {
    const char *name; /* "small/thinking/general" */
    chat_size size;
    bool thinking;
    chat_task task;
    float temperature;
    float top_p;
    uint32_t top_k;
    float min_p;
    float presence;
    float repetition;
} chat_preset;

chat_size chat_size_of(uint64_t parameters);

/* A task the cards do not know in this mode is general. */
const chat_preset *chat_preset_find(chat_size size, bool thinking, chat_task task);
/* Row i of the table; NULL: there is none. */
const chat_preset *chat_preset_at(size_t i);

/* Sets what the preset decides and nothing else. */
void chat_preset_apply(const chat_preset *preset, mote_sampling *sampling);

enum { CHAT_MAX_ENDS = 8, CHAT_MAX_CLOSING = 24 };

/* What all turns of a model share. */
typedef struct chat_context {
    const mote_model *model;
    chat_template how;
    chat_size size;
    uint32_t n_tokens;              /* ids below have a meaning */
    mote_token ends[CHAT_MAX_ENDS]; /* tokens that end an answer */
    size_t n_ends;
    /* What closes thinking: after a whole sentence, and anywhere else. */
    mote_token closing[2][CHAT_MAX_CLOSING];
    size_t n_closing[2];
} chat_context;

mote_status chat_context_of(chat_context *out, const mote_model *model, mote_error *err);

#endif
