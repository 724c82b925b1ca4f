/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chat.c - mote_chat_*: the conversation object, its messages and media. See mote_chat.h.
 *
 * Every message is stored as a JSON document with a parsed view, also one that was added as text or
 * generated. So there is one reader, one writer and one file format. The content part of an image
 * or video only states its kind; the images themselves are in chat_entry.media.
 */
#include "base/fpmode.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "chat/chat_int.h"
#include "chat/prompt/chat_limits.h"

#include <stdio.h>

mote_status chat_out_of_memory(mote_error *err)
{
    return err_set(err, MOTE_E_MEMORY, "out of memory: a conversation");
}

/* ---- arbitrary bytes to JSON ---- */

/* Bytes of the UTF-8 character at `at`; if it is invalid, *whole is false and the bytes are those
 * that one U+FFFD replaces. */
static size_t utf8_character(str text, size_t at, bool *whole)
{
    const int n = utf8_check((const unsigned char *)text.p + at, text.n - at);
    *whole = n > 0;
    return n > 0 ? (size_t)n : n < 0 ? (size_t)-n : text.n - at;
}

void chat_put_string(strbuf *out, str text)
{
    size_t from = 0, at = 0;
    strbuf_byte(out, '"');
    while (at < text.n) {
        bool whole;
        const size_t n = utf8_character(text, at, &whole);
        if (!whole) {
            json_put_escaped(out, (str){text.p + from, at - from});
            strbuf_text(out, "\xEF\xBF\xBD");
            from = at + n;
        }
        at += n;
    }
    json_put_escaped(out, (str){text.p + from, at - from});
    strbuf_byte(out, '"');
}

/* ---- one message ---- */

mote_status chat_entry_read(chat_entry *out, str json, mote_error *err)
{
    strbuf body = {0};
    *out = (chat_entry){0};
    strbuf_text(&body, "{\"messages\": [");
    strbuf_put(&body, json);
    strbuf_text(&body, "]}");
    mote_status status = strbuf_check(&body, err);
    if (status == MOTE_OK)
        status = json_doc_read(&out->doc, strbuf_view(&body), err);
    if (status == MOTE_OK)
        status = chat_parsed_read(&out->parsed, json_doc_root(out->doc), CHAT_STABLE, err);
    strbuf_fini(&body);
    if (status == MOTE_OK && out->parsed.request.n_messages != 1)
        status = err_set(err, MOTE_E_ARG, "expected one message, got %zu",
                         out->parsed.request.n_messages);
    if (status == MOTE_OK && out->parsed.messages[0].role == CHAT_ROLE_UNKNOWN)
        status = err_set(err, MOTE_E_ARG,
                         "role is not supported; supported: system, user, assistant, tool");
    if (status != MOTE_OK)
        chat_entry_fini(out);
    return status;
}

mote_status chat_entry_make(chat_entry *out, const char *role, str text, mote_error *err)
{
    strbuf json = {0};
    strbuf_text(&json, "{\"role\": \"");
    strbuf_text(&json, role);
    strbuf_text(&json, "\", \"content\": ");
    chat_put_string(&json, text);
    strbuf_byte(&json, '}');
    *out = (chat_entry){0};
    mote_status status = strbuf_check(&json, err);
    if (status == MOTE_OK)
        status = chat_entry_read(out, strbuf_view(&json), err);
    strbuf_fini(&json);
    return status;
}

void chat_entry_fini(chat_entry *entry)
{
    chat_parsed_fini(&entry->parsed);
    json_doc_free(entry->doc);
    mem_free(entry->tokens);
    for (size_t i = 0; i < entry->n_media; i++) {
        mem_free((void *)entry->media[i].images);
        mem_free((void *)entry->media[i].seconds);
    }
    mem_free(entry->media);
    *entry = (chat_entry){0};
}

const json_node *chat_entry_node(const chat_entry *entry)
{
    return json_node_first(json_node_get(json_doc_root(entry->doc), "messages"));
}

const chat_message *chat_entry_message(const chat_entry *entry)
{
    return &entry->parsed.messages[0];
}

mote_status chat_append(mote_chat *chat, chat_entry *entry, mote_error *err)
{
    mote_status status = MOTE_OK;
    if (chat->n >= CHAT_MAX_MESSAGES - 1) { /* one is reserved for the system text */
        status = err_set(err, MOTE_E_ARG, "%zu messages; at most %d", chat->n + 1,
                         CHAT_MAX_MESSAGES - 1);
    } else if (chat->n == chat->room) {
        const size_t room = chat->room * 2 + 8;
        chat_entry *grown = mem_resize(chat->entries, chat->room, room, sizeof *grown);
        if (grown == NULL) {
            status = chat_out_of_memory(err);
        } else {
            chat->entries = grown;
            chat->room = room;
        }
    }
    if (status == MOTE_OK)
        chat->entries[chat->n++] = *entry;
    else
        chat_entry_fini(entry);
    return status;
}

