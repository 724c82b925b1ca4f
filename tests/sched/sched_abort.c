/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sched_abort.c - whoever leaves in the middle of a step is gone before the next layer, and those
 * who share the step with him neither lose a bit nor wait any longer.
 *
 * One is writing, two are being read, in one pass; the engine thread is stopped between two of
 * its layers, and there they leave.
 */
#include "sched/sched_hold.h"

#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
/* cmocka needs those before it */
#include <cmocka.h>

enum { WRITER, LONG_READER, READER, NEXT, JOBS, AT_WORK = NEXT };
enum { CONTEXT = 2048, WRITES = 24 };

static rig tiny;
static question questions[JOBS];
static said alone[JOBS];
static int n_layers;

typedef struct scene {
    service s;
    gate g;
    asked a[JOBS];
    unsigned passes; /* before the one that it stands in */
} scene;

/* The pace must not depend on what this machine is doing: slices are as large as can be. */
static void be_generous(sched *s)
{
    for (size_t i = 0; i <= BUDGET_MAX_DECODING; i++)
        s->budget.decode_seconds[i] = 1000;
    s->budget.added_row_seconds = 1;
}

/* Stands after this layer of a pass with all three; NEXT is in the queue. */
static void set_scene(scene *c, int layer)
{
    service_open(&c->s, &tiny,
                 (sched_options){.parallel = AT_WORK, .context = CONTEXT, .threads = 2});
    gate_build(&c->g, &c->s);
    atomic_store(&c->g.layer, 0);
    service_ask(&c->s, &c->a[WRITER], &questions[WRITER]);
    gate_stop_at(&c->g, 0);
    be_generous(c->s.sched);
    for (int i = LONG_READER; i < JOBS; i++)
        service_ask(&c->s, &c->a[i], &questions[i]);
    gate_open(&c->g, 0);
    gate_stop_at(&c->g, 0);
    if (layer > 0) {
        gate_open(&c->g, layer);
        gate_stop_at(&c->g, layer);
    }
    assert_int_equal(c->s.sched->n_work, AT_WORK);
    assert_int_equal(c->s.sched->n_decode_rows, 1);
    c->passes = atomic_load(&c->g.passes);
}

/* To the layer after the next look, in the same pass. */
static void one_layer_on(scene *c, int layer)
{
    gate_open(&c->g, layer);
    gate_stop_at(&c->g, layer);
    assert_int_equal(atomic_load(&c->g.passes), c->passes);
}

static void leave(scene *c, int who)
{
    service_drop(&c->s, &c->a[who]);
}

/* While the engine thread stands. */
static void is_gone(scene *c, int who)
{
    while (!c->a[who].released)
        service_turn(&c->s);
}

/* Whoever has not left says what he says alone, `but` one. */
static void clear_scene(scene *c, int but)
{
    gate_open(&c->g, -1);
    for (int i = 0; i < JOBS; i++)
        service_until_over(&c->s, &c->a[i]);
    for (int i = 0; i < JOBS; i++) {
        if (c->a[i].over && i != but)
            same_as_solo(&c->a[i], &alone[i]);
        leave(c, i);
    }
    service_close(&c->s);
    gate_take_down(&c->g);
    for (int i = 0; i < JOBS; i++) {
        assert_true(c->a[i].released);
        asked_fini(&c->a[i]);
    }
}

static void one_is_gone_before_the_next_layer(void **state)
{
    (void)state;
    for (int who = 0; who < AT_WORK; who++)
        for (int layer = 0; layer + 1 < n_layers; layer += n_layers - 2) {
            scene c;
            sched_stats before, after;
            set_scene(&c, layer);
            sched_read_stats(c.s.sched, &before);
            leave(&c, who);
            one_layer_on(&c, layer + 1);
            is_gone(&c, who);
            sched_read_stats(c.s.sched, &after);
            assert_int_equal(after.aborted_inside, 1);
            assert_int_equal(after.canceled_decode, who == WRITER);
            assert_int_equal(after.canceled_prefill, who != WRITER);
            assert_int_equal(after.steps, before.steps);
            assert_int_equal(c.s.sched->n_slots, AT_WORK - 1);
            clear_scene(&c, who);
            for (int i = 0; i < JOBS; i++)
                assert_int_equal(c.a[i].over, i != who);
        }
}

/* What he held is free, and the pace has learnt nothing from a step that became smaller. */
static void what_he_held_is_there_again(void **state)
{
    (void)state;
    scene c;
    mote_usage before, after;
    set_scene(&c, 1);
    mote_engine_usage(c.s.sched->engine, &before);
    leave(&c, READER);
    leave(&c, LONG_READER);
    one_layer_on(&c, 2);
    mote_engine_usage(c.s.sched->engine, &after);
    assert_int_equal(after.sessions, before.sessions - 2);
    assert_true(after.positions_free >= before.positions_free + BUDGET_MAX_ROWS);
    assert_int_equal(c.s.sched->n_prefill_rows, 0);
    const prefill_budget learnt = c.s.sched->budget;
    gate_open(&c.g, 0);
    gate_stop_at(&c.g, 0); /* now NEXT is read */
    assert_memory_equal(&c.s.sched->budget, &learnt, sizeof learnt);
    clear_scene(&c, JOBS);
}

