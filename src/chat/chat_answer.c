/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chat_answer.c - mote_chat_answer: runs one turn (turn.h) on one session. See mote_chat.h.
 *
 * Renders the conversation, keeps the longest common prefix of the session's tokens and the prompt,
 * or restores a longer one from disk, prefills the tokens after it, then decodes. Nothing is
 * assumed about how the session got its tokens.
 */
#include "base/fpmode.h"
#include "base/mem.h"
#include "base/os.h"
#include "chat/chat_int.h"
#include "chat/prompt/render.h"

#include <stdio.h>

enum { PREFILL_CHUNK = 512 }; /* tokens per step; a cancel loses at most one step */

static const double event_interval = 0.1; /* seconds between two MOTE_CHAT_PREFILL events */

/* One call of mote_chat_answer(). */
typedef struct answer_job {
    mote_chat *chat;
    const mote_answer_options *options;
    chat_message *messages; /* views of all messages, system text first */
    chat_prompt prompt;
    chat_turn *turn;
    mote_answer result;
    spec_seq *seq;       /* NULL without drafts */
    spec_item item;      /* the last decode step */
    size_t rows;         /* of logits of the last step */
    double plan_seconds; /* spec_plan() before it */
    double step_seconds; /* 0: it was not a decode step */
    /* the parts of the new message */
    strbuf content, reasoning, calls;
    bool continues; /* the answer continues the last message */
    bool stepped;   /* mote_step() was called */
    bool prefilling;
    uint64_t computed;  /* prompt tokens computed or reused so far */
    double event_after; /* os_now of the next MOTE_CHAT_PREFILL event */
} answer_job;

/* ---- events ---- */

static const mote_chat_event_kind public_kind[] = {
    [CHAT_EVENT_REASONING] = MOTE_CHAT_REASONING,
    [CHAT_EVENT_CONTENT] = MOTE_CHAT_CONTENT,
    [CHAT_EVENT_CALL_START] = MOTE_CHAT_CALL_START,
    [CHAT_EVENT_CALL_ARGUMENTS] = MOTE_CHAT_CALL_ARGUMENTS,
    [CHAT_EVENT_CALL_END] = MOTE_CHAT_CALL_END,
    [CHAT_EVENT_CALL_CANCEL] = MOTE_CHAT_CALL_CANCEL,
    [CHAT_EVENT_WARNING] = MOTE_CHAT_WARNING,
};

static void answer_event(const answer_job *a, const mote_chat_event *event)
{
    if (a->options->event != NULL)
        a->options->event(a->options->with, event);
}

static void answer_keep_call(answer_job *a, const chat_event *event)
{
    char head[96];
    snprintf(head, sizeof head,
             "%s{\"id\": \"call_%zu_%u\", \"type\": \"function\", \"function\": {\"name\": ",
             a->calls.n > 0 ? ", " : "", a->chat->n, (unsigned)event->call);
    strbuf_text(&a->calls, head);
    chat_put_string(&a->calls, event->name);
    strbuf_text(&a->calls, ", \"arguments\": ");
    chat_put_string(&a->calls, event->text);
    strbuf_text(&a->calls, "}}");
}

static void answer_on_event(void *with, const chat_event *event)
{
    answer_job *a = with;
    if (event->kind == CHAT_EVENT_END)
        return;
    if (event->kind == CHAT_EVENT_REASONING)
        strbuf_put(&a->reasoning, event->text);
    else if (event->kind == CHAT_EVENT_CONTENT)
        strbuf_put(&a->content, event->text);
    else if (event->kind == CHAT_EVENT_CALL_END)
        answer_keep_call(a, event);
    const bool warns = event->kind == CHAT_EVENT_WARNING;
    const str name = warns ? str_of(chat_warning_name(event->warning)) : event->name;
    answer_event(a, &(mote_chat_event){.kind = public_kind[event->kind],
                                       .call = event->call,
                                       .name = name.p,
                                       .name_bytes = name.n,
                                       .text = event->text.p,
                                       .text_bytes = event->text.n});
}

/* ---- prompt and turn ---- */

