/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base_cores_test.c - which CPUs get a thread. Most tests use a fake sysfs directory:
 * hyperthreads, performance and efficiency cores, a cgroup quota, a restricted affinity mask, no
 * information. The last tests pin a thread to a CPU of the real machine.
 */
#define _GNU_SOURCE
#include "base/cpu.h"
#include "base/pool.h"
#include "support/fake_root.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void sys_write_cpu(uint32_t cpu, const char *file, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "devices/system/cpu/cpu%u/%s", cpu, file);
    fake_root_write(path, text);
}

static cores_set cpu_range(uint32_t from, uint32_t to)
{
    cores_set set = {{0}};
    for (uint32_t cpu = from; cpu < to; cpu++)
        cores_add(&set, cpu);
    return set;
}

static void expect_cores(const cores *c, uint32_t n, bool weaker, bool quota, uint32_t here,
                         const char *strong)
{
    char list[256] = "";
    for (uint32_t i = 0; i < c->n_strong; i++)
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%u", i > 0 ? "," : "",
                 (unsigned)c->strong[i]);
    assert_string_equal(list, strong);
    assert_int_equal(c->n, n);
    assert_int_equal(c->weaker, weaker);
    assert_int_equal(c->quota, quota);
    assert_int_equal(c->here, here);
}

static void missing_sysfs_limits_nothing(void **state)
{
    (void)state;
    cores c;
    cores_set four = cpu_range(0, 4), none = {{0}};
    cores_find_in(&c, fake_root, &four, 2);
    expect_cores(&c, 4, false, false, 2, "0,1,2,3");
    assert_memory_equal(&c.cpus, &four, sizeof four);
    cores_find_in(&c, fake_root, &none, 2);
    expect_cores(&c, 1, false, false, 0, "");
    cores_find_in(&c, fake_root, &four, CORES_MAX);
    expect_cores(&c, 4, false, false, 4, "0,1,2,3");
}

/* CPU i and i + 4 are one core. */
static void hyperthreads_count_once(void **state)
{
    (void)state;
    cores c;
    for (uint32_t cpu = 0; cpu < 8; cpu++) {
        char siblings[16];
        snprintf(siblings, sizeof siblings, "%u,%u\n", cpu % 4, cpu % 4 + 4);
        sys_write_cpu(cpu, "topology/thread_siblings_list", siblings);
    }
    cores_set all = cpu_range(0, 8), second = cpu_range(4, 8), mixed = cpu_range(2, 6);
    cores_find_in(&c, fake_root, &all, 6);
    expect_cores(&c, 4, false, false, 2, "0,1,2,3");
    assert_memory_equal(&c.cpus, &all, sizeof all);
    cores_find_in(&c, fake_root, &second, 0); /* only the second hyperthreads: still four cores */
    expect_cores(&c, 4, false, false, 4, "4,5,6,7");
    cores_find_in(&c, fake_root, &mixed, 3);
    expect_cores(&c, 4, false, false, 1, "2,3,4,5");
}

/* The kernel writes siblings as a cpu_range. Two performance cores with two threads, four
 * efficiency cores. */
static void weak_cores_are_left_out(void **state)
{
    (void)state;
    cores c;
    for (uint32_t cpu = 0; cpu < 8; cpu++) {
        char siblings[16];
        snprintf(siblings, sizeof siblings, cpu < 4 ? "%u-%u\n" : "%u\n",
                 cpu < 4 ? cpu / 2 * 2 : cpu, cpu / 2 * 2 + 1);
        sys_write_cpu(cpu, "topology/thread_siblings_list", siblings);
        sys_write_cpu(cpu, "cpufreq/cpuinfo_max_freq",
                      cpu < 2   ? "5100000\n"
                      : cpu < 4 ? "4800000\n"
                                : "3500000\n");
    }
    cores_set all = cpu_range(0, 8), weak = cpu_range(4, 8), strong = cpu_range(0, 4);
    cores_find_in(&c, fake_root, &all, 5);
    expect_cores(&c, 2, true, false, 2, "0,2");
    assert_memory_equal(&c.cpus, &strong, sizeof strong);
    cores_find_in(&c, fake_root, &weak, 5); /* without others they count as strong */
    expect_cores(&c, 4, false, false, 1, "4,5,6,7");
    for (uint32_t cpu = 0; cpu < 8; cpu++) /* capacity takes precedence over frequency */
        sys_write_cpu(cpu, "cpu_capacity", cpu == 7 ? "1024\n" : "400\n");
    cores_find_in(&c, fake_root, &all, 7);
    expect_cores(&c, 1, true, false, 0, "7");
}

