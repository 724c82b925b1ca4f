/* SPDX-License-Identifier: Apache-2.0 */
/*
 * presets.h - sampler settings as the model cards of Qwen 3.5 give them, by size, mode and task.
 *
 * Applied unless the caller says otherwise, field by field; the result of an answer names
 * the one that was used.
 */
#ifndef MOTE_CHAT_PROMPT_PRESETS_H
#define MOTE_CHAT_PROMPT_PRESETS_H

#include <mote.h>

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

#endif
