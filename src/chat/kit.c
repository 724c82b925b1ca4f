/* SPDX-License-Identifier: Apache-2.0 */
/* kit.c - what all turns of a model share, see turn.h. */
#include "chat/turn.h"

static mote_status put_text(const chat_kit *kit, const char *text, mote_token *ids, size_t *n,
                            mote_error *err)
{
    size_t more;
    TRY(mote_tokenize(kit->model, text, strlen(text), 0, ids + *n, CHAT_MAX_CLOSING - *n, &more,
                      err));
    if (more > CHAT_MAX_CLOSING - *n - 1) /* one for the tag */
        return err_set(err, MOTE_E_UNSUPPORTED, "the model spells \"%s\" with %zu tokens", text,
                       more);
    *n += more;
    return MOTE_OK;
}

static mote_status find_closings(chat_kit *kit, mote_error *err)
{
    static const char *const before[2] = {"\n", "\n\nThis is enough to answer.\n"};
    for (size_t i = 0; i < 2; i++) {
        size_t *n = &kit->n_closing[i];
        TRY(put_text(kit, before[i], kit->closing[i], n, err));
        kit->closing[i][(*n)++] = kit->how.tags[CHAT_TAG_THINK_END];
        TRY(put_text(kit, "\n\n", kit->closing[i], n, err));
    }
    return MOTE_OK;
}

mote_status chat_kit_of(chat_kit *out, const mote_model *model, mote_error *err)
{
    mote_model_info info;
    mote_model_describe(model, &info);
    *out =
        (chat_kit){.model = model, .size = chat_size_of(info.parameters), .n_tokens = info.tokens};
    TRY(chat_template_of(&out->how, model, err));
    for (uint32_t id = 0; id < info.tokens && out->n_ends < CHAT_MAX_ENDS; id++)
        if (mote_token_is_end(model, (mote_token)id))
            out->ends[out->n_ends++] = (mote_token)id;
    return find_closings(out, err);
}
