/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_settings.c - checks of `mote doctor`: the config file and environment variables. */
#include "cli/machine/doctor.h"
#include "cli/term/text.h"

#include <stdio.h>
#include <string.h>

/* ---- config file ---- */

static void config_on_unknown(void *with, const char *sentence)
{
    doctor_add(with, DOCTOR_PROBLEM, "correct or remove the line; mote help lists all flags", "%s",
               sentence);
}

void doctor_config_file(doctor *d)
{
    const doctor_machine *m = d->machine;
    if (m->config_error != NULL) {
        /* The end of the sentence quotes the line, which may be private. */
        const char *quote = strstr(m->config_error, ", got '");
        const size_t n =
            quote != NULL ? (size_t)(quote - m->config_error) : strlen(m->config_error);
        doctor_add(d, DOCTOR_PROBLEM, "correct the file", "%.*s", (int)n, m->config_error);
        return;
    }
    for (size_t i = 0; i < m->config->n; i++)
        doctor_add(d, DOCTOR_OK, NULL, "%s", m->config->files[i].name);
    if (m->config->n == 0)
        doctor_add(d, DOCTOR_OK, NULL, "none");
    config_check(m->config, m->commands, config_on_unknown, d);
}

/* ---- settings ---- */

const char *doctor_setting_origin(const config_setting *s, char *text)
{
    if (s->origin == SETTING_ENVIRONMENT)
        snprintf(text, SETTING_SOURCE_BYTES, "%s", s->flag->env);
    else if (s->origin == SETTING_FILE)
        snprintf(text, SETTING_SOURCE_BYTES, "%s:%u", s->file->name, s->line->number);
    else
        snprintf(text, SETTING_SOURCE_BYTES, "default");
    return text;
}

/* A default without a value has the text that help shows. */
static void setting_find(config_setting *out, const cli_flag *flag, const cli_command *command,
                         const doctor_machine *m)
{
    config_setting_find(out, flag, command, m->config, NULL);
    if (out->origin == SETTING_DEFAULT && flag->shown != NULL)
        out->value = flag->shown;
}

/* The same value from the same place. */
static bool setting_equals(const config_setting *a, const config_setting *b)
{
    return strcmp(a->flag->name, b->flag->name) == 0 && a->origin == b->origin &&
           a->line == b->line &&
           (a->value == b->value ||
            (a->value != NULL && b->value != NULL && strcmp(a->value, b->value) == 0));
}

/* A command before `command` in the table has the setting, too. */
static bool setting_was_reported(const doctor_machine *m, const config_setting *setting,
                                 size_t command)
{
    for (size_t c = 0; c < command; c++) {
        const flag_group *group;
        for (size_t g = 0; (group = command_group(m->commands->rows[c], g)) != NULL; g++)
            for (size_t f = 0; f < group->n; f++) {
                config_setting other;
                if (strcmp(group->flags[f].name, setting->flag->name) != 0)
                    continue;
                setting_find(&other, &group->flags[f], m->commands->rows[c], m);
                if (setting_equals(&other, setting))
                    return true;
            }
    }
    return false;
}

void doctor_walk_settings(const doctor_machine *m, bool defaults, doctor_setting_fn *fn, void *with)
{
    for (size_t c = 0; c < m->commands->n; c++) {
        const cli_command *command = m->commands->rows[c];
        const flag_group *group;
        for (size_t g = 0; (group = command_group(command, g)) != NULL; g++)
            for (size_t f = 0; f < group->n; f++) {
                config_setting s;
                if (group->flags[f].once)
                    continue;
                setting_find(&s, &group->flags[f], command, m);
                if (s.value != NULL && (defaults || s.origin != SETTING_DEFAULT) &&
                    !setting_was_reported(m, &s, c))
                    fn(with, command->name, &s);
            }
    }
}

/* A text that may be anything, such as a system prompt, a path or a host, is private: people
 * publish findings. */
static bool setting_is_private(const config_setting *s)
{
    const cli_flag *flag = s->flag;
    return (flag->kind == FLAG_TEXT || flag->kind == FLAG_LIST) && flag->check == NULL;
}

static void setting_add(void *with, const char *command, const config_setting *s)
{
    char origin[SETTING_SOURCE_BYTES], source[SETTING_SOURCE_BYTES];
    mote_error err;
    (void)command;
    doctor_setting_origin(s, origin);
    if (flag_check_value(s->flag, config_setting_source(s, source), s->value, &err) != MOTE_OK)
        doctor_add(with, DOCTOR_PROBLEM, "correct the value", "%s", err.text);
    else if (setting_is_private(s))
        doctor_add(with, DOCTOR_OK, NULL, "%s is set, from %s", s->flag->name, origin);
    else
        doctor_add(with, DOCTOR_OK, NULL, "%s = %s, from %s", s->flag->name, s->value, origin);
}

void doctor_settings(doctor *d)
{
    doctor_walk_settings(d->machine, false, setting_add, d);
}

/* ---- variables of mote ---- */

/* Variables that are not those of a flag. */
static const char *const own_variables[] = {"MOTE_CONFIG", "MOTE_MODELS",    "MOTE_API_KEY",
                                            "MOTE_CACHE",  "MOTE_NOHISTORY", "MOTE_NO_NETWORK"};