/* Fills a->messages. */
static mote_status answer_collect_messages(answer_job *a, size_t *n, mote_error *err)
{
    const mote_chat *chat = a->chat;
    size_t at = 0;
    if (chat->n == 0)
        return err_set(err, MOTE_E_ARG, "the conversation has no message to answer");
    a->messages = mem_new(chat->n + 1, sizeof *a->messages);
    if (a->messages == NULL)
        return chat_out_of_memory(err);
    if (chat->has_system)
        a->messages[at++] = *chat_entry_message(&chat->system);
    for (size_t i = 0; i < chat->n; i++, at++) {
        a->messages[at] = *chat_entry_message(&chat->entries[i]);
        a->messages[at].tokens = chat->entries[i].tokens;
        a->messages[at].n_tokens = chat->entries[i].n_tokens;
        TRY(chat_check_media(&a->messages[at], err));
    }
    const chat_message *last = &a->messages[at - 1];
    a->continues =
        chat->mode == CHAT_STABLE && last->role == CHAT_ROLE_ASSISTANT && last->n_calls == 0;
    *n = at;
    return MOTE_OK;
}

/* Warns of tools that are not functions: they are not in the prompt. */
static void answer_warn_tools(answer_job *a)
{
    const chat_parsed *tools = &a->chat->tools;
    for (uint32_t i = 0; i < tools->tools_left_out; i++)
        answer_on_event(
            a, &(chat_event){.kind = CHAT_EVENT_WARNING,
                             .warning = CHAT_WARN_TOOL_IGNORED,
                             .text = json_node_text(json_node_get(tools->left_out[i], "type"))});
}

static mote_status answer_prepare(answer_job *a, mote_error *err)
{
    static const chat_thinking thinking[] = {CHAT_THINK_AUTO, CHAT_THINK_ON, CHAT_THINK_OFF};
    mote_chat *chat = a->chat;
    chat_request request = {.mode = chat->mode};
    if ((unsigned)a->options->think >= sizeof thinking / sizeof *thinking)
        return err_set(err, MOTE_E_ARG, "think must be 0 to %d, got %d", MOTE_THINK_OFF,
                       (int)a->options->think);
    if (a->options->spec < MOTE_SPEC_OFF || a->options->spec > MOTE_SPEC_MAX)
        return err_set(err, MOTE_E_ARG, "spec must be %d to %d, got %d", MOTE_SPEC_OFF,
                       MOTE_SPEC_MAX, a->options->spec);
    TRY(answer_collect_messages(a, &request.n_messages, err));
    request.messages = a->messages;
    request.thinking = thinking[a->options->think];
    request.effort = chat_effort_of_budget(a->options->think_budget);
    request.continue_last = a->continues;
    if (a->options->tool_choice != MOTE_TOOLS_NONE) {
        request.tools = chat->tools.request.tools;
        request.n_tools = chat->tools.request.n_tools;
    }
    if (chat->vocab == NULL && response_format_wanted(a->options, request.n_tools))
        TRY(chat_vocab_of(&chat->vocab, &chat->chat_ctx, err));
    TRY(chat_render(chat->chat_ctx.model, &chat->chat_ctx.template, &request, &a->prompt, err));
    const chat_turn_options turn = {.chat_ctx = &chat->chat_ctx,
                                    .prompt = a->prompt.ids,
                                    .n_prompt = a->prompt.n,
                                    .thinking = a->prompt.thinking,
                                    .context = mote_session_context(chat->session),
                                    .answer = a->options,
                                    .tools = request.tools,
                                    .n_tools = request.n_tools,
                                    .vocab = chat->vocab,
                                    .event = answer_on_event,
                                    .with = a};
    return chat_turn_new(&a->turn, &turn, err);
}

/* ---- prefill and decode ---- */

/* Length of the common prefix of the session and `tokens`; the first `from` are known to match. */
static size_t session_common_prefix(const mote_session *session, const mote_token *tokens, size_t n,
                                    size_t from)
{
    const mote_token *held = mote_session_tokens(session);
    const size_t length = (size_t)mote_session_length(session);
    size_t same = from < length ? from : length;
    while (same < n && same < length && held[same] == tokens[same])
        same++;
    return same;
}

