/* SPDX-License-Identifier: Apache-2.0 */
/* decode.h - the scalar decoders, for the table in quant.c. */
#ifndef MOTE_QUANT_QUANT_DECODE_H
#define MOTE_QUANT_QUANT_DECODE_H

#include "quant/quant.h"

quant_decode_fn quant_decode_f32, quant_decode_f16, quant_decode_bf16;
quant_decode_fn quant_decode_q4_0, quant_decode_q4_1, quant_decode_q5_0, quant_decode_q5_1;
quant_decode_fn quant_decode_q8_0, quant_decode_iq4_nl;
quant_decode_fn quant_decode_q2_k, quant_decode_q3_k, quant_decode_q4_k, quant_decode_q5_k;
quant_decode_fn quant_decode_q6_k, quant_decode_iq4_xs;

#endif
