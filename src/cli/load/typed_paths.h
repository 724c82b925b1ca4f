/* SPDX-License-Identifier: Apache-2.0 */
/*
 * typed_paths.h - file names in typed text: the argument of a chat command, and image files that a
 * message names.
 *
 * A name may be plain, in single or double quotes, have spaces escaped with backslashes, or be a
 * file:// URL: terminals paste dragged files in one of these forms. "~/" is the home directory.
 */
#ifndef MOTE_CLI_LOAD_TYPED_PATHS_H
#define MOTE_CLI_LOAD_TYPED_PATHS_H

#include <stdbool.h>
#include <stddef.h>

/* Reads the file name at *words and advances *words behind it. A plain name with spaces is the
 * longest beginning of the text that names an existing file, else one word. `all`: the whole text
 * is the name, as for a file that will be created. NULL: out of memory. Free with mem_free. */
char *typed_path_take(const char **words, bool all);

/* An image file named in a text. */
typedef struct typed_image {
    char *path;        /* free with mem_free */
    size_t begin, end; /* its place in the text */
} typed_image;

/* Finds the first one at or after `from` in the n bytes of a text: a name with the extension of an
 * image format, of an existing file that begins like one. Punctuation after it is not part of it.
 * false: none, or out of memory. */
bool typed_image_find(typed_image *out, const char *text, size_t n, size_t from);

/* "png", "jpg" ... at the end of a name. */
bool typed_image_name(const char *name);

#endif
