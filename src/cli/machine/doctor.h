/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor.h - the checks of `mote doctor`: what on this machine makes mote slow, unsafe or unusable.
 *
 * A check is a function in the table of doctor.c. It adds one or more findings: a state, a sentence
 * about what is there, and a recommendation unless all is well. All that a check reads comes from a
 * doctor_machine, so tests run every check on an invented machine: files of /proc and /sys below
 * another root directory, and facts that are not in files.
 */
#ifndef MOTE_CLI_MACHINE_DOCTOR_H
#define MOTE_CLI_MACHINE_DOCTOR_H

#include "base/cpu.h"
#include "base/str.h"
#include "cli/args/command.h"
#include "store/store.h"

enum { DOCTOR_TEXT_BYTES = 640, DOCTOR_PATH_BYTES = 1024 };

typedef struct doctor_machine {
    const char *root;               /* the directory of proc and sys; "": the real ones */
    const char *const *environment; /* "NAME=value", ends with NULL */
    cpu_features cpu;
    char cpu_name[CPU_NAME_BYTES];
    cores_set allowed;  /* CPUs of the affinity mask */
    const char *system; /* os_name */
    bool seccomp;       /* the kernel can filter system calls */
    int landlock;       /* version of Landlock; 0: none */
    int64_t now;        /* seconds since 1970 */
    bool utf8;          /* the locale */
    uint32_t user;      /* its id */
    /* Directories with programs of mote, such as mote-pull; NULL: none. */
    const char *programs[2];
    store_env store;
    const config *config;
    const char *config_error; /* why the config file could not be read; NULL: it could */
    const cli_command_table *commands;
    uint64_t free_space; /* of the disk of the store, in bytes; 0: to be measured */
    double disk_seconds; /* how long the speed of the disk is measured; 0: not at all */
} doctor_machine;

/* Facts of the real machine. `commands`, `config` and `disk_seconds` are for the caller to set. */
void doctor_machine_read(doctor_machine *out);

typedef enum doctor_state { DOCTOR_OK, DOCTOR_NOTE, DOCTOR_PROBLEM } doctor_state;
/* "ok", "note", "problem" */
const char *doctor_state_name(doctor_state state);

typedef struct doctor_finding {
    const char *section, *check;
    doctor_state state;
    char text[DOCTOR_TEXT_BYTES];
    char advice[DOCTOR_TEXT_BYTES]; /* "": none */
} doctor_finding;

typedef struct doctor {
    const doctor_machine *machine;
    const char *section, *check; /* the running check */
    doctor_finding *findings;    /* [n] */
    uint32_t n, room;
    bool failed; /* out of memory */
} doctor;

/* Runs all checks. MOTE_E_MEMORY is the only error. */
mote_status doctor_run(doctor *d, const doctor_machine *machine, mote_error *err);
void doctor_fini(doctor *d);
size_t doctor_count(const doctor *d, doctor_state state);
/* Appends all findings by section, and their numbers; `quiet`: without those that are ok. */
void doctor_write_text(strbuf *out, const doctor *d, bool quiet);

/* ---- for the checks ---- */

typedef void doctor_check_fn(doctor *d);

/* Adds a finding. `advice` is a sentence, or NULL. */
void doctor_add(doctor *d, doctor_state state, const char *advice, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The value of an environment variable; NULL: not set or empty. */
const char *doctor_env(const doctor *d, const char *name);
/* Reads the first line of a file below the root, without its newline. False: there is none. */
bool doctor_read_line(const doctor *d, const char *path, char *out, size_t room);
/* Reads a file with one number. */
bool doctor_read_number(const doctor *d, const char *path, int64_t *out);

/* doctor_cpu.c */
doctor_check_fn doctor_cpu_level, doctor_cpu_cores, doctor_cpu_governor, doctor_cpu_turbo,
    doctor_cpu_temperature;
/* doctor_memory.c */
doctor_check_fn doctor_memory, doctor_memory_pages;
/* doctor_models.c */
doctor_check_fn doctor_store_directory, doctor_store_access, doctor_store_models, doctor_disk_speed;
/* doctor_system.c */
doctor_check_fn doctor_sandbox, doctor_port, doctor_programs, doctor_clock, doctor_locale;
/* doctor_settings.c */
doctor_check_fn doctor_config_file, doctor_settings, doctor_own_variables, doctor_other_variables;

/* ---- settings (doctor_settings.c) ---- */

/* Variable i of other programs that a check knows, or their common start, "OLLAMA_"; NULL at the
 * end. */
const char *doctor_other_variable(size_t i);

/* Calls fn for every setting that has a value; without `defaults` only for those from a variable or
 * a config file. A setting that several commands have is reported once, unless the values differ.
 */
typedef void doctor_setting_fn(void *with, const char *command, const config_setting *setting);
void doctor_walk_settings(const doctor_machine *m, bool defaults, doctor_setting_fn *fn,
                          void *with);
/* "MOTE_MEMORY", "/etc/mote/config:3" or "default". Returns `text`, which has SETTING_SOURCE_BYTES
 * bytes. */
const char *doctor_setting_origin(const config_setting *setting, char *text);

#endif
