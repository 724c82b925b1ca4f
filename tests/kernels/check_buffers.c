/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check_buffers.c - buffers next to guard pages, and the data in them.
 *
 *   | no access |  canaries ... data | no access |     CHECK_AT_END
 *   | no access | data ... canaries  | no access |     CHECK_AT_START
 *
 * A region is reused by the next case and replaced if a larger one is needed.
 */
#define _GNU_SOURCE
#include "kernels/check.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { GUARD = 4096, CANARY = 0xC5, UNWRITTEN = 0xEE, PAGE_BYTES = 4096 };

static void exit_no_memory(const char *what)
{
    perror(what);
    exit(2);
}

static void buffer_release(check_buffer *b)
{
    if (b->region != NULL)
        munmap(b->region - GUARD, b->region_bytes + 2 * GUARD);
    free(b->copy);
    *b = (check_buffer){0};
}

void check_free(check *c)
{
    for (size_t i = 0; i < CHECK_MAX_BUFFERS; i++)
        buffer_release(&c->buffers[i]);
}

static void buffer_reserve(check_buffer *b, size_t bytes)
{
    const size_t wanted = (bytes + PAGE_BYTES) / PAGE_BYTES * PAGE_BYTES;
    if (b->region_bytes == wanted)
        return;
    buffer_release(b);
    unsigned char *base =
        mmap(NULL, wanted + 2 * GUARD, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED || mprotect(base + GUARD, wanted, PROT_READ | PROT_WRITE) != 0)
        exit_no_memory("guarded buffer");
    b->region = base + GUARD;
    b->region_bytes = wanted;
    b->copy = malloc(wanted);
    if (b->copy == NULL)
        exit_no_memory("copy of a buffer");
}

static unsigned char *buffer_take(check *c, size_t bytes, size_t alignment, bool is_output)
{
    if (c->n_buffers == CHECK_MAX_BUFFERS) {
        fprintf(stderr, "a check uses more than %d buffers\n", CHECK_MAX_BUFFERS);
        exit(2);
    }
    check_buffer *b = &c->buffers[c->n_buffers++];
    buffer_reserve(b, bytes + alignment);
    const size_t last = (b->region_bytes - bytes) / alignment * alignment;
    b->data = b->region + (c->side == CHECK_AT_END ? last : 0);
    b->bytes = bytes;
    b->is_output = is_output;
    b->is_float = false;
    memset(b->region, CANARY, b->region_bytes);
    memset(b->data, UNWRITTEN, bytes);
    return b->data;
}

static float *buffer_take_f32(check *c, size_t n, bool is_output)
{
    float *x = (float *)buffer_take(c, n * sizeof *x, sizeof *x, is_output);
    c->buffers[c->n_buffers - 1].is_float = true;
    return x;
}

void *check_in_aligned(check *c, size_t bytes, size_t alignment)
{
    return buffer_take(c, bytes, alignment, false);
}

void *check_out_aligned(check *c, size_t bytes, size_t alignment)
{
    return buffer_take(c, bytes, alignment, true);
}

float *check_out_f32(check *c, size_t n)
{
    return buffer_take_f32(c, n, true);
}

float *check_in_f32(check *c, size_t n)
{
    float *x = buffer_take_f32(c, n, false);
    check_fill_f32(c, x, n);
    return x;
}

float *check_inout_f32(check *c, size_t n)
{
    float *x = buffer_take_f32(c, n, true);
    check_fill_f32(c, x, n);
    return x;
}

/* ---- random numbers and data ---- */

/* splitmix64: the state is a counter, so a seed reproduces all numbers. */
uint32_t check_random(check *c)
{
    uint64_t z = c->random += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return (uint32_t)((z ^ z >> 31) >> 32);
}

uint32_t check_below(check *c, uint32_t n)
{
    return (uint32_t)((uint64_t)check_random(c) * n >> 32);
}

/* Sum of four uniform numbers: approximately normal. */
float check_normal(check *c)
{
    float sum = -2.0f;
    for (int i = 0; i < 4; i++)
        sum += (float)(check_random(c) >> 8) * 0x1p-24f;
    return sum * 1.7320508f;
}

static float from_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* A finite number with exponent bits in [low, high]. */
static float with_exponent(check *c, uint32_t low, uint32_t high)
{
    const uint32_t exponent = low + check_below(c, high - low + 1);
    return from_bits((check_random(c) & 0x807fffffu) | exponent << 23);
}

static float special(check *c)
{
    static const float values[] = {0.0f,    -0.0f,  1.0f,   -1.0f,       FLT_MIN, FLT_TRUE_MIN,
                                   FLT_MAX, 88.72f, -87.3f, FLT_EPSILON, 0.5f,    -103.9f,
                                   65504,   65520,  1e4f,   0x1.ffcp15f, 6e-8f,   -1e-40f};
    const uint32_t n = sizeof values / sizeof *values;
    const uint32_t i = check_below(c, 2 * n);
    return i < n ? values[i] : check_normal(c);
}

static float one_value(check *c)
{
    switch (c->data) {
    case CHECK_WIDE: return with_exponent(c, 0, 254);
    case CHECK_SPECIAL: return special(c);
    case CHECK_TINY: return with_exponent(c, 0, 3);
    case CHECK_ZERO: return check_random(c) & 1 ? -0.0f : 0.0f;
    default: return check_normal(c);
    }
}

void check_fill_f32(check *c, float *x, size_t n)
{
    const float equal = check_normal(c);
    for (size_t i = 0; i < n; i++)
        x[i] = c->data == CHECK_EQUAL ? equal : one_value(c);
}

size_t check_length(uint32_t i)
{
    static const size_t larger[] = {127, 128, 129, 191, 255, 256, 257, 500, 1024, 1027, 2049};
    if (i <= 100)
        return i;
    return i - 101 < sizeof larger / sizeof *larger ? larger[i - 101] : SIZE_MAX;
}
