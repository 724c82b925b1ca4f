/* SPDX-License-Identifier: Apache-2.0 */
/* api.c - see api.h. */
#include "server/api.h"

#include "base/mem.h"

/* For each key. */
static const shelf_options stored_limits = {
    .entries = 1024, .bytes = (size_t)64 << 20, .seconds = 24 * 3600.0};
static const shelf_options figures_limits = {
    .entries = 1024, .bytes = (size_t)4 << 20, .seconds = 24 * 3600.0};
static const shelf_options item_limits = {
    .entries = 4096, .bytes = (size_t)64 << 20, .seconds = 24 * 3600.0};

struct api {
    struct answering *at_work;
    shelf *stored, *items, *figures;
};

mote_status api_new(api **out, mote_error *err)
{
    *out = NULL;
    api *a = mem_new(1, sizeof *a);
    if (a == NULL)
        return err_set(err, MOTE_E_MEMORY, "no memory for the server");
    if (shelf_new(&a->stored, &stored_limits, err) != MOTE_OK ||
        shelf_new(&a->items, &item_limits, err) != MOTE_OK ||
        shelf_new(&a->figures, &figures_limits, err) != MOTE_OK) {
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
    shelf_free(a->figures);
    shelf_free(a->stored);
    shelf_free(a->items);
    mem_free(a);
}

struct answering **api_at_work(api *a)
{
    return &a->at_work;
}

shelf *api_responses(api *a)
{
    return a->stored;
}

shelf *api_items(api *a)
{
    return a->items;
}

void api_remember(api *a, const char *request_id, uint64_t realm, str json)
{
    const str texts[SHELF_TEXTS] = {json};
    shelf_put(a->figures, realm, str_of(request_id), texts, NULL);
}

bool api_recollect(api *a, str request_id, uint64_t realm, strbuf *out)
{
    return str_is(request_id, "last") ? shelf_get_last(a->figures, realm, 0, out)
                                      : shelf_get(a->figures, realm, request_id, 0, out);
}
