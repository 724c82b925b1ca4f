/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gguf.c - reads and validates a GGUF file; typed access to metadata and tensors.
 *
 * The file is untrusted input:
 * - Every byte is read through a cursor with bounds checks.
 * - A count is accepted only if the bytes it needs are present, so memory use is bounded by a
 *   small multiple of the file size.
 * - Sums and products of sizes are checked for overflow.
 * - Arrays of arrays are rejected, so there is no recursion.
 * - Names contain no control bytes, so error messages can quote them.
 *
 * The reader checks structure only. The code that uses a value checks its meaning.
 */
#include "gguf/gguf.h"

#include "base/ckd.h"
#include "base/cursor.h"
#include "base/mem.h"
#include "base/strmap.h"

struct gguf {
    const unsigned char *bytes;
    uint64_t n_bytes;
    gguf_kv *kv; /* [n_kv] in file order */
    uint64_t n_kv;
    strmap kv_by_key;
    gguf_tensor *tensors; /* [n_tensors] in file order */
    uint64_t n_tensors;
    strmap tensor_by_name;
    uint64_t alignment;
    uint64_t data_start; /* tensor offsets in the file count from here */
};

/* ---- reading ---- */

enum {
    OLDEST_VERSION = 2,
    NEWEST_VERSION = 3,
    DEFAULT_ALIGNMENT = 32,
    MIN_ALIGNMENT = 8, /* as the format demands; also what our element types need */
    /* The fewest bytes an entry can take: this times a count must be present. */
    MIN_KV_BYTES = 8 + 1 + 4 + 1,            /* length, key, type, value */
    MIN_TENSOR_BYTES = 8 + 1 + 4 + 8 + 4 + 8 /* length, name, n_dims, dim, type, offset */
};

static mote_status cut_short(const cursor *c, const char *what, mote_error *err)
{
    return err_set(err, MOTE_E_FORMAT, "the file is cut short: %s at byte %zu needs more than %zu",
                   what, c->pos, c->n);
}

/* Size of a scalar type; 0 for strings, arrays and unknown types. */
static uint32_t gguf_scalar_bytes(uint32_t type)
{
    static const uint8_t bytes[GGUF_N_TYPES] = {
        [GGUF_U8] = 1,  [GGUF_I8] = 1,  [GGUF_U16] = 2, [GGUF_I16] = 2,
        [GGUF_U32] = 4, [GGUF_I32] = 4, [GGUF_F32] = 4, [GGUF_BOOL] = 1,
        [GGUF_U64] = 8, [GGUF_I64] = 8, [GGUF_F64] = 8};
    return type < GGUF_N_TYPES ? bytes[type] : 0;
}

static bool take_string(cursor *c, str *out)
{
    cursor ahead = *c;
    uint64_t n;
    const unsigned char *p;
    if (!cursor_u64(&ahead, &n) || !cursor_view(&ahead, n, &p))
        return false;
    *out = (str){(const char *)p, (size_t)n};
    *c = ahead;
    return true;
}

/* The name of a key or a tensor. */
static mote_status take_name(cursor *c, str *out, const char *what, mote_error *err)
{
    const size_t at = c->pos;
    if (!take_string(c, out))
        return cut_short(c, what, err);
    if (out->n == 0 || out->n > GGUF_MAX_KEY)
        return err_set(err, MOTE_E_FORMAT, "%s at byte %zu has a name of %zu bytes, not 1 to %d",
                       what, at, out->n, GGUF_MAX_KEY);
    for (size_t i = 0; i < out->n; i++)
        if ((unsigned char)out->p[i] < ' ' || out->p[i] == 0x7F)
            return err_set(err, MOTE_E_FORMAT, "the name of %s at byte %zu has control characters",
                           what, at);
    return MOTE_OK;
}

/* ---- metadata ---- */

static bool bools_are_sound(const unsigned char *bytes, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (bytes[i] > 1)
            return false;
    return true;
}

/* The encoded elements of a value: `count` of `type`, one after the other. */
static mote_status take_elements(cursor *c, gguf_kv *kv, mote_error *err)
{
    const size_t start = c->pos;
    const unsigned char *elements = c->p + start;
    if (kv->type == GGUF_STRING) {
        str ignored; /* each takes eight bytes at least, so the file bounds the loop */
        for (uint64_t i = 0; i < kv->count; i++)
            if (!take_string(c, &ignored))
                return cut_short(c, "a string", err);
    } else {
        uint64_t bytes;
        if (!ckd_mul_u64(kv->count, gguf_scalar_bytes(kv->type), &bytes) || !cursor_skip(c, bytes))
            return cut_short(c, "a value", err);
        if (kv->type == GGUF_BOOL && !bools_are_sound(elements, kv->count))
            return err_set(err, MOTE_E_FORMAT, "'%.*s' has a truth value that is neither 0 nor 1",
                           STR_ARG(kv->key));
    }
    kv->bytes = elements;
    kv->n_bytes = c->pos - start;
    return MOTE_OK;
}

