/* SPDX-License-Identifier: Apache-2.0 */
/* hub_listing.c - implements hub_listing.h. */
#include "pull/hub_listing.h"

#include "base/mem.h"
#include "store/hub_files.h"
#include "store/known_models.h"

void listing_fini(listing *l)
{
    for (uint32_t i = 0; i < l->n; i++)
        mem_free(l->entries[i].path);
    mem_free(l->entries);
    *l = (listing){0};
}

static bool path_is_wanted(const listing *l, str path)
{
    if (l->checkpoint)
        return hub_is_checkpoint(path);
    return path.n > 5 && memcmp(path.p + path.n - 5, ".gguf", 5) == 0;
}

/* A file in LFS has its SHA-256 and size in "lfs"; others have a git blob id in "oid". */
static bool entry_read(listing_entry *e, const json_node *node)
{
    const json_node *lfs = json_node_get(node, "lfs");
    const json_node *from = json_node_is(lfs, JSON_IS_OBJECT) ? lfs : node;
    const str hash = json_node_text(json_node_get(from, "oid"));
    int64_t size = -1;
    if (!json_node_int64(json_node_get(from, "size"), &size) || size < 0 ||
        (uint64_t)size > HUB_FILE_MAX)
        return false;
    e->size = (uint64_t)size;
    if (hub_blob_name_valid(hash))
        memcpy(e->hash, hash.p, hash.n);
    return true;
}

mote_status listing_add_file(listing *l, str path, uint64_t size, const char *hash, mote_error *err)
{
    listing_entry entry = {.size = size};
    if (!path_is_wanted(l, path) || !hub_path_valid(path))
        return MOTE_OK;
    if (!mem_grow(&l->entries, l->n, &l->room, sizeof *l->entries) ||
        (entry.path = mem_new(path.n + 1, 1)) == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory for the list of files");
    memcpy(entry.path, path.p, path.n);
    memcpy(entry.hash, hash, strlen(hash));
    l->entries[l->n++] = entry;
    return MOTE_OK;
}

static mote_status listing_add(listing *l, const json_node *node, mote_error *err)
{
    const str path = json_node_text(json_node_get(node, "path"));
    listing_entry entry = {0};
    if (++l->seen > LISTING_ENTRIES_MAX)
        return err_set(err, MOTE_E_FULL, "the repository has more than %d files",
                       LISTING_ENTRIES_MAX);
    if (!str_is(json_node_text(json_node_get(node, "type")), "file") || !path_is_wanted(l, path))
        return MOTE_OK;
    if (!hub_path_valid(path) || !entry_read(&entry, node)) {
        l->invalid++;
        return MOTE_OK;
    }
    return listing_add_file(l, path, entry.size, entry.hash, err);
}

mote_status listing_add_page(listing *l, str json, mote_error *err)
{
    json_doc *doc = NULL;
    TRY(json_doc_read(&doc, json, err));
    const json_node *root = json_doc_root(doc);
    mote_status status = MOTE_OK;
    if (!json_node_is(root, JSON_IS_ARRAY))
        status = err_set(err, MOTE_E_FORMAT, "not a list of files");
    for (const json_node *n = json_node_first(root); status == MOTE_OK && n != NULL;
         n = json_node_next(n))
        status = listing_add(l, n, err);
    json_doc_free(doc);
    return status;
}
