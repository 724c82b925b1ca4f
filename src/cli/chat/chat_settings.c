/* SPDX-License-Identifier: Apache-2.0 */
/* chat_settings.c - /set: the table of settings of the interactive chat. */
#include "cli/chat/conversation.h"
#include "cli/term/output.h"
#include "cli/term/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum set_kind { SET_FLOAT, SET_U32, SET_SEED, SET_TOKENS } set_kind;

typedef struct setting {
    const char *name;
    const char *other; /* alternative name, or NULL */
    set_kind kind;
    unsigned bit; /* MOTE_SET_*; 0: not part of a preset */
    size_t at;    /* in mote_sampling */
    double min, max;
} setting;

#define IN(member) offsetof(mote_sampling, member)

static const setting settings[] = {
    {"temperature", "temp", SET_FLOAT, MOTE_SET_TEMPERATURE, IN(temperature), 0, 2},
    {"top_p", NULL, SET_FLOAT, MOTE_SET_TOP_P, IN(top_p), 0, 1},
    {"top_k", NULL, SET_U32, MOTE_SET_TOP_K, IN(top_k), 0, 1000000},
    {"min_p", NULL, SET_FLOAT, MOTE_SET_MIN_P, IN(min_p), 0, 1},
    {"presence_penalty", "presence", SET_FLOAT, MOTE_SET_PRESENCE, IN(presence), -2, 2},
    {"frequency_penalty", "frequency", SET_FLOAT, MOTE_SET_FREQUENCY, IN(frequency), -2, 2},
    {"repeat_penalty", "repetition_penalty", SET_FLOAT, MOTE_SET_REPETITION, IN(repetition), 0, 2},
    {"seed", NULL, SET_SEED, 0, IN(seed), 0, 9007199254740992.0},
    {"max_tokens", "num_predict", SET_TOKENS, 0, 0, 1, 4194304},
};
enum { N_SETTINGS = sizeof settings / sizeof *settings };

void chat_setting_names(completion_list *c)
{
    for (size_t i = 0; i < N_SETTINGS; i++)
        complete_offer(c, settings[i].name);
    complete_offer(c, "history");
    complete_offer(c, "nohistory");
}

static const setting *setting_find(const char *name)
{
    spell s = {.word = name};
    for (size_t i = 0; i < N_SETTINGS; i++) {
        const setting *it = &settings[i];
        if (strcmp(it->name, name) == 0 || (it->other != NULL && strcmp(it->other, name) == 0))
            return it;
        spell_offer(&s, it->name);
    }
    if (s.best != NULL)
        msg_reply("unknown setting %.60s; did you mean %s?", name, s.best);
    else
        msg_reply("unknown setting %.60s (/set lists all)", name);
    return NULL;
}

/* Prints the value, or where it comes from if it is not set. */
static void setting_show(const chat_loop *c, const setting *it)
{
    const mote_answer_options *o = &c->conv.options.answer;
    const char *field = (const char *)&o->sampling + it->at;
    bool on = it->kind == SET_SEED     ? c->conv.options.seed_given
              : it->kind == SET_TOKENS ? o->max_tokens != 0
                                       : (o->set & it->bit) != 0;
    char value[TEXT_NUMBER_BYTES] = "";
    if (it->kind == SET_FLOAT)
        snprintf(value, sizeof value, "%g", (double)*(const float *)field);
    else if (it->kind == SET_U32)
        snprintf(value, sizeof value, "%u", *(const uint32_t *)field);
    else if (it->kind == SET_SEED)
        snprintf(value, sizeof value, "%llu", (unsigned long long)o->sampling.seed);
    else
        snprintf(value, sizeof value, "%u", o->max_tokens);
    const char *otherwise = it->kind == SET_SEED     ? "random"
                            : it->kind == SET_TOKENS ? "up to the context size"
                                                     : "from the preset";
    msg_reply("  %-18s %s", it->name, on ? value : otherwise);
}

static void setting_unset(chat_loop *c, const setting *it)
{
    mote_answer_options *o = &c->conv.options.answer;
    if (it->kind == SET_SEED)
        c->conv.options.seed_given = false;
    else if (it->kind == SET_TOKENS)
        o->max_tokens = 0;
    else
        o->set &= ~it->bit;
}

static void setting_assign(chat_loop *c, const setting *it, double x)
{
    mote_answer_options *o = &c->conv.options.answer;
    char *field = (char *)&o->sampling + it->at;
    o->set |= it->bit;
    switch (it->kind) {
    case SET_FLOAT: *(float *)field = (float)x; break;
    case SET_U32: *(uint32_t *)field = (uint32_t)x; break;
    case SET_SEED:
        o->sampling.seed = (uint64_t)x;
        c->conv.options.seed_given = true;
        break;
    case SET_TOKENS: o->max_tokens = (uint32_t)x; break;
    }
}

/* Decimal numbers only; whole numbers unless the setting is a float. */
static bool setting_read(const setting *it, const char *text, double *out)
{
    char *end;
    if (text[0] == '\0' || text[strspn(text, "+-.0123456789eE")] != '\0')
        return false;
    double x = strtod(text, &end);
    if (*end != '\0' || !(x >= it->min && x <= it->max))
        return false;
    *out = x;
    return it->kind == SET_FLOAT || x == (double)(uint64_t)x;
}

static bool next_word(const char **at, char *word, size_t room)
{
    *at += strspn(*at, " \t\n");
    size_t n = strcspn(*at, " \t\n");
    snprintf(word, room, "%.*s", n < room ? (int)n : (int)room - 1, *at);
    *at += n;
    return n > 0;
}

void chat_set(chat_loop *c, const char *words)
{
    char name[64], value[64];
    bool named = next_word(&words, name, sizeof name);
    if (named && strcmp(name, "parameter") == 0) /* Ollama's syntax */
        named = next_word(&words, name, sizeof name);
    if (named && (strcmp(name, "history") == 0 || strcmp(name, "nohistory") == 0)) {
        lineedit_set_history(c->line, name[0] == 'h');
        return;
    }
    if (!named) {
        for (size_t i = 0; i < N_SETTINGS; i++)
            setting_show(c, &settings[i]);
        return;
    }
    const setting *it = setting_find(name);
    double x;
    if (it == NULL)
        return;
    if (!next_word(&words, value, sizeof value))
        setting_show(c, it);
    else if (strcmp(value, "default") == 0)
        setting_unset(c, it);
    else if (setting_read(it, value, &x))
        setting_assign(c, it, x);
    else
        msg_reply("%s must be a number from %.15g to %.15g, or default; got '%s'", it->name,
                  it->min, it->max, value);
}

const char *chat_think_text(const chat_loop *c, char *buffer)
{
    const mote_answer_options *o = &c->conv.options.answer;
    char count[TEXT_NUMBER_BYTES];
    uint32_t budget = o->think_budget != 0 ? o->think_budget : MOTE_THINK_MEDIUM;
    if (o->think == MOTE_THINK_OFF)
        snprintf(buffer, CHAT_THINK_BYTES, "off");
    else if (o->think == MOTE_THINK_AUTO)
        snprintf(buffer, CHAT_THINK_BYTES, "auto");
    else if (budget == MOTE_THINK_MAX)
        snprintf(buffer, CHAT_THINK_BYTES, "on, unlimited");
    else
        snprintf(buffer, CHAT_THINK_BYTES, "on, up to %s", text_counted(count, budget, "token"));
    return buffer;
}
