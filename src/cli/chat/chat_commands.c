/* SPDX-License-Identifier: Apache-2.0 */
/* chat_commands.c - what a slash does in a chat: one table, of which /help is a print. */
#include "cli/chat/chat_loop.h"
#include "cli/term/output_messages.h"
#include "cli/term/spell.h"
#include "cli/term/text.h"
#include "cli/load/think_flag.h"

#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct slash {
    const char *name;
    const char *others; /* other names, with blanks around each; NULL: none */
    const char *words;  /* what may follow it */
    const char *help;
    void (*run)(chat_loop *c, const char *words);
} slash;

static void do_think(chat_loop *c, const char *words)
{
    mote_answer_options *o = &c->talk.settings.answer;
    char text[CHAT_THINK_BYTES];
    if (words[0] == '\0')
        words = "on";
    if (!mote_think_parse(words, strlen(words), &o->think, &o->think_budget)) {
        msg_reply("/think takes " THINK_FLAG_WORDS "; not '%.60s'", words);
        return;
    }
    msg_reply("thinking %s", chat_think_text(c, text));
}

static void do_nothink(chat_loop *c, const char *words)
{
    (void)words;
    c->talk.settings.answer.think = MOTE_THINK_OFF;
    msg_reply("thinking off");
}

/* Unfolding shows what was folded last. */
static void do_fold(chat_loop *c, const char *words)
{
    chat_screen *s = &c->talk.screen;
    (void)words;
    s->fold = !s->fold;
    msg_reply(s->fold ? "thinking takes one line" : "thinking is shown");
    if (!s->fold)
        screen_show_reasoning(s);
}

static void do_system(chat_loop *c, const char *words)
{
    input_text *system = &c->talk.settings.system;
    mote_error err;
    if (words[0] == '\0') {
        if (system->n == 0)
            msg_reply("there is no system text (/system TEXT sets one, /system - takes it away)");
        else
            msg_reply("%.*s", system->n < 1000 ? (int)system->n : 1000, system->p);
        return;
    }
    system->n = 0;
    bool none = strcmp(words, "-") == 0;
    if (!none && !input_add(system, words, strlen(words)))
        msg_reply("no memory for the system text");
    else if (mote_chat_set_system(c->talk.chat, system->p, system->n, &err) != MOTE_OK)
        msg_error(&err);
    else
        msg_reply(none ? "no system text" : "the system text is changed");
}

static void do_set(chat_loop *c, const char *words)
{
    chat_set(c, words);
}

static void show_timing(const mote_answer *a)
{
    char x[TEXT_NUMBER_BYTES], y[TEXT_NUMBER_BYTES], z[TEXT_NUMBER_BYTES], w[TEXT_NUMBER_BYTES];
    uint64_t read = a->prompt_tokens - a->reused_tokens;
    msg_reply("  prompt   %s, %s of them known already, %s (%s t/s)",
              text_counted(x, a->prompt_tokens, "token"), text_count(y, a->reused_tokens),
              text_seconds(z, a->seconds_prefill),
              text_rate(w, run_per_second(read, a->seconds_prefill)));
    msg_reply("  answer   %s, %s of them thinking, %s (%s t/s)",
              text_counted(x, a->answer_tokens, "token"), text_count(y, a->think_tokens),
              text_seconds(z, a->seconds_decode),
              text_rate(w, run_per_second(a->answer_tokens, a->seconds_decode)));
}

