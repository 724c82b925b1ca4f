/* SPDX-License-Identifier: Apache-2.0 */
/* mmproj.c - implements mmproj.h. */
#include "store/mmproj.h"

#include "base/str.h"
#include "store/file_list.h"
#include "store/gguf_head.h"
#include "store/text_match.h"

#include <ctype.h>
#include <stdio.h>
#include <strings.h>

enum { MAX_MMPROJ = 64 };
static const char word[] = "mmproj", suffix[] = ".gguf";

/* ---- names ---- */

bool mmproj_is(const char *name)
{
    return match_contains(str_of(name), word) && match_end(str_of(name), suffix);
}

static bool is_separator(char c)
{
    return c == '-' || c == '_' || c == '.';
}

typedef struct mmproj_name {
    str stem;        /* the name of a model: before "mmproj", or between it and the format */
    bool whole;      /* the stem is a prefix of the model's name */
    size_t common;   /* length of the common prefix with the model's name */
    unsigned format; /* index into the formats, best first */
} mmproj_name;

/* Removes the format from the end of a stem. */
static unsigned mmproj_take_format(str *stem)
{
    static const char *const formats[] = {"F16", "BF16", "F32", "Q8_0"};
    enum { N = sizeof formats / sizeof *formats };
    for (unsigned i = 0; i < N; i++) {
        const size_t n = strlen(formats[i]);
        if (!match_end(*stem, formats[i]) ||
            (stem->n > n && !is_separator(stem->p[stem->n - n - 1])))
            continue;
        stem->n -= n;
        return i;
    }
    return N;
}

static mmproj_name mmproj_parse(const char *model, const char *name)
{
    const str whole = {name, strlen(name) - strlen(suffix)};
    const size_t at = match_find(whole, word, 0);
    str after = {name + at + strlen(word), whole.n - at - strlen(word)};
    mmproj_name t = {.format = mmproj_take_format(&after)};
    t.stem = at > 0 ? (str){name, at} : after;
    while (t.stem.n > 0 && is_separator(t.stem.p[t.stem.n - 1]))
        t.stem.n--;
    for (; t.stem.n > 0 && is_separator(*t.stem.p); t.stem.n--)
        t.stem.p++;
    while (t.common < t.stem.n &&
           tolower((unsigned char)t.stem.p[t.common]) == tolower((unsigned char)model[t.common]))
        t.common++;
    t.whole = t.common == t.stem.n;
    return t;
}

/* 1: a fits the model better than b; -1: worse; 0: equally. */
static int mmproj_compare(const mmproj_name *a, const mmproj_name *b)
{
    if (a->whole != b->whole)
        return a->whole ? 1 : -1;
    return (a->common > b->common) - (a->common < b->common);
}

static bool mmproj_same_stem(const mmproj_name *a, const mmproj_name *b)
{
    return a->stem.n == b->stem.n && strncasecmp(a->stem.p, b->stem.p, a->stem.n) == 0;
}

size_t mmproj_choose(const char *model, const char *const *names, size_t n, size_t *rival)
{
    size_t best = 0;
    mmproj_name found = mmproj_parse(model, names[0]);
    for (size_t i = 1; i < n; i++) {
        const mmproj_name t = mmproj_parse(model, names[i]);
        const int order = mmproj_compare(&t, &found);
        if (order > 0 || (order == 0 && t.format < found.format)) {
            best = i;
            found = t;
        }
    }
    *rival = n;
    for (size_t i = 0; i < n; i++) {
        const mmproj_name t = mmproj_parse(model, names[i]);
        if (i != best && mmproj_compare(&t, &found) == 0 &&
            (!mmproj_same_stem(&t, &found) || t.format == found.format))
            *rival = i;
    }
    return best;
}

/* ---- files ---- */

static bool mmproj_find_in(char *out, char *why, const char *directory, const char *model)
{
    char names[MAX_MMPROJ][FILE_NAME_BYTES];
    const char *list[MAX_MMPROJ];
    size_t rival;
    const size_t n =
        file_names(names, MAX_MMPROJ, directory[0] != '\0' ? directory : ".", mmproj_is);
    for (size_t i = 0; i < n; i++)
        list[i] = names[i];
    if (n == 0)
        return true;
    const size_t best = mmproj_choose(model, list, n, &rival);
    if (rival < n) {
        snprintf(
            why, MMPROJ_WHY_BYTES,
            "%s and %s match the model equally: choose the vision encoder with --mmproj FILE, or "
            "--mmproj none",
            names[best], names[rival]);
        return false;
    }
    snprintf(out, MMPROJ_PATH_BYTES, "%.2000s%s", directory, names[best]);
    if (n > 1)
        snprintf(why, MMPROJ_WHY_BYTES,
                 "vision encoder: %s, of %zu mmproj files; --mmproj selects another", names[best],
                 n);
    return true;
}

bool mmproj_find(char *out, char *why, const char *model_path, const char *given)
{
    const char *slash = strrchr(model_path, '/');
    const int n = slash != NULL ? (int)(slash - model_path) + 1 : 0;
    char directory[MMPROJ_PATH_BYTES];
    out[0] = why[0] = '\0';
    if (given != NULL && strcmp(given, "none") == 0)
        return true;
    if (given != NULL) {
        snprintf(out, MMPROJ_PATH_BYTES, "%s", given);
        return true;
    }
    gguf_head head;
    if (gguf_head_read(&head, model_path) && head.vision > 0) {
        snprintf(out, MMPROJ_PATH_BYTES, "%s", model_path);
        return true;
    }
    snprintf(directory, sizeof directory, "%.*s", n, model_path);
    return mmproj_find_in(out, why, directory, model_path + n);
}
