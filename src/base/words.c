/* SPDX-License-Identifier: Apache-2.0 */
/* words.c - implements words.h. */
#include "base/words.h"

str words_next(str *text, const char *separators)
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

bool words_only(str text, const char *allowed)
{
    for (size_t i = 0; i < text.n; i++) {
        char c = text.p[i];
        bool alnum = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!alnum && (c == '\0' || strchr(allowed, c) == NULL))
            return false;
    }
    return text.n > 0;
}
