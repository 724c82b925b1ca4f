/* SPDX-License-Identifier: Apache-2.0 */
/* answer_view.c - see chat_screen.h. */
#include "cli/chat/answer_view.h"

#include "base/os.h"
#include "cli/term/output_messages.h"
#include "cli/term/terminal.h"
#include "cli/term/text.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static unsigned columns_now(void)
{
    return term_columns(STDOUT_FILENO);
}

static bool for_a_person(const chat_screen *s)
{
    return s->out != NULL && s->out->terminal;
}

static const char *mark(void)
{
    return term_utf8() ? "\xE2\x96\xB8 " : "> "; /* a small triangle */
}

static void collect(chat_screen *s, input_text *to, const char *text, size_t n)
{
    if (!input_add(to, text, n))
        s->out_of_memory = true;
}

void screen_begin(chat_screen *s)
{
    s->content.n = 0;
    s->reasoning.n = 0;
    s->calls.n = 0;
    s->out_of_memory = false;
    s->place = SCREEN_WAITING;
    s->begun = false;
    s->reading = false;
    if (s->out != NULL)
        wrap_begin(&s->text, s->out, for_a_person(s) ? columns_now : NULL);
}

static void stop_reading(chat_screen *s)
{
    if (s->reading)
        progress_end(&s->prompt);
    s->reading = false;
}

static void show_reading(chat_screen *s, uint64_t done, uint64_t total)
{
    if (!s->reading)
        progress_begin(&s->prompt, "reading", PROGRESS_TOKENS, total);
    s->reading = true;
    s->prompt.total = total;
    progress_at(&s->prompt, done);
}

static void close_line(chat_screen *s)
{
    wrap_end(&s->text);
    if (s->out->line_open)
        out_text(s->out, "\n");
    wrap_begin(&s->text, s->out, s->text.columns);
}

static void begin_thinking(chat_screen *s)
{
    s->place = SCREEN_THINKING;
    s->begun = false;
    s->thinking_since = os_now();
    s->folded_seconds = UINT_MAX;
    if (for_a_person(s) && !s->fold) {
        out_printf(s->out, "%s%sthinking\n", term_code(STDOUT_FILENO, TERM_DIM), mark());
        out_flush(s->out);
    }
}

/* "thought for 3.1 s", in place of what folded thinking showed or under the open one. */
static void end_thinking(chat_screen *s)
{
    s->place = SCREEN_ANSWER;
    s->begun = false;
    progress_wipe();
    if (!for_a_person(s))
        return;
    char seconds[TEXT_NUMBER_BYTES];
    close_line(s);
    out_printf(s->out, "%s%sthought for %s%s%s\n", term_code(STDOUT_FILENO, TERM_DIM), mark(),
               text_seconds(seconds, os_now() - s->thinking_since),
               s->fold ? " (/fold shows it)" : "", term_code(STDOUT_FILENO, TERM_PLAIN));
}

/* Newlines before the first word only tear a hole. */
static bool skip_newlines(chat_screen *s, const char **text, size_t *n)
{
    while (!s->begun && *n > 0 && **text == '\n') {
        ++*text;
        --*n;
    }
    s->begun = s->begun || *n > 0;
    return *n > 0;
}

static void show_folded(chat_screen *s)
{
    char line[128];
    unsigned seconds = (unsigned)(os_now() - s->thinking_since);
    if (seconds == s->folded_seconds)
        return; /* a line that says the same need not be drawn */
    s->folded_seconds = seconds;
    snprintf(line, sizeof line, "%s%sthinking %s  %u s%s", term_code(STDERR_FILENO, TERM_DIM),
             mark(), term_utf8() ? "\xE2\x80\xA6" : "...", seconds,
             term_code(STDERR_FILENO, TERM_PLAIN));
    progress_show(line);
}

static void add_reasoning(chat_screen *s, const char *text, size_t n)
{
    collect(s, &s->reasoning, text, n);
    if (s->place != SCREEN_THINKING)
        begin_thinking(s);
    if (!for_a_person(s))
        return;
    if (s->fold) {
        show_folded(s);
    } else if (skip_newlines(s, &text, &n)) {
        wrap_text(&s->text, text, n);
        out_flush(s->out);
    }
}

