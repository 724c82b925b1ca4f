/* SPDX-License-Identifier: Apache-2.0 */
/* parts_test.c - header fields, URLs, private addresses and the record of ranges of mote-pull. */
#include "pull/pull_int.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

/* pull_main.c, which defines it, is not linked. */
volatile sig_atomic_t pull_signal;

static void content_range(void **state)
{
    static const char *const wrong[] = {"",
                                        "bytes",
                                        "bytes 0-9",
                                        "bytes 0-9/*",
                                        "bytes 9-0/10",
                                        "bytes 0-10/10",
                                        "bytes -1-2/10",
                                        "items 0-9/10",
                                        "bytes 0-9/10x",
                                        "bytes 0-9/99999999999999999999",
                                        "bytes 0 -9/10"};
    hub_content_range r;
    (void)state;
    assert_true(hub_content_range_read("bytes 5-9/4294967306", &r));
    assert_true(r.first == 5 && r.last == 9 && r.total == 4294967306u);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(hub_content_range_read(wrong[i], &r));
}

static void etags(void **state)
{
    static const char good[] = "57d1997700000000000000000000000000000000000000000000000000000000";
    static const char *const wrong[] = {"", "\"\"", "\"../../x\"", "\"abc\"",
                                        "57D1997700000000000000000000000000000000"};
    char text[128], hash[HUB_HASH_BYTES];
    (void)state;
    snprintf(text, sizeof text, "W/\"%s\"", good);
    assert_true(hub_etag_hash(text, hash));
    assert_string_equal(hash, good);
    assert_true(hub_etag_hash(good + 24, hash)); /* 40 digits: a git blob id */
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(hub_etag_hash(wrong[i], hash));
}

static void headers(void **state)
{
    static hub_headers h;
    (void)state;
    assert_true(hub_headers_add(&h, str_of("HTTP/1.1 302 Found\r\n")));
    assert_true(hub_headers_add(&h, str_of("X-Linked-ETag:  \"a\" \r\n")));
    assert_true(hub_headers_add(&h, str_of("Location: /a\r\n")));
    assert_string_equal(hub_headers_get(&h, HUB_LINKED_ETAG), "\"a\"");
    assert_string_equal(hub_headers_get(&h, HUB_LOCATION), "/a");
    assert_true(hub_headers_add(&h, str_of("location: /b\r\n")));
    assert_string_equal(hub_headers_get(&h, HUB_LOCATION), ""); /* two of them: none is used */
    bool more = true;
    for (int i = 0; more && i < 100000; i++)
        more = hub_headers_add(&h, str_of("HTTP/1.1 100 Continue\r\n"));
    assert_false(more);
}

static void redirects(void **state)
{
    static const char *const wrong[] = {"",
                                        "http://a.example/x",
                                        "file:///etc/passwd",
                                        "ftp://a.example/x",
                                        "https:"
                                        "//user:word@a.example/",
                                        "https://a.example/ b",
                                        "https:"
                                        "//user@a.example/"};
    static hub_url hub, to;
    mote_error err;
    (void)state;
    assert_int_equal(hub_url_parse(&hub, "https://hub.example:8443/a/b", &err), MOTE_OK);
    assert_int_equal(hub_url_follow(&to, &hub, "/c?etag=1", &err), MOTE_OK);
    assert_string_equal(to.text, "https://hub.example:8443/c?etag=1");
    assert_true(hub_url_is_hub(&to, &hub));
    assert_int_equal(hub_url_follow(&to, &hub, "https://HUB.example:8444/", &err), MOTE_OK);
    assert_false(hub_url_is_hub(&to, &hub)); /* another port is another origin */
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_not_equal(hub_url_follow(&to, &hub, wrong[i], &err), MOTE_OK);
}

