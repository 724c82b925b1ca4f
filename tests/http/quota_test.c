/* SPDX-License-Identifier: Apache-2.0 */
/* quota_test.c - rate limits with a simulated clock: one millisecond before, at and after. */
#include "server/auth/quota.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static quota limited(const char *words, uint64_t now)
{
    quota q = {0};
    str rest = str_of(words);
    while (rest.n > 0) {
        const char *blank = memchr(rest.p, ' ', rest.n);
        const size_t n = blank != NULL ? (size_t)(blank - rest.p) : rest.n;
        assert_true(quota_read(&q, (str){rest.p, n}));
        rest = blank != NULL ? (str){blank + 1, rest.n - n - 1} : (str){"", 0};
    }
    quota_start(&q, now);
    return q;
}

/* Refused by this limit with this wait; admitted after the wait, and not one millisecond earlier.
 * The quota is not changed. */
static void waits(const quota *before, uint64_t now, quota_kind for_what, uint64_t milliseconds)
{
    quota_kind why = QUOTA_KINDS;
    uint64_t wait = UINT64_MAX;
    quota q = *before;
    assert_false(quota_begin(&q, now, &why, &wait));
    assert_int_equal(why, for_what);
    assert_int_equal(wait, milliseconds);
    assert_int_equal(q.refused[for_what], before->refused[for_what] + 1);
    assert_int_equal(q.requests, before->requests);
    if (milliseconds > 1)
        assert_false(quota_begin(&q, now + milliseconds - 1, &why, &wait));
    quota at = q, after = q;
    assert_true(quota_begin(&at, now + milliseconds, &why, &wait));
    assert_true(quota_begin(&after, now + milliseconds + 1, &why, &wait));
}

static void comes(quota *q, uint64_t now)
{
    quota_kind why;
    uint64_t wait;
    assert_true(quota_begin(q, now, &why, &wait));
}

static void served(quota *q, uint64_t now, uint64_t tokens)
{
    comes(q, now);
    quota_end(q, now, tokens);
}

static void test_requests(void **state)
{
    (void)state;
    quota q = limited("rpm=3", 1000);
    for (int i = 0; i < 3; i++)
        served(&q, 1000, 0);
    waits(&q, 1000, QUOTA_REQUESTS, 20000);
    waits(&q, 1001, QUOTA_REQUESTS, 19999);
    waits(&q, 20999, QUOTA_REQUESTS, 1);
    served(&q, 21000, 0);
    waits(&q, 21000, QUOTA_REQUESTS, 20000);
    /* after a long idle time the bucket holds one minute only */
    for (int i = 0; i < 3; i++)
        served(&q, 100000000, 0);
    waits(&q, 100000000, QUOTA_REQUESTS, 20000);
    assert_int_equal(q.requests, 7);
}

/* 60,000 / 7 is not an integer: the wait is rounded up, and the fraction is not lost. */
static void test_parts(void **state)
{
    (void)state;
    quota q = limited("rpm=7", 0);
    for (int i = 0; i < 7; i++)
        served(&q, 0, 0);
    waits(&q, 0, QUOTA_REQUESTS, 8572);
    uint64_t now = 0;
    for (int i = 0; i < 7; i++) {
        quota_kind why;
        uint64_t wait = 0;
        if (!quota_begin(&q, now, &why, &wait)) {
            now += wait;
            comes(&q, now);
        }
        quota_end(&q, now, 0);
    }
    assert_int_equal(now, 60000);
}

static void test_tokens(void **state)
{
    (void)state;
    quota q = limited("tpm=600", 0); /* one per 100 ms */
    served(&q, 0, 599);
    comes(&q, 0); /* one token is enough to begin */
    assert_int_equal(quota_left(&q, QUOTA_TOKENS, 0), 1);
    quota_end(&q, 0, 1);
    waits(&q, 0, QUOTA_TOKENS, 100);
    served(&q, 100, 1001); /* charged at the end */
    assert_int_equal(quota_left(&q, QUOTA_TOKENS, 100), -1000);
    waits(&q, 100, QUOTA_TOKENS, 100100);
    assert_int_equal(quota_left(&q, QUOTA_TOKENS, 100100), 0);
    served(&q, 100200, 0);
    assert_int_equal(q.tokens, 599 + 1 + 1001);
}

static void test_at_once(void **state)
{
    (void)state;
    quota_kind why;
    uint64_t wait;
    quota q = limited("par=2", 0);
    comes(&q, 0);
    comes(&q, 0);
    assert_false(quota_begin(&q, 0, &why, &wait));
    assert_int_equal(why, QUOTA_PARALLEL);
    assert_int_equal(wait, 0); /* unknown */
    quota_end(&q, 0, 1000);
    comes(&q, 0);
    assert_int_equal(q.running, 2);
}

static void test_together(void **state)
{
    (void)state;
    quota q = limited("par=1 tpm=60 rpm=60", 5);
    served(&q, 5, 100);
    waits(&q, 5, QUOTA_TOKENS, 41000); /* the longer wait counts */
    quota none = {0};
    quota_start(&none, 0);
    for (int i = 0; i < 1000; i++)
        served(&none, 0, 1000000);
    assert_int_equal(none.tokens, UINT64_C(1000000000));
}

static void test_absurd(void **state)
{
    (void)state;
    quota q = limited("tpm=1000000000 rpm=1000000000", 0);
    served(&q, 0, UINT64_MAX / 2);
    assert_int_equal(quota_left(&q, QUOTA_TOKENS, 0), 0);
    waits(&q, 0, QUOTA_TOKENS, 1);
    quota slow = limited("tpm=1", 0);
    served(&slow, 0, UINT64_MAX);
    waits(&slow, 0, QUOTA_TOKENS, UINT64_C(1000000000) * 60000);
    comes(&slow, UINT64_MAX);
}

static void test_words(void **state)
{
    (void)state;
    static const char *const wrong[] = {"rpm",
                                        "rpm=",
                                        "rpm=0",
                                        "rpm=-1",
                                        "rpm=1.5",
                                        "rpm=1k",
                                        "RPM=1",
                                        "tpm=+1",
                                        "par==1",
                                        "xpm=1",
                                        "=1",
                                        "rpm =1",
                                        "rpm=1000000001",
                                        "rpm=99999999999999999999999999"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        quota q = {0};
        assert_false(quota_read(&q, str_of(wrong[i])));
    }
    quota q = {0};
    assert_true(quota_read(&q, str_of("rpm=1000000000")));
    assert_false(quota_read(&q, str_of("rpm=1")));
    assert_true(quota_read(&q, str_of("par=1")));
    assert_int_equal(q.most[QUOTA_REQUESTS], 1000000000);
    assert_int_equal(q.most[QUOTA_PARALLEL], 1);
    assert_int_equal(q.most[QUOTA_TOKENS], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests), cmocka_unit_test(test_parts),
        cmocka_unit_test(test_tokens),   cmocka_unit_test(test_at_once),
        cmocka_unit_test(test_together), cmocka_unit_test(test_absurd),
        cmocka_unit_test(test_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
