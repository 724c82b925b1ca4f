/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_256_avx2.c - products with superblock formats, by panels of 16 rows. */
