/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_sample.h - a small valid file with every type of entry, for the GGUF tests. */
#ifndef MOTE_TESTS_UNIT_GGUF_SAMPLE_H
#define MOTE_TESTS_UNIT_GGUF_SAMPLE_H

#include "support/gguf_build.h"

enum { SAMPLE_N_KV = 20, SAMPLE_N_TENSORS = 4 };

static inline void sample_metadata(test_gguf *b)
{
    static const char *const words[] = {"one", "", "three"};
    static const int32_t numbers[] = {11, 11, 10, 0};
    const uint8_t u8 = 200;
    const int8_t i8 = -3;
    const uint16_t u16 = 65535;
    const int16_t i16 = -300;
    const int32_t i32 = -70000;
    const uint64_t u64 = UINT64_MAX;
    const int64_t i64 = INT64_MIN;
    const uint64_t small = 77;
    const double f64 = 0.5;
    test_gguf_str(b, "general.architecture", "qwen35");
    test_gguf_u32(b, "general.alignment", 64);
    b->alignment = 64;
    test_gguf_kv(b, "v.u8", GGUF_U8, &u8, sizeof u8);
    test_gguf_kv(b, "v.i8", GGUF_I8, &i8, sizeof i8);
    test_gguf_kv(b, "v.u16", GGUF_U16, &u16, sizeof u16);
    test_gguf_kv(b, "v.i16", GGUF_I16, &i16, sizeof i16);
    test_gguf_u32(b, "v.u32", 4000000000u);
    test_gguf_kv(b, "v.i32", GGUF_I32, &i32, sizeof i32);
    test_gguf_f32(b, "v.f32", 1.5f);
    test_gguf_bool(b, "v.true", true);
    test_gguf_bool(b, "v.false", false);
    test_gguf_kv(b, "v.u64", GGUF_U64, &u64, sizeof u64);
    test_gguf_kv(b, "v.i64", GGUF_I64, &i64, sizeof i64);
    test_gguf_kv(b, "v.small", GGUF_U64, &small, sizeof small);
    test_gguf_kv(b, "v.f64", GGUF_F64, &f64, sizeof f64);
    test_gguf_str(b, "v.str", "text");
    test_gguf_str(b, "v.empty", "");
    test_gguf_strs(b, "a.str", words, 3);
    test_gguf_i32s(b, "a.i32", numbers, 4);
    test_gguf_i32s(b, "a.none", numbers, 0);
}

static inline void sample_file(test_gguf *b)
{
    static const uint64_t vector[] = {5}, matrix[] = {64, 3}, cube[] = {256, 2, 1, 2};
    static const float values[] = {1, 2, 3, 4, 5};
    test_gguf_begin(b);
    sample_metadata(b);
    test_gguf_tensor(b, "vector", 0, 1, vector, values, sizeof values);
    test_gguf_tensor(b, "matrix", 8, 2, matrix, NULL, 3 * 2 * 34);
    test_gguf_tensor(b, "cube", 14, 4, cube, NULL, 4 * 210);
    test_gguf_tensor(b, "foreign", 26, 2, matrix, NULL, 10); /* I32: listed, but not supported */
    test_gguf_finish(b);
}

#endif
