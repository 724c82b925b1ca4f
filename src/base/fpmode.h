/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fpmode.h - the floating-point mode of a thread: rounding, subnormals, exception masks.
 *
 * Results are defined for one mode (docs/numerics.md, section 1): round to nearest, ties to even;
 * subnormal numbers are kept; no exception traps. The caller of the library may have set another
 * one (fesetround, flush-to-zero, feenableexcept), and a new thread inherits the mode of its
 * creator. So every public function that computes starts with
 *
 *     FPMODE_SCOPE;
 *
 * which sets this mode and restores the caller's on every return, exception flags included. Threads
 * of the library call fpmode_enter once.
 */
#ifndef MOTE_BASE_FPMODE_H
#define MOTE_BASE_FPMODE_H

#include <stdint.h>

#if defined(__x86_64__)

typedef struct fpmode {
    uint32_t mxcsr;   /* SSE and AVX */
    uint16_t control; /* x87: the C library reads the rounding mode from it */
    uint16_t padding; /* 0, so that modes can be compared with memcmp */
} fpmode;

static inline void fpmode_set(const fpmode *mode)
{
    __asm__ volatile("ldmxcsr %0\n\tfldcw %1" : : "m"(mode->mxcsr), "m"(mode->control) : "memory");
}

static inline fpmode fpmode_get(void)
{
    fpmode mode = {0};
    __asm__ volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(mode.mxcsr), "=m"(mode.control) : : "memory");
    return mode;
}

#define FPMODE_DEFAULT ((fpmode){.mxcsr = 0x1F80, .control = 0x037F})

#elif defined(__aarch64__)

typedef struct fpmode {
    uint64_t fpcr, fpsr; /* control; exception flags */
} fpmode;

static inline void fpmode_set(const fpmode *mode)
{
    __asm__ volatile("msr fpcr, %0\n\tmsr fpsr, %1"
                     :
                     : "r"(mode->fpcr), "r"(mode->fpsr)
                     : "memory");
}

static inline fpmode fpmode_get(void)
{
    fpmode mode;
    __asm__ volatile("mrs %0, fpcr\n\tmrs %1, fpsr"
                     : "=r"(mode.fpcr), "=r"(mode.fpsr)
                     :
                     : "memory");
    return mode;
}

#define FPMODE_DEFAULT ((fpmode){0, 0})

#else
#error "fpmode.h: add the floating-point control registers of this architecture"
#endif

/* Sets the mode that results are defined for. Returns the mode before. */
static inline fpmode fpmode_enter(void)
{
    const fpmode before = fpmode_get();
    const fpmode defined = FPMODE_DEFAULT;
    fpmode_set(&defined);
    return before;
}

#define FPMODE_SCOPE                                                                               \
    const fpmode fpmode_caller __attribute__((unused, cleanup(fpmode_set))) = fpmode_enter()

#endif
