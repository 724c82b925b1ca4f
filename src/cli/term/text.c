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
    /* Longer than needed, half of a surrogate pair, or beyond the last plane. */
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    if (c < smallest[bytes] || (c >= 0xD800 && c < 0xE000) || c > 0x10FFFF)
        return 0;
    *code = c;
    return bytes;
}

/* C0, DEL and C1: U+009B alone starts a control sequence in some terminals. And what moves text
 * about without being seen: line separators, and orders that turn the direction of writing. */
static bool is_control(uint32_t code)
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
        /* stays */
    } else if (code == '\n' || code == '\r' || code == '\t') {
        snprintf(escaped, sizeof escaped, "\\%c", code == '\n' ? 'n' : code == '\r' ? 'r' : 't');
    } else if (is_control(code)) {
        snprintf(escaped, sizeof escaped, code < 0x80 ? "\\x%02x" : "\\u%04x", (unsigned)code);
    } else if (style == TEXT_QUOTED && (code == '"' || code == '\\')) {
        snprintf(escaped, sizeof escaped, "\\%c", (int)code);
    }
    *n_shown = escaped[0] != '\0' ? strlen(escaped) : bytes;
    memcpy(shown, escaped[0] != '\0' ? escaped : p, *n_shown);
    return bytes;
}

/* An escape is as many columns as bytes, any other character counts as one. */
static size_t columns_of(const char *shown, size_t n_shown)
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
        size_t width = columns_of(piece, n_piece);
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

const char *text_counted(char *buffer, uint64_t n, const char *thing)
{
    text_count(buffer, n);
    size_t at = strlen(buffer);
    snprintf(buffer + at, TEXT_NUMBER_BYTES - at, " %s%s", thing, n == 1 ? "" : "s");
    return buffer;
}

/* Two significant digits at least: "2.7", "14", "412". */
static void write_scaled(char *buffer, double value, const char *unit)
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
    write_scaled(buffer, value, units[unit]);
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
