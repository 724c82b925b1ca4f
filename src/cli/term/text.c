/* SPDX-License-Identifier: Apache-2.0 */
/* text.c - see text.h. */
#include "cli/term/text.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

size_t text_char(const char *p, size_t n, uint32_t *code)
{
    const unsigned char *u = (const unsigned char *)p;
    if (u[0] < 0x80) {
        *code = u[0];
        return 1;
    }
    size_t bytes = u[0] >= 0xF0 ? 4 : u[0] >= 0xE0 ? 3 : 2;
    if (u[0] < 0xC2 || u[0] > 0xF4 || bytes > n)
        return 0;
    uint32_t c = u[0] & (0x7Fu >> bytes);
    for (size_t i = 1; i < bytes; i++) {
        if ((u[i] & 0xC0) != 0x80)
            return 0;
        c = c << 6 | (u[i] & 0x3Fu);
    }
    /* Overlong, a surrogate, or above U+10FFFF. */
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    if (c < smallest[bytes] || (c >= 0xD800 && c < 0xE000) || c > 0x10FFFF)
        return 0;
    *code = c;
    return bytes;
}

/* C1 too: U+009B alone starts a control sequence in some terminals. */
bool text_is_control(uint32_t code)
{
    return code < 0x20 || (code >= 0x7F && code < 0xA0) || (code >= 0x2028 && code <= 0x202E) ||
           (code >= 0x2066 && code <= 0x2069);
}

size_t text_show(const char *p, size_t n, text_style style, char *shown, size_t *n_shown)
{
    uint32_t code = 0;
    size_t bytes = text_char(p, n, &code);
    char escaped[TEXT_SHOWN_BYTES] = "";
    if (bytes == 0) {
        snprintf(escaped, sizeof escaped, "\\x%02x", (unsigned char)p[0]);
        bytes = 1;
    } else if (style == TEXT_LINES && (code == '\n' || code == '\t')) {
        /* unchanged */
    } else if (code == '\n' || code == '\r' || code == '\t') {
        snprintf(escaped, sizeof escaped, "\\%c", code == '\n' ? 'n' : code == '\r' ? 'r' : 't');
    } else if (text_is_control(code)) {
        snprintf(escaped, sizeof escaped, code < 0x80 ? "\\x%02x" : "\\u%04x", (unsigned)code);
    } else if (style == TEXT_QUOTED && (code == '"' || code == '\\')) {
        snprintf(escaped, sizeof escaped, "\\%c", (int)code);
    }
    *n_shown = escaped[0] != '\0' ? strlen(escaped) : bytes;
    memcpy(shown, escaped[0] != '\0' ? escaped : p, *n_shown);
    return bytes;
}

/* An escape has as many columns as bytes; any other character counts as one column. */
static size_t text_columns(const char *shown, size_t n_shown)
{
    return (unsigned char)shown[0] < 0x80 ? n_shown : 1;
}

void text_fit(char *shown, size_t room, const char *p, size_t n, size_t columns)
{
    size_t at = 0, used = 0, cut_at = 0;
    while (n > 0) {
        char piece[TEXT_SHOWN_BYTES];
        size_t n_piece;
        size_t taken = text_show(p, n, TEXT_LINE, piece, &n_piece);
        size_t width = text_columns(piece, n_piece);
        if (used + width > columns || at + n_piece + 4 > room) {
            at = cut_at;
            memcpy(shown + at, "...", 3);
            at += 3;
            break;
        }
        memcpy(shown + at, piece, n_piece);
        at += n_piece;
        used += width;
        if (used + 3 <= columns)
            cut_at = at;
        p += taken;
        n -= taken;
    }
    shown[at] = '\0';
}

bool text_add(strbuf *to, const char *p, size_t n)
{
    strbuf_put(to, (str){p, n});
    const bool added = !to->failed;
    to->failed = false;
    return added;
}

/* ---- numbers ---- */

const char *text_count(char *buffer, uint64_t n)
{
    char digits[TEXT_NUMBER_BYTES];
    size_t n_digits = (size_t)snprintf(digits, sizeof digits, "%llu", (unsigned long long)n);
    size_t at = 0;
    for (size_t i = 0; i < n_digits; i++) {
        if (i > 0 && (n_digits - i) % 3 == 0)
            buffer[at++] = ' ';
        buffer[at++] = digits[i];
    }
    buffer[at] = '\0';
    return buffer;
}