static void do_stats(chat_loop *c, const char *words)
{
    const talk *t = &c->talk;
    const mote_answer *a = &t->answer;
    const mote_session *session = mote_chat_session(t->chat);
    char x[TEXT_NUMBER_BYTES], y[TEXT_NUMBER_BYTES], think[CHAT_THINK_BYTES];
    (void)words;
    if (c->answered) {
        show_timing(a);
        msg_reply("  ended    %s; thinking: %s; loops found %u, left %u",
                  mote_finish_name(a->finish), mote_think_end_name(a->think_end), a->loops_detected,
                  a->loops_recovered);
        msg_reply("  drawn    %s, temperature %g, seed %llu", a->preset,
                  (double)a->sampling.temperature, (unsigned long long)a->sampling.seed);
    }
    msg_reply("  context  %s of %s used", text_count(x, mote_session_length(session)),
              text_counted(y, mote_session_context(session), "token"));
    msg_reply("  thinking %s", chat_think_text(c, think));
}

char *chat_path(const char *words)
{
    const char *home = words[0] == '~' && words[1] == '/' ? getenv("HOME") : NULL;
    const char *rest = home != NULL ? words + 1 : words;
    size_t n = strlen(rest) + (home != NULL ? strlen(home) : 0) + 1;
    char *path = mem_new(n, 1);
    if (path != NULL)
        snprintf(path, n, "%s%s", home != NULL ? home : "", rest);
    return path;
}

static void do_save(chat_loop *c, const char *words)
{
    mote_error err;
    if (words[0] == '\0') {
        msg_reply("/save needs the name of a file");
        return;
    }
    char *path = chat_path(words);
    if (path == NULL)
        msg_reply("no memory for the name");
    else if (mote_chat_save(c->talk.chat, path, &err) != MOTE_OK)
        msg_error(&err);
    else
        msg_reply("saved as %.200s; /load %.200s goes on from here", words, words);
    mem_free(path);
}

/* The old conversation stays until the new one is there. */
static void load_from(chat_loop *c, const char *path)
{
    talk *t = &c->talk;
    mote_chat_options options = {.context = mote_session_context(mote_chat_session(t->chat))};
    mote_chat *chat;
    bool remembered = false;
    mote_error err;
    if (mote_chat_load(&chat, t->on.engine, path, &options, &remembered, &err) != MOTE_OK) {
        msg_error(&err);
        return;
    }
    mote_chat_free(t->chat);
    t->chat = chat;
    images_drop(&t->shows, 0);
    c->answered = false;
    c->question.n = 0;
    c->taken_back = false;
    char x[TEXT_NUMBER_BYTES];
    msg_reply("%s%s", text_counted(x, mote_chat_count(chat), "message"),
              remembered ? "" : "; they are read again with the next question");
}

static void do_load(chat_loop *c, const char *words)
{
    if (words[0] == '\0') {
        msg_reply("/load needs the name of a file that /save wrote");
        return;
    }
    char *path = chat_path(words);
    if (path == NULL)
        msg_reply("no memory for the name");
    else
        load_from(c, path);
    mem_free(path);
}

/* A seed that was set would draw the same answer, so the next one is taken. */
static void do_retry(chat_loop *c, const char *words)
{
    run_settings *s = &c->talk.settings;
    if (words[0] != '\0') {
        char command[96];
        snprintf(command, sizeof command, "seed %.80s", words);
        chat_set(c, command);
    } else if (s->seed_given) {
        s->answer.sampling.seed++;
    }
    if (c->taken_back && c->question.n > 0) {
        chat_ask(c, c->question.p, c->question.n);
        return;
    }
    mote_chat_drop_answer(c->talk.chat);
    if (mote_chat_count(c->talk.chat) > 0)
        chat_answer(c);
    else
        msg_reply("there is nothing to answer again");
}

static void do_undo(chat_loop *c, const char *words)
{
    (void)words;
    bool dropped = mote_chat_undo(c->talk.chat) > 0;
    images_forget(&c->talk.shows, mote_chat_count(c->talk.chat));
    c->question.n = 0;
    c->taken_back = false;
    msg_reply(dropped ? "the last question and its answer are forgotten"
                      : "there is nothing to undo");
}

static void do_clear(chat_loop *c, const char *words)
{
    (void)words;
    mote_chat_clear(c->talk.chat);
    images_drop(&c->talk.shows, 0);
    c->question.n = 0;
    c->taken_back = false;
    c->answered = false;
    msg_reply("a new conversation");
}

