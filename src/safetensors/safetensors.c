/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors.c - see safetensors.h. */
#include "safetensors/safetensors.h"

#include "base/ckd.h"
#include "base/mem.h"
#include "json/json.h"

#include <stdlib.h>

/* A tensor has about 9 values: itself, type, shape with its dimensions, offsets. */
enum { MAX_VALUES = 1 << 21, LENGTH_BYTES = 8 };

struct safetensors {
    json_doc *doc; /* owns the names */
    safetensor *tensors;
    uint32_t n;
};

mote_status safetensors_header_bytes(const unsigned char first[8], uint64_t file_bytes,
                                     uint64_t *out, mote_error *err)
{
    uint64_t n;
    memcpy(&n, first, sizeof n);
    if (file_bytes < LENGTH_BYTES || n > file_bytes - LENGTH_BYTES)
        return err_set(err, MOTE_E_FORMAT,
                       "invalid Safetensors: header of %llu bytes in a file of %llu bytes; the "
                       "file is incomplete or not Safetensors",
                       (unsigned long long)n, (unsigned long long)file_bytes);
    if (n > SAFETENSORS_MAX_HEADER)
        return err_set(err, MOTE_E_FORMAT, "invalid Safetensors: header of %llu bytes; at most %d",
                       (unsigned long long)n, SAFETENSORS_MAX_HEADER);
    *out = LENGTH_BYTES + n;
    return MOTE_OK;
}

/* ---- one tensor ---- */

static mote_status tensor_error(const safetensor *t, const char *what, mote_error *err)
{
    return err_set(err, MOTE_E_FORMAT, "invalid Safetensors: tensor '%.*s' %s", STR_ARG(t->name),
                   what);
}

static mote_status tensor_check_name(const safetensor *t, mote_error *err)
{
    if (t->name.n == 0 || t->name.n > SAFETENSORS_MAX_NAME)
        return err_set(err, MOTE_E_FORMAT,
                       "invalid Safetensors: name of a tensor must be 1 to %d bytes, got %zu",
                       SAFETENSORS_MAX_NAME, t->name.n);
    for (size_t i = 0; i < t->name.n; i++)
        if ((unsigned char)t->name.p[i] < ' ' || t->name.p[i] == 0x7F)
            return err_set(err, MOTE_E_FORMAT,
                           "invalid Safetensors: name of a tensor contains control characters");
    return MOTE_OK;
}

/* Bytes of a value; 0: an unknown or a packed type. */
static uint32_t type_bytes(str name, safetensors_type *type)
{
    static const struct {
        const char *name;
        safetensors_type type;
        uint32_t bytes;
    } types[] = {
        {"F32", SAFETENSORS_F32, 4},       {"F16", SAFETENSORS_F16, 2},
        {"BF16", SAFETENSORS_BF16, 2},     {"F64", SAFETENSORS_OTHER, 8},
        {"I64", SAFETENSORS_OTHER, 8},     {"U64", SAFETENSORS_OTHER, 8},
        {"I32", SAFETENSORS_OTHER, 4},     {"U32", SAFETENSORS_OTHER, 4},
        {"I16", SAFETENSORS_OTHER, 2},     {"U16", SAFETENSORS_OTHER, 2},
        {"I8", SAFETENSORS_OTHER, 1},      {"U8", SAFETENSORS_OTHER, 1},
        {"BOOL", SAFETENSORS_OTHER, 1},    {"F8_E4M3", SAFETENSORS_OTHER, 1},
        {"F8_E5M2", SAFETENSORS_OTHER, 1}, {"F8_E8M0", SAFETENSORS_OTHER, 1},
    };
    *type = SAFETENSORS_OTHER;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (str_is(name, types[i].name)) {
            *type = types[i].type;
            return types[i].bytes;
        }
    return 0;
}

static bool node_u64(const json_node *node, uint64_t *out)
{
    int64_t value;
    if (!json_node_int64(node, &value) || value < 0)
        return false;
    *out = (uint64_t)value;
    return true;
}

static mote_status tensor_read_shape(safetensor *t, const json_node *shape, mote_error *err)
{
    if (!json_node_is(shape, JSON_IS_ARRAY) || json_node_size(shape) > SAFETENSORS_MAX_DIMS)
        return tensor_error(t, "must have a shape of at most 8 dimensions", err);
    t->values = 1;
    for (const json_node *d = json_node_first(shape); d != NULL; d = json_node_next(d)) {
        uint64_t n;
        if (!node_u64(d, &n) || !ckd_mul_u64(t->values, n, &t->values) || t->values > INT64_MAX)
            return tensor_error(t, "has a dimension that is no size, or a shape that overflows",
                                err);
        t->dims[t->n_dims++] = n;
    }
    return MOTE_OK;
}

static mote_status tensor_read_offsets(safetensor *t, const json_node *offsets, uint64_t data_start,
                                       uint64_t file_bytes, mote_error *err)
{
    uint64_t begin = 0, end = 0;
    const json_node *first = json_node_first(offsets);
    if (!json_node_is(offsets, JSON_IS_ARRAY) || json_node_size(offsets) != 2 ||
        !node_u64(first, &begin) || !node_u64(json_node_next(first), &end) || begin > end)
        return tensor_error(t, "must have data_offsets of two numbers, begin and end", err);
    if (end > file_bytes - data_start)
        return err_set(err, MOTE_E_FORMAT,
                       "invalid Safetensors: tensor '%.*s' ends at byte %llu of %llu bytes of "
                       "data; the file is incomplete, download it again",
                       STR_ARG(t->name), (unsigned long long)end,
                       (unsigned long long)(file_bytes - data_start));
    t->offset = data_start + begin;
    t->bytes = end - begin;
    return MOTE_OK;
}

