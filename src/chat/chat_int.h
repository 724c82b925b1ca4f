/* SPDX-License-Identifier: Apache-2.0 */
/* chat_int.h - internals of mote_chat, shared by chat.c, chat_answer.c and chat_file.c. */
#ifndef MOTE_CHAT_CHAT_INT_H
#define MOTE_CHAT_CHAT_INT_H

#include "chat/chat_disk.h"
#include "chat/turn/response_format.h"
#include "chat/prompt/render.h"
#include "chat/turn/turn.h"
#include "spec/spec.h"

#include <mote_chat.h>
#include <stdatomic.h>

/* A message: its JSON document and a parsed view of it. */
typedef struct chat_entry {
    json_doc *doc; /* {"messages": [MESSAGE]} */
    chat_parsed parsed;
    mote_token *tokens; /* [n_tokens], the sampled tokens of an answer, if known */
    size_t n_tokens;
    chat_media *media; /* [n_media], the images and videos of its parts */
    size_t n_media;
} chat_entry;

struct mote_chat {
    mote_engine *engine;
    mote_session *session;
    chat_context chat_ctx;
    token_trie *vocab; /* for token masks; made on first use */
    spec *spec;        /* drafts: costs and acceptance over all answers */
    chat_mode mode;
    bool has_system;
    chat_entry system;
    json_doc *tools_doc; /* {"tools": [...]} */
    chat_parsed tools;
    chat_entry *entries; /* [room], n of them in use */
    size_t n, room;
    uint64_t context;                    /* of the session */
    mote_lora_use loras[MOTE_MAX_LORAS]; /* [n_loras]: of the session */
    size_t n_loras;
    chat_disk *disk; /* NULL: none */
    chat_disk_extent disk_extent;
    uint64_t disk_restored; /* tokens of the last prompt */
    atomic_bool busy;       /* mote_chat_answer() is running */
    atomic_bool canceled;
};

mote_status chat_out_of_memory(mote_error *err);

/* Makes an entry from one message in OpenAI's format. On failure *out is empty. */
mote_status chat_entry_read(chat_entry *out, str json, mote_error *err);
/* Makes an entry from a role and arbitrary bytes. */
mote_status chat_entry_make(chat_entry *out, const char *role, str text, mote_error *err);
void chat_entry_fini(chat_entry *entry);
/* The JSON of the message. */
const json_node *chat_entry_node(const chat_entry *entry);
const chat_message *chat_entry_message(const chat_entry *entry);

/* MOTE_E_ARG: an image or video of the message is not available. */
mote_status chat_check_media(const chat_message *message, mote_error *err);

/* Appends the entry and takes ownership of it, also on failure. */
mote_status chat_append(mote_chat *chat, chat_entry *entry, mote_error *err);

/* Writes a JSON string; invalid UTF-8 becomes U+FFFD. */
void chat_put_string(strbuf *out, str text);
/* Writes the system text and all messages as a JSON array. `with_tokens`: with known tokens. */
void chat_put_messages(strbuf *out, const mote_chat *chat, bool with_tokens);

/* Options of the session of a chat; `options` may be NULL. */
static inline mote_session_options chat_session_options(const mote_chat_options *options)
{
    if (options == NULL)
        return (mote_session_options){0};
    return (mote_session_options){
        .context = options->context, .loras = options->loras, .n_loras = options->n_loras};
}

/* Makes a chat without a session. */
mote_status chat_open(mote_chat **out, mote_engine *engine, const mote_chat_options *options,
                      mote_error *err);

#endif
