/* SPDX-License-Identifier: Apache-2.0 */
/* head.c - strict check of a request head, byte by byte. See head.h. */
#include "server/http/head.h"

#include "base/utf8.h"

#include <strings.h>

/* Sets of bytes, 32 in a word. */
typedef struct byte_set {
    uint32_t bits[8];
} byte_set;

/* Letters, digits and !#$%&'*+-.^_`|~ */
static const byte_set token_bytes = {{0x00000000u, 0x03ff6cfau, 0xc7fffffeu, 0x57ffffffu,
                                      0x00000000u, 0x00000000u, 0x00000000u, 0x00000000u}};
/* Everything but control characters; tabs are allowed. */
static const byte_set value_bytes = {{0x00000200u, 0xffffffffu, 0xffffffffu, 0x7fffffffu,
                                      0xffffffffu, 0xffffffffu, 0xffffffffu, 0xffffffffu}};
/* Letters, digits and -._~!$&'()*+,;=:@/?% */
static const byte_set target_bytes = {{0x00000000u, 0xaffffff2u, 0x87ffffffu, 0x47fffffeu,
                                       0x00000000u, 0x00000000u, 0x00000000u, 0x00000000u}};

/* Most bytes of the first line besides the target: "OPTIONS", "HTTP/1.1" and two spaces. */
enum { LINE_AROUND_TARGET = 7 + 8 + 2 };

static bool byte_set_has(const byte_set *set, char byte)
{
    unsigned char c = (unsigned char)byte;
    return set->bits[c / 32] >> c % 32 & 1;
}

static bool byte_set_has_all(str text, const byte_set *set)
{
    for (size_t i = 0; i < text.n; i++)
        if (!byte_set_has(set, text.p[i]))
            return false;
    return true;
}

static bool head_same_word(str text, const char *lower)
{
    return text.n == strlen(lower) && strncasecmp(text.p, lower, text.n) == 0;
}

static head_status head_refuse(head_checker *g, head_status answer, const char *why)
{
    g->why = why;
    return answer;
}

static head_status head_bad(head_checker *g, const char *why)
{
    return head_refuse(g, HEAD_BAD, why);
}

/* ---- the first line ---- */

static const struct {
    const char *name;
    http_method method;
} methods[] = {
    {"GET", HTTP_GET},       {"HEAD", HTTP_HEAD},       {"POST", HTTP_POST},
    {"DELETE", HTTP_DELETE}, {"OPTIONS", HTTP_OPTIONS},
};

static bool find_method(str name, http_method *out)
{
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (str_is(name, methods[i].name)) {
            *out = methods[i].method;
            return true;
        }
    return false;
}

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static bool is_target(str target, http_method method)
{
    if (method == HTTP_OPTIONS && str_is(target, "*"))
        return true;
    if (target.n == 0 || target.p[0] != '/' || !byte_set_has_all(target, &target_bytes))
        return false;
    for (size_t i = 0; i < target.n; i++)
        if (target.p[i] == '%' &&
            (i + 2 >= target.n || !is_hex(target.p[i + 1]) || !is_hex(target.p[i + 2])))
            return false;
    return true;
}

static head_status head_first_line(head_checker *g, const char *bytes, str line, const limits *l)
{
    const char *blank = memchr(line.p, ' ', line.n);
    if (blank == NULL)
        return head_bad(g, "the request line has no target");
    str method = {line.p, (size_t)(blank - line.p)};
    if (method.n == 0 || !byte_set_has_all(method, &token_bytes))
        return head_bad(g, "the method is not a token");
    str rest = {blank + 1, line.n - method.n - 1};
    blank = memchr(rest.p, ' ', rest.n);
    if (blank == NULL)
        return head_bad(g, "the request line has no version");
    str target = {rest.p, (size_t)(blank - rest.p)};
    str version = {blank + 1, rest.n - target.n - 1};
    if (str_is(version, "HTTP/1.0"))
        g->head.http_1_0 = true;
    else if (!str_is(version, "HTTP/1.1"))
        return head_bad(g, "the version must be HTTP/1.1 or HTTP/1.0");
    if (target.n > l->at[LIMIT_TARGET])
        return head_refuse(g, HEAD_TARGET, "the request target is too long (--limit target-bytes)");
    if (!find_method(method, &g->head.method))
        return head_refuse(g, HEAD_METHOD,
                           "method not supported; supported: GET, HEAD, POST, DELETE, OPTIONS");
    if (!is_target(target, g->head.method))
        return head_bad(g, "the request target must be a path");
    g->head.target = (uint16_t)(target.p - bytes);
    g->head.n_target = (uint16_t)target.n;
    return HEAD_MORE;
}

