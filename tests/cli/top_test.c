/* SPDX-License-Identifier: Apache-2.0 */
/* top_test.c - server addresses, heads of replies, and the screen of `mote top`. */
#include "cli/serve/server_client.h"
#include "cli/serve/top_view.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_addresses(void **state)
{
    static const struct {
        const char *text, *host, *port;
        bool is_unix, good;
    } cases[] = {
        {"127.0.0.1:11435", "127.0.0.1", "11435", false, true},
        {"127.0.0.1", "127.0.0.1", "11435", false, true},
        {"box:80", "box", "80", false, true},
        {"http://localhost:80/", "localhost", "80", false, true},
        {"http://localhost", "localhost", "11435", false, true},
        {"[::1]:9", "::1", "9", false, true},
        {"[::1]", "::1", "11435", false, true},
        {"unix:/run/mote.sock", "/run/mote.sock", "11435", true, true},
        {"", "", "", false, false},
        {":80", "", "", false, false},
        {"box:", "", "", false, false},
        {"box:8x", "", "", false, false},
        {"box:123456", "", "", false, false},
        {"[::1", "", "", false, false},
        {"[]:1", "", "", false, false},
        {"[::1]x", "", "", false, false},
        {"unix:", "", "", true, false},
        {"http://localhost:80/v1", "", "", false, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        server_client r = {0};
        assert_int_equal(client_parse(&r, cases[i].text), cases[i].good);
        if (!cases[i].good)
            continue;
        assert_string_equal(r.host, cases[i].host);
        assert_string_equal(r.port, cases[i].port);
        assert_int_equal(r.is_unix, cases[i].is_unix);
    }
}

static void test_replies(void **state)
{
    size_t at = 0;
    (void)state;
    assert_int_equal(client_status(str_of("HTTP/1.1 200 OK\r\nA: b\r\n\r\nbody"), &at), 200);
    assert_int_equal(at, 25);
    assert_int_equal(client_status(str_of("HTTP/1.1 404 Not Found\r\n\r\n"), &at), 404);
    assert_int_equal(client_status(str_of("HTTP/1.1 200 OK\r\nA: b\r\n"), &at), 0);
    assert_int_equal(client_status(str_of("SSH-2.0-x\r\n\r\n"), &at), 0);
    assert_int_equal(client_status(str_of(""), &at), 0);
}

static top_sample sample(const char *text, double at)
{
    top_sample r = {NULL, at};
    mote_error err;
    assert_int_equal(json_doc_read(&r.doc, str_of(text), &err), MOTE_OK);
    return r;
}

#define COMMON                                                                                     \
    "\"model\":\"m\\u001b[2J\",\"version\":\"0.1.0\",\"isa\":\"avx2\",\"threads\":2,\"uptime\":5," \
    "\"queued\":1,\"prefill\":1,\"decode\":1,\"parallel\":8,\"kept\":3,\"positions\":1000,"        \
    "\"positions_free\":250,\"connections\":4,\"loop_lag\":0.001,"                                 \
    "\"memory\":{\"total\":3000000,\"weights\":2000000},"

static const char first[] =
    "{" COMMON "\"totals\":{\"steps\":10,\"step_rows\":100,\"prompt_rows\":60,\"step_seconds\":1,"
    "\"prompt_tokens\":100,\"reused_tokens\":25},"
    "\"streams\":[{\"request_id\":\"req_aaaa\",\"dialect\":\"chat\",\"phase\":\"decode\",\"age\":"
    "1,"
    "\"prompt\":40,\"reused\":8,\"prefilled\":40,\"generated\":5}]}";
static const char second[] =
    "{" COMMON "\"totals\":{\"steps\":20,\"step_rows\":180,\"prompt_rows\":100,"
    "\"draft_tokens\":20,\"draft_accepted\":15,\"step_seconds\":2,"
    "\"prompt_tokens\":100,\"reused_tokens\":25},"
    "\"streams\":[{\"request_id\":\"req_aaaa\",\"dialect\":\"chat\",\"phase\":\"decode\",\"age\":"
    "3,"
    "\"prompt\":40,\"reused\":8,\"prefilled\":40,\"generated\":25},"
    "{\"request_id\":\"req_bbbb\",\"dialect\":\"messages\",\"phase\":\"prefill\",\"age\":9,"
    "\"prompt\":50,"
    "\"reused\":0,\"prefilled\":25,\"generated\":0},"
    "{\"request_id\":\"req_cccc\",\"dialect\":\"chat\",\"phase\":\"queued\",\"age\":1,\"position\":"
    "1,"
    "\"prompt\":70,\"reused\":0,\"prefilled\":0,\"generated\":0}]}";

static char *drawn(top_view *v)
{
    static char text[16384];
    strbuf out = {0};
    top_draw(&out, v);
    assert_true(out.n < sizeof text);
    memcpy(text, out.p, out.n);
    text[out.n] = '\0';
    strbuf_fini(&out);
    return text;
}

static void has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("no '%s' in:\n%s", part, text);
}

