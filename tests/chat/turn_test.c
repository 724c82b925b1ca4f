/* SPDX-License-Identifier: Apache-2.0 */
/* turn_test.c - conversations: prefix reuse, undo, cancel, save and load, invalid calls. */
#include "base/mem.h"
#include "chat/chat_rig.h"
#include "chat/prompt/render.h"
#include "chat/turn_rig.h"
#include "engine/engine_int.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
/* cmocka needs those before it */
#include <cmocka.h>

enum { BATCH = 3 };

static mote_engine *engine;

static void an_answer_prefills_only_new_tokens(void **state)
{
    (void)state;
    static const char *const says[] = {"Hello", "My name is Anna.", "What is my name?",
                                       "What is 3 + 4?"};
    for (int think = 0; think < 2; think++) {
        mote_chat *chat = turn_chat(engine, NULL);
        uint64_t before = 0;
        for (size_t i = 0; i < 4; i++) {
            turn_add(chat, says[i]);
            const mote_answer_options how = {.think = think ? MOTE_THINK_ON : MOTE_THINK_AUTO,
                                             .think_budget = 32,
                                             .max_tokens = 200};
            const mote_answer a = turn_answer(chat, how, NULL);
            assert_int_equal(a.thinking, think);
            assert_true(a.prompt_tokens - a.reused_tokens <= a.prompt_tokens - before + 1);
            assert_true(a.prompt_tokens - a.reused_tokens < 64);
            before = a.prompt_tokens + a.answer_tokens;
        }
        mote_chat_free(chat);
    }
}

static strbuf json_of(const mote_chat *chat)
{
    strbuf text = {0};
    size_t n;
    assert_int_equal(mote_chat_json(chat, MOTE_CHAT_ALL, NULL, 0, &n, NULL), MOTE_OK);
    assert_true(strbuf_reserve(&text, n));
    assert_int_equal(mote_chat_json(chat, MOTE_CHAT_ALL, text.p, n, &text.n, NULL), MOTE_OK);
    return text;
}

static void undo_and_drop_answer_restore_the_conversation(void **state)
{
    (void)state;
    mote_chat *chat =
        turn_chat(engine, &(mote_chat_options){.system = "Be kind.", .system_bytes = 8});
    turn_add(chat, "Hello");
    turn_answer(chat, turn_greedy(), NULL);
    strbuf first = json_of(chat);
    turn_add(chat, "Who are you?");
    turn_answer(chat, turn_greedy(), NULL);
    assert_int_equal(mote_chat_count(chat), 4);
    assert_int_equal(mote_chat_drop_answer(chat), 1);
    turn_answer(chat, turn_greedy(), NULL);
    assert_int_equal(mote_chat_undo(chat), 2);
    strbuf again = json_of(chat);
    assert_true(str_eq(strbuf_view(&first), strbuf_view(&again)));
    mote_chat_clear(chat);
    assert_int_equal(mote_chat_count(chat), 0);
    turn_add(chat, "Hello"); /* the tokens left in the session must not matter */
    turn_answer(chat, turn_greedy(), NULL);
    strbuf fresh = json_of(chat);
    assert_true(str_eq(strbuf_view(&first), strbuf_view(&fresh)));
    strbuf_fini(&first);
    strbuf_fini(&again);
    strbuf_fini(&fresh);
    mote_chat_free(chat);
}

static void an_answer_can_be_canceled_and_is_kept(void **state)
{
    (void)state;
    for (size_t after = 0; after < 20; after += 6) {
        mote_chat *chat = turn_chat(engine, NULL);
        answer_record h = {.cancel = chat, .cancel_after = after};
        turn_add(chat, "Count from 1 to 30.");
        const mote_answer a = turn_answer(chat, turn_greedy(), &h);
        assert_int_equal(a.finish, MOTE_FINISH_CANCELED);
        assert_int_equal(mote_chat_count(chat), h.content.n > 0 ? 2 : 1);
        record_clear(&h);
        if (after == 0)
            mote_chat_clear(chat);
        turn_add(chat, "Hello"); /* the conversation continues normally */
        assert_int_equal(turn_answer(chat, turn_greedy(), &h).finish, MOTE_FINISH_STOP);
        assert_true(h.content.n > 0);
        record_clear(&h);
        mote_chat_free(chat);
    }
}

