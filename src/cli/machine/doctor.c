/* SPDX-License-Identifier: Apache-2.0 */
/* doctor.c - the table of checks of `mote doctor`, and what all checks use. */
#include "cli/machine/doctor.h"

#include "base/mem.h"
#include "cli/term/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *section, *name;
    doctor_check_fn *check;
} checks[] = {
    {"CPU", "level", doctor_cpu_level},
    {"CPU", "cores", doctor_cpu_cores},
    {"CPU", "governor", doctor_cpu_governor},
    {"CPU", "turbo", doctor_cpu_turbo},
    {"CPU", "temperature", doctor_cpu_temperature},
    {"Memory", "memory", doctor_memory},
    {"Memory", "huge pages", doctor_memory_pages},
    {"Models", "store", doctor_store_directory},
    {"Models", "access", doctor_store_access},
    {"Models", "models", doctor_store_models},
    {"Models", "disk speed", doctor_disk_speed},
    {"System", "sandbox", doctor_sandbox},
    {"System", "port", doctor_port},
    {"System", "programs", doctor_programs},
    {"System", "clock", doctor_clock},
    {"System", "locale", doctor_locale},
    {"Settings", "config file", doctor_config_file},
    {"Settings", "settings", doctor_settings},
    {"Settings", "variables", doctor_own_variables},
    {"Settings", "others", doctor_other_variables},
};

const char *doctor_state_name(doctor_state state)
{
    static const char *const names[] = {"ok", "note", "problem"};
    return names[state];
}

mote_status doctor_run(doctor *d, const doctor_machine *machine, mote_error *err)
{
    *d = (doctor){.machine = machine};
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
        d->section = checks[i].section;
        d->check = checks[i].name;
        checks[i].check(d);
    }
    if (d->failed)
        return err_set(err, MOTE_E_MEMORY, "out of memory: the findings of mote doctor");
    return MOTE_OK;
}

void doctor_fini(doctor *d)
{
    mem_free(d->findings);
    *d = (doctor){0};
}

size_t doctor_count(const doctor *d, doctor_state state)
{
    size_t n = 0;
    for (uint32_t i = 0; i < d->n; i++)
        n += d->findings[i].state == state;
    return n;
}

void doctor_add(doctor *d, doctor_state state, const char *advice, const char *format, ...)
{
    if (!mem_grow(&d->findings, d->n, &d->room, sizeof *d->findings)) {
        d->failed = true;
        return;
    }
    doctor_finding *f = &d->findings[d->n++];
    *f = (doctor_finding){.section = d->section, .check = d->check, .state = state};
    va_list rest;
    va_start(rest, format);
    vsnprintf(f->text, sizeof f->text, format, rest);
    va_end(rest);
    if (advice != NULL)
        snprintf(f->advice, sizeof f->advice, "%s", advice);
}

const char *doctor_env(const doctor *d, const char *name)
{
    const size_t n = strlen(name);
    for (const char *const *at = d->machine->environment; *at != NULL; at++)
        if (strncmp(*at, name, n) == 0 && (*at)[n] == '=' && (*at)[n + 1] != '\0')
            return *at + n + 1;
    return NULL;
}

bool doctor_read_line(const doctor *d, const char *path, char *out, size_t room)
{
    char whole[DOCTOR_PATH_BYTES];
    snprintf(whole, sizeof whole, "%s%s", d->machine->root, path);
    FILE *f = fopen(whole, "re");
    if (f == NULL)
        return false;
    const bool found = fgets(out, (int)room, f) != NULL;
    fclose(f);
    if (found)
        out[strcspn(out, "\n")] = '\0';
    return found;
}

bool doctor_read_number(const doctor *d, const char *path, int64_t *out)
{
    char line[64];
    long long value;
    if (!doctor_read_line(d, path, line, sizeof line) || sscanf(line, "%lld", &value) != 1)
        return false;
    *out = value;
    return true;
}

/* ---- text ---- */

enum { COLUMN_STATE = 2, COLUMN_CHECK = 11, COLUMN_TEXT = 24 };

/* One finding as lines of text; `first` of its check: with the name of the check. */
static void finding_write(strbuf *out, const doctor_finding *f, bool first)
{
    char line[64];
    snprintf(line, sizeof line, "%*s%-*s%-*s", COLUMN_STATE, "", COLUMN_CHECK - COLUMN_STATE,
             doctor_state_name(f->state), COLUMN_TEXT - COLUMN_CHECK, first ? f->check : "");
    strbuf_text(out, line);
    strbuf_text(out, f->text);
    strbuf_byte(out, '\n');
    if (f->advice[0] == '\0')
        return;
    snprintf(line, sizeof line, "%*s", COLUMN_TEXT, "");
    strbuf_text(out, line);
    strbuf_text(out, "-> ");
    strbuf_text(out, f->advice);
    strbuf_byte(out, '\n');
}

void doctor_write_text(strbuf *out, const doctor *d, bool quiet)
{
    const char *section = "", *check = "";
    for (uint32_t i = 0; i < d->n; i++) {
        const doctor_finding *f = &d->findings[i];
        if (quiet && f->state == DOCTOR_OK)
            continue;
        if (strcmp(section, f->section) != 0) {
            strbuf_text(out, f->section);
            strbuf_byte(out, '\n');
        }
        finding_write(out, f, strcmp(check, f->check) != 0);
        section = f->section;
        check = f->check;
    }
    char a[TEXT_NUMBER_BYTES], b[TEXT_NUMBER_BYTES];
    strbuf_text(out, text_counted(a, doctor_count(d, DOCTOR_PROBLEM), "problem"));
    strbuf_text(out, ", ");
    strbuf_text(out, text_counted(b, doctor_count(d, DOCTOR_NOTE), "note"));
    strbuf_byte(out, '\n');
}
