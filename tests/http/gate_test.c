/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gate_test.c - the gate by itself: what it says does not depend on how bytes were cut, and what
 * it passes llhttp passes too; targets, digests, limits and peers, which no request shows.
 */
#include "base/mem.h"
#include "server/digest.h"
#include "server/gate.h"
#include "server/http_parse.h"
#include "server/peers.h"

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

static gate_answer look_whole(gate *g, str bytes)
{
    const limits l = usual();
    *g = (gate){0};
    return gate_look(g, bytes, &l);
}

/* Every prefix is looked at, as if each byte came alone. */
static gate_answer look_bytewise(gate *g, str bytes)
{
    const limits l = usual();
    *g = (gate){0};
    gate_answer answer = GATE_MORE;
    for (size_t n = 1; n <= bytes.n && answer == GATE_MORE; n++)
        answer = gate_look(g, (str){bytes.p, n}, &l);
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
        gate whole, pieces;
        str bytes = str_of(heads[i]);
        assert_int_equal(look_whole(&whole, bytes), GATE_PASS);
        assert_int_equal(look_bytewise(&pieces, bytes), GATE_PASS);
        assert_memory_equal(&whole.head, &pieces.head, sizeof whole.head);
        assert_int_equal(whole.head.bytes, bytes.n);
        http_parsed parsed = http_parser_head(parser, bytes, &whole.head);
        bool body = whole.head.chunked || whole.head.length > 0;
        assert_int_equal(parsed, body ? HTTP_PARSED_HEAD : HTTP_PARSED_WHOLE);
    }
    http_parser_free(parser);
}

static void test_fields(void **state)
{
    (void)state;
    gate g;
    assert_int_equal(look_whole(&g, str_of(heads[1])), GATE_PASS);
    assert_true(g.head.http_1_0);
    assert_true(str_is(http_head_field(&g.head, heads[1], "y"), "z"));
    str empty = http_head_field(&g.head, heads[1], "x");
    assert_true(empty.p != NULL && empty.n == 0);
    assert_null(http_head_field(&g.head, heads[1], "z").p);
    assert_int_equal(look_whole(&g, str_of(heads[2])), GATE_PASS);
    assert_int_equal(g.head.length, 12);
    assert_true(g.head.wants_continue);
}

/* Any byte put in place of any other: refused or passed, the same way however it was cut. */
static void test_changed_bytes(void **state)
{
    (void)state;
    http_parser *parser = http_parser_new();
    char text[256];
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        for (size_t at = 0; at < strlen(heads[i]); at++)
            for (unsigned byte = 0; byte < 256; byte++) {
                gate whole, pieces;
                size_t n = strlen(heads[i]);
                memcpy(text, heads[i], n);
                text[at] = (char)byte;
                gate_answer answer = look_whole(&whole, (str){text, n});
                assert_int_equal(answer, look_bytewise(&pieces, (str){text, n}));
                if (answer == GATE_PASS)
                    assert_int_not_equal(
                        http_parser_head(parser, (str){text, whole.head.bytes}, &whole.head),
                        HTTP_PARSED_REFUSED);
                else if (answer != GATE_MORE)
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
        bool decoded = gate_decode_target(str_of(rows[i].target), out, &n, &query);
        assert_int_equal(decoded, rows[i].path != NULL);
        if (decoded) {
            assert_true(str_is((str){out, n}, rows[i].path));
            assert_true(str_is(query, rows[i].query));
        }
    }
}

/* Messages of NIST's short test, the empty one among them, and one of more than a block. */
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
    assert_ptr_equal(c, peers_came(all, other)); /* one who has the first half has all of it */
    peer *one = peers_came(all, loopback), *unix_peer = peers_came(all, local);
    assert_ptr_not_equal(one, unix_peer);
    assert_true(peer_is_local(unix_peer) && !peer_is_local(one));
    assert_true(a->id != 0 && a->id != b->id);
    for (uint32_t i = 1; i <= 12; i++)
        assert_int_equal(peer_failed(a, 100 + i), i);
    assert_int_equal(peer_failed(a, 170), 1); /* the next minute */
    peers_left(a);
    peers_sweep(all, 180); /* not forgotten: he has something to answer for */
    v4[15] = 1;
    assert_ptr_equal(peers_came(all, v4), a);
    peers_free(all);
}

/* Every allocation of the first connections refused once: no crash, nothing left behind. */
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
        cmocka_unit_test(test_sound_heads),   cmocka_unit_test(test_fields),
        cmocka_unit_test(test_changed_bytes), cmocka_unit_test(test_targets),
        cmocka_unit_test(test_digests),       cmocka_unit_test(test_peers),
        cmocka_unit_test(test_no_memory),     cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
