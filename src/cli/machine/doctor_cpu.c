/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_cpu.c - checks of `mote doctor`: instruction sets, cores, frequency, temperature. */
#include "cli/load/load.h"
#include "cli/machine/doctor.h"

#include <stdio.h>
#include <string.h>

/* ---- instruction-set level ---- */

/* The cap of --isa that a variable or the config file sets; MOTE_ISA_BEST: none. */
static mote_isa level_find_cap(const doctor *d, config_setting *out)
{
    mote_isa cap = MOTE_ISA_BEST;
    for (size_t i = 0; i < LOAD_N_FLAGS; i++)
        if (strcmp(load_flags[i].name, "isa") == 0)
            config_setting_find(out, &load_flags[i], &cmd_run, d->machine->config, NULL);
    if (out->origin == SETTING_DEFAULT || !mote_isa_parse(out->value, &cap))
        return MOTE_ISA_BEST;
    return cap;
}

/* The level to explain: one that only the operating system withholds, or else the one above. */
static mote_isa level_missing(const cpu_features *cpu, mote_isa level)
{
    cpu_lack lack;
    for (mote_isa next = cpu_level_above(level); next != MOTE_ISA_BEST;
         next = cpu_level_above(next)) {
        cpu_find_lack(&lack, cpu, next);
        if (lack.sets[0] == '\0')
            return next;
    }
    return cpu_level_above(level);
}

/* Why `next`, a level above the one of this CPU, is not there. */
static void level_explain(doctor *d, mote_isa level, mote_isa next)
{
    const doctor_machine *m = d->machine;
    const char *name = mote_isa_name(level);
    cpu_lack lack;
    cpu_find_lack(&lack, &m->cpu, next);
    const doctor_state state = level == MOTE_ISA_REF ? DOCTOR_PROBLEM : DOCTOR_NOTE;
    if (lack.sets[0] == '\0') {
        doctor_add(d, state,
                   "remove noxsave and clearcpuid from the kernel command line, or use a newer "
                   "kernel or virtual machine",
                   "%s; this CPU has %s too, but the operating system does not save its %s "
                   "registers (XCR0)",
                   name, mote_isa_name(next), lack.registers);
    } else if (m->cpu.hypervisor) {
        doctor_add(d, state,
                   "if the CPU of the host has them, give the virtual machine the CPU type host",
                   "%s; %s needs %s, which this CPU lacks or the virtual machine hides", name,
                   mote_isa_name(next), lack.sets);
    } else if (level == MOTE_ISA_REF) {
        doctor_add(d, state, "use a CPU with AVX2: Intel Core since 2013, AMD since 2015",
                   "ref, the portable kernels, which are many times slower; avx2 needs %s, which "
                   "this CPU lacks",
                   lack.sets);
    } else {
        doctor_add(d, DOCTOR_OK, NULL, "%s; %s needs %s, which this CPU lacks", name,
                   mote_isa_name(next), lack.sets);
    }
}

void doctor_cpu_level(doctor *d)
{
    const doctor_machine *m = d->machine;
    const mote_isa level = cpu_level(&m->cpu);
    config_setting setting;
    const mote_isa cap = level_find_cap(d, &setting), used = cpu_level_up_to(&m->cpu, cap);
    char source[SETTING_SOURCE_BYTES];
    doctor_add(d, DOCTOR_OK, NULL, "%s",
               m->cpu_name[0] != '\0' ? m->cpu_name : "the CPU reports no name");
    if (!m->cpu.x86)
        doctor_add(d, DOCTOR_NOTE, NULL,
                   "ref; mote has faster kernels for x86-64 CPUs with AVX2 only");
    else if (used != level)
        doctor_add(d, DOCTOR_NOTE, "remove this setting, unless mote selftest fails without it",
                   "%s, because %s is %s; this CPU has %s", mote_isa_name(used),
                   config_setting_source(&setting, source), setting.value, mote_isa_name(level));
    else if (cpu_level_above(level) != MOTE_ISA_BEST)
        level_explain(d, level, level_missing(&m->cpu, level));
    else
        doctor_add(d, DOCTOR_OK, NULL, "%s, the highest level", mote_isa_name(level));
}

/* ---- cores ---- */

static uint32_t cores_count_allowed(const doctor *d)
{
    uint32_t n = 0;
    for (uint32_t cpu = 0; cpu < CORES_MAX; cpu++)
        n += cores_has(&d->machine->allowed, cpu);
    return n;
}

/* CPUs that are online; 0: unknown. */
static uint32_t cores_count_online(const doctor *d)
{
    char line[256];
    uint32_t n = 0;
    if (!doctor_read_line(d, "/sys/devices/system/cpu/online", line, sizeof line))
        return 0;
    for (const char *at = line; at != NULL; at = strchr(at, ',')) {
        unsigned from, to;
        at += *at == ',';
        const int got = sscanf(at, "%u-%u", &from, &to);
        n += got == 2 && to >= from ? to - from + 1 : got == 1;
    }
    return n;
}

