/* SPDX-License-Identifier: Apache-2.0 */
/* get.c - questions to a GGUF that has been read: entries, typed values, walks. */
#include "gguf/gguf_file.h"

#include "base/cursor.h"

uint64_t gguf_n_kv(const gguf *g)
{
    return g->n_kv;
}

const gguf_kv *gguf_kv_at(const gguf *g, uint64_t i)
{
    return &g->kv[i];
}

const gguf_kv *gguf_find(const gguf *g, const char *key)
{
    uint32_t i;
    return strmap_get(&g->kv_by_key, str_of(key), &i) ? &g->kv[i] : NULL;
}

uint64_t gguf_n_tensors(const gguf *g)
{
    return g->n_tensors;
}

const gguf_tensor *gguf_tensor_at(const gguf *g, uint64_t i)
{
    return &g->tensors[i];
}

const gguf_tensor *gguf_find_tensor(const gguf *g, const char *name)
{
    uint32_t i;
    return strmap_get(&g->tensor_by_name, str_of(name), &i) ? &g->tensors[i] : NULL;
}

uint64_t gguf_alignment(const gguf *g)
{
    return g->alignment;
}

/* ---- elements ---- */

/* `at` is inside the value and the value has been read, so the bytes are there. */
static int64_t signed_at(const unsigned char *at, uint32_t bytes)
{
    int8_t i8;
    int16_t i16;
    int32_t i32;
    int64_t i64;
    switch (bytes) {
    case 1: memcpy(&i8, at, sizeof i8); return i8;
    case 2: memcpy(&i16, at, sizeof i16); return i16;
    case 4: memcpy(&i32, at, sizeof i32); return i32;
    default: memcpy(&i64, at, sizeof i64); return i64;
    }
}

static uint64_t unsigned_at(const unsigned char *at, uint32_t bytes)
{
    uint64_t value = 0;
    memcpy(&value, at, bytes); /* little-endian: the low bytes come first */
    return value;
}

bool gguf_int_at(const gguf_kv *kv, uint64_t i, int64_t *out)
{
    if (i >= kv->count)
        return false;
    const uint32_t bytes = gguf_scalar_bytes(kv->type);
    uint64_t value;
    switch (kv->type) {
    case GGUF_I8:
    case GGUF_I16:
    case GGUF_I32:
    case GGUF_I64: *out = signed_at(kv->bytes + i * bytes, bytes); return true;
    case GGUF_U8:
    case GGUF_U16:
    case GGUF_U32:
    case GGUF_U64:
        value = unsigned_at(kv->bytes + i * bytes, bytes);
        if (value > INT64_MAX)
            return false;
        *out = (int64_t)value;
        return true;
    default: return false;
    }
}

bool gguf_next_str(const gguf_kv *kv, gguf_str_walk *walk, str *out)
{
    if (kv->type != GGUF_STRING || walk->i >= kv->count)
        return false;
    cursor c = {kv->bytes, (size_t)kv->n_bytes, (size_t)walk->pos};
    uint64_t n;
    const unsigned char *p;
    if (!cursor_u64(&c, &n) || !cursor_view(&c, n, &p))
        return false;
    *out = (str){(const char *)p, (size_t)n};
    walk->i++;
    walk->pos = c.pos;
    return true;
}

/* ---- single values ---- */

/* *kv is NULL when the key is absent and may be. */
static mote_status find_single(const gguf *g, const char *key, bool *found, const gguf_kv **kv,
                               mote_error *err)
{
    *kv = gguf_find(g, key);
    if (found != NULL)
        *found = *kv != NULL;
    else if (*kv == NULL)
        return err_set(err, MOTE_E_FORMAT, "the metadata entry '%s' is missing", key);
    if (*kv != NULL && (*kv)->is_array)
        return err_set(err, MOTE_E_FORMAT, "the metadata entry '%s' is an array, not one value",
                       key);
    return MOTE_OK;
}

static mote_status wrong_kind(const char *key, const char *wanted, mote_error *err)
{
    return err_set(err, MOTE_E_FORMAT, "the metadata entry '%s' is not %s", key, wanted);
}

mote_status gguf_get_u32(const gguf *g, const char *key, uint32_t *out, bool *found,
                         mote_error *err)
{
    const gguf_kv *kv;
    int64_t value;
    TRY(find_single(g, key, found, &kv, err));
    if (kv == NULL)
        return MOTE_OK;
    if (!gguf_int_at(kv, 0, &value) || value < 0 || value > UINT32_MAX)
        return wrong_kind(key, "a whole number from 0 to 4294967295", err);
    *out = (uint32_t)value;
    return MOTE_OK;
}

mote_status gguf_get_f32(const gguf *g, const char *key, float *out, bool *found, mote_error *err)
{
    const gguf_kv *kv;
    TRY(find_single(g, key, found, &kv, err));
    if (kv == NULL)
        return MOTE_OK;
    if (kv->type == GGUF_F32) {
        memcpy(out, kv->bytes, sizeof *out);
    } else if (kv->type == GGUF_F64) {
        double value;
        memcpy(&value, kv->bytes, sizeof value);
        *out = (float)value;
    } else {
        return wrong_kind(key, "a floating-point number", err);
    }
    return MOTE_OK;
}

mote_status gguf_get_bool(const gguf *g, const char *key, bool *out, bool *found, mote_error *err)
{
    const gguf_kv *kv;
    TRY(find_single(g, key, found, &kv, err));
    if (kv == NULL)
        return MOTE_OK;
    if (kv->type != GGUF_BOOL)
        return wrong_kind(key, "true or false", err);
    *out = kv->bytes[0] != 0;
    return MOTE_OK;
}

mote_status gguf_get_str(const gguf *g, const char *key, str *out, bool *found, mote_error *err)
{
    const gguf_kv *kv;
    gguf_str_walk walk = {0};
    TRY(find_single(g, key, found, &kv, err));
    if (kv == NULL)
        return MOTE_OK;
    if (!gguf_next_str(kv, &walk, out))
        return wrong_kind(key, "a string", err);
    return MOTE_OK;
}
