/* SPDX-License-Identifier: Apache-2.0 */
/* config.c - implements config.h. */
#include "cli/args/config.h"

#include "cli/args/command.h"
#include "cli/term/text.h"

#include <mote_chat.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char model_section[] = "model ";

/* ---- files ---- */

mote_status config_open_files(config *out, const char *const *paths, size_t n, mote_error *err)
{
    *out = (config){0};
    for (size_t i = 0; i < n; i++) {
        bool found;
        mote_status status = conf_file_read(&out->files[out->n], paths[i], &found, err);
        if (status != MOTE_OK) {
            config_close(out);
            return status;
        }
        out->n += found;
    }
    return MOTE_OK;
}

/* A file of the user's directory. False: there is no such directory. */
static bool config_user_path(char out[CONFIG_PATH_BYTES], const char *name)
{
    const char *xdg = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    int length = 0;
    if (xdg != NULL && xdg[0] == '/')
        length = snprintf(out, CONFIG_PATH_BYTES, "%s/mote/%s", xdg, name);
    else if (home != NULL && home[0] == '/')
        length = snprintf(out, CONFIG_PATH_BYTES, "%s/.config/mote/%s", home, name);
    return length > 0 && length < CONFIG_PATH_BYTES;
}

static const char *config_given(void)
{
    const char *given = getenv("MOTE_CONFIG");
    return given != NULL && given[0] != '\0' ? given : NULL;
}

bool config_aliases_path(char out[CONFIG_PATH_BYTES])
{
    return config_given() == NULL && config_user_path(out, "aliases");
}

mote_status config_open(config *out, mote_error *err)
{
    char user[CONFIG_PATH_BYTES], aliases[CONFIG_PATH_BYTES];
    const char *given = config_given(), *paths[CONFIG_MAX_FILES];
    size_t n = 0;
    if (given != NULL) {
        TRY(config_open_files(out, &given, 1, err));
        if (out->n == 0)
            return err_set(err, MOTE_E_ARG, "MOTE_CONFIG: no such file: %.400s", given);
        return MOTE_OK;
    }
    if (config_user_path(user, "config"))
        paths[n++] = user;
    if (config_aliases_path(aliases))
        paths[n++] = aliases;
    paths[n++] = "/etc/mote/config";
    return config_open_files(out, paths, n, err);
}

void config_close(config *c)
{
    for (size_t i = 0; i < CONFIG_MAX_FILES; i++)
        conf_file_fini(&c->files[i]);
    c->n = 0;
}

/* ---- aliases ---- */

static bool line_is_alias(const conf_line *line)
{
    return line->key != NULL && strcmp(line->section, "alias") == 0;
}

const char *config_alias(const config *c, const char *name)
{
    for (size_t i = 0; i < c->n; i++)
        for (uint32_t k = c->files[i].n; k-- > 0;) { /* the last line counts */
            const conf_line *line = &c->files[i].lines[k];
            if (line_is_alias(line) && strcmp(line->key, name) == 0)
                return line->value;
        }
    return NULL;
}

const char *config_alias_at(const config *c, size_t i)
{
    for (size_t f = 0; f < c->n; f++)
        for (uint32_t k = 0; k < c->files[f].n; k++)
            if (line_is_alias(&c->files[f].lines[k]) && i-- == 0)
                return c->files[f].lines[k].key;
    return NULL;
}

/* ---- unknown keys ---- */

/* What a section means: a command, or NULL for those of the keys that any command has. */
typedef enum section_kind { SECTION_ALL, SECTION_SERVE, SECTION_MODEL, SECTION_ALIAS } section_kind;

static bool section_find(const char *section, section_kind *kind)
{
    const size_t n = sizeof model_section - 1;
    if (section[0] == '\0')
        *kind = SECTION_ALL;
    else if (strcmp(section, "serve") == 0)
        *kind = SECTION_SERVE;
    else if (strcmp(section, "alias") == 0)
        *kind = SECTION_ALIAS;
    else if (strncmp(section, model_section, n) == 0 && section[n] != '\0')
        *kind = SECTION_MODEL;
    else
        return false;
    return true;
}

