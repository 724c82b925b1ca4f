/* SPDX-License-Identifier: Apache-2.0 */
/* base_cpu_arm_test.c - names of ARM CPUs from copies of the files of Linux. */
#include "base/cpu.h"
#include "support/fake_root.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define CORE(maker, part)                                                                          \
    "processor\t: 0\nBogoMIPS\t: 108.00\nFeatures\t: fp asimd\nCPU implementer\t: " maker          \
    "\nCPU architecture: 8\nCPU variant\t: 0x4\nCPU part\t: " part "\nCPU revision\t: 1\n\n"

static void expect_name(const char *cpuinfo, const char *model, const char *expected)
{
    char name[CPU_NAME_BYTES];
    fake_root_write("proc/cpuinfo", cpuinfo);
    fake_root_write("proc/device-tree/model", model);
    cpu_arm_name_in(name, fake_root);
    assert_string_equal(name, expected);
}

static void a_board_with_one_type(void **state)
{
    (void)state;
    expect_name(CORE("0x41", "0xd0b") CORE("0x41", "0xd0b") "Revision\t: d04170\n",
                "Raspberry Pi 5 Model B Rev 1.0", "Cortex-A76 (Raspberry Pi 5 Model B Rev 1.0)");
    expect_name(CORE("0x41", "0xd08"), "Raspberry Pi 4 Model B Rev 1.4\n",
                "Cortex-A72 (Raspberry Pi 4 Model B Rev 1.4)");
}

static void fast_and_slow_cores(void **state)
{
    (void)state;
    expect_name(CORE("0x41", "0xd46") CORE("0x41", "0xd46") CORE("0x41", "0xd4d")
                    CORE("0x41", "0xd4e"),
                "", "Cortex-A510 + Cortex-A715 + Cortex-X3");
    expect_name(CORE("0x61", "0x022") CORE("0x61", "0x023"), "",
                "Apple M1 Icestorm + Apple M1 Firestorm");
}

/* An unknown core is shown with its numbers; the same number of another maker is another core. */
static void unknown_cores(void **state)
{
    (void)state;
    expect_name(CORE("0x41", "0xd99"), "", "ARM 0x41/0xd99");
    expect_name(CORE("0x51", "0xd0b"), "", "ARM 0x51/0xd0b");
    expect_name(CORE("0x41", "0xfffffff"), "A board", "A board");
}

static void a_long_name_is_cut(void **state)
{
    (void)state;
    char name[CPU_NAME_BYTES];
    fake_root_write("proc/cpuinfo",
                    CORE("0x41", "0xd42") CORE("0x41", "0xd0e") CORE("0x41", "0xd41"));
    fake_root_write("proc/device-tree/model",
                    "A board with a long name and \033[1m bytes of a terminal");
    cpu_arm_name_in(name, fake_root);
    assert_int_equal(strlen(name), CPU_NAME_BYTES - 1);
    assert_null(strchr(name, '\033'));
}

static void files_of_another_system(void **state)
{
    (void)state;
    char name[CPU_NAME_BYTES] = "x";
    cpu_arm_name_in(name, fake_root);
    assert_string_equal(name, "");
    expect_name("processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Example\n", "", "");
    expect_name("CPU part\nCPU implementer\nCPU parts : 0xd0b\n", "", "");
}

int main(void)
{
#define WITH_ROOT(test) cmocka_unit_test_setup_teardown(test, fake_root_make, fake_root_remove)
    const struct CMUnitTest tests[] = {
        WITH_ROOT(a_board_with_one_type),   WITH_ROOT(fast_and_slow_cores),
        WITH_ROOT(unknown_cores),           WITH_ROOT(a_long_name_is_cut),
        WITH_ROOT(files_of_another_system),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
