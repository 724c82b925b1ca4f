/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schema_number.c - numbers as sets of texts.
 *
 * "At least 2.5" is a set of texts like any other: reading a number digit by digit,
 * it is enough to know how many digits of the whole part have come, how they
 * compare with those of the bound so far, and then the same for the fraction.
 * A multiple is known by its remainder. The automata here accept any number of
 * digits, which keeps them small; how many may come is added when one is written.
 */
#include "grammar/schema/schema_int.h"

#include "base/mem.h"
#include "grammar/rules/rules.h"
#include "grammar/rules/regex.h"

#include <stdio.h>
#include <string.h>

enum {
    MAX_DIGITS = 700,
    SYMBOLS = 12,
    MAX_REMAINDERS = 50000,
    MAX_TO_LIMIT = 40 /* states; times the digits that may come they would be too many */
};

/* A number without exponent: whole part without leading zeros (at least "0"), fraction
 * without trailing ones. */
typedef struct decimal {
    char whole[MAX_DIGITS + 1], fraction[MAX_DIGITS + 1];
    uint32_t n_whole, n_fraction;
    bool negative;
} decimal;

static bool is_zero(const decimal *d)
{
    return d->n_fraction == 0 && d->n_whole == 1 && d->whole[0] == '0';
}

/* The digits of a JSON number and the power of ten they are to be multiplied with. False: too
 * many, or too far. */
static bool take_digits(str text, char digits[MAX_DIGITS], uint32_t *n, int64_t *power)
{
    size_t i = text.n > 0 && text.p[0] == '-';
    bool fraction = false;
    *n = 0;
    *power = 0;
    for (; i < text.n && text.p[i] != 'e' && text.p[i] != 'E'; i++) {
        if (text.p[i] == '.') {
            fraction = true;
            continue;
        }
        *power -= fraction;
        if (*n == 0 && text.p[i] == '0')
            continue;
        if (*n == MAX_DIGITS)
            return false;
        digits[(*n)++] = text.p[i];
    }
    int64_t exponent = 0;
    const bool negative = i + 1 < text.n && text.p[i + 1] == '-';
    for (i++; i < text.n && exponent < 100000; i++)
        if (text.p[i] >= '0' && text.p[i] <= '9')
            exponent = exponent * 10 + (text.p[i] - '0');
    *power += negative ? -exponent : exponent;
    while (*n > 0 && digits[*n - 1] == '0') {
        --*n;
        ++*power;
    }
    return true;
}

/* False: it has more digits than anybody means. */
static bool read_decimal(str text, decimal *d)
{
    char digits[MAX_DIGITS];
    uint32_t n;
    int64_t power;
    *d = (decimal){.negative = text.n > 0 && text.p[0] == '-'};
    if (!take_digits(text, digits, &n, &power))
        return false;
    const int64_t whole = n > 0 ? (int64_t)n + power : 0;
    if (whole > MAX_DIGITS || (int64_t)n - whole > MAX_DIGITS)
        return false;
    for (int64_t i = 0; i < whole; i++)
        d->whole[d->n_whole++] = i < n ? digits[i] : '0';
    for (int64_t i = whole; i < (int64_t)n; i++)
        d->fraction[d->n_fraction++] = i < 0 ? '0' : digits[i];
    if (d->n_whole == 0)
        d->whole[d->n_whole++] = '0';
    d->negative = d->negative && !is_zero(d);
    return true;
}

static mote_status read_bound(schema_compiler *c, str text, decimal *d)
{
    if (!read_decimal(text, d))
        return err_set(c->err, MOTE_E_ARG, "the number %.*s of a schema has too many digits",
                       STR_ARG(text));
    return MOTE_OK;
}

