/* SPDX-License-Identifier: Apache-2.0 */
/* chat_commands.c - the slash commands of the interactive chat: one table, printed by /help. */
#include "base/mem.h"
#include "cli/chat/conversation.h"
#include "cli/load/load.h"
#include "cli/load/typed_paths.h"
#include "cli/term/output.h"
#include "cli/term/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct slash {
    const char *name;
    const char *others; /* other names, with a space around each; NULL: none */
    const char *words;  /* its arguments, for /help */
    const char *help;
    void (*run)(chat_loop *c, const char *words);
    slash_arguments arguments; /* for Tab */
} slash;

/* ---- images ---- */

static void command_list_attached(const media_files *p)
{
    if (p->sent == p->n)
        msg_reply("nothing is attached (/image FILE attaches an image to the next message)");
    for (size_t i = p->sent; i < p->n; i++)
        msg_reply("  %.200s", p->list[i].path);
}

/* Loads a file at once, so that errors are reported now. With a text it is sent immediately. */
static void command_attach(conversation *t, bool video, const char *words)
{
    char *path = typed_path_take(&words, false);
    int code = CLI_NO_MEMORY;
    if (path == NULL)
        msg_reply("out of memory");
    else
        code = media_files_add(&t->media, path, video, t->on.model, &t->flags->media,
                               (uint32_t)t->flags->load.threads);
    mem_free(path);
    if (code == CLI_DONE && words[0] != '\0')
        conversation_send(t, words, strlen(words));
    else if (code == CLI_DONE)
        msg_reply("attached to the next message");
}

static void command_media(conversation *t, bool video, const char *words)
{
    media_files *p = &t->media;
    mote_model_info info;
    mote_model_describe(t->on.model, &info);
    if (!info.vision) {
        msg_reply("%s", media_files_no_encoder);
    } else if (words[0] == '\0') {
        command_list_attached(p);
    } else if (strcmp(words, "-") == 0) {
        media_files_truncate(p, p->sent);
        msg_reply("nothing is attached");
    } else {
        command_attach(t, video, words);
    }
}

static void do_image(chat_loop *c, const char *words)
{
    command_media(&c->conv, false, words);
}

static void do_video(chat_loop *c, const char *words)
{
    command_media(&c->conv, true, words);
}

/* ---- answers ---- */

static void do_think(chat_loop *c, const char *words)
{
    mote_answer_options *o = &c->conv.options.answer;
    char text[CHAT_THINK_BYTES];
    if (words[0] == '\0')
        words = "on";
    if (!mote_think_parse(words, strlen(words), &o->think, &o->think_budget)) {
        msg_reply("/think must be " THINK_FLAG_WORDS ", got '%.60s'", words);
        return;
    }
    msg_reply("thinking %s", chat_think_text(c, text));
}

static void do_nothink(chat_loop *c, const char *words)
{
    (void)words;
    c->conv.options.answer.think = MOTE_THINK_OFF;
    msg_reply("thinking off");
}

/* Unfolding also prints the reasoning that was folded last. */
static void do_fold(chat_loop *c, const char *words)
{
    answer_view *s = &c->conv.view;
    (void)words;
    s->fold = !s->fold;
    msg_reply(s->fold ? "thinking is folded into one line" : "thinking is shown");
    if (!s->fold)
        answer_view_show_reasoning(s);
}

static void do_system(chat_loop *c, const char *words)
{
    strbuf *system = &c->conv.options.system;
    mote_error err;
    if (words[0] == '\0') {
        if (system->n == 0)
            msg_reply("no system prompt (/system TEXT sets one, /system - removes it)");
        else
            msg_reply("%.*s", system->n < 1000 ? (int)system->n : 1000, system->p);
        return;
    }
    system->n = 0;
    bool none = strcmp(words, "-") == 0;
    if (!none && !text_add(system, words, strlen(words)))
        msg_reply("out of memory: the system prompt");
    else if (mote_chat_set_system(c->conv.chat, system->p, system->n, &err) != MOTE_OK)
        msg_error(&err);
    else
        msg_reply(none ? "system prompt removed" : "system prompt changed");
}

static void do_set(chat_loop *c, const char *words)
{
    chat_set(c, words);
}

static void command_show_timing(const mote_answer *a)
{
    char x[TEXT_NUMBER_BYTES], y[TEXT_NUMBER_BYTES], z[TEXT_NUMBER_BYTES], w[TEXT_NUMBER_BYTES];
    char v[TEXT_NUMBER_BYTES];
    msg_reply("  prompt   %s, %s cached, %s prefilled in %s (%s t/s)",
              text_counted(x, a->prompt_tokens, "token"), text_count(y, a->reused_tokens),
              text_count(v, a->prefilled_tokens), text_seconds(z, a->seconds_prefill),
              text_rate(w, answer_per_second(a->prefilled_tokens, a->seconds_prefill)));
    msg_reply("  answer   %s, %s of them thinking, %s (%s t/s)",
              text_counted(x, a->answer_tokens, "token"), text_count(y, a->think_tokens),
              text_seconds(z, a->seconds_decode),
              text_rate(w, answer_per_second(a->answer_tokens, a->seconds_decode)));
}

