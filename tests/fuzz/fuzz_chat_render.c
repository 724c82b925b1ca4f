/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_chat_render.c - arbitrary JSON as a conversation, in both modes: an error, or a prompt with
 * alternating turn starts and ends and marks inside it.
 */
#include "chat/chat_rig.h"
#include "fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>

static mote_model *model;
static chat_template template;

static void demand(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "fuzz_chat_render: %s\n", what);
    abort();
}

static void drop_model(void)
{
    mote_model_close(model);
}

/* In official mode, a tool result as first message has no turn start. */
static void check_turns(const chat_prompt *p, bool official)
{
    int open = 0;
    for (size_t i = 0; i < p->n; i++) {
        open += p->ids[i] == template.tags[CHAT_TAG_IM_START];
        open -= p->ids[i] == template.tags[CHAT_TAG_IM_END];
        demand(open <= 1 && open >= (official ? -1 : 0), "a turn inside a turn");
        if (open < 0)
            open = 0;
    }
    for (size_t i = 0; i < p->n_marks; i++)
        demand(p->marks[i].position <= p->n &&
                   (i == 0 || p->marks[i].position >= p->marks[i - 1].position),
               "marks out of order");
}

static void render(const json_node *body, chat_mode mode)
{
    chat_parsed parsed;
    chat_prompt prompt;
    mote_error err;
    if (chat_parsed_read(&parsed, body, mode, &err) != MOTE_OK)
        return;
    if (chat_render(model, &template, &parsed.request, &prompt, &err) == MOTE_OK) {
        check_turns(&prompt, mode == CHAT_OFFICIAL);
        chat_prompt_fini(&prompt);
    }
    chat_parsed_fini(&parsed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_doc *doc;
    if (model == NULL) {
        model = rig_tiny();
        demand(chat_template_of(&template, model, NULL) == MOTE_OK, "no template");
        atexit(drop_model);
    }
    if (json_doc_read(&doc, (str){(const char *)data, size}, NULL) != MOTE_OK)
        return 0;
    size_t n_styles = 0;
    while (chat_style_at(n_styles) != NULL)
        n_styles++;
    template.style = chat_style_at(size % n_styles);
    render(json_doc_root(doc), CHAT_STABLE);
    render(json_doc_root(doc), CHAT_OFFICIAL);
    json_doc_free(doc);
    return 0;
}