const char *text_counted(char *buffer, uint64_t n, const char *noun)
{
    text_count(buffer, n);
    size_t at = strlen(buffer);
    snprintf(buffer + at, TEXT_NUMBER_BYTES - at, " %s%s", noun, n == 1 ? "" : "s");
    return buffer;
}

/* At least two significant digits: "2.7", "14", "412". */
static void text_scaled(char *buffer, double value, const char *unit)
{
    snprintf(buffer, TEXT_NUMBER_BYTES, value < 9.95 ? "%.1f %s" : "%.0f %s", value, unit);
}

const char *text_bytes(char *buffer, uint64_t bytes)
{
    static const char *const units[] = {"kB", "MB", "GB", "TB", "PB", "EB"};
    if (bytes < 1000) {
        snprintf(buffer, TEXT_NUMBER_BYTES, "%u B", (unsigned)bytes);
        return buffer;
    }
    double value = (double)bytes / 1000;
    size_t unit = 0;
    while (value >= 999.5 && unit + 1 < sizeof units / sizeof *units) {
        value /= 1000;
        unit++;
    }
    text_scaled(buffer, value, units[unit]);
    return buffer;
}

const char *text_seconds(char *buffer, double seconds)
{
    unsigned long long whole = seconds < 1e15 ? (unsigned long long)(seconds + 0.5) : 0;
    if (seconds < 9.995)
        snprintf(buffer, TEXT_NUMBER_BYTES, "%.2f s", seconds);
    else if (seconds < 59.95)
        snprintf(buffer, TEXT_NUMBER_BYTES, "%.1f s", seconds);
    else if (whole < 3600)
        snprintf(buffer, TEXT_NUMBER_BYTES, "%llu m %llu s", whole / 60, whole % 60);
    else
        snprintf(buffer, TEXT_NUMBER_BYTES, "%llu h %llu m", whole / 3600, whole % 3600 / 60);
    return buffer;
}

const char *text_rate(char *buffer, double per_second)
{
    if (per_second < 99.95) {
        snprintf(buffer, TEXT_NUMBER_BYTES, "%.1f", per_second);
        return buffer;
    }
    return text_count(buffer, per_second < 1e18 ? (uint64_t)(per_second + 0.5) : UINT64_MAX);
}

const char *text_quantity(char *buffer, double quantity)
{
    if (quantity >= 999.5e6)
        snprintf(buffer, TEXT_NUMBER_BYTES, "%.2f B", quantity / 1e9);
    else if (quantity >= 999.5e3)
        snprintf(buffer, TEXT_NUMBER_BYTES, "%.1f M", quantity / 1e6);
    else
        snprintf(buffer, TEXT_NUMBER_BYTES, "%.0f", quantity);
    return buffer;
}

/* ---- spelling ----
 *
 * The distance counts inserted, deleted, changed and transposed letters. A candidate is near if at
 * most a third of the letters differ, or if one word is a prefix of the other and the shorter has
 * at least three letters ("temp" and "temperature"). */

enum { SPELL_MAX = 40 };

static size_t spell_min(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Both words have at most SPELL_MAX bytes. */
static size_t spell_distance(const char *a, size_t n_a, const char *b, size_t n_b)
{
    size_t d[SPELL_MAX + 1][SPELL_MAX + 1]; /* [prefix length of a][prefix length of b] */
    for (size_t i = 0; i <= n_a; i++)
        d[i][0] = i;
    for (size_t j = 0; j <= n_b; j++)
        d[0][j] = j;
    for (size_t i = 1; i <= n_a; i++)
        for (size_t j = 1; j <= n_b; j++) {
            size_t change = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            d[i][j] = spell_min(change, spell_min(d[i - 1][j], d[i][j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d[i][j] = spell_min(d[i][j], d[i - 2][j - 2] + 1);
        }
    return d[n_a][n_b];
}

void spell_offer(spell *s, const char *candidate)
{
    size_t n_word = strlen(s->word), n_candidate = strlen(candidate);
    if (n_word == 0 || n_word > SPELL_MAX || n_candidate > SPELL_MAX)
        return;
    size_t shorter = spell_min(n_word, n_candidate), longer = n_word + n_candidate - shorter;
    size_t distance = spell_distance(s->word, n_word, candidate, n_candidate);
    if (shorter >= 3 && memcmp(s->word, candidate, shorter) == 0)
        distance = 1;
    else if (distance > (longer + 2) / 3)
        return;
    if (s->best == NULL || distance < s->distance) {
        s->best = candidate;
        s->distance = distance;
    }
}
