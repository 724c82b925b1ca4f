/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chat_context.h - what all conversations with one model share: its chat template, its control
 * tokens, its sampler presets.
 *
 * A chat_context is made once per model and is immutable afterwards. Any number of threads may
 * read it. The model must outlive it.
 */
#ifndef MOTE_CHAT_PROMPT_CHAT_CONTEXT_H
#define MOTE_CHAT_PROMPT_CHAT_CONTEXT_H

#include "chat/prompt/template_table.h"

#include <mote.h>

/* ---- sampler presets: the model cards' settings by size, mode and task ---- */

typedef enum chat_size {
    CHAT_SIZE_SMALL, /* 0.8B and 2B */
    CHAT_SIZE_LARGE  /* 4B and larger */
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

/* Never NULL. Falls back to the general preset if the cards have none for this task and mode. */
const chat_preset *chat_preset_find(chat_size size, bool thinking, chat_task task);
/* Row i of the table; NULL behind the last. */
const chat_preset *chat_preset_at(size_t i);

/* Sets the fields that the preset has and no others. */
void chat_preset_apply(const chat_preset *preset, mote_sampling *sampling);

/* ---- the context ---- */

enum { CHAT_MAX_ENDS = 8, CHAT_MAX_CLOSING = 24 };

typedef struct chat_context {
    const mote_model *model;
    chat_template template;
    chat_size size;
    uint32_t n_tokens;              /* ids below this one are tokens */
    mote_token ends[CHAT_MAX_ENDS]; /* tokens that end an answer */
    size_t n_ends;
    /* Tokens inserted to close thinking: [0] after a complete sentence, [1] elsewhere. */
    mote_token closing[2][CHAT_MAX_CLOSING];
    size_t n_closing[2];
} chat_context;

mote_status chat_context_of(chat_context *out, const mote_model *model, mote_error *err);

#endif
