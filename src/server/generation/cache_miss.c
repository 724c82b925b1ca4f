/* SPDX-License-Identifier: Apache-2.0 */
/* cache_miss.c - see cache_miss.h. The rules check the word that contains the difference: a
 * prefix often ends inside a time or an id, because their first digits are equal. */
#include "server/generation/cache_miss.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

static const struct {
    const char *name, *advice;
} kinds[] = {
    [MISS_IMAGE] = {"image", "an image differs: send the same bytes of an image in every request"},
    [MISS_TOOLS] = {"tools", "the tools differ: send the same tools in the same order and with the "
                             "same descriptions in every request"},
    [MISS_THINKING] = {"thinking",
                       "the reasoning of an earlier answer differs or is missing: send it back as "
                       "reasoning_content or as a thinking block"},
    [MISS_WHITESPACE] = {"whitespace", "only white space differs: send earlier texts and tool "
                                       "arguments back byte for byte"},
    [MISS_TIME] = {"timestamp", "a date or time changes with every request: put it into the last "
                                "message, or send only the day"},
    [MISS_ID] = {"id",
                 "an id changes with every request: remove it, or put it into the last message"},
    [MISS_NUMBER] = {"number", "a number changes with every request: remove it, or put it into the "
                               "last message"},
    [MISS_CALL] = {"tool_call",
                   "an earlier tool call differs: send its id and arguments back unchanged"},
    [MISS_SYSTEM] = {"system", "the system prompt differs: keep it constant, and put what changes "
                               "into the last message"},
    [MISS_MESSAGE] = {"message", "an earlier message was changed, shortened or removed: append "
                                 "messages, and leave earlier ones as they are"},
    [MISS_PROMPT] = {"prompt",
                     "the prompt differs from an earlier one: put what changes at its end"},
    [MISS_NEW] = {"new", "the first prompt of this key, or its prefix was evicted"},
};

const char *miss_kind_name(miss_kind kind)
{
    return kinds[kind].name;
}

const char *miss_advice(miss_kind kind)
{
    return kinds[kind].advice;
}

/* ---- words ---- */

enum { WORD_BYTES = 96 };

static bool is_word_byte(char c)
{
    return isalnum((unsigned char)c) || strchr(":.+-_/", c) != NULL;
}

/* The word that contains the end of `before` and the start of `after`, without punctuation at its
 * ends. */
static void word_around(char word[WORD_BYTES], str before, str after)
{
    size_t left = 0, right = 0;
    while (left < before.n && left < WORD_BYTES / 2 - 1 &&
           is_word_byte(before.p[before.n - 1 - left]))
        left++;
    while (right < after.n && right < WORD_BYTES / 2 && is_word_byte(after.p[right]))
        right++;
    size_t n = 0;
    for (size_t i = before.n - left; i < before.n; i++)
        word[n++] = before.p[i];
    for (size_t i = 0; i < right; i++)
        word[n++] = after.p[i];
    while (n > 0 && ispunct((unsigned char)word[n - 1]))
        n--;
    word[n] = '\0';
}

static size_t count_bytes(const char *word, int (*is)(int))
{
    size_t n = 0;
    for (; *word != '\0'; word++)
        n += is((unsigned char)*word) != 0;
    return n;
}

/* A whole name, or its first three letters. */
static bool is_month_or_day(const char *word)
{
    static const char *const names[] = {
        "January",   "February",  "March",   "April",    "May",      "June",   "July",
        "August",    "September", "October", "November", "December", "Monday", "Tuesday",
        "Wednesday", "Thursday",  "Friday",  "Saturday", "Sunday"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcasecmp(word, names[i]) == 0 ||
            (strlen(word) == 3 && strncasecmp(word, names[i], 3) == 0))
            return true;
    return false;
}

/* 10:02 or 10:02:03, also after a date. The port of an address has other lengths. */
static bool has_clock(const char *word)
{
    for (const char *colon = strchr(word, ':'); colon != NULL; colon = strchr(colon + 1, ':'))
        if (colon > word && isdigit((unsigned char)colon[-1]) &&
            strspn(colon + 1, "0123456789") == 2)
            return true;
    return false;
}

/* 2026-11-17, 17/11/2026, 17.11.26; versions have fewer digits. */
static bool is_date(const char *word)
{
    size_t separators = 0;
    for (const char *p = word; *p != '\0'; p++)
        separators += strchr("-/.", *p) != NULL;
    return separators == 2 && count_bytes(word, isdigit) >= 6 && count_bytes(word, isalpha) == 0;
}

static bool is_clock_or_date(const char *word)
{
    return isdigit((unsigned char)word[0]) && (has_clock(word) || is_date(word));
}

static bool is_all_digits(const char *word)
{
    return word[0] != '\0' && word[strspn(word, "0123456789")] == '\0';
}

/* The last words before the difference mention a time. */
static bool is_about_time(str before)
{
    static const char *const words[] = {"date", "time", "today", "clock", "hour", "minute", "year"};
    enum { NEAR = 32 };
    const size_t from = before.n > NEAR ? before.n - NEAR : 0;
    for (size_t i = from; i < before.n; i++)
        for (size_t k = 0; k < sizeof words / sizeof *words; k++)
            if (strlen(words[k]) <= before.n - i &&
                strncasecmp(before.p + i, words[k], strlen(words[k])) == 0)
                return true;
    return false;
}

/* A uuid, a hexadecimal hash, req_7f3a9c: at least 8 letters and digits, mixed. */
static bool is_id(const char *word)
{
    const size_t digits = count_bytes(word, isdigit), letters = count_bytes(word, isalpha);
    return digits + letters >= 8 && digits >= 2 && letters >= 2 &&
           word[strcspn(word, "/:")] == '\0';
}

/* ---- rules ---- */

static bool is_same_without_blanks(str a, str b)
{
    size_t i = 0, k = 0;
    bool blanks = false;
    for (;;) {
        for (; i < a.n && isspace((unsigned char)a.p[i]); i++)
            blanks = true;
        for (; k < b.n && isspace((unsigned char)b.p[k]); k++)
            blanks = true;
        if (i == a.n || k == b.n)
            return blanks && i > 0 && k > 0;
        if (a.p[i++] != b.p[k++])
            return false;
    }
}

static bool is_time(const char *had, const char *got, str before)
{
    if (is_month_or_day(had) && is_month_or_day(got))
        return true;
    if (is_clock_or_date(had) && is_clock_or_date(got))
        return true;
    return is_all_digits(had) && is_all_digits(got) &&
           (is_about_time(before) || (strlen(had) >= 10 && had[0] == '1'));
}

miss_kind miss_classify(const miss_difference *d)
{
    char had[WORD_BYTES], got[WORD_BYTES];
    if (d->image)
        return MISS_IMAGE;
    if (d->thinking)
        return MISS_THINKING;
    word_around(had, d->before, d->had);
    word_around(got, d->before, d->got);
    if (is_time(had, got, d->before))
        return MISS_TIME;
    if (is_id(had) && is_id(got))
        return MISS_ID;
    if (is_all_digits(had) && is_all_digits(got))
        return MISS_NUMBER;
    if (is_same_without_blanks(d->had, d->got))
        return MISS_WHITESPACE;
    if (d->call)
        return MISS_CALL;
    return d->place == MISS_IN_TOOLS     ? MISS_TOOLS
           : d->place == MISS_IN_SYSTEM  ? MISS_SYSTEM
           : d->place == MISS_IN_MESSAGE ? MISS_MESSAGE
                                         : MISS_PROMPT;
}
