/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base_ram_test.c - how much memory a process may use: a fake root directory with meminfo and
 * cgroups of both versions, and a real RLIMIT_AS.
 */
#define _GNU_SOURCE
#include "base/ram.h"
#include "base/str.h"
#include "support/fake_root.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void root_write_meminfo(void)
{
    fake_root_write("proc/meminfo", "MemTotal:       24682416 kB\nMemFree:         1000000 kB\n"
                                    "MemAvailable:    8000000 kB\nBuffers:          180708 kB\n");
}

static void expect(uint64_t bytes, const char *source)
{
    ram r;
    ram_find_in(&r, fake_root);
    assert_int_equal(r.bytes, bytes);
    assert_string_equal(r.source, source);
}

static void machine_without_cgroups(void **state)
{
    (void)state;
    root_write_meminfo();
    expect(8000000ull * 1024, "RAM");
    ram r;
    const char *source;
    ram_find_in(&r, fake_root);
    assert_int_equal(ram_budget(&r, 0, &source), 7500000ull * 1024); /* 1/16 is kept */
    assert_string_equal(source, "RAM");
}

/* Without meminfo (ProcSubset=pid) the size of the machine is the limit. */
static void missing_meminfo(void **state)
{
    (void)state;
    const uint64_t all = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    expect(all, "RAM");
}

/* The strictest of the process's cgroup and its parents counts; page cache is free. */
static void cgroup_version_2(void **state)
{
    (void)state;
    root_write_meminfo();
    fake_root_write("proc/self/cgroup", "0::/user/box/inner\n");
    fake_root_write("sys/fs/cgroup/user/box/inner/memory.max", "max\n");
    fake_root_write("sys/fs/cgroup/user/box/inner/memory.high", "max\n");
    fake_root_write("sys/fs/cgroup/user/box/inner/memory.current", "123\n");
    expect(8000000ull * 1024, "RAM");
    fake_root_write("sys/fs/cgroup/user/box/memory.max", "1000000000\n");
    fake_root_write("sys/fs/cgroup/user/box/memory.high", "900000000\n");
    fake_root_write("sys/fs/cgroup/user/box/memory.current", "500000000\n");
    fake_root_write("sys/fs/cgroup/user/box/memory.stat",
                    "anon 100\nfile 400000000\ninactive_file 250000000\nactive_file 150000000\n");
    expect(800000000, "cgroup /user/box");
    fake_root_write("sys/fs/cgroup/user/memory.max", "100\n");
    fake_root_write("sys/fs/cgroup/user/memory.current", "200\n");
    expect(0, "cgroup /user");
}

static void cgroup_version_1(void **state)
{
    (void)state;
    root_write_meminfo();
    fake_root_write("proc/self/cgroup",
                    "9:name=systemd:/\n5:cpu,cpuacct:/x\n4:hugetlb,memory:/a/b\n"
                    "3:memoryless:/none\n0::/\n");
    fake_root_write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    fake_root_write("sys/fs/cgroup/memory/memory.usage_in_bytes", "1\n");
    fake_root_write("sys/fs/cgroup/memory/none/memory.limit_in_bytes", "1\n");
    fake_root_write("sys/fs/cgroup/memory/none/memory.usage_in_bytes", "0\n");
    expect(8000000ull * 1024, "RAM");
    fake_root_write("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "2000000000\n");
    fake_root_write("sys/fs/cgroup/memory/a/b/memory.usage_in_bytes", "600000000\n");
    fake_root_write(
        "sys/fs/cgroup/memory/a/b/memory.stat",
        "inactive_file 7\ntotal_inactive_file 100000000\ntotal_active_file 300000000\n");
    expect(1800000000, "cgroup /a/b");
}

/* A container sees a path of its host, but its own limits are at the root of the mount. */
static void container_with_a_path_of_the_host(void **state)
{
    (void)state;
    root_write_meminfo();
    fake_root_write("proc/self/cgroup", "0::/../../docker/abc\n");
    fake_root_write("sys/fs/cgroup/memory.max", "3000000000\n");
    fake_root_write("sys/fs/cgroup/memory.current", "1000000000\n");
    expect(2000000000, "cgroup /");
}

/* Mapped files are part of the address space that is already used. */
static void address_space_limit(void **state)
{
    (void)state;
    root_write_meminfo();
    fake_root_write("proc/self/statm", "1000 500 200 1 0 300 0\n");
    const pid_t child = fork();
    if (child == 0) {
        const struct rlimit limit = {(rlim_t)1 << 31, (rlim_t)1 << 31};
        const uint64_t used = 1000 * (uint64_t)sysconf(_SC_PAGESIZE);
        ram r;
        const char *source;
        if (setrlimit(RLIMIT_AS, &limit) != 0)
            _exit(77);
        ram_find_in(&r, fake_root);
        const uint64_t left = ((uint64_t)1 << 31) - used, mapped = 4096;
        const uint64_t wanted = left + mapped - (left + mapped) / 16;
        const bool right = r.address_space == left && ram_budget(&r, mapped, &source) == wanted &&
                           strcmp(source, "ulimit -v") == 0;
        _exit(right ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 77));
}

static void real_machine(void **state)
{
    (void)state;
    const uint64_t all = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    ram r;
    ram_find(&r);
    assert_true(r.bytes > 0 && r.bytes <= all);
    assert_true(r.source[0] != '\0');
}

static void sizes(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double bytes;
    } good[] = {{"8", 8e9},     {"0.5", 5e8},           {"8G", 8e9},           {"8GB", 8e9},
                {"8gb", 8e9},   {"8GiB", 8589934592.0}, {"8Gi", 8589934592.0}, {"1.5M", 1.5e6},
                {"2KiB", 2048}, {"1T", 1e12},           {"700B", 700}};
    static const char *const bad[] = {"",    "G",   "8X",    "8GBs", "-8", "8 GB", "0x10",
                                      "inf", "nan", "8GiBB", "1e9",  "8i", "8.."};
    double bytes;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_true(str_size(good[i].text, 1e9, &bytes));
        assert_true(bytes == good[i].bytes);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(str_size(bad[i], 1e9, &bytes));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(machine_without_cgroups, fake_root_make, fake_root_remove),
        cmocka_unit_test(missing_meminfo),
        cmocka_unit_test_setup_teardown(cgroup_version_2, fake_root_make, fake_root_remove),
        cmocka_unit_test_setup_teardown(cgroup_version_1, fake_root_make, fake_root_remove),
        cmocka_unit_test_setup_teardown(container_with_a_path_of_the_host, fake_root_make,
                                        fake_root_remove),
        cmocka_unit_test_setup_teardown(address_space_limit, fake_root_make, fake_root_remove),
        cmocka_unit_test(real_machine),
        cmocka_unit_test(sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
