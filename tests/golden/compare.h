/* SPDX-License-Identifier: Apache-2.0 */
/* compare.h - differences between computed and golden arrays. */
#ifndef MOTE_TESTS_GOLDEN_COMPARE_H
#define MOTE_TESTS_GOLDEN_COMPARE_H

#include "law/rig.h"
#include "support/npy.h"

#include <math.h>
#include <stdio.h>

/* The largest |got - want|; NaN counts as infinitely far. */
static inline double farthest(const float *got, const float *want, size_t n)
{
    double worst = 0;
    for (size_t i = 0; i < n; i++) {
        const double far = fabs((double)got[i] - (double)want[i]);
        if (isnan(far))
            return HUGE_VAL;
        worst = far > worst ? far : worst;
    }
    return worst;
}

static inline double largest(const float *x, size_t n)
{
    double most = 0;
    for (size_t i = 0; i < n; i++)
        most = fabs((double)x[i]) > most ? fabs((double)x[i]) : most;
    return most;
}

/* The measure of golden logits: the largest difference against the largest |logit| of the row. */
static inline double row_error(const float *got, const float *want, size_t n)
{
    return farthest(got, want, n) / largest(want, n);
}

/* An array of the data directory or of MOTE_SHARED; false: in neither. */
static inline bool golden_array(test_npy *out, const char *directory, const char *name)
{
    char file[256];
    snprintf(file, sizeof file, "golden/%s/%s.npy", directory, name);
    const char *path = rig_data(file);
    if (path == NULL)
        return false;
    if (!test_npy_load(out, path))
        rig_fail("cannot read %s", path);
    return true;
}

/* The same, but it must be there. */
static inline test_npy golden_needs(const char *directory, const char *name)
{
    test_npy array;
    if (!golden_array(&array, directory, name))
        rig_fail("golden/%s/%s.npy is missing", directory, name);
    return array;
}

#endif
