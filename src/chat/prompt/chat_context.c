/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chat_context.c - sampler presets, and what conversations with a model share. See chat_context.h.
 */
#include "chat/prompt/chat_context.h"

/* ---- sampler presets ---- */

/* The general row comes first in each group of size and mode: chat_preset_find() relies on it. */
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

/* ---- the context ---- */

static mote_status closing_add_text(const chat_context *chat_ctx, const char *text, mote_token *ids,
                                    size_t *n, mote_error *err)
{
    size_t more;
    TRY(mote_tokenize(chat_ctx->model, text, strlen(text), 0, ids + *n, CHAT_MAX_CLOSING - *n,
                      &more, err));
    if (more > CHAT_MAX_CLOSING - *n - 1) /* one for </think> */
        return err_set(err, MOTE_E_UNSUPPORTED,
                       "\"%s\" takes %zu tokens in this vocabulary; at most %d", text, more,
                       CHAT_MAX_CLOSING);
    *n += more;
    return MOTE_OK;
}

static mote_status context_make_closings(chat_context *chat_ctx, mote_error *err)
{
    static const char *const before[2] = {"\n", "\n\nThis is enough to answer.\n"};
    for (size_t i = 0; i < 2; i++) {
        size_t *n = &chat_ctx->n_closing[i];
        TRY(closing_add_text(chat_ctx, before[i], chat_ctx->closing[i], n, err));
        chat_ctx->closing[i][(*n)++] = chat_ctx->template.tags[CHAT_TAG_THINK_END];
        TRY(closing_add_text(chat_ctx, "\n\n", chat_ctx->closing[i], n, err));
    }
    return MOTE_OK;
}

mote_status chat_context_of(chat_context *out, const mote_model *model, mote_error *err)
{
    mote_model_info info;
    mote_model_describe(model, &info);
    *out = (chat_context){
        .model = model, .size = chat_size_of(info.parameters), .n_tokens = info.tokens};
    TRY(chat_template_of(&out->template, model, err));
    for (uint32_t id = 0; id < info.tokens && out->n_ends < CHAT_MAX_ENDS; id++)
        if (mote_token_is_end(model, (mote_token)id))
            out->ends[out->n_ends++] = (mote_token)id;
    return context_make_closings(out, err);
}
