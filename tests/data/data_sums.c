/* SPDX-License-Identifier: Apache-2.0 */
/* data_sums.c - checks the unpacked test data against SHA256SUMS. */
#include "support/data.h"
#include "support/sha256.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void known_digests(void **state)
{
    (void)state;
    static const struct {
        const char *text, *hex;
    } known[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    };
    for (int i = 0; i < 3; i++) {
        test_sha256 s;
        char hex[65];
        test_sha256_begin(&s);
        test_sha256_add(&s, known[i].text, strlen(known[i].text));
        test_sha256_end(&s, hex);
        assert_string_equal(hex, known[i].hex);
    }
}

static void file_digest(const char *path, char hex[65])
{
    size_t n;
    unsigned char *bytes = test_file_read(path, &n);
    if (bytes == NULL)
        fail_msg("cannot read %s", path);
    test_sha256 s;
    test_sha256_begin(&s);
    test_sha256_add(&s, bytes, n);
    test_sha256_end(&s, hex);
    free(bytes);
}

static void files_match_sha256sums(void **state)
{
    (void)state;
    char wanted[65], name[256], path[TEST_PATH], got[65];
    int n = 0;
    FILE *list = fopen(MOTE_TEST_SOURCE "/data/SHA256SUMS", "r");
    assert_non_null(list);
    for (; fscanf(list, "%64s %255s", wanted, name) == 2; n++) {
        if (!test_data_path(path, name))
            fail_msg("%s is missing", name);
        file_digest(path, got);
        if (strcmp(got, wanted) != 0)
            fail_msg("%s is damaged: configure again in an empty build directory", name);
    }
    fclose(list);
    assert_true(n > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_digests),
        cmocka_unit_test(files_match_sha256sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