mote_status schema_number_plain(schema_compiler *c, str number, strbuf *out)
{
    decimal *d = mem_new(1, sizeof *d);
    if (d == NULL)
        return schema_no_memory(c);
    if (!read_decimal(number, d) || d->n_whole + d->n_fraction > 2 * JSON_RULES_DIGITS) {
        strbuf_put(out, number);
    } else {
        if (d->negative)
            strbuf_byte(out, '-');
        strbuf_put(out, (str){d->whole, d->n_whole});
        if (d->n_fraction > 0) {
            strbuf_byte(out, '.');
            strbuf_put(out, (str){d->fraction, d->n_fraction});
        }
    }
    mem_free(d);
    return strbuf_check(out, c->err);
}

/* ---- tables: state and symbol to state, as a set ---- */

typedef struct table {
    uint32_t (*next)[SYMBOLS]; /* '-', '.', '0' to '9'; RULES_NONE: refused */
    bool *accepts;
    uint32_t n, room, accepts_room;
} table;

enum { MINUS = 0, POINT = 1, DIGIT = 2 };

static mote_status add_row(schema_compiler *c, table *t, bool accepts, uint32_t *out)
{
    if (!mem_grow(&t->next, t->n, &t->room, sizeof *t->next) ||
        !mem_grow(&t->accepts, t->n, &t->accepts_room, sizeof *t->accepts))
        return schema_no_memory(c);
    memset(t->next[t->n], 0xFF, sizeof *t->next);
    t->accepts[t->n] = accepts;
    if (out != NULL)
        *out = t->n;
    t->n++;
    return MOTE_OK;
}

static void all_digits(table *t, uint32_t row, uint32_t to)
{
    for (int d = 0; d < 10; d++)
        t->next[row][DIGIT + d] = to;
}

static mote_status fill_set(schema_compiler *c, const table *t, dfa *set)
{
    static const char symbols[] = "-.0123456789";
    for (uint32_t row = 0; row < t->n; row++) {
        TRY(dfa_add_state(set, t->accepts[row], c->err));
        for (int s = 0; s < SYMBOLS; s++)
            if (t->next[row][s] != RULES_NONE)
                TRY(dfa_add_range(set, (uint8_t)symbols[s], (uint8_t)symbols[s], t->next[row][s],
                                  c->err));
    }
    return dfa_trim(set, c->fuel, c->err);
}

/* The table as a set, joined with `texts`. The table is gone afterwards. */
static mote_status finish_table(schema_compiler *c, table *t, uint32_t texts, uint32_t *out)
{
    dfa set = {0};
    mote_status status = fill_set(c, t, &set);
    mem_free(t->next);
    mem_free(t->accepts);
    if (status == MOTE_OK)
        status = dfa_apply(&set, DFA_INTERSECT, &c->sets[texts].texts, c->fuel, c->err);
    if (status != MOTE_OK) {
        dfa_fini(&set);
        return status;
    }
    return schema_add_set(c, &set, out);
}

/* ---- comparing with a bound ---- */

/* How the text compares with the bound: less, equal, more. */
typedef enum order { LESS, EQUAL, MORE } order;

typedef struct comparison {
    schema_compiler *c;
    table t;
    const decimal *d; /* its magnitude counts */
    bool accept[3];   /* which orders of the magnitudes are wanted */
} comparison;

/* A text that is settled: further digits and a fraction change nothing. */
static mote_status settled(comparison *x, order o, uint32_t *whole, uint32_t *fraction)
{
    uint32_t point;
    TRY(add_row(x->c, &x->t, x->accept[o], whole));
    TRY(add_row(x->c, &x->t, false, &point));
    TRY(add_row(x->c, &x->t, x->accept[o], fraction));
    all_digits(&x->t, *whole, *whole);
    x->t.next[*whole][POINT] = point;
    all_digits(&x->t, point, *fraction);
    all_digits(&x->t, *fraction, *fraction);
    return MOTE_OK;
}

/* After an equal whole part: compares the fraction. Returns the row of the whole part's end,
 * whose digits are left to the caller. */