/* ---- fields ---- */

/* Headers that affect framing or access. They may occur once: with two, proxies and servers can
 * disagree on which one counts. */
typedef enum once {
    ONCE_HOST,
    ONCE_LENGTH,
    ONCE_CODING,
    ONCE_EXPECT,
    ONCE_ENCODING,
    ONCE_TYPE,
    ONCE_AUTHORIZATION,
    ONCE_KEY,
    ONCE_ORIGIN,
    ONCE_SITE,
    ONCE_COUNT
} once;

static const char *const once_names[ONCE_COUNT] = {
    "host",         "content-length", "transfer-encoding", "expect", "content-encoding",
    "content-type", "authorization",  "x-api-key",         "origin", "sec-fetch-site",
};

/* At most 18 digits, which always fit. */
static bool parse_length(str text, uint64_t *out)
{
    *out = 0;
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] < '0' || text.p[i] > '9')
            return false;
        *out = *out * 10 + (uint64_t)(text.p[i] - '0');
    }
    return text.n >= 1 && text.n <= 18;
}

/* Headers that may occur only once. */
static head_status head_once_field(head_checker *g, once which, str value)
{
    if (g->seen & 1u << which)
        return head_bad(g, "a header that must occur once occurs twice");
    g->seen |= 1u << which;
    switch (which) {
    case ONCE_LENGTH:
        g->head.has_length = true;
        if (!parse_length(value, &g->head.length))
            return head_bad(g, "Content-Length must be a number of bytes");
        break;
    case ONCE_CODING:
        g->head.chunked = true;
        if (!head_same_word(value, "chunked"))
            return head_bad(g, "Transfer-Encoding must be \"chunked\"");
        break;
    case ONCE_EXPECT:
        g->head.wants_continue = true;
        if (!head_same_word(value, "100-continue"))
            return head_bad(g, "Expect must be \"100-continue\"");
        break;
    case ONCE_ENCODING:
        if (!head_same_word(value, "identity"))
            return head_refuse(g, HEAD_CODING,
                               "Content-Encoding is not supported; send the body uncompressed");
        break;
    default: break;
    }
    return HEAD_MORE;
}

/* Removes spaces at both ends. Not tabs: llhttp keeps a tab after "chunked", and the two would
 * disagree on the body. */
static str trim_spaces(str text)
{
    while (text.n > 0 && text.p[0] == ' ')
        text = (str){text.p + 1, text.n - 1};
    while (text.n > 0 && text.p[text.n - 1] == ' ')
        text.n--;
    return text;
}

static head_status head_field_line(head_checker *g, const char *bytes, str line, const limits *l)
{
    if (line.p[0] == ' ' || line.p[0] == '\t')
        return head_bad(g, "folded header lines are not supported");
    const char *colon = memchr(line.p, ':', line.n);
    if (colon == NULL)
        return head_bad(g, "a header has no colon");
    str name = {line.p, (size_t)(colon - line.p)};
    str value = trim_spaces((str){colon + 1, line.n - name.n - 1});
    if (name.n == 0 || !byte_set_has_all(name, &token_bytes))
        return head_bad(g, "a header name is not a token");
    if (!byte_set_has_all(value, &value_bytes))
        return head_bad(g, "a header value contains a control character");
    if (g->head.n_fields >= l->at[LIMIT_FIELDS])
        return head_refuse(g, HEAD_HEADERS, "too many headers (--limit header-fields)");
    g->head.fields[g->head.n_fields++] =
        (http_field){(uint16_t)(name.p - bytes), (uint16_t)name.n, (uint16_t)(value.p - bytes),
                     (uint16_t)value.n};
    for (once i = 0; i < ONCE_COUNT; i++)
        if (head_same_word(name, once_names[i]))
            return head_once_field(g, i, value);
    return HEAD_MORE;
}

/* ---- the whole ---- */

