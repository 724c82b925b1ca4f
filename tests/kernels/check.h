/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check.h - the kernel checker: compares every variant of every slot with its reference.
 *
 * The check of a slot is a function that sets up case number i and calls the kernel through
 * c->table. The checker runs it twice with the same random numbers: once with the reference in the
 * table and once with the variant. Then it compares every output buffer byte for byte. So a check
 * contains no expected values.
 *
 * Buffers come from check_in_* and check_out_*. One end of a buffer touches a guard page
 * (alternately the start and the end); the bytes at the other end are canaries. Inputs must not
 * change.
 */
#ifndef MOTE_TESTS_KERNELS_CHECK_H
#define MOTE_TESTS_KERNELS_CHECK_H

#include "kernels/kernels.h"

/* Kinds of data for check_in_f32. */
typedef enum check_data {
    CHECK_NORMAL,  /* normal distribution, standard deviation 1 */
    CHECK_WIDE,    /* any finite bit pattern */
    CHECK_SPECIAL, /* a mix of zeros, subnormals, largest numbers, ones and near ties */
    CHECK_EQUAL,   /* one value in all elements */
    CHECK_TINY,    /* below and above the smallest normal number */
    CHECK_ZERO,    /* +0 and -0 */
    CHECK_N_DATA
} check_data;

/* The end of a buffer that touches the guard page. */
typedef enum check_side { CHECK_AT_END, CHECK_AT_START, CHECK_N_SIDES } check_side;

enum { CHECK_MAX_BUFFERS = 32, CHECK_MESSAGE = 256 };

typedef struct check_buffer {
    unsigned char *region; /* readable bytes between two guard pages */
    size_t region_bytes;
    unsigned char *data;
    size_t bytes;
    unsigned char *copy; /* input: contents before the call; output: result of the reference */
    size_t copy_bytes;
    bool is_output;
    bool is_float; /* two NaNs are equal: the payload is not defined */
} check_buffer;

typedef struct check {
    const kern_table *table; /* all kernels must be called through this table */
    check_data data;
    bool bench;        /* cases are the shapes to time */
    uint32_t per_cent; /* percentage of the cases to run; 0: all */

    /* Private to the checker. */
    check_side side;
    uint64_t random;
    check_buffer buffers[CHECK_MAX_BUFFERS];
    size_t n_buffers;
    bool is_reference;
    bool entered;
    char label[64];
    double flops, bytes;           /* bench: per call */
    double started, best;          /* bench: seconds */
    uint64_t batch, done, batches; /* bench: calls per batch, calls done, batches timed */
    char message[CHECK_MESSAGE];   /* error message; empty: no error */
} check;

/* Sets up and runs case i; false: no such case. With c->bench the cases are realistic shapes, named
 * by check_label. */
typedef bool check_fn(check *c, uint32_t i);

/* ---- for the checks ---- */

/* Loop around the kernel call: runs it once to check, many times to measure. */
#define CHECK_CALL(c) for (check_enter(c); check_again(c);)
void check_enter(check *c);
bool check_again(check *c);

/* Allocate filled buffers, aligned to the element size or as the _aligned functions say. */
float *check_in_f32(check *c, size_t n);                          /* by c->data */
void *check_in_aligned(check *c, size_t bytes, size_t alignment); /* the check must fill it */
float *check_out_f32(check *c, size_t n);                         /* filled with a pattern */
float *check_inout_f32(check *c, size_t n);                       /* by c->data */
void *check_out_aligned(check *c, size_t bytes, size_t alignment);
/* Fills n floats by c->data. */
void check_fill_f32(check *c, float *x, size_t n);

uint32_t check_random(check *c);
/* In [0, n). */
uint32_t check_below(check *c, uint32_t n);
/* Normal distribution, standard deviation 1. */
float check_normal(check *c);

/* Length of case i: 0 .. 100, so every tail occurs, then some larger. SIZE_MAX: no such case. */
size_t check_length(uint32_t i);

/* Bench: name of the shape, and operations and bytes per call. */
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

/* True if both tables have the same function in the slot. */
bool check_same_kernel(const check_slot *slot, const kern_table *a, const kern_table *b);

/* True if the kernels of the slot unpack rows and call those of another slot. */
bool check_is_unpacked(const check_slot *slot);

/* Runs all cases of a slot and compares `variant` with `reference`. True: all equal. False:
 * c->message describes the first difference. n_cases counts the cases. */
bool check_variant(check *c, const check_slot *slot, const kern_table *reference,
                   const kern_table *variant, uint64_t seed, uint64_t *n_cases);

/* Measures bench case i; false: no such case. c->best is seconds per call. */
bool check_time(check *c, const check_slot *slot, const kern_table *table, uint32_t i);

/* Installs signal handlers: a signal in a kernel becomes a failed check. */
void check_catch_signals(void);
void check_free(check *c);

#endif
