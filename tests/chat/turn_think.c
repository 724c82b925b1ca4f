/* SPDX-License-Identifier: Apache-2.0 */
/*
 * turn_think.c - thinking always ends and an answer follows; loops are left or end cleanly.
 *
 * Uses the prompts of tests/data/chat/tasks.jsonl repeatedly with other seeds and the sampler
 * presets of the model card. MOTE_TEST_SCALE scales their number.
 */
#include "chat/chat_rig.h"
#include "chat/turn_rig.h"
#include "support/scale.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
/* cmocka needs those before it */
#include <cmocka.h>

enum { PROMPTS = 500, LOOPS = 100, TASKS = 210 };

static mote_engine *engine;

typedef struct series {
    int wanted, done, line;
    int ends[5]; /* by mote_think_end */
    int found, left, looped;
} series;

static mote_token think_end_tag(void)
{
    chat_template template;
    assert_int_equal(chat_template_of(&template, mote_engine_model(engine), NULL), MOTE_OK);
    return template.tags[CHAT_TAG_THINK_END];
}

/* The tokens that the next prompt repeats have exactly one </think>. */
static void expect_closed(const mote_chat *chat)
{
    const chat_entry *last = &chat->entries[chat->n - 1];
    const mote_token tag = think_end_tag();
    int closed = 0;
    for (size_t i = 0; i < last->n_tokens; i++)
        closed += last->tokens[i] == tag;
    assert_int_equal(closed, 1);
}

static void think_on_task(const json_node *line, void *with)
{
    static const uint32_t budgets[] = {8, 12, 16, 24, 32, 64, 100, 128, 200, 256};
    series *s = with;
    /* skip lines, so that a short run covers all tasks too */
    if (s->done >= s->wanted || s->line++ % (TASKS / (s->wanted < TASKS ? s->wanted : TASKS)) != 0)
        return;
    mote_chat *chat = turn_chat(engine, NULL);
    answer_record h = {0};
    const mote_answer_options how = {.think = MOTE_THINK_ON,
                                     .think_budget = budgets[s->done % 10],
                                     .max_tokens = s->done % 3 == 0 ? 300 : 600,
                                     .sampling = {.seed = (uint64_t)s->done}};
    turn_add_task(chat, line);
    const mote_answer answer = turn_answer(chat, how, &h);
    assert_true(answer.thinking);
    assert_int_not_equal(answer.think_end, MOTE_THINK_END_NONE);
    assert_true(answer.think_tokens <= how.think_budget + CHAT_THINK_GRACE + CHAT_MAX_CLOSING);
    /* or max_tokens cut a call, which leaves only a warning */
    assert_true(!text_is_blank(&h.content) || answer.calls > 0 ||
                (answer.finish == MOTE_FINISH_LENGTH && answer.warnings > 0));
    expect_closed(chat);
    s->ends[answer.think_end]++;
    s->done++;
    record_clear(&h);
    mote_chat_free(chat);
}

static void thinking_ends_and_an_answer_follows(void **state)
{
    (void)state;
    series s = {.wanted = (int)test_scaled(PROMPTS, 1)};
    while (s.done < s.wanted)
        rig_each_line("tests/data/chat/tasks.jsonl", think_on_task, &s);
    print_message("%d answers: thinking ended natural %d, soft %d, budget %d, loop %d\n", s.done,
                  s.ends[1], s.ends[2], s.ends[3], s.ends[4]);
}

/* A model that cannot end its answer repeats itself sooner or later, especially with greedy
 * sampling. With a large bias for one token it repeats at once. */
static void loop_on_task(const json_node *line, void *with)
{
    series *s = with;
    if (s->done >= s->wanted || s->line++ % 2 != 0)
        return;
    mote_chat *chat = turn_chat(engine, NULL);
    chat_template tags;
    assert_int_equal(chat_template_of(&tags, mote_engine_model(engine), NULL), MOTE_OK);
    const mote_bias bias[] = {{tags.tags[CHAT_TAG_IM_END], -INFINITY},
                              {chat->chat_ctx.ends[0], -INFINITY},
                              {chat->chat_ctx.ends[1], -INFINITY},
                              {(mote_token)(300 + s->done), 40}};
    mote_answer_options how = turn_greedy();
    answer_record h = {0};
    how.think = s->done % 2 == 0 ? MOTE_THINK_ON : MOTE_THINK_OFF;
    how.think_budget = 400;
    how.max_tokens = 900;
    how.sampling.bias = bias;
    how.sampling.n_bias = s->done % 5 == 0 ? 4 : 3;
    turn_add_task(chat, line);
    const mote_answer answer = turn_answer(chat, how, &h);
    s->found += answer.loops_detected > 0;
    s->left += answer.loops_recovered > 0;
    s->looped += answer.finish == MOTE_FINISH_LOOP;
    assert_true(!text_is_blank(&h.content) || answer.calls > 0 || answer.warnings > 0);
    assert_true(answer.finish == MOTE_FINISH_LOOP || answer.finish == MOTE_FINISH_LENGTH ||
                answer.finish == MOTE_FINISH_TOOL_CALLS);
    assert_true(answer.answer_tokens <= how.max_tokens + CHAT_MAX_CLOSING);
    if (answer.thinking)
        expect_closed(chat);
    s->done++;
    record_clear(&h);
    mote_chat_free(chat);
}

static void loops_are_left_or_end_cleanly(void **state)
{
    (void)state;
    series s = {.wanted = (int)test_scaled(LOOPS, 1)};
    rig_each_line("tests/data/chat/tasks.jsonl", loop_on_task, &s);
    print_message(
        "%d answers that cannot end: loops in %d, recovered in %d, finished as loop in %d\n",
        s.done, s.found, s.left, s.looped);
    assert_int_equal(s.done, s.wanted);
    assert_true(s.found > s.done / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(thinking_ends_and_an_answer_follows),
        cmocka_unit_test(loops_are_left_or_end_cleanly),
    };
    engine = turn_engine("mote-tiny-Q4_K_M.gguf", 1, 2);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    turn_engine_close(engine);
    return failed;
}
