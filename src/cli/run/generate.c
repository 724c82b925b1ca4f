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

/* Drafts need rows of logits, which the engine does not have if memory was short. */
static mote_status completion_init_drafts(completion *a, mote_error *err)
{
    mote_engine *engine = a->on->engine;
    if (a->spec == SPEC_OFF || mote_engine_logits_rows(engine) == 1)
        return MOTE_OK;
    const spec_options options = {.max_items = 1, .draft = spec_draft_of(engine), .with = engine};
    TRY(spec_new(&a->tuner, &options, err));
    return spec_seq_new(&a->seq, (size_t)mote_session_context(a->on->session), err);
}

mote_status completion_init(completion *a, const flag_list *stop, mote_error *err)
{
    const mote_session *session = a->on->session;
    const size_t context = (size_t)mote_session_context(session);
    a->n_tokens = (size_t)mote_session_length(session);
    size_t room = context - a->n_tokens + 1;
    if (a->max_tokens != 0 && a->max_tokens < room)
        room = (size_t)a->max_tokens;
    TRY(stop_text_init(&a->stops, stop, err));
    a->ids.ids = mem_new(room, sizeof *a->ids.ids);
    a->tokens = mem_new(context + 1, sizeof *a->tokens);
    if (a->ids.ids == NULL || a->tokens == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: an answer of %zu tokens", room);
    memcpy(a->tokens, mote_session_tokens(session), a->n_tokens * sizeof *a->tokens);
    return completion_init_drafts(a, err);
}

void completion_fini(completion *a)
{
    spec_seq_free(a->seq);
    spec_free(a->tuner);
    mem_free(a->tokens);
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
    if (a->n_tokens >= mote_session_context(a->on->session)) {
        a->end = COMPLETION_CONTEXT;
        return false;
    }
    if (interrupt_pending()) {
        a->end = COMPLETION_INTERRUPTED;
        return false;
    }
    return true;
}

/* Samples the rows of the last step until the answer ends or needs another step. */
static mote_status completion_sample(completion *a, size_t rows, bool *ended, mote_error *err)
{
    mote_session *session = a->on->session;
    spec_walk walk;
    size_t row = spec_walk_begin(&walk, session, a->n_tokens, rows);
    for (bool more = true; more && !*ended;) {
        mote_choice choice;
        TRY(mote_sample(session, row, &a->sampling, &choice, err));
        if (a->first_token == 0)
            a->first_token = os_now();
        *ended = !completion_add_token(a, choice.token);
        const size_t same = a->n_tokens;
        if (*ended) {
            spec_walk_end(&walk, session, a->tokens, same, same);
            break;
        }
        a->tokens[a->n_tokens++] = choice.token;
        more = spec_walk_next(&walk, session, a->tokens, a->n_tokens, same, &row);
    }
    spec_walk_result(&walk, &a->item);
    a->drafted += a->item.n_draft;
    a->accepted += a->item.accepted;
    return MOTE_OK;
}

/* The most draft tokens that can be used. */
static size_t completion_draft_limit(const completion *a)
{
    const size_t room = (size_t)mote_session_context(a->on->session) - a->n_tokens;
    const uint64_t left = a->max_tokens != 0 ? a->max_tokens - a->ids.n : UINT64_MAX;
    return left <= room ? (size_t)left - 1 : room;
}

/* Appends the sampled token and possibly a draft. */
static mote_status completion_step(completion *a, double *plan_seconds, double *step_seconds,
                                   mote_error *err)
{
    mote_session *session = a->on->session;
    const double began = os_now();
    a->item = (spec_item){.seq = a->seq,
                          .session = session,
                          .tokens = a->tokens,
                          .n = a->n_tokens,
                          .held = (size_t)mote_session_length(session),
                          .mode = a->spec,
                          .limit = completion_draft_limit(a)};
    if (a->tuner != NULL)
        TRY(spec_plan(a->tuner, &a->item, 1, mote_engine_logits_rows(a->on->engine), err));
    const double planned = os_now();
    const mote_work work = spec_item_work(&a->item);
    const mote_status status = mote_step(a->on->engine, &work, 1, err);
    if (status != MOTE_OK)
        spec_item_undo(&a->item);
    *plan_seconds = planned - began;
    *step_seconds = os_now() - planned;
    return status;
}

static mote_status completion_loop(completion *a, mote_error *err)
{
    double plan_seconds, step_seconds;
    bool ended = false;
    TRY(completion_sample(a, 1, &ended, err));
    while (!ended) {
        TRY(completion_step(a, &plan_seconds, &step_seconds, err));
        TRY(completion_sample(a, spec_item_rows(&a->item), &ended, err));
        if (a->tuner != NULL)
            spec_observe(a->tuner, &a->item, 1, plan_seconds, step_seconds);
    }
    return MOTE_OK;
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
