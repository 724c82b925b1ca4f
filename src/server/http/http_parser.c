/* SPDX-License-Identifier: Apache-2.0 */
/* http_parser.c - the llhttp parser behind head_check(). See head.h. The only file that uses
 * llhttp. */
#include "server/http/head.h"

#include "base/mem.h"

/* llhttp has constants of the same names: rename them while its header is read. */
#define HTTP_GET     LLHTTP_GET
#define HTTP_HEAD    LLHTTP_HEAD
#define HTTP_POST    LLHTTP_POST
#define HTTP_DELETE  LLHTTP_DELETE
#define HTTP_OPTIONS LLHTTP_OPTIONS
#include <llhttp.h>
#undef HTTP_GET
#undef HTTP_HEAD
#undef HTTP_POST
#undef HTTP_DELETE
#undef HTTP_OPTIONS

struct http_parser {
    llhttp_t llhttp;
    strbuf *body;
    size_t most;
    uint32_t n_fields;
    bool head_done, whole, keeps_alive;
    http_parsed failure; /* of a callback; 0: none */
};

/* Makes llhttp stop: any negative result of a callback does. */
static int parser_fail(http_parser *p, http_parsed why)
{
    p->failure = why;
    return -1;
}

/* Part of a header name: in the head, or in a trailer, which is refused. */
static int parser_on_name(llhttp_t *from, const char *bytes, size_t n)
{
    (void)bytes;
    (void)n;
    http_parser *p = from->data;
    return p->head_done ? parser_fail(p, HTTP_PARSED_REFUSED) : 0;
}

static int parser_on_field(llhttp_t *from)
{
    http_parser *p = from->data;
    p->n_fields++;
    return 0;
}

static int parser_on_extension(llhttp_t *from, const char *bytes, size_t n)
{
    (void)bytes;
    (void)n;
    return parser_fail(from->data, HTTP_PARSED_REFUSED);
}

static int parser_on_head(llhttp_t *from)
{
    http_parser *p = from->data;
    p->head_done = true;
    p->keeps_alive = llhttp_should_keep_alive(from) != 0;
    from->upgrade = 0; /* ignore an offered protocol upgrade */
    return 0;
}

static int parser_on_body(llhttp_t *from, const char *bytes, size_t n)
{
    http_parser *p = from->data;
    if (p->body == NULL)
        return parser_fail(p, HTTP_PARSED_REFUSED);
    if (n > p->most - p->body->n)
        return parser_fail(p, HTTP_PARSED_TOO_LARGE);
    strbuf_put(p->body, (str){bytes, n});
    return p->body->failed ? parser_fail(p, HTTP_PARSED_NO_MEMORY) : 0;
}

static int parser_on_complete(llhttp_t *from)
{
    http_parser *p = from->data;
    p->whole = true;
    return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
    .on_header_field = parser_on_name,
    .on_header_value_complete = parser_on_field,
    .on_chunk_extension_name = parser_on_extension,
    .on_headers_complete = parser_on_head,
    .on_body = parser_on_body,
    .on_message_complete = parser_on_complete,
};

http_parser *http_parser_new(void)
{
    return mem_new(1, sizeof(http_parser));
}

void http_parser_free(http_parser *p)
{
    mem_free(p);
}

static http_parsed parser_execute(http_parser *p, str bytes, size_t *used)
{
    llhttp_errno_t error = llhttp_execute(&p->llhttp, bytes.p, bytes.n);
    *used = bytes.n;
    if (error == HPE_OK)
        return HTTP_PARSED_MORE;
    if (p->whole && (error == HPE_PAUSED || error == HPE_PAUSED_UPGRADE)) {
        *used = (size_t)(llhttp_get_error_pos(&p->llhttp) - bytes.p);
        return HTTP_PARSED_WHOLE;
    }
    return p->failure != 0 ? p->failure : HTTP_PARSED_REFUSED;
}

/* Do llhttp and head_check() agree on method, version and number of headers? */
static bool parser_agrees(const http_parser *p, const http_head *head)
{
    static const struct {
        uint8_t theirs;
        http_method ours;
    } methods[] = {
        {LLHTTP_GET, HTTP_GET},       {LLHTTP_HEAD, HTTP_HEAD},       {LLHTTP_POST, HTTP_POST},
        {LLHTTP_DELETE, HTTP_DELETE}, {LLHTTP_OPTIONS, HTTP_OPTIONS},
    };
    bool same_method = false;
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (methods[i].theirs == p->llhttp.method)
            same_method = methods[i].ours == head->method;
    return same_method && p->n_fields == head->n_fields && p->llhttp.http_major == 1 &&
           p->llhttp.http_minor == (head->http_1_0 ? 0 : 1);
}

http_parsed http_parser_head(http_parser *p, str bytes, const http_head *head)
{
    *p = (http_parser){0};
    llhttp_init(&p->llhttp, HTTP_REQUEST, &settings);
    p->llhttp.data = p;
    size_t used;
    http_parsed parsed = parser_execute(p, bytes, &used);
    if (parsed != HTTP_PARSED_MORE && parsed != HTTP_PARSED_WHOLE)
        return parsed;
    bool has_body = head->chunked || head->length > 0;
    if (!p->head_done || used != bytes.n || !parser_agrees(p, head) ||
        has_body != (parsed == HTTP_PARSED_MORE))
        return HTTP_PARSED_REFUSED;
    return parsed == HTTP_PARSED_WHOLE ? parsed : HTTP_PARSED_HEAD;
}

http_parsed http_parser_body(http_parser *p, str bytes, size_t *used, strbuf *body, size_t most)
{
    p->body = body;
    p->most = most;
    http_parsed parsed = parser_execute(p, bytes, used);
    p->body = NULL;
    return parsed;
}

bool http_parser_keeps_alive(const http_parser *p)
{
    return p->keeps_alive;
}

#define TEXT_OF(number)                   #number
#define VERSION_TEXT(major, minor, patch) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(patch)

const char *http_parser_version(void)
{
    return VERSION_TEXT(LLHTTP_VERSION_MAJOR, LLHTTP_VERSION_MINOR, LLHTTP_VERSION_PATCH);
}
