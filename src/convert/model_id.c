/* SPDX-License-Identifier: Apache-2.0 */
/* model_id.c - see model_id.h. */
#include "convert/model_id.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_PARTS = 32 };

enum { IS_BASENAME = 1, IS_SIZE = 2, IS_FINETUNE = 4, IS_VERSION = 8, IS_TYPE = 16 };

typedef struct part {
    char text[MODEL_ID_BYTES];
    unsigned kinds;
} part;

/* ---- words ---- */

static bool digit_at(const char *p)
{
    return isdigit((unsigned char)*p) != 0;
}

static const char *skip_digits(const char *p)
{
    while (digit_at(p))
        p++;
    return p;
}

static bool skip_word(const char **p, const char *word)
{
    size_t n = 0;
    for (; word[n] != '\0'; n++)
        if (tolower((unsigned char)(*p)[n]) != word[n])
            return false;
    *p += n;
    return true;
}

/* "3", "v1.2", "iter20" */
static bool is_version(const char *p)
{
    if (!skip_word(&p, "iter"))
        skip_word(&p, "v");
    if (!digit_at(p))
        return false;
    p = skip_digits(p);
    while (*p == '.' && digit_at(p + 1))
        p = skip_digits(p + 1);
    return *p == '\0';
}

/* "Q4_K_M", "IQ4_XS" has two letters and is none, "BF16" */
static bool is_type(const char *text)
{
    const char *p = text;
    skip_word(&p, "i");
    if (skip_word(&p, "q") && digit_at(p)) {
        for (p++; *p == '_' && (isalnum((unsigned char)p[1]) || p[1] == '_'); p += 2)
            ;
        return *p == '\0';
    }
    p = text;
    skip_word(&p, "b");
    if (!skip_word(&p, "f"))
        return false;
    skip_word(&p, "p");
    return strcmp(p, "16") == 0 || strcmp(p, "32") == 0;
}

static bool is_one_of(const char *text, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *p = text;
        if (skip_word(&p, words[i]) && *p == '\0')
            return true;
    }
    return false;
}

/* "4B", "0.8B", "A3B", "8x7B", "7b1", "small" */
static bool is_size(const char *text)
{
    static const char *const words[] = {"small", "mini", "medium", "large", "xl", "xxl"};
    if (is_one_of(text, words, sizeof words / sizeof *words))
        return true;
    const char *p = text, *after = skip_digits(text);
    if (!skip_word(&p, "a") && after > text && tolower((unsigned char)*after) == 'x')
        p = after + 1;
    if (!digit_at(p))
        return false;
    p = skip_digits(p);
    if ((*p == '.' || *p == '_') && digit_at(p + 1))
        p = skip_digits(p + 1);
    if (*p == '\0' || strchr("kmbt", tolower((unsigned char)*p)) == NULL)
        return false;
    p++;
    return *p == '\0' || (digit_at(p) && p[1] == '\0');
}

/* ---- parts ---- */

/* Writes a size as "7.1B". False: far from the number of weights, such as the context "32k". */
static bool normalise_size(char *text, uint64_t values)
{
    static const char units[] = " KMBT";
    size_t n = strlen(text);
    for (size_t i = 0; i < n; i++)
        text[i] = text[i] == '_' ? '.' : text[i];
    if (digit_at(text + n - 1) && n + 1 < MODEL_ID_BYTES) {
        const char unit = text[n - 2], last = text[n - 1];
        snprintf(text + n - 2, 4, ".%c%c", last, unit);
        n++;
    }
    if (n > 1 && digit_at(text + n - 2))
        text[n - 1] = (char)toupper((unsigned char)text[n - 1]);
    char number[MODEL_ID_BYTES], *end;
    snprintf(number, sizeof number, "%.*s", (int)(n - 1), text);
    const double scale = strtod(number, &end);
    const char *unit = strchr(units, text[n - 1]);
    if (values == 0 || end == number || *end != '\0' || unit == NULL)
        return true;
    double label = scale;
    for (const char *u = units; u < unit; u++)
        label *= 1000;
    if (fabs(label - (double)values) <= (double)(7 * values / 8))
        return true;
    text[n - 1] = (char)tolower((unsigned char)text[n - 1]);
    return false;
}

static void part_classify(part *p, bool first, uint64_t values)
{
    static const char *const finetunes[] = {"chat", "instruct", "vision", "lora"};
    if (is_version(p->text)) {
        p->kinds = IS_VERSION;
    } else if (is_type(p->text)) {
        p->kinds = IS_TYPE;
        for (char *c = p->text; *c != '\0'; c++)
            *c = (char)toupper((unsigned char)*c);
    } else if (!first && is_size(p->text)) {
        p->kinds = normalise_size(p->text, values) ? IS_SIZE : IS_FINETUNE;
    } else if (!first && is_one_of(p->text, finetunes, 4)) {
        p->kinds = IS_FINETUNE;
    }
}

static bool part_has(const part *p, int (*kind)(int), bool all)
{
    for (const char *c = p->text; *c != '\0'; c++)
        if ((kind((unsigned char)*c) != 0) != all)
            return !all;
    return all;
}

/* A size in words, such as "mini", does not count if there is one in numbers. */
static void parts_drop_word_sizes(part *parts, size_t n)
{
    bool numbers = false;
    for (size_t i = 0; i < n; i++)
        numbers =
            numbers || ((parts[i].kinds & IS_SIZE) != 0 && part_has(&parts[i], isdigit, false));
    for (size_t i = 0; numbers && i < n; i++)
        if (part_has(&parts[i], isalpha, true))
            parts[i].kinds &= ~(unsigned)IS_SIZE;
}

