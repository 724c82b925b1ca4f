/* SPDX-License-Identifier: Apache-2.0 */
/* conversation_file.c - see conversation_file.h. */
#include "cli/convert/conversation_file.h"

#include "json/json.h"

#include <stdio.h>

enum { IMAGE_PATH_BYTES = 4096 };

typedef struct reader {
    mote_chat *chat;
    const char *path; /* of the file of conversations */
    media_files *media;
    const mote_model *model;
    uint32_t threads;
    int code; /* of media_files_add */
} reader;

/* Calls the function with the JSON of a value. */
static mote_status add_json(mote_chat *chat, const json_node *node,
                            mote_status (*add)(mote_chat *, const char *, size_t, mote_error *),
                            mote_error *err)
{
    strbuf text = {0};
    json_put_as_spelt(&text, node);
    mote_status status = strbuf_check(&text, err);
    if (status == MOTE_OK)
        status = add(chat, text.p, text.n, err);
    strbuf_fini(&text);
    return status;
}

/* ---- images ---- */

static bool part_is(const json_node *part, const char *type)
{
    return str_is(json_node_text(json_node_get(part, "type")), type);
}

static bool message_has_images(const json_node *message)
{
    const json_node *content = json_node_get(message, "content");
    if (!json_node_is(content, JSON_IS_ARRAY))
        return false;
    for (const json_node *p = json_node_first(content); p != NULL; p = json_node_next(p))
        if (part_is(p, "image_url"))
            return true;
    return false;
}

/* The file of an image part. False: no path, or one that is too long. */
static bool image_path(char out[IMAGE_PATH_BYTES], const reader *r, str url)
{
    static const char scheme[] = "file://";
    const size_t n = sizeof scheme - 1;
    const char *slash = strrchr(r->path, '/');
    if (url.n >= n && memcmp(url.p, scheme, n) == 0)
        url = (str){url.p + n, url.n - n};
    if (url.n == 0 || url.n > 2000 || memchr(url.p, 0, url.n) != NULL)
        return false;
    const size_t directory = url.p[0] != '/' && slash != NULL ? (size_t)(slash - r->path) + 1 : 0;
    const int wrote = snprintf(out, IMAGE_PATH_BYTES, "%.*s%s", (int)directory, r->path, url.p);
    return wrote > 0 && wrote < IMAGE_PATH_BYTES;
}

static mote_status add_image(reader *r, const json_node *part, mote_error *err)
{
    static const media_options options = {.image_tokens = MEDIA_DEFAULT_TOKENS};
    const json_node *image = json_node_get(part, "image_url");
    const str url =
        json_node_text(json_node_is(image, JSON_IS_OBJECT) ? json_node_get(image, "url") : image);
    mote_model_info info;
    char path[IMAGE_PATH_BYTES];
    mote_model_describe(r->model, &info);
    if (!info.vision)
        return err_set(err, MOTE_E_UNSUPPORTED, "%s", media_files_no_encoder);
    if (!image_path(path, r, url))
        return err_set(err, MOTE_E_ARG, "image_url '%.*s' is not the path of a file", STR_ARG(url));
    r->code = media_files_add(r->media, path, false, r->model, &options, r->threads);
    return MOTE_OK;
}

/* A user message with images. */
static mote_status add_media(reader *r, const json_node *message, mote_error *err)
{
    mote_media media[MEDIA_FILES_ATTACHED];
    strbuf text = {0};
    mote_status status = MOTE_OK;
    const json_node *content = json_node_get(message, "content");
    for (const json_node *p = json_node_first(content);
         p != NULL && status == MOTE_OK && r->code == 0; p = json_node_next(p)) {
        if (part_is(p, "image_url"))
            status = add_image(r, p, err);
        else if (part_is(p, "text"))
            strbuf_put(&text, json_node_text(json_node_get(p, "text")));
        else
            status = err_set(err, MOTE_E_ARG, "a part of a message with images is no text");
    }
    if (status == MOTE_OK)
        status = strbuf_check(&text, err);
    const size_t n = status == MOTE_OK && r->code == 0 ? media_files_attached(r->media, media) : 0;
    if (n > 0)
        status = mote_chat_add_media(r->chat, media, n, strbuf_view(&text).p, text.n, err);
    if (status == MOTE_OK)
        media_files_mark_sent(r->media, mote_chat_count(r->chat));
    strbuf_fini(&text);
    return status;
}

/* ---- a line ---- */

static mote_status add_messages(reader *r, const json_node *messages, mote_error *err)
{
    bool images = false;
    if (!json_node_is(messages, JSON_IS_ARRAY) || json_node_size(messages) == 0)
        return err_set(err, MOTE_E_ARG, "a conversation needs messages, an array");
    for (const json_node *m = json_node_first(messages); m != NULL; m = json_node_next(m))
        images |= message_has_images(m);
    if (!images)
        return add_json(r->chat, messages, mote_chat_add_json, err);
    for (const json_node *m = json_node_first(messages); m != NULL && r->code == 0;
         m = json_node_next(m)) {
        if (message_has_images(m))
            TRY(add_media(r, m, err));
        else
            TRY(add_json(r->chat, m, mote_chat_add_json, err));
    }
    return MOTE_OK;
}

static mote_status read_fields(reader *r, const json_node *root, mote_error *err)
{
    const json_node *tools = json_node_get(root, "tools");
    const str system = json_node_text(json_node_get(root, "system"));
    if (system.n > 0)
        TRY(mote_chat_set_system(r->chat, system.p, system.n, err));
    if (json_node_is(tools, JSON_IS_ARRAY))
        TRY(add_json(r->chat, tools, mote_chat_set_tools, err));
    return add_messages(r, json_node_get(root, "messages"), err);
}

mote_status conversation_read(mote_chat *chat, str line, const char *path, media_files *media,
                              const mote_model *model, uint32_t threads, int *code, mote_error *err)
{
    reader r = {.chat = chat, .path = path, .media = media, .model = model, .threads = threads};
    json_doc *doc;
    TRY(json_doc_read(&doc, line, err));
    const mote_status status = read_fields(&r, json_doc_root(doc), err);
    json_doc_free(doc);
    *code = r.code;
    return status;
}
