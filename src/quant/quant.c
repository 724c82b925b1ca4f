/* SPDX-License-Identifier: Apache-2.0 */
/* quant.c - the table of formats and the questions asked of it. */
#include "quant/quant.h"
#include "base/ckd.h"
#include "quant/blocks.h"
#include "quant/quant_decode.h"

#define PLAIN(NAME, id, bytes, decoder)                                                            \
    [QUANT_##NAME] = {QUANT_##NAME, #NAME, id, 1, bytes, QUANT_ACT_F32, decoder}
#define SMALL(NAME, id, type, decoder)                                                             \
    [QUANT_##NAME] = {QUANT_##NAME, #NAME, id, QUANT_BLOCK, sizeof(type), QUANT_ACT_32, decoder}
#define SUPER(NAME, id, type, decoder)                                                             \
    [QUANT_##                                                                                      \
        NAME] = {QUANT_##NAME, #NAME, id, QUANT_SUPERBLOCK, sizeof(type), QUANT_ACT_256, decoder}

static const quant_info formats[QUANT_N_FORMATS] = {
    PLAIN(F32, 0, 4, quant_decode_f32),
    PLAIN(F16, 1, 2, quant_decode_f16),
    PLAIN(BF16, 30, 2, quant_decode_bf16),
    SMALL(Q4_0, 2, quant_q4_0, quant_decode_q4_0),
    SMALL(Q4_1, 3, quant_q4_1, quant_decode_q4_1),
    SMALL(Q5_0, 6, quant_q5_0, quant_decode_q5_0),
    SMALL(Q5_1, 7, quant_q5_1, quant_decode_q5_1),
    SMALL(Q8_0, 8, quant_q8_0, quant_decode_q8_0),
    SUPER(Q2_K, 10, quant_q2_k, quant_decode_q2_k),
    SUPER(Q3_K, 11, quant_q3_k, quant_decode_q3_k),
    SUPER(Q4_K, 12, quant_q4_k, quant_decode_q4_k),
    SUPER(Q5_K, 13, quant_q5_k, quant_decode_q5_k),
    SUPER(Q6_K, 14, quant_q6_k, quant_decode_q6_k),
    SMALL(IQ4_NL, 20, quant_iq4_nl, quant_decode_iq4_nl),
    SUPER(IQ4_XS, 23, quant_iq4_xs, quant_decode_iq4_xs),
};

/* Types that appear in files of the wild and are not decoded here. */
static const char *const other_names[] = {
    [9] = "Q8_1",   [15] = "Q8_K",  [16] = "IQ2_XXS", [17] = "IQ2_XS", [18] = "IQ3_XXS",
    [19] = "IQ1_S", [21] = "IQ3_S", [22] = "IQ2_S",   [24] = "I8",     [25] = "I16",
    [26] = "I32",   [27] = "I64",   [28] = "F64",     [29] = "IQ1_M",  [34] = "TQ1_0",
    [35] = "TQ2_0", [39] = "MXFP4",
};

const quant_info *quant_get(quant_format format)
{
    return &formats[format];
}

const quant_info *quant_from_gguf(uint32_t gguf_id)
{
    for (int i = 0; i < QUANT_N_FORMATS; i++)
        if (formats[i].gguf_id == gguf_id)
            return &formats[i];
    return NULL;
}

const char *quant_gguf_name(uint32_t gguf_id)
{
    const quant_info *info = quant_from_gguf(gguf_id);
    if (info != NULL)
        return info->name;
    if (gguf_id < sizeof other_names / sizeof other_names[0] && other_names[gguf_id] != NULL)
        return other_names[gguf_id];
    return "unknown";
}

bool quant_row_bytes(quant_format format, uint64_t n, uint64_t *bytes)
{
    const quant_info *info = &formats[format];
    if (n % info->block_values != 0)
        return false;
    return ckd_mul_u64(n / info->block_values, info->block_bytes, bytes);
}