static void test_screen(void **state)
{
    top_view v = {.now = sample(first, 10), .columns = 120, .rows = 40};
    (void)state;
    has(drawn(&v), "decode - t/s   prefill - t/s");
    v.before = v.now;
    v.now = sample(second, 12);
    const char *text = drawn(&v);
    /* 80 rows in 2 s, 40 of them prefill, 5 wrong drafts; 10 steps; busy for 1 s of 2 s. */
    has(text, "drafts 10.0 t/s, 75 % accepted");
    has(text, "decode 17.5 t/s   prefill 20.0 t/s   batch 8.0   engine 50 % busy   reused 25 %");
    has(text, "2 of 8: 1 decode, 1 prefill; 1 queued");
    has(text, "750 of 1 000 tokens, 3 idle sequences");
    has(text, "prefill 50%");
    has(text, "queued 1");
    assert_null(strchr(text, '\x1b'));
    const char *a = strstr(text, "req_aaaa"), *b = strstr(text, "req_bbbb");
    assert_true(b < a);                              /* oldest first */
    has(a, "      40        8       25     10.0\n"); /* 20 tokens in 2 s */
    v.sort = TOP_BY_GENERATED;
    text = drawn(&v);
    assert_true(strstr(text, "req_aaaa") < strstr(text, "req_bbbb"));
    v.sort = TOP_BY_PROMPT;
    text = drawn(&v);
    assert_true(strstr(text, "req_cccc") < strstr(text, "req_bbbb"));
    json_doc_free(v.now.doc);
    json_doc_free(v.before.doc);
}

static void test_images(void **state)
{
    top_view v = {.now = sample(first, 10), .columns = 120, .rows = 40};
    (void)state;
    assert_null(strstr(drawn(&v), "images"));
    assert_null(strstr(drawn(&v), "vision"));
    json_doc_free(v.now.doc);
    v.now = sample(
        "{\"model\":\"m\",\"memory\":{\"total\":30,\"vision\":2000000},\"images\":{\"total\":"
        "9,\"cache_hits\":4,\"encoded\":3,\"failed\":2,\"waiting\":1,\"cached\":5,\"bytes\":"
        "6000000}}",
        11);
    has(drawn(&v), "vision 2.0 MB");
    has(drawn(&v), "images   3 encoded, 4 from cache, 2 failed; 1 queued   cached 5, 6.0 MB\n");
    json_doc_free(v.now.doc);
}

static void test_small_screens(void **state)
{
    top_view v = {.now = sample(second, 1), .utf8 = true};
    (void)state;
    for (v.columns = 8; v.columns < 140; v.columns += 7)
        for (v.rows = 1; v.rows < 15; v.rows++) {
            const char *text = drawn(&v);
            unsigned lines = 0, width = 0;
            for (; *text != '\0'; text++) {
                lines += *text == '\n';
                width = *text == '\n' ? 0 : width + ((*text & 0xC0) != 0x80);
                assert_true(width <= v.columns);
            }
            assert_true(lines <= v.rows);
        }
    json_doc_free(v.now.doc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses),     cmocka_unit_test(test_replies),
        cmocka_unit_test(test_screen),        cmocka_unit_test(test_images),
        cmocka_unit_test(test_small_screens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
