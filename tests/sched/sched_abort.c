/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sched_abort.c - a job dropped during a step leaves it before the next layer. The other jobs of
 * the batch produce the same output and are not delayed.
 *
 * One job decodes and two prefill in one pass. The test stops the engine thread between two layers
 * and drops jobs there.
 */
#include "sched/sched_hold.h"

#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
/* cmocka.h needs the headers above */
#include <cmocka.h>

enum { DECODER, LONG_PREFILL, PREFILL, NEXT, JOBS, AT_WORK = NEXT };
enum { CONTEXT = 2048, DECODER_TOKENS = 24 };

static rig tiny;
static question questions[JOBS];
static test_output alone[JOBS];
static int n_layers;

typedef struct scene {
    service s;
    layer_hold hold;
    test_job a[JOBS];
    unsigned passes; /* started when the scene was set */
} scene;

/* Sets the prefill budget to its maximum, so that it does not depend on the machine. */
static void set_maximum_budget(sched *s)
{
    for (size_t i = 0; i <= BUDGET_MAX_DECODING; i++)
        s->budget.decode_seconds[i] = 1000;
    s->budget.added_row_seconds = 1;
}

/* Stops after this layer of a pass with all three jobs. NEXT is in the queue. */
static void set_scene(scene *c, int layer)
{
    service_open(&c->s, &tiny,
                 (sched_options){.parallel = AT_WORK, .context = CONTEXT, .threads = 2});
    hold_init(&c->hold, &c->s);
    atomic_store(&c->hold.layer, 0);
    service_send(&c->s, &c->a[DECODER], &questions[DECODER]);
    hold_wait_at(&c->hold, 0);
    set_maximum_budget(c->s.sched);
    for (int i = LONG_PREFILL; i < JOBS; i++)
        service_send(&c->s, &c->a[i], &questions[i]);
    hold_release(&c->hold, 0);
    hold_wait_at(&c->hold, 0);
    if (layer > 0) {
        hold_release(&c->hold, layer);
        hold_wait_at(&c->hold, layer);
    }
    assert_int_equal(c->s.sched->n_work, AT_WORK);
    assert_int_equal(c->s.sched->n_decode_rows, 1);
    c->passes = atomic_load(&c->hold.passes);
}

/* Continues to the given layer of the same pass. */
static void one_layer_on(scene *c, int layer)
{
    hold_release(&c->hold, layer);
    hold_wait_at(&c->hold, layer);
    assert_int_equal(atomic_load(&c->hold.passes), c->passes);
}

static void drop_job(scene *c, int index)
{
    service_drop(&c->s, &c->a[index]);
}

/* Waits for the release, while the engine thread is stopped. */
static void wait_released(scene *c, int index)
{
    while (!c->a[index].released)
        service_collect(&c->s);
}

/* The output of every job that was not dropped equals its solo run, except job `but`. */
static void clear_scene(scene *c, int but)
{
    hold_release(&c->hold, -1);
    for (int i = 0; i < JOBS; i++)
        service_wait_finished(&c->s, &c->a[i]);
    for (int i = 0; i < JOBS; i++) {
        if (c->a[i].finished && i != but)
            same_as_solo(&c->a[i], &alone[i]);
        drop_job(c, i);
    }
    service_close(&c->s);
    hold_fini(&c->hold);
    for (int i = 0; i < JOBS; i++) {
        assert_true(c->a[i].released);
        test_job_fini(&c->a[i]);
    }
}

static void drop_takes_effect_before_the_next_layer(void **state)
{
    (void)state;
    for (int index = 0; index < AT_WORK; index++)
        for (int layer = 0; layer + 1 < n_layers; layer += n_layers - 2) {
            scene c;
            sched_stats before, after;
            set_scene(&c, layer);
            sched_read_stats(c.s.sched, &before);
            drop_job(&c, index);
            one_layer_on(&c, layer + 1);
            wait_released(&c, index);
            sched_read_stats(c.s.sched, &after);
            assert_int_equal(after.aborted_inside, 1);
            assert_int_equal(after.canceled_decode, index == DECODER);
            assert_int_equal(after.canceled_prefill, index != DECODER);
            assert_int_equal(after.steps, before.steps);
            assert_int_equal(c.s.sched->n_slots, AT_WORK - 1);
            clear_scene(&c, index);
            for (int i = 0; i < JOBS; i++)
                assert_int_equal(c.a[i].finished, i != index);
        }
}

/* Its KV pages are free, and the prefill budget ignores a step that lost jobs. */
static void drop_frees_pages_inside_a_step(void **state)
{
    (void)state;
    scene c;
    mote_usage before, after;
    set_scene(&c, 1);
    mote_engine_usage(c.s.sched->engine, &before);
    drop_job(&c, PREFILL);
    drop_job(&c, LONG_PREFILL);
    one_layer_on(&c, 2);
    mote_engine_usage(c.s.sched->engine, &after);
    assert_int_equal(after.sessions, before.sessions - 2);
    assert_true(after.positions_free >= before.positions_free + BUDGET_MAX_ROWS);
    assert_int_equal(c.s.sched->n_prefill_rows, 0);
    const prefill_budget learnt = c.s.sched->budget;
    hold_release(&c.hold, 0);
    hold_wait_at(&c.hold, 0); /* NEXT prefills now */
    assert_memory_equal(&c.s.sched->budget, &learnt, sizeof learnt);
    clear_scene(&c, JOBS);
}

