/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chat_disk.h - the prefix cache on disk (docs/prefix-cache.md) for conversations of mote_chat.h.
 *
 * A conversation with a disk starts an answer from the longest prefix of its prompt that its
 * session or the disk holds. After the answer a thread saves the session. It stops as soon as the
 * conversation needs the session again; the next save writes the rest. Answers never fail because
 * of the disk, and their bits do not depend on it.
 *
 * One disk serves all conversations of a process, one at a time. Engine thread only. Between two
 * answers only the conversation may change its session.
 */
#ifndef MOTE_CHAT_CHAT_DISK_H
#define MOTE_CHAT_CHAT_DISK_H

#include "base/err.h"
#include "base/str.h"
#include "disk_cache/disk_cipher.h"

#include <mote_chat.h>

typedef struct chat_disk chat_disk;

/* What is saved of a session. */
typedef enum chat_disk_extent {
    CHAT_DISK_ALL,   /* it will continue */
    CHAT_DISK_PROMPT /* the prompt if it is long: another one may begin equally */
} chat_disk_extent;

/* `bytes` and `cipher` are those of disk_cache_open. */
mote_status chat_disk_open(chat_disk **out, const char *directory, uint64_t bytes,
                           const disk_cipher *cipher, mote_error *err);
/* Call chat_disk_flush before, to complete the last save. NULL is allowed. */
void chat_disk_close(chat_disk *d);

/* The chat uses the disk until it is freed; NULL: none. */
void chat_set_disk(mote_chat *chat, chat_disk *d, chat_disk_extent extent);
/* Waits for the end of the running save, in about so many seconds. False: it has not ended. */
bool chat_disk_flush(chat_disk *d, double seconds);
/* Tokens of the last prompt that came from the disk. */
uint64_t chat_disk_restored(const mote_chat *chat);
/* Appends what mote_chat_save writes to PATH: the state is on the disk. `members`: more of the JSON
 * object, or empty. */
mote_status chat_put_text(strbuf *out, const mote_chat *chat, str members, mote_error *err);
/* mote_chat_load of such a text. */
mote_status chat_load_text(mote_chat **out, mote_engine *engine, str text,
                           const mote_chat_options *options, mote_error *err);
/* Adds the images and videos of message number `message`, which a loaded conversation lacks. As
 * mote_chat_add_media; MOTE_E_ARG: the message has others. */
mote_status chat_attach_media(mote_chat *chat, size_t message, const mote_media *media,
                              size_t n_media, mote_error *err);
/* The first failed write, once; NULL: none. Valid until chat_disk_close. */
const char *chat_disk_problem(chat_disk *d);

/* ---- for chat_answer.c ---- */

enum { CHAT_DISK_MIN_SYSTEM = 256 }; /* tokens of tools and system text that get their own state */

/* A prompt and how much of it the session of the chat can reuse. */
typedef struct chat_disk_prompt {
    const mote_token *tokens; /* [n] */
    size_t n;
    size_t have;
    const mote_image *const *images;
    size_t n_images;
} chat_disk_prompt;

/* The session is needed: the running save ends. */
void chat_disk_release(chat_disk *d);
/* After the prefill, with the logits of the last token: copies the end of the prompt, to be saved
 * with the session and the state before the end. Returns false if it is on disk, or there is
 * none. */
bool chat_disk_note_end(chat_disk *d, const mote_engine *engine, const mote_session *session);
/* Replaces *session if the disk has enough more tokens of the prompt. Returns the number of
 * restored tokens; 0: none. If it is the whole prompt, the session has the logits of the last
 * token. A session that could not be restored is empty; *session is NULL if there is no memory for
 * that either. */
size_t chat_disk_restore(chat_disk *d, mote_engine *engine, mote_session **session,
                         const chat_disk_prompt *prompt);
/* Starts to save the session. `prompt_end`: position after the last message of the prompt. */
void chat_disk_save(chat_disk *d, const mote_engine *engine, const mote_session *session,
                    chat_disk_extent extent, size_t prompt_end);

#endif
