/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base_cores_test.c - which CPUs are worth a thread, on machines that are described in
 * a folder: hyperthreads, cores of two strengths, a quota, half of the CPUs forbidden,
 * nothing known. Then the machine at hand, and a thread kept to one of its CPUs.
 */
#define _GNU_SOURCE
#include "base/cpu.h"
#include "base/pool.h"

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

static char sys[64];

static int make_folder(void **state)
{
    (void)state;
    snprintf(sys, sizeof sys, "mote-cores-XXXXXX");
    return mkdtemp(sys) != NULL ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -r ./%s", sys);
    return system(command);
}

/* Writes a file below the folder, with the folders it needs. */
static void put(const char *path, const char *text)
{
    char whole[256];
    snprintf(whole, sizeof whole, "%s/%s", sys, path);
    for (char *at = strchr(whole, '/'); at != NULL; at = strchr(at + 1, '/')) {
        *at = '\0';
        mkdir(whole, 0700);
        *at = '/';
    }
    FILE *f = fopen(whole, "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static void put_cpu(uint32_t cpu, const char *file, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "devices/system/cpu/cpu%u/%s", cpu, file);
    put(path, text);
}

static cores_set range(uint32_t from, uint32_t to)
{
    cores_set set = {{0}};
    for (uint32_t cpu = from; cpu < to; cpu++)
        cores_add(&set, cpu);
    return set;
}

static void expect(const cores *c, uint32_t n, bool weaker, bool quota, uint32_t here,
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

static void nothing_known_limits_nothing(void **state)
{
    (void)state;
    cores c;
    cores_set four = range(0, 4), none = {{0}};
    cores_find_in(&c, sys, &four, 2);
    expect(&c, 4, false, false, 2, "0,1,2,3");
    assert_memory_equal(&c.cpus, &four, sizeof four);
    cores_find_in(&c, sys, &none, 2);
    expect(&c, 1, false, false, 0, "");
    cores_find_in(&c, sys, &four, CORES_MAX);
    expect(&c, 4, false, false, 4, "0,1,2,3");
}

/* CPU i and i + 4 are one core. */
static void a_core_counts_once(void **state)
{
    (void)state;
    cores c;
    for (uint32_t cpu = 0; cpu < 8; cpu++) {
        char siblings[16];
        snprintf(siblings, sizeof siblings, "%u,%u\n", cpu % 4, cpu % 4 + 4);
        put_cpu(cpu, "topology/thread_siblings_list", siblings);
    }
    cores_set all = range(0, 8), second = range(4, 8), mixed = range(2, 6);
    cores_find_in(&c, sys, &all, 6);
    expect(&c, 4, false, false, 2, "0,1,2,3");
    assert_memory_equal(&c.cpus, &all, sizeof all);
    cores_find_in(&c, sys, &second, 0); /* only second hyperthreads: still four cores */
    expect(&c, 4, false, false, 4, "4,5,6,7");
    cores_find_in(&c, sys, &mixed, 3);
    expect(&c, 4, false, false, 1, "2,3,4,5");
}

/* The kernel writes neighbours as a range. Two strong cores of two threads, four weak ones. */
static void weak_cores_are_left_out(void **state)
{
    (void)state;
    cores c;
    for (uint32_t cpu = 0; cpu < 8; cpu++) {
        char siblings[16];
        snprintf(siblings, sizeof siblings, cpu < 4 ? "%u-%u\n" : "%u\n",
                 cpu < 4 ? cpu / 2 * 2 : cpu, cpu / 2 * 2 + 1);
        put_cpu(cpu, "topology/thread_siblings_list", siblings);
        put_cpu(cpu, "cpufreq/cpuinfo_max_freq",
                cpu < 2   ? "5100000\n"
                : cpu < 4 ? "4800000\n"
                          : "3500000\n");
    }
    cores_set all = range(0, 8), weak = range(4, 8), strong = range(0, 4);
    cores_find_in(&c, sys, &all, 5);
    expect(&c, 2, true, false, 2, "0,2");
    assert_memory_equal(&c.cpus, &strong, sizeof strong);
    cores_find_in(&c, sys, &weak, 5); /* alone they are the strong ones */
    expect(&c, 4, false, false, 1, "4,5,6,7");
    for (uint32_t cpu = 0; cpu < 8; cpu++) /* capacity comes before frequency */
        put_cpu(cpu, "cpu_capacity", cpu == 7 ? "1024\n" : "400\n");
    cores_find_in(&c, sys, &all, 7);
    expect(&c, 1, true, false, 0, "7");
}

static void a_quota_limits_threads(void **state)
{
    (void)state;
    cores c;
    cores_set six = range(0, 6);
    put("fs/cgroup/cpu.max", "250000 100000\n");
    cores_find_in(&c, sys, &six, 0);
    expect(&c, 3, false, true, 0, "0,1,2,3,4,5");
    put("fs/cgroup/cpu.max", "600000 100000\n");
    cores_find_in(&c, sys, &six, 0);
    expect(&c, 6, false, false, 0, "0,1,2,3,4,5");
    put("fs/cgroup/cpu.max", "max 100000\n");
    cores_find_in(&c, sys, &six, 0);
    expect(&c, 6, false, false, 0, "0,1,2,3,4,5");
}

static void damaged_facts_are_survived(void **state)
{
    (void)state;
    cores c;
    cores_set two = range(0, 2);
    put_cpu(0, "topology/thread_siblings_list", "9999999\n");
    put_cpu(1, "topology/thread_siblings_list", "-3\n");
    put("fs/cgroup/cpu.max", "-1 0\n");
    cores_find_in(&c, sys, &two, 1);
    expect(&c, 2, false, false, 1, "0,1");
}

static void look_where(void *ctx, uint32_t task, uint32_t worker)
{
    (void)task;
    uint32_t *cpu = ctx;
    if (worker == 1)
        cpu[1] = (uint32_t)sched_getcpu();
    for (uint32_t i = 0; worker == 0 && i < 100; i++) /* leaves something for the other */
        sched_yield();
}

/* A held worker runs where it was told to; the caller keeps its affinity. */
static void a_worker_keeps_to_its_cpu(void **state)
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
            pool_run(p, look_where, cpu, 8);
        assert_int_equal(cpu[1], c.strong[i]);
        pool_free(p);
    }
    assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
    assert_true(CPU_EQUAL(&before, &after));
}

/* A set of CPUs that do not exist is refused, and the thread goes on. */
static void an_impossible_hold_is_refused(void **state)
{
    (void)state;
    cores_set none = {{0}};
    assert_false(cores_hold(pthread_self(), &none));
}

int main(void)
{
#define ON_A_MACHINE(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        ON_A_MACHINE(nothing_known_limits_nothing),
        ON_A_MACHINE(a_core_counts_once),
        ON_A_MACHINE(weak_cores_are_left_out),
        ON_A_MACHINE(a_quota_limits_threads),
        ON_A_MACHINE(damaged_facts_are_survived),
        cmocka_unit_test(a_worker_keeps_to_its_cpu),
        cmocka_unit_test(an_impossible_hold_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
