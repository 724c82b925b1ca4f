/* SPDX-License-Identifier: Apache-2.0 */
/* generate.c - the token loop of `mote run --raw`, and stop strings; see run.h. */
#include "base/mem.h"
#include "base/os.h"
#include "cli/run/run.h"
#include "cli/term/terminal.h"
#include "cli/term/text.h"

#include <assert.h>
#include <string.h>

/* ---- stop strings ---- */

mote_status stop_text_init(stop_text *s, const flag_list *words, mote_error *err)
{
    *s = (stop_text){.words = words, .room = STOP_WORD_MAX + MOTE_PIECE_BYTES};
    for (size_t i = 0; i < words->n; i++) {
        size_t n = strlen(words->items[i]);
        if (n == 0 || n > STOP_WORD_MAX)
            return err_set(err, MOTE_E_ARG, "--stop must have 1 to %d bytes", STOP_WORD_MAX);
    }
    s->held = mem_new(s->room, 1);
    return s->held != NULL ? MOTE_OK : err_set(err, MOTE_E_MEMORY, "out of memory: --stop");
}

void stop_text_fini(stop_text *s)
{
    mem_free(s->held);
    *s = (stop_text){0};
}

/* Bytes before the first complete stop string; n_held: none. */
static size_t stop_find(const stop_text *s)
{
    for (size_t at = 0; at < s->n_held; at++)
        for (size_t i = 0; i < s->words->n; i++) {
            size_t n = strlen(s->words->items[i]);
            if (n <= s->n_held - at && memcmp(s->held + at, s->words->items[i], n) == 0)
                return at;
        }
    return s->n_held;
}

/* Bytes before a tail of the text that is the beginning of a stop string; n_held: none. */
static size_t stop_find_beginning(const stop_text *s)
{
    for (size_t at = 0; at < s->n_held; at++)
        for (size_t i = 0; i < s->words->n; i++)
            if (strlen(s->words->items[i]) > s->n_held - at &&
                memcmp(s->held + at, s->words->items[i], s->n_held - at) == 0)
                return at;
    return s->n_held;
}

size_t stop_text_add(stop_text *s, const char *piece, size_t n, bool *stopped)
{
    assert(n <= s->room - s->n_held);
    if (n > 0)
        memcpy(s->held + s->n_held, piece, n);
    s->n_held += n;
    size_t before = stop_find(s);
    *stopped = before < s->n_held;
    return *stopped ? before : stop_find_beginning(s);
}

void stop_text_drop(stop_text *s, size_t n)
{
    memmove(s->held, s->held + n, s->n_held - n);
    s->n_held -= n;
}

/* ---- the token loop ---- */

mote_status completion_init(completion *a, const flag_list *stop, mote_error *err)
{
    size_t room =
        (size_t)(mote_session_context(a->on->session) - mote_session_length(a->on->session)) + 1;
    if (a->max_tokens != 0 && a->max_tokens < room)
        room = (size_t)a->max_tokens;
    TRY(stop_text_init(&a->stops, stop, err));
    a->ids.ids = mem_new(room, sizeof *a->ids.ids);
    if (a->ids.ids == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: an answer of %zu tokens", room);
    return MOTE_OK;
}

void completion_fini(completion *a)
{
    stop_text_fini(&a->stops);
    input_ids_free(&a->ids);
    strbuf_fini(&a->text);
}

/* Outputs text. False: failed, a->end says why. */
static bool completion_output(completion *a, const char *text, size_t n)
{
    if (a->stream == NULL) {
        a->end = COMPLETION_FAILED;
        return text_add(&a->text, text, n);
    }
    a->end = COMPLETION_UNREAD;
    out_shown(a->stream, text, n);
    return n == 0 || out_flush(a->stream);
}

/* Adds the text of a token; id < 0 flushes the held text. False: ended, a->end says why. */
static bool completion_add_text(completion *a, mote_token id)
{
    char piece[MOTE_PIECE_BYTES];
    size_t n = mote_text_next(a->on->model, &a->characters, id, piece, sizeof piece);
    bool stopped;
    size_t ready = stop_text_add(&a->stops, piece, n, &stopped);
    if (id < 0 && !stopped)
        ready = a->stops.n_held;
    if (!completion_output(a, a->stops.held, ready))
        return false;
    stop_text_drop(&a->stops, ready);
    if (stopped)
        a->end = COMPLETION_STOP_TEXT;
    return !stopped;
}

/* Adds a sampled token. False: it was the last one. */
static bool completion_add_token(completion *a, mote_token id)
{
    if (mote_token_is_end(a->on->model, id)) {
        a->end = COMPLETION_END_TOKEN;
        return false;
    }
    a->ids.ids[a->ids.n++] = id;
    bool hidden = !a->show_control && mote_token_is_control(a->on->model, id);
    if (!hidden && !completion_add_text(a, id))
        return false;
    if (a->max_tokens != 0 && a->ids.n >= a->max_tokens) {
        a->end = COMPLETION_MAX_TOKENS;
        return false;
    }
    if (mote_session_length(a->on->session) >= mote_session_context(a->on->session)) {
        a->end = COMPLETION_CONTEXT;
        return false;
    }
    if (interrupt_pending()) {
        a->end = COMPLETION_INTERRUPTED;
        return false;
    }
    return true;
}

static mote_status completion_loop(completion *a, mote_error *err)
{
    for (;;) {
        mote_choice choice;
        TRY(mote_sample(a->on->session, 0, &a->sampling, &choice, err));
        if (a->first_token == 0)
            a->first_token = os_now();
        if (!completion_add_token(a, choice.token))
            return MOTE_OK;
        mote_work work = {.session = a->on->session, .tokens = &choice.token, .n = 1};
        TRY(mote_step(a->on->engine, &work, 1, err));
    }
}

mote_status completion_run(completion *a, mote_error *err)
{
    mote_status status = completion_loop(a, err);
    a->ended = os_now();
    if (status == MOTE_E_CANCELED) {
        a->end = COMPLETION_INTERRUPTED;
        status = MOTE_OK;
    } else if (status != MOTE_OK) {
        a->end = COMPLETION_FAILED;
    }
    /* Text held back for a stop string that did not follow belongs to the answer. */
    if (a->end != COMPLETION_STOP_TEXT && a->end != COMPLETION_UNREAD) {
        completion_end end = a->end;
        if (completion_add_text(a, -1))
            a->end = end;
    }
    if (a->end == COMPLETION_FAILED && status == MOTE_OK)
        return err_set(err, MOTE_E_MEMORY, "out of memory: the text of an answer");
    return status;
}

const char *completion_end_name(completion_end end)
{
    static const char *const names[] = {
        [COMPLETION_END_TOKEN] = "end_token",   [COMPLETION_STOP_TEXT] = "stop_text",
        [COMPLETION_MAX_TOKENS] = "max_tokens", [COMPLETION_CONTEXT] = "context",
        [COMPLETION_INTERRUPTED] = "interrupt", [COMPLETION_UNREAD] = "unread",
        [COMPLETION_FAILED] = "error",
    };
    return names[end];
}

const char *completion_finish(completion_end end)
{
    switch (end) {
    case COMPLETION_END_TOKEN:
    case COMPLETION_STOP_TEXT: return "stop";
    case COMPLETION_MAX_TOKENS:
    case COMPLETION_CONTEXT: return "length";
    case COMPLETION_INTERRUPTED:
    case COMPLETION_UNREAD: return "interrupted";
    case COMPLETION_FAILED: return "error";
    }
    return "error";
}
