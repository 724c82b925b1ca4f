/* SPDX-License-Identifier: Apache-2.0 */
/*
 * turn_tasks.c - mote-tiny reaches the scores of its model card through mote_chat.
 *
 * tests/data/chat/tasks.jsonl has the samples of the card. The card was measured with another
 * engine on rendered text. Here messages and tools go in, and content and typed tool calls must be
 * right.
 */
#include "chat/chat_rig.h"
#include "chat/turn_rig.h"

#include <stdio.h>

static struct {
    const char *name;
    int card, samples; /* correct answers in the card, out of samples */
    int right, seen;
} tasks[] = {
    {"ack", 10, 10, 0, 0},          {"add_direct", 6, 10, 0, 0},    {"add_think", 9, 10, 0, 0},
    {"count", 7, 10, 0, 0},         {"fact", 20, 20, 0, 0},         {"json", 10, 10, 0, 0},
    {"memory", 10, 10, 0, 0},       {"needle", 8, 10, 0, 0},        {"smalltalk", 10, 10, 0, 0},
    {"system", 10, 10, 0, 0},       {"tool_call", 10, 10, 0, 0},    {"tool_final", 9, 10, 0, 0},
    {"tool_none", 10, 10, 0, 0},    {"tool_parallel", 5, 10, 0, 0}, {"words_count", 8, 10, 0, 0},
    {"words_first", 9, 10, 0, 0},   {"words_last", 10, 10, 0, 0},   {"words_repeat", 7, 10, 0, 0},
    {"words_reverse", 3, 10, 0, 0}, {"words_upper", 3, 10, 0, 0},
};
enum { N_TASKS = sizeof tasks / sizeof *tasks };

static str stripped(str text)
{
    while (text.n > 0 && strchr(" \t\r\n", text.p[text.n - 1]) != NULL)
        text.n--;
    while (text.n > 0 && strchr(" \t\r\n", *text.p) != NULL) {
        text.p++;
        text.n--;
    }
    return text;
}

static void put_calls(strbuf *out, const json_node *calls)
{
    for (const json_node *c = json_node_first(calls); c != NULL; c = json_node_next(c)) {
        const json_node *function = json_node_get(c, "function");
        strbuf_put(out, json_node_text(json_node_get(function, "name")));
        strbuf_byte(out, ' ');
        json_put_node(out, json_node_get(function, "arguments"));
        strbuf_byte(out, '\n');
    }
}

static bool is_right(const json_node *line, const answer_record *h)
{
    const json_node *wanted = json_node_first(json_node_get(line, "messages"));
    while (json_node_next(wanted) != NULL)
        wanted = json_node_next(wanted);
    strbuf calls = {0};
    put_calls(&calls, json_node_get(wanted, "tool_calls"));
    const bool right = str_eq(stripped(json_node_text(json_node_get(wanted, "content"))),
                              stripped(strbuf_view(&h->content))) &&
                       str_eq(strbuf_view(&calls), strbuf_view(&h->calls));
    strbuf_fini(&calls);
    return right;
}

static void try_task(const json_node *line, void *with)
{
    const char *name = rig_text(line, "task");
    mote_answer_options how = turn_greedy();
    mote_chat *chat = turn_chat(with, &(mote_chat_options){.official = true});
    answer_record h = {0};
    how.think = json_node_truth(json_node_get(line, "think")) ? MOTE_THINK_ON : MOTE_THINK_OFF;
    how.max_tokens = 1024;
    turn_add_task(chat, line);
    turn_answer(chat, how, &h);
    for (int i = 0; i < N_TASKS; i++)
        if (strcmp(tasks[i].name, name) == 0) {
            tasks[i].seen++;
            tasks[i].right += is_right(line, &h);
        }
    record_clear(&h);
    mote_chat_free(chat);
}

int main(void)
{
    mote_engine *engine = turn_engine("mote-tiny-BF16.gguf", 1, 0);
    rig_each_line("tests/data/chat/tasks.jsonl", try_task, engine);
    turn_engine_close(engine);
    int faults = 0;
    for (int i = 0; i < N_TASKS; i++) {
        /* With ten samples, any difference of 2 % is at least one sample. */
        const bool good = tasks[i].seen == tasks[i].samples && tasks[i].right >= tasks[i].card;
        printf("%-14s %2d of %2d, card %2d%s\n", tasks[i].name, tasks[i].right, tasks[i].seen,
               tasks[i].card, good ? "" : "   <-- less");
        faults += !good;
    }
    return faults == 0 ? 0 : 1;
}
