/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conf_file.h - text of the form that all configuration files of mote have.
 *
 *     # a comment
 *     key = value            # a comment after white space
 *     [section]
 *     key = "kept # as it is "
 *
 * Keys before the first section belong to section "". Quotes keep white space and #; there are no
 * escapes, variables, includes or continued lines. The order of the lines is kept, and a key or a
 * section may occur several times: the user of the file decides what that means.
 */
#ifndef MOTE_BASE_CONF_FILE_H
#define MOTE_BASE_CONF_FILE_H

#include "base/err.h"
#include "base/str.h"

#include <stdint.h>

enum { CONF_FILE_MAX_BYTES = 1 << 20 };

/* The line `key = value`, or `[section]` if key is NULL. */
typedef struct conf_line {
    const char *section; /* without brackets */
    const char *key;     /* NULL: the line that begins the section */
    const char *value;
    uint32_t number; /* of the line, from 1 */
} conf_line;

/* Zero-initialised: empty. */
typedef struct conf_file {
    char *name; /* for messages: the path */
    conf_line *lines;
    uint32_t n;
    uint32_t room;
    char *text; /* the strings of the lines */
} conf_file;

/* Parses a text; `name` is what messages call it. MOTE_E_ARG: a line that is none of the above, as
 * "NAME:LINE: ..."; the file is empty then. */
mote_status conf_file_parse(conf_file *out, const char *name, str text, mote_error *err);
/* Reads and parses the file at `path`. *found (may be NULL): it exists; a file that does not exist
 * is empty, and an error if `found` is NULL. MOTE_E_IO: it cannot be read. */
mote_status conf_file_read(conf_file *out, const char *path, bool *found, mote_error *err);
void conf_file_fini(conf_file *f);

#endif