/* Four small, three middle and one large core, as in most phones. */
static void small_cores_of_a_phone_are_left_out(void **state)
{
    (void)state;
    cores c;
    for (uint32_t cpu = 0; cpu < 8; cpu++) {
        sys_write_cpu(cpu, "cpu_capacity", cpu < 4 ? "325\n" : cpu < 7 ? "640\n" : "1024\n");
        /* Frequencies are closer to each other than speeds. */
        sys_write_cpu(cpu, "cpufreq/cpuinfo_max_freq", cpu < 4 ? "2000000\n" : "2600000\n");
    }
    cores_set all = cpu_range(0, 8), small = cpu_range(0, 4), strong = cpu_range(4, 8);
    cores_find_in(&c, fake_root, &all, 5);
    expect_cores(&c, 4, true, false, 1, "4,5,6,7");
    assert_memory_equal(&c.cpus, &strong, sizeof strong);
    cores_find_in(&c, fake_root, &small, 1);
    expect_cores(&c, 4, false, false, 1, "0,1,2,3");
    sys_write_cpu(4, "cpu_capacity", "512\n"); /* the limit itself counts as fast */
    sys_write_cpu(5, "cpu_capacity", "511\n");
    cores_find_in(&c, fake_root, &all, 4);
    expect_cores(&c, 3, true, false, 0, "4,6,7");
}

static void a_quota_limits_threads(void **state)
{
    (void)state;
    cores c;
    cores_set six = cpu_range(0, 6);
    fake_root_write("fs/cgroup/cpu.max", "250000 100000\n");
    cores_find_in(&c, fake_root, &six, 0);
    expect_cores(&c, 3, false, true, 0, "0,1,2,3,4,5");
    fake_root_write("fs/cgroup/cpu.max", "600000 100000\n");
    cores_find_in(&c, fake_root, &six, 0);
    expect_cores(&c, 6, false, false, 0, "0,1,2,3,4,5");
    fake_root_write("fs/cgroup/cpu.max", "max 100000\n");
    cores_find_in(&c, fake_root, &six, 0);
    expect_cores(&c, 6, false, false, 0, "0,1,2,3,4,5");
}

static void invalid_sysfs_is_ignored(void **state)
{
    (void)state;
    cores c;
    cores_set two = cpu_range(0, 2);
    sys_write_cpu(0, "topology/thread_siblings_list", "9999999\n");
    sys_write_cpu(1, "topology/thread_siblings_list", "-3\n");
    fake_root_write("fs/cgroup/cpu.max", "-1 0\n");
    cores_find_in(&c, fake_root, &two, 1);
    expect_cores(&c, 2, false, false, 1, "0,1");
}

static void record_cpu(void *ctx, uint32_t task, uint32_t worker)
{
    (void)task;
    uint32_t *cpu = ctx;
    if (worker == 1)
        cpu[1] = (uint32_t)sched_getcpu();
    for (uint32_t i = 0; worker == 0 && i < 100; i++) /* lets worker 1 take a task */
        sched_yield();
}

/* A pinned worker runs on its CPU; the affinity of the caller does not change. */
static void pinned_worker_stays_on_its_cpu(void **state)
{
    (void)state;
    cores c;
    cores_find(&c);
    assert_in_range(c.n, 1, CORES_MAX);
    cpu_set_t before, after;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    for (uint32_t i = 0; i < c.n_strong && i < 4; i++) {
        mote_error err;
        pool *p;
        uint32_t cpu[2] = {0, CORES_MAX};
        cores_set one = {{0}};
        cores_add(&one, c.strong[i]);
        assert_int_equal(pool_new(&p, 2, &err), MOTE_OK);
        pool_hold(p, 1, &one);
        for (uint32_t run = 0; run < 10000 && cpu[1] == CORES_MAX; run++)
            pool_run(p, record_cpu, cpu, 8);
        assert_int_equal(cpu[1], c.strong[i]);
        pool_free(p);
    }
    assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
    assert_true(CPU_EQUAL(&before, &after));
}

/* An empty CPU set is rejected. */
static void empty_cpu_set_is_rejected(void **state)
{
    (void)state;
    cores_set none = {{0}};
    assert_false(cores_hold(pthread_self(), &none));
}

/* A system that only counts its cores says nothing about single CPUs. */
static void counted_cores(void **state)
{
    (void)state;
    cores c;
    cores_from_count(&c, 4, 4);
    expect_cores(&c, 4, true, false, 4, "0,1,2,3");
    cores_from_count(&c, 8, 0);
    expect_cores(&c, 8, false, false, 8, "0,1,2,3,4,5,6,7");
    cores_from_count(&c, 0, 0);
    expect_cores(&c, 1, false, false, 1, "0");
    cores_from_count(&c, 100000, 0);
    assert_int_equal(c.n, CORES_MAX);
}

int main(void)
{
#define WITH_SYS(test) cmocka_unit_test_setup_teardown(test, fake_root_make, fake_root_remove)
    const struct CMUnitTest tests[] = {
        WITH_SYS(missing_sysfs_limits_nothing),
        WITH_SYS(hyperthreads_count_once),
        WITH_SYS(weak_cores_are_left_out),
        WITH_SYS(small_cores_of_a_phone_are_left_out),
        WITH_SYS(a_quota_limits_threads),
        WITH_SYS(invalid_sysfs_is_ignored),
        cmocka_unit_test(pinned_worker_stays_on_its_cpu),
        cmocka_unit_test(empty_cpu_set_is_rejected),
        cmocka_unit_test(counted_cores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
