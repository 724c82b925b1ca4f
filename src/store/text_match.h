/* SPDX-License-Identifier: Apache-2.0 */
/* text_match.h - comparisons of file names and model names. Letters match in any case. */
#ifndef MOTE_STORE_TEXT_MATCH_H
#define MOTE_STORE_TEXT_MATCH_H

#include "base/str.h"

#include <strings.h>

static inline bool match_equal(str a, const char *b)
{
    return a.n == strlen(b) && strncasecmp(a.p, b, a.n) == 0;
}

static inline bool match_start(str text, const char *start)
{
    const size_t n = strlen(start);
    return text.n >= n && strncasecmp(text.p, start, n) == 0;
}

static inline bool match_end(str text, const char *end)
{
    const size_t n = strlen(end);
    return text.n >= n && strncasecmp(text.p + text.n - n, end, n) == 0;
}

/* Where `part` first occurs at or after `from`; text.n: nowhere. */
static inline size_t match_find(str text, const char *part, size_t from)
{
    const size_t n = strlen(part);
    for (size_t i = from; i + n <= text.n; i++)
        if (strncasecmp(text.p + i, part, n) == 0)
            return i;
    return text.n;
}

static inline bool match_contains(str text, const char *part)
{
    return match_find(text, part, 0) < text.n;
}

/* True if `word` occurs between separators or ends: "F16" is in "mmproj-F16.gguf", not in
 * "mmproj-BF16.gguf". */
static inline bool match_word(str text, const char *word)
{
    static const char separators[] = "-./ ";
    const size_t n = strlen(word);
    for (size_t i = match_find(text, word, 0); i < text.n; i = match_find(text, word, i + 1)) {
        const bool begins = i == 0 || strchr(separators, text.p[i - 1]) != NULL;
        const bool ends = i + n == text.n || strchr(separators, text.p[i + n]) != NULL;
        if (begins && ends)
            return true;
    }
    return false;
}

/* The part after the last slash. */
static inline str match_base(str path)
{
    size_t from = path.n;
    while (from > 0 && path.p[from - 1] != '/')
        from--;
    return (str){path.p + from, path.n - from};
}

/* The directory with its slash, or empty. */
static inline str match_directory(str path)
{
    return (str){path.p, path.n - match_base(path).n};
}

#endif
