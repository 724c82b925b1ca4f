/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conversation.h - a conversation with a model: its options, its images, its view on the terminal,
 * and the interactive loop around it.
 *
 *   answer_view.c    streams an answer to a terminal or a pipe, with word wrap
 *   conversation.c   opens the model and the chat, adds messages, generates answers
 *   chat_sessions.c  named sessions: save, switch, list
 *   chat_loop.c      prompt, message or command, answer
 *   chat_commands.c  slash commands
 *   chat_settings.c  /set
 *
 * Functions that return int return an exit code and have reported the error unless it is 0.
 */
#ifndef MOTE_CLI_CHAT_CONVERSATION_H
#define MOTE_CLI_CHAT_CONVERSATION_H

#include "chat/chat_disk.h"
#include "cli/chat/answer_options.h"
#include "cli/load/find_model.h"
#include "cli/load/load.h"
#include "cli/load/media_files.h"
#include "cli/load/session_store.h"
#include "cli/term/lineedit.h"
#include "cli/term/terminal.h"

#include <mote_chat.h>

/* ---- word wrap (answer_view.c) ----
 *
 * Text arrives in pieces of any size; a word is written when it is complete, with control
 * characters escaped. The width is queried before each word, so a resized window takes effect with
 * the next word. Lines may break before and after a character that is two columns wide, as in East
 * Asian text. Lines inside ``` fences are not wrapped, so that code can be copied. */

enum { WRAP_WORD_BYTES = 256 };

typedef struct wrap {
    cli_out *to;
    unsigned (*columns)(void); /* current width of the terminal; NULL: no wrapping */

    unsigned column; /* of the next character, from 0 */
    unsigned blanks; /* pending; written only if a word follows on the same line */
    char word[WRAP_WORD_BYTES];
    size_t n_word;
    unsigned word_columns;
    bool fence;       /* inside a ``` block */
    bool inside_line; /* the line has a character other than spaces and backquotes */
    unsigned ticks;   /* backquotes at the beginning of the line */
} wrap;

void wrap_begin(wrap *w, cli_out *to, unsigned (*columns)(void));
/* `text` holds whole characters; invalid bytes are escaped. */
void wrap_text(wrap *w, const char *text, size_t n);
/* Writes the pending word. The line stays open. */
void wrap_end(wrap *w);

/* Columns of a character on a terminal: 0 to 2. */
unsigned wrap_char_columns(uint32_t code);

/* ---- the view of an answer (answer_view.c) ----
 *
 * On a terminal, reasoning is dim between two marker lines, or folded into one line. A pipe or a
 * file gets the exact bytes of the answer and no reasoning. Tool calls are JSON objects, one per
 * line. */

typedef enum view_place { VIEW_WAITING, VIEW_THINKING, VIEW_ANSWER } view_place;

typedef struct answer_view {
    /* set by the caller */
    cli_out *out; /* NULL: collect only */
    bool fold;    /* reasoning takes one line */

    /* the collected answer */
    strbuf content;
    strbuf reasoning;
    strbuf calls; /* name and arguments of each call, each terminated by a zero byte */
    bool out_of_memory;

    /* internal */
    view_place place;
    bool begun; /* a character other than a newline was shown in this place */
    bool prefilling;
    wrap text;
    progress prompt;
    double thinking_since;   /* os_now */
    unsigned folded_seconds; /* shown in the line of folded reasoning */
} answer_view;

/* Call before each answer; drops what was collected. */
void answer_view_begin(answer_view *s);
/* Takes the events of mote_answer_options.event. */
void answer_view_event(answer_view *s, const mote_chat_event *event);
/* Call after the answer, also if it failed: closes the line and resets colors. */
void answer_view_end(answer_view *s);
void answer_view_free(answer_view *s);

/* Writes the tool calls as an array in OpenAI's format; ids are call_0, call_1 ... */
void answer_view_write_calls(const answer_view *s, strbuf *j);
/* Prints the reasoning of the last answer in full. */
void answer_view_show_reasoning(answer_view *s);

/* ---- the conversation (conversation.c) ---- */

typedef struct conversation {
    const cli_call *call;
    found_model model;
    const answer_flags *flags;
    answer_options options;
    loaded on;         /* without a session: the chat has its own */
    media_files media; /* images and videos of its messages */
    mote_chat *chat;
    chat_disk *disk;                  /* NULL: none */
    chat_disk_extent extent;          /* of what it saves */
    char session[SESSION_NAME_BYTES]; /* its name; "": none */
    bool resumes;                     /* the session exists */
    uint64_t session_tokens;          /* that it had */
    session_info resumed;             /* with the images to load, if it resumes */
    strbuf carried;                   /* text of the conversation, while its model is changed */
    answer_view view;
    mote_answer answer;                                   /* the last one */
    double started, load_ended, sent, first_token, ended; /* os_now */

    /* of the interactive chat */
    strbuf question; /* the last one, for /retry if its answer never started */
    bool withdrawn;  /* the question was removed from the chat because its answer failed */
    bool answered;   /* `answer` is valid */
} conversation;

