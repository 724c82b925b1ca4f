/* SPDX-License-Identifier: Apache-2.0 */
/* generate.c - see answer.h. */
#include "cli/run/generate.h"

#include "base/mem.h"
#include "base/os.h"
#include "cli/term/interrupt.h"

mote_status answer_init(answer *a, const flag_list *stop, mote_error *err)
{
    size_t room =
        (size_t)(mote_session_context(a->on->session) - mote_session_length(a->on->session)) + 1;
    if (a->max_tokens != 0 && a->max_tokens < room)
        room = (size_t)a->max_tokens;
    TRY(stop_text_init(&a->stops, stop, err));
    a->ids.ids = mem_new(room, sizeof *a->ids.ids);
    if (a->ids.ids == NULL)
        return err_set(err, MOTE_E_MEMORY, "no memory for an answer of %zu tokens", room);
    return MOTE_OK;
}

void answer_fini(answer *a)
{
    stop_text_fini(&a->stops);
    input_ids_free(&a->ids);
    input_text_free(&a->text);
}

/* Passes on text that is certain. False: it goes nowhere, a->end says why. */
static bool pass_on(answer *a, const char *text, size_t n)
{
    if (a->stream == NULL) {
        a->end = ANSWER_FAILED;
        return input_add(&a->text, text, n);
    }
    a->end = ANSWER_UNREAD;
    out_shown(a->stream, text, n);
    return n == 0 || out_flush(a->stream);
}

/* Adds a token's text, or with id < 0 what is left. False: the answer is over, a->end says why. */
static bool add_text(answer *a, mote_token id)
{
    char piece[MOTE_PIECE_BYTES];
    size_t n = mote_text_next(a->on->model, &a->characters, id, piece, sizeof piece);
    bool stopped;
    size_t ready = stop_text_add(&a->stops, piece, n, &stopped);
    if (id < 0 && !stopped)
        ready = a->stops.n_held;
    if (!pass_on(a, a->stops.held, ready))
        return false;
    stop_text_shown(&a->stops, ready);
    if (stopped)
        a->end = ANSWER_STOP_TEXT;
    return !stopped;
}

/* Takes the token just picked. False: it was the last. */
static bool take_token(answer *a, mote_token id)
{
    if (mote_token_is_end(a->on->model, id)) {
        a->end = ANSWER_END_TOKEN;
        return false;
    }
    a->ids.ids[a->ids.n++] = id;
    bool hidden = !a->show_control && mote_token_is_control(a->on->model, id);
    if (!hidden && !add_text(a, id))
        return false;
    if (a->max_tokens != 0 && a->ids.n >= a->max_tokens) {
        a->end = ANSWER_MAX_TOKENS;
        return false;
    }
    if (mote_session_length(a->on->session) >= mote_session_context(a->on->session)) {
        a->end = ANSWER_CONTEXT;
        return false;
    }
    if (interrupt_came()) {
        a->end = ANSWER_INTERRUPTED;
        return false;
    }
    return true;
}

static mote_status generate(answer *a, mote_error *err)
{
    for (;;) {
        mote_choice choice;
        TRY(mote_sample(a->on->session, 0, &a->sampling, &choice, err));
        if (a->first_token == 0)
            a->first_token = os_now();
        if (!take_token(a, choice.token))
            return MOTE_OK;
        mote_work work = {.session = a->on->session, .tokens = &choice.token, .n = 1};
        TRY(mote_step(a->on->engine, &work, 1, err));
    }
}

mote_status answer_run(answer *a, mote_error *err)
{
    mote_status status = generate(a, err);
    a->ended = os_now();
    if (status == MOTE_E_CANCELED) {
        a->end = ANSWER_INTERRUPTED;
        status = MOTE_OK;
    } else if (status != MOTE_OK) {
        a->end = ANSWER_FAILED;
    }
    /* Text that was held back for a stop word which never came belongs to the answer. */
    if (a->end != ANSWER_STOP_TEXT && a->end != ANSWER_UNREAD) {
        answer_end end = a->end;
        if (add_text(a, -1))
            a->end = end;
    }
    if (a->end == ANSWER_FAILED && status == MOTE_OK)
        return err_set(err, MOTE_E_MEMORY, "no memory for the text of the answer");
    return status;
}

const char *answer_end_name(answer_end end)
{
    static const char *const names[] = {
        [ANSWER_END_TOKEN] = "end_token",   [ANSWER_STOP_TEXT] = "stop_text",
        [ANSWER_MAX_TOKENS] = "max_tokens", [ANSWER_CONTEXT] = "context",
        [ANSWER_INTERRUPTED] = "interrupt", [ANSWER_UNREAD] = "unread",
        [ANSWER_FAILED] = "error",
    };
    return names[end];
}

const char *answer_finish(answer_end end)
{
    switch (end) {
    case ANSWER_END_TOKEN:
    case ANSWER_STOP_TEXT: return "stop";
    case ANSWER_MAX_TOKENS:
    case ANSWER_CONTEXT: return "length";
    case ANSWER_INTERRUPTED:
    case ANSWER_UNREAD: return "interrupted";
    case ANSWER_FAILED: return "error";
    }
    return "error";
}
