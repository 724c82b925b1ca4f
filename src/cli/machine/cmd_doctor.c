/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_doctor.c - `mote doctor`: prints the findings, or writes them to a file for a bug report. */
#define _DEFAULT_SOURCE
#include "base/mem.h"
#include "base/os.h"
#include "cli/machine/doctor.h"
#include "cli/term/terminal.h"
#include "cli/term/text.h"
#include "json/json_writer.h"

#include <ctype.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

typedef struct doctor_options {
    bool config;
    const char *report;
} doctor_options;

static const cli_flag flags[] = {
    {.name = "config",
     .kind = FLAG_SWITCH,
     .once = true,
     .at = offsetof(doctor_options, config),
     .help = "print all settings with their values and where these come from"},
    {.name = "report",
     .kind = FLAG_TEXT,
     .value = "FILE",
     .once = true,
     .at = offsetof(doctor_options, report),
     .help = "write the findings to FILE, without names of users, machines and home directories, "
             "and without prompts, keys and other texts of settings"},
};

static const flag_group groups[] = {FLAG_GROUP("Flags", flags, 0)};

static const double disk_seconds = 1;

/* ---- text ---- */

/* A doctor_setting_fn: one line of --config. */
static void setting_print(void *with, const char *command, const config_setting *s)
{
    char origin[SETTING_SOURCE_BYTES], name[64];
    snprintf(name, sizeof name, "%s --%s", command, s->flag->name);
    out_printf(with, "%-28s %-30s %s\n", name, s->value, doctor_setting_origin(s, origin));
}

/* ---- JSON ---- */

static void setting_write_json(void *with, const char *command, const config_setting *s)
{
    char origin[SETTING_SOURCE_BYTES];
    strbuf *j = with;
    jw_open(j, '{');
    jw_key_text(j, "command", command);
    jw_key_text(j, "name", s->flag->name);
    jw_key_text(j, "value", s->value);
    jw_key_text(j, "origin", doctor_setting_origin(s, origin));
    jw_close(j, '}');
}

static int doctor_print_json(const cli_call *call, const doctor *d)
{
    const doctor_options *o = call->options;
    strbuf j = {0};
    jw_open(&j, '{');
    jw_key_uint(&j, "problems", doctor_count(d, DOCTOR_PROBLEM));
    jw_key_uint(&j, "notes", doctor_count(d, DOCTOR_NOTE));
    jw_key(&j, "findings");
    jw_open(&j, '[');
    for (uint32_t i = 0; i < d->n; i++) {
        const doctor_finding *f = &d->findings[i];
        jw_open(&j, '{');
        jw_key_text(&j, "section", f->section);
        jw_key_text(&j, "check", f->check);
        jw_key_text(&j, "state", doctor_state_name(f->state));
        jw_key_text(&j, "text", f->text);
        jw_key_text(&j, "advice", f->advice[0] != '\0' ? f->advice : NULL);
        jw_close(&j, '}');
    }
    jw_close(&j, ']');
    if (o->config) {
        jw_key(&j, "settings");
        jw_open(&j, '[');
        doctor_walk_settings(d->machine, true, setting_write_json, &j);
        jw_close(&j, ']');
    }
    jw_close(&j, '}');
    return out_json(call->out, &j);
}

/* ---- report ---- */

/* A short word is part of others, so it counts only between other characters than letters. */
static bool redact_at(const strbuf *text, size_t i, const char *word, size_t n)
{
    if (text->n - i < n || memcmp(text->p + i, word, n) != 0)
        return false;
    return n > 2 || ((i == 0 || !isalnum((unsigned char)text->p[i - 1])) &&
                     (i + n == text->n || !isalnum((unsigned char)text->p[i + n])));
}

