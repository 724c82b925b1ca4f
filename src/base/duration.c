/* SPDX-License-Identifier: Apache-2.0 */
/* duration.c - implements duration.h. */
#include "base/duration.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Skips the unit at *p and returns it in seconds; 0: no unit. Longer names come first. */
static double duration_take_unit(const char **p)
{
    static const struct {
        const char *name;
        double seconds;
    } units[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        const size_t n = strlen(units[i].name);
        if (strncmp(*p, units[i].name, n) == 0) {
            *p += n;
            return units[i].seconds;
        }
    }
    return 0;
}

bool duration_read(const char *text, double *seconds)
{
    const char *p = text + (*text == '-' || *text == '+');
    double total = 0;
    if (*p == '\0')
        return false;
    while (*p != '\0') {
        char *end;
        if (*p != '.' && (*p < '0' || *p > '9'))
            return false;
        const double n = strtod(p, &end);
        p = end;
        double unit = duration_take_unit(&p);
        if (unit == 0 && *p != '\0')
            return false;
        total += n * (unit > 0 ? unit : 1);
    }
    *seconds = *text == '-' ? -total : total;
    return isfinite(total);
}
