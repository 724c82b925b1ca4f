/* SPDX-License-Identifier: Apache-2.0 */
/* chat_rig.h - shared by the tests of chat/: test models, files with one JSON document per line. */
#ifndef MOTE_TESTS_CHAT_CHAT_RIG_H
#define MOTE_TESTS_CHAT_CHAT_RIG_H

#include "chat/prompt/render.h"

/* mote-tiny; its vocabulary has all control tokens. Exits with 77 if the file is missing. */
mote_model *rig_tiny(void);

/* A model with the vocabulary of Qwen 3.5 and no weights: it can only tokenize. */
typedef struct rig_vocabulary rig_vocabulary;
rig_vocabulary *rig_vocabulary_open(void);
const mote_model *rig_vocabulary_model(const rig_vocabulary *v);
void rig_vocabulary_close(rig_vocabulary *v);
enum { RIG_FIRST_ADDED = 248044, RIG_N_TOKENS = 248077 };

/* Calls `check` with each line of a file as a JSON document; returns the number of lines. `where`
 * is a file of the data directory, or a path that starts with "tests/" or "/". */
int rig_each_line(const char *where, void (*check)(const json_node *line, void *with), void *with);

const char *rig_text(const json_node *node,
                     const char *name); /* a string member, zero-terminated */
json_doc *rig_json(const char *text);   /* exits if it is not JSON */

#endif