/* Finds the variable among those of flags and the list above; offers all of them to `s`. */
static bool variable_is_known(const doctor *d, const char *name, spell *s)
{
    bool found = false;
    for (size_t i = 0; i < sizeof own_variables / sizeof *own_variables; i++) {
        spell_offer(s, own_variables[i]);
        found = found || strcmp(own_variables[i], name) == 0;
    }
    const cli_command_table *table = d->machine->commands;
    for (size_t c = 0; c < table->n; c++) {
        const flag_group *group;
        for (size_t g = 0; (group = command_group(table->rows[c], g)) != NULL; g++)
            for (size_t f = 0; f < group->n; f++)
                if (group->flags[f].env != NULL) {
                    spell_offer(s, group->flags[f].env);
                    found = found || strcmp(group->flags[f].env, name) == 0;
                }
    }
    return found;
}

/* Splits "NAME=value". */
static const char *variable_name(char out[128], const char *entry)
{
    snprintf(out, 128, "%.*s", (int)strcspn(entry, "="), entry);
    return out;
}

void doctor_own_variables(doctor *d)
{
    char known[DOCTOR_TEXT_BYTES] = "", name[128], advice[192];
    for (const char *const *at = d->machine->environment; *at != NULL; at++) {
        if (strncmp(*at, "MOTE_", 5) != 0)
            continue;
        spell s = {.word = variable_name(name, *at)};
        if (variable_is_known(d, name, &s)) {
            const size_t n = strlen(known);
            snprintf(known + n, sizeof known - n, "%s%s", n > 0 ? ", " : "", name);
            continue;
        }
        if (s.best != NULL)
            snprintf(advice, sizeof advice, "did you mean %s?", s.best);
        else
            snprintf(advice, sizeof advice, "mote help COMMAND lists the variables");
        doctor_add(d, DOCTOR_NOTE, advice, "%s is set, but mote has no such variable", name);
    }
    if (known[0] != '\0')
        doctor_add(d, DOCTOR_OK, NULL, "set: %s", known);
}

/* ---- variables of other programs ---- */

static const struct {
    const char *name; /* a name that ends with _ stands for all that begin with it */
    const char *use;  /* what to use instead; NULL: mote reads the variable */
} other_variables[] = {
    {"OLLAMA_MODELS", NULL},
    {"OLLAMA_HOST", "MOTE_HOST"},
    {"OLLAMA_CONTEXT_LENGTH", "MOTE_CONTEXT"},
    {"OLLAMA_NUM_PARALLEL", "MOTE_PARALLEL"},
    {"OLLAMA_MAX_QUEUE", "MOTE_QUEUE"},
    {"OLLAMA_KEEP_ALIVE", "MOTE_KEEP_ALIVE"},
    {"OLLAMA_KV_CACHE_TYPE", "MOTE_KV"},
    {"OLLAMA_ORIGINS", "mote serve --cors-origin"},
    {"OLLAMA_DEBUG", "MOTE_LOG=json"},
    {"OLLAMA_", "a flag of mote help serve"},
    {"LLAMA_CACHE", NULL},
    {"LLAMA_ARG_MODEL", "MOTE_MODEL"},
    {"LLAMA_ARG_THREADS", "MOTE_THREADS"},
    {"LLAMA_ARG_CTX_SIZE", "MOTE_CONTEXT"},
    {"LLAMA_ARG_N_PARALLEL", "MOTE_PARALLEL"},
    {"LLAMA_ARG_CACHE_TYPE_K", "MOTE_KV"},
    {"LLAMA_ARG_CACHE_TYPE_V", "MOTE_KV"},
    {"LLAMA_ARG_HOST", "MOTE_HOST"},
    {"LLAMA_ARG_PORT", "MOTE_HOST"},
    {"LLAMA_ARG_", "a flag of mote help serve"},
    {"LLAMA_API_KEY", "MOTE_API_KEY"},
    {"HF_HOME", NULL},
    {"HF_HUB_CACHE", NULL},
    {"HUGGINGFACE_HUB_CACHE", NULL},
    {"HF_TOKEN", NULL},
    {"HF_TOKEN_PATH", NULL},
    {"HF_ENDPOINT", NULL},
    {"HF_HUB_OFFLINE", NULL},
    {"HF_HUB_DISABLE_IMPLICIT_TOKEN", NULL},
    {"HF_HUB_DISABLE_SYMLINKS", NULL},
    {"HF_HUB_DOWNLOAD_TIMEOUT", NULL},
    {"HUGGING_FACE_HUB_TOKEN", NULL},
    {"HF_HUB_ENABLE_HF_TRANSFER", "nothing: mote pull always downloads in parallel"},
    {"OMP_NUM_THREADS", "MOTE_THREADS"},
};

const char *doctor_other_variable(size_t i)
{
    return i < sizeof other_variables / sizeof *other_variables ? other_variables[i].name : NULL;
}

void doctor_other_variables(doctor *d)
{
    char used[DOCTOR_TEXT_BYTES] = "", name[128], advice[192];
    for (const char *const *at = d->machine->environment; *at != NULL; at++) {
        variable_name(name, *at);
        for (size_t i = 0; i < sizeof other_variables / sizeof *other_variables; i++) {
            const char *row = other_variables[i].name;
            const bool prefix = row[strlen(row) - 1] == '_';
            if (prefix ? strncmp(name, row, strlen(row)) != 0 : strcmp(name, row) != 0)
                continue;
            const size_t n = strlen(used);
            if (other_variables[i].use == NULL) {
                snprintf(used + n, sizeof used - n, "%s%s", n > 0 ? ", " : "", name);
            } else {
                snprintf(advice, sizeof advice, "use %s", other_variables[i].use);
                doctor_add(d, DOCTOR_NOTE, advice, "%s is set; mote does not read it", name);
            }
            break;
        }
    }
    if (used[0] != '\0')
        doctor_add(d, DOCTOR_OK, NULL, "mote uses %s", used);
}
