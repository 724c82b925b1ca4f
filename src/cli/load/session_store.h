/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session_store.h - named sessions: conversations of the user, one file each (docs/sessions.md).
 *
 * A file has the messages and the tokens. KV pages and recurrent states are in the prefix cache on
 * disk; without them the tokens are prefilled again.
 *
 * Functions that return int return an exit code and have reported the error unless it is 0.
 */
#ifndef MOTE_CLI_LOAD_SESSION_STORE_H
#define MOTE_CLI_LOAD_SESSION_STORE_H

#include "cli/load/load.h"
#include "disk_cache/disk_session.h"

enum { SESSION_NAME_BYTES = 65, SESSION_PATH_BYTES = 1000, SESSION_MODEL_BYTES = 4096 };

/* Files of sessions are encrypted with this cipher from now on, and those that are encrypted can be
 * read; NULL: none. It is also that of the prefix cache. */
void session_use_cipher(const disk_cipher *cipher);
const disk_cipher *session_cipher(void);

/* 1 to 64 letters, digits, dots, dashes and underscores; the first is a letter or a digit. */
bool session_name_is_valid(const char *name);
/* The file of the session. */
int session_path(char out[SESSION_PATH_BYTES], const char *name);
bool session_exists(const char *name);
/* Reports that there is no such session. */
int session_not_found(const char *name);
/* The text of its file, decrypted. */
int session_read_text(strbuf *out, const char *name);
/* Replaces its file. */
int session_write_text(const char *name, str text);

/* An image or video of a message: its file is read again. */
typedef struct session_media {
    char *path;
    bool video;
    size_t message;        /* index, without the system message */
    uint64_t image_tokens; /* of media_options */
    double fps;
} session_media;

typedef struct session_info {
    char name[SESSION_NAME_BYTES];
    char model[SESSION_MODEL_BYTES]; /* as lists show it */
    char path[SESSION_MODEL_BYTES];  /* of its file */
    uint64_t saved;                  /* seconds since 1970 */
    uint64_t messages, turns;        /* turns: messages of the user */
    uint64_t bytes;                  /* of the file */
    disk_scope scope;                /* of its records in the prefix cache */
    input_ids ids;                   /* tokens of the conversation */
    session_media *media;            /* [n_media], in order of the messages */
    size_t n_media;
} session_info;

int session_info_read(session_info *out, const char *name);
void session_info_free(session_info *s);

/* Members of the JSON object of a session file, for chat_put_text. */
void session_put_members(strbuf *out, const session_info *s);

typedef struct session_list {
    session_info *items; /* [n], last used first */
    size_t n, room;
} session_list;

/* Files that cannot be read are left out, with a note. */
int session_list_read(session_list *list);
void session_list_free(session_list *list);
/* Calls fn with the name of each session, without opening files. */
void session_each_name(void (*fn)(void *with, const char *name), void *with);

/* Writes the messages as a JSON array in OpenAI's format. */
int session_put_messages(strbuf *out, const char *name);

#endif
