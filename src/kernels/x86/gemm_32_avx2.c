/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_32_avx2.c - products with 32-value blocks, by panels of 16 rows. */
