/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chat_loop.c - the interactive chat: reads messages and commands from the terminal.
 *
 * Ctrl-C stops an answer or clears the line; twice on an empty line it ends the program. SIGTERM
 * ends it at once. An error of one answer does not end the chat.
 */
#include "cli/chat/conversation.h"
#include "cli/term/output.h"
#include "cli/term/terminal.h"
#include "cli/term/text.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- typed lines to a message ---- */

static const char quotes[] = "\"\"\"";
enum { N_QUOTES = 3 };

/* Position of """ in p; n: none. */
static size_t input_find_quotes(const char *p, size_t n)
{
    for (size_t i = 0; i + N_QUOTES <= n; i++)
        if (memcmp(p + i, quotes, N_QUOTES) == 0)
            return i;
    return n;
}

/* Text after the closing quotes on the same line belongs to the message. */
static bool input_add_quoted(chat_input *in, const char *line, size_t n)
{
    size_t end = input_find_quotes(line, n);
    in->continues = end == n;
    if (!text_add(&in->text, line, end))
        return false;
    if (in->continues)
        return text_add(&in->text, "\n", 1);
    const char *rest = line + end + N_QUOTES;
    if (!text_add(&in->text, rest, n - end - N_QUOTES))
        return false;
    /* The closing quotes may be on a separate line. */
    while (in->text.n > 0 && in->text.p[in->text.n - 1] == '\n')
        in->text.n--;
    return true;
}

bool chat_input_add(chat_input *in, const char *line, size_t n)
{
    bool first = !in->continues;
    if (first && n >= N_QUOTES && memcmp(line, quotes, N_QUOTES) == 0) {
        in->quoted = true;
        line += N_QUOTES;
        n -= N_QUOTES;
        if (n == 0) {
            in->continues = true;
            return true;
        }
    }
    if (in->quoted)
        return input_add_quoted(in, line, n);
    in->continues = n > 0 && line[n - 1] == '\\';
    if (!in->continues)
        return text_add(&in->text, line, n);
    return text_add(&in->text, line, n - 1) && text_add(&in->text, "\n", 1);
}

void chat_input_clear(chat_input *in)
{
    in->text.n = 0;
    in->quoted = false;
    in->continues = false;
}

void chat_input_free(chat_input *in)
{
    strbuf_fini(&in->text);
    chat_input_clear(in);
}

line_end chat_input_read(chat_input *in, lineedit *l)
{
    strbuf line = {0};
    line_end end;
    chat_input_clear(in);
    do {
        line.n = 0;
        end = lineedit_read(l, in->continues ? "... " : ">>> ", &line);
        if (end == LINE_READ && !chat_input_add(in, line.p, line.n))
            end = LINE_FAILED;
        if (end == LINE_INTERRUPTED && in->continues)
            end = LINE_CLEARED; /* drops the earlier lines of the message */
    } while (end == LINE_READ && in->continues);
    strbuf_fini(&line);
    return end;
}

/* ---- the loop ---- */

static bool input_is_blank(const strbuf *text)
{
    for (size_t i = 0; i < text->n; i++)
        if (strchr(" \t\n", text->p[i]) == NULL)
            return false;
    return true;
}

/* Handles a message or a command. Both go into the history. */
static void loop_take_message(chat_loop *c)
{
    strbuf *text = &c->input.text;
    if (input_is_blank(text))
        return;
    lineedit_add_history(c->line, text->p, text->n);
    if (!text_add(text, "", 1)) { /* commands need a terminator */
        msg_note("out of memory: the message is dropped");
        return;
    }
    text->n--;
    if (c->input.quoted) {
        conversation_send(&c->conv, text->p, text->n);
        return;
    }
    if (chat_command(c, text->p))
        return;
    conversation_attach_typed(&c->conv, text, text->n);
    if (input_is_blank(text))
        msg_reply("attached to the next message");
    else
        conversation_send(&c->conv, text->p, text->n);
}

static int loop_run(chat_loop *c)
{
    bool warned = false; /* the last input was Ctrl-C on an empty line */
    while (!c->quit) {
        line_end end = chat_input_read(&c->input, c->line);
        interrupt_clear();
        if (interrupt_pending())
            return interrupt_exit_code();
        switch (end) {
        case LINE_READ: loop_take_message(c); break;
        case LINE_CLEARED: break;
        case LINE_INTERRUPTED:
            if (warned)
                return CLI_DONE;
            msg_note("(Ctrl-C again or Ctrl-D exits)");
            break;
        case LINE_CLOSED: puts(""); return CLI_DONE;
        case LINE_FAILED: return input_no_memory();
        }
        warned = end == LINE_INTERRUPTED;
        interrupt_clear(); /* Ctrl-C during a command, which has ended */
        if (interrupt_pending())
            return interrupt_exit_code();
    }
    return CLI_DONE;
}

static void loop_greet(const chat_loop *c)
{
    mote_model_info info;
    mote_model_describe(c->conv.on.model, &info);
    char x[TEXT_NUMBER_BYTES], y[TEXT_NUMBER_BYTES], think[CHAT_THINK_BYTES];
    msg_note("%s   %s   context %s   thinking %s   /help for help",
             info.name[0] != '\0' ? info.name : "model", text_bytes(x, info.file_bytes),
             text_count(y, mote_session_context(mote_chat_session(c->conv.chat))),
             chat_think_text(c, think));
    if (lineedit_missing() != NULL)
        msg_note("%s", lineedit_missing());
}

int chat_run(const cli_call *call)
{
    chat_loop c = {0};
    int code = conversation_open(&c.conv, call, &(strbuf){0}, 0, true);
    if (code == CLI_DONE) {
        c.line = lineedit_open();
        if (c.line == NULL)
            code = input_no_memory();
    }
    if (code == CLI_DONE) {
        lineedit_set_complete(c.line, chat_complete, &c);
        loop_greet(&c);
        code = loop_run(&c);
    }
    lineedit_close(c.line);
    chat_input_free(&c.input);
    conversation_close(&c.conv);
    return code;
}
