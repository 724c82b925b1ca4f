/* SPDX-License-Identifier: Apache-2.0 */
/*
 * head_test.c - head_check() alone: its result does not depend on how the bytes are split, and a
 * head that passes also passes llhttp. Also targets, digests, limits and peers.
 */
#include "base/mem.h"
#include "store/digest.h"
#include "server/http/head.h"
#include "server/http/peers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static limits usual(void)
{
    limits l;
    limits_init(&l);
    return l;
}

static head_status check_whole(head_checker *g, str bytes)
{
    const limits l = usual();
    *g = (head_checker){0};
    return head_check(g, bytes, &l);
}

/* Checks every prefix, as if each byte arrived alone. */
static head_status check_bytewise(head_checker *g, str bytes)
{
    const limits l = usual();
    *g = (head_checker){0};
    head_status answer = HEAD_MORE;
    for (size_t n = 1; n <= bytes.n && answer == HEAD_MORE; n++)
        answer = head_check(g, (str){bytes.p, n}, &l);
    return answer;
}

static const char *const heads[] = {
    "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /a?b=c%20d HTTP/1.0\r\nHost:a\r\nX:\r\nY:   z  \r\n\r\n",
    "POST /v1/x HTTP/1.1\r\nhOST: [::1]:8\r\ncontent-LENGTH: 12\r\nExpect: 100-Continue\r\n\r\n",
    "DELETE /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: CHUNKED\r\n\r\n",
    "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
    "HEAD / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nContent-Encoding: identity\r\n\r\n",
};

static void test_sound_heads(void **state)
{
    (void)state;
    http_parser *parser = http_parser_new();
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        head_checker whole, pieces;
        str bytes = str_of(heads[i]);
        assert_int_equal(check_whole(&whole, bytes), HEAD_PASS);
        assert_int_equal(check_bytewise(&pieces, bytes), HEAD_PASS);
        assert_memory_equal(&whole.head, &pieces.head, sizeof whole.head);
        assert_int_equal(whole.head.bytes, bytes.n);
        http_parsed parsed = http_parser_head(parser, bytes, &whole.head);
        bool body = whole.head.chunked || whole.head.length > 0;
        assert_int_equal(parsed, body ? HTTP_PARSED_HEAD : HTTP_PARSED_WHOLE);
    }
    http_parser_free(parser);
}

#define BYTES(text)                                                                                \
    {                                                                                              \
        text, sizeof(text) - 1                                                                     \
    }

/* The heads of malformed.py that head_check() itself must refuse. In the server, llhttp refuses
 * many of them, too, which would hide a fault of head_check(). */
