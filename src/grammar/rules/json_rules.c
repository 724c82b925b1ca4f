/* SPDX-License-Identifier: Apache-2.0 */
/* json_rules.c - the rules of JSON that do not depend on a schema; see rules.h. */
#include "grammar/rules/rules.h"

/* ---- strings ---- */

/* Multi-byte UTF-8 characters, from either of two states. */
static void put_json_utf8(rules *r, const uint32_t from[2], uint32_t to)
{
    const uint32_t one = rules_state(r), two = rules_state(r), three = rules_state(r);
    /* Lead bytes with a narrower second byte: no overlong forms, no surrogates, nothing above
     * U+10FFFF. */
    static const uint8_t special[][4] = {
        {0xE0, 0xA0, 0xBF, 1}, {0xED, 0x80, 0x9F, 1}, {0xF0, 0x90, 0xBF, 2}, {0xF4, 0x80, 0x8F, 2}};
    rules_read(r, one, 0x80, 0xBF, to);
    rules_read(r, two, 0x80, 0xBF, one);
    rules_read(r, three, 0x80, 0xBF, two);
    for (int k = 0; k < 2; k++) {
        rules_read(r, from[k], 0xC2, 0xDF, one);
        rules_read(r, from[k], 0xE1, 0xEC, two);
        rules_read(r, from[k], 0xEE, 0xEF, two);
        rules_read(r, from[k], 0xF1, 0xF3, three);
    }
    for (size_t i = 0; i < 4; i++) {
        const uint32_t second = rules_state(r);
        for (int k = 0; k < 2; k++)
            rules_read(r, from[k], special[i][0], special[i][0], second);
        rules_read(r, second, special[i][1], special[i][2], special[i][3] == 1 ? one : two);
    }
}

/* One hexadecimal digit of the given ranges, two bytes each. */
static void put_hex(rules *r, uint32_t from, const char *ranges, uint32_t to)
{
    for (const char *p = ranges; *p != 0; p += 2)
        rules_read(r, from, (uint8_t)p[0], (uint8_t)p[1], to);
}

/* After "\u": a code unit that is no surrogate, or a whole surrogate pair. */
static void put_code_unit(rules *r, uint32_t from, uint32_t to)
{
    static const char any[] = "09afAF";
    const uint32_t last = rules_state(r), third = rules_state(r);
    put_hex(r, last, any, to);
    put_hex(r, third, any, last);
    const uint32_t second = rules_state(r), second_d = rules_state(r);
    put_hex(r, from,
            "09acAC"
            "efEF",
            second);
    put_hex(r, second, any, third);
    put_hex(r, from, "ddDD", second_d);
    put_hex(r, second_d, "07", third);

    const uint32_t high_third = rules_state(r), high_last = rules_state(r);
    const uint32_t between = rules_state(r);
    put_hex(r, second_d, "89abAB", high_third);
    put_hex(r, high_third, any, high_last);
    put_hex(r, high_last, any, between);
    const uint32_t low = rules_literal(r, between, str_of("\\u"));
    const uint32_t low_second = rules_state(r);
    put_hex(r, low, "ddDD", low_second);
    put_hex(r, low_second, "cfCF", third);
}

uint32_t json_rules_char(rules *r)
{
    if (r->json_char != RULES_NONE)
        return r->json_char;
    const uint32_t rule = rules_add(r);
    const uint32_t start = rules_start_of(r, rule), end = rules_end_of(r, rule);
    rules_read(r, start, 0x20, 0x21, end);
    rules_read(r, start, 0x23, 0x5B, end);
    rules_read(r, start, 0x5D, 0x7F, end);
    r->json_multi = rules_state(r);
    put_json_utf8(r, (const uint32_t[2]){start, r->json_multi}, end);
    const uint32_t escape = rules_state(r), unit = rules_state(r);
    rules_read(r, start, '\\', '\\', escape);
    for (const char *p = "\"\\/bfnrt"; *p != 0; p++)
        rules_read(r, escape, (uint8_t)*p, (uint8_t)*p, end);
    rules_read(r, escape, 'u', 'u', unit);
    put_code_unit(r, unit, end);
    return r->json_char = rule;
}

