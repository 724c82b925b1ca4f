/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tile_model.h - the AMX tile instructions in plain C.
 *
 * Follows the description in Intel's Software Developer's Manual, volume 2 (LDTILECFG, TILERELEASE,
 * TILEZERO, TILELOADD, TILESTORED, TDPBSSD, TDPBSUD, TDPBF16PS), for palette 1. Used by the kernels
 * compiled with MOTE_AMX_EMULATED and by the SIGILL handler.
 *
 * Stricter than a CPU in two points: a tile without a shape must not be used, and a configuration
 * that resumes an interrupted load (start_row) is rejected.
 */
#ifndef MOTE_TESTS_KERNELS_TILE_MODEL_H
#define MOTE_TESTS_KERNELS_TILE_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MODEL_TILES = 8, MODEL_ROWS = 16, MODEL_ROW_BYTES = 64, MODEL_CONFIG_BYTES = 64 };

typedef struct tile_model {
    bool configured;
    unsigned rows[MODEL_TILES], row_bytes[MODEL_TILES];
    uint8_t data[MODEL_TILES][MODEL_ROWS][MODEL_ROW_BYTES];
} tile_model;

/* All return false, and change nothing, if the CPU would raise an exception. */
bool tile_model_configure(tile_model *m, const void *config);
void tile_model_release(tile_model *m);
bool tile_model_zero(tile_model *m, unsigned tile);
bool tile_model_load(tile_model *m, unsigned tile, const void *rows, size_t stride);
bool tile_model_store(const tile_model *m, unsigned tile, void *rows, size_t stride);
/* c += a * b with 32-bit sums that wrap. The bytes of a are signed; those of b are signed if
 * b_signed. */
bool tile_model_dp(tile_model *m, unsigned c, unsigned a, unsigned b, bool b_signed);
/* The same with pairs of bf16 and sums in f32. Subnormal inputs and results are zero. */
bool tile_model_dp_bf16(tile_model *m, unsigned c, unsigned a, unsigned b);

#endif