static const struct {
    str bytes;
    head_status answer;
} bad_heads[] = {
    {BYTES("\r\nGET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"),
     HEAD_BAD}, /* nothing but a line end */
    {BYTES("\nGET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"), HEAD_BAD}, /* a bare LF first */
    {BYTES("GET /health\r\nHost: localhost\r\n\r\n"), HEAD_BAD},            /* no version */
    {BYTES("GET /\r\n\r\n"), HEAD_BAD},                                     /* HTTP/0.9 */
    {BYTES("GET /health HTTP/2.0\r\nHost: localhost\r\n\r\n"), HEAD_BAD},   /* HTTP/2.0 */
    {BYTES("GET /health HTTP/1.2\r\nHost: localhost\r\n\r\n"), HEAD_BAD},   /* HTTP/1.2 */
    {BYTES("GET /health HTTP/1.10\r\nHost: localhost\r\n\r\n"), HEAD_BAD},  /* HTTP/1.10 */
    {BYTES("GET /health HTTP/01.1\r\nHost: localhost\r\n\r\n"), HEAD_BAD},  /* HTTP/01.1 */
    {BYTES("GET /health http/1.1\r\nHost: localhost\r\n\r\n"), HEAD_BAD},   /* http in lower case */
    {BYTES("GET /health HTTP/1,1\r\nHost: localhost\r\n\r\n"), HEAD_BAD},   /* HTTP/1,1 */
    {BYTES("GET  /health HTTP/1.1\r\nHost: localhost\r\n\r\n"),
     HEAD_BAD}, /* two blanks before the target */
    {BYTES("GET /health  HTTP/1.1\r\nHost: localhost\r\n\r\n"),
     HEAD_BAD}, /* two blanks before the version */
    {BYTES("GET /health HTTP/1.1 \r\nHost: localhost\r\n\r\n"),
     HEAD_BAD}, /* a blank at the end of the line */
    {BYTES(" GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"),
     HEAD_BAD}, /* a blank before the method */
    {BYTES("GET\t/health HTTP/1.1\r\nHost: localhost\r\n\r\n"), HEAD_BAD}, /* a tab between */
    {BYTES("GET /he alth HTTP/1.1\r\nHost: localhost\r\n\r\n"),
     HEAD_BAD}, /* a blank in the target */
    {BYTES("G(T /health HTTP/1.1\r\nHost: localhost\r\n\r\n"),
     HEAD_BAD}, /* a bracket in the method */
    {BYTES("FETCH /health HTTP/1.1\r\nHost: localhost\r\n\r\n"),
     HEAD_METHOD}, /* an unknown method */
    {BYTES("get /health HTTP/1.1\r\nHost: localhost\r\n\r\n"),
     HEAD_METHOD}, /* a method in lower case */
    {BYTES("PUT /health HTTP/1.1\r\nHost: localhost\r\n\r\n"), HEAD_METHOD},          /* PUT */
    {BYTES("TRACE / HTTP/1.1\r\nHost: localhost\r\n\r\n"), HEAD_METHOD},              /* TRACE */
    {BYTES("CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n"), HEAD_METHOD}, /* CONNECT */
    {BYTES("PRI * HTTP/2.0\r\n\r\n"), HEAD_BAD},                       /* PRI of HTTP/2 */
    {BYTES("\026\003\001\000\245\001\000\000\241\003\003"), HEAD_BAD}, /* a TLS hello */
    {BYTES("GET http://localhost/health HTTP/1.1\r\nHost: localhost\r\n\r\n"),
     HEAD_BAD}, /* an absolute target */
    {BYTES("GET http://evil.example/health HTTP/1.1\r\nHost: localhost\r\n\r\n"),
     HEAD_BAD}, /* an absolute target of another host */
    {BYTES("GET health HTTP/1.1\r\nHost: localhost\r\n\r\n"),
     HEAD_BAD},                                                     /* a target without a slash */
    {BYTES("GET * HTTP/1.1\r\nHost: localhost\r\n\r\n"), HEAD_BAD}, /* a star for GET */
    {BYTES("GET /health#x HTTP/1.1\r\nHost: localhost\r\n\r\n"), HEAD_BAD}, /* a fragment */
    {BYTES("GET \\health HTTP/1.1\r\nHost: localhost\r\n\r\n"), HEAD_BAD},  /* a backslash */
    {BYTES("GET /a\\..\\health HTTP/1.1\r\nHost: localhost\r\n\r\n"),
     HEAD_BAD}, /* a backslash inside */
    {BYTES("GET /he%zzalth HTTP/1.1\r\nHost: localhost\r\n\r\n"), HEAD_BAD}, /* a bad escape */
    {BYTES("GET /health% HTTP/1.1\r\nHost: localhost\r\n\r\n"), HEAD_BAD},   /* half an escape */
    {BYTES("GET /health%2 HTTP/1.1\r\nHost: localhost\r\n\r\n"),
     HEAD_BAD}, /* half an escape at the end */
    {BYTES("GET /\303\251 HTTP/1.1\r\nHost: localhost\r\n\r\n"),
     HEAD_BAD}, /* raw UTF-8 in the target */
    {BYTES("GET /hea\000lth HTTP/1.1\r\nHost: localhost\r\n\r\n"),
     HEAD_BAD}, /* NUL in the target */
    {BYTES("GET /health HTTP/1.1\nHost: localhost\r\n\r\n"),
     HEAD_BAD}, /* bare LF after the first line */
    {BYTES("GET /health HTTP/1.1\r\nHost: localhost\n\r\n"), HEAD_BAD}, /* bare LF after a header */
    {BYTES("GET /health HTTP/1.1\r\nHost: localhost\r\n\n"),
     HEAD_BAD}, /* bare LF as the blank line */
    {BYTES("GET /health HTTP/1.1\r\nHost: localhost\r\nX: a\rb\r\n\r\n"),
     HEAD_BAD}, /* a lone CR in a value */
    {BYTES("GET /health HTTP/1.1\r\nHost: localhost\r\nX: a\rTransfer-Encoding: chunked\r\n\r\n"),
     HEAD_BAD}, /* a lone CR as a line end */
    {BYTES("GET /health HTTP/1.1\r\nHost: localhost\r\nX: a\r\r\n\r\n"), HEAD_BAD}, /* CR CR LF */
    {BYTES("GET /health HTTP/1.1\r\nHost: localhost\r\nX: a\r\n b\r\n\r\n"),
     HEAD_BAD}, /* a folded line */
    {BYTES("GET /health HTTP/1.1\r\nHost: localhost\r\nX: a\r\n\tb\r\n\r\n"),
     HEAD_BAD}, /* a folded line with a tab */
    {BYTES("GET /health HTTP/1.1\r\n Host: localhost\r\n\r\n"),
     HEAD_BAD}, /* a folded first header */
    {BYTES("GET /health HTTP/1.1\r\nHost: localhost\r\nX: a\000b\r\n\r\n"),
     HEAD_BAD}, /* NUL in a value */
    {BYTES("GET /health HTTP/1.1\r\nHost: localhost\r\nX\000Y: a\r\n\r\n"),
     HEAD_BAD}, /* NUL in a name */
    {BYTES("GET /health HTTP/1.1\r\nHost: localhost\r\nX: a\177b\r\n\r\n"),
     HEAD_BAD}, /* DEL in a value */
    {BYTES("GET /health HTTP/1.1\r\nHost: localhost\r\nX: \033[31m\r\n\r\n"),
     HEAD_BAD}, /* an escape character in a value */
    {BYTES("GET /health HTTP/1.1\r\nHost: localhost\r\nX\r\n\r\n"),
     HEAD_BAD}, /* a header without a colon */
    {BYTES("GET /health HTTP/1.1\r\nHost: localhost\r\n: a\r\n\r\n"),
     HEAD_BAD}, /* a header without a name */
    {BYTES("GET /health HTTP/1.1\r\nHost: localhost\r\nX : a\r\n\r\n"),
     HEAD_BAD}, /* a blank before the colon */
    {BYTES("GET /health HTTP/1.1\r\nHost: localhost\r\nX\t: a\r\n\r\n"),
     HEAD_BAD}, /* a tab before the colon */
    {BYTES("GET /health HTTP/1.1\r\nHost: localhost\r\nX Y: a\r\n\r\n"),
     HEAD_BAD}, /* a blank in a name */
    {BYTES("GET /health HTTP/1.1\r\nHost: localhost\r\nX(Y): a\r\n\r\n"),
     HEAD_BAD}, /* a bracket in a name */
    {BYTES("GET /health HTTP/1.1\r\nHost: localhost\r\nX\303\251: a\r\n\r\n"),
     HEAD_BAD},                                        /* UTF-8 in a name */
    {BYTES("GET /health HTTP/1.1\r\n\r\n"), HEAD_BAD}, /* no Host */
    {BYTES("GET /health HTTP/1.0\r\n\r\n"), HEAD_BAD}, /* no Host in HTTP/1.0 */
    {BYTES("GET /health HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n"),
     HEAD_BAD}, /* two Hosts */
    {BYTES("GET /health HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n"),
     HEAD_BAD}, /* two Hosts that differ */
    {BYTES("GET /health HTTP/1.1\r\nHost: localhost\r\nHOST: localhost\r\n\r\n"),
     HEAD_BAD}, /* two Hosts, one in upper case */
    {BYTES("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
           "application/json\r\nContent-Length: 15\r\nTransfer-Encoding: chunked\r\n\r\n"),
     HEAD_BAD}, /* length and coding */
    {BYTES("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
           "application/json\r\nTransfer-Encoding: chunked\r\nContent-Length: 15\r\n\r\n"),
     HEAD_BAD}, /* coding and length */
    {BYTES("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
           "application/json\r\nContent-Length: 15\r\nContent-Length: 3\r\n\r\n"),
     HEAD_BAD}, /* two lengths that differ */
    {BYTES("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
           "application/json\r\nContent-Length: 15\r\nContent-Length: 15\r\n\r\n"),
     HEAD_BAD}, /* two lengths that agree */
    {BYTES("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
           "application/json\r\nContent-Length: 15, 15\r\n\r\n"),
     HEAD_BAD}, /* a list of lengths */
    {BYTES("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
           "application/json\r\nContent-Length: +15\r\n\r\n"),
     HEAD_BAD}, /* a length with a sign */
    {BYTES("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
           "application/json\r\nContent-Length: -1\r\n\r\n"),
     HEAD_BAD}, /* a negative length */
    {BYTES("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
           "application/json\r\nContent-Length: 0xf\r\n\r\n"),
     HEAD_BAD}, /* a length in hexadecimal */
    {BYTES("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
           "application/json\r\nContent-Length: 1 5\r\n\r\n"),
     HEAD_BAD}, /* a length with a blank inside */
    {BYTES("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
           "application/json\r\nContent-Length: 15.0\r\n\r\n"),
     HEAD_BAD}, /* a length with a point */
    {BYTES("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
           "application/json\r\nContent-Length:\r\n\r\n"),
     HEAD_BAD}, /* an empty length */
    {BYTES("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
           "application/json\r\nContent-Length: 18446744073709551631\r\n\r\n"),
     HEAD_BAD}, /* a length of 2^64 + 15 */
    {BYTES("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
           "application/json\r\nContent-Length: 9223372036854775808\r\n\r\n"),
     HEAD_BAD}, /* a length of 2^63 */
    {BYTES("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
           "application/json\r\nContent-Length : 15\r\n\r\n"),
     HEAD_BAD}, /* Content-Length with a blank */
    {BYTES("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
           "application/json\r\nTransfer-Encoding : chunked\r\n\r\n"),
     HEAD_BAD}, /* Transfer-Encoding with a blank */
    {BYTES("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
           "application/json\r\nTransfer-Encoding: xchunked\r\n\r\n"),
     HEAD_BAD}, /* xchunked */
    {BYTES("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
           "application/json\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"),
     HEAD_BAD}, /* chunked twice */
    {BYTES("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
           "application/json\r\nTransfer-Encoding: chunked, chunked\r\n\r\n"),
     HEAD_BAD}, /* chunked, chunked */
    {BYTES("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
           "application/json\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"),
     HEAD_BAD}, /* gzip, chunked */
    {BYTES("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
           "application/json\r\nTransfer-Encoding: chunked, identity\r\n\r\n"),
     HEAD_BAD}, /* chunked, identity */
    {BYTES("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
           "application/json\r\nTransfer-Encoding: identity\r\n\r\n"),
     HEAD_BAD}, /* identity */
    {BYTES("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
           "application/json\r\nTransfer-Encoding:\r\n\r\n"),
     HEAD_BAD}, /* an empty coding */
    {BYTES("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
           "application/json\r\nTransfer-Encoding: \"chunked\"\r\n\r\n"),
     HEAD_BAD}, /* chunked in quotes */
    {BYTES("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
           "application/json\r\nTransfer-Encoding: chunked;q=1\r\n\r\n"),
     HEAD_BAD}, /* chunked with a parameter */
    {BYTES("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
           "application/json\r\nTransfer-Encoding: \013chunked\r\n\r\n"),
     HEAD_BAD}, /* chunked after a vertical tab */
    {BYTES("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
           "application/json\r\nTransfer-Encoding: chunked\t\r\n\r\n"),
     HEAD_BAD}, /* chunked before a tab */
    {BYTES("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
           "application/json\r\nContent-Length:\t15\r\n\r\n"),
     HEAD_BAD}, /* a length behind a tab */
    {BYTES("POST /tokenize HTTP/1.0\r\nHost: localhost\r\nContent-Type: "
           "application/json\r\nTransfer-Encoding: chunked\r\n\r\n"),
     HEAD_BAD}, /* coding in HTTP/1.0 */
    {BYTES("DELETE /x HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"), HEAD_BAD},
    {BYTES("POST /tokenize HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\n\r\n"),
     HEAD_BAD}, /* HTTP/1.0 without a length */
    {BYTES("GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n"),
     HEAD_BAD}, /* GET with a body */
    {BYTES("GET /health HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"),
     HEAD_BAD}, /* GET with chunks */
    {BYTES("HEAD /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n"),
     HEAD_BAD}, /* HEAD with a body */
    {BYTES("OPTIONS * HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n"),
     HEAD_BAD}, /* OPTIONS with a body */
    {BYTES("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
           "application/json\r\nContent-Length: 15\r\nExpect: 200-ok\r\n\r\n"),
     HEAD_BAD}, /* Expect of something else */
    {BYTES("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
           "application/json\r\nContent-Length: 15\r\nContent-Encoding: gzip\r\n\r\n"),
     HEAD_CODING}, /* gzip */
    {BYTES("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
           "application/json\r\nContent-Length: 15\r\nContent-Type: text/plain\r\n\r\n"),
     HEAD_BAD}, /* two types */
    {BYTES("GET /health HTTP/1.1\r\nHost: localhost\r\nx-api-key: a\r\nX-Api-Key: b\r\n\r\n"),
     HEAD_BAD}, /* two keys */
    {BYTES("GET /health HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer a\r\nauthorization: "
           "Bearer b\r\n\r\n"),
     HEAD_BAD}, /* two Authorizations */
    {BYTES("GET /health HTTP/1.1\r\nHost: localhost\r\nOrigin: https://a.example\r\nOrigin: "
           "https://b.example\r\n\r\n"),
     HEAD_BAD}, /* two Origins */
};

