/* SPDX-License-Identifier: Apache-2.0 */
/*
 * os_cpu_macos.c - implements os_cpu.h for macOS, with sysctl.
 *
 * macOS has no affinity: it chooses the cores of a thread by its quality of service. So mote starts
 * as many threads as there are performance cores and leaves their placement to the system.
 */
#include "base/os_cpu.h"

#include <sys/sysctl.h>
#include <sys/types.h>

/* A number of 4 or 8 bytes; 0: the system has no such value. */
static uint64_t sysctl_number(const char *name)
{
    uint64_t value = 0;
    size_t bytes = sizeof value;
    return sysctlbyname(name, &value, &bytes, NULL, 0) == 0 ? value : 0;
}

void os_read_arm_sets(os_arm_sets *out)
{
    *out = (os_arm_sets){.neon = true, /* of every 64-bit ARM Mac */
                         .dotprod = sysctl_number("hw.optional.arm.FEAT_DotProd") != 0,
                         .i8mm = sysctl_number("hw.optional.arm.FEAT_I8MM") != 0};
}

bool os_allow_amx(void)
{
    return false;
}

bool os_cpu_name(char out[CPU_NAME_BYTES])
{
    size_t bytes = CPU_NAME_BYTES;
    out[0] = '\0';
    if (sysctlbyname("machdep.cpu.brand_string", out, &bytes, NULL, 0) != 0)
        out[0] = '\0';
    out[CPU_NAME_BYTES - 1] = '\0';
    return true;
}

/* Level 0 has the fastest cores. Intel Macs have no levels. */
bool os_count_cores(os_core_count *out)
{
    const uint64_t levels = sysctl_number("hw.nperflevels");
    *out = (os_core_count){.fast = (uint32_t)sysctl_number("hw.perflevel0.physicalcpu"),
                           .slow = levels > 1 ? (uint32_t)sysctl_number("hw.perflevel1.physicalcpu")
                                              : 0};
    if (out->fast == 0)
        out->fast = (uint32_t)sysctl_number("hw.physicalcpu");
    return true;
}

uint64_t os_cache_bytes(void)
{
    const uint64_t l3 = sysctl_number("hw.l3cachesize");
    const uint64_t l2 = sysctl_number("hw.perflevel0.l2cachesize");
    return l3 > 0 ? l3 : l2 > 0 ? l2 : sysctl_number("hw.l2cachesize");
}

uint32_t os_cpu_here(void)
{
    return CORES_MAX;
}

void os_read_affinity(cores_set *out)
{
    *out = (cores_set){{0}};
}

bool os_set_affinity(pthread_t thread, const cores_set *set)
{
    (void)thread, (void)set;
    return false;
}
