/* SPDX-License-Identifier: Apache-2.0 */
/*
 * amx_emulated.c - tile instructions as functions, with planted bugs.
 *
 * An operand that the CPU would reject raises the signal that the CPU would raise.
 */
#include "kernels/amx_emulated.h"

#include "kernels/tile_model.h"
#include "kernels/x86/tiles_amx.h"

#include <string.h>

amx_bug amx_planted_bug;
static tile_model model;

const char *amx_bug_name(amx_bug bug)
{
    static const char *const names[AMX_N_BUGS] = {"no bug",
                                                  "never configured",
                                                  "configured a row short",
                                                  "never zeroed",
                                                  "loads ignore the stride",
                                                  "loads a row more",
                                                  "loads half a row",
                                                  "stores a row more",
                                                  "stores a row less",
                                                  "stores columns as rows",
                                                  "weights unsigned",
                                                  "weights signed",
                                                  "factors exchanged",
                                                  "sums saturate",
                                                  "odd product lost",
                                                  "minima of one group lost"};
    return names[bug];
}

static void require(bool allowed)
{
    if (!allowed)
        __builtin_trap();
}

void tile_configure(const tile_config *config)
{
    tile_config used = *config;
    if (amx_planted_bug == AMX_NEVER_CONFIGURED)
        return;
    if (amx_planted_bug == AMX_CONFIGURED_A_ROW_SHORT)
        used.rows[0]--;
    require(tile_model_configure(&model, &used));
}

void tile_release(void)
{
    tile_model_release(&model);
}

void tile_zero(int tile)
{
    if (amx_planted_bug != AMX_NEVER_ZEROED)
        require(tile_model_zero(&model, (unsigned)tile));
}

void tile_load(int tile, const void *rows, size_t stride)
{
    const unsigned t = (unsigned)tile;
    static volatile uint8_t sink; /* so that the compiler keeps the read */
    if (amx_planted_bug == AMX_LOADS_IGNORE_STRIDE)
        stride = model.row_bytes[t];
    require(tile_model_load(&model, t, rows, stride));
    if (amx_planted_bug == AMX_LOADS_A_ROW_MORE)
        sink = ((const volatile uint8_t *)rows)[model.rows[t] * stride];
    if (amx_planted_bug == AMX_LOADS_HALF_A_ROW)
        for (unsigned r = 0; r < model.rows[t]; r++)
            memset(model.data[t][r] + model.row_bytes[t] / 2, 0, model.row_bytes[t] / 2);
    (void)sink;
}

static void store_columns_as_rows(const tile_model *m, unsigned t, uint8_t *rows, size_t stride)
{
    for (unsigned r = 0; r < m->rows[t]; r++)
        for (unsigned n = 0; n < m->row_bytes[t] / 4; n++)
            memcpy(rows + n * stride + 4 * r, m->data[t][r] + 4 * n, 4);
}

void tile_store(int tile, void *rows, size_t stride)
{
    const unsigned t = (unsigned)tile;
    tile_model m = model;
    if (amx_planted_bug == AMX_STORES_A_ROW_LESS && m.rows[t] > 1)
        m.rows[t]--;
    if (amx_planted_bug == AMX_STORES_COLUMNS_AS_ROWS)
        store_columns_as_rows(&m, t, rows, stride);
    else
        require(tile_model_store(&m, t, rows, stride));
    if (amx_planted_bug == AMX_STORES_A_ROW_MORE)
        memset((uint8_t *)rows + m.rows[t] * stride, 1, m.row_bytes[t]);
}

static void saturate(unsigned c)
{
    for (int r = 0; r < MODEL_ROWS; r++)
        for (int i = 0; i < MODEL_ROW_BYTES; i += 4) {
            int32_t sum;
            memcpy(&sum, &model.data[c][r][i], 4);
            sum = sum > INT16_MAX ? INT16_MAX : sum < INT16_MIN ? INT16_MIN : sum;
            memcpy(&model.data[c][r][i], &sum, 4);
        }
}

static void multiply(unsigned c, unsigned a, unsigned b, bool b_signed)
{
    switch (amx_planted_bug) {
    case AMX_WEIGHTS_UNSIGNED: require(tile_model_dp(&model, c, a, b, false)); break;
    case AMX_WEIGHTS_SIGNED: require(tile_model_dp(&model, c, a, b, true)); break;
    case AMX_FACTORS_EXCHANGED: require(tile_model_dp(&model, c, b, a, b_signed)); break;
    case AMX_ODD_PRODUCT_LOST:
        if (c != 3)
            require(tile_model_dp(&model, c, a, b, b_signed));
        break;
    default: require(tile_model_dp(&model, c, a, b, b_signed)); break;
    }
    if (amx_planted_bug == AMX_SUMS_SATURATE)
        saturate(c);
}

void tile_dp_ss(int c, int a, int b)
{
    multiply((unsigned)c, (unsigned)a, (unsigned)b, true);
}

void tile_dp_su(int c, int a, int b)
{
    multiply((unsigned)c, (unsigned)a, (unsigned)b, false);
}

void tile_dp_bf16(int c, int a, int b)
{
    if (amx_planted_bug != AMX_MINIMA_LOST || c != 1)
        require(tile_model_dp_bf16(&model, (unsigned)c, (unsigned)a, (unsigned)b));
}

/* ---- emulated kernels: the build renames k_<slot>_amx to k_<slot>_emulated ---- */

#define EMULATED(slot) kern_gemm_fn k_##slot##_emulated;
#include "kernels/amx_emulated.def"
#undef EMULATED

void amx_use_emulated_kernels(kern_table *table)
{
#define EMULATED(slot) table->slot = k_##slot##_emulated;
#include "kernels/amx_emulated.def"
#undef EMULATED
}
