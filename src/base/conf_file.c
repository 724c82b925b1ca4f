/* SPDX-License-Identifier: Apache-2.0 */
/* conf_file.c - implements conf_file.h. */
#include "base/conf_file.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static bool conf_is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static str conf_trim(str s)
{
    while (s.n > 0 && conf_is_space(s.p[0]))
        s.p++, s.n--;
    while (s.n > 0 && conf_is_space(s.p[s.n - 1]))
        s.n--;
    return s;
}

/* Without the comment: # at the beginning or after white space. */
static str conf_strip_comment(str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] == '#' && (i == 0 || conf_is_space(s.p[i - 1])))
            return conf_trim((str){s.p, i});
    return conf_trim(s);
}

/* False: a quote is not closed, or text follows it. */
static bool conf_read_value(str s, str *value)
{
    s = conf_trim(s);
    if (s.n == 0 || s.p[0] != '"') {
        *value = conf_strip_comment(s);
        return true;
    }
    const char *end = memchr(s.p + 1, '"', s.n - 1);
    if (end == NULL)
        return false;
    *value = (str){s.p + 1, (size_t)(end - s.p) - 1};
    return conf_strip_comment((str){end + 1, s.n - (size_t)(end + 1 - s.p)}).n == 0;
}

/* Terminates `s`, which is a part of f->text: the byte after it is a separator that is not needed
 * any more, or the end of the text. */
static const char *conf_terminate(str s)
{
    char *p = (char *)(uintptr_t)s.p;
    p[s.n] = '\0';
    return p;
}

static mote_status conf_bad_line(const conf_file *f, uint32_t number, const char *what, str line,
                                 mote_error *err)
{
    return err_set(err, MOTE_E_ARG, "%s:%u: %s, got '%.*s'", f->name, (unsigned)number, what,
                   line.n < 60 ? (int)line.n : 60, line.p);
}

/* `line` is trimmed and neither empty nor a comment. */
static mote_status conf_parse_line(conf_file *f, str line, conf_line *out, mote_error *err)
{
    const char *equals = memchr(line.p, '=', line.n);
    str bare = conf_strip_comment(line);
    if (bare.p[0] == '[') {
        if (bare.p[bare.n - 1] != ']')
            return conf_bad_line(f, out->number, "a section must end with ]", bare, err);
        out->section = conf_terminate(conf_trim((str){bare.p + 1, bare.n - 2}));
        return MOTE_OK;
    }
    str key = {line.p, equals != NULL ? (size_t)(equals - line.p) : 0}, value;
    key = conf_trim(key);
    if (key.n == 0 || memchr(key.p, '#', key.n) != NULL)
        return conf_bad_line(f, out->number, "a line must be key = value or [section]", bare, err);
    if (!conf_read_value((str){equals + 1, line.n - (size_t)(equals + 1 - line.p)}, &value))
        return conf_bad_line(f, out->number, "a quoted value must end with \"", bare, err);
    out->key = conf_terminate(key);
    out->value = conf_terminate(value);
    return MOTE_OK;
}

static mote_status conf_parse_text(conf_file *f, size_t n, mote_error *err)
{
    char *at = f->text, *end = f->text + n;
    conf_line next = {.section = "", .number = 1};
    if (n >= 3 && memcmp(at, "\xEF\xBB\xBF", 3) == 0) /* some editors write a byte order mark */
        at += 3;
    for (; at < end; next.number++) {
        char *newline = memchr(at, '\n', (size_t)(end - at));
        str line = conf_trim((str){at, (size_t)((newline != NULL ? newline : end) - at)});
        at = newline != NULL ? newline + 1 : end;
        if (line.n == 0 || line.p[0] == '#')
            continue;
        if (memchr(line.p, '\0', line.n) != NULL)
            return err_set(err, MOTE_E_ARG, "%s:%u: the line contains a zero byte", f->name,
                           (unsigned)next.number);
        next.key = next.value = NULL;
        TRY(conf_parse_line(f, line, &next, err));
        if (!mem_grow(&f->lines, f->n, &f->room, sizeof *f->lines))
            return err_set(err, MOTE_E_MEMORY, "out of memory: lines of %s", f->name);
        f->lines[f->n++] = next;
    }
    return MOTE_OK;
}

mote_status conf_file_parse(conf_file *out, const char *name, str text, mote_error *err)
{
    conf_file f = {.name = mem_new(strlen(name) + 1, 1), .text = mem_new(text.n + 1, 1)};
    mote_status status = MOTE_OK;
    if (f.name == NULL || f.text == NULL) {
        status = err_set(err, MOTE_E_MEMORY, "out of memory: text of %s", name);
    } else {
        memcpy(f.name, name, strlen(name) + 1);
        if (text.n > 0)
            memcpy(f.text, text.p, text.n);
        status = conf_parse_text(&f, text.n, err);
    }
    if (status != MOTE_OK)
        conf_file_fini(&f);
    *out = f;
    return status;
}

static mote_status conf_file_read_all(int fd, const char *path, strbuf *text, mote_error *err)
{
    struct stat info;
    if (fstat(fd, &info) == 0 && S_ISDIR(info.st_mode))
        return err_set(err, MOTE_E_IO, "cannot read %s: it is a directory", path);
    for (;;) {
        if (!strbuf_reserve(text, 16384))
            return err_set(err, MOTE_E_MEMORY, "out of memory: text of %s", path);
        ssize_t n = read(fd, text->p + text->n, text->room - text->n);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_set(err, MOTE_E_IO, "cannot read %s: %s", path, strerror(errno));
        if (n == 0)
            return MOTE_OK;
        text->n += (size_t)n;
        if (text->n > CONF_FILE_MAX_BYTES)
            return err_set(err, MOTE_E_IO, "%s is larger than 1 MiB: not a configuration file",
                           path);
    }
}

mote_status conf_file_read(conf_file *out, const char *path, bool *found, mote_error *err)
{
    *out = (conf_file){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    bool absent = fd < 0 && (errno == ENOENT || errno == ENOTDIR);
    if (found != NULL)
        *found = !absent;
    if (absent && found != NULL)
        return MOTE_OK;
    if (fd < 0)
        return err_set(err, MOTE_E_IO, "cannot read %s: %s", path, strerror(errno));
    strbuf text = {0};
    mote_status status = conf_file_read_all(fd, path, &text, err);
    close(fd);
    if (status == MOTE_OK)
        status = conf_file_parse(out, path, strbuf_view(&text), err);
    strbuf_fini(&text);
    return status;
}

void conf_file_fini(conf_file *f)
{
    mem_free(f->name);
    mem_free(f->lines);
    mem_free(f->text);
    *f = (conf_file){0};
}
