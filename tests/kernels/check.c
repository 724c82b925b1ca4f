/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check.c - runs a case with the reference and with a variant, and compares the results.
 *
 * Each case runs with both placements of its buffers and with each kind of data. A signal in a
 * kernel fails the case, and the program continues.
 */
#define _GNU_SOURCE
#include "kernels/check.h"

#include "base/os.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { CANARY = 0xC5 };

static void check_fail(check *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void check_fail(check *c, const char *format, ...)
{
    va_list args;
    if (c->message[0] != 0)
        return; /* keep the first message */
    va_start(args, format);
    vsnprintf(c->message, sizeof c->message, format, args);
    va_end(args);
}

/* ---- signals ---- */

static sigjmp_buf after_signal;
static volatile sig_atomic_t inside_kernel;

static void on_signal(int number)
{
    if (!inside_kernel) {
        signal(number, SIG_DFL);
        raise(number);
        return;
    }
    siglongjmp(after_signal, number);
}

void check_catch_signals(void)
{
    static unsigned char stack[64 * 1024];
    const stack_t alternative = {.ss_sp = stack, .ss_size = sizeof stack};
    sigaltstack(&alternative, NULL);
    const int numbers[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK | SA_NODEFER};
        sigaction(numbers[i], &action, NULL);
    }
}

/* ---- around the call ---- */

void check_enter(check *c)
{
    for (size_t i = 0; i < c->n_buffers && !c->bench; i++) {
        check_buffer *b = &c->buffers[i];
        if (!b->is_output)
            memcpy(b->copy, b->data, b->bytes);
    }
    c->entered = false;
    c->batch = 1;
    c->batches = 0;
    c->done = 0;
    c->best = INFINITY;
    inside_kernel = 1;
}

/* Doubles the batch until it takes 200 us, then takes the best of 60. Short batches are seldom
 * disturbed by other processes. */
static bool time_again(check *c)
{
    enum { BATCHES = 60 };
    const double now = os_now();
    if (!c->entered) {
        c->entered = true;
        c->started = now;
        return true;
    }
    if (++c->done < c->batch)
        return true;
    const double seconds = now - c->started;
    if (seconds < 2e-4) {
        c->batch *= 2;
    } else {
        c->best = fmin(c->best, seconds / (double)c->batch);
        c->batches++;
    }
    c->done = 0;
    c->started = os_now();
    return c->batches < BATCHES;
}

bool check_again(check *c)
{
    const bool again = c->bench ? time_again(c) : !c->entered;
    c->entered = true;
    if (!again)
        inside_kernel = 0;
    return again;
}

void check_label(check *c, double flops, double bytes, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(c->label, sizeof c->label, format, args);
    va_end(args);
    c->flops = flops;
    c->bytes = bytes;
}

/* ---- after the call ---- */

static void verify_canaries(check *c, size_t index)
{
    const check_buffer *b = &c->buffers[index];
    const size_t before = (size_t)(b->data - b->region);
    for (size_t i = 0; i < b->region_bytes; i++) {
        if (i >= before && i < before + b->bytes)
            continue;
        if (b->region[i] != CANARY) {
            check_fail(c, "buffer %zu: wrote at byte %td of %zu", index, (ptrdiff_t)(i - before),
                       b->bytes);
            return;
        }
    }
}

/* Equal bytes, or in a float buffer two NaNs. */
static bool same_float(const unsigned char *a, const unsigned char *b)
{
    float x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return memcmp(a, b, sizeof x) == 0 || (x != x && y != y);
}

static void compare_floats(check *c, size_t index)
{
    const check_buffer *b = &c->buffers[index];
    for (size_t i = 0; i < b->bytes; i += sizeof(float)) {
        if (same_float(b->data + i, b->copy + i))
            continue;
        float got, want;
        memcpy(&got, b->data + i, sizeof got);
        memcpy(&want, b->copy + i, sizeof want);
        check_fail(c, "buffer %zu: float %zu of %zu is %a instead of %a", index, i / sizeof got,
                   b->bytes / sizeof got, (double)got, (double)want);
        return;
    }
}

