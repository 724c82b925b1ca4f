/* SPDX-License-Identifier: Apache-2.0 */
/* answer_options.c - from the flags of `mote run` to the options of an answer. */
#include "cli/chat/answer_options.h"

#include "base/os.h"
#include "cli/term/output.h"
#include "cli/term/text.h"
#include "json/json_writer.h"

#include <stdio.h>
#include <string.h>

/* ---- response format ---- */

/* "yes,no" to ["yes","no"]. */
static int options_read_choices(answer_options *s, const char *list)
{
    strbuf_byte(&s->format, '[');
    for (const char *at = list;;) {
        size_t n = strcspn(at, ",");
        if (n == 0)
            return msg_usage("--choice must be words separated by commas, such as yes,no");
        if (at != list)
            strbuf_byte(&s->format, ',');
        json_put_string(&s->format, (str){at, n});
        if (at[n] == '\0')
            break;
        at += n + 1;
    }
    strbuf_byte(&s->format, ']');
    return CLI_DONE;
}

/* The value of a flag if `inlined`, else the file that it names. */
static int options_read_format_text(answer_options *s, const char *given, bool inlined)
{
    if (!inlined)
        return input_read(&s->format, given);
    strbuf_text(&s->format, given);
    return CLI_DONE;
}

static int options_read_format(answer_options *s, const answer_flags *o)
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
        /* A schema is an object; everything else is a file name. */
        s->answer.format = MOTE_FORMAT_JSON_SCHEMA;
        code =
            options_read_format_text(s, o->schema, o->schema[strspn(o->schema, " \t\r\n")] == '{');
    } else if (o->grammar != NULL) {
        /* A grammar defines rules; a text without a definition is a file name. */
        s->answer.format = MOTE_FORMAT_GRAMMAR;
        code = options_read_format_text(s, o->grammar, strstr(o->grammar, "::=") != NULL);
    } else if (o->regex != NULL) {
        s->answer.format = MOTE_FORMAT_REGEX;
        code = options_read_format_text(s, o->regex, true);
    } else if (o->choice != NULL) {
        s->answer.format = MOTE_FORMAT_CHOICES;
        code = options_read_choices(s, o->choice);
    }
    if (code == CLI_DONE && s->format.failed)
        code = input_no_memory();
    s->answer.format_text = s->format.p;
    s->answer.format_bytes = s->format.n;
    return code;
}

/* ---- sampling and texts ---- */

mote_sampling answer_flags_sampling(const answer_flags *o)
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

static void options_read_sampling(answer_options *s, const answer_flags *o)
{
    mote_answer_options *a = &s->answer;
    a->sampling = answer_flags_sampling(o);
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
    a->spec = spec_flag_read(o->spec);
    s->seed_given = o->given.seed;
}

int answer_options_read(answer_options *s, const answer_flags *o)
{
    if (o->special)
        return msg_usage("--special needs --raw: in a chat, text never becomes a control token");
    options_read_sampling(s, o);
    think_flag_read(o->no_think ? "off" : o->think, &s->answer.think, &s->answer.think_budget);
    int code = options_read_format(s, o);
    if (code == CLI_DONE && o->system != NULL)
        code = input_text_or_file(&s->system, o->system);
    if (code == CLI_DONE && o->messages != NULL)
        code = input_read(&s->messages, o->messages);
    if (code == CLI_DONE && o->tools != NULL)
        code = input_read(&s->tools, o->tools);
    return code;
}

void answer_options_free(answer_options *s)
{
    strbuf_fini(&s->format);
    strbuf_fini(&s->system);
    strbuf_fini(&s->messages);
    strbuf_fini(&s->tools);
}

uint64_t answer_new_seed(void)
{
    uint32_t seed = 0;
    if (!os_random(&seed, sizeof seed))
        seed = (uint32_t)(os_now() * 1e6);
    return seed;
}

/* ---- the prompt ---- */

/* Appends a file after an empty line, without its final newline. */
static int prompt_add_file(strbuf *prompt, const char *path)
{
    strbuf text = {0};
    int code = input_read(&text, path);
    if (text.n > 0 && text.p[text.n - 1] == '\n')
        text.n--;
    if (code == CLI_DONE) {
        if (prompt->n > 0 && text.n > 0)
            strbuf_text(prompt, "\n\n");
        strbuf_put(prompt, strbuf_view(&text));
    }
    strbuf_fini(&text);
    return code;
}

int answer_read_prompt(strbuf *prompt, size_t *typed, const cli_call *call)
{
    const answer_flags *o = call->options;
    const char *const *words = call->words + 1; /* the first word is the model */
    const size_t n_words = call->n_words - 1;
    if (o->prompt != NULL && n_words > 0)
        return msg_usage("two prompts: '%.40s' and --prompt; give one", words[0]);
    if (o->prompt != NULL)
        strbuf_text(prompt, o->prompt);
    for (size_t i = 0; i < n_words; i++) {
        if (i > 0)
            strbuf_byte(prompt, ' ');
        strbuf_text(prompt, words[i]);
    }
    *typed = prompt->n;
    const char *path = o->file != NULL ? o->file : input_has_stdin() ? "-" : NULL;
    const int code = path != NULL ? prompt_add_file(prompt, path) : CLI_DONE;
    return code == CLI_DONE && prompt->failed ? input_no_memory() : code;
}

/* ---- reports ---- */

double answer_per_second(uint64_t n, double seconds)
{
    return seconds > 0 ? (double)n / seconds : 0;
}

const char *answer_prompt_text(char *line, uint64_t prompt, uint64_t cached, uint64_t prefilled,
                               double seconds)
{
    char a[TEXT_NUMBER_BYTES], b[TEXT_NUMBER_BYTES], c[TEXT_NUMBER_BYTES], d[TEXT_NUMBER_BYTES];
    const bool whole = cached + prefilled >= prompt;
    snprintf(line, ANSWER_PROMPT_BYTES, "prompt %s%s%s in %s (%s t/s)",
             whole ? "" : text_count(a, cached + prefilled), whole ? "" : " of ",
             text_counted(b, prompt, "token"), text_seconds(c, seconds),
             text_rate(d, answer_per_second(prefilled, seconds)));
    return line;
}

const char *answer_drafts_text(char *text, const mote_answer *a)
{
    text[0] = '\0';
    if (a->drafted_tokens > 0)
        snprintf(text, ANSWER_DRAFTS_BYTES, "   drafts %llu/%llu",
                 (unsigned long long)a->accepted_tokens, (unsigned long long)a->drafted_tokens);
    return text;
}

void answer_write_sampling(strbuf *j, const mote_sampling *s)
{
    jw_key(j, "sampling");
    jw_open(j, '{');
    jw_key_float(j, "temperature", s->temperature);
    jw_key_float(j, "top_p", s->top_p);
    jw_key_uint(j, "top_k", s->top_k);
    jw_key_float(j, "min_p", s->min_p);
    jw_key_float(j, "presence_penalty", s->presence);
    jw_key_float(j, "frequency_penalty", s->frequency);
    jw_key_float(j, "repetition_penalty", s->repetition);
    jw_key_uint(j, "seed", s->seed);
    jw_close(j, '}');
}