void doctor_cpu_cores(doctor *d)
{
    char sys[DOCTOR_PATH_BYTES];
    cores found;
    snprintf(sys, sizeof sys, "%s/sys", d->machine->root);
    cores_find_in(&found, sys, &d->machine->allowed, CORES_MAX);
    const uint32_t allowed = cores_count_allowed(d), online = cores_count_online(d);
    doctor_add(d, DOCTOR_OK, NULL, "%u CPUs, %u %scores: %u threads by default", allowed,
               found.n_strong, found.weaker ? "performance " : "", found.n);
    if (found.weaker)
        doctor_add(d, DOCTOR_OK, NULL,
                   "efficiency cores are not used: a step ends with its slowest thread");
    if (found.quota)
        doctor_add(d, DOCTOR_NOTE,
                   "raise the CPU limit of the container or unit to whole cores if mote may use "
                   "more",
                   "a cgroup limits this process to the time of %u CPUs", found.n);
    if (online > allowed)
        doctor_add(d, DOCTOR_NOTE,
                   "remove the limit (taskset, cpuset, CPUAffinity) if mote may use "
                   "more",
                   "this process may use %u of %u CPUs", allowed, online);
}

/* ---- frequency and temperature ---- */

/* Counts allowed CPUs that have this text in a file. */
static uint32_t cpus_with(const doctor *d, const char *file, const char *text)
{
    uint32_t n = 0;
    for (uint32_t cpu = 0; cpu < CORES_MAX; cpu++) {
        char path[128], line[64];
        if (!cores_has(&d->machine->allowed, cpu))
            continue;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%u/cpufreq/%s", cpu, file);
        n += doctor_read_line(d, path, line, sizeof line) && strcmp(line, text) == 0;
    }
    return n;
}

/* The drivers intel_pstate and amd-pstate-epp call their normal, load-dependent mode powersave. */
void doctor_cpu_governor(doctor *d)
{
    static const char advice[] = "for full speed: echo performance | sudo tee "
                                 "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor";
    const uint32_t saving = cpus_with(d, "scaling_governor", "powersave");
    const uint32_t dynamic = cpus_with(d, "scaling_driver", "intel_pstate") +
                             cpus_with(d, "scaling_driver", "amd-pstate-epp");
    const uint32_t economic = cpus_with(d, "energy_performance_preference", "power");
    uint32_t first = 0;
    while (first < CORES_MAX && !cores_has(&d->machine->allowed, first))
        first++;
    char path[128], governor[64];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%u/cpufreq/scaling_governor", first);
    if (!doctor_read_line(d, path, governor, sizeof governor))
        doctor_add(d, DOCTOR_OK, NULL, "the system does not control the frequency of the CPUs");
    else if (saving > 0 && dynamic == 0)
        doctor_add(d, DOCTOR_NOTE, advice,
                   "powersave on %u CPUs: they run at their lowest frequency", saving);
    else if (economic > 0)
        doctor_add(d, DOCTOR_NOTE,
                   "for full speed: echo balance_performance | sudo tee "
                   "/sys/devices/system/cpu/cpu*/cpufreq/energy_performance_preference",
                   "%s, with the energy preference power on %u CPUs", governor, economic);
    else
        doctor_add(d, DOCTOR_OK, NULL, "%s", governor);
}

void doctor_cpu_turbo(doctor *d)
{
    int64_t value;
    if (doctor_read_number(d, "/sys/devices/system/cpu/intel_pstate/no_turbo", &value)) {
        if (value != 0)
            doctor_add(d, DOCTOR_NOTE,
                       "echo 0 | sudo tee /sys/devices/system/cpu/intel_pstate/no_turbo, unless it "
                       "is off for heat or noise",
                       "turbo frequencies are off");
        else
            doctor_add(d, DOCTOR_OK, NULL, "on");
    } else if (doctor_read_number(d, "/sys/devices/system/cpu/cpufreq/boost", &value)) {
        if (value == 0)
            doctor_add(d, DOCTOR_NOTE,
                       "echo 1 | sudo tee /sys/devices/system/cpu/cpufreq/boost, unless it is off "
                       "for heat or noise",
                       "turbo frequencies are off");
        else
            doctor_add(d, DOCTOR_OK, NULL, "on");
    }
}

enum { ZONES = 32, HOT = 95 };

void doctor_cpu_temperature(doctor *d)
{
    int64_t hottest = INT64_MIN, throttled = 0;
    for (unsigned zone = 0; zone < ZONES; zone++) {
        char path[128], kind[64];
        int64_t value;
        snprintf(path, sizeof path, "/sys/class/thermal/thermal_zone%u/type", zone);
        if (!doctor_read_line(d, path, kind, sizeof kind) ||
            (strstr(kind, "pkg") == NULL && strstr(kind, "cpu") == NULL))
            continue;
        snprintf(path, sizeof path, "/sys/class/thermal/thermal_zone%u/temp", zone);
        if (doctor_read_number(d, path, &value) && value / 1000 > hottest)
            hottest = value / 1000;
    }
    doctor_read_number(d, "/sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_count",
                       &throttled);
    if (hottest >= HOT)
        doctor_add(d, DOCTOR_NOTE, "clean the fans; use fewer threads (--threads)",
                   "%lld degrees: the CPU lowers its frequency", (long long)hottest);
    else if (throttled > 0)
        doctor_add(d, DOCTOR_NOTE, "check the cooling if speeds vary",
                   "the CPU lowered its frequency %lld times since the start because of heat",
                   (long long)throttled);
    else if (hottest > INT64_MIN)
        doctor_add(d, DOCTOR_OK, NULL, "%lld degrees", (long long)hottest);
}
