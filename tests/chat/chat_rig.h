/* SPDX-License-Identifier: Apache-2.0 */
/* chat_rig.h - what the tests of chat/ share: models, files of lines, reading requests. */
#ifndef MOTE_TESTS_CHAT_CHAT_RIG_H
#define MOTE_TESTS_CHAT_CHAT_RIG_H

#include "chat/prompt/render.h"

/* mote-tiny, whose vocabulary has all control tokens. Exits with 77 if it is not there. */
mote_model *rig_tiny(void);

/* A model that has the real vocabulary and nothing else: good for text, for nothing more. */
typedef struct rig_vocabulary rig_vocabulary;
rig_vocabulary *rig_vocabulary_open(void);
const mote_model *rig_vocabulary_model(const rig_vocabulary *v);
void rig_vocabulary_close(rig_vocabulary *v);
enum { RIG_FIRST_ADDED = 248044, RIG_N_TOKENS = 248077 };

/* Calls `check` with each line of a file, as a document; returns how many. `where` is the name
 * of a file of the data directory, or begins with "tests/" or "/". */
int rig_each_line(const char *where, void (*check)(const json_node *line, void *with), void *with);

const char *rig_text(const json_node *node, const char *name); /* a string member, terminated */
json_doc *rig_json(const char *text);                          /* must be JSON */

#endif