static void compare_buffer(check *c, size_t index)
{
    const check_buffer *b = &c->buffers[index];
    if (memcmp(b->data, b->copy, b->bytes) == 0)
        return;
    if (!b->is_output) {
        check_fail(c, "buffer %zu: an input was changed", index);
    } else if (b->is_float) {
        compare_floats(c, index);
    } else {
        size_t i = 0;
        while (b->data[i] == b->copy[i])
            i++;
        check_fail(c, "buffer %zu: byte %zu of %zu is %02x instead of %02x", index, i, b->bytes,
                   b->data[i], b->copy[i]);
    }
}

/* Saves the outputs of the reference, or compares those of the variant with them. */
static void save_or_compare(check *c)
{
    for (size_t i = 0; i < c->n_buffers; i++) {
        check_buffer *b = &c->buffers[i];
        verify_canaries(c, i);
        if (c->is_reference && b->is_output)
            memcpy(b->copy, b->data, b->bytes);
        else
            compare_buffer(c, i);
    }
}

/* False: no such case. */
static bool run_slot_once(check *c, const check_slot *slot, uint32_t i, uint64_t seed)
{
    c->random = seed;
    c->n_buffers = 0;
    const int number = sigsetjmp(after_signal, 1);
    if (number != 0) {
        inside_kernel = 0;
        check_fail(c, "signal %d (%s)", number, strsignal(number));
        return true;
    }
    if (!slot->check(c, i))
        return false;
    save_or_compare(c);
    return true;
}

static bool run_case(check *c, const check_slot *slot, const kern_table *reference,
                     const kern_table *variant, uint32_t i, uint64_t seed)
{
    c->table = reference;
    c->is_reference = true;
    if (!run_slot_once(c, slot, i, seed))
        return false;
    c->table = variant;
    c->is_reference = false;
    if (c->message[0] == 0)
        run_slot_once(c, slot, i, seed);
    return true;
}

static void add_case_to_message(check *c, uint32_t i, uint64_t seed)
{
    static const char *const data[] = {"normal", "wide", "special", "equal", "tiny", "zero"};
    char what[CHECK_MESSAGE];
    memcpy(what, c->message, sizeof what);
    snprintf(c->message, sizeof c->message, "case %u, %s data, guard at %s, seed %llu: %.120s", i,
             data[c->data], c->side == CHECK_AT_END ? "end" : "start", (unsigned long long)seed,
             what);
}

/* True if the case is not in the random sample of per_cent; the seed selects the sample. */
static bool is_sampled_out(check *c, uint32_t i, int data, uint64_t seed)
{
    if (c->per_cent == 0 || c->per_cent >= 100)
        return false;
    c->random = seed + 1000003u * i + (uint64_t)data;
    return check_below(c, 100) >= c->per_cent;
}

bool check_variant(check *c, const check_slot *slot, const kern_table *reference,
                   const kern_table *variant, uint64_t seed, uint64_t *n_cases)
{
    c->message[0] = 0;
    c->bench = false;
    for (uint32_t i = 0;; i++)
        for (int data = 0; data < CHECK_N_DATA; data++)
            for (int side = 0; side < CHECK_N_SIDES; side++) {
                c->data = (check_data)data;
                c->side = (check_side)side;
                if (i > 0 && is_sampled_out(c, i, data, seed))
                    continue;
                if (!run_case(c, slot, reference, variant, i, seed + i))
                    return true;
                ++*n_cases;
                if (c->message[0] != 0) {
                    add_case_to_message(c, i, seed);
                    return false;
                }
            }
}

bool check_time(check *c, const check_slot *slot, const kern_table *table, uint32_t i)
{
    c->table = table;
    c->bench = true;
    c->data = CHECK_NORMAL;
    c->side = CHECK_AT_START;
    c->random = 1;
    c->n_buffers = 0;
    return slot->check(c, i);
}