/* The base name is the beginning of the name, without a version at its end. */
static void parts_find_basename(part *parts, size_t n)
{
    bool at_start = true;
    for (size_t i = 0; i < n; i++) {
        const bool plain = parts[i].kinds == 0 && isalpha((unsigned char)parts[i].text[0]);
        at_start = at_start && (plain || (parts[i].kinds & IS_VERSION) != 0);
        if (at_start)
            parts[i].kinds |= IS_BASENAME;
        else if (parts[i].kinds == 0)
            parts[i].kinds = IS_FINETUNE;
    }
    for (size_t i = n; i-- > 0;) {
        if ((parts[i].kinds & IS_BASENAME) == 0 || parts[i].kinds == IS_BASENAME)
            break;
        parts[i].kinds &= ~(unsigned)IS_BASENAME;
    }
}

/* Joins the parts of a kind with dashes; sizes without repetition. */
static void parts_join(char *out, const part *parts, size_t n, unsigned kind, unsigned without)
{
    size_t at = 0;
    out[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        bool repeated = false;
        for (size_t k = 0; kind == IS_SIZE && k < i; k++)
            repeated = repeated ||
                       ((parts[k].kinds & kind) != 0 && strcmp(parts[k].text, parts[i].text) == 0);
        if ((parts[i].kinds & kind) == 0 || (parts[i].kinds & without) != 0 || repeated)
            continue;
        at += (size_t)snprintf(out + at, MODEL_ID_BYTES - at, "%s%s", at > 0 ? "-" : "",
                               parts[i].text);
        if (at >= MODEL_ID_BYTES)
            return;
    }
}

static size_t parts_split(part *parts, const char *name, uint64_t values)
{
    size_t n = 0;
    str rest = str_of(name);
    for (str word = str_next_word(&rest, "-"); word.n > 0 && n < MAX_PARTS;
         word = str_next_word(&rest, "-")) {
        parts[n] = (part){.kinds = 0};
        memcpy(parts[n].text, word.p, word.n);
        part_classify(&parts[n], n == 0, values);
        n++;
    }
    return n;
}

void model_id_parse(model_id *out, str text, uint64_t values)
{
    part parts[MAX_PARTS];
    *out = (model_id){.name = ""};
    if (text.n == 0 || text.n >= MODEL_ID_BYTES - 1)
        return;
    const char *slash = memchr(text.p, '/', text.n);
    if (slash != NULL && slash > text.p && text.p[0] != '.')
        snprintf(out->organization, MODEL_ID_BYTES, "%.*s", (int)(slash - text.p), text.p);
    const str name = slash != NULL ? (str){slash + 1, text.n - (size_t)(slash + 1 - text.p)} : text;
    snprintf(out->name, MODEL_ID_BYTES, "%.*s", (int)name.n, name.p);
    if (memchr(text.p, ' ', text.n) != NULL) { /* a sentence, not a name with parts */
        snprintf(out->name, MODEL_ID_BYTES, "%.*s", (int)text.n, text.p);
        out->organization[0] = '\0';
        return;
    }
    const size_t n = parts_split(parts, out->name, values);
    parts_drop_word_sizes(parts, n);
    parts_find_basename(parts, n);
    parts_join(out->size_label, parts, n, IS_SIZE, 0);
    parts_join(out->finetune, parts, n, IS_FINETUNE, 0);
    parts_join(out->version, parts, n, IS_VERSION, IS_BASENAME);
    if (out->size_label[0] != '\0' || out->finetune[0] != '\0' || out->version[0] != '\0')
        parts_join(out->basename, parts, n, IS_BASENAME, 0);
}

/* ---- texts ---- */

static bool word_is_lower(str word)
{
    bool any = false;
    for (size_t i = 0; i < word.n; i++) {
        if (isupper((unsigned char)word.p[i]))
            return false;
        any = any || islower((unsigned char)word.p[i]);
    }
    return any && !digit_at(word.p) && !(word.p[0] == 'v' && word.n > 1 && is_version(word.p));
}

void model_id_title(char out[MODEL_ID_BYTES], const char *name)
{
    size_t at = 0;
    str rest = str_of(name);
    for (str word = str_next_word(&rest, "- "); word.n > 0; word = str_next_word(&rest, "- ")) {
        char text[MODEL_ID_BYTES];
        snprintf(text, sizeof text, "%.*s", (int)word.n, word.p);
        if (word_is_lower(str_of(text)))
            for (size_t i = 0; text[i] != '\0'; i++)
                if (i == 0 || !isalpha((unsigned char)text[i - 1]))
                    text[i] = (char)toupper((unsigned char)text[i]);
        at += (size_t)snprintf(out + at, MODEL_ID_BYTES - at, "%s%s", at > 0 ? " " : "", text);
        if (at >= MODEL_ID_BYTES)
            return;
    }
    out[at] = '\0';
}

void model_id_size(char out[MODEL_ID_BYTES], uint64_t values)
{
    const double n = (double)values;
    const char unit = n > 1e12 ? 'T' : n > 1e9 ? 'B' : n > 1e6 ? 'M' : 'K';
    const double scaled = n * (unit == 'T'   ? 1e-12
                               : unit == 'B' ? 1e-9
                               : unit == 'M' ? 1e-6
                                             : 1e-3);
    const double whole = nearbyint(scaled);
    const int decimals = whole >= 10 ? 0 : whole >= 1 ? 1 : 2;
    snprintf(out, MODEL_ID_BYTES, "%.*f%c", decimals, scaled, unit);
}
