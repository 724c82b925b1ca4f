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
#include "gguf/gguf_int.h"

#include "base/ckd.h"
#include "base/cursor.h"
#include "base/mem.h"

#include <stdio.h>

/* ---- reading ---- */

enum {
    OLDEST_VERSION = 2,
    NEWEST_VERSION = 3,
    DEFAULT_ALIGNMENT = 32,
    MIN_ALIGNMENT = 8, /* required by the format; enough for every element type */
    /* Smallest size of an entry. Bounds the counts in the header by the bytes present. */
    MIN_KV_BYTES = 8 + 1 + 4 + 1,            /* length, key, type, value */
    MIN_TENSOR_BYTES = 8 + 1 + 4 + 8 + 4 + 8 /* length, name, n_dims, dim, type, offset */
};

static mote_status gguf_truncated(const cursor *c, const char *what, mote_error *err)
{
    return err_set(err, MOTE_E_FORMAT, "invalid GGUF: truncated in %s at byte %zu of %zu", what,
                   c->pos, c->n);
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

/* On failure the cursor is unchanged. */
static bool cursor_string(cursor *c, str *out)
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

/* Reads the name of a key or a tensor. */
static mote_status cursor_name(cursor *c, str *out, const char *what, mote_error *err)
{
    const size_t at = c->pos;
    if (!cursor_string(c, out))
        return gguf_truncated(c, what, err);
    if (out->n == 0 || out->n > GGUF_MAX_KEY)
        return err_set(err, MOTE_E_FORMAT,
                       "invalid GGUF: name of %s at byte %zu must be 1 to %d bytes, got %zu", what,
                       at, GGUF_MAX_KEY, out->n);
    for (size_t i = 0; i < out->n; i++)
        if ((unsigned char)out->p[i] < ' ' || out->p[i] == 0x7F)
            return err_set(err, MOTE_E_FORMAT,
                           "invalid GGUF: name of %s at byte %zu contains control characters", what,
                           at);
    return MOTE_OK;
}

/* ---- metadata ---- */

static bool bools_valid(const unsigned char *bytes, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (bytes[i] > 1)
            return false;
    return true;
}

/* Reads the `count` elements of a value. */
static mote_status kv_read_elements(cursor *c, gguf_kv *kv, mote_error *err)
{
    const size_t start = c->pos;
    const unsigned char *elements = c->p + start;
    if (kv->type == GGUF_STRING) {
        str ignored; /* each has at least eight bytes, so the file size bounds the loop */
        for (uint64_t i = 0; i < kv->count; i++)
            if (!cursor_string(c, &ignored))
                return gguf_truncated(c, "a string", err);
    } else {
        uint64_t bytes;
        if (!ckd_mul_u64(kv->count, gguf_scalar_bytes(kv->type), &bytes) || !cursor_skip(c, bytes))
            return gguf_truncated(c, "a value", err);
        if (kv->type == GGUF_BOOL && !bools_valid(elements, kv->count))
            return err_set(err, MOTE_E_FORMAT,
                           "invalid GGUF: boolean metadata key '%.*s' must be 0 or 1",
                           STR_ARG(kv->key));
    }
    kv->bytes = elements;
    kv->n_bytes = c->pos - start;
    return MOTE_OK;
}

static mote_status kv_read(cursor *c, gguf_kv *kv, mote_error *err)
{
    TRY(cursor_name(c, &kv->key, "a metadata entry", err));
    uint32_t type;
    if (!cursor_u32(c, &type))
        return gguf_truncated(c, "a value type", err);
    kv->count = 1;
    if (type == GGUF_ARRAY) {
        kv->is_array = true;
        if (!cursor_u32(c, &type) || !cursor_u64(c, &kv->count))
            return gguf_truncated(c, "an array header", err);
    }
    if (type != GGUF_STRING && gguf_scalar_bytes(type) == 0)
        return err_set(err, MOTE_E_FORMAT, "invalid GGUF: metadata key '%.*s' has unknown type %u",
                       STR_ARG(kv->key), type);
    kv->type = (gguf_type)type;
    return kv_read_elements(c, kv, err);
}

static mote_status gguf_read_metadata(gguf *g, cursor *c, mote_error *err)
{
    g->kv = mem_new(g->n_kv, sizeof *g->kv);
    if (g->kv == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: %llu metadata entries",
                       (unsigned long long)g->n_kv);
    TRY(strmap_init(&g->kv_by_key, g->n_kv, err));
    for (uint32_t i = 0; i < g->n_kv; i++) {
        bool existing;
        TRY(kv_read(c, &g->kv[i], err));
        TRY(strmap_put(&g->kv_by_key, g->kv[i].key, i, &existing, err));
        if (existing)
            return err_set(err, MOTE_E_FORMAT, "invalid GGUF: duplicate metadata key '%.*s'",
                           STR_ARG(g->kv[i].key));
    }
    return MOTE_OK;
}

static mote_status gguf_read_alignment(gguf *g, mote_error *err)
{
    uint32_t alignment = DEFAULT_ALIGNMENT;
    bool found;
    TRY(gguf_get_u32(g, "general.alignment", &alignment, &found, err));
    if (alignment < MIN_ALIGNMENT || alignment > GGUF_MAX_ALIGNMENT ||
        (alignment & (alignment - 1)) != 0)
        return err_set(err, MOTE_E_FORMAT,
                       "general.alignment must be a power of two from %d to %d, got %u",
                       MIN_ALIGNMENT, GGUF_MAX_ALIGNMENT, alignment);
    g->alignment = alignment;
    return MOTE_OK;
}

/* ---- tensors ---- */

/* Reads a table entry. The data section starts after the table, so tensor_locate runs later. */
static mote_status tensor_read(cursor *c, gguf_tensor *t, mote_error *err)
{
    TRY(cursor_name(c, &t->name, "a tensor", err));
    if (!cursor_u32(c, &t->n_dims))
        return gguf_truncated(c, "a tensor", err);
    if (t->n_dims < 1 || t->n_dims > GGUF_MAX_DIMS)
        return err_set(err, MOTE_E_FORMAT, "tensor '%.*s' must have 1 to %d dimensions, got %u",
                       STR_ARG(t->name), GGUF_MAX_DIMS, t->n_dims);
    uint64_t values = 1;
    for (uint32_t i = 0; i < GGUF_MAX_DIMS; i++) {
        t->dims[i] = 1;
        if (i < t->n_dims && !cursor_u64(c, &t->dims[i]))
            return gguf_truncated(c, "the shape of a tensor", err);
        if (t->dims[i] == 0 || !ckd_mul_u64(values, t->dims[i], &values) || values > INT64_MAX)
            return err_set(err, MOTE_E_FORMAT,
                           "invalid GGUF: shape of tensor '%.*s' is empty or overflows",
                           STR_ARG(t->name));
    }
    if (!cursor_u32(c, &t->gguf_type) || !cursor_u64(c, &t->offset))
        return gguf_truncated(c, "a tensor", err);
    t->format = quant_from_gguf(t->gguf_type);
    return MOTE_OK;
}

/* Sets the size in bytes. Rows are whole blocks. */
static mote_status tensor_set_size(gguf_tensor *t, mote_error *err)
{
    uint64_t row;
    if (!quant_row_bytes(t->format->format, t->dims[0], &row))
        return err_set(err, MOTE_E_FORMAT,
                       "invalid GGUF: tensor '%.*s' has rows of %llu values: too long, or not a "
                       "multiple of %u (%s block)",
                       STR_ARG(t->name), (unsigned long long)t->dims[0], t->format->block_values,
                       t->format->name);
    t->bytes = row;
    for (uint32_t i = 1; i < GGUF_MAX_DIMS; i++)
        if (!ckd_mul_u64(t->bytes, t->dims[i], &t->bytes))
            return err_set(err, MOTE_E_FORMAT,
                           "invalid GGUF: size of tensor '%.*s' overflows 64 bits",
                           STR_ARG(t->name));
    return MOTE_OK;
}

/* Converts the offset in the data section to a file offset and checks the range. */
static mote_status tensor_locate(const gguf *g, gguf_tensor *t, mote_error *err)
{
    if (t->offset % g->alignment != 0)
        return err_set(err, MOTE_E_FORMAT,
                       "invalid GGUF: data of tensor '%.*s' are not aligned to %llu bytes",
                       STR_ARG(t->name), (unsigned long long)g->alignment);
    if (t->format != NULL)
        TRY(tensor_set_size(t, err));
    uint64_t end;
    if (!ckd_add_u64(t->offset, g->data_start, &t->offset) ||
        !ckd_add_u64(t->offset, t->bytes, &end) || end > g->n_bytes)
        return err_set(err, MOTE_E_FORMAT,
                       "invalid GGUF: data of tensor '%.*s' are beyond the end of the file "
                       "(truncated download?)",
                       STR_ARG(t->name));
    if (t->format != NULL)
        t->data = g->bytes + t->offset;
    return MOTE_OK;
}

static mote_status gguf_read_tensors(gguf *g, cursor *c, mote_error *err)
{
    /* The header check bounds only the metadata. */
    if (g->n_tensors > cursor_left(c) / MIN_TENSOR_BYTES)
        return gguf_truncated(c, "the tensor table", err);
    g->tensors = mem_new(g->n_tensors, sizeof *g->tensors);
    if (g->tensors == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: table of %llu tensors",
                       (unsigned long long)g->n_tensors);
    TRY(strmap_init(&g->tensor_by_name, g->n_tensors, err));
    for (uint32_t i = 0; i < g->n_tensors; i++) {
        bool existing;
        TRY(tensor_read(c, &g->tensors[i], err));
        TRY(strmap_put(&g->tensor_by_name, g->tensors[i].name, i, &existing, err));
        if (existing)
            return err_set(err, MOTE_E_FORMAT, "invalid GGUF: duplicate tensor '%.*s'",
                           STR_ARG(g->tensors[i].name));
    }
    if (!ckd_round_up_u64(c->pos, g->alignment, &g->data_start))
        return gguf_truncated(c, "the tensor data", err);
    for (uint64_t i = 0; i < g->n_tensors; i++)
        TRY(tensor_locate(g, &g->tensors[i], err));
    return MOTE_OK;
}

/* ---- the file ---- */

static mote_status gguf_check_version(uint32_t version, mote_error *err)
{
    if (version >= OLDEST_VERSION && version <= NEWEST_VERSION)
        return MOTE_OK;
    if (version == (uint32_t)OLDEST_VERSION << 24 || version == (uint32_t)NEWEST_VERSION << 24)
        return err_set(err, MOTE_E_UNSUPPORTED,
                       "big-endian GGUF is not supported; supported: little-endian");
    return err_set(err, MOTE_E_UNSUPPORTED, "GGUF version %u is not supported; supported: %d to %d",
                   version, OLDEST_VERSION, NEWEST_VERSION);
}

static mote_status gguf_read_header(gguf *g, cursor *c, mote_error *err)
{
    char magic[4];
    uint32_t version;
    if (!cursor_copy(c, magic, sizeof magic) || memcmp(magic, "GGUF", sizeof magic) != 0)
        return err_set(err, MOTE_E_FORMAT, "not a GGUF file: wrong magic bytes");
    if (!cursor_u32(c, &version))
        return gguf_truncated(c, "the header", err);
    TRY(gguf_check_version(version, err));
    if (!cursor_u64(c, &g->n_tensors) || !cursor_u64(c, &g->n_kv))
        return gguf_truncated(c, "the header", err);
    if (g->n_kv > GGUF_MAX_KV || g->n_tensors > GGUF_MAX_TENSORS)
        return err_set(err, MOTE_E_FORMAT,
                       "invalid GGUF: %llu metadata entries and %llu tensors; at most %d and %d",
                       (unsigned long long)g->n_kv, (unsigned long long)g->n_tensors, GGUF_MAX_KV,
                       GGUF_MAX_TENSORS);
    if (g->n_kv > cursor_left(c) / MIN_KV_BYTES)
        return gguf_truncated(c, "the metadata", err);
    return MOTE_OK;
}

static mote_status gguf_read_all(gguf *g, mote_error *err)
{
    cursor c = {g->bytes, (size_t)g->n_bytes, 0};
    TRY(gguf_read_header(g, &c, err));
    TRY(gguf_read_metadata(g, &c, err));
    TRY(gguf_read_alignment(g, err));
    return gguf_read_tensors(g, &c, err);
}

mote_status gguf_read(gguf **out, const unsigned char *bytes, uint64_t n_bytes, mote_error *err)
{
    *out = NULL;
    gguf *g = mem_new(1, sizeof *g);
    if (g == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: %zu bytes for a GGUF file", sizeof *g);
    g->bytes = bytes;
    g->n_bytes = n_bytes;
    const mote_status status = gguf_read_all(g, err);
    if (status != MOTE_OK) {
        gguf_free(g);
        return status;
    }
    *out = g;
    return MOTE_OK;
}

static uint64_t strmap_bytes(const strmap *map)
{
    return map->slots != NULL ? ((uint64_t)map->mask + 1) * sizeof *map->slots : 0;
}

uint64_t gguf_private_bytes(const gguf *g)
{
    return sizeof *g + g->n_kv * sizeof *g->kv + g->n_tensors * sizeof *g->tensors +
           strmap_bytes(&g->kv_by_key) + strmap_bytes(&g->tensor_by_name);
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

int64_t gguf_block_of(str name)
{
    enum { START = sizeof "blk." - 1, MAX_DIGITS = 8 };
    int64_t n = 0;
    size_t i = START;
    if (name.n < START || memcmp(name.p, "blk.", START) != 0)
        return -1;
    for (; i < name.n && name.p[i] >= '0' && name.p[i] <= '9' && i < START + MAX_DIGITS; i++)
        n = 10 * n + (name.p[i] - '0');
    return i > START && i < name.n && name.p[i] == '.' ? n : -1;
}

/* ---- elements ---- */

static int64_t load_signed(const unsigned char *at, uint32_t bytes)
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

static uint64_t load_unsigned(const unsigned char *at, uint32_t bytes)
{
    uint64_t value = 0;
    memcpy(&value, at, bytes); /* little-endian: the low bytes come first */
    return value;
}

/* Values of general.file_type in files of this model family. */
static const struct {
    uint32_t id;
    const char *name;
} file_types[] = {
    {0, "F32"},      {1, "F16"},      {2, "Q4_0"},    {3, "Q4_1"},    {7, "Q8_0"},
    {8, "Q5_0"},     {9, "Q5_1"},     {10, "Q2_K"},   {11, "Q3_K_S"}, {12, "Q3_K_M"},
    {13, "Q3_K_L"},  {14, "Q4_K_S"},  {15, "Q4_K_M"}, {16, "Q5_K_S"}, {17, "Q5_K_M"},
    {18, "Q6_K"},    {19, "IQ2_XXS"}, {20, "IQ2_XS"}, {21, "Q2_K_S"}, {22, "IQ3_XS"},
    {23, "IQ3_XXS"}, {24, "IQ1_S"},   {25, "IQ4_NL"}, {26, "IQ3_S"},  {27, "IQ3_M"},
    {28, "IQ2_S"},   {29, "IQ2_M"},   {30, "IQ4_XS"}, {31, "IQ1_M"},  {32, "BF16"},
    {36, "TQ1_0"},   {37, "TQ2_0"},   {38, "MXFP4"},  {39, "NVFP4"},  {40, "Q1_0"},
    {41, "Q2_0"},
};

const char *gguf_file_type(const gguf *g)
{
    uint32_t id = UINT32_MAX;
    bool found = false;
    if (gguf_get_u32(g, "general.file_type", &id, &found, NULL) == MOTE_OK && found)
        for (size_t i = 0; i < sizeof file_types / sizeof *file_types; i++)
            if (file_types[i].id == id)
                return file_types[i].name;
    static const char *const own[] = {"small", "balanced", "best"};
    str mix = {NULL, 0};
    if (!found && gguf_get_str(g, "mote.quantize.mix", &mix, &found, NULL) == MOTE_OK && found)
        for (size_t i = 0; i < sizeof own / sizeof *own; i++)
            if (str_is(mix, own[i]))
                return own[i];
    return NULL;
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
    case GGUF_I64: *out = load_signed(kv->bytes + i * bytes, bytes); return true;
    case GGUF_U8:
    case GGUF_U16:
    case GGUF_U32:
    case GGUF_U64:
        value = load_unsigned(kv->bytes + i * bytes, bytes);
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

/* With `found` not NULL the key is optional: *kv is NULL if it is absent. */
static mote_status gguf_find_scalar(const gguf *g, const char *key, bool *found, const gguf_kv **kv,
                                    mote_error *err)
{
    *kv = gguf_find(g, key);
    if (found != NULL)
        *found = *kv != NULL;
    else if (*kv == NULL)
        return err_set(err, MOTE_E_FORMAT, "metadata key '%s' is missing", key);
    if (*kv != NULL && (*kv)->is_array)
        return err_set(err, MOTE_E_FORMAT, "metadata key '%s' must be a single value, not an array",
                       key);
    return MOTE_OK;
}

static mote_status gguf_type_error(const char *key, const char *wanted, mote_error *err)
{
    return err_set(err, MOTE_E_FORMAT, "metadata key '%s' must be %s", key, wanted);
}

mote_status gguf_get_u32(const gguf *g, const char *key, uint32_t *out, bool *found,
                         mote_error *err)
{
    const gguf_kv *kv;
    int64_t value;
    TRY(gguf_find_scalar(g, key, found, &kv, err));
    if (kv == NULL)
        return MOTE_OK;
    if (!gguf_int_at(kv, 0, &value) || value < 0 || value > UINT32_MAX)
        return gguf_type_error(key, "an integer from 0 to 4294967295", err);
    *out = (uint32_t)value;
    return MOTE_OK;
}

const char *gguf_arch_key(const gguf *g, const char *name, char key[GGUF_MAX_KEY])
{
    str arch = {"", 0};
    bool found;
    if (gguf_get_str(g, "general.architecture", &arch, &found, NULL) != MOTE_OK)
        arch = (str){"", 0};
    snprintf(key, GGUF_MAX_KEY, "%.*s.%s", STR_ARG(arch), name);
    return key;
}

mote_status gguf_get_f32(const gguf *g, const char *key, float *out, bool *found, mote_error *err)
{
    const gguf_kv *kv;
    TRY(gguf_find_scalar(g, key, found, &kv, err));
    if (kv == NULL)
        return MOTE_OK;
    if (kv->type == GGUF_F32) {
        memcpy(out, kv->bytes, sizeof *out);
    } else if (kv->type == GGUF_F64) {
        double value;
        memcpy(&value, kv->bytes, sizeof value);
        *out = (float)value;
    } else {
        return gguf_type_error(key, "a floating-point number", err);
    }
    return MOTE_OK;
}

mote_status gguf_get_bool(const gguf *g, const char *key, bool *out, bool *found, mote_error *err)
{
    const gguf_kv *kv;
    TRY(gguf_find_scalar(g, key, found, &kv, err));
    if (kv == NULL)
        return MOTE_OK;
    if (kv->type != GGUF_BOOL)
        return gguf_type_error(key, "a boolean", err);
    *out = kv->bytes[0] != 0;
    return MOTE_OK;
}

mote_status gguf_get_str(const gguf *g, const char *key, str *out, bool *found, mote_error *err)
{
    const gguf_kv *kv;
    gguf_str_walk walk = {0};
    TRY(gguf_find_scalar(g, key, found, &kv, err));
    if (kv == NULL)
        return MOTE_OK;
    if (!gguf_next_str(kv, &walk, out))
        return gguf_type_error(key, "a string", err);
    return MOTE_OK;
}
