/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chat_file.c - mote_chat_save and mote_chat_load. See mote_chat.h.
 *
 *   PATH        {"mote_chat": 1, "engine": IDENTITY, "tools": [...], "messages": [...]}, messages
 *               in OpenAI's format. Answers also have "tokens", which are used only by an engine
 *               with this identity, or if PATH.state is loaded. Other members are ignored
 *   PATH.state  the session snapshot; not of chat_put_text
 */
#include "base/fpmode.h"
#include "base/mem.h"
#include "base/os.h"
#include "chat/chat_int.h"
#include "disk_cache/disk_session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_ROOM = 1024 };

static mote_status chat_state_path(char out[PATH_ROOM], const char *path, mote_error *err)
{
    if (snprintf(out, PATH_ROOM, "%s.state", path) >= PATH_ROOM)
        return err_set(err, MOTE_E_ARG, "path too long: %zu bytes; at most %d", strlen(path),
                       PATH_ROOM - (int)sizeof ".state");
    return MOTE_OK;
}

/* ---- saving ---- */

/* The binding of the disk cache as 32 digits: mote_engine_identity, combined with the adapters. */
enum { IDENTITY_TEXT = 33 };
static void chat_file_identity(char out[IDENTITY_TEXT], const mote_chat *chat)
{
    disk_scope scope;
    disk_scope_init(&scope, chat->engine, false, 0, disk_adapters(chat->loras, chat->n_loras));
    snprintf(out, IDENTITY_TEXT, "%016llx%016llx", (unsigned long long)scope.binding.word[0],
             (unsigned long long)scope.binding.word[1]);
}

static void chat_file_put(strbuf *out, const mote_chat *chat, str members)
{
    char identity[IDENTITY_TEXT];
    chat_file_identity(identity, chat);
    strbuf_text(out, "{\"mote_chat\": 1, \"engine\": \"");
    strbuf_text(out, identity);
    strbuf_text(out, "\", ");
    if (members.n > 0) {
        strbuf_put(out, members);
        strbuf_text(out, ", ");
    }
    strbuf_text(out, "\"tools\": ");
    if (chat->tools_doc != NULL)
        json_put_as_spelt(out, json_node_get(json_doc_root(chat->tools_doc), "tools"));
    else
        strbuf_text(out, "[]");
    strbuf_text(out, ", \"messages\": ");
    chat_put_messages(out, chat, true);
    strbuf_text(out, "}\n");
}

mote_status chat_put_text(strbuf *out, const mote_chat *chat, str members, mote_error *err)
{
    chat_file_put(out, chat, members);
    return strbuf_check(out, err);
}

static mote_status chat_save_text(const mote_chat *chat, const char *path, mote_error *err)
{
    strbuf text = {0};
    mote_status status = chat_put_text(&text, chat, (str){0}, err);
    if (status == MOTE_OK)
        status = os_file_replace(path, text.p, text.n, err);
    strbuf_fini(&text);
    return status;
}

mote_status mote_chat_save(const mote_chat *chat, const char *path, mote_error *err)
{
    char state[PATH_ROOM];
    TRY(chat_state_path(state, path, err));
    TRY(chat_save_text(chat, path, err));
    return mote_session_save(chat->session, state, err);
}

/* ---- loading ---- */

static mote_status chat_file_read_tools(mote_chat *chat, const json_node *tools, mote_error *err)
{
    strbuf text = {0};
    if (json_node_size(tools) == 0)
        return MOTE_OK;
    json_put_as_spelt(&text, tools);
    mote_status status = strbuf_check(&text, err);
    if (status == MOTE_OK)
        status = mote_chat_set_tools(chat, text.p, text.n, err);
    strbuf_fini(&text);
    return status;
}

/* Reads ids such as "12 7 930". An invalid id discards all of them. */
static mote_status chat_file_read_tokens(chat_entry *entry, str text, uint32_t vocabulary,
                                         mote_error *err)
{
    size_t n = text.n > 0;
    for (size_t i = 0; i < text.n; i++)
        n += text.p[i] == ' ';
    mote_token *tokens = mem_new(n, sizeof *tokens);
    if (tokens == NULL)
        return chat_out_of_memory(err);
    const char *at = text.p; /* zero-terminated, see json_node_text() */
    bool sound = n > 0;
    for (size_t i = 0; i < n && sound; i++) {
        char *end;
        const long id = strtol(at, &end, 10);
        sound = end != at && id >= 0 && (uint32_t)id < vocabulary;
        tokens[i] = (mote_token)id;
        at = end;
    }
    if (!sound) {
        mem_free(tokens);
        return MOTE_OK;
    }
    entry->tokens = tokens;
    entry->n_tokens = n;
    return MOTE_OK;
}

