/* SPDX-License-Identifier: Apache-2.0 */
/* evaluate_test.c - statistics of rows of logits, with values computed by hand; checks of answers. */
#include "cli/evaluate/eval_check.h"
#include "cli/evaluate/logit_stats.h"
#include "cli/evaluate/text_windows.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-12 * (fabs(a) + fabs(b)) + 1e-300;
}

static void test_rows(void **state)
{
    (void)state;
    /* exp: 1, 2, 4, 1 of 8. */
    const float p[] = {0, 0.6931471805599453f, 1.3862943611198906f, 0};
    const float q[] = {1, 1, 1, 1};
    const double zp = logit_log_sum(p, 4), zq = logit_log_sum(q, 4);
    assert_true(fabs(zp - log(8)) < 1e-7);
    assert_true(near(zq, 1 + log(4)));
    assert_true(logit_top(p, 4) == 2 && logit_top(q, 4) == 0);
    assert_true(logit_divergence(p, zp, p, zp, 4) == 0);
    /* log 4 minus the entropy of (1, 2, 4, 1) / 8, which is 1.75 bits. */
    assert_true(fabs(logit_divergence(p, zp, q, zq, 4) - 0.25 * log(2)) < 1e-7);
    /* Large logits do not overflow. */
    const float large[] = {1000, 1000};
    assert_true(near(logit_log_sum(large, 2), 1000 + log(2)));
}

static void test_means(void **state)
{
    (void)state;
    const double v[] = {1, 2, 3, 6};
    const stat_mean m = stat_mean_of(v, 4);
    assert_true(m.mean == 3 && near(m.error, sqrt(14.0 / 3 / 4)));
    assert_true(stat_mean_of(v, 1).mean == 1 && stat_mean_of(v, 1).error == 0);
    assert_true(stat_mean_of(v, 0).mean == 0);
    const stat_mean s = stat_share_of(3, 4);
    assert_true(s.mean == 0.75 && near(s.error, 0.25));
    assert_true(stat_share_of(0, 0).mean == 0 && stat_share_of(1, 1).error == 0);
}

static void test_quantiles(void **state)
{
    (void)state;
    double v[1000];
    for (int i = 0; i < 1000; i++)
        v[i] = (i * 619) % 1000 + 1; /* 1 to 1000 in another order */
    stat_sort(v, 1000);
    assert_true(v[0] == 1 && v[999] == 1000);
    assert_true(stat_quantile(v, 1000, 0.5).mean == 500);
    /* Ranks 500 +- 15.8: the values 516 and 485. */
    assert_true(stat_quantile(v, 1000, 0.5).error == 15.5);
    assert_true(stat_quantile(v, 1000, 0.999).mean == 999);
    assert_true(stat_quantile(v, 1, 0.5).mean == 1 && stat_quantile(v, 1, 0.999).error == 0);
    assert_true(stat_quantile(v, 3, 0.5).mean == 2);
}

/* ---- checks of answers ---- */

typedef struct check_case {
    const char *check, *content;
    bool pass;
    const char *calls[4]; /* name, arguments, name, arguments */
} check_case;

#define SCHEMA(body) "{'type':'json_schema','schema':{" body "}}"