static void do_stats(chat_loop *c, const char *words)
{
    const conversation *t = &c->conv;
    const mote_answer *a = &t->answer;
    const mote_session *session = mote_chat_session(t->chat);
    char x[TEXT_NUMBER_BYTES], y[TEXT_NUMBER_BYTES], think[CHAT_THINK_BYTES];
    (void)words;
    if (c->conv.answered) {
        command_show_timing(a);
        msg_reply("  finish   %s; thinking: %s; repetition loops %u found, %u recovered",
                  mote_finish_name(a->finish), mote_think_end_name(a->think_end), a->loops_detected,
                  a->loops_recovered);
        msg_reply("  sampling %s, temperature %g, seed %llu", a->preset,
                  (double)a->sampling.temperature, (unsigned long long)a->sampling.seed);
    }
    msg_reply("  context  %s of %s used", text_count(x, mote_session_length(session)),
              text_counted(y, mote_session_context(session), "token"));
    msg_reply("  thinking %s", chat_think_text(c, think));
}

/* ---- the conversation ---- */

/* A path, as opposed to the name of a session. */
static bool names_file(const char *words)
{
    const size_t n = strlen(words);
    return strchr(words, '/') != NULL || (n > 5 && strcmp(words + n - 5, ".json") == 0);
}

static void do_save(chat_loop *c, const char *words)
{
    mote_error err;
    if (!names_file(words)) {
        session_command_save(&c->conv, words);
        return;
    }
    const char *rest = words;
    char *path = typed_path_take(&rest, true);
    if (path == NULL)
        msg_reply("out of memory");
    else if (mote_chat_save(c->conv.chat, path, &err) != MOTE_OK)
        msg_error(&err);
    else
        msg_reply("saved as %.200s; /load %.200s continues from here", words, words);
    mem_free(path);
}

static void do_load(chat_loop *c, const char *words)
{
    if (words[0] == '\0') {
        msg_reply("/load needs a file that /save wrote");
        return;
    }
    if (!names_file(words) && session_exists(words)) {
        session_command_switch(&c->conv, words);
        return;
    }
    char *path = typed_path_take(&words, true);
    if (path == NULL)
        msg_reply("out of memory");
    else if (conversation_load(&c->conv, path) == CLI_DONE)
        c->conv.session[0] = '\0';
    mem_free(path);
}

static void do_switch(chat_loop *c, const char *words)
{
    session_command_switch(&c->conv, words);
}

static void do_list(chat_loop *c, const char *words)
{
    (void)words;
    session_command_list(&c->conv);
}

static void do_model(chat_loop *c, const char *words)
{
    mote_model_info info;
    if (words[0] == '\0') {
        msg_reply("%.300s (/model MODEL changes it and keeps the conversation)",
                  c->conv.model.path);
        return;
    }
    char *path = typed_path_take(&words, true);
    if (path == NULL)
        msg_reply("out of memory");
    else if (conversation_change_model(&c->conv, path) == CLI_DONE) {
        mote_model_describe(c->conv.on.model, &info);
        msg_reply("model %s; the conversation is prefilled with the next message", info.name);
    }
    mem_free(path);
}

/* A fixed seed would give the same answer, so the next seed is used. */
static void do_retry(chat_loop *c, const char *words)
{
    answer_options *s = &c->conv.options;
    if (words[0] != '\0') {
        char command[96];
        snprintf(command, sizeof command, "seed %.80s", words);
        chat_set(c, command);
    } else if (s->seed_given) {
        s->answer.sampling.seed++;
    }
    if (c->conv.withdrawn && c->conv.question.n > 0) {
        conversation_send(&c->conv, c->conv.question.p, c->conv.question.n);
        return;
    }
    mote_chat_drop_answer(c->conv.chat);
    if (mote_chat_count(c->conv.chat) > 0)
        conversation_answer_last(&c->conv);
    else
        msg_reply("no question to answer again");
}

static void do_undo(chat_loop *c, const char *words)
{
    (void)words;
    bool dropped = mote_chat_undo(c->conv.chat) > 0;
    media_files_drop_after(&c->conv.media, mote_chat_count(c->conv.chat));
    c->conv.question.n = 0;
    c->conv.withdrawn = false;
    conversation_save_session(&c->conv);
    msg_reply(dropped ? "removed the last question and its answer" : "nothing to undo");
}

static void do_clear(chat_loop *c, const char *words)
{
    (void)words;
    mote_chat_clear(c->conv.chat);
    media_files_truncate(&c->conv.media, 0);
    c->conv.question.n = 0;
    c->conv.withdrawn = false;
    c->conv.answered = false;
    if (c->conv.session[0] != '\0')
        msg_reply("new conversation; /switch %s returns to the last one", c->conv.session);
    else
        msg_reply("new conversation");
    c->conv.session[0] = '\0';
}

