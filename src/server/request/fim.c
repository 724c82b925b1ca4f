/* SPDX-License-Identifier: Apache-2.0 */
/* fim.c - see fim.h. Texts are encoded without control tokens, the marks are ids. */
#include "server/request/fim.h"

#include "base/mem.h"

typedef struct ids {
    const mote_model *model;
    mote_token *p; /* [room] */
    size_t n, room;
    bool failed;
} ids;

static void add(ids *b, str text, unsigned flags)
{
    size_t n = 0;
    if (b->failed || mote_tokenize(b->model, text.p, text.n, flags, NULL, 0, &n, NULL) != MOTE_OK) {
        b->failed = true;
        return;
    }
    if (b->room - b->n < n) {
        const size_t room = 2 * b->room + n;
        mote_token *p = mem_resize(b->p, b->room, room, sizeof *p);
        b->failed = p == NULL;
        if (b->failed)
            return;
        b->p = p;
        b->room = room;
    }
    b->failed = mote_tokenize(b->model, text.p, text.n, flags, b->p + b->n, n, &n, NULL) != MOTE_OK;
    b->n += b->failed ? 0 : n;
}

/* A mark must be one token, or the model was never shown any. */
static bool add_mark(ids *b, const char *mark, http_error *error)
{
    const size_t before = b->n;
    add(b, str_of(mark), MOTE_TEXT_CONTROL);
    if (b->failed)
        return http_error_no_memory(error);
    if (b->n != before + 1)
        return http_error_unsupported(error, "suffix", "filling a gap with this model");
    return true;
}

static bool add_files(ids *b, const json_node *extra, http_error *error)
{
    for (const json_node *f = json_node_first(extra); f != NULL; f = json_node_next(f)) {
        const str name = json_node_text(json_node_get(f, "filename"));
        if (!add_mark(b, "<|file_sep|>", error))
            return false;
        add(b, name, 0);
        add(b, str_of("\n"), 0);
        add(b, json_node_text(json_node_get(f, "text")), 0);
        add(b, str_of("\n"), 0);
    }
    return json_node_size(extra) == 0 || add_mark(b, "<|file_sep|>", error);
}

static bool add_gap(ids *b, str before, str after, const json_node *extra, http_error *error)
{
    if (!add_files(b, extra, error) || !add_mark(b, "<|fim_prefix|>", error))
        return false;
    add(b, before, 0);
    if (!add_mark(b, "<|fim_suffix|>", error))
        return false;
    add(b, after, 0);
    return add_mark(b, "<|fim_middle|>", error);
}

bool fim_add_prompt(request *a, str before, str after, const json_node *extra, http_error *error)
{
    ids b = {.model = served_model_chat_context(a->served)->model};
    if (!add_gap(&b, before, after, extra, error) || !request_add_prompt(a, (str){"", 0}, error)) {
        mem_free(b.p);
        return false;
    }
    a->prompt_ids[a->n_prompts - 1] = b.p;
    a->n_prompt_ids[a->n_prompts - 1] = b.n;
    return true;
}
