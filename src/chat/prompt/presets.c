/* SPDX-License-Identifier: Apache-2.0 */
/* presets.c - see presets.h. */
#include "chat/prompt/presets.h"

/* In each mode of a size the general row stands first. */
static const chat_preset presets[] = {
    /* name, size, thinking, task, temperature, top_p, top_k, min_p, presence, repetition */
    {"small/direct/general", CHAT_SIZE_SMALL, false, CHAT_TASK_GENERAL, 1.0f, 1.0f, 20, 0, 2.0f, 1},
    {"small/direct/vision", CHAT_SIZE_SMALL, false, CHAT_TASK_VISION, 0.7f, 0.8f, 20, 0, 1.5f, 1},
    {"small/thinking/general", CHAT_SIZE_SMALL, true, CHAT_TASK_GENERAL, 1.0f, 0.95f, 20, 0, 1.5f,
     1},
    {"small/thinking/coding", CHAT_SIZE_SMALL, true, CHAT_TASK_CODING, 0.6f, 0.95f, 20, 0, 0, 1},
    {"small/thinking/vision", CHAT_SIZE_SMALL, true, CHAT_TASK_VISION, 0.6f, 0.95f, 20, 0, 0, 1},
    {"large/thinking/general", CHAT_SIZE_LARGE, true, CHAT_TASK_GENERAL, 1.0f, 0.95f, 20, 0, 1.5f,
     1},
    {"large/thinking/coding", CHAT_SIZE_LARGE, true, CHAT_TASK_CODING, 0.6f, 0.95f, 20, 0, 0, 1},
    {"large/direct/general", CHAT_SIZE_LARGE, false, CHAT_TASK_GENERAL, 0.7f, 0.8f, 20, 0, 1.5f, 1},
    {"large/direct/reasoning", CHAT_SIZE_LARGE, false, CHAT_TASK_REASONING, 1.0f, 1.0f, 40, 0, 2.0f,
     1},
};

enum { N_PRESETS = sizeof presets / sizeof *presets };

chat_size chat_size_of(uint64_t parameters)
{
    return parameters < 3000000000u ? CHAT_SIZE_SMALL : CHAT_SIZE_LARGE;
}

const chat_preset *chat_preset_find(chat_size size, bool thinking, chat_task task)
{
    const chat_preset *found = NULL;
    for (size_t i = 0; i < N_PRESETS; i++) {
        const chat_preset *row = &presets[i];
        if (row->size == size && row->thinking == thinking && (found == NULL || row->task == task))
            found = row;
    }
    return found;
}

const chat_preset *chat_preset_at(size_t i)
{
    return i < N_PRESETS ? &presets[i] : NULL;
}

void chat_preset_apply(const chat_preset *preset, mote_sampling *sampling)
{
    sampling->temperature = preset->temperature;
    sampling->top_p = preset->top_p;
    sampling->top_k = preset->top_k;
    sampling->min_p = preset->min_p;
    sampling->presence = preset->presence;
    sampling->repetition = preset->repetition;
}
