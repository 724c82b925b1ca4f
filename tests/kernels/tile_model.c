/* SPDX-License-Identifier: Apache-2.0 */
/* tile_model.c - the AMX tile instructions in plain C. */
#include "kernels/tile_model.h"

#include <math.h>
#include <string.h>

/* Offsets in the 64-byte operand of LDTILECFG. */
enum { PALETTE = 0, START_ROW = 1, SHAPES = 16, ROWS = 48, LIMIT = 64 };

static bool all_zero(const uint8_t *p, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        if (p[i] != 0)
            return false;
    return true;
}

static unsigned word_at(const uint8_t *p)
{
    return (unsigned)p[0] | (unsigned)p[1] << 8;
}

static bool shape_is_allowed(unsigned rows, unsigned row_bytes)
{
    return rows <= MODEL_ROWS && row_bytes <= MODEL_ROW_BYTES && (rows == 0) == (row_bytes == 0);
}

bool tile_model_configure(tile_model *m, const void *config)
{
    const uint8_t *bytes = config;
    if (bytes[PALETTE] == 0) {
        tile_model_release(m);
        return true;
    }
    if (bytes[PALETTE] != 1 || !all_zero(bytes, START_ROW, SHAPES) ||
        !all_zero(bytes, SHAPES + 2 * MODEL_TILES, ROWS) ||
        !all_zero(bytes, ROWS + MODEL_TILES, LIMIT))
        return false;
    for (size_t t = 0; t < MODEL_TILES; t++)
        if (!shape_is_allowed(bytes[ROWS + t], word_at(bytes + SHAPES + 2 * t)))
            return false;
    tile_model_release(m); /* tiles are zero after configuration */
    m->configured = true;
    for (size_t t = 0; t < MODEL_TILES; t++) {
        m->rows[t] = bytes[ROWS + t];
        m->row_bytes[t] = word_at(bytes + SHAPES + 2 * t);
    }
    return true;
}

void tile_model_release(tile_model *m)
{
    memset(m, 0, sizeof *m);
}

static bool usable(const tile_model *m, unsigned tile)
{
    return m->configured && tile < MODEL_TILES && m->rows[tile] > 0;
}

bool tile_model_zero(tile_model *m, unsigned tile)
{
    if (!usable(m, tile))
        return false;
    memset(m->data[tile], 0, sizeof m->data[tile]);
    return true;
}

/* Bytes outside the shape become zero. */
bool tile_model_load(tile_model *m, unsigned tile, const void *rows, size_t stride)
{
    uint8_t loaded[MODEL_ROWS][MODEL_ROW_BYTES] = {{0}};
    if (!usable(m, tile))
        return false;
    for (unsigned r = 0; r < m->rows[tile]; r++)
        memcpy(loaded[r], (const uint8_t *)rows + r * stride, m->row_bytes[tile]);
    memcpy(m->data[tile], loaded, sizeof loaded);
    return true;
}

bool tile_model_store(const tile_model *m, unsigned tile, void *rows, size_t stride)
{
    if (!usable(m, tile))
        return false;
    for (unsigned r = 0; r < m->rows[tile]; r++)
        memcpy((uint8_t *)rows + r * stride, m->data[tile][r], m->row_bytes[tile]);
    return true;
}

/* a: M rows of K bytes; b: K / 4 rows of N dwords; c: M rows of N dwords. */
static bool shapes_fit(const tile_model *m, unsigned c, unsigned a, unsigned b)
{
    return a != b && a != c && b != c && usable(m, a) && usable(m, b) && usable(m, c) &&
           m->row_bytes[a] % 4 == 0 && m->row_bytes[b] % 4 == 0 && m->row_bytes[c] % 4 == 0 &&
           m->rows[c] == m->rows[a] && m->rows[b] == m->row_bytes[a] / 4 &&
           m->row_bytes[c] == m->row_bytes[b];
}

/* row[n] += the four byte products of a dword of a and dword n of a row of b. */
static void add_products(uint32_t *row, const uint8_t *a, const uint8_t *b, unsigned n_dwords,
                         bool b_signed)
{
    for (unsigned n = 0; n < n_dwords; n++)
        for (unsigned i = 0; i < 4; i++) {
            const int factor = b_signed ? (int8_t)b[4 * n + i] : b[4 * n + i];
            row[n] += (uint32_t)((int8_t)a[i] * factor);
        }
}

bool tile_model_dp(tile_model *m, unsigned c, unsigned a, unsigned b, bool b_signed)
{
    if (!shapes_fit(m, c, a, b))
        return false;
    const unsigned n_dwords = m->row_bytes[c] / 4;
    for (unsigned r = 0; r < m->rows[c]; r++) {
        uint32_t row[MODEL_ROW_BYTES / 4] = {0};
        memcpy(row, m->data[c][r], 4 * n_dwords);
        for (unsigned k = 0; k < m->row_bytes[a] / 4; k++)
            add_products(row, m->data[a][r] + 4 * k, m->data[b][k], n_dwords, b_signed);
        memset(m->data[c][r], 0, MODEL_ROW_BYTES);
        memcpy(m->data[c][r], row, 4 * n_dwords);
    }
    memset(m->data[c][m->rows[c]], 0, (MODEL_ROWS - m->rows[c]) * MODEL_ROW_BYTES);
    return true;
}

static float flush(float value)
{
    return fpclassify(value) == FP_SUBNORMAL ? copysignf(0.0f, value) : value;
}

static float bf16_at(const uint8_t *p)
{
    const uint32_t word = (uint32_t)word_at(p) << 16;
    float value;
    memcpy(&value, &word, sizeof value);
    return flush(value);
}

bool tile_model_dp_bf16(tile_model *m, unsigned c, unsigned a, unsigned b)
{
    if (!shapes_fit(m, c, a, b))
        return false;
    const unsigned n_dwords = m->row_bytes[c] / 4;
    for (unsigned r = 0; r < m->rows[c]; r++) {
        float row[MODEL_ROW_BYTES / 4] = {0};
        memcpy(row, m->data[c][r], 4 * n_dwords);
        for (unsigned k = 0; k < m->row_bytes[a] / 4; k++)
            for (unsigned n = 0; n < n_dwords; n++)
                for (unsigned i = 0; i < 2; i++)
                    row[n] = flush(fmaf(bf16_at(m->data[a][r] + 4 * k + 2 * i),
                                        bf16_at(m->data[b][k] + 4 * n + 2 * i), flush(row[n])));
        memset(m->data[c][r], 0, MODEL_ROW_BYTES);
        memcpy(m->data[c][r], row, 4 * n_dwords);
    }
    memset(m->data[c][m->rows[c]], 0, (MODEL_ROWS - m->rows[c]) * MODEL_ROW_BYTES);
    return true;
}
