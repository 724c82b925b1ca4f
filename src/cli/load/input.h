/* SPDX-License-Identifier: Apache-2.0 */
/*
 * input.h - text and token ids as they come from the command line, a file or a pipe.
 *
 * Functions return an exit code and have said what is wrong unless it is 0.
 */
#ifndef MOTE_CLI_LOAD_INPUT_H
#define MOTE_CLI_LOAD_INPUT_H

#include <mote.h>

typedef struct input_text {
    char *p; /* not terminated */
    size_t n;
    size_t room;
} input_text;

typedef struct input_ids {
    mote_token *ids;
    size_t n;
} input_ids;

void input_text_free(input_text *text);
void input_ids_free(input_ids *ids);

/* False: no memory. */
bool input_add(input_text *text, const char *p, size_t n);

/* Appends all of a file, or of stdin if path is "-". */
int input_read(input_text *text, const char *path);
/* The text itself, or "@FILE"; one newline at the end of a file is the file's. */
int input_text_or_file(input_text *text, const char *given);
/* Stdin is a pipe or a file, so it is meant to be read. */
bool input_waits_on_stdin(void);

/* Reads "1,2,3"; blanks and newlines separate too. */
int input_parse_ids(input_ids *out, const char *list, const char *flag);
/* The ids of a text; `flags` as for mote_tokenize. */
int input_tokenize(input_ids *out, const mote_model *model, const char *text, size_t n,
                   unsigned flags);

#endif
