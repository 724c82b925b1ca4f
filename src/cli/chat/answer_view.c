/* SPDX-License-Identifier: Apache-2.0 */
/* answer_view.c - streams an answer to a terminal or a pipe; word wrap. See conversation.h. */
#include "base/os.h"
#include "cli/chat/conversation.h"
#include "cli/term/output.h"
#include "cli/term/terminal.h"
#include "cli/term/text.h"
#include "json/json_writer.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <utf8proc.h>

/* ---- word wrap ---- */

enum { TAB = 8, FENCE_TICKS = 3 };

void wrap_begin(wrap *w, cli_out *to, unsigned (*columns)(void))
{
    *w = (wrap){.to = to, .columns = columns};
}

unsigned wrap_char_columns(uint32_t code)
{
    int width = utf8proc_charwidth((utf8proc_int32_t)code);
    if (width > 0)
        return (unsigned)width;
    /* utf8proc reports 0 for unassigned characters; terminals show a box for them. */
    utf8proc_category_t kind = utf8proc_category((utf8proc_int32_t)code);
    bool joins = kind == UTF8PROC_CATEGORY_MN || kind == UTF8PROC_CATEGORY_ME ||
                 kind == UTF8PROC_CATEGORY_CF;
    return joins ? 0 : 1;
}

static void wrap_new_line(wrap *w)
{
    out_write(w->to, "\n", 1);
    w->column = 0;
    w->blanks = 0;
}

/* Writes the word, on the next line if it does not fit on this one. */
static void wrap_place_word(wrap *w)
{
    if (w->n_word == 0)
        return;
    unsigned columns = w->columns != NULL ? w->columns() : 0;
    if (columns > 0 && w->column > 0 && w->column + w->blanks + w->word_columns > columns)
        wrap_new_line(w);
    out_spaces(w->to, w->blanks);
    out_write(w->to, w->word, w->n_word);
    w->column += w->blanks + w->word_columns;
    w->blanks = 0;
    w->n_word = 0;
    w->word_columns = 0;
}

static void wrap_add_to_word(wrap *w, const char *shown, size_t n_shown, unsigned columns)
{
    bool longer_than_a_line = w->columns != NULL && w->word_columns + columns > w->columns();
    if (longer_than_a_line || w->n_word + n_shown > WRAP_WORD_BYTES)
        wrap_place_word(w);
    memcpy(w->word + w->n_word, shown, n_shown);
    w->n_word += n_shown;
    w->word_columns += columns;
}

static void wrap_end_line(wrap *w)
{
    wrap_place_word(w);
    wrap_new_line(w);
    w->inside_line = false;
    w->ticks = 0;
}

/* Detects ``` at the beginning of a line, after optional spaces. */
static void wrap_watch_fence(wrap *w, uint32_t code)
{
    if (w->inside_line || code == ' ')
        return;
    if (code != '`') {
        w->inside_line = true;
        return;
    }
    if (++w->ticks < FENCE_TICKS)
        return;
    w->inside_line = true;
    w->fence = !w->fence;
}

static void wrap_add_blank(wrap *w, uint32_t code)
{
    wrap_place_word(w);
    unsigned at = w->column + w->blanks;
    w->blanks += code == '\t' ? TAB - at % TAB : 1;
    if (w->fence) { /* trailing spaces belong to the code */
        out_spaces(w->to, w->blanks);
        w->column += w->blanks;
        w->blanks = 0;
    }
}

static void wrap_add_char(wrap *w, uint32_t code, const char *shown, size_t n_shown, bool escaped)
{
    unsigned columns = escaped ? (unsigned)n_shown : wrap_char_columns(code);
    wrap_watch_fence(w, code);
    if (w->fence) {
        wrap_place_word(w);
        out_write(w->to, shown, n_shown);
        w->column += columns;
        return;
    }
    bool alone = columns == 2 && !escaped;
    if (alone)
        wrap_place_word(w);
    wrap_add_to_word(w, shown, n_shown, columns);
    if (alone)
        wrap_place_word(w);
}

void wrap_text(wrap *w, const char *text, size_t n)
{
    while (n > 0) {
        uint32_t code = 0;
        text_char(text, n, &code);
        char shown[TEXT_SHOWN_BYTES];
        size_t n_shown;
        size_t taken = text_show(text, n, TEXT_LINES, shown, &n_shown);
        if (code == '\n')
            wrap_end_line(w);
        else if (code == ' ' || code == '\t')
            wrap_add_blank(w, code);
        else
            wrap_add_char(w, code, shown, n_shown,
                          n_shown != taken || memcmp(shown, text, taken) != 0);
        text += taken;
        n -= taken;
    }
}