static void add_content(chat_screen *s, const char *text, size_t n)
{
    if (s->place == SCREEN_THINKING)
        end_thinking(s);
    s->place = SCREEN_ANSWER;
    collect(s, &s->content, text, n);
    if (s->out == NULL)
        return;
    if (!for_a_person(s))
        out_write(s->out, text, n);
    else if (skip_newlines(s, &text, &n))
        wrap_text(&s->text, text, n);
    out_flush(s->out);
}

/* {"name":...,"arguments":{...}} on a line of its own. */
static void show_call(chat_screen *s, const mote_chat_event *event)
{
    if (s->out->terminal)
        close_line(s);
    else if (s->out->line_open)
        out_text(s->out, "\n");
    json j = {.to = s->out};
    json_begin_object(&j);
    json_key(&j, "name");
    json_bytes(&j, event->name, event->name_bytes);
    json_key(&j, "arguments");
    json_raw(&j, event->text, event->text_bytes);
    json_end_object(&j);
    out_flush(s->out);
}

static void add_call(chat_screen *s, const mote_chat_event *event)
{
    if (s->place == SCREEN_THINKING)
        end_thinking(s);
    s->place = SCREEN_ANSWER;
    s->begun = false;
    collect(s, &s->calls, event->name, event->name_bytes);
    collect(s, &s->calls, "", 1);
    collect(s, &s->calls, event->text, event->text_bytes);
    collect(s, &s->calls, "", 1);
    if (s->out != NULL)
        show_call(s, event);
}

static void add_warning(const mote_chat_event *event)
{
    msg_detail("warning: %.*s%s%.*s", (int)event->name_bytes, event->name,
               event->text_bytes > 0 ? ": " : "",
               event->text_bytes < 200 ? (int)event->text_bytes : 200,
               event->text_bytes > 0 ? event->text : "");
}

void screen_event(chat_screen *s, const mote_chat_event *event)
{
    if (event->kind == MOTE_CHAT_PREFILL) {
        show_reading(s, event->done, event->total);
        return;
    }
    stop_reading(s);
    switch (event->kind) {
    case MOTE_CHAT_REASONING: add_reasoning(s, event->text, event->text_bytes); break;
    case MOTE_CHAT_CONTENT: add_content(s, event->text, event->text_bytes); break;
    case MOTE_CHAT_CALL_END: add_call(s, event); break;
    case MOTE_CHAT_WARNING: add_warning(event); break;
    case MOTE_CHAT_PREFILL:
    case MOTE_CHAT_CALL_START:
    case MOTE_CHAT_CALL_ARGUMENTS:
    case MOTE_CHAT_CALL_CANCEL: break; /* a call is shown when it is one */
    }
}

void screen_end(chat_screen *s)
{
    stop_reading(s);
    if (s->place == SCREEN_THINKING)
        end_thinking(s);
    if (s->out == NULL)
        return;
    wrap_end(&s->text);
    if (s->out->line_open)
        out_text(s->out, "\n");
    out_flush(s->out);
}

void screen_free(chat_screen *s)
{
    input_text_free(&s->content);
    input_text_free(&s->reasoning);
    input_text_free(&s->calls);
}

void screen_write_calls(const chat_screen *s, json *j)
{
    json_begin_array(j);
    unsigned number = 0;
    for (size_t at = 0; at < s->calls.n && !s->out_of_memory; number++) {
        const char *name = s->calls.p + at;
        const char *arguments = name + strlen(name) + 1;
        at = (size_t)(arguments + strlen(arguments) + 1 - s->calls.p);
        char id[24];
        snprintf(id, sizeof id, "call_%u", number);
        json_begin_object(j);
        json_key_text(j, "id", id);
        json_key_text(j, "type", "function");
        json_key(j, "function");
        json_begin_object(j);
        json_key_text(j, "name", name);
        json_key_text(j, "arguments", arguments);
        json_end_object(j);
        json_end_object(j);
    }
    json_end_array(j);
}

void screen_show_reasoning(chat_screen *s)
{
    const char *text = s->reasoning.p;
    size_t n = s->reasoning.n;
    s->begun = false;
    wrap_begin(&s->text, s->out, columns_now);
    if (!skip_newlines(s, &text, &n))
        return;
    out_text(s->out, term_code(STDOUT_FILENO, TERM_DIM));
    wrap_text(&s->text, text, n);
    wrap_end(&s->text);
    out_printf(s->out, "%s\n", term_code(STDOUT_FILENO, TERM_PLAIN));
    out_flush(s->out);
}
