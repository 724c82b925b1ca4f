/* SPDX-License-Identifier: Apache-2.0 */
/* turn_rig.c - see turn_rig.h. */
#include "chat/turn_rig.h"

#include "chat/chat_rig.h"
#include "support/data.h"

#include <stdio.h>
#include <stdlib.h>

static void check_ok(mote_status status, const mote_error *err)
{
    if (status == MOTE_OK)
        return;
    fprintf(stderr, "%s: %s\n", mote_status_name(status), err->text);
    abort();
}

mote_engine *turn_engine(const char *file, uint32_t sessions, uint32_t kept_states)
{
    char path[TEST_PATH];
    mote_model *model;
    mote_engine *engine;
    mote_error err;
    if (!test_data_path(path, file))
        exit(TEST_SKIPPED);
    check_ok(mote_model_open(&model, path, NULL, &err), &err);
    const mote_engine_options options = {.threads = 1,
                                         .sessions = sessions,
                                         .positions = 2048ull * sessions,
                                         .kept_states = kept_states};
    check_ok(mote_engine_new(&engine, model, &options, &err), &err);
    return engine;
}

void turn_engine_close(mote_engine *engine)
{
    mote_model *model = (mote_model *)mote_engine_model(engine);
    mote_engine_free(engine);
    mote_model_close(model);
}

static void record_call(answer_record *h, const mote_chat_event *event)
{
    json_doc *doc;
    mote_error err;
    check_ok(json_doc_read(&doc, (str){event->text, event->text_bytes}, &err), &err);
    strbuf_put(&h->calls, (str){event->name, event->name_bytes});
    strbuf_byte(&h->calls, ' ');
    json_put_node(&h->calls, json_doc_root(doc));
    strbuf_byte(&h->calls, '\n');
    json_doc_free(doc);
}

void record_event(void *with, const mote_chat_event *event)
{
    answer_record *h = with;
    const str text = {event->text, event->text_bytes};
    if (event->kind == MOTE_CHAT_CONTENT)
        strbuf_put(&h->content, text);
    else if (event->kind == MOTE_CHAT_REASONING)
        strbuf_put(&h->reasoning, text);
    else if (event->kind == MOTE_CHAT_CALL_END)
        record_call(h, event);
    else if (event->kind == MOTE_CHAT_PREFILL)
        h->n_prefill++;
    if (h->cancel != NULL && h->content.n >= h->cancel_after)
        mote_chat_cancel(h->cancel);
}

void record_clear(answer_record *h)
{
    strbuf_fini(&h->content);
    strbuf_fini(&h->reasoning);
    strbuf_fini(&h->calls);
    *h = (answer_record){0};
}

bool text_is_blank(const strbuf *text)
{
    for (size_t i = 0; i < text->n; i++)
        if (strchr(" \t\r\n", text->p[i]) == NULL)
            return false;
    return true;
}

mote_chat *turn_chat(mote_engine *engine, const mote_chat_options *options)
{
    mote_chat *chat;
    mote_error err;
    check_ok(mote_chat_new(&chat, engine, options, &err), &err);
    return chat;
}

void turn_add(mote_chat *chat, const char *text)
{
    mote_error err;
    check_ok(mote_chat_add(chat, MOTE_ROLE_USER, text, strlen(text), &err), &err);
}

static void add_message(mote_chat *chat, const json_node *message)
{
    mote_error err;
    strbuf text = {0};
    const json_node *role = json_node_get(message, "role");
    if (str_is(json_node_text(role), "system")) {
        const str system = json_node_text(json_node_get(message, "content"));
        check_ok(mote_chat_set_system(chat, system.p, system.n, &err), &err);
        return;
    }
    json_put_as_spelt(&text, message);
    check_ok(mote_chat_add_json(chat, text.p, text.n, &err), &err);
    strbuf_fini(&text);
}

void turn_add_task(mote_chat *chat, const json_node *line)
{
    mote_error err;
    strbuf tools = {0};
    const json_node *messages = json_node_get(line, "messages");
    uint32_t left = json_node_size(messages) - 1;
    for (const json_node *m = json_node_first(messages); left > 0; m = json_node_next(m), left--)
        add_message(chat, m);
    if (json_node_get(line, "tools") != NULL) {
        json_put_as_spelt(&tools, json_node_get(line, "tools"));
        check_ok(mote_chat_set_tools(chat, tools.p, tools.n, &err), &err);
        strbuf_fini(&tools);
    }
}

mote_answer turn_answer(mote_chat *chat, mote_answer_options how, answer_record *h)
{
    mote_answer answer;
    mote_error err;
    if (h != NULL) {
        how.event = record_event;
        how.with = h;
    }
    check_ok(mote_chat_answer(chat, &how, &answer, &err), &err);
    return answer;
}

mote_answer_options turn_greedy(void)
{
    return (mote_answer_options){.set = MOTE_SET_TEMPERATURE | MOTE_SET_TOP_K | MOTE_SET_TOP_P |
                                        MOTE_SET_PRESENCE | MOTE_SET_REPETITION};
}