static mote_status chat_file_read_message(mote_chat *chat, const json_node *node, bool first,
                                          bool with_tokens, mote_error *err)
{
    strbuf text = {0};
    mote_model_info info;
    mote_model_describe(chat->chat_ctx.model, &info);
    json_put_without(&text, node, "tokens");
    mote_status status = strbuf_check(&text, err);
    chat_entry entry = {0};
    if (status == MOTE_OK)
        status = chat_entry_read(&entry, strbuf_view(&text), err);
    strbuf_fini(&text);
    TRY(status);
    if (first && chat_entry_message(&entry)->role == CHAT_ROLE_SYSTEM) {
        chat->system = entry;
        chat->has_system = true;
        return MOTE_OK;
    }
    const json_node *tokens = json_node_get(node, "tokens");
    if (with_tokens && json_node_is(tokens, JSON_IS_STRING))
        status = chat_file_read_tokens(&entry, json_node_text(tokens), info.tokens, err);
    if (status != MOTE_OK) {
        chat_entry_fini(&entry);
        return status;
    }
    return chat_append(chat, &entry, err);
}

static mote_status chat_file_read_chat(mote_chat *chat, const json_node *root, mote_error *err)
{
    const json_node *messages = json_node_get(root, "messages");
    int64_t version;
    if (!json_node_int64(json_node_get(root, "mote_chat"), &version) || version != 1 ||
        !json_node_is(messages, JSON_IS_ARRAY))
        return err_set(err, MOTE_E_FORMAT,
                       "not a conversation saved by mote (no \"mote_chat\": 1)");
    TRY(chat_file_read_tools(chat, json_node_get(root, "tools"), err));
    char identity[IDENTITY_TEXT];
    chat_file_identity(identity, chat);
    const bool with_tokens =
        chat->session != NULL || str_is(json_node_text(json_node_get(root, "engine")), identity);
    const json_node *first = json_node_first(messages);
    for (const json_node *node = first; node != NULL; node = json_node_next(node))
        TRY(chat_file_read_message(chat, node, node == first, with_tokens, err));
    return MOTE_OK;
}

mote_status chat_load_text(mote_chat **out, mote_engine *engine, str text,
                           const mote_chat_options *options, mote_error *err)
{
    FPMODE_SCOPE;
    mote_chat *chat;
    json_doc *doc;
    const mote_session_options session = chat_session_options(options);
    *out = NULL;
    TRY(chat_open(&chat, engine, options, err));
    mote_status status = json_doc_read(&doc, text, err);
    if (status == MOTE_OK) {
        status = chat_file_read_chat(chat, json_doc_root(doc), err);
        json_doc_free(doc);
    }
    if (status == MOTE_OK)
        status = mote_session_new(&chat->session, engine, &session, err);
    if (status == MOTE_OK)
        *out = chat;
    else
        mote_chat_free(chat);
    return status;
}

static mote_status chat_file_read(mote_chat *chat, const char *path, mote_error *err)
{
    os_map map;
    json_doc *doc;
    TRY(os_map_open(&map, path, err));
    mote_status status = json_doc_read(&doc, (str){(const char *)map.data, (size_t)map.bytes}, err);
    if (!os_map_intact(&map)) {
        if (status == MOTE_OK)
            json_doc_free(doc);
        status = os_map_check(&map, err);
    }
    os_map_close(&map);
    if (status == MOTE_OK) {
        status = chat_file_read_chat(chat, json_doc_root(doc), err);
        json_doc_free(doc);
    }
    return status;
}

mote_status mote_chat_load(mote_chat **out, mote_engine *engine, const char *path,
                           const mote_chat_options *options, bool *restored, mote_error *err)
{
    FPMODE_SCOPE;
    char state[PATH_ROOM];
    mote_chat *chat;
    const mote_session_options session = chat_session_options(options);
    *out = NULL;
    TRY(chat_state_path(state, path, err));
    TRY(chat_open(&chat, engine, options, err));
    const bool found = mote_session_load(&chat->session, engine, state, &session, NULL) == MOTE_OK;
    mote_status status = chat_file_read(chat, path, err);
    if (status == MOTE_OK && !found)
        status = mote_session_new(&chat->session, engine, &session, err);
    if (status != MOTE_OK) {
        mote_chat_free(chat);
        return status;
    }
    if (restored != NULL)
        *restored = found;
    *out = chat;
    return MOTE_OK;
}
