/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_number.c - numbers as text: their grammar, their value, their spelling in Python.
 *
 * The C library reads and prints with the decimal point of the program's locale.
 * So numbers pass through it only as digits and an exponent, which look the same
 * everywhere.
 */
#include "json/json.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>

static size_t digits_at(str text, size_t at)
{
    size_t end = at;
    while (end < text.n && text.p[end] >= '0' && text.p[end] <= '9')
        end++;
    return end - at;
}

size_t json_number_length(str text)
{
    size_t at = text.n > 0 && text.p[0] == '-';
    size_t whole = digits_at(text, at);
    if (whole == 0)
        return 0;
    at += text.p[at] == '0' ? 1 : whole;
    if (at < text.n && text.p[at] == '.') {
        size_t fraction = digits_at(text, at + 1);
        if (fraction == 0)
            return at;
        at += 1 + fraction;
    }
    if (at < text.n && (text.p[at] == 'e' || text.p[at] == 'E')) {
        size_t sign = at + 1 < text.n && (text.p[at + 1] == '+' || text.p[at + 1] == '-');
        size_t exponent = digits_at(text, at + 1 + sign);
        if (exponent > 0)
            at += 1 + sign + exponent;
    }
    return at;
}

bool json_number_is_integer(str spelling)
{
    for (size_t i = 0; i < spelling.n; i++)
        if (spelling.p[i] == '.' || spelling.p[i] == 'e' || spelling.p[i] == 'E')
            return false;
    return true;
}

bool json_node_int64(const json_node *node, int64_t *out)
{
    str text = json_node_text(node);
    if (!json_node_is(node, JSON_IS_NUMBER) || !json_number_is_integer(text))
        return false;
    bool negative = text.p[0] == '-';
    int64_t value = 0;
    for (size_t i = negative; i < text.n; i++) {
        int digit = text.p[i] - '0';
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, negative ? -digit : digit, &value))
            return false;
    }
    *out = value;
    return true;
}

double json_node_double(const json_node *node)
{
    return json_node_is(node, JSON_IS_NUMBER) ? json_number_double(json_node_text(node)) : 0.0;
}

/* A JSON number without its point: sign and digits, then the exponent that makes up for it. */
static size_t without_point(str spelling, char *out, size_t room)
{
    size_t n = 0, i = 0;
    long shift = 0, exponent = 0;
    bool after = false;
    for (; i < spelling.n && spelling.p[i] != 'e' && spelling.p[i] != 'E'; i++) {
        if (spelling.p[i] == '.') {
            after = true;
        } else {
            out[n++] = spelling.p[i];
            shift += after;
        }
    }
    bool negative = i + 1 < spelling.n && spelling.p[i + 1] == '-';
    enum { FAR = 100000 }; /* beyond any double, whatever digits stand before it */
    for (i++; i < spelling.n; i++)
        if (spelling.p[i] >= '0' && spelling.p[i] <= '9' && exponent < FAR)
            exponent = 10 * exponent + (spelling.p[i] - '0');
    exponent = (negative ? -exponent : exponent) - shift;
    return n + (size_t)snprintf(out + n, room - n, "e%ld", exponent);
}

double json_number_double(str spelling)
{
    char digits[JSON_MAX_NUMBER + 16];
    if (spelling.n > JSON_MAX_NUMBER)
        return 0.0;
    without_point(spelling, digits, sizeof digits);
    return strtod(digits, NULL);
}

/* ---- Python's repr(float) ---- */

enum { MOST_DIGITS = 17 };

/* 0.d1d2d3... x 10^point */
typedef struct decimal {
    char digits[MOST_DIGITS + 1];
    int n;
    int point;
} decimal;

static double value_of(const decimal *d)
{
    char text[MOST_DIGITS + 32];
    snprintf(text, sizeof text, "%.*se%d", d->n, d->digits, d->point - d->n);
    return strtod(text, NULL);
}

/* x > 0 rounded to n digits. */
static decimal rounded(double x, int n)
{
    char text[64];
    decimal d = {.n = n};
    int got = 0;
    snprintf(text, sizeof text, "%.*e", n - 1, x);
    const char *at = text;
    for (; *at != 'e'; at++) /* whatever the locale puts between them */
        if (*at >= '0' && *at <= '9' && got < n)
            d.digits[got++] = *at;
    d.point = (int)strtol(at + 1, NULL, 10) + 1;
    return d;
}

/* The next number with as many digits. */
static void step_up(decimal *d)
{
    int i = d->n - 1;
    for (; i >= 0 && d->digits[i] == '9'; i--)
        d->digits[i] = '0';
    if (i >= 0) {
        d->digits[i]++;
        return;
    }
    d->digits[0] = '1';
    d->point++;
}

/* The fewest digits that read back as x, and of those the nearest. Just above a power of two the
 * doubles lie twice as far apart as below it, so there the nearest decimal may read back as
 * another double while its neighbour above reads back as x. */
static decimal shortest(double x)
{
    decimal d;
    for (int n = x < DBL_MIN ? 1 : 15; n < MOST_DIGITS; n++) { /* 15 digits are never too many */
        d = rounded(x, n);
        if (value_of(&d) == x)
            return d;
        step_up(&d);
        if (value_of(&d) == x)
            return d;
    }
    return rounded(x, MOST_DIGITS);
}

static void put_zeros(strbuf *out, int n)
{
    for (; n > 0; n--)
        strbuf_byte(out, '0');
}

static void put_positional(strbuf *out, const decimal *d)
{
    int whole = d->point < 0 ? 0 : d->point < d->n ? d->point : d->n;
    strbuf_put(out, (str){d->digits, (size_t)whole});
    if (d->point <= 0)
        strbuf_byte(out, '0');
    put_zeros(out, d->point - d->n);
    strbuf_byte(out, '.');
    put_zeros(out, -d->point);
    strbuf_put(out, (str){d->digits + whole, (size_t)(d->n - whole)});
    if (d->point >= d->n)
        strbuf_byte(out, '0');
}

static void put_scientific(strbuf *out, const decimal *d)
{
    char exponent[16];
    strbuf_byte(out, d->digits[0]);
    if (d->n > 1)
        strbuf_byte(out, '.');
    strbuf_put(out, (str){d->digits + 1, (size_t)(d->n - 1)});
    snprintf(exponent, sizeof exponent, "e%c%02d", d->point > 0 ? '+' : '-', abs(d->point - 1));
    strbuf_text(out, exponent);
}

static void put_double(strbuf *out, double x)
{
    if (__builtin_signbit(x))
        strbuf_byte(out, '-');
    x = __builtin_fabs(x);
    if (x > DBL_MAX) {
        strbuf_text(out, "Infinity");
        return;
    }
    if (x == 0.0) {
        strbuf_text(out, "0.0");
        return;
    }
    decimal d = shortest(x);
    while (d.n > 1 && d.digits[d.n - 1] == '0')
        d.n--;
    if (d.point > -4 && d.point <= 16)
        put_positional(out, &d);
    else
        put_scientific(out, &d);
}

void json_put_number(strbuf *out, str spelling)
{
    if (!json_number_is_integer(spelling))
        put_double(out, json_number_double(spelling));
    else if (str_is(spelling, "-0"))
        strbuf_byte(out, '0');
    else
        strbuf_put(out, spelling);
}
