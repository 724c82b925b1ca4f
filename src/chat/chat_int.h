/* SPDX-License-Identifier: Apache-2.0 */
/* chat_int.h - the inside of mote_chat, shared by its three files. */
#ifndef MOTE_CHAT_CHAT_INT_H
#define MOTE_CHAT_CHAT_INT_H

#include "chat/turn/response_format.h"
#include "chat/prompt/render.h"
#include "chat/turn/turn.h"

#include <mote_chat.h>
#include <stdatomic.h>

/* A message, kept as the JSON it came as or was made to. */
typedef struct chat_entry {
    json_doc *doc; /* {"messages": [it]} */
    chat_parsed parsed;
    mote_token *tokens; /* [n_tokens], of an answer, if they are known */
    size_t n_tokens;
    chat_media *media; /* [n_media], what its parts show */
    size_t n_media;
} chat_entry;

struct mote_chat {
    mote_engine *engine;
    mote_session *session;
    chat_context chat_ctx;
    token_trie *words; /* for grammars, made when first needed */
    chat_mode mode;
    bool has_system;
    chat_entry system;
    json_doc *tools_doc; /* {"tools": [...]} */
    chat_parsed tools;
    chat_entry *entries; /* [room], n of them in use */
    size_t n, room;
    atomic_bool answering;
    atomic_bool canceled;
};

mote_status chat_out_of_memory(mote_error *err);

/* From the text of one message in OpenAI's form. On failure *out is empty. */
mote_status chat_entry_read(chat_entry *out, str json, mote_error *err);
/* From a role and text of any bytes. */
mote_status chat_entry_make(chat_entry *out, const char *role, str text, mote_error *err);
void chat_entry_fini(chat_entry *entry);
/* The message itself. */
const json_node *chat_entry_node(const chat_entry *entry);
const chat_message *chat_entry_message(const chat_entry *entry);

/* Is everything here that the message shows? */
mote_status chat_check_media(const chat_message *message, mote_error *err);

/* Takes the entry, also when it fails. */
mote_status chat_append(mote_chat *chat, chat_entry *entry, mote_error *err);

/* A JSON string; bytes that are no UTF-8 become U+FFFD. */
void chat_put_string(strbuf *out, str text);
/* The messages from the system text on, as a JSON array; `with_tokens` adds what is known of them.
 */
void chat_put_messages(strbuf *out, const mote_chat *chat, bool with_tokens);

/* An open chat without a session. */
mote_status chat_open(mote_chat **out, mote_engine *engine, const mote_chat_options *options,
                      mote_error *err);

#endif
