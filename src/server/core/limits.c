/* SPDX-License-Identifier: Apache-2.0 */
/* http_limits.c - see http_limits.h. */
#include "server/core/limits.h"

#include "base/str.h"

#include <stdio.h>
#include <stdlib.h>

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

static mote_status unknown_limit(str name, mote_error *err)
{
    char names[480] = "";
    size_t n = 0;
    for (size_t i = 0; i < LIMIT_COUNT && n < sizeof names; i++)
        n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", i > 0 ? ", " : "",
                              limit_rows[i].name);
    return err_set(err, MOTE_E_ARG, "there is no limit %.*s; there are %s", STR_ARG(name), names);
}

mote_status limits_set(limits *l, const char *assignment, mote_error *err)
{
    const char *equals = strchr(assignment, '=');
    if (equals == NULL)
        return err_set(err, MOTE_E_ARG, "a limit is set as NAME=VALUE, not %.80s", assignment);
    str name = {assignment, (size_t)(equals - assignment)};
    for (size_t i = 0; i < LIMIT_COUNT; i++) {
        const limit_row *row = &limit_rows[i];
        if (!str_is(name, row->name))
            continue;
        char *end;
        double value = strtod(equals + 1, &end);
        if (end == equals + 1 || *end != '\0' || !(value >= row->min && value <= row->max))
            return err_set(err, MOTE_E_ARG, "the limit %s goes from %g to %.0f, not %.40s",
                           row->name, row->min, row->max, equals + 1);
        l->at[i] = value;
        return MOTE_OK;
    }
    return unknown_limit(name, err);
}
