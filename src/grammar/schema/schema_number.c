/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schema_number.c - numeric constraints as DFAs over decimal digits, without floating point.
 *
 * A bound is a DFA that compares digit by digit. Its state is the number of integer digits so far
 * and whether they are less than, equal to or greater than those of the bound; then the same for
 * the fraction. multipleOf is a DFA over remainders. These DFAs accept any number of digits,
 * which keeps them small. schema_number_limit adds the limit when the number is written.
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
    MAX_TO_LIMIT = 40 /* states of a DFA that gets a digit limit, which multiplies its states */
};

/* A number without exponent: integer part without leading zeros (at least "0"), fraction without
 * trailing zeros. */
typedef struct decimal {
    char whole[MAX_DIGITS + 1], fraction[MAX_DIGITS + 1];
    uint32_t n_whole, n_fraction;
    bool negative;
} decimal;

static bool decimal_is_zero(const decimal *d)
{
    return d->n_fraction == 0 && d->n_whole == 1 && d->whole[0] == '0';
}

/* Splits a JSON number into its significant digits and a power of ten. False: more than MAX_DIGITS
 * digits. */
static bool decimal_digits(str text, char digits[MAX_DIGITS], uint32_t *n, int64_t *power)
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

/* False: the integer part or the fraction has more than MAX_DIGITS digits. */
static bool decimal_read(str text, decimal *d)
{
    char digits[MAX_DIGITS];
    uint32_t n;
    int64_t power;
    *d = (decimal){.negative = text.n > 0 && text.p[0] == '-'};
    if (!decimal_digits(text, digits, &n, &power))
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
    d->negative = d->negative && !decimal_is_zero(d);
    return true;
}

static mote_status decimal_read_bound(schema_compiler *c, str text, decimal *d)
{
    if (!decimal_read(text, d))
        return err_set(c->err, MOTE_E_ARG, "schema: number %.*s has more than %d digits",
                       STR_ARG(text), MAX_DIGITS);
    return MOTE_OK;
}