static void a_pass_that_nobody_stays_in_ends(void **state)
{
    (void)state;
    scene c;
    set_scene(&c, 0);
    for (int i = 0; i < AT_WORK; i++)
        leave(&c, i);
    gate_open(&c.g, 1);
    gate_stop_at(&c.g, 1); /* of the next pass, in which NEXT is read */
    assert_int_equal(atomic_load(&c.g.passes), c.passes + 1);
    for (int i = 0; i < AT_WORK; i++)
        is_gone(&c, i);
    clear_scene(&c, JOBS);
    assert_true(c.a[NEXT].over);
}

/* Time may run out there too: the answer ends by length. */
static void who_is_late_ends_there(void **state)
{
    (void)state;
    for (int who = 0; who < AT_WORK; who++) {
        scene c;
        set_scene(&c, 0);
        c.a[who].job->options.seconds = 1e-9;
        c.s.sched->next_deadline = 0;
        one_layer_on(&c, 1);
        while (!c.a[who].over)
            service_turn(&c.s);
        assert_int_equal(c.a[who].said.status, MOTE_OK);
        assert_int_equal(c.a[who].said.answer.finish, MOTE_FINISH_LENGTH);
        clear_scene(&c, who);
    }
}

/* Every request for memory on that way fails once: he is told so, the others notice nothing. */
static void without_memory_too(void **state)
{
    (void)state;
    bool failed = true;
    uint64_t fault = 1;
    for (; failed; fault++) {
        scene c;
        set_scene(&c, 0);
        c.a[WRITER].job->options.seconds = 1e-9;
        c.s.sched->next_deadline = 0;
        mem_fail_at(fault);
        one_layer_on(&c, 1);
        failed = mem_failed();
        mem_fail_at(0);
        while (!c.a[WRITER].over)
            service_turn(&c.s);
        assert_int_equal(c.a[WRITER].said.status, failed ? MOTE_E_MEMORY : MOTE_OK);
        clear_scene(&c, WRITER);
    }
    printf("%llu requests\n", (unsigned long long)fault - 2);
}

/* In the middle of every pass the reader leaves and another one comes: he who writes gets a token
 * from each pass all the same. */
static void nobody_is_held_up_by_those_who_leave(void **state)
{
    (void)state;
    enum { ROUNDS = WRITES / 2 };
    scene c;
    asked readers[ROUNDS + 1];
    set_scene(&c, 0);
    const size_t written = c.a[WRITER].job->n;
    for (int i = LONG_READER; i < JOBS; i++)
        leave(&c, i);
    service_ask(&c.s, &readers[0], &questions[LONG_READER]);
    for (int i = 0; i < ROUNDS; i++) {
        gate_open(&c.g, 0);
        gate_stop_at(&c.g, 0); /* of the next pass */
        assert_int_equal(c.s.sched->n_work, 2);
        service_drop(&c.s, &readers[i]);
        service_ask(&c.s, &readers[i + 1], &questions[LONG_READER]);
    }
    assert_int_equal(c.a[WRITER].job->n, written + ROUNDS);
    assert_int_equal(atomic_load(&c.g.passes), c.passes + ROUNDS);
    service_drop(&c.s, &readers[ROUNDS]);
    clear_scene(&c, JOBS);
    for (int i = 0; i <= ROUNDS; i++)
        assert_true(readers[i].released);
}

/* Who has no row in the pass, because he waits for what another one reads, leaves at once too. */
static void who_stands_and_waits_leaves_too(void **state)
{
    (void)state;
    scene c;
    asked follower;
    set_scene(&c, 0);
    leave(&c, READER);
    service_ask(&c.s, &follower, &questions[LONG_READER]);
    leave(&c, NEXT);
    gate_open(&c.g, 0);
    gate_stop_at(&c.g, 0); /* of the next pass */
    assert_int_equal(c.s.sched->n_slots, AT_WORK);
    assert_int_equal(c.s.sched->n_work, AT_WORK - 1);
    c.passes = atomic_load(&c.g.passes);
    service_drop(&c.s, &follower);
    one_layer_on(&c, 1);
    while (!follower.released)
        service_turn(&c.s);
    clear_scene(&c, JOBS);
    assert_true(c.a[LONG_READER].over);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_is_gone_before_the_next_layer),
        cmocka_unit_test(what_he_held_is_there_again),
        cmocka_unit_test(a_pass_that_nobody_stays_in_ends),
        cmocka_unit_test(who_is_late_ends_there),
        cmocka_unit_test(without_memory_too),
        cmocka_unit_test(nobody_is_held_up_by_those_who_leave),
        cmocka_unit_test(who_stands_and_waits_leaves_too),
    };
    rig_open(&tiny);
    mote_model_info info;
    mote_model_describe(tiny.model, &info);
    n_layers = (int)info.layers;
    questions[WRITER] = question_of_words(&tiny, 1, 0, 8, WRITES);
    questions[LONG_READER] = question_of_words(&tiny, 2, 0, 200, 3);
    questions[READER] = question_of_words(&tiny, 3, 0, 100, 3);
    questions[NEXT] = question_of_words(&tiny, 4, 0, 40, 3);
    if (questions[WRITER].prompt.n <= 16 || questions[WRITER].prompt.n >= 64)
        return 1; /* it has to be read in one pass that can be left */
    for (size_t i = 0; i < JOBS; i++)
        rig_solo(&tiny, &questions[i], CONTEXT, &alone[i]);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    for (size_t i = 0; i < JOBS; i++) {
        question_fini(&questions[i]);
        said_fini(&alone[i]);
    }
    rig_close(&tiny);
    return failed;
}
