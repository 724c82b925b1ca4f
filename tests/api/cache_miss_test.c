/* SPDX-License-Identifier: Apache-2.0 */
/* cache_miss_test.c - the kind of a difference between two prompts, from the texts around it. */
#include "server/generation/cache_miss.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void differences_are_classified(void **state)
{
    (void)state;
    static const struct {
        const char *kind;
        miss_place place;
        const char *before, *had, *got;
    } cases[] = {
        {"timestamp", MISS_IN_SYSTEM, "The time is 10:0", "1.\n", "2.\n"},
        {"timestamp", MISS_IN_SYSTEM, "Today's date: 2026-11-1", "6", "7"},
        {"timestamp", MISS_IN_SYSTEM, "It is ", "Monday, 16", "Tuesday, 17"},
        {"timestamp", MISS_IN_SYSTEM, "started 2026-11-17T02:1", "5:07Z now", "6:00Z now"},
        {"timestamp", MISS_IN_MESSAGE, "today is Nov ", "16", "17"},
        {"timestamp", MISS_IN_SYSTEM, "ts=17634", "12345 x", "99999 x"},
        {"id", MISS_IN_SYSTEM, "session ", "7f3a9c21-0b", "90ab11cd-44"},
        {"id", MISS_IN_SYSTEM, "cch=a", "1b2c3d4e5;", "9f8e7d6c5;"},
        {"number", MISS_IN_SYSTEM, "<total_tokens>1499", "9436 tokens left", "8123 tokens left"},
        {"whitespace", MISS_IN_MESSAGE, "{\"path\":", " \"src/main.c\"}", "\"src/main.c\"}"},
        {"tools", MISS_IN_TOOLS, "{\"name\": \"", "read_file", "write_file"},
        {"system", MISS_IN_SYSTEM, "You are ", "kind.", "brief."},
        {"message", MISS_IN_MESSAGE, "I like ", "owls.", "ducks."},
        {"prompt", MISS_IN_PROMPT, "Once ", "upon", "more"},
        {"timestamp", MISS_IN_SYSTEM, "am 17.11.2", "6 um", "7 um"},
        /* A word that begins like a month, a path, a version, an address. */
        {"system", MISS_IN_SYSTEM, "version 2.1.29", "6 is", "7 is"},
        {"system", MISS_IN_SYSTEM, "at 127.0.0.1:114", "34", "35"},
        {"message", MISS_IN_MESSAGE, "the ", "market", "mayor"},
        {"message", MISS_IN_MESSAGE, "open ", "src/a.c", "src/b.c"},
        {"prompt", MISS_IN_PROMPT, "", "", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const miss_difference d = {.place = cases[i].place,
                                   .before = str_of(cases[i].before),
                                   .had = str_of(cases[i].had),
                                   .got = str_of(cases[i].got)};
        const char *kind = miss_kind_name(miss_classify(&d));
        if (strcmp(kind, cases[i].kind) != 0)
            fail_msg("'%s' '%s' '%s': %s, not %s", cases[i].before, cases[i].had, cases[i].got,
                     kind, cases[i].kind);
    }
}

static void marks_of_the_prompt_come_first(void **state)
{
    (void)state;
    miss_difference d = {.place = MISS_IN_MESSAGE,
                         .before = str_of("at 10:0"),
                         .had = str_of("1"),
                         .got = str_of("2"),
                         .thinking = true};
    assert_int_equal(miss_classify(&d), MISS_THINKING);
    d.image = true;
    assert_int_equal(miss_classify(&d), MISS_IMAGE);
    d = (miss_difference){.place = MISS_IN_MESSAGE,
                          .before = str_of("<parameter=path>"),
                          .had = str_of("a b"),
                          .got = str_of("c d"),
                          .call = true};
    assert_int_equal(miss_classify(&d), MISS_CALL);
    for (miss_kind kind = MISS_IMAGE; kind <= MISS_PROMPT; kind++)
        assert_true(strlen(miss_advice(kind)) > 20 && strchr(miss_advice(kind), ':') != NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(differences_are_classified),
        cmocka_unit_test(marks_of_the_prompt_come_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