/* ---- a step canceled between two passes ---- */

enum { SMALL_BATCH = 4 };

/* Cancels the answer in a full pass after its first content. */
typedef struct pass_cancel {
    mote_chat *chat;
    bool has_content;
    int passes; /* full passes before the one that cancels; -1: never */
} pass_cancel;

static void cancel_on_content(void *with, const mote_chat_event *event)
{
    pass_cancel *c = with;
    c->has_content |= event->kind == MOTE_CHAT_CONTENT;
}

static void cancel_tap(void *ctx, const char *what, int layer, const float *rows, size_t n_rows,
                       size_t n_cols)
{
    pass_cancel *c = ctx;
    (void)layer, (void)rows, (void)n_cols;
    if (c->has_content && n_rows == SMALL_BATCH && strcmp(what, "embed") == 0 && c->passes-- == 0)
        mote_chat_cancel(c->chat);
}

static mote_status wrong_drafts(void *with, spec_request *wanted, size_t n, mote_error *err)
{
    (void)with, (void)err;
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < wanted[i].n; k++) {
            wanted[i].tokens[k] = 7;
            wanted[i].probabilities[k] = 0.9f;
        }
        wanted[i].n_drafted = wanted[i].n;
    }
    return MOTE_OK;
}

/* A step with a draft has several passes if the batch is small. A session never keeps draft tokens
 * that were not verified. */
static void a_canceled_step_leaves_no_draft(void **state)
{
    mote_engine *small;
    mote_error err;
    mote_token expected[512];
    size_t n_expected = 0;
    (void)state;
    const mote_engine_options options = {
        .threads = 1, .positions = 512, .batch = SMALL_BATCH, .logits_rows = MOTE_SPEC_ROWS};
    assert_int_equal(mote_engine_new(&small, mote_engine_model(engine), &options, &err), MOTE_OK);
    for (int passes = -1; passes < 6; passes++) {
        mote_chat *chat = turn_chat(small, NULL);
        const mote_session *session = mote_chat_session(chat);
        pass_cancel c = {.chat = chat, .passes = passes};
        mote_answer a;
        mote_answer_options how = turn_greedy();
        how.spec = passes < 0 ? MOTE_SPEC_OFF : MOTE_SPEC_MAX;
        how.event = cancel_on_content;
        how.with = &c;
        spec_set_draft(chat->spec, wrong_drafts, NULL);
        engine_set_tap(small, cancel_tap, &c);
        turn_add(chat, "Count from 1 to 30.");
        assert_int_equal(mote_chat_answer(chat, &how, &a, &err), MOTE_OK);
        const size_t n = (size_t)mote_session_length(session);
        if (passes < 0) {
            assert_true(n > 60 && n <= 512);
            memcpy(expected, mote_session_tokens(session), n * sizeof *expected);
            n_expected = n;
        } else {
            assert_int_equal(a.finish, MOTE_FINISH_CANCELED);
            assert_true(n < n_expected);
            assert_memory_equal(mote_session_tokens(session), expected, n * sizeof *expected);
        }
        mote_chat_free(chat);
    }
    mote_engine_free(small);
}

typedef struct prefill_record {
    mote_chat *chat;
    bool cancel; /* at the first event */
    size_t n;
    uint64_t first, last, total;
} prefill_record;

static void record_prefill(void *with, const mote_chat_event *event)
{
    prefill_record *r = with;
    if (event->kind != MOTE_CHAT_PREFILL)
        return;
    assert_true(r->n == 0 || event->done >= r->last);
    r->first = r->n++ == 0 ? event->done : r->first;
    r->last = event->done;
    r->total = event->total;
    if (r->cancel)
        mote_chat_cancel(r->chat);
}

