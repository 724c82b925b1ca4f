/* SPDX-License-Identifier: Apache-2.0 */
/* limits.c - see limits.h. */
#include "server/core/limits.h"

#include "base/str.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const limit_row limit_rows[LIMIT_COUNT] = {
#define LIMIT_ROW(name, text, initial, min, max, status) {text, initial, min, max, status},
    LIMIT_TABLE(LIMIT_ROW)
#undef LIMIT_ROW
};

void limits_init(limits *l)
{
    for (size_t i = 0; i < LIMIT_COUNT; i++)
        l->at[i] = limit_rows[i].initial;
}

static mote_status limits_unknown(str name, mote_error *err)
{
    char names[640] = "";
    size_t n = 0;
    for (size_t i = 0; i < LIMIT_COUNT && n < sizeof names; i++)
        n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", i > 0 ? ", " : "",
                              limit_rows[i].name);
    return err_set(err, MOTE_E_ARG, "unknown limit %.*s; known: %s", STR_ARG(name), names);
}

/* Limits in bytes may have a unit. */
static bool limit_read(const limit_row *row, const char *text, double *value)
{
    if (strstr(row->name, "bytes") != NULL)
        return str_size(text, 1, value);
    char *end;
    *value = strtod(text, &end);
    return end != text && *end == '\0';
}

mote_status limits_set(limits *l, const char *assignment, mote_error *err)
{
    const char *equals = strchr(assignment, '=');
    if (equals == NULL)
        return err_set(err, MOTE_E_ARG, "--limit must be NAME=VALUE, got %.80s", assignment);
    str name = {assignment, (size_t)(equals - assignment)};
    for (size_t i = 0; i < LIMIT_COUNT; i++) {
        const limit_row *row = &limit_rows[i];
        if (!str_is(name, row->name))
            continue;
        double value;
        if (!limit_read(row, equals + 1, &value) || !(value >= row->min && value <= row->max))
            return err_set(err, MOTE_E_ARG, "limit %s must be %g to %.0f, got %.40s", row->name,
                           row->min, row->max, equals + 1);
        l->at[i] = value;
        return MOTE_OK;
    }
    return limits_unknown(name, err);
}
