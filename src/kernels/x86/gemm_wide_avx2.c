/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_wide_avx2.c - Q8_0, IQ4_NL and IQ4_XS: products with codes of 16 bits. */
