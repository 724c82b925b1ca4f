/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chat_loop.c - `mote run` at a terminal: question, answer, question.
 *
 * Ctrl-C stops an answer, clears a line, and leaves when it comes twice at an empty prompt;
 * SIGTERM leaves at once. Nothing that goes wrong with one answer ends the conversation.
 */
#include "cli/chat/chat_loop.h"
#include "cli/term/interrupt.h"
#include "cli/term/output_messages.h"
#include "cli/term/terminal.h"
#include "cli/term/text.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* 210 tokens   8.0 t/s   3.4 %, at the right edge: the last is the share of the context. */
static void show_stats(const chat_loop *c)
{
    const talk *t = &c->talk;
    const mote_answer *a = &t->answer;
    const mote_session *session = mote_chat_session(t->chat);
    char x[TEXT_NUMBER_BYTES], y[TEXT_NUMBER_BYTES], line[200];
    double share =
        100 * (double)mote_session_length(session) / (double)mote_session_context(session);
    const char *ending = talk_ending(t);
    snprintf(line, sizeof line, "%s%s%s   %s t/s   %.1f %%", ending != NULL ? ending : "",
             ending != NULL ? "   " : "", text_counted(x, a->answer_tokens, "token"),
             text_rate(y, run_per_second(a->answer_tokens, a->seconds_decode)), share);
    unsigned columns = term_columns(STDERR_FILENO);
    msg_note("%*s", columns > 1 ? (int)columns - 1 : 0, line);
}

/* What a failed answer leaves is a question nobody answered; it is taken back, and what it showed
 * is attached to the next one. */
static void take_back(chat_loop *c, size_t messages)
{
    if (messages == 0 || mote_chat_count(c->talk.chat) != messages)
        return;
    mote_chat_cut(c->talk.chat, messages - 1);
    images_take_back(&c->talk.shows, messages - 1);
    c->taken_back = true;
}

void chat_answer(chat_loop *c)
{
    talk *t = &c->talk;
    size_t messages = mote_chat_count(t->chat);
    mote_error err;
    /* Keys typed meanwhile are kept for the next prompt, but not mixed into the answer. */
    term_echo(false);
    mote_status status = talk_answer(t, &err);
    term_echo(true);
    c->answered = c->answered || status == MOTE_OK;
    if (status == MOTE_E_FULL) {
        msg_note("%s (/undo or /clear makes room; --context N has more)", err.text);
        take_back(c, messages);
    } else if (status != MOTE_OK) {
        msg_error(&err);
        take_back(c, messages);
    } else if (mote_chat_count(t->chat) == messages) {
        msg_note("stopped before the answer began; /retry asks again");
        take_back(c, messages);
    } else {
        show_stats(c);
    }
    interrupt_forget();
}

void chat_ask(chat_loop *c, const char *text, size_t n)
{
    mote_error err;
    if (c->question.p != text) {
        c->question.n = 0;
        if (!input_add(&c->question, text, n))
            msg_note("no memory to keep the question");
    }
    c->taken_back = false;
    if (talk_add(&c->talk, text, n, &err) != MOTE_OK)
        msg_error(&err);
    else
        chat_answer(c);
}

static bool is_blank(const input_text *text)
{
    for (size_t i = 0; i < text->n; i++)
        if (strchr(" \t\n", text->p[i]) == NULL)
            return false;
    return true;
}

/* A message or a command. Whatever was typed goes into the history. */
static void take_message(chat_loop *c)
{
    input_text *text = &c->input.text;
    if (is_blank(text))
        return;
    lineedit_remember(c->line, text->p, text->n);
    if (!input_add(text, "", 1)) { /* a terminator, for commands */
        msg_note("no memory for the message");
        return;
    }
    text->n--;
    if (c->input.quoted || !chat_command(c, text->p))
        chat_ask(c, text->p, text->n);
}

static int loop(chat_loop *c)
{
    bool warned = false; /* Ctrl-C came at an empty prompt just now */
    while (!c->leaves) {
        line_end end = chat_input_read(&c->input, c->line);
        interrupt_forget();
        if (interrupt_came())
            return interrupt_exit_code();
        switch (end) {
        case LINE_READ: take_message(c); break;
        case LINE_CLEARED: break;
        case LINE_INTERRUPTED:
            if (warned)
                return CLI_DONE;
            msg_note("(Ctrl-C again or Ctrl-D leaves)");
            break;
        case LINE_CLOSED: puts(""); return CLI_DONE;
        case LINE_FAILED: return run_no_memory();
        }
        warned = end == LINE_INTERRUPTED;
        interrupt_forget(); /* Ctrl-C while a command was at work: it is done now */
        if (interrupt_came())
            return interrupt_exit_code();
    }
    return CLI_DONE;
}

static void greet(const chat_loop *c)
{
    mote_model_info info;
    mote_model_describe(c->talk.on.model, &info);
    char x[TEXT_NUMBER_BYTES], y[TEXT_NUMBER_BYTES], think[CHAT_THINK_BYTES];
    msg_note("%s   %s   context %s   thinking %s   /help for help",
             info.name[0] != '\0' ? info.name : "model", text_bytes(x, info.file_bytes),
             text_count(y, mote_session_context(mote_chat_session(c->talk.chat))),
             chat_think_text(c, think));
    if (lineedit_lack() != NULL)
        msg_note("%s", lineedit_lack());
}

int run_chat(const cli_call *call)
{
    chat_loop c = {0};
    int code = talk_open(&c.talk, call, &(input_text){0}, true);
    if (code == CLI_DONE) {
        c.line = lineedit_open();
        if (c.line == NULL)
            code = run_no_memory();
    }
    if (code == CLI_DONE) {
        greet(&c);
        code = loop(&c);
    }
    lineedit_close(c.line);
    chat_input_free(&c.input);
    input_text_free(&c.question);
    talk_close(&c.talk);
    return code;
}