static mote_status take_kv(cursor *c, gguf_kv *kv, mote_error *err)
{
    TRY(take_name(c, &kv->key, "a metadata entry", err));
    uint32_t type;
    if (!cursor_u32(c, &type))
        return cut_short(c, "the type of a value", err);
    kv->count = 1;
    if (type == GGUF_ARRAY) {
        kv->is_array = true;
        if (!cursor_u32(c, &type) || !cursor_u64(c, &kv->count))
            return cut_short(c, "the head of an array", err);
    }
    if (type != GGUF_STRING && gguf_scalar_bytes(type) == 0)
        return err_set(err, MOTE_E_FORMAT, "'%.*s' has a value of type %u, which mote cannot read",
                       STR_ARG(kv->key), type);
    kv->type = (gguf_type)type;
    return take_elements(c, kv, err);
}

static mote_status read_metadata(gguf *g, cursor *c, mote_error *err)
{
    g->kv = mem_new(g->n_kv, sizeof *g->kv);
    if (g->kv == NULL)
        return err_set(err, MOTE_E_MEMORY, "no memory for the metadata");
    TRY(strmap_init(&g->kv_by_key, g->n_kv, err));
    for (uint32_t i = 0; i < g->n_kv; i++) {
        bool existing;
        TRY(take_kv(c, &g->kv[i], err));
        TRY(strmap_put(&g->kv_by_key, g->kv[i].key, i, &existing, err));
        if (existing)
            return err_set(err, MOTE_E_FORMAT, "the metadata key '%.*s' appears twice",
                           STR_ARG(g->kv[i].key));
    }
    return MOTE_OK;
}

static mote_status read_alignment(gguf *g, mote_error *err)
{
    uint32_t alignment = DEFAULT_ALIGNMENT;
    bool found;
    TRY(gguf_get_u32(g, "general.alignment", &alignment, &found, err));
    if (alignment < MIN_ALIGNMENT || alignment > GGUF_MAX_ALIGNMENT ||
        (alignment & (alignment - 1)) != 0)
        return err_set(err, MOTE_E_FORMAT,
                       "general.alignment is %u, not a power of two from %d to %d", alignment,
                       MIN_ALIGNMENT, GGUF_MAX_ALIGNMENT);
    g->alignment = alignment;
    return MOTE_OK;
}

/* ---- tensors ---- */

/* The table entry; where the data lie is known only after the whole table. */
static mote_status take_tensor(cursor *c, gguf_tensor *t, mote_error *err)
{
    TRY(take_name(c, &t->name, "a tensor", err));
    if (!cursor_u32(c, &t->n_dims))
        return cut_short(c, "a tensor", err);
    if (t->n_dims < 1 || t->n_dims > GGUF_MAX_DIMS)
        return err_set(err, MOTE_E_FORMAT, "tensor '%.*s' has %u dimensions, not 1 to %d",
                       STR_ARG(t->name), t->n_dims, GGUF_MAX_DIMS);
    uint64_t values = 1;
    for (uint32_t i = 0; i < GGUF_MAX_DIMS; i++) {
        t->dims[i] = 1;
        if (i < t->n_dims && !cursor_u64(c, &t->dims[i]))
            return cut_short(c, "the shape of a tensor", err);
        if (t->dims[i] == 0 || !ckd_mul_u64(values, t->dims[i], &values) || values > INT64_MAX)
            return err_set(err, MOTE_E_FORMAT, "tensor '%.*s' has an impossible shape",
                           STR_ARG(t->name));
    }
    if (!cursor_u32(c, &t->gguf_type) || !cursor_u64(c, &t->offset))
        return cut_short(c, "a tensor", err);
    t->format = quant_from_gguf(t->gguf_type);
    return MOTE_OK;
}

/* Whole rows of whole blocks: the product of the dims is known not to overflow. */
static mote_status size_tensor(gguf_tensor *t, mote_error *err)
{
    uint64_t row;
    if (!quant_row_bytes(t->format->format, t->dims[0], &row))
        return err_set(err, MOTE_E_FORMAT,
                       "tensor '%.*s' has rows of %llu values, which is no multiple of the %u of a "
                       "%s block",
                       STR_ARG(t->name), (unsigned long long)t->dims[0], t->format->block_values,
                       t->format->name);
    t->bytes = row;
    for (uint32_t i = 1; i < GGUF_MAX_DIMS; i++)
        if (!ckd_mul_u64(t->bytes, t->dims[i], &t->bytes))
            return err_set(err, MOTE_E_FORMAT, "tensor '%.*s' has an impossible shape",
                           STR_ARG(t->name));
    return MOTE_OK;
}

/* Turns the offset in the data section into one in the file, and checks the range. */
static mote_status place_tensor(const gguf *g, gguf_tensor *t, mote_error *err)
{
    if (t->offset % g->alignment != 0)
        return err_set(err, MOTE_E_FORMAT,
                       "the data of tensor '%.*s' are not aligned to %llu bytes", STR_ARG(t->name),
                       (unsigned long long)g->alignment);
    if (t->format != NULL)
        TRY(size_tensor(t, err));
    uint64_t end;
    if (!ckd_add_u64(t->offset, g->data_start, &t->offset) ||
        !ckd_add_u64(t->offset, t->bytes, &end) || end > g->n_bytes)
        return err_set(err, MOTE_E_FORMAT,
                       "the data of tensor '%.*s' lie beyond the end of the file: it is cut short "
                       "or damaged",
                       STR_ARG(t->name));
    if (t->format != NULL)
        t->data = g->bytes + t->offset;
    return MOTE_OK;
}

