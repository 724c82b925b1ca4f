/* SPDX-License-Identifier: Apache-2.0 */
/*
 * eval_tasks.h - the task file of `mote eval`: one JSON object per line.
 *
 *   id          text, unique in the file
 *   category    text for the summary; default "all"
 *   prompt      the question; or `messages`, a conversation in OpenAI's format
 *   system, tools, max_tokens   optional, as in a request of the server
 *   check       see eval_check.h
 *
 * A line with `retrieval` instead of a prompt stands for many questions: a code hidden in a text of
 * `tokens` tokens, at each of `depths` (0: at its start, 1: at its end), `cases` times. docs/evaluate.md
 * has examples.
 */
#ifndef MOTE_CLI_EVALUATE_EVAL_TASKS_H
#define MOTE_CLI_EVALUATE_EVAL_TASKS_H

#include "json/json.h"

#include <mote.h>

typedef struct eval_task {
    json_doc *doc;
    const json_node *root;
    str id, category;
    const json_node *check;
    uint64_t tokens; /* of a text that was made; 0: another task */
} eval_task;

typedef struct eval_tasks {
    eval_task *tasks; /* [n] */
    uint32_t n, room;
} eval_tasks;

/* Reads all lines. The model is needed to count the tokens of texts. The error names the line. */
mote_status eval_tasks_read(eval_tasks *out, str text, const mote_model *model, mote_error *err);
void eval_tasks_free(eval_tasks *tasks);

/* Adds a task from a line. */
mote_status eval_tasks_add(eval_tasks *out, str line, uint64_t tokens, mote_error *err);

/* ---- texts with a hidden code (eval_retrieval.c) ---- */

/* Adds the tasks of a line with `retrieval`. */
mote_status eval_retrieval_add(eval_tasks *out, const json_node *line, const mote_model *model,
                               mote_error *err);

#endif