void wrap_end(wrap *w)
{
    wrap_place_word(w);
}

/* ---- the view ---- */

static unsigned view_columns(void)
{
    return term_columns(STDOUT_FILENO);
}

static bool view_is_terminal(const answer_view *s)
{
    return s->out != NULL && s->out->terminal;
}

static const char *view_marker(void)
{
    return term_utf8() ? "\xE2\x96\xB8 " : "> "; /* a small triangle */
}

static void view_collect(answer_view *s, strbuf *to, const char *text, size_t n)
{
    if (!text_add(to, text, n))
        s->out_of_memory = true;
}

void answer_view_begin(answer_view *s)
{
    s->content.n = 0;
    s->reasoning.n = 0;
    s->calls.n = 0;
    s->out_of_memory = false;
    s->place = VIEW_WAITING;
    s->begun = false;
    s->prefilling = false;
    if (s->out != NULL)
        wrap_begin(&s->text, s->out, view_is_terminal(s) ? view_columns : NULL);
}

static void view_end_prefill(answer_view *s)
{
    if (s->prefilling)
        progress_end(&s->prompt);
    s->prefilling = false;
}

static void view_show_prefill(answer_view *s, uint64_t done, uint64_t total)
{
    if (!s->prefilling) /* the first event has the cached tokens */
        progress_begin(&s->prompt, "prefill", PROGRESS_TOKENS, done, total);
    s->prefilling = true;
    progress_at(&s->prompt, done);
}

static void view_close_line(answer_view *s)
{
    wrap_end(&s->text);
    if (s->out->line_open)
        out_text(s->out, "\n");
    wrap_begin(&s->text, s->out, s->text.columns);
}

static void view_begin_thinking(answer_view *s)
{
    s->place = VIEW_THINKING;
    s->begun = false;
    s->thinking_since = os_now();
    s->folded_seconds = UINT_MAX;
    if (view_is_terminal(s) && !s->fold) {
        out_printf(s->out, "%s%sthinking\n", term_code(STDOUT_FILENO, TERM_DIM), view_marker());
        out_flush(s->out);
    }
}

/* Prints "thought for 3.1 s", in place of the folded line or below the text. */
static void view_end_thinking(answer_view *s)
{
    s->place = VIEW_ANSWER;
    s->begun = false;
    progress_clear();
    if (!view_is_terminal(s))
        return;
    char seconds[TEXT_NUMBER_BYTES];
    view_close_line(s);
    out_printf(s->out, "%s%sthought for %s%s%s\n", term_code(STDOUT_FILENO, TERM_DIM),
               view_marker(), text_seconds(seconds, os_now() - s->thinking_since),
               s->fold ? " (/fold shows it)" : "", term_code(STDOUT_FILENO, TERM_PLAIN));
}

/* Skips newlines before the first word. */
static bool view_skip_newlines(answer_view *s, const char **text, size_t *n)
{
    while (!s->begun && *n > 0 && **text == '\n') {
        ++*text;
        --*n;
    }
    s->begun = s->begun || *n > 0;
    return *n > 0;
}

static void view_show_folded(answer_view *s)
{
    char line[128];
    unsigned seconds = (unsigned)(os_now() - s->thinking_since);
    if (seconds == s->folded_seconds)
        return; /* unchanged */
    s->folded_seconds = seconds;
    snprintf(line, sizeof line, "%s%sthinking %s  %u s%s", term_code(STDERR_FILENO, TERM_DIM),
             view_marker(), term_utf8() ? "\xE2\x80\xA6" : "...", seconds,
             term_code(STDERR_FILENO, TERM_PLAIN));
    progress_show(line);
}

static void view_add_reasoning(answer_view *s, const char *text, size_t n)
{
    view_collect(s, &s->reasoning, text, n);
    if (s->place != VIEW_THINKING)
        view_begin_thinking(s);
    if (!view_is_terminal(s))
        return;
    if (s->fold) {
        view_show_folded(s);
    } else if (view_skip_newlines(s, &text, &n)) {
        wrap_text(&s->text, text, n);
        out_flush(s->out);
    }
}

static void view_add_content(answer_view *s, const char *text, size_t n)
{
    if (s->place == VIEW_THINKING)
        view_end_thinking(s);
    s->place = VIEW_ANSWER;
    view_collect(s, &s->content, text, n);
    if (s->out == NULL)
        return;
    if (!view_is_terminal(s))
        out_write(s->out, text, n);
    else if (view_skip_newlines(s, &text, &n))
        wrap_text(&s->text, text, n);
    out_flush(s->out);
}

