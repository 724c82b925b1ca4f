/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quant_blocks.c - formats of unpack.c: 1,000 random and extreme blocks each decode bit for bit as
 * gguf-py does (Q1_0 and Q2_0: as llama.cpp does).
 *
 * The table holds the SHA-256 of the values. tools/goldens/quant_blocks.py makes the same blocks and
 * prints it.
 */
#include "quant/blocks.h"
#include "quant/quant.h"
#include "support/sha256.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { N_BLOCKS = 1000, BLOCK_BYTES_MAX = 128 };

static const struct golden {
    quant_format format;
    const char *sha256;
} goldens[] = {
    {QUANT_IQ1_S, "c6e8c9e3c888c3862c177403147b738631cb9b86c99cbaf11a5530a3825d4497"},
    {QUANT_IQ1_M, "6f32e9411eeab580368a2e18ca78a873f62ea3efd821b73a964991973318f985"},
    {QUANT_IQ2_XXS, "0d2b6175a1f185882f4be3ad3c688b403afcd2efcf0072da9f02687326c643cb"},
    {QUANT_IQ2_XS, "77b509d094eeeb8802c71133d96b60b19ebc9c1fbbd8f811c2ab39ccad79088e"},
    {QUANT_IQ2_S, "38c93e73e9c46d2ec80433139bcaebcef2a88a1479889f5a8dc7d0d7cf3690f7"},
    {QUANT_IQ3_XXS, "521f7cb29e8f34af3299869912b06e3fc0ee690f928321ed6a160dce7b2708d4"},
    {QUANT_IQ3_S, "0849894b75b85e34a9508ee1325178036450156bfabfc388d48ba27c58f29000"},
    {QUANT_TQ1_0, "50e36fecbb903014d5bde5f418c6e89ec8007157d1475b229e5cc034b343d77f"},
    {QUANT_TQ2_0, "4ed6b94a5dce10cd443e0ebe9497efc85d96390c3b0db562490de76a4b273ccf"},
    {QUANT_MXFP4, "39a91a92996b9d2cb805ec0812e6212d75cea90b89636f4a978d75a6490f4814"},
    {QUANT_NVFP4, "6ba633befb94f814f494f43394045b2b42a2b34185e94bc62ee9acebe3a0a553"},
    {QUANT_Q1_0, "8054f0f593ba8babd1ea6c7423f5c5a4f2b120013142c52bd4631ec91cb59bab"},
    {QUANT_Q2_0, "e522ff57e70a095f4f463a157f46e6f5509db8db680bf7e2af557ed1bbf7e0a2"},
};

static uint64_t next_word(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static void set_u16(unsigned char *at, unsigned value)
{
    at[0] = (unsigned char)value;
    at[1] = (unsigned char)(value >> 8);
}

/* The scale of a block; `half` is an f16. Formats with other scales get every value of a byte. */
static void set_scale(quant_format format, unsigned char *block, size_t i, unsigned half)
{
    switch (format) {
    case QUANT_IQ1_M: /* four bits in the top of each word of scales */
        for (size_t k = 0; k < 4; k++) {
            unsigned char *high = block + offsetof(quant_iq1_m, scales) + 2 * k + 1;
            *high = (unsigned char)((*high & 15) | (half >> (4 * k) & 15) << 4);
        }
        break;
    case QUANT_MXFP4: block[0] = (unsigned char)i; break;
    case QUANT_NVFP4: block[i % 4] = (unsigned char)(i / 4); break;
    case QUANT_TQ1_0: set_u16(block + offsetof(quant_tq1_0, d), half); break;
    case QUANT_TQ2_0: set_u16(block + offsetof(quant_tq2_0, d), half); break;
    default: set_u16(block, half);
    }
}

/* Block i: zeros, ones or random bytes. A third of the scales are special values. */
static void make_block(const quant_info *info, size_t i, unsigned char *block)
{
    static const uint16_t special[10] = {0x0000, 0x8000, 0x0001, 0x8001, 0x03FF,
                                         0x0400, 0x7BFF, 0xFBFF, 0x3C00, 0xBC00};
    uint64_t state = (uint64_t)info->gguf_id << 32 | i;
    uint64_t words[BLOCK_BYTES_MAX / 8];
    for (size_t k = 0; k < info->block_bytes / 8 + 1; k++)
        words[k] = next_word(&state);
    if (i % 8 < 2)
        memset(block, i % 8 == 0 ? 0 : 0xFF, info->block_bytes);
    else
        memcpy(block, words, info->block_bytes);
    unsigned half = (unsigned)next_word(&state) & 0xFFFF;
    if ((half & 0x7C00) == 0x7C00)
        half &= 0x83FF;
    if (i % 3 == 0)
        half = special[i / 3 % 10];
    set_scale(info->format, block, i, half);
}

static void blocks_decode_bit_for_bit(void **state)
{
    (void)state;
    for (size_t g = 0; g < sizeof goldens / sizeof *goldens; g++) {
        const quant_info *info = quant_get(goldens[g].format);
        const size_t n = N_BLOCKS * (size_t)info->block_values;
        unsigned char *blocks = malloc(N_BLOCKS * (size_t)info->block_bytes);
        float *values = malloc(n * sizeof *values);
        assert_true(blocks != NULL && values != NULL && info->block_bytes <= BLOCK_BYTES_MAX - 8);
        for (size_t i = 0; i < N_BLOCKS; i++)
            make_block(info, i, blocks + i * info->block_bytes);
        info->decode(blocks, N_BLOCKS, values);
        char hex[65];
        test_sha256 sum;
        test_sha256_begin(&sum);
        test_sha256_add(&sum, values, n * sizeof *values);
        test_sha256_end(&sum, hex);
        if (strcmp(hex, goldens[g].sha256) != 0)
            fail_msg("%s differs: %s", info->name, hex);
        free(values);
        free(blocks);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(blocks_decode_bit_for_bit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