/* Replaces every occurrence of `word`. */
static void redact(strbuf *text, const char *word, const char *by)
{
    const size_t n = word != NULL ? strlen(word) : 0;
    strbuf out = {0};
    if (n == 0 || strcmp(word, "/") == 0)
        return;
    for (size_t i = 0; i < text->n;)
        if (redact_at(text, i, word, n)) {
            strbuf_text(&out, by);
            i += n;
        } else {
            strbuf_byte(&out, text->p[i++]);
        }
    out.failed = out.failed || text->failed;
    strbuf_fini(text);
    *text = out;
}

static int report_write(const cli_call *call, const doctor *d)
{
    const doctor_options *o = call->options;
    const struct passwd *user = getpwuid(getuid());
    struct utsname system;
    char home[PATH_MAX];
    strbuf text = {0};
    mote_error err;
    strbuf_text(&text, "mote " MOTE_VERSION "\n");
    doctor_write_text(&text, d, false);
    redact(&text, getenv("HOME"), "~");
    if (getenv("HOME") != NULL && realpath(getenv("HOME"), home) != NULL)
        redact(&text, home, "~");
    redact(&text, user != NULL ? user->pw_dir : NULL, "~");
    redact(&text, getenv("USER"), "USER");
    redact(&text, user != NULL ? user->pw_name : NULL, "USER");
    redact(&text, uname(&system) == 0 ? system.nodename : NULL, "HOST");
    mote_status status = strbuf_check(&text, &err);
    if (status == MOTE_OK)
        status = os_file_replace(o->report, text.p, text.n, &err);
    strbuf_fini(&text);
    if (status != MOTE_OK)
        return msg_fail(CLI_NOT_WRITABLE, mote_status_name(status), "%s", err.text);
    msg_note("the report is in %s; read it before you publish it", o->report);
    return CLI_DONE;
}

/* ---- the command ---- */

static int doctor_print(const cli_call *call, const doctor *d)
{
    const doctor_options *o = call->options;
    if (call->common.json)
        return doctor_print_json(call, d);
    if (o->config) {
        out_printf(call->out, "%-28s %-30s %s\n", "SETTING", "VALUE", "FROM");
        doctor_walk_settings(d->machine, true, setting_print, call->out);
        return CLI_DONE;
    }
    strbuf text = {0};
    mote_error err;
    doctor_write_text(&text, d, call->common.quiet);
    if (strbuf_check(&text, &err) == MOTE_OK)
        out_shown(call->out, text.p, text.n);
    strbuf_fini(&text);
    return CLI_DONE;
}

static int doctor_command_run(const cli_call *call)
{
    const doctor_options *o = call->options;
    doctor_machine machine;
    config c = {0};
    mote_error err, config_err;
    doctor d;
    doctor_machine_read(&machine);
    machine.commands = &cli_commands;
    machine.config = &c;
    machine.disk_seconds = disk_seconds;
    if (config_open(&c, &config_err) != MOTE_OK)
        machine.config_error = config_err.text;
    int code = doctor_run(&d, &machine, &err) == MOTE_OK ? CLI_DONE : msg_error(&err);
    if (code == CLI_DONE)
        code = o->report != NULL ? report_write(call, &d) : doctor_print(call, &d);
    if (code == CLI_DONE && doctor_count(&d, DOCTOR_PROBLEM) > 0)
        code = CLI_FAILED;
    doctor_fini(&d);
    config_close(&c);
    return code;
}

const cli_command cmd_doctor = {
    .name = "doctor",
    .section = "Understand",
    .summary = "what makes mote slow or unusable on this machine",
    .usage = "",
    .groups = groups,
    .n_groups = sizeof groups / sizeof *groups,
    .options_bytes = sizeof(doctor_options),
    .about =
        "Checks CPU, memory, models, disk, sandbox, port and settings. Each line is ok, a note or "
        "a problem; notes and problems have a recommendation. With -q only these are printed.\n"
        "Reads from disk for up to a second. Changes nothing and uses no network.\n"
        "Exit code 1: there is a problem.",
    .examples = "mote doctor\nmote doctor --config\nmote doctor --report report.txt",
    .no_config = true, /* it reports a wrong config file */
    .run = doctor_command_run,
};
