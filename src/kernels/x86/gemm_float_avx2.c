/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_float_avx2.c - products with F32, F16 and BF16 weights. */