/* {"name":...,"arguments":{...}} on one line. */
static void view_show_call(answer_view *s, const mote_chat_event *event)
{
    if (s->out->terminal)
        view_close_line(s);
    else if (s->out->line_open)
        out_text(s->out, "\n");
    strbuf j = {0};
    jw_open(&j, '{');
    jw_key_str(&j, "name", (str){event->name, event->name_bytes});
    jw_key(&j, "arguments");
    jw_raw(&j, (str){event->text, event->text_bytes});
    jw_close(&j, '}');
    s->out_of_memory |= j.failed;
    out_json(s->out, &j);
    out_flush(s->out);
}

static void view_add_call(answer_view *s, const mote_chat_event *event)
{
    if (s->place == VIEW_THINKING)
        view_end_thinking(s);
    s->place = VIEW_ANSWER;
    s->begun = false;
    view_collect(s, &s->calls, event->name, event->name_bytes);
    view_collect(s, &s->calls, "", 1);
    view_collect(s, &s->calls, event->text, event->text_bytes);
    view_collect(s, &s->calls, "", 1);
    if (s->out != NULL)
        view_show_call(s, event);
}

static void view_add_warning(const mote_chat_event *event)
{
    msg_detail("warning: %.*s%s%.*s", (int)event->name_bytes, event->name,
               event->text_bytes > 0 ? ": " : "",
               event->text_bytes < 200 ? (int)event->text_bytes : 200,
               event->text_bytes > 0 ? event->text : "");
}

void answer_view_event(answer_view *s, const mote_chat_event *event)
{
    if (event->kind == MOTE_CHAT_PREFILL) {
        view_show_prefill(s, event->done, event->total);
        return;
    }
    view_end_prefill(s);
    switch (event->kind) {
    case MOTE_CHAT_REASONING: view_add_reasoning(s, event->text, event->text_bytes); break;
    case MOTE_CHAT_CONTENT: view_add_content(s, event->text, event->text_bytes); break;
    case MOTE_CHAT_CALL_END: view_add_call(s, event); break;
    case MOTE_CHAT_WARNING: view_add_warning(event); break;
    case MOTE_CHAT_PREFILL:
    case MOTE_CHAT_CALL_START:
    case MOTE_CHAT_CALL_ARGUMENTS:
    case MOTE_CHAT_CALL_CANCEL: break; /* a call is shown when it is complete */
    }
}

void answer_view_end(answer_view *s)
{
    view_end_prefill(s);
    if (s->place == VIEW_THINKING)
        view_end_thinking(s);
    if (s->out == NULL)
        return;
    wrap_end(&s->text);
    if (s->out->line_open)
        out_text(s->out, "\n");
    out_flush(s->out);
}

void answer_view_free(answer_view *s)
{
    strbuf_fini(&s->content);
    strbuf_fini(&s->reasoning);
    strbuf_fini(&s->calls);
}

void answer_view_write_calls(const answer_view *s, strbuf *j)
{
    jw_open(j, '[');
    unsigned number = 0;
    for (size_t at = 0; at < s->calls.n && !s->out_of_memory; number++) {
        const char *name = s->calls.p + at;
        const char *arguments = name + strlen(name) + 1;
        at = (size_t)(arguments + strlen(arguments) + 1 - s->calls.p);
        char id[24];
        snprintf(id, sizeof id, "call_%u", number);
        jw_open(j, '{');
        jw_key_text(j, "id", id);
        jw_key_text(j, "type", "function");
        jw_key(j, "function");
        jw_open(j, '{');
        jw_key_text(j, "name", name);
        jw_key_text(j, "arguments", arguments);
        jw_close(j, '}');
        jw_close(j, '}');
    }
    jw_close(j, ']');
}

void answer_view_show_reasoning(answer_view *s)
{
    const char *text = s->reasoning.p;
    size_t n = s->reasoning.n;
    s->begun = false;
    wrap_begin(&s->text, s->out, view_columns);
    if (!view_skip_newlines(s, &text, &n))
        return;
    out_text(s->out, term_code(STDOUT_FILENO, TERM_DIM));
    wrap_text(&s->text, text, n);
    wrap_end(&s->text);
    out_printf(s->out, "%s\n", term_code(STDOUT_FILENO, TERM_PLAIN));
    out_flush(s->out);
}
