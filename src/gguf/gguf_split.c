/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_split.c - joins the parts of a split model; see gguf.h. */
#include "gguf/gguf_int.h"

#include "base/mem.h"

mote_status gguf_split_of(const gguf *g, gguf_split *out, mote_error *err)
{
    bool found;
    *out = (gguf_split){0, 1};
    TRY(gguf_get_u32(g, "split.count", &out->count, &found, err));
    if (!found || out->count <= 1) {
        *out = (gguf_split){0, 1};
        return MOTE_OK;
    }
    if (out->count > GGUF_MAX_PARTS)
        return err_set(err, MOTE_E_UNSUPPORTED, "split.count is %u; at most %d parts are supported",
                       out->count, GGUF_MAX_PARTS);
    TRY(gguf_get_u32(g, "split.no", &out->no, NULL, err));
    if (out->no >= out->count)
        return err_set(err, MOTE_E_FORMAT, "invalid GGUF: split.no is %u, but split.count is %u",
                       out->no, out->count);
    return MOTE_OK;
}

/* Both keys absent counts as equal: only the first part must have metadata of the model. */
static bool part_agrees(const gguf *part, const gguf *first, const char *key)
{
    const gguf_kv *a = gguf_find(part, key), *b = gguf_find(first, key);
    if (a == NULL || b == NULL)
        return true;
    return a->type == b->type && a->is_array == b->is_array && a->n_bytes == b->n_bytes &&
           memcmp(a->bytes, b->bytes, a->n_bytes) == 0;
}

static mote_status part_check(const gguf *part, const gguf *first, uint32_t i, uint32_t n,
                              mote_error *err)
{
    static const char *const common[] = {"split.tensors.count", "general.architecture",
                                         "general.name", "general.file_type"};
    gguf_split at;
    TRY(gguf_split_of(part, &at, err));
    if (at.count != n || at.no != i)
        return err_set(err, MOTE_E_FORMAT,
                       "part %u of %u says that it is part %u of %u: the file was renamed or "
                       "belongs to another split; download all parts again",
                       i + 1, n, at.no + 1, at.count);
    for (size_t k = 0; k < sizeof common / sizeof *common; k++)
        if (!part_agrees(part, first, common[k]))
            return err_set(err, MOTE_E_FORMAT,
                           "part %u of %u has another %s than part 1: the parts belong to "
                           "different models; download all parts again",
                           i + 1, n, common[k]);
    return MOTE_OK;
}

static mote_status join_count(gguf *const parts[], uint32_t n, uint64_t *total, mote_error *err)
{
    uint32_t expected = 0;
    bool found;
    *total = 0;
    for (uint32_t i = 0; i < n; i++) {
        TRY(part_check(parts[i], parts[0], i, n, err));
        *total += parts[i]->n_tensors;
    }
    TRY(gguf_get_u32(parts[0], "split.tensors.count", &expected, &found, err));
    if (found && *total != expected)
        return err_set(err, MOTE_E_FORMAT,
                       "the %u parts have %llu tensors, but split.tensors.count is %u: a part is "
                       "incomplete or belongs to another split; download all parts again",
                       n, (unsigned long long)*total, expected);
    if (*total > GGUF_MAX_TENSORS)
        return err_set(err, MOTE_E_FORMAT, "invalid GGUF: %llu tensors in %u parts; at most %d",
                       (unsigned long long)*total, n, GGUF_MAX_TENSORS);
    return MOTE_OK;
}

static mote_status join_copy(gguf_tensor *tensors, strmap *by_name, gguf *const parts[], uint32_t n,
                             mote_error *err)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < n; i++)
        for (uint64_t k = 0; k < parts[i]->n_tensors; k++, at++) {
            bool existing;
            tensors[at] = parts[i]->tensors[k];
            tensors[at].part = i;
            TRY(strmap_put(by_name, tensors[at].name, at, &existing, err));
            if (existing)
                return err_set(err, MOTE_E_FORMAT,
                               "tensor '%.*s' of part %u of %u is in an earlier part too: the "
                               "parts belong to different splits; download all parts again",
                               STR_ARG(tensors[at].name), i + 1, n);
        }
    return MOTE_OK;
}

mote_status gguf_join(gguf *parts[], uint32_t n, mote_error *err)
{
    uint64_t total;
    strmap by_name = {0};
    TRY(join_count(parts, n, &total, err));
    gguf_tensor *tensors = mem_new(total, sizeof *tensors);
    mote_status status = tensors != NULL
                             ? strmap_init(&by_name, total, err)
                             : err_set(err, MOTE_E_MEMORY, "out of memory: table of %llu tensors",
                                       (unsigned long long)total);
    if (status == MOTE_OK)
        status = join_copy(tensors, &by_name, parts, n, err);
    if (status != MOTE_OK) {
        strmap_fini(&by_name);
        mem_free(tensors);
        return status;
    }
    mem_free(parts[0]->tensors);
    strmap_fini(&parts[0]->tensor_by_name);
    parts[0]->tensors = tensors;
    parts[0]->n_tensors = total;
    parts[0]->tensor_by_name = by_name;
    for (uint32_t i = 1; i < n; i++) {
        gguf_free(parts[i]);
        parts[i] = NULL;
    }
    return MOTE_OK;
}