void json_rules_put_string(rules *r, uint32_t from, uint32_t min, uint32_t max, uint32_t to)
{
    const uint32_t inside = rules_state(r), after = rules_state(r);
    rules_read(r, from, '"', '"', inside);
    rules_loop(r, inside, json_rules_char(r), min, max, after);
    rules_read(r, after, '"', '"', to);
}

uint32_t json_rules_string(rules *r)
{
    if (r->json_string != RULES_NONE)
        return r->json_string;
    const uint32_t rule = rules_add(r);
    json_rules_put_string(r, rules_start_of(r, rule), 0, RULES_NO_LIMIT, rules_end_of(r, rule));
    return r->json_string = rule;
}

/* ---- white space ---- */

static void put_indent(rules *r, uint32_t from, char byte, int n, uint32_t to)
{
    for (int i = 0; i < n; i++) {
        const uint32_t next = rules_state(r);
        rules_read(r, from, (uint8_t)byte, (uint8_t)byte, next);
        rules_skip(r, next, to);
        from = next;
    }
}

uint32_t json_rules_space(rules *r)
{
    if (r->json_space != RULES_NONE)
        return r->json_space;
    const uint32_t rule = rules_add(r);
    const uint32_t start = rules_start_of(r, rule), end = rules_end_of(r, rule);
    rules_skip(r, start, end);
    if (!r->compact) {
        const uint32_t line = rules_state(r);
        rules_read(r, start, ' ', ' ', end);
        rules_read(r, start, '\n', '\n', line);
        rules_skip(r, line, end);
        put_indent(r, line, ' ', JSON_RULES_INDENT, end);
        put_indent(r, line, '\t', JSON_RULES_TABS, end);
    }
    return r->json_space = rule;
}

uint32_t json_rules_open(rules *r, uint32_t from, char first)
{
    const uint32_t after = rules_state(r);
    rules_read(r, from, (uint8_t)first, (uint8_t)first, after);
    if (r->compact)
        return after;
    const uint32_t ready = rules_state(r);
    rules_call(r, after, json_rules_space(r), ready);
    return ready;
}

void json_rules_close(rules *r, uint32_t from, char last, uint32_t to)
{
    uint32_t ready = from;
    if (!r->compact) {
        ready = rules_state(r);
        rules_call(r, from, json_rules_space(r), ready);
    }
    rules_read(r, ready, (uint8_t)last, (uint8_t)last, to);
}

/* ---- numbers ---- */

/* Up to n more digits; from any of them on to `to`. */
static void put_digits(rules *r, uint32_t from, int n, uint32_t to)
{
    rules_skip(r, from, to);
    for (int i = 0; i < n; i++) {
        const uint32_t next = rules_state(r);
        rules_read(r, from, '0', '9', next);
        rules_skip(r, next, to);
        from = next;
    }
}

static void put_json_integer(rules *r, uint32_t from, uint32_t to)
{
    const uint32_t whole = rules_state(r), more = rules_state(r);
    rules_skip(r, from, whole);
    rules_read(r, from, '-', '-', whole);
    rules_read(r, whole, '0', '0', to);
    rules_read(r, whole, '1', '9', more);
    put_digits(r, more, JSON_RULES_DIGITS - 1, to);
}

uint32_t json_rules_integer(rules *r)
{
    if (r->json_integer != RULES_NONE)
        return r->json_integer;
    const uint32_t rule = rules_add(r);
    put_json_integer(r, rules_start_of(r, rule), rules_end_of(r, rule));
    return r->json_integer = rule;
}