/* Progress starts at the cached tokens and ends at the prompt. A canceled prefill counts only the
 * tokens that were computed: a speed from the whole prompt would be too high. */
static void prefill_is_counted(void **state)
{
    (void)state;
    char text[6 * 1000 + 1];
    for (size_t i = 0; i + 1 < sizeof text; i += 6)
        memcpy(text + i, "words ", 6);
    text[sizeof text - 1] = 0;
    mote_chat *chat = turn_chat(engine, NULL);
    prefill_record r = {.chat = chat, .cancel = true};
    mote_answer_options how = turn_greedy();
    how.event = record_prefill;
    how.with = &r;
    how.max_tokens = 1;
    mote_answer a;
    turn_add(chat, text);
    assert_int_equal(mote_chat_answer(chat, &how, &a, NULL), MOTE_OK);
    assert_int_equal(a.finish, MOTE_FINISH_CANCELED);
    assert_int_equal(a.prefilled_tokens, 0);
    assert_true(a.prompt_tokens > 1000);
    r = (prefill_record){.chat = chat};
    assert_int_equal(mote_chat_answer(chat, &how, &a, NULL), MOTE_OK);
    assert_int_equal(a.prefilled_tokens + a.reused_tokens, a.prompt_tokens);
    assert_true(r.n >= 2 && r.first == a.reused_tokens);
    assert_true(r.last == r.total && r.total == a.prompt_tokens);
    turn_add(chat, "Hello");
    r = (prefill_record){.chat = chat};
    assert_int_equal(mote_chat_answer(chat, &how, &a, NULL), MOTE_OK);
    assert_true(a.reused_tokens > 900 && r.first == a.reused_tokens);
    assert_int_equal(a.prefilled_tokens + a.reused_tokens, a.prompt_tokens);
    mote_chat_free(chat);
}

static void a_saved_conversation_continues(void **state)
{
    (void)state;
    const char *path = "turn_test.chat";
    mote_chat *chat =
        turn_chat(engine, &(mote_chat_options){.system = "Be kind.", .system_bytes = 8});
    mote_chat *loaded;
    bool restored;
    answer_record one = {0}, two = {0};
    turn_add(chat, "My name is Anna.");
    turn_answer(chat, turn_greedy(), NULL);
    assert_int_equal(mote_chat_save(chat, path, NULL), MOTE_OK);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(mote_chat_load(&loaded, engine, path, NULL, &restored, NULL), MOTE_OK);
        assert_int_equal(restored, again == 0);
        strbuf saved = json_of(chat), read = json_of(loaded);
        assert_true(str_eq(strbuf_view(&saved), strbuf_view(&read)));
        strbuf_fini(&saved);
        strbuf_fini(&read);
        turn_add(loaded, "What is my name?");
        const mote_answer a = turn_answer(loaded, turn_greedy(), again == 0 ? &one : &two);
        assert_true(again == 1 || a.reused_tokens > 20);
        mote_chat_free(loaded);
        remove("turn_test.chat.state");
    }
    assert_true(one.content.n > 0 && str_eq(strbuf_view(&one.content), strbuf_view(&two.content)));
    assert_int_equal(mote_chat_load(&loaded, engine, "no-such-file", NULL, NULL, NULL), MOTE_E_IO);
    assert_null(loaded);
    remove(path);
    record_clear(&one);
    record_clear(&two);
    mote_chat_free(chat);
}

