/* SPDX-License-Identifier: Apache-2.0 */
/*
 * runtime_file.h - private files of the current user for the life of a process, by short names.
 *
 * Their directory is PARENT/mote, else /tmp/mote-UID. It must belong to the user, with mode 0700;
 * files have mode 0600. So a file proves that its reader is the user. PARENT is the value of
 * XDG_RUNTIME_DIR; NULL and relative paths are ignored.
 */
#ifndef MOTE_BASE_RUNTIME_FILE_H
#define MOTE_BASE_RUNTIME_FILE_H

#include "base/err.h"
#include "base/str.h"

enum { RUNTIME_FILE_NAME_BYTES = 128, RUNTIME_FILE_PATH_BYTES = 512 };

/* Creates or replaces a file. */
mote_status runtime_file_write(const char *parent, const char *name, str text, mote_error *err);
/* Reads a file of fewer than `room` bytes, zero-terminated. false: there is none. */
bool runtime_file_read(const char *parent, const char *name, char *out, size_t room);
void runtime_file_remove(const char *parent, const char *name);

/* The path of a file, which may not exist. false: there is no such directory. */
bool runtime_file_path(char out[RUNTIME_FILE_PATH_BYTES], const char *parent, const char *name);

/* Name of the file with the local key of the server at an address: "127.0.0.1:11435" gives
 * "11435.key", "unix:/run/mote" gives "unix:%run%mote.key". */
void runtime_file_key_name(char out[RUNTIME_FILE_NAME_BYTES], const char *address);

#endif