static mote_status equal_tail(comparison *x, const uint32_t fraction_of[3], uint32_t *row)
{
    const decimal *d = x->d;
    TRY(add_row(x->c, &x->t, x->accept[d->n_fraction > 0 ? LESS : EQUAL], row));
    uint32_t at;
    TRY(add_row(x->c, &x->t, false, &at));
    x->t.next[*row][POINT] = at;
    for (uint32_t i = 0; i <= d->n_fraction; i++) {
        const bool done = i == d->n_fraction;
        const int digit = done ? 0 : d->fraction[i] - '0';
        uint32_t same = at;
        if (!done)
            TRY(add_row(x->c, &x->t, x->accept[i + 1 < d->n_fraction ? LESS : EQUAL], &same));
        else if (d->n_fraction == 0)
            TRY(add_row(x->c, &x->t, x->accept[EQUAL], &same));
        for (int k = 0; k < 10; k++)
            x->t.next[at][DIGIT + k] = k < digit    ? fraction_of[LESS]
                                       : k == digit ? same
                                                    : fraction_of[MORE];
        if (done && same != at)
            for (int k = 0; k < 10; k++)
                x->t.next[same][DIGIT + k] = k == 0 ? same : fraction_of[MORE];
        at = same;
    }
    return MOTE_OK;
}

/*
 * Rows for the whole part: after i digits, less, equal or more than the first i
 * of the bound's. With fewer digits than the bound's the number is less, whatever
 * they are; with more it is more.
 */
static mote_status whole_part(comparison *x, uint32_t start)
{
    const uint32_t n = x->d->n_whole;
    uint32_t whole_of[3], fraction_of[3], rows[3] = {RULES_NONE, start, RULES_NONE};
    TRY(settled(x, LESS, &whole_of[LESS], &fraction_of[LESS]));
    TRY(settled(x, MORE, &whole_of[MORE], &fraction_of[MORE]));
    uint32_t less_point, equal_end;
    TRY(add_row(x->c, &x->t, false, &less_point));
    all_digits(&x->t, less_point, fraction_of[LESS]);
    TRY(equal_tail(x, fraction_of, &equal_end));
    for (uint32_t i = 0; i < n; i++) {
        const bool last = i + 1 == n;
        const int digit = x->d->whole[i] - '0';
        uint32_t next[3];
        for (int o = LESS; o <= MORE; o++) {
            if (last && o == EQUAL) {
                next[o] = equal_end;
                continue;
            }
            TRY(add_row(x->c, &x->t, x->accept[last ? o : LESS], &next[o]));
            x->t.next[next[o]][POINT] =
                last && o == MORE ? x->t.next[whole_of[MORE]][POINT] : less_point;
        }
        for (int o = LESS; o <= MORE; o++)
            for (int k = 0; k < 10 && rows[o] != RULES_NONE; k++) {
                const order after = o != EQUAL   ? (order)o
                                    : k < digit  ? LESS
                                    : k == digit ? EQUAL
                                                 : MORE;
                x->t.next[rows[o]][DIGIT + k] = next[after];
            }
        memcpy(rows, next, sizeof rows);
    }
    /* One digit more than the bound has. */
    for (int o = LESS; o <= MORE; o++)
        all_digits(&x->t, rows[o], whole_of[MORE]);
    return MOTE_OK;
}

/* Digits and a fraction, all zero or not, accepted or not. */
static mote_status zero_or_not(schema_compiler *c, table *t, uint32_t start, bool zero, bool other)
{
    uint32_t zeros = 0, point = 0, zero_fraction = 0;
    uint32_t others, other_point, other_fraction;
    TRY(add_row(c, t, zero, &zeros));
    TRY(add_row(c, t, false, &point));
    TRY(add_row(c, t, zero, &zero_fraction));
    TRY(add_row(c, t, other, &others));
    TRY(add_row(c, t, false, &other_point));
    TRY(add_row(c, t, other, &other_fraction));
    const uint32_t from[] = {start, zeros, point, zero_fraction};
    for (int i = 0; i < 4; i++) {
        all_digits(t, from[i], i < 2 ? others : other_fraction);
        t->next[from[i]][DIGIT] = i < 2 ? zeros : zero_fraction;
    }
    t->next[zeros][POINT] = point;
    all_digits(t, others, others);
    t->next[others][POINT] = other_point;
    all_digits(t, other_point, other_fraction);
    all_digits(t, other_fraction, other_fraction);
    return MOTE_OK;
}