/* The command's flags can be set in the section. */
static bool section_has_command(section_kind kind, const cli_command *command)
{
    switch (kind) {
    case SECTION_ALL: return true;
    case SECTION_SERVE: return strcmp(command->name, "serve") == 0;
    case SECTION_MODEL:
        return strcmp(command->name, "serve") == 0 || strcmp(command->name, "run") == 0;
    case SECTION_ALIAS: return false;
    }
    return false;
}

/* The key is known in the section; if not, the nearest one is in s->best. *once: it is a flag that
 * no section can set. */
static bool section_find_key(section_kind kind, const char *key, const cli_command_table *table,
                             spell *s, bool *once)
{
    const flag_group *group;
    for (size_t i = 0; i < table->n; i++)
        for (size_t g = 0; (group = command_group(table->rows[i], g)) != NULL; g++)
            for (size_t k = 0; k < group->n && section_has_command(kind, table->rows[i]); k++) {
                const cli_flag *flag = &group->flags[k];
                const bool same = flag_is_named(flag, key, strlen(key));
                if (same && !flag->once)
                    return true;
                *once = *once || same;
                if (!flag->once)
                    spell_offer(s, flag->name);
            }
    return false;
}

static void config_check_line(const conf_file *f, const conf_line *line,
                              const cli_command_table *table, config_unknown_fn *fn, void *with)
{
    char sentence[512];
    section_kind kind;
    if (!section_find(line->section, &kind)) {
        if (line->key != NULL) /* the line of the section is reported */
            return;
        snprintf(sentence, sizeof sentence,
                 "%.300s:%u: unknown section [%.60s]; sections are [serve], [model NAME] and "
                 "[alias]",
                 f->name, (unsigned)line->number, line->section);
        fn(with, sentence);
        return;
    }
    spell s = {.word = line->key};
    bool once = false;
    if (line->key == NULL || kind == SECTION_ALIAS ||
        section_find_key(kind, line->key, table, &s, &once))
        return;
    if (once)
        snprintf(sentence, sizeof sentence,
                 "%.300s:%u: --%.60s is for one command line, not for the config file", f->name,
                 (unsigned)line->number, line->key);
    else
        snprintf(sentence, sizeof sentence, "%.300s:%u: unknown key %.60s%s%s%s", f->name,
                 (unsigned)line->number, line->key, s.best != NULL ? "; did you mean " : "",
                 s.best != NULL ? s.best : "", s.best != NULL ? "?" : "");
    fn(with, sentence);
}

void config_check(const config *c, const cli_command_table *table, config_unknown_fn *fn,
                  void *with)
{
    for (size_t i = 0; i < c->n; i++)
        for (uint32_t k = 0; k < c->files[i].n; k++)
            config_check_line(&c->files[i], &c->files[i].lines[k], table, fn, with);
}

mote_status config_check_value(const cli_command_table *table, const char *key, const char *value,
                               const char *source, mote_error *err)
{
    const flag_group *group;
    for (size_t i = 0; i < table->n; i++)
        for (size_t g = 0; (group = command_group(table->rows[i], g)) != NULL; g++)
            for (size_t k = 0; k < group->n; k++) {
                const cli_flag *flag = &group->flags[k];
                if (section_has_command(SECTION_MODEL, table->rows[i]) && !flag->once &&
                    flag_is_named(flag, key, strlen(key)))
                    TRY(flag_check_value(flag, source, value, err));
            }
    return MOTE_OK;
}

/* ---- settings ---- */

/* "qwen3.5:4b:nothink" without its suffix for thinking. */
static size_t model_base_length(const char *model)
{
    const char *colon = strrchr(model, ':');
    mote_think think;
    uint32_t budget;
    if (colon == NULL)
        return strlen(model);
    bool suffix = strcmp(colon, ":think") == 0 || strcmp(colon, ":nothink") == 0 ||
                  mote_think_parse(colon + 1, strlen(colon + 1), &think, &budget);
    return suffix ? (size_t)(colon - model) : strlen(model);
}

