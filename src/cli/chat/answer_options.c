/* SPDX-License-Identifier: Apache-2.0 */
/* answer_options.c - the flags of `mote run` as options of an answer; see run.h. */
#include "cli/run/run.h"

#include "cli/term/output_messages.h"
#include "cli/load/think_flag.h"

#include <stdio.h>
#include <string.h>

static bool add_text(input_text *to, const char *terminated)
{
    return input_add(to, terminated, strlen(terminated));
}

static int read_think(run_settings *s, const run_options *o)
{
    const char *how = o->no_think ? "off" : o->think;
    return think_flag_read(how, &s->answer.think, &s->answer.think_budget);
}

/* One string of a JSON array. */
static bool add_quoted(input_text *to, const char *text, size_t n)
{
    bool done = add_text(to, "\"");
    for (size_t i = 0; i < n && done; i++) {
        unsigned char c = (unsigned char)text[i];
        char escaped[8];
        if (c == '"' || c == '\\')
            snprintf(escaped, sizeof escaped, "\\%c", c);
        else if (c < 0x20)
            snprintf(escaped, sizeof escaped, "\\u%04x", c);
        else
            snprintf(escaped, sizeof escaped, "%c", c);
        done = add_text(to, escaped);
    }
    return done && add_text(to, "\"");
}

/* "yes,no" to ["yes","no"]. */
static int read_choices(run_settings *s, const char *list)
{
    if (!add_text(&s->format, "["))
        return run_no_memory();
    for (const char *at = list;;) {
        size_t n = strcspn(at, ",");
        if (n == 0)
            return msg_usage("--choice takes words with commas between them, such as yes,no");
        if ((at != list && !add_text(&s->format, ",")) || !add_quoted(&s->format, at, n))
            return run_no_memory();
        if (at[n] == '\0')
            break;
        at += n + 1;
    }
    return add_text(&s->format, "]") ? CLI_DONE : run_no_memory();
}

/* A schema is an object; what does not begin like one is a file's name. */
static int read_schema(run_settings *s, const char *given)
{
    if (given[strspn(given, " \t\r\n")] != '{')
        return input_read(&s->format, given);
    return add_text(&s->format, given) ? CLI_DONE : run_no_memory();
}

/* A grammar defines rules; what defines none is a file's name. */
static int read_grammar(run_settings *s, const char *given)
{
    if (strstr(given, "::=") == NULL)
        return input_read(&s->format, given);
    return add_text(&s->format, given) ? CLI_DONE : run_no_memory();
}

static int read_format(run_settings *s, const run_options *o)
{
    int n = (o->format != 0) + (o->schema != NULL) + (o->grammar != NULL) + (o->regex != NULL) +
            (o->choice != NULL);
    if (n > 1)
        return msg_usage("--json-schema, --format, --grammar, --regex and --choice exclude each "
                         "other");
    int code = CLI_DONE;
    if (o->format != 0) {
        s->answer.format = MOTE_FORMAT_JSON;
    } else if (o->schema != NULL) {
        s->answer.format = MOTE_FORMAT_JSON_SCHEMA;
        code = read_schema(s, o->schema);
    } else if (o->grammar != NULL) {
        s->answer.format = MOTE_FORMAT_GRAMMAR;
        code = read_grammar(s, o->grammar);
    } else if (o->regex != NULL) {
        s->answer.format = MOTE_FORMAT_REGEX;
        code = add_text(&s->format, o->regex) ? CLI_DONE : run_no_memory();
    } else if (o->choice != NULL) {
        s->answer.format = MOTE_FORMAT_CHOICES;
        code = read_choices(s, o->choice);
    }
    s->answer.format_text = s->format.p;
    s->answer.format_bytes = s->format.n;
    return code;
}

mote_sampling run_sampling(const run_options *o)
{
    return (mote_sampling){
        .temperature = (float)o->temperature,
        .top_k = (uint32_t)o->top_k,
        .top_p = (float)o->top_p,
        .min_p = (float)o->min_p,
        .presence = (float)o->presence,
        .frequency = (float)o->frequency,
        .repetition = (float)o->repeat_penalty,
        .repeat_last = MOTE_REPEAT_LAST,
        .seed = o->seed,
    };
}

static void read_sampling(run_settings *s, const run_options *o)
{
    mote_answer_options *a = &s->answer;
    a->sampling = run_sampling(o);
    a->set = (o->given.temperature ? MOTE_SET_TEMPERATURE : 0u) |
             (o->given.top_k ? MOTE_SET_TOP_K : 0u) | (o->given.top_p ? MOTE_SET_TOP_P : 0u) |
             (o->given.min_p ? MOTE_SET_MIN_P : 0u) | (o->given.presence ? MOTE_SET_PRESENCE : 0u) |
             (o->given.frequency ? MOTE_SET_FREQUENCY : 0u) |
             (o->given.repeat_penalty ? MOTE_SET_REPETITION : 0u);
    a->task = (mote_task)o->task;
    a->max_tokens = (uint32_t)o->max_tokens;
    a->stop = o->stop.items;
    a->n_stop = o->stop.n;
    a->no_loop_guard = o->no_loop_guard;
    s->seed_given = o->given.seed;
}

int run_settings_read(run_settings *s, const run_options *o)
{
    if (o->special)
        return msg_usage("--special needs --raw: in a conversation nothing people write becomes a "
                         "control token");
    read_sampling(s, o);
    int code = read_think(s, o);
    if (code == CLI_DONE)
        code = read_format(s, o);
    if (code == CLI_DONE && o->system != NULL)
        code = input_text_or_file(&s->system, o->system);
    if (code == CLI_DONE && o->messages != NULL)
        code = input_read(&s->messages, o->messages);
    if (code == CLI_DONE && o->tools != NULL)
        code = input_read(&s->tools, o->tools);
    return code;
}

void run_settings_free(run_settings *s)
{
    input_text_free(&s->format);
    input_text_free(&s->system);
    input_text_free(&s->messages);
    input_text_free(&s->tools);
}
