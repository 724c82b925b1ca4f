/* SPDX-License-Identifier: Apache-2.0 */
/* chat_context.c - what all turns of a model share, see turn.h. */
#include "chat/turn/turn.h"

static mote_status put_text(const chat_context *chat_ctx, const char *text, mote_token *ids,
                            size_t *n, mote_error *err)
{
    size_t more;
    TRY(mote_tokenize(chat_ctx->model, text, strlen(text), 0, ids + *n, CHAT_MAX_CLOSING - *n,
                      &more, err));
    if (more > CHAT_MAX_CLOSING - *n - 1) /* one for the tag */
        return err_set(err, MOTE_E_UNSUPPORTED, "the model spells \"%s\" with %zu tokens", text,
                       more);
    *n += more;
    return MOTE_OK;
}

static mote_status find_closings(chat_context *chat_ctx, mote_error *err)
{
    static const char *const before[2] = {"\n", "\n\nThis is enough to answer.\n"};
    for (size_t i = 0; i < 2; i++) {
        size_t *n = &chat_ctx->n_closing[i];
        TRY(put_text(chat_ctx, before[i], chat_ctx->closing[i], n, err));
        chat_ctx->closing[i][(*n)++] = chat_ctx->how.tags[CHAT_TAG_THINK_END];
        TRY(put_text(chat_ctx, "\n\n", chat_ctx->closing[i], n, err));
    }
    return MOTE_OK;
}

mote_status chat_context_of(chat_context *out, const mote_model *model, mote_error *err)
{
    mote_model_info info;
    mote_model_describe(model, &info);
    *out = (chat_context){
        .model = model, .size = chat_size_of(info.parameters), .n_tokens = info.tokens};
    TRY(chat_template_of(&out->how, model, err));
    for (uint32_t id = 0; id < info.tokens && out->n_ends < CHAT_MAX_ENDS; id++)
        if (mote_token_is_end(model, (mote_token)id))
            out->ends[out->n_ends++] = (mote_token)id;
    return find_closings(out, err);
}