/* accept: which orders of the number to the bound are wanted. */
static mote_status build_comparison(comparison *x, const bool accept[3])
{
    uint32_t start, negative;
    TRY(add_row(x->c, &x->t, false, &start));
    TRY(add_row(x->c, &x->t, false, &negative));
    x->t.next[start][MINUS] = negative;
    if (x->d->negative) { /* magnitudes below zero compare the other way round */
        TRY(zero_or_not(x->c, &x->t, start, accept[MORE], accept[MORE]));
        x->accept[LESS] = accept[MORE];
        x->accept[EQUAL] = accept[EQUAL];
        x->accept[MORE] = accept[LESS];
        return whole_part(x, negative);
    }
    TRY(zero_or_not(x->c, &x->t, negative, accept[is_zero(x->d) ? EQUAL : LESS], accept[LESS]));
    memcpy(x->accept, accept, sizeof x->accept);
    return whole_part(x, start);
}

static mote_status compare(schema_compiler *c, str number, const bool accept[3], uint32_t *set)
{
    uint32_t texts;
    TRY(schema_number_texts(c, &texts));
    decimal *d = mem_new(1, sizeof *d);
    if (d == NULL)
        return schema_no_memory(c);
    comparison x = {.c = c, .d = d};
    mote_status status = read_bound(c, number, d);
    if (status == MOTE_OK)
        status = build_comparison(&x, accept);
    mem_free(d);
    if (status == MOTE_OK)
        return finish_table(c, &x.t, texts, set);
    mem_free(x.t.next);
    mem_free(x.t.accepts);
    return status;
}

/* Many members of a schema have the same bounds. */
mote_status schema_number_bound(schema_compiler *c, str number, number_bound bound, uint32_t *set)
{
    static const bool accepted[][3] = {
        {false, true, true}, {false, false, true}, {true, true, false}, {true, false, false}};
    for (uint32_t i = 0; i < c->n_bounds; i++)
        if (c->bounds[i].bound == bound && str_eq(c->bounds[i].number, number)) {
            *set = c->bounds[i].set;
            return MOTE_OK;
        }
    TRY(compare(c, number, accepted[bound], set));
    if (!mem_grow(&c->bounds, c->n_bounds, &c->bounds_room, sizeof *c->bounds))
        return schema_no_memory(c);
    c->bounds[c->n_bounds++] = (schema_bound){number, bound, *set};
    return MOTE_OK;
}

mote_status schema_number_equal(schema_compiler *c, str number, uint32_t *set)
{
    static const bool accepted[3] = {false, true, false};
    return compare(c, number, accepted, set);
}

/* ---- multiples ---- */

/* The whole part and `more` digits of the fraction to come: remainders that differ by a multiple
 * of divisor / gcd(divisor, 10^more) are alike. So many are not. */
static uint32_t remainders(uint32_t divisor, uint32_t more)
{
    for (uint32_t i = 0; i < more && (divisor % 2 == 0 || divisor % 5 == 0); i++)
        divisor /= divisor % 10 == 0 ? 10 : divisor % 2 == 0 ? 2 : 5;
    return divisor;
}

/* Rows of one place, from `row` on: digits lead to the place from `next` on, which tells n_next
 * remainders apart; behind the last place only zeros may come. */
static void put_place(table *t, uint32_t row, uint32_t n, uint32_t next, uint32_t n_next)
{
    for (uint32_t r = 0; r < n; r++)
        for (uint32_t k = 0; k < 10; k++) {
            if (next != RULES_NONE)
                t->next[row + r][DIGIT + k] = next + (r * 10 + k) % n_next;
            else if (k == 0)
                t->next[row + r][DIGIT] = row + r;
        }
}

/*
 * Rows: the start and what stands behind a minus; the remainder of the whole part; the same
 * behind a point; the remainders at each place of the fraction up to the last that the divisor
 * has.
 */
