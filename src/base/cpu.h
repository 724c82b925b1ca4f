/* SPDX-License-Identifier: Apache-2.0 */
/* cpu.h - instruction sets, CPU topology and thread affinity. */
#ifndef MOTE_BASE_CPU_H
#define MOTE_BASE_CPU_H

#include <mote.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- levels ----
 *
 * The values of mote_isa have no order. The levels of one architecture do: each contains those below
 * it, with one exception. avx512 does not contain avxvnni: CPUs with AVX-512 but without AVX-VNNI
 * exist. */

enum { CPU_LEVELS = 5 };

/* Returns the highest level that the CPU and the operating system both support. Side effect:
 * requests permission for the AMX tile registers from the kernel. */
mote_isa cpu_best_isa(void);
/* The same up to `cap`. A cap of MOTE_ISA_BEST or of another architecture sets no limit. */
mote_isa cpu_best_isa_up_to(mote_isa cap);

/* Lists the levels of this architecture, lowest first; returns their number. */
size_t cpu_list_levels(mote_isa out[CPU_LEVELS]);
/* The same without levels that the CPU or the operating system does not support. */
size_t cpu_list_usable(mote_isa out[CPU_LEVELS]);

/* Does the level have all instructions of `part`? False for a level of another architecture. */
bool cpu_level_contains(mote_isa level, mote_isa part);
/* The level above; MOTE_ISA_BEST: there is none. */
mote_isa cpu_level_above(mote_isa level);
/* MOTE_E_ARG: not a level of this architecture. MOTE_ISA_BEST is one of every architecture. */
mote_status cpu_check_level(mote_isa level, mote_error *err);

/* ---- why a level is not supported ---- */

/* What the CPU reports about itself. Only x86-64 sets more than `sets`. */
typedef struct cpu_features {
    bool x86;
    bool hypervisor;     /* a virtual machine, which may hide features */
    bool amx_allowed;    /* the kernel granted the tile registers */
    uint32_t sets;       /* instruction sets, as bits of an internal table */
    uint64_t saved_sets; /* XCR0: registers that the kernel saves on a context switch */
} cpu_features;

/* Side effect as cpu_best_isa. */
void cpu_read_features(cpu_features *out);
/* For tests: adds or removes an instruction set such as "AVX2". False: unknown name. */
bool cpu_features_set(cpu_features *f, const char *name, bool has);
/* For tests: all instruction sets, all registers. */
void cpu_features_fill(cpu_features *f);

/* The highest level that the features allow; without the limit of the build (MOTE_MAX_ISA). */
mote_isa cpu_level(const cpu_features *f);
/* The same up to `cap`; see cpu_best_isa_up_to. */
mote_isa cpu_level_up_to(const cpu_features *f, mote_isa cap);

/* What a level lacks: names of instruction sets that the CPU does not report, separated by ", ",
 * and names of registers that the operating system does not save. Empty: nothing. */
typedef struct cpu_lack {
    char sets[128];
    char registers[32];
} cpu_lack;
void cpu_find_lack(cpu_lack *out, const cpu_features *f, mote_isa level);

enum { CPU_NAME_BYTES = 49 };

/* Writes the name that the CPU reports, such as "Intel(R) Core(TM) i7-1185G7 @ 3.00GHz". "": the
 * CPU reports none. Virtual machines often report a generic name. */
void cpu_name(char out[CPU_NAME_BYTES]);

/* cpu_arm.c: the name of an ARM CPU, which reports only numbers: its core types and the board, such as
 * "Cortex-A76 (Raspberry Pi 5 Model B Rev 1.0)". Reads files below `root`, which is "" or a
 * directory of a test. */
void cpu_arm_name_in(char out[CPU_NAME_BYTES], const char *root);

/* ---- topology ----
 *
 * A CPU is a logical CPU of the operating system. A core may have several (SMT). mote runs one
 * thread per performance core: efficiency cores slow a step down, because it ends with its slowest
 * thread.
 */

enum { CORES_MAX = 1024 };

/* A set of CPU numbers. */
typedef struct cores_set {
    uint64_t bits[CORES_MAX / 64];
} cores_set;

static inline bool cores_has(const cores_set *set, uint32_t cpu)
{
    return cpu < CORES_MAX && (set->bits[cpu / 64] >> cpu % 64 & 1) != 0;
}

static inline void cores_add(cores_set *set, uint32_t cpu)
{
    set->bits[cpu / 64] |= (uint64_t)1 << cpu % 64;
}

typedef struct cores {
    uint32_t n;  /* recommended threads, at least 1: performance cores, or the quota if smaller */
    bool weaker; /* the machine has efficiency cores as well */
    bool quota;  /* the cgroup quota is smaller than the number of performance cores */
    uint32_t n_strong;          /* performance cores */
    uint32_t here;              /* performance core of the calling thread; n_strong: none */
    uint16_t strong[CORES_MAX]; /* [n_strong]: first CPU of each performance core */
    cores_set cpus;             /* all CPUs of the performance cores */
} cores;

/* The affinity mask of the calling thread; empty: unknown. */
void cores_read_allowed(cores_set *out);

/* Reads the affinity mask of the calling thread, /sys and the cgroup quota. */
void cores_find(cores *out);

/* For tests: like cores_find with another directory in place of /sys, the affinity mask `allowed`
 * and the calling thread on CPU `here`. */
void cores_find_in(cores *out, const char *sys, const cores_set *allowed, uint32_t here);

/* The same for a system that only counts its cores: nothing is known about single CPUs. */
void cores_from_count(cores *out, uint32_t fast, uint32_t slow);

/* Sets the affinity of a thread. False: the system refused; the affinity is unchanged. */
bool cores_hold(pthread_t thread, const cores_set *set);

#endif