static void test_bad_heads(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_heads / sizeof *bad_heads; i++) {
        head_checker whole, pieces;
        assert_int_equal(check_whole(&whole, bad_heads[i].bytes), bad_heads[i].answer);
        assert_int_equal(check_bytewise(&pieces, bad_heads[i].bytes), bad_heads[i].answer);
        assert_non_null(whole.why);
    }
}

static void test_fields(void **state)
{
    (void)state;
    head_checker g;
    assert_int_equal(check_whole(&g, str_of(heads[1])), HEAD_PASS);
    assert_true(g.head.http_1_0);
    assert_true(str_is(http_head_field(&g.head, heads[1], "y"), "z"));
    str empty = http_head_field(&g.head, heads[1], "x");
    assert_true(empty.p != NULL && empty.n == 0);
    assert_null(http_head_field(&g.head, heads[1], "z").p);
    assert_int_equal(check_whole(&g, str_of(heads[2])), HEAD_PASS);
    assert_int_equal(g.head.length, 12);
    assert_true(g.head.wants_continue);
}

/* Replaces each byte by each other value: the result does not depend on how the bytes are split. */
static void test_changed_bytes(void **state)
{
    (void)state;
    http_parser *parser = http_parser_new();
    char text[256];
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        for (size_t at = 0; at < strlen(heads[i]); at++)
            for (unsigned byte = 0; byte < 256; byte++) {
                head_checker whole, pieces;
                size_t n = strlen(heads[i]);
                memcpy(text, heads[i], n);
                text[at] = (char)byte;
                head_status answer = check_whole(&whole, (str){text, n});
                assert_int_equal(answer, check_bytewise(&pieces, (str){text, n}));
                if (answer == HEAD_PASS)
                    assert_int_not_equal(
                        http_parser_head(parser, (str){text, whole.head.bytes}, &whole.head),
                        HTTP_PARSED_REFUSED);
                else if (answer != HEAD_MORE)
                    assert_non_null(whole.why);
            }
    http_parser_free(parser);
}