/* Opens the model and the chat, with tools, system prompt and earlier messages, and enough context
 * for `prompt`, which is not added. `interactive`: more messages will follow, possibly with images,
 * and /load opens a second chat on the same engine. Images named in the first `typed`
 * bytes of the prompt are attached, as by conversation_attach_typed. */
int conversation_open(conversation *t, const cli_call *call, strbuf *prompt, size_t typed,
                      bool interactive);
void conversation_close(conversation *t);

/* Continues with another model: the messages are prefilled again. After an error the conversation
 * is unchanged. */
int conversation_change_model(conversation *t, const char *model);

/* Attaches the images named in the first `typed` bytes of the text, and removes their paths.
 * Without a vision encoder, or if a file cannot be used, its path stays and a note says why.
 */
void conversation_attach_typed(conversation *t, strbuf *text, size_t typed);

/* Adds a user message with the attached images and videos. */
mote_status conversation_add(conversation *t, const char *text, size_t n, mote_error *err);
/* Generates the answer to the last message. Ctrl-C ends the answer, not the program: then
 * t->answer.finish is MOTE_FINISH_CANCELED and interrupt_pending() is true. */
mote_status conversation_answer(conversation *t, mote_error *err);
/* The prompt of the last answer was prefilled; false: interrupted before. */
bool conversation_prefilled(const conversation *t);
/* Why the last answer ended early, such as "interrupted"; NULL: it ended normally. */
const char *conversation_ending(const conversation *t);

/* For the interactive chat: adds a question and generates its answer. Errors are reported; a
 * question without an answer is removed from the chat. */
void conversation_send(conversation *t, const char *text, size_t n);
/* The same for the last message of the chat. */
void conversation_answer_last(conversation *t);

/* ---- named sessions (chat_sessions.c) ---- */

/* Reads --session: the name, and how many tokens the conversation has if it exists. */
int conversation_begin_session(conversation *t);
/* Saves the conversation if it has a name. */
int conversation_save_session(conversation *t);
/* A chat with the messages of a session. */
mote_status conversation_read_session(mote_chat **out, mote_engine *engine, const char *name,
                                      const mote_chat_options *options, mote_error *err);
/* Adds the images and videos of a session to the files that were sent. The model must be open. */
int session_load_media(media_files *p, const session_info *s, const conversation *t);
/* Gives them to a chat that was read from the session. */
mote_status conversation_attach_media(mote_chat *chat, const media_files *p, mote_error *err);
/* Loads a conversation of mote_chat_save in place of the current one. */
int conversation_load(conversation *t, const char *path);

/* /save NAME, /switch NAME, /list */
void session_command_save(conversation *t, const char *words);
void session_command_switch(conversation *t, const char *words);
void session_command_list(const conversation *t);

/* ---- the interactive chat (chat_loop.c) ---- */

/* Collects typed lines into a message. A line that ends in a backslash continues on the next one;
 * """ starts a message that ends at the next """ and is never a command. */
typedef struct chat_input {
    strbuf text;
    bool quoted;    /* starts with """ */
    bool continues; /* needs another line */
} chat_input;

/* Adds a line and sets continues. False: out of memory. */
bool chat_input_add(chat_input *in, const char *line, size_t n);
void chat_input_clear(chat_input *in);
void chat_input_free(chat_input *in);
/* Reads lines until the message is complete. */
line_end chat_input_read(chat_input *in, lineedit *l);

typedef struct chat_loop {
    conversation conv;
    lineedit *line;
    chat_input input;
    bool quit;
} chat_loop;

/* `mote run` on a terminal without a prompt. */
int chat_run(const cli_call *call);

/* Runs `typed` if it is a command: a slash and a word. False: it is a message. */
bool chat_command(chat_loop *c, const char *typed);

/* ---- Tab (chat_complete.c) ---- */

/* What follows the name of a command. */
typedef enum slash_arguments {
    SLASH_NONE,
    SLASH_TEXT,
    SLASH_IMAGE,
    SLASH_FILE,
    SLASH_MODEL,
    SLASH_COMMAND,
    SLASH_SESSION,
    SLASH_SETTING,
    SLASH_THINK
} slash_arguments;

/* A completion: the text before the cursor and the choices found so far. */
typedef struct completion_list {
    const char *line;
    size_t n;
    size_t from;      /* the choices replace the text from here on */
    const char *word; /* what choices of complete_offer begin with */
    strbuf *choices;  /* terminated names */
} completion_list;

/* Adds `name` if it begins with c->word. */
void complete_offer(completion_list *c, const char *name);
/* Offers the names of the slash commands, and of the settings of /set. */
void chat_command_names(completion_list *c);
void chat_setting_names(completion_list *c);
/* What follows the command with the n bytes of this name. */
slash_arguments chat_command_arguments(const char *name, size_t n);
/* lineedit_complete_fn; ctx is a chat_loop. */
void chat_complete(void *ctx, const char *line, size_t n, size_t *from, strbuf *choices);

/* /set: `words` follow it; "" prints all settings. */
void chat_set(chat_loop *c, const char *words);
/* The current setting of thinking: "auto", "off", "on, up to 4 096 tokens". `buffer` has
 * CHAT_THINK_BYTES. */
enum { CHAT_THINK_BYTES = 64 };
const char *chat_think_text(const chat_loop *c, char *buffer);

#endif