static void do_bye(chat_loop *c, const char *words)
{
    (void)words;
    c->quit = true;
}

static void do_help(chat_loop *c, const char *words);

static const slash commands[] = {
    {"image", NULL, "FILE [TEXT]", "attach an image to TEXT or to the next message; - detaches",
     do_image, SLASH_IMAGE},
    {"video", NULL, "FILE [TEXT]", "the same with a video or a directory of frames", do_video,
     SLASH_FILE},
    {"think", NULL, "[HOW]", "thinking: on, off, auto, low, high, or a number of tokens", do_think,
     SLASH_THINK},
    {"nothink", NULL, "", "thinking off", do_nothink, SLASH_NONE},
    {"fold", " hide ", "", "show thinking in one line, or in full", do_fold, SLASH_NONE},
    {"system", NULL, "[TEXT]", "show or set the system prompt; - removes it", do_system,
     SLASH_TEXT},
    {"set", NULL, "[NAME [VALUE]]", "show or set sampling, seed, length; VALUE default resets",
     do_set, SLASH_SETTING},
    {"stats", NULL, "", "statistics of the last answer", do_stats, SLASH_NONE},
    {"model", NULL, "[MODEL]", "show or change the model; the conversation stays", do_model,
     SLASH_MODEL},
    {"save", " fork ", "[NAME|FILE]", "save the conversation as a session, or as a file", do_save,
     SLASH_SESSION},
    {"switch", NULL, "NAME", "continue another session", do_switch, SLASH_SESSION},
    {"list", " sessions ", "", "list the sessions", do_list, SLASH_NONE},
    {"load", NULL, "FILE", "continue a conversation of a file", do_load, SLASH_FILE},
    {"retry", " regen ", "[SEED]", "generate another answer to the last question", do_retry,
     SLASH_TEXT},
    {"undo", NULL, "", "remove the last question and its answer", do_undo, SLASH_NONE},
    {"clear", " new ", "", "start a new conversation", do_clear, SLASH_NONE},
    {"help", " ? ", "[COMMAND]", "this list", do_help, SLASH_COMMAND},
    {"bye", " exit quit ", "", "exit; so does Ctrl-D", do_bye, SLASH_NONE},
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static bool slash_has_name(const slash *it, const char *name)
{
    char padded[72];
    snprintf(padded, sizeof padded, " %.64s ", name);
    return strcmp(it->name, name) == 0 ||
           (it->others != NULL && strstr(it->others, padded) != NULL);
}

static const slash *slash_find(const char *name)
{
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (slash_has_name(&commands[i], name))
            return &commands[i];
    return NULL;
}

void chat_command_names(completion_list *c)
{
    for (size_t i = 0; i < N_COMMANDS; i++)
        complete_offer(c, commands[i].name);
}

slash_arguments chat_command_arguments(const char *name, size_t n)
{
    char word[64];
    if (n >= sizeof word)
        return SLASH_NONE;
    memcpy(word, name, n);
    word[n] = '\0';
    const slash *it = slash_find(word);
    return it != NULL ? it->arguments : SLASH_NONE;
}

static void slash_show(const slash *it)
{
    char left[64];
    snprintf(left, sizeof left, "/%s %s", it->name, it->words);
    msg_reply("  %-22s %s", left, it->help);
}

static void do_help(chat_loop *c, const char *words)
{
    (void)c;
    const slash *one = words[0] != '\0' ? slash_find(words + (words[0] == '/')) : NULL;
    if (one != NULL) {
        slash_show(one);
        return;
    }
    for (size_t i = 0; i < N_COMMANDS; i++)
        slash_show(&commands[i]);
    msg_reply(
        "  A line that ends in \\ continues; \"\"\" starts and ends a message of several lines.");
    msg_reply("  The path of an image in a message attaches the image. Tab completes commands and "
              "files.");
    msg_reply("  Ctrl-C stops an answer or clears the line.");
}

static void slash_unknown(const char *name)
{
    spell s = {.word = name};
    for (size_t i = 0; i < N_COMMANDS; i++)
        spell_offer(&s, commands[i].name);
    if (s.best != NULL)
        msg_reply("unknown command /%.60s; did you mean /%s?", name, s.best);
    else
        msg_reply("unknown command /%.60s (/help lists all)", name);
}

bool chat_command(chat_loop *c, const char *typed)
{
    if (typed[0] != '/')
        return false;
    char name[64];
    size_t n = strcspn(typed + 1, " \t\n");
    /* A path such as /etc/passwd is part of a message. */
    if (n == 0 || n >= sizeof name || memchr(typed + 1, '/', n) != NULL)
        return false;
    snprintf(name, sizeof name, "%.*s", (int)n, typed + 1);
    const char *words = typed + 1 + n;
    words += strspn(words, " \t\n");
    const slash *it = slash_find(name);
    if (it == NULL)
        slash_unknown(name);
    else
        it->run(c, words);
    return true;
}