/* ---- the chat template ---- */

void mote_chat_template(const mote_model *model, mote_template_info *out)
{
    mote_model_info info;
    chat_template found = {0};
    mote_model_describe(model, &info);
    chat_template_recognise(&found, (str){info.chat_template, info.chat_template_bytes},
                            info.parameters);
    *out = (mote_template_info){.name = found.style->name,
                                .known = found.origin == CHAT_ORIGIN_KNOWN,
                                .thinking = found.thinks};
    chat_template_note(&found, out->note);
}

const char *mote_chat_template_name(size_t i)
{
    const chat_style *style = chat_style_at(i);
    return style != NULL ? style->name : NULL;
}

/* ---- the object ---- */

mote_status chat_open(mote_chat **out, mote_engine *engine, const mote_chat_options *options,
                      mote_error *err)
{
    *out = NULL;
    mote_chat *chat = mem_new(1, sizeof *chat);
    if (chat == NULL)
        return chat_out_of_memory(err);
    chat->engine = engine;
    chat->context = options != NULL ? options->context : 0;
    if (options != NULL && options->loras != NULL && options->n_loras <= MOTE_MAX_LORAS) {
        chat->n_loras = options->n_loras; /* more: mote_session_new refuses them */
        memcpy(chat->loras, options->loras, options->n_loras * sizeof *chat->loras);
    }
    chat->mode = options != NULL && options->official ? CHAT_OFFICIAL : CHAT_STABLE;
    mote_status status = chat_context_of(&chat->chat_ctx, mote_engine_model(engine), err);
    if (status == MOTE_OK && options != NULL)
        status = chat_template_choose(&chat->chat_ctx.template, options->chat_template, err);
    if (status == MOTE_OK)
        status = spec_new(
            &chat->spec,
            &(spec_options){.max_items = 1, .draft = spec_draft_of(engine), .with = engine}, err);
    if (status != MOTE_OK) {
        mote_chat_free(chat);
        return status;
    }
    *out = chat;
    return MOTE_OK;
}

mote_status mote_chat_new(mote_chat **out, mote_engine *engine, const mote_chat_options *options,
                          mote_error *err)
{
    FPMODE_SCOPE;
    if (out == NULL)
        return err_set(err, MOTE_E_ARG, "mote_chat_new: out is NULL");
    *out = NULL;
    if (engine == NULL)
        return err_set(err, MOTE_E_ARG, "mote_chat_new: engine is NULL");
    mote_chat *chat;
    TRY(chat_open(&chat, engine, options, err));
    const mote_session_options session = chat_session_options(options);
    mote_status status = mote_session_new(&chat->session, engine, &session, err);
    if (status == MOTE_OK && options != NULL)
        status = mote_chat_set_system(chat, options->system, options->system_bytes, err);
    if (status != MOTE_OK) {
        mote_chat_free(chat);
        return status;
    }
    *out = chat;
    return MOTE_OK;
}

void mote_chat_free(mote_chat *chat)
{
    if (chat == NULL)
        return;
    mote_chat_clear(chat);
    chat_entry_fini(&chat->system);
    chat_parsed_fini(&chat->tools);
    json_doc_free(chat->tools_doc);
    token_trie_free(chat->vocab);
    spec_free(chat->spec);
    if (chat->disk != NULL)
        chat_disk_release(chat->disk);
    mote_session_free(chat->session);
    mem_free(chat->entries);
    mem_free(chat);
}

mote_status mote_chat_set_system(mote_chat *chat, const char *text, size_t bytes, mote_error *err)
{
    chat_entry entry = {0};
    const bool some = text != NULL && bytes > 0;
    if (some)
        TRY(chat_entry_make(&entry, "system", (str){text, bytes}, err));
    chat_entry_fini(&chat->system);
    chat->system = entry;
    chat->has_system = some;
    return MOTE_OK;
}

