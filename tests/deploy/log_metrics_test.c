/* SPDX-License-Identifier: Apache-2.0 */
/* log_metrics_test.c - log lines and metrics text from made-up values, without a server. */
#include "json/json.h"
#include "server/core/log.h"
#include "server/api/native/native.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static void has(str text, const char *part)
{
    const size_t n = strlen(part);
    for (size_t i = 0; i + n <= text.n; i++)
        if (memcmp(text.p + i, part, n) == 0)
            return;
    fail_msg("no '%s' in: %.*s", part, (int)text.n, text.p);
}

static void plain(const char *line, size_t n)
{
    assert_true(n < LOG_LINE_BYTES && line[n] == '\0');
    for (size_t i = 0; i < n; i++)
        assert_true((unsigned char)line[i] >= 0x20 && line[i] != 0x7F);
}

static json_doc *parsed(const char *line, size_t n)
{
    json_doc *doc = NULL;
    mote_error err;
    if (json_doc_read(&doc, (str){line, n}, &err) != MOTE_OK)
        fail_msg("%s: %s", err.text, line);
    return doc;
}

static void test_no_forged_lines(void **state)
{
    char line[LOG_LINE_BYTES];
    const char *evil = "a\r\n2026-01-01T00:00:00Z req_forged\x1b[2J\"\\\x7f";
    (void)state;
    size_t n = log_text_line(line, evil, false);
    plain(line, n);
    has((str){line, n}, "a\\x0d\\x0a2026-01-01T00:00:00Z req_forged\\x1b[2J");
    n = log_text_line(line, evil, true);
    plain(line, n);
    json_doc *doc = parsed(line, n);
    assert_true(str_is(json_node_text(json_node_get(json_doc_root(doc), "message")), evil));
    json_doc_free(doc);
}

/* A line of any length fits its buffer, and a JSON line stays valid. */
static void test_long_lines(void **state)
{
    char line[LOG_LINE_BYTES], text[2 * LOG_LINE_BYTES];
    (void)state;
    for (size_t length = 0; length + 1 < sizeof text; length += 7) {
        memset(text, length % 3 == 0 ? '\n' : length % 3 == 1 ? '"' : 'x', length);
        text[length] = '\0';
        plain(line, log_text_line(line, text, false));
        const size_t n = log_text_line(line, text, true);
        plain(line, n);
        json_doc_free(parsed(line, n));
    }
}

static void test_requests(void **state)
{
    log_stats stats = {.prompt = 3121,
                       .cached = 3070,
                       .out = 210,
                       .think = 180,
                       .queue = 0.5,
                       .first_token = 0.27,
                       .rate = 8,
                       .stop = "eos"};
    log_request r = {.id = "req_1",
                     .method = "POST",
                     .label = "chat",
                     .status = 200,
                     .seconds = 1.5,
                     .in = 10,
                     .out = 20};
    char line[LOG_LINE_BYTES];
    (void)state;
    size_t n = log_request_line(line, &r, false);
    has((str){line, n}, " req_1 POST chat 200 1.500s in=10 out=20");
    assert_null(strstr(line, "prompt="));
    r.stats = &stats;
    n = log_request_line(line, &r, false);
    has((str){line, n},
        " q=0.50 prompt=3121 cached=3070 out=210 think=180 ttft=0.27 t/s=8.0 stop=eos");
    assert_null(strstr(line, "model="));
    memcpy(stats.model, "a\"b", 4);
    n = log_request_line(line, &r, false);
    has((str){line, n}, " out=20 model=a\"b q=0.50");
    json_doc *doc = parsed(line, log_request_line(line, &r, true));
    const json_node *root = json_doc_root(doc);
    assert_true(str_is(json_node_text(json_node_get(root, "model")), "a\"b"));
    assert_true(json_node_double(json_node_get(root, "cached_tokens")) == 3070);
    assert_true(str_is(json_node_text(json_node_get(root, "stop")), "eos"));
    json_doc_free(doc);
}

static void test_series(void **state)
{
    static request_counts counts;
    static metrics_view v = {.models = {{.name = "a\"b\\c\nd"}, {.name = "m2"}},
                             .n_models = 2,
                             .version = "1",
                             .isa = "ref",
                             .counts = &counts};
    strbuf out = {0};
    (void)state;
    v.models[1].work.first_token_seconds.count[0] = 2;
    v.models[1].work.first_token_seconds.count[3] = 1;
    v.models[1].work.first_token_seconds.count[SCHED_BUCKETS - 1] = 4;
    v.models[1].work.first_token_seconds.sum = 2000.5;
    request_counts_add(&counts, API_OPENAI, "chat", 200);
    request_counts_add(&counts, API_OPENAI, "chat", 200);
    request_counts_add(&counts, API_OLLAMA, "chat", 200);
    metrics_print(&out, &v);
    const str text = strbuf_view(&out);
    has(text, "mote_model_info{model=\"a\\\"b\\\\c\\nd\"} 1\n");
    has(text, "mote_http_requests_total{dialect=\"openai\",route=\"chat\",code=\"200\"} 2\n");
    has(text, "mote_http_requests_total{dialect=\"ollama\",route=\"chat\",code=\"200\"} 1\n");
    has(text, "mote_time_to_first_token_seconds_bucket{model=\"m2\",le=\"0.001\"} 2\n");
    has(text, "mote_time_to_first_token_seconds_bucket{model=\"m2\",le=\"0.008\"} 3\n");
    has(text, "mote_time_to_first_token_seconds_bucket{model=\"m2\",le=\"+Inf\"} 7\n");
    has(text, "mote_time_to_first_token_seconds_sum{model=\"m2\"} 2000.5\n"
              "mote_time_to_first_token_seconds_count{model=\"m2\"} 7\n");
    strbuf_fini(&out);
}

static void test_bounded(void **state)
{
    static request_counts counts;
    metrics_view v = {
        .models = {{.name = ""}}, .n_models = 1, .version = "1", .isa = "ref", .counts = &counts};
    strbuf out = {0};
    (void)state;
    for (int status = 0; status < 2 * METRICS_MAX_COUNTS; status++)
        request_counts_add(&counts, API_OPENAI, "chat", status);
    assert_int_equal(counts.n, METRICS_MAX_COUNTS);
    metrics_print(&out, &v);
    has(strbuf_view(&out),
        "mote_http_requests_total{dialect=\"other\",route=\"other\",code=\"other\"} 512\n");
    strbuf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_forged_lines), cmocka_unit_test(test_long_lines),
        cmocka_unit_test(test_requests),        cmocka_unit_test(test_series),
        cmocka_unit_test(test_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
