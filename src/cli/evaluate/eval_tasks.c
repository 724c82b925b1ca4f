/* SPDX-License-Identifier: Apache-2.0 */
/* eval_tasks.c - see eval_tasks.h. */
#include "cli/evaluate/eval_tasks.h"

#include "base/err.h"
#include "base/mem.h"
#include "cli/evaluate/eval_check.h"

#include <stdio.h>

enum { MAX_ID = 200, MAX_TOKENS = 1 << 20 };

void eval_tasks_free(eval_tasks *t)
{
    for (uint32_t i = 0; i < t->n; i++)
        json_doc_free(t->tasks[i].doc);
    mem_free(t->tasks);
    *t = (eval_tasks){0};
}

/* A field that is absent, or of the kind. */
static bool task_field_is(const eval_task *t, const char *name, json_kind kind)
{
    const json_node *node = json_node_get(t->root, name);
    return node == NULL || json_node_is(node, kind);
}

static mote_status task_check_fields(const eval_task *t, mote_error *err)
{
    static const char *const fields[] = {"id",       "category",  "prompt",
                                         "messages", "system",    "max_tokens",
                                         "check",    "retrieval", "tools"};
    const bool prompt = json_node_is(json_node_get(t->root, "prompt"), JSON_IS_STRING);
    const bool messages = json_node_is(json_node_get(t->root, "messages"), JSON_IS_ARRAY);
    for (const json_node *m = json_node_first(t->root); m != NULL; m = json_node_next(m)) {
        bool known = false;
        for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
            known = known || str_is(json_node_name(m), fields[i]);
        if (!known)
            return err_set(err, MOTE_E_ARG, "unknown field %.*s", STR_ARG(json_node_name(m)));
    }
    if (prompt == messages)
        return err_set(err, MOTE_E_ARG, "a task has either prompt, a text, or messages, an array");
    if (!task_field_is(t, "system", JSON_IS_STRING) ||
        !task_field_is(t, "category", JSON_IS_STRING) || !task_field_is(t, "tools", JSON_IS_ARRAY))
        return err_set(err, MOTE_E_ARG, "system and category must be texts, tools an array");
    int64_t most = 1;
    const json_node *limit = json_node_get(t->root, "max_tokens");
    if (limit != NULL && (!json_node_int64(limit, &most) || most < 1 || most > MAX_TOKENS))
        return err_set(err, MOTE_E_ARG, "max_tokens must be 1 to %d", MAX_TOKENS);
    return eval_check_valid(t->check, err);
}

mote_status eval_tasks_add(eval_tasks *out, str line, uint64_t tokens, mote_error *err)
{
    eval_task t = {.tokens = tokens};
    if (!mem_grow(&out->tasks, out->n, &out->room, sizeof t))
        return err_set(err, MOTE_E_MEMORY, "out of memory: tasks");
    TRY(json_doc_read(&t.doc, line, err));
    t.root = json_doc_root(t.doc);
    t.id = json_node_text(json_node_get(t.root, "id"));
    t.category = json_node_text(json_node_get(t.root, "category"));
    t.check = json_node_get(t.root, "check");
    if (t.category.n == 0)
        t.category = str_of("all");
    mote_status status = task_check_fields(&t, err);
    if (status == MOTE_OK && (t.id.n == 0 || t.id.n > MAX_ID))
        status = err_set(err, MOTE_E_ARG, "id must be a text of 1 to %d bytes", MAX_ID);
    for (uint32_t i = 0; i < out->n && status == MOTE_OK; i++)
        if (str_eq(out->tasks[i].id, t.id))
            status = err_set(err, MOTE_E_ARG, "id %.*s is used twice", STR_ARG(t.id));
    if (status == MOTE_OK)
        out->tasks[out->n++] = t;
    else
        json_doc_free(t.doc);
    return status;
}

static mote_status tasks_read_line(eval_tasks *out, str line, const mote_model *model,
                                   mote_error *err)
{
    json_doc *doc;
    TRY(json_doc_read(&doc, line, err));
    const mote_status status = json_node_get(json_doc_root(doc), "retrieval") != NULL
                                   ? eval_retrieval_add(out, json_doc_root(doc), model, err)
                                   : eval_tasks_add(out, line, 0, err);
    json_doc_free(doc);
    return status;
}

mote_status eval_tasks_read(eval_tasks *out, str text, const mote_model *model, mote_error *err)
{
    *out = (eval_tasks){0};
    for (size_t number = 1; text.n > 0; number++) {
        const char *end = memchr(text.p, '\n', text.n);
        const str line = {text.p, end != NULL ? (size_t)(end - text.p) : text.n};
        const size_t used = line.n + (end != NULL);
        text = (str){text.p + used, text.n - used};
        if (line.n == 0 || str_is(line, "\r"))
            continue;
        const mote_status status = tasks_read_line(out, line, model, err);
        if (status != MOTE_OK) {
            char where[32];
            snprintf(where, sizeof where, "line %zu", number);
            if (err != NULL)
                err_prefix(err, where);
            return status;
        }
    }
    return out->n > 0 ? MOTE_OK : err_set(err, MOTE_E_ARG, "the file has no tasks");
}
