/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_walk.c - see gguf_walk.h. */
#include "support/gguf_walk.h"

enum {
    SAMPLES = 64,     /* bytes read of a large range: both ends and some in between */
    MIN_ALIGNMENT = 8 /* a later part may have its own general.alignment */
};

/* True if the range is inside the file. Reads it; the sum prevents the compiler from removing the
 * reads. */
static bool is_inside(const test_range *file, const void *p, uint64_t n, unsigned *sum)
{
    const unsigned char *at = p;
    if (at < file->bytes || (uint64_t)(at - file->bytes) > file->n ||
        n > file->n - (uint64_t)(at - file->bytes))
        return false;
    for (uint64_t i = 0; n > 0 && i < SAMPLES; i++)
        *sum += at[(n - 1) * i / (SAMPLES - 1)];
    return true;
}

static bool has_name(str name)
{
    for (size_t i = 0; i < name.n; i++)
        if ((unsigned char)name.p[i] < ' ')
            return false;
    return name.n > 0 && name.n <= GGUF_MAX_KEY;
}

static const char *kv_fault(const test_range *file, const gguf *g, const gguf_kv *kv, unsigned *sum)
{
    char key[GGUF_MAX_KEY + 1];
    int64_t number;
    str text;
    if (!has_name(kv->key) || !is_inside(file, kv->key.p, kv->key.n, sum))
        return "key of an entry";
    if (!is_inside(file, kv->bytes, kv->n_bytes, sum))
        return "bytes of a value";
    if (!kv->is_array && kv->count != 1)
        return "count of a scalar";
    memcpy(key, kv->key.p, kv->key.n);
    key[kv->key.n] = 0;
    if (gguf_find(g, key) != kv)
        return "lookup of an entry by key";
    if (kv->type == GGUF_STRING) {
        gguf_str_walk walk = {0};
        uint64_t n = 0;
        for (; gguf_next_str(kv, &walk, &text); n++)
            if (!is_inside(file, text.p, text.n, sum))
                return "a string";
        return n == kv->count && walk.pos == kv->n_bytes ? NULL : "number of strings";
    }
    for (uint64_t i = 0; i < kv->count && i < SAMPLES; i++)
        if (gguf_int_at(kv, kv->count - 1 - i, &number))
            *sum += (unsigned)number;
    return gguf_int_at(kv, kv->count, &number) ? "element after the last one" : NULL;
}

static const char *tensor_fault(const test_range *file, const gguf *g, const gguf_tensor *t,
                                unsigned *sum)
{
    char name[GGUF_MAX_KEY + 1];
    if (!has_name(t->name) || !is_inside(file, t->name.p, t->name.n, sum))
        return "name of a tensor";
    memcpy(name, t->name.p, t->name.n);
    name[t->name.n] = 0;
    if (gguf_find_tensor(g, name) != t)
        return "lookup of a tensor by name";
    if (t->n_dims < 1 || t->n_dims > GGUF_MAX_DIMS ||
        t->offset % (t->part == 0 ? gguf_alignment(g) : MIN_ALIGNMENT) != 0)
        return "shape or alignment of a tensor";
    if (t->format == NULL)
        return t->data == NULL && t->bytes == 0 ? NULL : "data of an unsupported type";
    __uint128_t values = 1;
    for (uint32_t i = 0; i < GGUF_MAX_DIMS; i++)
        values *= t->dims[i];
    if (values == 0 || values / t->format->block_values * t->format->block_bytes != t->bytes)
        return "size of a tensor";
    if (t->data != file->bytes + t->offset || !is_inside(file, t->data, t->bytes, sum))
        return "offset of a tensor";
    return NULL;
}

const char *test_gguf_parts_fault(const gguf *g, const test_range *parts, uint32_t n_parts)
{
    const char *fault = NULL;
    unsigned sum = 0;
    for (uint64_t i = 0; i < gguf_n_kv(g) && fault == NULL; i++)
        fault = kv_fault(&parts[0], g, gguf_kv_at(g, i), &sum);
    for (uint64_t i = 0; i < gguf_n_tensors(g) && fault == NULL; i++) {
        const gguf_tensor *t = gguf_tensor_at(g, i);
        fault = t->part < n_parts ? tensor_fault(&parts[t->part], g, t, &sum) : "part of a tensor";
    }
    static volatile unsigned sink;
    sink = sum;
    (void)sink;
    return fault;
}

const char *test_gguf_fault(const gguf *g, const unsigned char *bytes, uint64_t n)
{
    const test_range file = {bytes, n};
    return test_gguf_parts_fault(g, &file, 1);
}
