/* SPDX-License-Identifier: Apache-2.0 */
/* str.c - implements str.h. */
#include "base/str.h"

#include "base/ckd.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_ROOM = 256 };

void strbuf_fini(strbuf *b)
{
    mem_free(b->p);
    *b = (strbuf){0};
}

bool strbuf_reserve(strbuf *b, size_t bytes)
{
    size_t needed, doubled;
    if (b->failed)
        return false;
    if (b->room - b->n >= bytes)
        return true;
    if (!ckd_add_size(b->n, bytes, &needed) || !ckd_mul_size(b->room, 2, &doubled)) {
        b->failed = true;
        return false;
    }
    size_t room = doubled > needed ? doubled : needed;
    if (room < FIRST_ROOM)
        room = FIRST_ROOM;
    char *moved = mem_resize(b->p, b->room, room, 1);
    if (moved == NULL) {
        b->failed = true;
        return false;
    }
    b->p = moved;
    b->room = room;
    return true;
}

void strbuf_put(strbuf *b, str text)
{
    if (text.n == 0 || !strbuf_reserve(b, text.n))
        return;
    memcpy(b->p + b->n, text.p, text.n);
    b->n += text.n;
}

void strbuf_text(strbuf *b, const char *terminated)
{
    strbuf_put(b, str_of(terminated));
}

void strbuf_byte(strbuf *b, char byte)
{
    strbuf_put(b, (str){&byte, 1});
}

mote_status strbuf_check(const strbuf *b, mote_error *err)
{
    if (!b->failed)
        return MOTE_OK;
    return err_set(err, MOTE_E_MEMORY, "out of memory: text of more than %zu bytes", b->n);
}

/* ---- names in parts ---- */

bool str_take_prefix(str *text, const char *prefix)
{
    const size_t n = strlen(prefix);
    if (text->n < n || memcmp(text->p, prefix, n) != 0)
        return false;
    *text = (str){text->p + n, text->n - n};
    return true;
}

bool str_take_suffix(str *text, const char *suffix)
{
    const size_t n = strlen(suffix);
    if (text->n < n || memcmp(text->p + text->n - n, suffix, n) != 0)
        return false;
    text->n -= n;
    return true;
}

bool str_take_index(str *text, uint32_t *out)
{
    size_t n = 0;
    *out = 0;
    while (n < text->n && n < 4 && text->p[n] >= '0' && text->p[n] <= '9')
        *out = *out * 10 + (uint32_t)(text->p[n++] - '0');
    if (n == 0 || n == text->n || text->p[n] != '.' || (text->p[0] == '0' && n > 1))
        return false;
    *text = (str){text->p + n + 1, text->n - n - 1};
    return true;
}

/* ---- words ---- */

str str_next_word(str *text, const char *separators)
{
    if (text->n == 0)
        return (str){"", 0};
    while (text->n > 0 && strchr(separators, text->p[0]) != NULL)
        *text = (str){text->p + 1, text->n - 1};
    str word = {text->p, 0};
    while (word.n < text->n && strchr(separators, text->p[word.n]) == NULL)
        word.n++;
    *text = (str){text->p + word.n, text->n - word.n};
    return word;
}

bool str_has_only(str text, const char *allowed)
{
    for (size_t i = 0; i < text.n; i++) {
        char c = text.p[i];
        bool alnum = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!alnum && (c == '\0' || strchr(allowed, c) == NULL))
            return false;
    }
    return text.n > 0;
}

/* ---- durations ---- */

/* Skips the unit at *p and returns it in seconds; 0: no unit. Longer names come first. */
static double duration_take_unit(const char **p)
{
    static const struct {
        const char *name;
        double seconds;
    } units[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        const size_t n = strlen(units[i].name);
        if (strncmp(*p, units[i].name, n) == 0) {
            *p += n;
            return units[i].seconds;
        }
    }
    return 0;
}

bool str_duration(const char *text, double *seconds)
{
    const char *p = text + (*text == '-' || *text == '+');
    double total = 0;
    if (*p == '\0')
        return false;
    while (*p != '\0') {
        char *end;
        if (*p != '.' && (*p < '0' || *p > '9'))
            return false;
        const double n = strtod(p, &end);
        p = end;
        double unit = duration_take_unit(&p);
        if (unit == 0 && *p != '\0')
            return false;
        total += n * (unit > 0 ? unit : 1);
    }
    *seconds = *text == '-' ? -total : total;
    return isfinite(total);
}

/* ---- sizes ---- */

bool str_size(const char *text, double plain, double *bytes)
{
    static const char letters[] = "kmgt";
    char *end;
    const double n = strtod(text, &end);
    const size_t digits = strspn(text, "0123456789.");
    if (digits == 0 || end != text + digits) /* strtod also reads "inf", "-1", "1e9" and "0x10" */
        return false;
    double unit = *end == '\0' ? plain : 1;
    const char *letter = *end != '\0' ? strchr(letters, *end | 0x20) : NULL;
    if (letter != NULL) {
        const bool binary = (end[1] | 0x20) == 'i';
        for (const char *p = letters; p <= letter; p++)
            unit *= binary ? 1024 : 1000;
        end += binary ? 2 : 1;
    }
    end += (*end | 0x20) == 'b';
    *bytes = n * unit;
    return *end == '\0' && isfinite(*bytes);
}