static void answer_options_apply(void **state)
{
    (void)state;
    static const char *const stop[] = {"help"};
    mote_chat *chat = turn_chat(engine, NULL);
    answer_record whole = {0}, part = {0};
    mote_answer_options how = turn_greedy();
    turn_add(chat, "Hello");
    turn_answer(chat, how, &whole);
    mote_chat_drop_answer(chat);
    how.stop = stop;
    how.n_stop = 1;
    mote_answer a = turn_answer(chat, how, &part);
    assert_int_equal(a.finish, MOTE_FINISH_STOP_TEXT);
    size_t at = 0;
    while (at + 4 <= whole.content.n && memcmp(whole.content.p + at, "help", 4) != 0)
        at++;
    assert_true(at + 4 <= whole.content.n && part.content.n == at);
    mote_chat_drop_answer(chat);
    how = turn_greedy();
    how.max_tokens = 3;
    a = turn_answer(chat, how, NULL);
    assert_int_equal(a.finish, MOTE_FINISH_LENGTH);
    assert_int_equal(a.answer_tokens, 3);
    assert_string_equal(a.preset, "small/direct/general");
    assert_true(a.sampling.temperature == 0 && a.sampling.min_p == 0);
    record_clear(&whole);
    record_clear(&part);
    mote_chat_free(chat);
}

/* Thinking and its closing count as answer tokens and never use up a short answer. */
static void thinking_in_a_short_answer(void **state)
{
    (void)state;
    bool thought = false;
    for (uint32_t most = 1; most < 120; most += most < 32 ? 1 : 7) {
        mote_chat *chat = turn_chat(engine, NULL);
        answer_record h = {0};
        const mote_answer_options how = {
            .think = MOTE_THINK_ON, .max_tokens = most, .sampling.seed = most};
        turn_add(chat, "What is 245 + 178?");
        const mote_answer a = turn_answer(chat, how, &h);
        assert_true(a.thinking && a.answer_tokens <= most);
        assert_true(a.think_tokens <= most / 2);
        assert_true(a.answer_tokens > a.think_tokens || a.finish != MOTE_FINISH_LENGTH);
        if (a.think_tokens == 0)
            assert_true(text_is_blank(&h.reasoning));
        thought |= a.think_tokens > 0 && !text_is_blank(&h.reasoning);
        record_clear(&h);
        mote_chat_free(chat);
    }
    assert_true(thought);
}

static void an_assistant_message_is_continued(void **state)
{
    (void)state;
    mote_chat *chat = turn_chat(engine, NULL);
    turn_add(chat, "What is 3 + 4?");
    assert_int_equal(mote_chat_add(chat, MOTE_ROLE_ASSISTANT, "3 + 4", 5, NULL), MOTE_OK);
    answer_record h = {0};
    turn_answer(chat, turn_greedy(), &h);
    assert_int_equal(mote_chat_count(chat), 2);
    assert_true(h.content.n > 0);
    const chat_message *m = chat_entry_message(&chat->entries[1]);
    assert_int_equal(m->parts[0].text.n, 5 + h.content.n);
    assert_memory_equal(m->parts[0].text.p, "3 + 4", 5);
    record_clear(&h);
    mote_chat_free(chat);
}

/* An answer that was cut after its thinking. */
static void reasoning_of_a_continued_message_stays(void **state)
{
    (void)state;
    static const char cut[] = "{\"role\":\"assistant\",\"content\":\"3 + 4\","
                              "\"reasoning_content\":\"I add them.\"}";
    for (int official = 0; official < 2; official++) {
        mote_chat *chat = turn_chat(engine, &(mote_chat_options){.official = official});
        turn_add(chat, "What is 3 + 4?");
        assert_int_equal(mote_chat_add_json(chat, cut, sizeof cut - 1, NULL), MOTE_OK);
        turn_answer(chat, turn_greedy(), NULL);
        assert_int_equal(mote_chat_count(chat), official ? 3 : 2);
        const chat_message *m = chat_entry_message(&chat->entries[1]);
        assert_true(m->has_reasoning && str_is(m->reasoning, "I add them."));
        assert_true(official ? m->parts[0].text.n == 5 : m->parts[0].text.n > 5);
        mote_chat_free(chat);
    }
}