static void token_hosts(void **state)
{
    static const struct {
        const char *url, *endpoint;
        bool gets_token;
    } rows[] = {{"https://huggingface.co/a", "https://huggingface.co", true},
                {"https:"
                 "//hf.co/a",
                 "https://huggingface.co", true},
                {"https:"
                 "//huggingface.co:444/a",
                 "https://huggingface.co", false},
                {"https:"
                 "//cdn.huggingface.co/a",
                 "https://huggingface.co", false},
                {"https:"
                 "//huggingface.co.example/a",
                 "https://huggingface.co", false},
                {"https://mirror.example/a", "https://mirror.example", true},
                {"https://mirror.example/a", "https://huggingface.co", false},
                /* A mirror may redirect to the hub. The token is for the mirror. */
                {"https://huggingface.co/a", "https://mirror.example", false}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        static hub_url url, endpoint;
        mote_error err;
        assert_int_equal(hub_url_parse(&url, rows[i].url, &err), MOTE_OK);
        assert_int_equal(hub_url_parse(&endpoint, rows[i].endpoint, &err), MOTE_OK);
        assert_int_equal(hub_url_gets_token(&url, &endpoint), rows[i].gets_token);
    }
}

static void addresses(void **state)
{
    static const struct {
        const char *text;
        bool is_private;
    } rows[] = {{"127.0.0.1", true},
                {"10.1.2.3", true},
                {"169.254.169.254", true},
                {"172.31.0.1", true},
                {"172.32.0.1", false},
                {"93.184.216.34", false},
                {"::1", true},
                {"fd00::1", true},
                {"fe80::1", true},
                {"::ffff:10.0.0.1", true},
                {"64:ff9b::a00:1", true},
                {"2606:2800::1", false}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct sockaddr_in v4 = {.sin_family = AF_INET};
        struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
        const bool is_v4 = inet_pton(AF_INET, rows[i].text, &v4.sin_addr) == 1;
        assert_true(is_v4 || inet_pton(AF_INET6, rows[i].text, &v6.sin6_addr) == 1);
        const struct sockaddr *a =
            is_v4 ? (const struct sockaddr *)&v4 : (const struct sockaddr *)&v6;
        assert_int_equal(hub_address_private(a), rows[i].is_private);
    }
}

/* A record survives; one of another file, or a damaged one, is empty. */
static void record(void **state)
{
    static const char hash[] = "57d1997700000000000000000000000000000000";
    const uint64_t size = 3 * (uint64_t)RANGE_BYTES + 5;
    char path[] = "/tmp/mote-ranges-XXXXXX";
    mote_error err;
    ranges r;
    uint64_t from, end;
    (void)state;
    close(mkstemp(path));
    assert_int_equal(ranges_open(&r, path, "a.gguf", hash, size, false, &err), MOTE_OK);
    assert_true(ranges_take(&r, 2, &from, &end));
    assert_true(from == 0 && end == 2 * (uint64_t)RANGE_BYTES);
    assert_int_equal(ranges_complete_to(&r, 0, RANGE_BYTES + 7, &err), MOTE_OK);
    ranges_release(&r, RANGE_BYTES + 7, end);
    assert_true(ranges_take(&r, 8, &from, &end)); /* continues inside the range */
    assert_true(from == RANGE_BYTES + 7);
    ranges_close(&r);
    assert_int_equal(ranges_open(&r, path, "a.gguf", hash, size, false, &err), MOTE_OK);
    assert_true(ranges_bytes(&r) == RANGE_BYTES && ranges_prefix(&r) == RANGE_BYTES);
    ranges_close(&r);
    const int fd = open(path, O_WRONLY);
    assert_int_equal(pwrite(fd, "x", 1, 20), 1);
    close(fd);
    assert_int_equal(ranges_open(&r, path, "a.gguf", hash, size, false, &err), MOTE_OK);
    assert_true(ranges_bytes(&r) == 0);
    ranges_close(&r);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(content_range), cmocka_unit_test(etags),
                                       cmocka_unit_test(headers),       cmocka_unit_test(redirects),
                                       cmocka_unit_test(token_hosts),   cmocka_unit_test(addresses),
                                       cmocka_unit_test(record)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