/* An exponent of at most three digits, below 300. */
static void put_exponent(rules *r, uint32_t from, uint32_t to)
{
    const uint32_t sign = rules_state(r), digits = rules_state(r);
    rules_read(r, from, 'E', 'E', sign);
    rules_read(r, from, 'e', 'e', sign);
    rules_skip(r, sign, digits);
    rules_read(r, sign, '+', '+', digits);
    rules_read(r, sign, '-', '-', digits);
    const uint32_t last = rules_state(r), second = rules_state(r);
    rules_read(r, digits, '0', '9', to);
    rules_read(r, digits, '0', '9', last);
    rules_read(r, last, '0', '9', to);
    rules_read(r, digits, '1', '2', second);
    rules_read(r, second, '0', '9', last);
}

uint32_t json_rules_number(rules *r)
{
    if (r->json_number != RULES_NONE)
        return r->json_number;
    const uint32_t rule = rules_add(r), end = rules_end_of(r, rule);
    const uint32_t whole = rules_state(r), point = rules_state(r);
    const uint32_t more = rules_state(r), mantissa = rules_state(r);
    put_json_integer(r, rules_start_of(r, rule), whole);
    rules_skip(r, whole, mantissa);
    rules_read(r, whole, '.', '.', point);
    rules_read(r, point, '0', '9', more);
    put_digits(r, more, JSON_RULES_DIGITS - 1, mantissa);
    rules_skip(r, mantissa, end);
    put_exponent(r, mantissa, end);
    return r->json_number = rule;
}

/* ---- any value ---- */

static void put_any_array(rules *r, uint32_t from, uint32_t value, uint32_t to)
{
    const uint32_t open = json_rules_open(r, from, '['), after = rules_state(r);
    rules_read(r, open, ']', ']', to);
    rules_call(r, open, value, after);
    rules_call(r, json_rules_open(r, after, ','), value, after);
    json_rules_close(r, after, ']', to);
}

static void put_any_object(rules *r, uint32_t from, uint32_t value, uint32_t to)
{
    const uint32_t open = json_rules_open(r, from, '{'), after = rules_state(r);
    const uint32_t name = rules_state(r);
    rules_read(r, open, '}', '}', to);
    rules_call(r, open, json_rules_string(r), name);
    rules_call(r, json_rules_open(r, name, ':'), value, after);
    rules_call(r, json_rules_open(r, after, ','), json_rules_string(r), name);
    json_rules_close(r, after, '}', to);
}

static uint32_t json_scalar(rules *r)
{
    const uint32_t rule = rules_add(r);
    const uint32_t start = rules_start_of(r, rule), end = rules_end_of(r, rule);
    rules_literal_to(r, start, str_of("null"), end);
    rules_literal_to(r, start, str_of("true"), end);
    rules_literal_to(r, start, str_of("false"), end);
    rules_call(r, start, json_rules_number(r), end);
    rules_call(r, start, json_rules_string(r), end);
    return rule;
}

/* Each depth has its own rules, which call the rules of the next smaller depth. This is what
 * limits how many brackets a model can open. */
uint32_t json_rules_any(rules *r)
{
    if (r->json_any != RULES_NONE)
        return r->json_any;
    const uint32_t scalar = json_scalar(r);
    uint32_t value = scalar;
    for (int depth = 0; depth < JSON_RULES_DEPTH && rules_ok(r); depth++) {
        const uint32_t array = rules_add(r), object = rules_add(r), outer = rules_add(r);
        put_any_array(r, rules_start_of(r, array), value, rules_end_of(r, array));
        put_any_object(r, rules_start_of(r, object), value, rules_end_of(r, object));
        rules_call(r, rules_start_of(r, outer), scalar, rules_end_of(r, outer));
        rules_call(r, rules_start_of(r, outer), array, rules_end_of(r, outer));
        rules_call(r, rules_start_of(r, outer), object, rules_end_of(r, outer));
        r->json_container[0] = array;
        r->json_container[1] = object;
        value = outer;
    }
    return r->json_any = value;
}

uint32_t json_rules_any_array(rules *r)
{
    json_rules_any(r);
    return r->json_container[0];
}

uint32_t json_rules_any_object(rules *r)
{
    json_rules_any(r);
    return r->json_container[1];
}
