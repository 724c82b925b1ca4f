/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chat_media.c - messages that show pictures and films. See mote_chat.h.
 *
 * The message is kept as JSON like any other, with a part that only says what kind of thing is
 * shown; the pictures stand beside it.
 */
#include "base/mem.h"
#include "chat/chat_int.h"
#include "chat/prompt/chat_limits.h"

static mote_status put_message(chat_entry *out, const mote_media *media, size_t n_media, str text,
                               mote_error *err)
{
    strbuf json = {0};
    strbuf_text(&json, "{\"role\": \"user\", \"content\": [");
    for (size_t i = 0; i < n_media; i++)
        strbuf_text(&json, media[i].seconds == NULL ? "{\"type\": \"image\"}, "
                                                    : "{\"type\": \"video\"}, ");
    strbuf_text(&json, "{\"type\": \"text\", \"text\": ");
    chat_put_string(&json, text);
    strbuf_text(&json, "}]}");
    mote_status status = strbuf_check(&json, err);
    if (status == MOTE_OK)
        status = chat_entry_read(out, strbuf_view(&json), err);
    strbuf_fini(&json);
    return status;
}

static void *copy_of(const void *from, size_t n, size_t each)
{
    void *copy = mem_new(n, each);
    if (copy != NULL)
        memcpy(copy, from, n * each);
    return copy;
}

/* The parts begin with what is shown, in order. */
static mote_status attach(chat_entry *entry, const mote_media *media, size_t n_media,
                          mote_error *err)
{
    entry->media = mem_new(n_media, sizeof *entry->media);
    if (entry->media == NULL)
        return chat_out_of_memory(err);
    for (size_t i = 0; i < n_media; i++) {
        chat_media *to = &entry->media[entry->n_media++];
        to->n = media[i].n;
        to->images = copy_of(media[i].images, to->n, sizeof *to->images);
        if (media[i].seconds != NULL)
            to->seconds = copy_of(media[i].seconds, to->n, sizeof *to->seconds);
        if (to->images == NULL || (media[i].seconds != NULL && to->seconds == NULL))
            return chat_out_of_memory(err);
        entry->parsed.parts[i].media = to;
    }
    return MOTE_OK;
}

mote_status mote_chat_add_media(mote_chat *chat, const mote_media *media, size_t n_media,
                                const char *text, size_t bytes, mote_error *err)
{
    chat_entry entry;
    if (chat == NULL || (media == NULL && n_media > 0) || (text == NULL && bytes > 0))
        return err_set(err, MOTE_E_ARG, "mote_chat_add_media needs a conversation and pictures");
    if (n_media > CHAT_MAX_IMAGES)
        return err_set(err, MOTE_E_ARG, "more than %d pictures and videos", CHAT_MAX_IMAGES);
    for (size_t i = 0; i < n_media; i++)
        if (media[i].images == NULL || media[i].n == 0 ||
            (media[i].seconds == NULL && media[i].n != 1))
            return err_set(err, MOTE_E_ARG, "a picture is one, a film has times for its frames");
    TRY(put_message(&entry, media, n_media, (str){text, bytes}, err));
    const mote_status status = attach(&entry, media, n_media, err);
    if (status != MOTE_OK) {
        chat_entry_fini(&entry);
        return status;
    }
    return chat_append(chat, &entry, err);
}

mote_status chat_check_media(const chat_message *message, mote_error *err)
{
    for (size_t i = 0; i < message->n_parts; i++) {
        const chat_part *part = &message->parts[i];
        if ((part->kind == CHAT_PART_IMAGE || part->kind == CHAT_PART_VIDEO) && part->media == NULL)
            return err_set(err, MOTE_E_ARG,
                           "a picture of the conversation is not here: show it again "
                           "(mote_chat_add_media), or cut the message");
    }
    return MOTE_OK;
}