mote_status schema_number_plain(schema_compiler *c, str number, strbuf *out)
{
    decimal *d = mem_new(1, sizeof *d);
    if (d == NULL)
        return schema_no_memory(c);
    if (!decimal_read(number, d) || d->n_whole + d->n_fraction > 2 * JSON_RULES_DIGITS) {
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

/* ---- transition tables over '-', '.' and digits ---- */

typedef struct digit_table {
    uint32_t (*next)[SYMBOLS]; /* '-', '.', '0' to '9'; RULES_NONE: no transition */
    bool *accepts;
    uint32_t n, room, accepts_room;
} digit_table;

enum { MINUS = 0, POINT = 1, DIGIT = 2 };

static mote_status table_add_row(schema_compiler *c, digit_table *t, bool accepts, uint32_t *out)
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

static void table_set_digits(digit_table *t, uint32_t row, uint32_t to)
{
    for (int d = 0; d < 10; d++)
        t->next[row][DIGIT + d] = to;
}

static mote_status table_to_dfa(schema_compiler *c, const digit_table *t, dfa *set)
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

/* The table as a DFA, intersected with `texts`. Frees the table. */
static mote_status table_finish(schema_compiler *c, digit_table *t, uint32_t texts, uint32_t *out)
{
    dfa set = {0};
    mote_status status = table_to_dfa(c, t, &set);
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

/* ---- comparison with a bound ---- */

/* How the number compares with the bound. */
typedef enum order { LESS, EQUAL, MORE } order;

typedef struct comparison {
    schema_compiler *c;
    digit_table t;
    const decimal *d; /* only its magnitude is compared */
    bool accept[3];   /* which orders of the magnitudes are accepted */
} comparison;

/* Rows for a decided comparison: further digits and a fraction change nothing. */
static mote_status decided_rows(comparison *x, order o, uint32_t *whole, uint32_t *fraction)
{
    uint32_t point;
    TRY(table_add_row(x->c, &x->t, x->accept[o], whole));
    TRY(table_add_row(x->c, &x->t, false, &point));
    TRY(table_add_row(x->c, &x->t, x->accept[o], fraction));
    table_set_digits(&x->t, *whole, *whole);
    x->t.next[*whole][POINT] = point;
    table_set_digits(&x->t, point, *fraction);
    table_set_digits(&x->t, *fraction, *fraction);
    return MOTE_OK;
}

/* Rows that compare the fraction after an equal integer part. *row is the row at the end of
 * the integer part; the caller fills its digits. */
static mote_status fraction_rows(comparison *x, const uint32_t fraction_of[3], uint32_t *row)
{
    const decimal *d = x->d;
    TRY(table_add_row(x->c, &x->t, x->accept[d->n_fraction > 0 ? LESS : EQUAL], row));
    uint32_t at;
    TRY(table_add_row(x->c, &x->t, false, &at));
    x->t.next[*row][POINT] = at;
    for (uint32_t i = 0; i <= d->n_fraction; i++) {
        const bool done = i == d->n_fraction;
        const int digit = done ? 0 : d->fraction[i] - '0';
        uint32_t same = at;
        if (!done)
            TRY(table_add_row(x->c, &x->t, x->accept[i + 1 < d->n_fraction ? LESS : EQUAL], &same));
        else if (d->n_fraction == 0)
            TRY(table_add_row(x->c, &x->t, x->accept[EQUAL], &same));
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
 * Rows for the integer part: after i digits, less than, equal to or greater than the first i digits
 * of the bound. A number with fewer integer digits than the bound is less, one with more is
 * greater.
 */
static mote_status whole_rows(comparison *x, uint32_t start)
{
    const uint32_t n = x->d->n_whole;
    uint32_t whole_of[3], fraction_of[3], rows[3] = {RULES_NONE, start, RULES_NONE};
    TRY(decided_rows(x, LESS, &whole_of[LESS], &fraction_of[LESS]));
    TRY(decided_rows(x, MORE, &whole_of[MORE], &fraction_of[MORE]));
    uint32_t less_point, equal_end;
    TRY(table_add_row(x->c, &x->t, false, &less_point));
    table_set_digits(&x->t, less_point, fraction_of[LESS]);
    TRY(fraction_rows(x, fraction_of, &equal_end));
    for (uint32_t i = 0; i < n; i++) {
        const bool last = i + 1 == n;
        const int digit = x->d->whole[i] - '0';
        uint32_t next[3];
        for (int o = LESS; o <= MORE; o++) {
            if (last && o == EQUAL) {
                next[o] = equal_end;
                continue;
            }
            TRY(table_add_row(x->c, &x->t, x->accept[last ? o : LESS], &next[o]));
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
    /* More digits than the bound. */
    for (int o = LESS; o <= MORE; o++)
        table_set_digits(&x->t, rows[o], whole_of[MORE]);
    return MOTE_OK;
}

/* Rows for any number; `zero` and `other`: are zero and other numbers accepted? */
static mote_status sign_rows(schema_compiler *c, digit_table *t, uint32_t start, bool zero,
                             bool other)
{
    uint32_t zeros = 0, point = 0, zero_fraction = 0;
    uint32_t others, other_point, other_fraction;
    TRY(table_add_row(c, t, zero, &zeros));
    TRY(table_add_row(c, t, false, &point));
    TRY(table_add_row(c, t, zero, &zero_fraction));
    TRY(table_add_row(c, t, other, &others));
    TRY(table_add_row(c, t, false, &other_point));
    TRY(table_add_row(c, t, other, &other_fraction));
    const uint32_t from[] = {start, zeros, point, zero_fraction};
    for (int i = 0; i < 4; i++) {
        table_set_digits(t, from[i], i < 2 ? others : other_fraction);
        t->next[from[i]][DIGIT] = i < 2 ? zeros : zero_fraction;
    }
    t->next[zeros][POINT] = point;
    table_set_digits(t, others, others);
    t->next[others][POINT] = other_point;
    table_set_digits(t, other_point, other_fraction);
    table_set_digits(t, other_fraction, other_fraction);
    return MOTE_OK;
}

/* accept: which orders of the number relative to the bound are accepted. */
static mote_status build_comparison(comparison *x, const bool accept[3])
{
    uint32_t start, negative;
    TRY(table_add_row(x->c, &x->t, false, &start));
    TRY(table_add_row(x->c, &x->t, false, &negative));
    x->t.next[start][MINUS] = negative;
    if (x->d->negative) { /* a greater magnitude is a lesser number */
        TRY(sign_rows(x->c, &x->t, start, accept[MORE], accept[MORE]));
        x->accept[LESS] = accept[MORE];
        x->accept[EQUAL] = accept[EQUAL];
        x->accept[MORE] = accept[LESS];
        return whole_rows(x, negative);
    }
    TRY(sign_rows(x->c, &x->t, negative, accept[decimal_is_zero(x->d) ? EQUAL : LESS],
                  accept[LESS]));
    memcpy(x->accept, accept, sizeof x->accept);
    return whole_rows(x, start);
}

static mote_status comparison_set(schema_compiler *c, str number, const bool accept[3],
                                  uint32_t *set)
{
    uint32_t texts;
    TRY(schema_number_texts(c, &texts));
    decimal *d = mem_new(1, sizeof *d);
    if (d == NULL)
        return schema_no_memory(c);
    comparison x = {.c = c, .d = d};
    mote_status status = decimal_read_bound(c, number, d);
    if (status == MOTE_OK)
        status = build_comparison(&x, accept);
    mem_free(d);
    if (status == MOTE_OK)
        return table_finish(c, &x.t, texts, set);
    mem_free(x.t.next);
    mem_free(x.t.accepts);
    return status;
}

/* Cached: many members of a schema have the same bounds. */
mote_status schema_number_bound(schema_compiler *c, str number, number_bound bound, uint32_t *set)
{
    static const bool accepted[][3] = {
        {false, true, true}, {false, false, true}, {true, true, false}, {true, false, false}};
    for (uint32_t i = 0; i < c->n_bounds; i++)
        if (c->bounds[i].bound == bound && str_eq(c->bounds[i].number, number)) {
            *set = c->bounds[i].set;
            return MOTE_OK;
        }
    TRY(comparison_set(c, number, accepted[bound], set));
    if (!mem_grow(&c->bounds, c->n_bounds, &c->bounds_room, sizeof *c->bounds))
        return schema_no_memory(c);
    c->bounds[c->n_bounds++] = (schema_bound){number, bound, *set};
    return MOTE_OK;
}

mote_status schema_number_equal(schema_compiler *c, str number, uint32_t *set)
{
    static const bool accepted[3] = {false, true, false};
    return comparison_set(c, number, accepted, set);
}

/* ---- multiples ---- */

/* The number of remainders that must be distinguished when `more` digits are to come:
 * remainders that differ by a multiple of divisor / gcd(divisor, 10^more) are equivalent. */
static uint32_t count_remainders(uint32_t divisor, uint32_t more)
{
    for (uint32_t i = 0; i < more && (divisor % 2 == 0 || divisor % 5 == 0); i++)
        divisor /= divisor % 10 == 0 ? 10 : divisor % 2 == 0 ? 2 : 5;
    return divisor;
}

/* Fills the n rows of one decimal place, from `row` on. Digits lead to the rows of the next place,
 * from `next` on, which has n_next remainders. After the last place only zeros may follow. */
static void fill_place(digit_table *t, uint32_t row, uint32_t n, uint32_t next, uint32_t n_next)
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
 * Rows: the start; after a minus; the remainders of the integer part; the same after a point;
 * the remainders at each place of the fraction, up to the last place of the divisor.
 */
static mote_status build_multiple(schema_compiler *c, digit_table *t, uint32_t divisor,
                                  uint32_t places)
{
    const uint32_t wholes = count_remainders(divisor, places), first = 2, points = first + wholes;
    for (uint32_t i = 0; i < points; i++)
        TRY(table_add_row(c, t, i == first, NULL));
    t->next[0][MINUS] = 1;
    for (uint32_t k = 0; k < 10; k++)
        t->next[0][DIGIT + k] = t->next[1][DIGIT + k] = first + k % wholes;
    fill_place(t, first, wholes, first, wholes);
    for (uint32_t r = 0; r < wholes; r++)
        t->next[first + r][POINT] = points + r;
    uint32_t n = wholes;
    for (uint32_t place = 0; place <= places; place++) {
        const uint32_t base = t->n;
        for (uint32_t r = 0; r < n; r++)
            TRY(table_add_row(c, t, r == 0, NULL));
        const uint32_t n_next = place < places ? count_remainders(divisor, places - place - 1) : 0;
        fill_place(t, base, n, place < places ? base + n : RULES_NONE, n_next);
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
    bool fits = decimal_read(number, d) && !d->negative;
    for (uint32_t i = 0; fits && i < d->n_whole + d->n_fraction; i++) {
        const char digit = i < d->n_whole ? d->whole[i] : d->fraction[i - d->n_whole];
        divisor = divisor * 10 + (uint64_t)(digit - '0');
        fits = divisor <= MAX_REMAINDERS;
    }
    const uint32_t places = d->n_fraction;
    mem_free(d);
    if (!fits || (divisor + 1) * (places + 2) > MAX_REMAINDERS)
        return schema_unsupported(c, schema, "multipleOf", "too many digits");
    if (divisor == 0)
        return schema_invalid(c, schema, "multipleOf");
    uint32_t texts;
    TRY(schema_number_texts(c, &texts));
    digit_table t = {0};
    const mote_status status = build_multiple(c, &t, (uint32_t)divisor, places);
    if (status == MOTE_OK)
        return table_finish(c, &t, texts, set);
    mem_free(t.next);
    mem_free(t.accepts);
    return status;
}

/* ---- texts of numbers ---- */

/* The DFA of a pattern, cached in *known. */
static mote_status number_pattern(schema_compiler *c, const char *pattern, uint32_t *known,
                                  uint32_t *set)
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
    return number_pattern(c, "^-?(?:0|[1-9][0-9]*)(?:\\.[0-9]+)?$", &c->number_texts, set);
}

mote_status schema_integer_texts(schema_compiler *c, uint32_t *set)
{
    return number_pattern(c, "^-?(?:0|[1-9][0-9]*)$", &c->integer_texts, set);
}

mote_status schema_wide_integers(schema_compiler *c, uint32_t *set)
{
    return number_pattern(c, "^-?(?:0|[1-9][0-9]*)(?:\\.0+)?$", &c->wide_integers, set);
}

mote_status schema_number_limit(schema_compiler *c, uint32_t set, uint32_t *out)
{
    uint32_t limits;
    *out = set;
    if (c->sets[set].texts.n > MAX_TO_LIMIT || dfa_finite(&c->sets[set].texts))
        return MOTE_OK;
    TRY(number_pattern(c, "^-?(?:0|[1-9][0-9]{0,39})(?:\\.[0-9]{1,40})?$", &c->number_limits,
                       &limits));
    return schema_intersect_sets(c, set, limits, out);
}