static const check_case check_cases[] = {
    {"{'type':'exact','text':'The owl.'}", " The owl.\n", true, {0}},
    {"{'type':'exact','text':'The owl.'}", "The owl", false, {0}},
    {"{'type':'contains','text':'owl'}", "The owl.", true, {0}},
    {"{'type':'contains','text':'owl'}", "The ow", false, {0}},
    {"{'type':'contains','text':''}", "", true, {0}},
    {"{'type':'regex','pattern':'^\\\\d+ (cats|dogs)$'}", "12 dogs", true, {0}},
    {"{'type':'regex','pattern':'^\\\\d+ (cats|dogs)$'}", "12 dogs.", false, {0}},
    {"{'type':'regex','pattern':'dogs'}", "12 dogs.", true, {0}},
    {"{'type':'choice','choices':['a','b'],'answer':'b'}", "b", true, {0}},
    {"{'type':'choice','choices':['a','b'],'answer':'b'}", "a", false, {0}},
    {"{'type':'json','value':{'x':1,'y':[true,null]}}", "{'y':[true,null],'x':1.0}", true, {0}},
    {"{'type':'json','value':{'x':1,'y':[true,null]}}", "{'y':[null,true],'x':1}", false, {0}},
    {"{'type':'json','value':{'x':1}}", "{'x':1,'y':2}", false, {0}},
    {"{'type':'json','value':{'x':1}}", "{'z':1}", false, {0}},
    {"{'type':'json','value':{'x':1}}", "{'x':1", false, {0}},
    {"{'type':'json','value':'1'}", "1", false, {0}},
    {SCHEMA("'type':'object','required':['a']"), "{'a':1}", true, {0}},
    {SCHEMA("'type':'object','required':['a']"), "{'b':1}", false, {0}},
    {SCHEMA("'type':'object','required':['a']"), "[]", false, {0}},
    {SCHEMA("'properties':{'a':{'type':'integer'}}"), "{'a':1}", true, {0}},
    {SCHEMA("'properties':{'a':{'type':'integer'}}"), "{'a':1.5}", false, {0}},
    {SCHEMA("'properties':{'a':{}},'additionalProperties':false"), "{'b':1}", false, {0}},
    {SCHEMA("'type':['string','null']"), "null", true, {0}},
    {SCHEMA("'type':['string','null']"), "false", false, {0}},
    {SCHEMA("'enum':[1,'a']"), "'a'", true, {0}},
    {SCHEMA("'enum':[1,'a']"), "2", false, {0}},
    {SCHEMA("'const':3"), "4", false, {0}},
    {SCHEMA("'minimum':1,'maximum':5"), "5", true, {0}},
    {SCHEMA("'minimum':1,'maximum':5"), "6", false, {0}},
    {SCHEMA("'minimum':1,'maximum':5"), "0.5", false, {0}},
    {SCHEMA("'items':{'type':'boolean'},'minItems':1"), "[true]", true, {0}},
    {SCHEMA("'items':{'type':'boolean'},'minItems':1"), "[true,1]", false, {0}},
    {SCHEMA("'items':{'type':'boolean'},'minItems':1"), "[]", false, {0}},
    {SCHEMA("'maxItems':1"), "[1,2]", false, {0}},
    {"{'type':'tool','calls':[]}", "text", true, {0}},
    {"{'type':'tool','calls':[]}", "", false, {"f", "{}"}},
    {"{'type':'tool','calls':[{'name':'f'}]}", "", true, {"f", "{'a':1}"}},
    {"{'type':'tool','calls':[{'name':'f'}]}", "", false, {"g", "{}"}},
    {"{'type':'tool','calls':[{'name':'f'}]}", "", false, {0}},
    {"{'type':'tool','calls':[{'name':'f','arguments':{'a':1}}]}", "", true, {"f", "{'a':1}"}},
    {"{'type':'tool','calls':[{'name':'f','arguments':{'a':1}}]}", "", false, {"f", "{'a':2}"}},
    {"{'type':'tool','calls':[{'name':'f'},{'name':'g'}]}", "", true, {"f", "{}", "g", "{}"}},
    {"{'type':'tool','calls':[{'name':'f'},{'name':'g'}]}", "", false, {"g", "{}", "f", "{}"}},
};

/* The text with " for '. */
static void put_quoted(strbuf *out, const char *text)
{
    for (; *text != '\0'; text++)
        strbuf_byte(out, *text == '\'' ? '"' : *text);
}

static mote_status read_check(json_doc **doc, const char *text, mote_error *err)
{
    strbuf check = {0};
    put_quoted(&check, text);
    assert_int_equal(json_doc_read(doc, strbuf_view(&check), err), MOTE_OK);
    strbuf_fini(&check);
    return eval_check_valid(json_doc_root(*doc), err);
}

static void test_checks(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof check_cases / sizeof *check_cases; i++) {
        const check_case *c = &check_cases[i];
        eval_answer a = {0};
        json_doc *doc;
        mote_error err = {0};
        put_quoted(&a.content, c->content);
        for (size_t k = 0; k < 4 && c->calls[k] != NULL; k += 2) {
            put_quoted(&a.calls[a.n_calls].name, c->calls[k]);
            put_quoted(&a.calls[a.n_calls++].arguments, c->calls[k + 1]);
        }
        if (read_check(&doc, c->check, &err) != MOTE_OK)
            fail_msg("%s: %s", c->check, err.text);
        if (eval_check_passes(json_doc_root(doc), &a) != c->pass)
            fail_msg("%s: %s", c->check, c->content);
        json_doc_free(doc);
        eval_answer_fini(&a);
    }
}

static void test_invalid_checks(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "{}",
        "[]",
        "{'type':'near','text':'a'}",
        "{'type':'exact'}",
        "{'type':'exact','text':1}",
        "{'type':'regex','pattern':'('}",
        "{'type':'choice','answer':'a'}",
        "{'type':'choice','answer':'a','choices':['b']}",
        "{'type':'tool','calls':[{'arguments':{}}]}",
        "{'type':'json_schema','schema':[]}",
        "{'type':'json_schema','schema':{'oneOf':[]}}",
        "{'type':'json_schema','schema':{'properties':{'a':{'pattern':'x'}}}}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        json_doc *doc;
        mote_error err = {0};
        if (read_check(&doc, bad[i], &err) == MOTE_OK || err.text[0] == '\0')
            fail_msg("accepted: %s", bad[i]);
        json_doc_free(doc);
    }
}

/* WINDOW_LOAD_FLAG_GROUP leaves out the first flag. */
static void test_window_flags(void **state)
{
    (void)state;
    assert_string_equal(load_flags[0].name, "context");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),           cmocka_unit_test(test_means),
        cmocka_unit_test(test_quantiles),      cmocka_unit_test(test_checks),
        cmocka_unit_test(test_invalid_checks), cmocka_unit_test(test_window_flags),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