static mote_status tensor_read(safetensor *t, const json_node *node, uint64_t data_start,
                               uint64_t file_bytes, mote_error *err)
{
    t->name = json_node_name(node);
    TRY(tensor_check_name(t, err));
    const json_node *type = json_node_get(node, "dtype");
    if (!json_node_is(node, JSON_IS_OBJECT) || !json_node_is(type, JSON_IS_STRING))
        return tensor_error(t, "must be an object with dtype, shape and data_offsets", err);
    t->type_name = json_node_text(type);
    TRY(tensor_read_shape(t, json_node_get(node, "shape"), err));
    TRY(tensor_read_offsets(t, json_node_get(node, "data_offsets"), data_start, file_bytes, err));
    uint64_t bytes = 0;
    const uint32_t each = type_bytes(t->type_name, &t->type);
    if (each != 0 && (!ckd_mul_u64(t->values, each, &bytes) || bytes != t->bytes))
        return err_set(err, MOTE_E_FORMAT,
                       "invalid Safetensors: tensor '%.*s' has %llu bytes, but %llu values of "
                       "type %.*s",
                       STR_ARG(t->name), (unsigned long long)t->bytes,
                       (unsigned long long)t->values, STR_ARG(t->type_name));
    return MOTE_OK;
}

/* ---- all tensors ---- */

static int tensor_by_place(const void *a, const void *b)
{
    const safetensor *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

static int tensor_by_name(const void *a, const void *b)
{
    const safetensor *x = a, *y = b;
    const size_t n = x->name.n < y->name.n ? x->name.n : y->name.n;
    const int order = memcmp(x->name.p, y->name.p, n);
    return order != 0 ? order : x->name.n < y->name.n ? -1 : x->name.n > y->name.n;
}

/* The data must fill the file: a gap could hide something, an overlap is never meant. */
static mote_status tensors_check_places(safetensors *s, uint64_t data_start, uint64_t file_bytes,
                                        mote_error *err)
{
    uint64_t end = data_start;
    if (s->n > 1)
        qsort(s->tensors, s->n, sizeof *s->tensors, tensor_by_place);
    for (uint32_t i = 0; i < s->n; i++) {
        const safetensor *t = &s->tensors[i];
        if (t->offset != end)
            return tensor_error(
                t, t->offset < end ? "overlaps another tensor" : "has a gap before its data", err);
        end += t->bytes;
    }
    if (end != file_bytes)
        return err_set(err, MOTE_E_FORMAT,
                       "invalid Safetensors: the tensors end at byte %llu of %llu",
                       (unsigned long long)end, (unsigned long long)file_bytes);
    if (s->n > 1)
        qsort(s->tensors, s->n, sizeof *s->tensors, tensor_by_name);
    return MOTE_OK;
}

static mote_status tensors_read(safetensors *s, const json_node *root, uint64_t data_start,
                                uint64_t file_bytes, mote_error *err)
{
    if (!json_node_is(root, JSON_IS_OBJECT))
        return err_set(err, MOTE_E_FORMAT, "invalid Safetensors: the header must be a JSON object");
    if (json_doc_repeats(s->doc))
        return err_set(err, MOTE_E_FORMAT, "invalid Safetensors: the header has a name twice");
    if (json_node_size(root) > SAFETENSORS_MAX_TENSORS)
        return err_set(err, MOTE_E_FORMAT, "invalid Safetensors: %u tensors; at most %d",
                       json_node_size(root), SAFETENSORS_MAX_TENSORS);
    s->tensors = mem_new(json_node_size(root), sizeof *s->tensors);
    if (s->tensors == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: %u tensors", json_node_size(root));
    for (const json_node *node = json_node_first(root); node != NULL; node = json_node_next(node))
        if (!str_is(json_node_name(node), "__metadata__"))
            TRY(tensor_read(&s->tensors[s->n++], node, data_start, file_bytes, err));
    return tensors_check_places(s, data_start, file_bytes, err);
}

mote_status safetensors_read(safetensors **out, const unsigned char *header, uint64_t n_header,
                             uint64_t file_bytes, mote_error *err)
{
    uint64_t wanted = 0;
    *out = NULL;
    if (n_header < LENGTH_BYTES)
        return err_set(err, MOTE_E_FORMAT, "invalid Safetensors: %llu bytes",
                       (unsigned long long)n_header);
    TRY(safetensors_header_bytes(header, file_bytes, &wanted, err));
    if (n_header < wanted)
        return err_set(err, MOTE_E_FORMAT, "invalid Safetensors: the header is incomplete");
    safetensors *s = mem_new(1, sizeof *s);
    if (s == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: Safetensors header");
    mote_status status = json_doc_read_large(
        &s->doc, (str){(const char *)header + LENGTH_BYTES, (size_t)wanted - LENGTH_BYTES},
        MAX_VALUES, err);
    if (status == MOTE_OK)
        status = tensors_read(s, json_doc_root(s->doc), wanted, file_bytes, err);
    else if (err != NULL)
        err_prefix(err, "invalid Safetensors");
    if (status != MOTE_OK) {
        safetensors_free(s);
        return status;
    }
    *out = s;
    return MOTE_OK;
}

void safetensors_free(safetensors *s)
{
    if (s == NULL)
        return;
    json_doc_free(s->doc);
    mem_free(s->tensors);
    mem_free(s);
}

uint32_t safetensors_count(const safetensors *s)
{
    return s->n;
}

const safetensor *safetensors_at(const safetensors *s, uint32_t i)
{
    return &s->tensors[i];
}
