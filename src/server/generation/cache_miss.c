/* SPDX-License-Identifier: Apache-2.0 */
/*
 * generation_miss.c - where a prompt stopped being what an earlier one of the same key was, in
 * words.
 *
 * The scheduler says at which token; here is the message that it belongs to and a few words of
 * both prompts from there on, so that one can see what a client changes.
 */
#include "server/generation/generation_int.h"

enum { SHOWN_BYTES = 80 };

/* Which message holds the token; false: none does, it is among tools, or there are no messages. */
static bool message_of(const chat_prompt *p, size_t at, uint32_t *index)
{
    for (size_t i = 0; i < p->n_marks; i++) {
        const chat_mark *m = &p->marks[i];
        const bool of_message = m->kind == CHAT_MARK_SYSTEM || m->kind == CHAT_MARK_MESSAGE;
        *index = m->index;
        if (m->position > at && (of_message || m->kind == CHAT_MARK_TOOLS))
            return of_message;
    }
    return false;
}

/* At most SHOWN_BYTES of what the ids spell, whole characters; a picture is named. */
static void put_words(strbuf *out, const char *name, const mote_model *model, const mote_token *ids,
                      size_t n)
{
    char piece[MOTE_PIECE_BYTES];
    mote_text_stream stream = {0};
    strbuf text = {0};
    for (size_t i = 0; i < n && text.n <= SHOWN_BYTES; i++) {
        if (ids[i] >= 0)
            strbuf_put(&text,
                       (str){piece, mote_text_next(model, &stream, ids[i], piece, sizeof piece)});
        else if (i == 0 || ids[i - 1] >= 0)
            strbuf_text(&text, "[picture]");
    }
    size_t cut = text.n < SHOWN_BYTES ? text.n : SHOWN_BYTES;
    while (cut > 0 && cut < text.n && ((unsigned char)text.p[cut] & 0xC0) == 0x80)
        cut--;
    jw_key_str(out, name, (str){text.p, cut});
    out->failed |= text.failed;
    strbuf_fini(&text);
}

void generation_put_miss(const choice *c, strbuf *out)
{
    const generation *w = c->of;
    const chat_prompt *p = &w->prompts[c->prompt];
    const sched_miss *miss = &c->result.miss;
    const mote_model *model = served_model_weights(w->request.served);
    uint32_t message;
    if (miss->n == 0)
        return;
    jw_key(out, "miss");
    jw_open(out, '{');
    if (message_of(p, miss->at, &message))
        jw_key_uint(out, "message", message);
    jw_key_uint(out, "token", miss->at);
    put_words(out, "had", model, miss->had, miss->n);
    const size_t rest = p->n - miss->at;
    put_words(out, "got", model, p->ids + miss->at,
              rest < SCHED_MISS_TOKENS ? rest : SCHED_MISS_TOKENS);
    jw_close(out, '}');
}