static mote_status build_multiple(schema_compiler *c, table *t, uint32_t divisor, uint32_t places)
{
    const uint32_t wholes = remainders(divisor, places), first = 2, points = first + wholes;
    for (uint32_t i = 0; i < points; i++)
        TRY(add_row(c, t, i == first, NULL));
    t->next[0][MINUS] = 1;
    for (uint32_t k = 0; k < 10; k++)
        t->next[0][DIGIT + k] = t->next[1][DIGIT + k] = first + k % wholes;
    put_place(t, first, wholes, first, wholes);
    for (uint32_t r = 0; r < wholes; r++)
        t->next[first + r][POINT] = points + r;
    uint32_t n = wholes;
    for (uint32_t place = 0; place <= places; place++) {
        const uint32_t base = t->n;
        for (uint32_t r = 0; r < n; r++)
            TRY(add_row(c, t, r == 0, NULL));
        const uint32_t n_next = place < places ? remainders(divisor, places - place - 1) : 0;
        put_place(t, base, n, place < places ? base + n : RULES_NONE, n_next);
        n = n_next;
    }
    return MOTE_OK;
}

mote_status schema_number_multiple(schema_compiler *c, const json_node *schema, str number,
                                   uint32_t *set)
{
    decimal *d = mem_new(1, sizeof *d);
    if (d == NULL)
        return schema_no_memory(c);
    uint64_t divisor = 0;
    bool fits = read_decimal(number, d) && !d->negative;
    for (uint32_t i = 0; fits && i < d->n_whole + d->n_fraction; i++) {
        const char digit = i < d->n_whole ? d->whole[i] : d->fraction[i - d->n_whole];
        divisor = divisor * 10 + (uint64_t)(digit - '0');
        fits = divisor <= MAX_REMAINDERS;
    }
    const uint32_t places = d->n_fraction;
    mem_free(d);
    if (!fits || (divisor + 1) * (places + 2) > MAX_REMAINDERS)
        return schema_unsupported(c, schema, "multipleOf", "of so many digits");
    if (divisor == 0)
        return schema_malformed(c, schema, "multipleOf");
    uint32_t texts;
    TRY(schema_number_texts(c, &texts));
    table t = {0};
    const mote_status status = build_multiple(c, &t, (uint32_t)divisor, places);
    if (status == MOTE_OK)
        return finish_table(c, &t, texts, set);
    mem_free(t.next);
    mem_free(t.accepts);
    return status;
}

/* ---- texts of numbers ---- */

static mote_status texts_of(schema_compiler *c, const char *pattern, uint32_t *known, uint32_t *set)
{
    if (*known == SCHEMA_NONE) {
        dfa texts;
        TRY(regex_compile(&texts, str_of(pattern), REGEX_SEARCH, c->fuel, c->err));
        TRY(schema_add_set(c, &texts, known));
    }
    *set = *known;
    return MOTE_OK;
}

mote_status schema_number_texts(schema_compiler *c, uint32_t *set)
{
    return texts_of(c, "^-?(?:0|[1-9][0-9]*)(?:\\.[0-9]+)?$", &c->number_texts, set);
}

mote_status schema_integer_texts(schema_compiler *c, uint32_t *set)
{
    return texts_of(c, "^-?(?:0|[1-9][0-9]*)$", &c->integer_texts, set);
}

mote_status schema_wide_integers(schema_compiler *c, uint32_t *set)
{
    return texts_of(c, "^-?(?:0|[1-9][0-9]*)(?:\\.0+)?$", &c->wide_integers, set);
}

mote_status schema_number_limit(schema_compiler *c, uint32_t set, uint32_t *out)
{
    uint32_t limits;
    *out = set;
    if (c->sets[set].texts.n > MAX_TO_LIMIT || dfa_finite(&c->sets[set].texts))
        return MOTE_OK;
    TRY(texts_of(c, "^-?(?:0|[1-9][0-9]{0,39})(?:\\.[0-9]{1,40})?$", &c->number_limits, &limits));
    return schema_both_sets(c, set, limits, out);
}