static void do_bye(chat_loop *c, const char *words)
{
    (void)words;
    c->leaves = true;
}

static void do_image(chat_loop *c, const char *words)
{
    chat_show(c, false, words);
}

static void do_video(chat_loop *c, const char *words)
{
    chat_show(c, true, words);
}

static void do_help(chat_loop *c, const char *words);

static const slash table[] = {
    {"image", NULL, "FILE [TEXT]", "a picture for TEXT or the next message; - for none", do_image},
    {"video", NULL, "FILE [TEXT]", "the same with a film, or a folder of frames", do_video},
    {"think", NULL, "[HOW]", "think first: on, off, auto, low, high, or so many tokens", do_think},
    {"nothink", NULL, "", "answer at once", do_nothink},
    {"fold", " hide ", "", "thinking in one line, or all of it", do_fold},
    {"system", NULL, "[TEXT]", "what the model is told first; - for nothing", do_system},
    {"set", NULL, "[NAME [VALUE]]", "sampling, seed, length; default for a value undoes it",
     do_set},
    {"stats", NULL, "", "figures of the last answer", do_stats},
    {"save", NULL, "FILE", "keep the conversation", do_save},
    {"load", NULL, "FILE", "go on with one that was kept", do_load},
    {"retry", " regen ", "[SEED]", "another answer to the last question", do_retry},
    {"undo", NULL, "", "forget the last question and its answer", do_undo},
    {"clear", " new ", "", "forget all of them", do_clear},
    {"help", " ? ", "[COMMAND]", "this list", do_help},
    {"bye", " exit quit ", "", "leave; so does Ctrl-D", do_bye},
};
enum { N_COMMANDS = sizeof table / sizeof *table };

static bool has_name(const slash *it, const char *name)
{
    char padded[72];
    snprintf(padded, sizeof padded, " %.64s ", name);
    return strcmp(it->name, name) == 0 ||
           (it->others != NULL && strstr(it->others, padded) != NULL);
}

static const slash *find(const char *name)
{
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (has_name(&table[i], name))
            return &table[i];
    return NULL;
}

static void show_line(const slash *it)
{
    char left[64];
    snprintf(left, sizeof left, "/%s %s", it->name, it->words);
    msg_reply("  %-22s %s", left, it->help);
}

static void do_help(chat_loop *c, const char *words)
{
    (void)c;
    const slash *one = words[0] != '\0' ? find(words + (words[0] == '/')) : NULL;
    if (one != NULL) {
        show_line(one);
        return;
    }
    for (size_t i = 0; i < N_COMMANDS; i++)
        show_line(&table[i]);
    msg_reply("  A line that ends in \\ goes on; \"\"\" begins and ends a message of many lines.");
    msg_reply("  Ctrl-C stops an answer or clears the line.");
}

static void no_such(const char *name)
{
    spell s = {.word = name};
    for (size_t i = 0; i < N_COMMANDS; i++)
        spell_offer(&s, table[i].name);
    if (s.best != NULL)
        msg_reply("there is no command /%.60s; did you mean /%s?", name, s.best);
    else
        msg_reply("there is no command /%.60s (/help lists them)", name);
}

bool chat_command(chat_loop *c, const char *typed)
{
    if (typed[0] != '/')
        return false;
    char name[64];
    size_t n = strcspn(typed + 1, " \t\n");
    /* /etc/passwd is the beginning of a question. */
    if (n == 0 || n >= sizeof name || memchr(typed + 1, '/', n) != NULL)
        return false;
    snprintf(name, sizeof name, "%.*s", (int)n, typed + 1);
    const char *words = typed + 1 + n;
    words += strspn(words, " \t\n");
    const slash *it = find(name);
    if (it == NULL)
        no_such(name);
    else
        it->run(c, words);
    return true;
}