static void invalid_calls_are_rejected(void **state)
{
    (void)state;
    mote_chat *chat = turn_chat(engine, &(mote_chat_options){.context = 64});
    mote_error err;
    char longish[2000];
    memset(longish, 'x', sizeof longish);
    assert_int_equal(mote_chat_answer(chat, NULL, NULL, &err), MOTE_E_ARG);
    assert_int_equal(mote_chat_add_json(chat, "[{\"role\":\"user\"},7]", 19, &err), MOTE_E_ARG);
    assert_int_equal(mote_chat_add_json(chat, "{\"role\":\"king\"}", 15, &err), MOTE_E_ARG);
    assert_int_equal(mote_chat_set_tools(chat, "{}", 2, &err), MOTE_E_ARG);
    assert_int_equal(mote_chat_count(chat), 0);
    assert_int_equal(mote_chat_add(chat, MOTE_ROLE_USER, longish, sizeof longish, &err), MOTE_OK);
    assert_int_equal(mote_chat_answer(chat, NULL, NULL, &err), MOTE_E_FULL);
    assert_int_equal(mote_chat_count(chat), 1);
    mote_chat_free(chat);
}

static void record_warning(void *with, const mote_chat_event *event)
{
    strbuf *out = with;
    if (event->kind != MOTE_CHAT_WARNING)
        return;
    strbuf_put(out, (str){event->name, event->name_bytes});
    strbuf_byte(out, ' ');
    strbuf_put(out, (str){event->text, event->text_bytes});
    strbuf_byte(out, ';');
}

static void tools_of_other_types_give_a_warning(void **state)
{
    (void)state;
    static const char tools[] = "[{\"type\":\"web_search\"},{\"type\":\"function\",\"function\":{"
                                "\"name\":\"f\"}}]";
    mote_chat *chat = turn_chat(engine, NULL);
    strbuf warnings = {0};
    mote_answer a;
    mote_answer_options how = turn_greedy();
    how.event = record_warning;
    how.with = &warnings;
    assert_int_equal(mote_chat_set_tools(chat, tools, strlen(tools), NULL), MOTE_OK);
    turn_add(chat, "Hello");
    assert_int_equal(mote_chat_answer(chat, &how, &a, NULL), MOTE_OK);
    assert_true(str_is(strbuf_view(&warnings), "tool_type_ignored web_search;"));
    assert_int_equal(a.warnings, 1);
    strbuf_fini(&warnings);
    mote_chat_free(chat);
}

static void invalid_utf8_is_replaced(void **state)
{
    (void)state;
    mote_chat *chat = turn_chat(engine, NULL);
    static const char text[] = "a\xFF\xE2\x82z\0\xF0\x9F\x98\x80\xED\xA0\x80";
    assert_int_equal(mote_chat_add(chat, MOTE_ROLE_USER, text, sizeof text - 1, NULL), MOTE_OK);
    const str kept = chat_entry_message(&chat->entries[0])->parts[0].text;
    static const char want[] = "a\xEF\xBF\xBD\xEF\xBF\xBDz\0\xF0\x9F\x98\x80"
                               "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD";
    assert_int_equal(kept.n, sizeof want - 1);
    assert_memory_equal(kept.p, want, kept.n);
    mote_chat_free(chat);
}

/* ---- single turns and batches ---- */

typedef struct batch_job {
    chat_prompt prompt;
    chat_turn *turn;
    mote_session *session;
    chat_turn_want want;
    mote_answer_options how;
} batch_job;

static chat_context chat_ctx;

static void job_start(batch_job *g, int i)
{
    static const char *const says[BATCH] = {"Who is the mayor of Keldon?", "What is 245 + 178?",
                                            "Write JSON for an order of 2 pieces of gold by Max."};
    const chat_part part = {.kind = CHAT_PART_TEXT, .text = str_of(says[i])};
    const chat_message message = {.role = CHAT_ROLE_USER, .parts = &part, .n_parts = 1};
    const chat_request request = {
        .messages = &message, .n_messages = 1, .thinking = i == 1 ? CHAT_THINK_ON : CHAT_THINK_OFF};
    assert_int_equal(chat_render(chat_ctx.model, &chat_ctx.template, &request, &g->prompt, NULL),
                     MOTE_OK);
    g->how = (mote_answer_options){.max_tokens = 120, .think_budget = 40, .sampling.seed = 7};
    const chat_turn_options options = {.chat_ctx = &chat_ctx,
                                       .prompt = g->prompt.ids,
                                       .n_prompt = g->prompt.n,
                                       .thinking = g->prompt.thinking,
                                       .context = 2048,
                                       .answer = &g->how};
    assert_int_equal(chat_turn_new(&g->turn, &options, NULL), MOTE_OK);
    assert_int_equal(mote_session_new(&g->session, engine, NULL, NULL), MOTE_OK);
    assert_int_equal(chat_turn_next(g->turn, NULL, 0, &g->want, NULL), MOTE_OK);
}