mote_status mote_chat_set_tools(mote_chat *chat, const char *json, size_t bytes, mote_error *err)
{
    FPMODE_SCOPE;
    json_doc *doc = NULL;
    chat_parsed parsed = {0};
    if (json != NULL && bytes > 0) {
        strbuf body = {0};
        strbuf_text(&body, "{\"tools\": ");
        strbuf_put(&body, (str){json, bytes});
        strbuf_byte(&body, '}');
        mote_status status = strbuf_check(&body, err);
        if (status == MOTE_OK)
            status = json_doc_read(&doc, strbuf_view(&body), err);
        strbuf_fini(&body);
        if (status == MOTE_OK &&
            !json_node_is(json_node_get(json_doc_root(doc), "tools"), JSON_IS_ARRAY))
            status = err_set(err, MOTE_E_ARG, "tools must be a JSON array");
        if (status == MOTE_OK)
            status = chat_parsed_read(&parsed, json_doc_root(doc), CHAT_STABLE, err);
        if (status != MOTE_OK) {
            json_doc_free(doc);
            return status;
        }
    }
    chat_parsed_fini(&chat->tools);
    json_doc_free(chat->tools_doc);
    chat->tools = parsed;
    chat->tools_doc = doc;
    return MOTE_OK;
}

/* ---- messages ---- */

mote_status mote_chat_add(mote_chat *chat, mote_role role, const char *text, size_t bytes,
                          mote_error *err)
{
    static const char *const names[] = {"user", "assistant", "system", "tool"};
    if ((unsigned)role >= sizeof names / sizeof *names)
        return err_set(err, MOTE_E_ARG, "role must be 0 to %d, got %d", MOTE_ROLE_TOOL, (int)role);
    chat_entry entry;
    TRY(chat_entry_make(&entry, names[role], (str){text, bytes}, err));
    return chat_append(chat, &entry, err);
}

static mote_status chat_add_node(mote_chat *chat, const json_node *node, mote_error *err)
{
    strbuf json = {0};
    chat_entry entry = {0};
    json_put_as_spelt(&json, node);
    mote_status status = strbuf_check(&json, err);
    if (status == MOTE_OK)
        status = chat_entry_read(&entry, strbuf_view(&json), err);
    strbuf_fini(&json);
    return status == MOTE_OK ? chat_append(chat, &entry, err) : status;
}

mote_status mote_chat_add_json(mote_chat *chat, const char *json, size_t bytes, mote_error *err)
{
    FPMODE_SCOPE;
    json_doc *doc;
    TRY(json_doc_read(&doc, (str){json, bytes}, err));
    const json_node *root = json_doc_root(doc);
    const size_t before = chat->n;
    mote_status status = MOTE_OK;
    if (json_node_is(root, JSON_IS_ARRAY)) {
        const json_node *node = json_node_first(root);
        for (; node != NULL && status == MOTE_OK; node = json_node_next(node))
            status = chat_add_node(chat, node, err);
    } else {
        status = chat_add_node(chat, root, err);
    }
    if (status != MOTE_OK)
        mote_chat_cut(chat, before);
    json_doc_free(doc);
    return status;
}

/* ---- images and videos ---- */

static mote_status entry_make_media(chat_entry *out, const mote_media *media, size_t n_media,
                                    str text, mote_error *err)
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

static void *copy_array(const void *from, size_t n, size_t each)
{
    void *copy = mem_new(n, each);
    if (copy != NULL)
        memcpy(copy, from, n * each);
    return copy;
}

