/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tiles_amx.h - wrappers of the AMX tile instructions.
 *
 * A tile is a register of up to 16 rows of up to 64 bytes; there are eight. tile_configure sets the
 * shapes for the calling thread until tile_release.
 *
 *     tile_dp_ss(c, a, b)     c[m][n] += sum over k and i < 4 of a[m][4k + i] * b[k][4n + i]
 *
 * The bytes in a and b are signed, the 32-bit sums in c wrap. In tile_dp_su the bytes of b are
 * unsigned. So four consecutive bytes of a row of b are four rows of one column of the matrix (VNNI
 * layout). A slab of gemm_panel_avx512.h has this layout. In tile_dp_bf16 the elements of a and b
 * are pairs of bf16, and c is f32. The order of its additions is not part of the contract: callers
 * use it where every partial sum is exact.
 *
 * The compiler intrinsics are not used, because those of gcc 12 do not declare the memory they
 * read: gcc drops the stores that fill the configuration and may move stores to the rows of a tile
 * behind the load. Here every instruction that accesses memory is a compiler barrier. A tile number
 * is a literal digit.
 *
 * With MOTE_AMX_EMULATED the same names are functions (tests/kernels/amx_emulated.c), so that the
 * kernels run on CPUs without AMX.
 */
#ifndef MOTE_KERNELS_X86_TILES_AMX_H
#define MOTE_KERNELS_X86_TILES_AMX_H

#include <stddef.h>
#include <stdint.h>

enum { TILE_COUNT = 8, TILE_ROWS = 16, TILE_ROW_BYTES = 64 };

/* Operand of ldtilecfg. Only the first eight entries of the arrays may be set. */
typedef struct tile_config {
    uint8_t palette; /* 1 */
    uint8_t start_row;
    uint8_t reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_config;
_Static_assert(sizeof(tile_config) == 64, "ldtilecfg reads 64 bytes");

#ifdef MOTE_AMX_EMULATED
void tile_configure(const tile_config *config);
void tile_release(void);
void tile_zero(int tile);
void tile_load(int tile, const void *rows, size_t stride);
void tile_store(int tile, void *rows, size_t stride);
void tile_dp_ss(int c, int a, int b);
void tile_dp_su(int c, int a, int b);
void tile_dp_bf16(int c, int a, int b);
#else
static inline void tile_configure(const tile_config *config)
{
    __asm__ volatile("ldtilecfg (%0)" : : "r"(config) : "memory");
}

/* Returns to the initial state, in which a context switch does not save tiles. */
static inline void tile_release(void)
{
    __asm__ volatile("tilerelease" : : : "memory");
}

#define tile_zero(tile) __asm__ volatile("tilezero %%tmm" #tile : :)
#define tile_load(tile, p, stride)                                                                 \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile                                            \
                     :                                                                             \
                     : "r"((const void *)(p)), "r"((size_t)(stride))                               \
                     : "memory")
#define tile_store(tile, p, stride)                                                                \
    __asm__ volatile("tilestored %%tmm" #tile ", (%0,%1,1)"                                        \
                     :                                                                             \
                     : "r"((void *)(p)), "r"((size_t)(stride))                                     \
                     : "memory")
#define tile_dp_ss(c, a, b)   __asm__ volatile("tdpbssd %%tmm" #b ", %%tmm" #a ", %%tmm" #c : :)
#define tile_dp_su(c, a, b)   __asm__ volatile("tdpbsud %%tmm" #b ", %%tmm" #a ", %%tmm" #c : :)
#define tile_dp_bf16(c, a, b) __asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #c : :)
#endif

#endif
