/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_json.c - any bytes as JSON: an error, or a document that survives a dump and parse. */
#include "fuzz/fuzz.h"
#include "json/json.h"

#include <stdio.h>
#include <stdlib.h>

static void demand(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "fuzz_json: %s\n", what);
    abort();
}

static bool docs_equal(const json_doc *a, const json_doc *b)
{
    if (json_doc_nodes(a) != json_doc_nodes(b))
        return false;
    strbuf left = {0}, right = {0};
    json_put_as_spelt(&left, json_doc_root(a));
    json_put_as_spelt(&right, json_doc_root(b));
    const bool equal = str_eq(strbuf_view(&left), strbuf_view(&right));
    strbuf_fini(&left);
    strbuf_fini(&right);
    return equal;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_doc *doc, *again;
    strbuf spelt = {0}, python = {0};
    mote_error err;
    if (json_doc_read(&doc, (str){(const char *)data, size}, &err) != MOTE_OK)
        return 0;
    json_put_as_spelt(&spelt, json_doc_root(doc));
    json_put_node(&python, json_doc_root(doc));
    demand(!spelt.failed && !python.failed, "out of memory");
    demand(json_doc_read(&again, strbuf_view(&spelt), &err) == MOTE_OK,
           "the dump is not valid JSON");
    demand(docs_equal(doc, again), "the dump parses to another document");
    json_doc_free(again);
    json_doc_free(doc);
    strbuf_fini(&spelt);
    strbuf_fini(&python);
    return 0;
}