static head_status head_finish(head_checker *g)
{
    const http_head *h = &g->head;
    if (!(g->seen & 1u << ONCE_HOST))
        return head_bad(g, "Host is missing");
    if (h->chunked && h->has_length)
        return head_bad(g, "Content-Length and Transfer-Encoding exclude each other");
    if (h->chunked && h->http_1_0)
        return head_bad(g, "Transfer-Encoding is not supported in HTTP/1.0");
    if (h->method != HTTP_POST && h->method != HTTP_DELETE && (h->chunked || h->length > 0))
        return head_bad(g, "this method must not have a body");
    if (h->http_1_0 && h->method == HTTP_POST && !h->has_length)
        return head_bad(g, "Content-Length is missing");
    return HEAD_PASS;
}

static head_status head_take_line(head_checker *g, str bytes, size_t end, const limits *l)
{
    str line = {bytes.p + g->line, end - g->line};
    head_status answer;
    if (g->fields == 0) {
        answer = head_first_line(g, bytes.p, line, l);
        g->fields = end + 2;
    } else if (line.n == 0) {
        g->head.bytes = end + 2;
        answer = head_finish(g);
    } else if (end + 2 - g->fields > l->at[LIMIT_FIELD_BYTES]) {
        answer = head_refuse(g, HEAD_HEADERS, "the headers are too long (--limit header-bytes)");
    } else {
        answer = head_field_line(g, bytes.p, line, l);
    }
    g->line = end + 2;
    return answer;
}

/* Is the current, incomplete line already too long? */
static head_status head_check_length(head_checker *g, const limits *l)
{
    if (g->fields == 0 && g->at > l->at[LIMIT_TARGET] + LINE_AROUND_TARGET + 2)
        return head_refuse(g, HEAD_TARGET, "the request target is too long (--limit target-bytes)");
    if (g->fields != 0 && (double)(g->at - g->fields) > l->at[LIMIT_FIELD_BYTES] + 2)
        return head_refuse(g, HEAD_HEADERS, "the headers are too long (--limit header-bytes)");
    return HEAD_MORE;
}

head_status head_check(head_checker *g, str bytes, const limits *l)
{
    head_status answer = HEAD_MORE;
    while (answer == HEAD_MORE && g->at < bytes.n) {
        char c = bytes.p[g->at];
        bool after_cr = g->at > g->line && bytes.p[g->at - 1] == '\r';
        g->at++;
        if (after_cr != (c == '\n'))
            return head_bad(g, "a line must end with CR LF");
        if (c == '\n')
            answer = head_take_line(g, bytes, g->at - 2, l);
        else if (c != '\r' && !byte_set_has(&value_bytes, c))
            return head_bad(g, "the head contains a control character");
        else
            answer = head_check_length(g, l);
    }
    return answer;
}

str http_head_field(const http_head *h, const char *bytes, const char *name)
{
    for (uint32_t i = 0; i < h->n_fields; i++) {
        const http_field *f = &h->fields[i];
        if (head_same_word((str){bytes + f->name, f->n_name}, name))
            return (str){bytes + f->value, f->n_value};
    }
    return (str){NULL, 0};
}

/* ---- the target ---- */

static unsigned hex_value(char c)
{
    return (unsigned)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
}

/* Length of the UTF-8 character at p; 0: invalid or a control character. */
static size_t path_character(const unsigned char *p, size_t n)
{
    if (p[0] < 0x80)
        return p[0] < 0x20 || p[0] == 0x7F ? 0 : 1;
    const int length = utf8_check(p, n);
    const bool control = length == 2 && p[0] == 0xC2 && p[1] < 0xA0;
    return length > 0 && !control ? (size_t)length : 0;
}

bool head_decode_target(str target, char *out, size_t *n, str *query)
{
    const char *mark = memchr(target.p, '?', target.n);
    size_t path = mark != NULL ? (size_t)(mark - target.p) : target.n;
    *query = mark != NULL ? (str){mark + 1, target.n - path - 1} : (str){"", 0};
    *n = 0;
    for (size_t i = 0; i < path; i++) {
        char c = target.p[i];
        if (c == '%') {
            c = (char)(hex_value(target.p[i + 1]) << 4 | hex_value(target.p[i + 2]));
            i += 2;
        }
        out[(*n)++] = c;
    }
    for (size_t i = 0; i < *n;) {
        size_t length = path_character((const unsigned char *)out + i, *n - i);
        if (length == 0)
            return false;
        i += length;
    }
    return true;
}
