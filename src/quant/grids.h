/* SPDX-License-Identifier: Apache-2.0 */
/* grids.h - code books of the IQ formats: bytes of an entry, first value lowest. */
#ifndef MOTE_QUANT_GRIDS_H
#define MOTE_QUANT_GRIDS_H

#include <stdint.h>

/* Magnitudes 8, 25 and 43. */
extern const uint64_t quant_grid_iq2_xxs[256];
extern const uint64_t quant_grid_iq2_xs[512];
extern const uint64_t quant_grid_iq2_s[1024];
/* Magnitudes 4, 12, ..., 52, 62, and 1, 3, ..., 15. */
extern const uint32_t quant_grid_iq3_xxs[256];
extern const uint32_t quant_grid_iq3_s[512];
/* 128 + 8 v, where v is -1, 0 or 1. */
extern const uint64_t quant_grid_iq1[2048];

#endif