static void job_free(batch_job *g)
{
    mote_session_free(g->session);
    chat_turn_free(g->turn);
    chat_prompt_fini(&g->prompt);
}

/* One step for all jobs that are not over. false: all are over. */
static bool jobs_step(batch_job *jobs, int n)
{
    mote_work work[BATCH];
    size_t n_work = 0;
    for (int i = 0; i < n; i++) {
        batch_job *g = &jobs[i];
        if (g->want.over)
            continue;
        if (mote_session_length(g->session) > g->want.same)
            mote_session_rewind(g->session, g->want.same);
        const uint64_t length = mote_session_length(g->session);
        work[n_work++] = (mote_work){
            .session = g->session, .tokens = g->want.tokens + length, .n = g->want.n - length};
    }
    if (n_work == 0)
        return false;
    assert_int_equal(mote_step(engine, work, n_work, NULL), MOTE_OK);
    for (int i = 0; i < n; i++)
        if (!jobs[i].want.over)
            assert_int_equal(chat_turn_next(jobs[i].turn, jobs[i].session, 0, &jobs[i].want, NULL),
                             MOTE_OK);
    return true;
}

static void a_batch_gives_the_same_tokens_as_single_turns(void **state)
{
    (void)state;
    batch_job together[BATCH] = {0}, alone = {0};
    assert_int_equal(chat_context_of(&chat_ctx, mote_engine_model(engine), NULL), MOTE_OK);
    for (int i = 0; i < BATCH; i++)
        job_start(&together[i], i);
    while (jobs_step(together, BATCH))
        continue;
    for (int i = 0; i < BATCH; i++) {
        size_t n, m;
        bool open;
        mote_session_free(together[i].session); /* the engine has no other */
        together[i].session = NULL;
        job_start(&alone, i);
        while (jobs_step(&alone, 1))
            continue;
        const mote_token *a = chat_turn_tokens(together[i].turn, &n, &open);
        const mote_token *b = chat_turn_tokens(alone.turn, &m, &open);
        assert_int_equal(n, m);
        assert_true(n > together[i].prompt.n + 3);
        assert_memory_equal(a, b, n * sizeof *a);
        job_free(&alone);
        job_free(&together[i]);
        alone = (batch_job){0};
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_prefills_only_new_tokens),
        cmocka_unit_test(undo_and_drop_answer_restore_the_conversation),
        cmocka_unit_test(an_answer_can_be_canceled_and_is_kept),
        cmocka_unit_test(a_canceled_step_leaves_no_draft),
        cmocka_unit_test(prefill_is_counted),
        cmocka_unit_test(a_saved_conversation_continues),
        cmocka_unit_test(answer_options_apply),
        cmocka_unit_test(thinking_in_a_short_answer),
        cmocka_unit_test(an_assistant_message_is_continued),
        cmocka_unit_test(reasoning_of_a_continued_message_stays),
        cmocka_unit_test(invalid_calls_are_rejected),
        cmocka_unit_test(tools_of_other_types_give_a_warning),
        cmocka_unit_test(invalid_utf8_is_replaced),
        cmocka_unit_test(a_batch_gives_the_same_tokens_as_single_turns),
    };
    engine = turn_engine("mote-tiny-Q4_K_M.gguf", BATCH, 2);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    turn_engine_close(engine);
    return failed;
}