static void answer_report_prefill(answer_job *a)
{
    answer_event(a, &(mote_chat_event){
                        .kind = MOTE_CHAT_PREFILL, .done = a->computed, .total = a->prompt.n});
    a->event_after = os_now() + event_interval;
}

/* Counts prefilled tokens; called between two sublayers of a step and after it. */
static void answer_on_progress(void *with)
{
    answer_job *a = with;
    const uint64_t now = mote_step_progress(a->chat->session);
    if (!a->prefilling)
        return;
    a->computed = now < a->prompt.n ? now : a->prompt.n;
    if (os_now() >= a->event_after)
        answer_report_prefill(a);
}

/* Runs a step. mote_cancel() before this answer may still be pending in the engine: then the first
 * step is repeated. */
static mote_status answer_step(answer_job *a, const mote_work *work, mote_error *err)
{
    const uint64_t before = mote_session_length(work->session);
    mote_status status = mote_step_with_hook(a->chat->engine, work, 1, answer_on_progress, a, err);
    if (status == MOTE_E_CANCELED && !a->stepped && !atomic_load(&a->chat->canceled) &&
        mote_session_length(work->session) == before)
        status = mote_step_with_hook(a->chat->engine, work, 1, answer_on_progress, a, err);
    a->stepped = true;
    if (status == MOTE_OK)
        answer_on_progress(a);
    return status;
}

/* Appends the tokens that the session lacks, in chunks; the last step computes logits. */
static mote_status answer_append(answer_job *a, const mote_token *tokens, size_t n, mote_error *err)
{
    mote_session *session = a->chat->session;
    size_t done = (size_t)mote_session_length(session);
    while (done < n) {
        if (atomic_load(&a->chat->canceled))
            return MOTE_E_CANCELED;
        const size_t left = n - done, now = left < PREFILL_CHUNK ? left : PREFILL_CHUNK;
        const mote_work work = {.session = session,
                                .tokens = tokens + done,
                                .n = now,
                                .want = now == left ? MOTE_LOGITS_LAST : MOTE_LOGITS_NONE,
                                .images = a->prompt.images,
                                .n_images = a->prompt.n_images};
        TRY(answer_step(a, &work, err));
        done += now;
    }
    return MOTE_OK;
}

/* Position after the last message. A later prompt may differ from here on. */
static size_t prompt_messages_end(const chat_prompt *prompt)
{
    size_t at = 0;
    for (size_t i = 0; i < prompt->n_marks; i++)
        if (prompt->marks[i].kind == CHAT_MARK_PROMPT || prompt->marks[i].kind == CHAT_MARK_MESSAGE)
            at = prompt->marks[i].position;
    return at;
}

/* End of the tools and the system text. */
static size_t prompt_system_end(const chat_prompt *prompt)
{
    size_t at = 0;
    for (size_t i = 0; i < prompt->n_marks; i++)
        if (prompt->marks[i].kind == CHAT_MARK_TOOLS || prompt->marks[i].kind == CHAT_MARK_SYSTEM)
            at = prompt->marks[i].position;
    return at;
}

/* Keeps the state of the session. The second of its kept states, or the only one, makes room: the
 * first one may be the end of the system text. Best effort. */
static void answer_keep_state(mote_session *session)
{
    uint64_t kept[2];
    if (mote_session_keep(session, NULL, NULL) != MOTE_E_FULL)
        return;
    const size_t n = mote_session_kept(session, kept, 2);
    if (n > 0 && mote_session_unkeep(session, kept[n > 1]))
        mote_session_keep(session, NULL, NULL);
}

/* Appends the tokens before `end` and keeps the state there, for a later rewind. */
static mote_status answer_append_kept(answer_job *a, const chat_turn_want *want, size_t end,
                                      mote_error *err)
{
    mote_session *session = a->chat->session;
    if (end <= mote_session_length(session) || end >= want->n)
        return MOTE_OK;
    TRY(answer_append(a, want->tokens, end, err));
    answer_keep_state(session);
    return MOTE_OK;
}

/* Rewinds the session to what it shares with the prompt, or restores more of it from disk. Sets
 * result.reused_tokens. */