static mote_status read_tensors(gguf *g, cursor *c, mote_error *err)
{
    /* Checked again, because the metadata have used bytes up since the header. */
    if (g->n_tensors > cursor_left(c) / MIN_TENSOR_BYTES)
        return cut_short(c, "the tensor table", err);
    g->tensors = mem_new(g->n_tensors, sizeof *g->tensors);
    if (g->tensors == NULL)
        return err_set(err, MOTE_E_MEMORY, "no memory for the tensor table");
    TRY(strmap_init(&g->tensor_by_name, g->n_tensors, err));
    for (uint32_t i = 0; i < g->n_tensors; i++) {
        bool existing;
        TRY(take_tensor(c, &g->tensors[i], err));
        TRY(strmap_put(&g->tensor_by_name, g->tensors[i].name, i, &existing, err));
        if (existing)
            return err_set(err, MOTE_E_FORMAT, "the tensor '%.*s' appears twice",
                           STR_ARG(g->tensors[i].name));
    }
    if (!ckd_round_up_u64(c->pos, g->alignment, &g->data_start))
        return cut_short(c, "the tensor data", err);
    for (uint64_t i = 0; i < g->n_tensors; i++)
        TRY(place_tensor(g, &g->tensors[i], err));
    return MOTE_OK;
}

/* ---- the file ---- */

static mote_status check_version(uint32_t version, mote_error *err)
{
    if (version >= OLDEST_VERSION && version <= NEWEST_VERSION)
        return MOTE_OK;
    if (version == (uint32_t)OLDEST_VERSION << 24 || version == (uint32_t)NEWEST_VERSION << 24)
        return err_set(err, MOTE_E_UNSUPPORTED,
                       "this is a big-endian GGUF file; mote reads little-endian ones");
    return err_set(err, MOTE_E_UNSUPPORTED,
                   "this is a GGUF file of version %u; mote reads %d to %d", version,
                   OLDEST_VERSION, NEWEST_VERSION);
}

static mote_status read_header(gguf *g, cursor *c, mote_error *err)
{
    char magic[4];
    uint32_t version;
    if (!cursor_copy(c, magic, sizeof magic) || memcmp(magic, "GGUF", sizeof magic) != 0)
        return err_set(err, MOTE_E_FORMAT, "this is not a GGUF file");
    if (!cursor_u32(c, &version))
        return cut_short(c, "the header", err);
    TRY(check_version(version, err));
    if (!cursor_u64(c, &g->n_tensors) || !cursor_u64(c, &g->n_kv))
        return cut_short(c, "the header", err);
    if (g->n_kv > GGUF_MAX_KV || g->n_tensors > GGUF_MAX_TENSORS)
        return err_set(
            err, MOTE_E_FORMAT,
            "the file claims %llu metadata entries and %llu tensors; mote reads up to %d "
            "and %d",
            (unsigned long long)g->n_kv, (unsigned long long)g->n_tensors, GGUF_MAX_KV,
            GGUF_MAX_TENSORS);
    if (g->n_kv > cursor_left(c) / MIN_KV_BYTES)
        return cut_short(c, "the metadata", err);
    return MOTE_OK;
}

static mote_status read_all(gguf *g, mote_error *err)
{
    cursor c = {g->bytes, (size_t)g->n_bytes, 0};
    TRY(read_header(g, &c, err));
    TRY(read_metadata(g, &c, err));
    TRY(read_alignment(g, err));
    return read_tensors(g, &c, err);
}

mote_status gguf_read(gguf **out, const unsigned char *bytes, uint64_t n_bytes, mote_error *err)
{
    *out = NULL;
    gguf *g = mem_new(1, sizeof *g);
    if (g == NULL)
        return err_set(err, MOTE_E_MEMORY, "no memory to read the model file");
    g->bytes = bytes;
    g->n_bytes = n_bytes;
    const mote_status status = read_all(g, err);
    if (status != MOTE_OK) {
        gguf_free(g);
        return status;
    }
    *out = g;
    return MOTE_OK;
}

static uint64_t map_bytes(const strmap *map)
{
    return map->slots != NULL ? ((uint64_t)map->mask + 1) * sizeof *map->slots : 0;
}

uint64_t gguf_private_bytes(const gguf *g)
{
    return sizeof *g + g->n_kv * sizeof *g->kv + g->n_tensors * sizeof *g->tensors +
           map_bytes(&g->kv_by_key) + map_bytes(&g->tensor_by_name);
}

void gguf_free(gguf *g)
{
    if (g == NULL)
        return;
    strmap_fini(&g->tensor_by_name);
    strmap_fini(&g->kv_by_key);
    mem_free(g->tensors);
    mem_free(g->kv);
    mem_free(g);
}

/* ---- access ---- */

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