/* Section [model NAME] is about the model, with or without the suffix for thinking. */
static bool section_is_model(const char *section, const char *model)
{
    const size_t n = sizeof model_section - 1, base = model_base_length(model);
    if (strncmp(section, model_section, n) != 0)
        return false;
    return strcmp(section + n, model) == 0 ||
           (strlen(section + n) == base && strncmp(section + n, model, base) == 0);
}

typedef enum setting_place { PLACE_MODEL, PLACE_ALIASED, PLACE_COMMAND, PLACE_ALL, N_PLACES } place;

static bool place_has_section(place where, const char *section, const cli_command *command,
                              const char *model, const char *aliased)
{
    switch (where) {
    case PLACE_MODEL: return model != NULL && section_is_model(section, model);
    case PLACE_ALIASED: return aliased != NULL && section_is_model(section, aliased);
    case PLACE_COMMAND: return strcmp(command->name, "serve") == 0 && strcmp(section, "serve") == 0;
    case PLACE_ALL: return section[0] == '\0';
    case N_PLACES: break;
    }
    return false;
}

static bool config_setting_find_line(config_setting *out, const conf_file *f, place where,
                                     const cli_command *command, const char *model,
                                     const char *aliased)
{
    for (uint32_t i = 0; i < f->n; i++) {
        const conf_line *line = &f->lines[i];
        if (line->key == NULL || !flag_is_named(out->flag, line->key, strlen(line->key)) ||
            !place_has_section(where, line->section, command, model, aliased))
            continue;
        out->origin = SETTING_FILE;
        out->file = f;
        out->line = line;
        out->value = line->value;
        if (out->flag->kind == FLAG_LIST)
            return true;
    }
    return out->origin == SETTING_FILE;
}

/* Settings of a model count for the commands that use it to answer. */
static bool command_has_model_settings(const cli_command *command)
{
    return strcmp(command->name, "run") == 0 || strcmp(command->name, "chat") == 0 ||
           strcmp(command->name, "serve") == 0;
}

void config_setting_find(config_setting *out, const cli_flag *flag, const cli_command *command,
                         const config *c, const char *model)
{
    const char *text = flag->env != NULL ? getenv(flag->env) : NULL;
    *out = (config_setting){.flag = flag, .value = flag->initial};
    if (text != NULL && text[0] != '\0') {
        out->origin = SETTING_ENVIRONMENT;
        out->value = text;
        return;
    }
    if (flag->once || command->no_config)
        return;
    if (!command_has_model_settings(command))
        model = NULL;
    const char *aliased = model != NULL ? config_alias(c, model) : NULL;
    for (place where = 0; where < N_PLACES; where++)
        for (size_t i = 0; i < c->n; i++)
            if (config_setting_find_line(out, &c->files[i], where, command, model, aliased))
                return;
}

bool config_setting_next(config_setting *s)
{
    if (s->origin != SETTING_FILE)
        return false;
    for (const conf_line *line = s->line + 1; line < s->file->lines + s->file->n; line++)
        if (line->key != NULL && strcmp(line->section, s->line->section) == 0 &&
            flag_is_named(s->flag, line->key, strlen(line->key))) {
            s->line = line;
            s->value = line->value;
            return true;
        }
    return false;
}

const char *config_setting_source(const config_setting *s, char *text)
{
    switch (s->origin) {
    case SETTING_FILE:
        snprintf(text, SETTING_SOURCE_BYTES, "%.*s:%u: %s", CONFIG_PATH_BYTES, s->file->name,
                 (unsigned)s->line->number, s->line->key);
        break;
    case SETTING_ENVIRONMENT: snprintf(text, SETTING_SOURCE_BYTES, "%s", s->flag->env); break;
    case SETTING_DEFAULT: snprintf(text, SETTING_SOURCE_BYTES, "%s", s->flag->name); break;
    }
    return text;
}
