/* SPDX-License-Identifier: Apache-2.0 */
/* os_cpu_linux.c - implements os_cpu.h for Linux. */
#define _GNU_SOURCE
#include "base/os_cpu.h"

#include <sched.h>
#include <stdio.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

void os_read_arm_sets(os_arm_sets *out)
{
    const uint64_t hwcap = getauxval(AT_HWCAP), hwcap2 = getauxval(AT_HWCAP2);
    /* HWCAP_ASIMD, HWCAP_ASIMDDP, HWCAP2_I8MM, which older headers lack. */
    *out = (os_arm_sets){(hwcap >> 1 & 1) != 0, (hwcap >> 20 & 1) != 0, (hwcap2 >> 13 & 1) != 0};
}

bool os_allow_amx(void)
{
#if defined(SYS_arch_prctl)
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
#else
    return false;
#endif
}

bool os_cpu_name(char out[CPU_NAME_BYTES])
{
    out[0] = '\0';
    return false;
}

bool os_count_cores(os_core_count *out)
{
    *out = (os_core_count){0, 0};
    return false;
}

/* musl has no such names of sysconf, and glibc returns 0 on ARM. */
uint64_t os_cache_bytes(void)
{
    uint64_t largest = 0;
    for (unsigned index = 0; index < 8; index++) {
        char path[96], unit = 0;
        unsigned long long size = 0;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%u/size", index);
        FILE *f = fopen(path, "re");
        if (f == NULL)
            break;
        if (fscanf(f, "%llu%c", &size, &unit) >= 1)
            size = unit == 'K' ? size << 10 : unit == 'M' ? size << 20 : size;
        largest = size > largest ? size : largest;
        fclose(f);
    }
#if defined(_SC_LEVEL3_CACHE_SIZE)
    if (largest == 0) { /* no /sys */
        const long size = sysconf(_SC_LEVEL3_CACHE_SIZE);
        largest = size > 0 ? (uint64_t)size : 0;
    }
#endif
    return largest;
}

uint32_t os_cpu_here(void)
{
    const int here = sched_getcpu();
    return here >= 0 ? (uint32_t)here : CORES_MAX;
}

void os_read_affinity(cores_set *out)
{
    cpu_set_t mask;
    *out = (cores_set){{0}};
    CPU_ZERO(&mask);
    if (sched_getaffinity(0, sizeof mask, &mask) == 0)
        for (uint32_t cpu = 0; cpu < CORES_MAX && cpu < CPU_SETSIZE; cpu++)
            if (CPU_ISSET(cpu, &mask))
                cores_add(out, cpu);
}

bool os_set_affinity(pthread_t thread, const cores_set *set)
{
    cpu_set_t mask;
    CPU_ZERO(&mask);
    for (uint32_t cpu = 0; cpu < CORES_MAX && cpu < CPU_SETSIZE; cpu++)
        if (cores_has(set, cpu))
            CPU_SET(cpu, &mask);
    return pthread_setaffinity_np(thread, sizeof mask, &mask) == 0;
}
