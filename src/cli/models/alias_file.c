/* SPDX-License-Identifier: Apache-2.0 */
/* alias_file.c - implements alias_file.h. */
#include "cli/models/alias_file.h"

#include "base/os.h"
#include "cli/args/command.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const char first_line[] = "# Written by mote cp; change it with mote cp and mote rm.\n";

/* ---- text ---- */

/* Quoted, so that white space and # are kept; the form has no escapes. */
static mote_status text_put_value(strbuf *out, const char *key, const char *value, mote_error *err)
{
    if (strpbrk(value, "\"\r\n") != NULL)
        return err_set(err, MOTE_E_ARG,
                       "the value of %.60s contains a quote or a line break, which a config file "
                       "cannot hold",
                       key);
    strbuf_text(out, key);
    strbuf_text(out, " = \"");
    strbuf_text(out, value);
    strbuf_text(out, "\"\n");
    return MOTE_OK;
}

static bool line_is_of(const conf_line *line, const char *alias)
{
    if (strcmp(line->section, "alias") == 0)
        return line->key != NULL && strcmp(line->key, alias) == 0;
    return strncmp(line->section, "model ", 6) == 0 && strcmp(line->section + 6, alias) == 0;
}

/* Copies the lines of other aliases. *found: `alias` is in the file. */
static mote_status text_copy_others(strbuf *out, const conf_file *f, const char *alias, bool *found,
                                    mote_error *err)
{
    *found = false;
    strbuf_text(out, first_line);
    for (uint32_t i = 0; i < f->n; i++) {
        const conf_line *line = &f->lines[i];
        if (line_is_of(line, alias)) {
            *found = true;
        } else if (line->key != NULL) {
            TRY(text_put_value(out, line->key, line->value, err));
        } else {
            strbuf_text(out, "[");
            strbuf_text(out, line->section);
            strbuf_text(out, "]\n");
        }
    }
    return MOTE_OK;
}

static mote_status text_put_alias(strbuf *out, const char *alias, const char *model,
                                  const alias_setting *settings, size_t n, mote_error *err)
{
    strbuf_text(out, "[alias]\n");
    TRY(text_put_value(out, alias, model, err));
    if (n > 0) {
        strbuf_text(out, "[model ");
        strbuf_text(out, alias);
        strbuf_text(out, "]\n");
    }
    for (size_t i = 0; i < n; i++)
        TRY(text_put_value(out, settings[i].key, settings[i].value, err));
    return strbuf_check(out, err);
}

/* ---- the file ---- */

static void check_unknown(void *with, const char *sentence)
{
    mote_error *err = with;
    if (err->text[0] == '\0')
        err_set(err, MOTE_E_ARG, "%s", sentence);
}

/* The text must be one that the reader of the config file accepts without a warning. */
static mote_status text_check(const char *path, str text, mote_error *err)
{
    config c = {.n = 1};
    mote_error unknown = {0};
    TRY(conf_file_parse(&c.files[0], path, text, err));
    config_check(&c, &cli_commands, check_unknown, &unknown);
    config_close(&c);
    return unknown.text[0] == '\0' ? MOTE_OK : err_set(err, MOTE_E_ARG, "%s", unknown.text);
}

static mote_status file_write(const char *path, str text, mote_error *err)
{
    char directory[CONFIG_PATH_BYTES];
    TRY(text_check(path, text, err));
    snprintf(directory, sizeof directory, "%s", path);
    for (char *p = directory + 1; (p = strchr(p, '/')) != NULL; *p++ = '/') {
        *p = '\0';
        if (mkdir(directory, 0700) != 0 && errno != EEXIST)
            return err_set(err, MOTE_E_IO, "cannot create %.400s: %s", directory, strerror(errno));
    }
    return os_file_replace(path, text.p, text.n, err);
}

/* model NULL: removes the alias. */
static mote_status file_change(const char *alias, const char *model, const alias_setting *settings,
                               size_t n, bool *found, mote_error *err)
{
    char path[CONFIG_PATH_BYTES];
    conf_file f = {0};
    strbuf text = {0};
    bool exists;
    *found = false;
    if (!config_aliases_path(path))
        return model == NULL ? MOTE_OK
                             : err_set(err, MOTE_E_ARG,
                                       "aliases are kept in $XDG_CONFIG_HOME/mote/aliases or "
                                       "~/.config/mote/aliases: set HOME, and unset MOTE_CONFIG");
    TRY(conf_file_read(&f, path, &exists, err));
    mote_status status = text_copy_others(&text, &f, alias, found, err);
    if (status == MOTE_OK && model != NULL)
        status = text_put_alias(&text, alias, model, settings, n, err);
    if (status == MOTE_OK && (model != NULL || *found))
        status = file_write(path, strbuf_view(&text), err);
    strbuf_fini(&text);
    conf_file_fini(&f);
    return status;
}

mote_status alias_file_set(const char *alias, const char *model, const alias_setting *settings,
                           size_t n, mote_error *err)
{
    bool found;
    return file_change(alias, model, settings, n, &found, err);
}

mote_status alias_file_remove(const char *alias, bool *removed, mote_error *err)
{
    return file_change(alias, NULL, NULL, 0, removed, err);
}
