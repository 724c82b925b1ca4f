/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check.h - the kernel checker: every variant of every slot against its reference.
 *
 * The check of a slot is one function that sets up case number i and calls the
 * kernel through c->table. The checker runs it twice with the same random numbers,
 * once with the reference in the table and once with the variant, and compares
 * every output buffer byte for byte. So a check never states an expected value.
 *
 * Buffers come from check_in_* and check_out_*: they lie flush against an
 * unreadable page, at their end or at their start in turn, and the bytes on the
 * other side are canaries. Inputs must come back unchanged.
 */
#ifndef MOTE_TESTS_KERNELS_CHECK_H
#define MOTE_TESTS_KERNELS_CHECK_H

#include "kernels/kernels.h"

/* What check_in_f32 fills a buffer with. */
typedef enum check_data {
    CHECK_NORMAL,  /* bell-shaped, deviation 1 */
    CHECK_WIDE,    /* any finite bit pattern */
    CHECK_SPECIAL, /* zeros, subnormals, the largest, ones, near ties: mixed */
    CHECK_EQUAL,   /* one value everywhere */
    CHECK_TINY,    /* around the smallest normal number, both sides */
    CHECK_ZERO,    /* +0 and -0 */
    CHECK_N_DATA
} check_data;

/* Which side of a buffer touches the unreadable page. */
typedef enum check_side { CHECK_AT_END, CHECK_AT_START, CHECK_N_SIDES } check_side;

enum { CHECK_MAX_BUFFERS = 32, CHECK_MESSAGE = 256 };

typedef struct check_buffer {
    unsigned char *region; /* readable bytes between two unreadable pages */
    size_t region_bytes;
    unsigned char *data;
    size_t bytes;
    unsigned char *copy; /* input: as it went in; output: the reference's answer */
    size_t copy_bytes;
    bool is_output;
    bool is_float; /* two NaNs count as equal: their payload is not promised */
} check_buffer;

typedef struct check {
    const kern_table *table; /* call kernels through this and nothing else */
    check_data data;
    bool bench;        /* cases are the shapes worth timing */
    uint32_t per_cent; /* of the cases to run; 0: all */

    /* The rest belongs to the checker. */
    check_side side;
    uint64_t random;
    check_buffer buffers[CHECK_MAX_BUFFERS];
    size_t n_buffers;
    bool is_reference;
    bool entered;
    char label[64];
    double flops, bytes;           /* of one call, for the bench */
    double started, best;          /* bench: seconds */
    uint64_t batch, done, batches; /* bench: calls in a batch, calls made, batches timed */
    char message[CHECK_MESSAGE];   /* what went wrong; empty: nothing */
} check;

/* Sets up and calls case i; false if there is none. With c->bench the cases are
 * realistic shapes, each named by check_label. */
typedef bool check_fn(check *c, uint32_t i);

/* ---- for the checks ---- */

/* The kernel call goes under this: once when checking, many times when timing. */
#define CHECK_CALL(c) for (check_enter(c); check_again(c);)
void check_enter(check *c);
bool check_again(check *c);

/* Buffers, filled. Alignment is that of the element unless the _aligned form says more. */
float *check_in_f32(check *c, size_t n);                          /* by c->data */
void *check_in_aligned(check *c, size_t bytes, size_t alignment); /* the check fills it */
float *check_out_f32(check *c, size_t n);                         /* a pattern */
float *check_inout_f32(check *c, size_t n);                       /* by c->data */
void *check_out_aligned(check *c, size_t bytes, size_t alignment);
/* Fills floats by c->data, for parts of other structures. */
void check_fill_f32(check *c, float *x, size_t n);

uint32_t check_random(check *c);
/* In [0, n) */
uint32_t check_below(check *c, uint32_t n);
/* Bell-shaped, deviation 1 */
float check_normal(check *c);

/* A list of lengths that has every tail: 0 .. 100, then some larger. SIZE_MAX: no more. */
size_t check_length(uint32_t i);

/* Bench: the name of the shape, and what one call does. */
void check_label(check *c, double flops, double bytes, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* ---- for the programs that run the checks ---- */

typedef struct check_slot {
    const char *name;
    check_fn *check;
    size_t offset; /* of the pointer in kern_table */
} check_slot;

extern const check_slot check_slots[];
extern const size_t n_check_slots;

/* The pointer a table has in a slot, as bytes to compare. */
bool check_same_kernel(const check_slot *slot, const kern_table *a, const kern_table *b);

/* Runs all cases of a slot with `variant` against `reference`. True: all equal.
 * False: c->message says what differed. n_cases counts what was run. */
bool check_variant(check *c, const check_slot *slot, const kern_table *reference,
                   const kern_table *variant, uint64_t seed, uint64_t *n_cases);

/* Times bench case i; false if there is none. c->best is seconds per call. */
bool check_time(check *c, const check_slot *slot, const kern_table *table, uint32_t i);

/* Signals raised by a kernel become failures from here on. */
void check_catch_signals(void);
void check_free(check *c);

#endif
