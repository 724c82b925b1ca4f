/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sched_background.c - background jobs: other jobs come first, and neither loses a byte.
 *
 * Steps are counted, not timed, so the results do not depend on the speed of the machine.
 */
#include "sched/sched_hold.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
/* cmocka.h needs the headers above */
#include <cmocka.h>

enum { CONTEXT = 2048, PARALLEL = 4, BACKGROUND = 5, STEPS = 64 };

static rig tiny;

static void send_background(service *s, test_job *a, const question *q)
{
    mote_error err;
    sched_job_options o = service_job(s, a, q);
    o.background = true;
    must(service_submit(s, a, &o, &err), &err);
}

static uint64_t generated(service *s, const test_job *a)
{
    sched_job_status status;
    sched_job_get_status(s->sched, a->job, &status);
    return status.generated;
}

static void finish(service *s, test_job *a, const question *q)
{
    test_output solo;
    service_wait_finished(s, a);
    rig_solo(&tiny, q, CONTEXT, &solo);
    same_as_solo(a, &solo);
    output_fini(&solo);
    service_drop(s, a);
    test_job_fini(a);
}

/* Background jobs hold all slots but one. A request gets a token in every step; the others get one in
 * SHARE_BACKGROUND_EVERY. */
static void requests_come_first(void **state)
{
    (void)state;
    service s;
    test_job low[BACKGROUND], high;
    question q[BACKGROUND], urgent = question_of_words(&tiny, 9, 0, 6, 120);
    uint64_t before[BACKGROUND];
    sched_stats stats;
    service_open_held(&s, &tiny,
                      (sched_options){.parallel = PARALLEL,
                                      .context = CONTEXT,
                                      .kv_tokens = 16384,
                                      .spec = SPEC_OFF,
                                      .threads = 1});
    for (int i = 0; i < BACKGROUND; i++) {
        q[i] = question_of_words(&tiny, 20 + (uint64_t)i, 0, 6, 150);
        send_background(&s, &low[i], &q[i]);
    }
    for (int i = 0; i < PARALLEL - 1; i++)
        service_step_to(&s, &low[i], SCHED_DECODE);
    for (int i = PARALLEL - 1; i < BACKGROUND; i++)
        assert_false(low[i].started); /* a slot is free for a request */
    service_send_as(&s, &high, &urgent, 77);
    service_step_to(&s, &high, SCHED_DECODE);
    for (int i = 0; i < PARALLEL - 1; i++)
        before[i] = generated(&s, &low[i]);
    const uint64_t had = generated(&s, &high);
    sched_read_stats(s.sched, &stats);
    const uint64_t steps = stats.steps;
    while (stats.steps < steps + STEPS) {
        service_step(&s, &high);
        sched_read_stats(s.sched, &stats);
    }
    const uint64_t ran = stats.steps - steps;
    assert_true(generated(&s, &high) - had + 1 >= ran);
    for (int i = 0; i < PARALLEL - 1; i++) {
        const uint64_t got = generated(&s, &low[i]) - before[i];
        printf("background job %d: %llu tokens in %llu steps\n", i, (unsigned long long)got,
               (unsigned long long)ran);
        assert_true(got >= 1 && got <= ran / SHARE_BACKGROUND_EVERY + 1);
    }
    service_release(&s);
    finish(&s, &high, &urgent);
    for (int i = 0; i < BACKGROUND; i++)
        finish(&s, &low[i], &q[i]);
    service_close(&s);
    question_fini(&urgent);
    for (int i = 0; i < BACKGROUND; i++)
        question_fini(&q[i]);
}

/* More requests than slots: background jobs give up theirs, and get them back. */
static void requests_take_the_slots(void **state)
{
    (void)state;
    enum { REQUESTS = PARALLEL + 2 };
    service s;
    test_job low[BACKGROUND], high[REQUESTS];
    question q[BACKGROUND], r[REQUESTS];
    service_open_held(&s, &tiny,
                      (sched_options){.parallel = PARALLEL,
                                      .context = 1024,
                                      .kv_tokens = 1024, /* less than all need together */
                                      .threads = 1});
    for (int i = 0; i < BACKGROUND; i++) {
        q[i] = question_of_words(&tiny, 40 + (uint64_t)i, 20, 60, 60);
        send_background(&s, &low[i], &q[i]);
    }
    service_step_to(&s, &low[0], SCHED_DECODE);
    for (int i = 0; i < REQUESTS; i++) {
        r[i] = question_of_words(&tiny, 60 + (uint64_t)i, 20, 60, 30);
        service_send_as(&s, &high[i], &r[i], 7);
    }
    for (int i = 0; i < PARALLEL; i++)
        service_step_to(&s, &high[i], SCHED_DECODE);
    for (int i = 0; i < BACKGROUND; i++)
        assert_false(low[i].finished);
    service_release(&s);
    for (int i = 0; i < REQUESTS; i++)
        finish(&s, &high[i], &r[i]);
    for (int i = 0; i < BACKGROUND; i++)
        finish(&s, &low[i], &q[i]);
    service_close(&s);
    for (int i = 0; i < REQUESTS; i++)
        question_fini(&r[i]);
    for (int i = 0; i < BACKGROUND; i++)
        question_fini(&q[i]);
}

/* A request arrives between two layers of a pass that prefills a background job: the pass ends there,
 * at every layer, and the job prefills again later. */
static void request_interrupts_a_step(void **state)
{
    (void)state;
    mote_model_info info;
    mote_model_describe(tiny.model, &info);
    for (int layer = 0; layer + 1 < (int)info.layers; layer++) {
        service s;
        layer_hold hold;
        test_job low, high;
        sched_stats stats;
        question q = question_of_words(&tiny, 3, 0, 200, 8);
        question urgent = question_of_words(&tiny, 5, 0, 6, 8);
        service_open(&s, &tiny, (sched_options){.parallel = 2, .context = CONTEXT, .threads = 1});
        hold_init(&hold, &s);
        atomic_store(&hold.layer, layer);
        send_background(&s, &low, &q);
        hold_wait_at(&hold, layer);
        service_send_as(&s, &high, &urgent, 7);
        hold_release(&hold, -1);
        service_wait_finished(&s, &high);
        sched_read_stats(s.sched, &stats);
        assert_int_equal(stats.aborted_inside, 1);
        finish(&s, &high, &urgent);
        finish(&s, &low, &q);
        service_close(&s);
        hold_fini(&hold);
        question_fini(&q);
        question_fini(&urgent);
    }
}

static int open_rig(void **state)
{
    (void)state;
    rig_open(&tiny);
    return 0;
}

static int close_rig(void **state)
{
    (void)state;
    rig_close(&tiny);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_come_first),
        cmocka_unit_test(requests_take_the_slots),
        cmocka_unit_test(request_interrupts_a_step),
    };
    return cmocka_run_group_tests(tests, open_rig, close_rig);
}
