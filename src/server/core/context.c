/* SPDX-License-Identifier: Apache-2.0 */
/* context.c - see api.h. */
#include "server/core/context.h"

#include "base/mem.h"

/* For each key. */
static const text_store_options stored_limits = {
    .entries = 1024, .bytes = (size_t)64 << 20, .seconds = 24 * 3600.0};
static const text_store_options stats_limits = {
    .entries = 1024, .bytes = (size_t)4 << 20, .seconds = 24 * 3600.0};
static const text_store_options item_limits = {
    .entries = 4096, .bytes = (size_t)64 << 20, .seconds = 24 * 3600.0};

struct api {
    struct generation *at_work;
    text_store *stored, *items, *stats;
};

mote_status api_new(api **out, mote_error *err)
{
    *out = NULL;
    api *a = mem_new(1, sizeof *a);
    if (a == NULL)
        return err_set(err, MOTE_E_MEMORY, "no memory for the server");
    if (text_store_new(&a->stored, &stored_limits, err) != MOTE_OK ||
        text_store_new(&a->items, &item_limits, err) != MOTE_OK ||
        text_store_new(&a->stats, &stats_limits, err) != MOTE_OK) {
        api_free(a);
        return err_set(err, MOTE_E_MEMORY, "no memory for the server");
    }
    *out = a;
    return MOTE_OK;
}

void api_free(api *a)
{
    if (a == NULL)
        return;
    text_store_free(a->stats);
    text_store_free(a->stored);
    text_store_free(a->items);
    mem_free(a);
}

struct generation **generation_list(api *a)
{
    return &a->at_work;
}

text_store *api_responses(api *a)
{
    return a->stored;
}

text_store *api_items(api *a)
{
    return a->items;
}

void report_store_put(api *a, const char *request_id, uint64_t ns, str json)
{
    const str texts[TEXT_STORE_TEXTS] = {json};
    text_store_put(a->stats, ns, str_of(request_id), texts, NULL);
}

bool report_store_get(api *a, str request_id, uint64_t ns, strbuf *out)
{
    return str_is(request_id, "last") ? text_store_get_last(a->stats, ns, 0, out)
                                      : text_store_get(a->stats, ns, request_id, 0, out);
}
