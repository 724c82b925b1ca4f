/* SPDX-License-Identifier: Apache-2.0 */
/* act_avx2.c - activations to 8 bits. */
