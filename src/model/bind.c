/* SPDX-License-Identifier: Apache-2.0 */
/* bind.c - see bind.h. */
#include "model/bind.h"

/* A tensor by name with exactly these dimensions, fastest first. */
mote_status bind_find(binder *b, const char *name, uint64_t d0, uint64_t d1,
                      const gguf_tensor **out)
{
    const gguf_tensor *t = gguf_find_tensor(b->g, name);
    if (t == NULL)
        return err_set(b->err, MOTE_E_FORMAT, "tensor '%s' is missing", name);
    if (t->format == NULL)
        return err_set(b->err, MOTE_E_UNSUPPORTED,
                       "tensor '%s' is in format %s, which mote does "
                       "not read",
                       name, quant_gguf_name(t->gguf_type));
    if (t->dims[0] != d0 || t->dims[1] != d1 || t->dims[2] != 1 || t->dims[3] != 1)
        return err_set(b->err, MOTE_E_FORMAT,
                       "tensor '%s' is %llu x %llu; the model's sizes call for %llu x %llu", name,
                       (unsigned long long)t->dims[0], (unsigned long long)t->dims[1],
                       (unsigned long long)d0, (unsigned long long)d1);
    b->parameters += d0 * d1;
    *out = t;
    return MOTE_OK;
}

/* A matrix left in the file: y has `rows` values, x has `cols`. */
mote_status bind_matrix(binder *b, const char *name, uint64_t rows, uint64_t cols, nn_matrix *m)
{
    const gguf_tensor *t = NULL;
    TRY(bind_find(b, name, cols, rows, &t));
    uint64_t row_bytes;
    uint32_t act_block = t->format->act == QUANT_ACT_256 ? 256 : 32;
    if (!quant_row_bytes(t->format->format, cols, &row_bytes) ||
        (t->format->act != QUANT_ACT_F32 && cols % act_block != 0))
        return err_set(b->err, MOTE_E_FORMAT, "tensor '%s' has rows of %llu, not whole %s blocks",
                       name, (unsigned long long)cols, t->format->name);
    b->kinds |= nn_kind(t->format);
    *m = (nn_matrix){.data = t->data,
                     .format = t->format,
                     .gemm = nn_gemm_for(b->k, t->format->format),
                     .rows = (size_t)rows,
                     .cols = (size_t)cols,
                     .row_bytes = (size_t)row_bytes};
    return MOTE_OK;
}

/* A tensor decoded to floats, d0 fastest; NULL while counting. */
mote_status bind_floats(binder *b, const char *name, uint64_t d0, uint64_t d1, float **out)
{
    const gguf_tensor *t = NULL;
    TRY(bind_find(b, name, d0, d1, &t));
    *out = arena_take(&b->memory, (size_t)(d0 * d1), sizeof **out);
    if (*out != NULL)
        t->format->decode(t->data, (size_t)(d0 * d1 / t->format->block_values), *out);
    return MOTE_OK;
}

mote_status bind_vector(binder *b, const char *name, uint64_t n, const float **out)
{
    float *values;
    TRY(bind_floats(b, name, n, 1, &values));
    *out = values;
    return MOTE_OK;
}

/* A thin matrix whose products stay in floats. */
mote_status bind_float_matrix(binder *b, const char *name, uint64_t rows, uint64_t cols,
                              nn_matrix *m)
{
    float *values;
    TRY(bind_floats(b, name, cols, rows, &values));
    *m = (nn_matrix){.data = (const unsigned char *)values,
                     .format = quant_get(QUANT_F32),
                     .gemm = b->k->gemm_f32,
                     .rows = (size_t)rows,
                     .cols = (size_t)cols,
                     .row_bytes = (size_t)cols * sizeof(float)};
    return MOTE_OK;
}