static void step_without_jobs_ends(void **state)
{
    (void)state;
    scene c;
    set_scene(&c, 0);
    for (int i = 0; i < AT_WORK; i++)
        drop_job(&c, i);
    hold_release(&c.hold, 1);
    hold_wait_at(&c.hold, 1); /* of the next pass, in which NEXT prefills */
    assert_int_equal(atomic_load(&c.hold.passes), c.passes + 1);
    for (int i = 0; i < AT_WORK; i++)
        wait_released(&c, i);
    clear_scene(&c, JOBS);
    assert_true(c.a[NEXT].finished);
}

/* A time limit can expire there too: the answer ends by length. */
static void deadline_ends_a_job_inside_a_step(void **state)
{
    (void)state;
    for (int index = 0; index < AT_WORK; index++) {
        scene c;
        set_scene(&c, 0);
        c.a[index].job->options.seconds = 1e-9;
        c.s.sched->next_deadline = 0;
        one_layer_on(&c, 1);
        while (!c.a[index].finished)
            service_collect(&c.s);
        assert_int_equal(c.a[index].output.status, MOTE_OK);
        assert_int_equal(c.a[index].output.answer.finish, MOTE_FINISH_LENGTH);
        clear_scene(&c, index);
    }
}

/* Every allocation on this path fails once: the job gets MOTE_E_MEMORY, the others are not
 * affected. */
static void deadline_with_failing_allocations(void **state)
{
    (void)state;
    bool failed = true;
    uint64_t fault = 1;
    for (; failed; fault++) {
        scene c;
        set_scene(&c, 0);
        c.a[DECODER].job->options.seconds = 1e-9;
        c.s.sched->next_deadline = 0;
        mem_fail_at(fault);
        one_layer_on(&c, 1);
        failed = mem_failed();
        mem_fail_at(0);
        while (!c.a[DECODER].finished)
            service_collect(&c.s);
        assert_int_equal(c.a[DECODER].output.status, failed ? MOTE_E_MEMORY : MOTE_OK);
        clear_scene(&c, DECODER);
    }
    printf("%llu allocations\n", (unsigned long long)fault - 2);
}

/* In every pass the prefilling job is dropped and another one is submitted. The decoding job still
 * gets one token per pass. */
static void drops_do_not_delay_decoding(void **state)
{
    (void)state;
    enum { ROUNDS = DECODER_TOKENS / 2 };
    scene c;
    test_job prefilling[ROUNDS + 1];
    set_scene(&c, 0);
    const size_t written = c.a[DECODER].job->n;
    for (int i = LONG_PREFILL; i < JOBS; i++)
        drop_job(&c, i);
    service_send(&c.s, &prefilling[0], &questions[LONG_PREFILL]);
    for (int i = 0; i < ROUNDS; i++) {
        hold_release(&c.hold, 0);
        hold_wait_at(&c.hold, 0); /* of the next pass */
        assert_int_equal(c.s.sched->n_work, 2);
        service_drop(&c.s, &prefilling[i]);
        service_send(&c.s, &prefilling[i + 1], &questions[LONG_PREFILL]);
    }
    assert_int_equal(c.a[DECODER].job->n, written + ROUNDS);
    assert_int_equal(atomic_load(&c.hold.passes), c.passes + ROUNDS);
    service_drop(&c.s, &prefilling[ROUNDS]);
    clear_scene(&c, JOBS);
    for (int i = 0; i <= ROUNDS; i++)
        assert_true(prefilling[i].released);
}

/* A job without rows in the pass, because it waits for another job's prefill, ends at once too. */
static void waiting_job_is_dropped_inside_a_step(void **state)
{
    (void)state;
    scene c;
    test_job follower;
    set_scene(&c, 0);
    drop_job(&c, PREFILL);
    service_send(&c.s, &follower, &questions[LONG_PREFILL]);
    drop_job(&c, NEXT);
    hold_release(&c.hold, 0);
    hold_wait_at(&c.hold, 0); /* of the next pass */
    assert_int_equal(c.s.sched->n_slots, AT_WORK);
    assert_int_equal(c.s.sched->n_work, AT_WORK - 1);
    c.passes = atomic_load(&c.hold.passes);
    service_drop(&c.s, &follower);
    one_layer_on(&c, 1);
    while (!follower.released)
        service_collect(&c.s);
    clear_scene(&c, JOBS);
    assert_true(c.a[LONG_PREFILL].finished);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drop_takes_effect_before_the_next_layer),
        cmocka_unit_test(drop_frees_pages_inside_a_step),
        cmocka_unit_test(step_without_jobs_ends),
        cmocka_unit_test(deadline_ends_a_job_inside_a_step),
        cmocka_unit_test(deadline_with_failing_allocations),
        cmocka_unit_test(drops_do_not_delay_decoding),
        cmocka_unit_test(waiting_job_is_dropped_inside_a_step),
    };
    rig_open(&tiny);
    mote_model_info info;
    mote_model_describe(tiny.model, &info);
    n_layers = (int)info.layers;
    questions[DECODER] = question_of_words(&tiny, 1, 0, 8, DECODER_TOKENS);
    questions[LONG_PREFILL] = question_of_words(&tiny, 2, 0, 200, 3);
    questions[PREFILL] = question_of_words(&tiny, 3, 0, 100, 3);
    questions[NEXT] = question_of_words(&tiny, 4, 0, 40, 3);
    if (questions[DECODER].prompt.n <= 16 || questions[DECODER].prompt.n >= 64)
        return 1; /* its prompt must fit one pass that the hold can stop */
    for (size_t i = 0; i < JOBS; i++)
        rig_solo(&tiny, &questions[i], CONTEXT, &alone[i]);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    for (size_t i = 0; i < JOBS; i++) {
        question_fini(&questions[i]);
        output_fini(&alone[i]);
    }
    rig_close(&tiny);
    return failed;
}