static mote_status answer_reuse(answer_job *a, const chat_turn_want *want, mote_error *err)
{
    mote_chat *chat = a->chat;
    /* At least one token is appended, because the session may have no logits. */
    const size_t most = want->n - 1;
    size_t same = session_common_prefix(chat->session, want->tokens, most, 0);
    const chat_disk_prompt prompt = {.tokens = want->tokens,
                                     .n = want->n,
                                     .have =
                                         (size_t)mote_session_rewind_target(chat->session, same),
                                     .images = a->prompt.images,
                                     .n_images = a->prompt.n_images};
    chat->disk_restored = 0;
    if (chat->disk != NULL)
        chat->disk_restored = chat_disk_restore(chat->disk, chat->engine, &chat->session, &prompt);
    if (chat->session == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: the session of a conversation");
    if (chat->disk_restored == want->n) { /* with logits */
        a->result.reused_tokens = want->n;
        return MOTE_OK;
    }
    same = session_common_prefix(chat->session, want->tokens, most, 0);
    a->result.reused_tokens = mote_session_rewind(chat->session, same);
    if (chat->disk_restored > 0)
        answer_keep_state(chat->session);
    return MOTE_OK;
}

/* Prefills the prompt and reports its progress. */
static mote_status answer_prefill(answer_job *a, const chat_turn_want *want, mote_error *err)
{
    TRY(answer_reuse(a, want, err));
    a->prefilling = true;
    a->computed = a->result.reused_tokens;
    answer_report_prefill(a);
    const size_t system_end = prompt_system_end(&a->prompt);
    if (a->chat->disk != NULL && system_end >= CHAT_DISK_MIN_SYSTEM)
        TRY(answer_append_kept(a, want, system_end, err));
    TRY(answer_append_kept(a, want, prompt_messages_end(&a->prompt), err));
    TRY(answer_append(a, want->tokens, want->n, err));
    if (a->chat->disk != NULL &&
        chat_disk_note_end(a->chat->disk, a->chat->engine, a->chat->session))
        answer_keep_state(a->chat->session); /* the end is of no use without it */
    answer_report_prefill(a);
    a->prefilling = false;
    return MOTE_OK;
}

/* Appends the wanted tokens and a draft. */
static mote_status answer_decode(answer_job *a, const chat_turn_want *want, mote_error *err)
{
    mote_chat *chat = a->chat;
    const size_t held = (size_t)mote_session_length(chat->session);
    a->rows = 1;
    a->step_seconds = 0;
    a->item = (spec_item){.seq = a->seq,
                          .session = chat->session,
                          .tokens = want->tokens,
                          .n = want->n,
                          .held = held,
                          .mode = a->options->spec,
                          .limit = (size_t)mote_session_context(chat->session) - want->n};
    if (want->n - held >= SPEC_MAX_ROWS)
        return answer_append(a, want->tokens, want->n, err);
    if (atomic_load(&chat->canceled))
        return MOTE_E_CANCELED;
    const double began = os_now();
    TRY(spec_plan(chat->spec, &a->item, 1, mote_engine_logits_rows(chat->engine), err));
    const double planned = os_now();
    mote_work work = spec_item_work(&a->item);
    work.images = a->prompt.images;
    work.n_images = a->prompt.n_images;
    const mote_status status = answer_step(a, &work, err);
    if (status != MOTE_OK) {
        spec_item_undo(&a->item);
        return status;
    }
    a->plan_seconds = planned - began;
    a->step_seconds = os_now() - planned;
    a->rows = spec_item_rows(&a->item);
    return MOTE_OK;
}

/* Samples the rows of the last step until the turn is over or needs another step. */
static mote_status answer_sample(answer_job *a, chat_turn_want *want, mote_error *err)
{
    mote_session *session = a->chat->session;
    spec_walk walk;
    mote_status status;
    size_t row = spec_walk_begin(&walk, session, want->n, a->rows);
    bool more = true;
    do {
        status = chat_turn_next(a->turn, session, row, want, err);
        if (status == MOTE_OK && !want->over)
            more = spec_walk_next(&walk, session, want->tokens, want->n, want->same, &row);
        if (status == MOTE_OK && more && !want->over && atomic_load(&a->chat->canceled))
            status = MOTE_E_CANCELED;
    } while (status == MOTE_OK && more && !want->over);
    if (status != MOTE_OK || want->over)
        spec_walk_end(&walk, session, want->tokens, want->n, want->same);
    if (a->step_seconds > 0) {
        spec_walk_result(&walk, &a->item);
        spec_observe(a->chat->spec, &a->item, 1, a->plan_seconds, a->step_seconds);
        a->result.drafted_tokens += a->item.n_draft;
        a->result.accepted_tokens += a->item.accepted;
    }
    return status;
}

static mote_status answer_drive(answer_job *a, mote_error *err)
{
    mote_session *session = a->chat->session;
    chat_turn_want want;
    double began = os_now();
    TRY(chat_turn_next(a->turn, session, 0, &want, err));
    if (a->options->spec != MOTE_SPEC_OFF && mote_engine_logits_rows(a->chat->engine) > 1)
        TRY(spec_seq_new(&a->seq, (size_t)mote_session_context(session), err));
    mote_status status = answer_prefill(a, &want, err);
    a->result.seconds_prefill = os_now() - began;
    a->result.prefilled_tokens = a->computed - a->result.reused_tokens;
    began = os_now();
    a->rows = 1;
    while (status == MOTE_OK) {
        status = answer_sample(a, &want, err);
        if (status != MOTE_OK || want.over)
            break;
        status = answer_decode(a, &want, err);
    }
    if (status == MOTE_E_CANCELED)
        status = chat_turn_stop(a->turn, MOTE_FINISH_CANCELED, err);
    a->result.seconds_decode = os_now() - began;
    return status;
}

/* ---- the new message ---- */

/* Stores the tokens of the turn from <think> on, so that the next prompt repeats them. */
static mote_status answer_keep_tokens(const answer_job *a, chat_entry *entry, mote_error *err)
{
    const chat_context *chat_ctx = &a->chat->chat_ctx;
    size_t n, from = prompt_messages_end(&a->prompt);
    bool open;
    const mote_token *tokens = chat_turn_tokens(a->turn, &n, &open);
    while (from < a->prompt.n && tokens[from] != chat_ctx->template.tags[CHAT_TAG_THINK])
        from++;
    const size_t closing = open ? chat_ctx->n_closing[0] : 0;
    entry->tokens = mem_new(n - from + closing, sizeof *entry->tokens);
    if (entry->tokens == NULL)
        return chat_out_of_memory(err);
    memcpy(entry->tokens, tokens + from, (n - from) * sizeof *tokens);
    memcpy(entry->tokens + n - from, chat_ctx->closing[0], closing * sizeof *tokens);
    entry->n_tokens = n - from + closing;
    return MOTE_OK;
}

static void answer_put_json(const answer_job *a, strbuf *json)
{
    str reasoning = strbuf_view(&a->reasoning);
    strbuf_text(json, "{\"role\": \"assistant\", \"content\": ");
    if (a->continues) {
        const chat_message *last = chat_entry_message(&a->chat->entries[a->chat->n - 1]);
        strbuf text = {0};
        if (last->has_reasoning) /* the answer continues after it and has none */
            reasoning = last->reasoning;
        for (size_t i = 0; i < last->n_parts; i++)
            strbuf_put(&text, last->parts[i].text);
        strbuf_put(&text, strbuf_view(&a->content));
        chat_put_string(json, strbuf_view(&text));
        json->failed |= text.failed;
        strbuf_fini(&text);
    } else {
        chat_put_string(json, strbuf_view(&a->content));
    }
    if (reasoning.n > 0) {
        strbuf_text(json, ", \"reasoning_content\": ");
        chat_put_string(json, reasoning);
    }
    if (a->calls.n > 0) {
        strbuf_text(json, ", \"tool_calls\": [");
        strbuf_put(json, strbuf_view(&a->calls));
        strbuf_byte(json, ']');
    }
    strbuf_byte(json, '}');
}

/* Adds the answer to the conversation. Its tokens are kept only if they spell exactly its text. */
static mote_status answer_keep(answer_job *a, mote_error *err)
{
    chat_entry entry = {0};
    strbuf json = {0};
    answer_put_json(a, &json);
    mote_status status = strbuf_check(&json, err);
    if (status == MOTE_OK)
        status = chat_entry_read(&entry, strbuf_view(&json), err);
    strbuf_fini(&json);
    TRY(status);
    if (!a->continues && a->result.finish != MOTE_FINISH_STOP_TEXT)
        status = answer_keep_tokens(a, &entry, err);
    if (status != MOTE_OK) {
        chat_entry_fini(&entry);
        return status;
    }
    if (!a->continues)
        return chat_append(a->chat, &entry, err);
    chat_entry *last = &a->chat->entries[a->chat->n - 1];
    chat_entry_fini(last);
    *last = entry;
    return MOTE_OK;
}

static mote_status answer_make(answer_job *a, mote_error *err)
{
    TRY(answer_prepare(a, err));
    answer_warn_tools(a);
    TRY(answer_drive(a, err));
    const mote_answer *made = chat_turn_result(a->turn);
    const mote_answer timing = a->result;
    a->result = *made;
    a->result.warnings += a->chat->tools.tools_left_out;
    a->result.reused_tokens = timing.reused_tokens;
    a->result.prefilled_tokens = timing.prefilled_tokens;
    a->result.seconds_prefill = timing.seconds_prefill;
    a->result.seconds_decode = timing.seconds_decode;
    a->result.drafted_tokens = timing.drafted_tokens;
    a->result.accepted_tokens = timing.accepted_tokens;
    TRY(strbuf_check(&a->content, err));
    TRY(strbuf_check(&a->reasoning, err));
    TRY(strbuf_check(&a->calls, err));
    if (a->content.n + a->reasoning.n + a->calls.n == 0 && made->finish == MOTE_FINISH_CANCELED)
        return MOTE_OK;
    return answer_keep(a, err);
}

mote_status mote_chat_answer(mote_chat *chat, const mote_answer_options *options, mote_answer *out,
                             mote_error *err)
{
    FPMODE_SCOPE;
    static const mote_answer_options defaults;
    if (chat == NULL)
        return err_set(err, MOTE_E_ARG, "mote_chat_answer: chat is NULL");
    answer_job a = {.chat = chat, .options = options != NULL ? options : &defaults};
    if (chat->disk != NULL)
        chat_disk_release(chat->disk);
    if (chat->session == NULL) /* a restore ended without memory */
        TRY(mote_session_new(&chat->session, chat->engine,
                             &(mote_session_options){.context = chat->context,
                                                     .loras = chat->loras,
                                                     .n_loras = chat->n_loras},
                             err));
    atomic_store(&chat->canceled, false);
    atomic_store(&chat->busy, true);
    mote_status status = answer_make(&a, err);
    atomic_store(&chat->busy, false);
    if (chat->disk != NULL && chat->session != NULL)
        chat_disk_save(chat->disk, chat->engine, chat->session, chat->disk_extent,
                       prompt_messages_end(&a.prompt));
    if (status == MOTE_OK && out != NULL)
        *out = a.result;
    chat_turn_free(a.turn);
    spec_seq_free(a.seq);
    chat_prompt_fini(&a.prompt);
    mem_free(a.messages);
    strbuf_fini(&a.content);
    strbuf_fini(&a.reasoning);
    strbuf_fini(&a.calls);
    return status;
}

void mote_chat_cancel(mote_chat *chat)
{
    if (!atomic_load(&chat->busy))
        return;
    atomic_store(&chat->canceled, true);
    mote_cancel(chat->engine);
}

const char *mote_finish_name(mote_finish finish)
{
    static const char *const names[] = {"stop",      "length",   "tool_calls",
                                        "stop_text", "canceled", "loop"};
    return (unsigned)finish < sizeof names / sizeof *names ? names[finish] : "unknown";
}

const char *mote_think_end_name(mote_think_end end)
{
    static const char *const names[] = {"none", "natural", "soft", "budget", "loop", "client"};
    return (unsigned)end < sizeof names / sizeof *names ? names[end] : "unknown";
}