/* Attaches the images to the first n_media parts, which entry_make_media() wrote in this order. */
static mote_status entry_attach_media(chat_entry *entry, const mote_media *media, size_t n_media,
                                      mote_error *err)
{
    entry->media = mem_new(n_media, sizeof *entry->media);
    if (entry->media == NULL)
        return chat_out_of_memory(err);
    for (size_t i = 0; i < n_media; i++) {
        chat_media *to = &entry->media[entry->n_media++];
        to->n = media[i].n;
        to->images = copy_array(media[i].images, to->n, sizeof *to->images);
        if (media[i].seconds != NULL)
            to->seconds = copy_array(media[i].seconds, to->n, sizeof *to->seconds);
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
        return err_set(err, MOTE_E_ARG, "mote_chat_add_media: chat, media or text is NULL");
    if (n_media > CHAT_MAX_IMAGES)
        return err_set(err, MOTE_E_ARG, "%zu images and videos; at most %d", n_media,
                       CHAT_MAX_IMAGES);
    for (size_t i = 0; i < n_media; i++)
        if (media[i].images == NULL || media[i].n == 0 ||
            (media[i].seconds == NULL && media[i].n != 1))
            return err_set(err, MOTE_E_ARG,
                           "media %zu: an image needs n = 1, a video needs images and seconds", i);
    TRY(entry_make_media(&entry, media, n_media, (str){text, bytes}, err));
    const mote_status status = entry_attach_media(&entry, media, n_media, err);
    if (status != MOTE_OK) {
        chat_entry_fini(&entry);
        return status;
    }
    return chat_append(chat, &entry, err);
}

static bool part_is_media(const chat_part *part)
{
    return part->kind == CHAT_PART_IMAGE || part->kind == CHAT_PART_VIDEO;
}

mote_status chat_attach_media(mote_chat *chat, size_t message, const mote_media *media,
                              size_t n_media, mote_error *err)
{
    chat_entry *entry = message < chat->n ? &chat->entries[message] : NULL;
    const chat_message *m = entry != NULL ? chat_entry_message(entry) : NULL;
    bool same = m != NULL && entry->media == NULL && m->n_parts >= n_media;
    for (size_t i = 0; same && i < m->n_parts; i++)
        same = i < n_media ? m->parts[i].kind ==
                                 (media[i].seconds != NULL ? CHAT_PART_VIDEO : CHAT_PART_IMAGE)
                           : !part_is_media(&m->parts[i]);
    if (!same)
        return err_set(err, MOTE_E_ARG, "message %zu does not have %zu images and videos", message,
                       n_media);
    return entry_attach_media(entry, media, n_media, err);
}

mote_status chat_check_media(const chat_message *message, mote_error *err)
{
    for (size_t i = 0; i < message->n_parts; i++) {
        const chat_part *part = &message->parts[i];
        if (part_is_media(part) && part->media == NULL)
            return err_set(err, MOTE_E_ARG,
                           "an image of the conversation is not loaded: add it again with "
                           "mote_chat_add_media, or remove the message with mote_chat_cut");
    }
    return MOTE_OK;
}

/* ---- the list of messages ---- */

size_t mote_chat_count(const mote_chat *chat)
{
    return chat->n;
}

void mote_chat_cut(mote_chat *chat, size_t n)
{
    while (chat->n > n)
        chat_entry_fini(&chat->entries[--chat->n]);
}

/* Index of the last user message; chat->n: none. */
static size_t chat_last_user(const mote_chat *chat)
{
    for (size_t i = chat->n; i-- > 0;)
        if (chat_entry_message(&chat->entries[i])->role == CHAT_ROLE_USER)
            return i;
    return chat->n;
}

size_t mote_chat_drop_answer(mote_chat *chat)
{
    const size_t before = chat->n;
    mote_chat_cut(chat, chat_last_user(chat) + 1);
    return before - chat->n;
}

size_t mote_chat_undo(mote_chat *chat)
{
    const size_t before = chat->n;
    mote_chat_cut(chat, chat_last_user(chat));
    return before - chat->n;
}

void mote_chat_clear(mote_chat *chat)
{
    mote_chat_cut(chat, 0);
}

mote_session *mote_chat_session(const mote_chat *chat)
{
    return chat->session;
}

/* ---- as JSON ---- */

static void entry_put_tokens(strbuf *out, const chat_entry *entry)
{
    strbuf_text(out, ", \"tokens\": \"");
    for (size_t i = 0; i < entry->n_tokens; i++) {
        char number[16];
        snprintf(number, sizeof number, "%s%d", i > 0 ? " " : "", (int)entry->tokens[i]);
        strbuf_text(out, number);
    }
    strbuf_byte(out, '"');
}

static void entry_put(strbuf *out, const chat_entry *entry, bool with_tokens)
{
    json_put_as_spelt(out, chat_entry_node(entry));
    if (with_tokens && entry->tokens != NULL && !out->failed) {
        out->n--; /* the closing brace */
        entry_put_tokens(out, entry);
        strbuf_byte(out, '}');
    }
}

void chat_put_messages(strbuf *out, const mote_chat *chat, bool with_tokens)
{
    strbuf_byte(out, '[');
    if (chat->has_system)
        entry_put(out, &chat->system, false);
    for (size_t i = 0; i < chat->n; i++) {
        if (i > 0 || chat->has_system)
            strbuf_text(out, ",\n");
        entry_put(out, &chat->entries[i], with_tokens);
    }
    strbuf_byte(out, ']');
}

mote_status mote_chat_json(const mote_chat *chat, size_t i, char *json, size_t room, size_t *bytes,
                           mote_error *err)
{
    FPMODE_SCOPE;
    strbuf text = {0};
    if (i != MOTE_CHAT_ALL && i >= chat->n)
        return err_set(err, MOTE_E_ARG, "message %zu does not exist; the conversation has %zu", i,
                       chat->n);
    if (i == MOTE_CHAT_ALL)
        chat_put_messages(&text, chat, false);
    else
        entry_put(&text, &chat->entries[i], false);
    mote_status status = strbuf_check(&text, err);
    if (status == MOTE_OK) {
        *bytes = text.n;
        if (text.n > 0 && room > 0)
            memcpy(json, text.p, text.n < room ? text.n : room);
    }
    strbuf_fini(&text);
    return status;
}