static void test_targets(void **state)
{
    (void)state;
    static const struct {
        const char *target, *path, *query; /* path NULL: refused */
    } rows[] = {
        {"/", "/", ""},
        {"/a?b", "/a", "b"},
        {"/a%2Fb%3F?c?d", "/a/b?", "c?d"},
        {"/%41%7e", "/A~", ""},
        {"/%e2%82%ac", "/\xE2\x82\xAC", ""},
        {"/%2541", "/%41", ""},
        {"/%00", NULL, ""},
        {"/%0a", NULL, ""},
        {"/%7f", NULL, ""},
        {"/%c2%80", NULL, ""},
        {"/%c0%80", NULL, ""},
        {"/%ed%a0%80", NULL, ""},
        {"/%e2%82", NULL, ""},
        {"/%f5%80%80%80", NULL, ""},
        {"/%f4%90%80%80", NULL, ""},
        {"/%f0%8f%80%80", NULL, ""},
        {"/%80", NULL, ""},
        {"/%e2%28%a1", NULL, ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char out[64];
        size_t n;
        str query;
        bool decoded = head_decode_target(str_of(rows[i].target), out, &n, &query);
        assert_int_equal(decoded, rows[i].path != NULL);
        if (decoded) {
            assert_true(str_is((str){out, n}, rows[i].path));
            assert_true(str_is(query, rows[i].query));
        }
    }
}

/* NIST short messages, including the empty one, and one longer than a block. */
static void test_digests(void **state)
{
    (void)state;
    static const struct {
        const char *text, *hex;
    } rows[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"\xD3", "28969cdfa74a12c82f3bad960b0b000aca2ac329deea5c2328ebc6f2ba9802c1"},
        {"\x11\xAF", "5ca7133fa735326081558ac312c620eeca9970d1e70a4b95533d956f072d1f98"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        digest d, read;
        char hex[2 * DIGEST_BYTES + 1];
        assert_true(digest_of(&d, str_of(rows[i].text)));
        digest_print(&d, hex);
        assert_string_equal(hex, rows[i].hex);
        assert_true(digest_parse(&read, str_of(rows[i].hex)));
        assert_true(digest_equal(&d, &read));
        read.bytes[i] ^= 0x80;
        assert_false(digest_equal(&d, &read));
    }
    digest d;
    assert_false(digest_parse(&d, str_of("12")));
    assert_false(
        digest_parse(&d, (str){"g3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b85"
                               "5",
                               64}));
}

static void test_peers(void **state)
{
    (void)state;
    peers *all = peers_new();
    unsigned char v4[16] = {[10] = 0xFF, [11] = 0xFF, [12] = 10, [15] = 1};
    unsigned char v6[16] = {0x20, 0x01, [15] = 1}, other[16] = {0x20, 0x01, [15] = 2};
    unsigned char loopback[16] = {[15] = 1}, local[16] = {0};
    peer *a = peers_came(all, v4);
    v4[15] = 2;
    peer *b = peers_came(all, v4), *again = peers_came(all, v4);
    assert_ptr_not_equal(a, b);
    assert_ptr_equal(b, again);
    assert_int_equal(b->connections, 2);
    peer *c = peers_came(all, v6);
    assert_ptr_equal(c, peers_came(all, other)); /* same first 64 bits: same peer */
    peer *one = peers_came(all, loopback), *unix_peer = peers_came(all, local);
    assert_ptr_not_equal(one, unix_peer);
    assert_true(peer_is_local(unix_peer) && peer_is_local(one));
    assert_false(peer_is_local(a) || peer_is_local(c));
    assert_true(a->id != 0 && a->id != b->id);
    for (uint32_t i = 1; i <= 12; i++)
        assert_int_equal(peer_failed(a, 100 + i), i);
    assert_int_equal(peer_failed(a, 170), 1); /* the next minute */
    peers_left(a);
    peers_sweep(all, 180); /* not freed: it has recent failures */
    v4[15] = 1;
    assert_ptr_equal(peers_came(all, v4), a);
    peers_free(all);
}

/* Every allocation of the first connections fails once: no crash, no leak. */
static void test_no_memory(void **state)
{
    (void)state;
    const uint64_t before = mem_count().blocks;
    for (uint64_t n = 1; n < 6; n++) {
        mem_fail_at(n);
        peers *all = peers_new();
        unsigned char v4[16] = {[10] = 0xFF, [11] = 0xFF, [12] = 10, [15] = 1};
        http_parser *parser = http_parser_new();
        if (all != NULL)
            peers_came(all, v4);
        http_parser_free(parser);
        peers_free(all);
        mem_fail_at(0);
        assert_int_equal(mem_count().blocks, before);
    }
}

static void test_limits(void **state)
{
    (void)state;
    limits l = usual();
    mote_error err;
    assert_int_equal(limits_set(&l, "connections=7", &err), MOTE_OK);
    assert_true(l.at[LIMIT_CONNECTIONS] == 7);
    assert_int_equal(limits_set(&l, "body-bytes=2MiB", &err), MOTE_OK);
    assert_true(l.at[LIMIT_BODY] == 2 << 20);
    static const char *const wrong[] = {"connections",
                                        "connections=",
                                        "connections=0",
                                        "connections=1x",
                                        "connection=1",
                                        "=1",
                                        "",
                                        "connections=-1",
                                        "connections=nan",
                                        "idle-seconds=inf"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(limits_set(&l, wrong[i], &err), MOTE_E_ARG);
    for (size_t i = 0; i < LIMIT_COUNT; i++)
        assert_true(limit_rows[i].initial >= limit_rows[i].min &&
                    limit_rows[i].initial <= limit_rows[i].max);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sound_heads), cmocka_unit_test(test_bad_heads),
        cmocka_unit_test(test_fields),      cmocka_unit_test(test_changed_bytes),
        cmocka_unit_test(test_targets),     cmocka_unit_test(test_digests),
        cmocka_unit_test(test_peers),       cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
