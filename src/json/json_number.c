/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_number.c - JSON numbers: grammar, value as a double, spelling as in Python.
 *
 * strtod and printf use the decimal point of the locale. This file passes them only digits and an
 * exponent, which are the same in every locale.
 */
#include "json/json.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>

static size_t count_digits(str text, size_t at)
{
    size_t end = at;
    while (end < text.n && text.p[end] >= '0' && text.p[end] <= '9')
        end++;
    return end - at;
}

size_t json_number_length(str text)
{
    size_t at = text.n > 0 && text.p[0] == '-';
    size_t whole = count_digits(text, at);
    if (whole == 0)
        return 0;
    at += text.p[at] == '0' ? 1 : whole;
    if (at < text.n && text.p[at] == '.') {
        size_t fraction = count_digits(text, at + 1);
        if (fraction == 0)
            return at;
        at += 1 + fraction;
    }
    if (at < text.n && (text.p[at] == 'e' || text.p[at] == 'E')) {
        size_t sign = at + 1 < text.n && (text.p[at + 1] == '+' || text.p[at + 1] == '-');
        size_t exponent = count_digits(text, at + 1 + sign);
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

/* Rewrites a JSON number without a decimal point: sign, digits and an adjusted exponent. */
static size_t number_without_point(str spelling, char *out, size_t room)
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
    /* With at most JSON_MAX_NUMBER digits before it, this exponent is 0 or infinity as a double. */
    enum { FAR = 100000 };
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
    number_without_point(spelling, digits, sizeof digits);
    return strtod(digits, NULL);
}

/* ---- Python's repr(float) ---- */

enum { DECIMAL_MAX_DIGITS = 17 };

/* 0.d1d2d3... * 10^point */
typedef struct decimal {
    char digits[DECIMAL_MAX_DIGITS + 1];
    int n;
    int point;
} decimal;

static double decimal_value(const decimal *d)
{
    char text[DECIMAL_MAX_DIGITS + 32];
    snprintf(text, sizeof text, "%.*se%d", d->n, d->digits, d->point - d->n);
    return strtod(text, NULL);
}

/* x > 0, rounded to n digits. */
static decimal decimal_rounded(double x, int n)
{
    char text[64];
    decimal d = {.n = n};
    int got = 0;
    snprintf(text, sizeof text, "%.*e", n - 1, x);
    const char *at = text;
    for (; *at != 'e'; at++) /* skips the decimal point of the locale */
        if (*at >= '0' && *at <= '9' && got < n)
            d.digits[got++] = *at;
    d.point = (int)strtol(at + 1, NULL, 10) + 1;
    return d;
}

/* Adds one unit in the last digit. */
static void decimal_step_up(decimal *d)
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

/* The shortest decimal that converts back to x; of several the nearest. Above a power of two the
 * doubles are twice as far apart as below it. There the nearest decimal may convert to another
 * double although the next larger decimal converts to x. */
static decimal decimal_shortest(double x)
{
    decimal d;
    for (int n = x < DBL_MIN ? 1 : 15; n < DECIMAL_MAX_DIGITS;
         n++) { /* up to 15 digits always convert back */
        d = decimal_rounded(x, n);
        if (decimal_value(&d) == x)
            return d;
        decimal_step_up(&d);
        if (decimal_value(&d) == x)
            return d;
    }
    return decimal_rounded(x, DECIMAL_MAX_DIGITS);
}

static void decimal_put_zeros(strbuf *out, int n)
{
    for (; n > 0; n--)
        strbuf_byte(out, '0');
}

static void decimal_put_positional(strbuf *out, const decimal *d)
{
    int whole = d->point < 0 ? 0 : d->point < d->n ? d->point : d->n;
    strbuf_put(out, (str){d->digits, (size_t)whole});
    if (d->point <= 0)
        strbuf_byte(out, '0');
    decimal_put_zeros(out, d->point - d->n);
    strbuf_byte(out, '.');
    decimal_put_zeros(out, -d->point);
    strbuf_put(out, (str){d->digits + whole, (size_t)(d->n - whole)});
    if (d->point >= d->n)
        strbuf_byte(out, '0');
}

static void decimal_put_scientific(strbuf *out, const decimal *d)
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
    decimal d = decimal_shortest(x);
    while (d.n > 1 && d.digits[d.n - 1] == '0')
        d.n--;
    if (d.point > -4 && d.point <= 16)
        decimal_put_positional(out, &d);
    else
        decimal_put_scientific(out, &d);
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
