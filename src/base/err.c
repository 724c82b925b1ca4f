/* SPDX-License-Identifier: Apache-2.0 */
/* err.c - implements err.h. */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

mote_status err_set(mote_error *err, mote_status status, const char *format, ...)
{
    if (err != NULL) {
        va_list args;
        va_start(args, format);
        vsnprintf(err->text, sizeof err->text, format, args);
        va_end(args);
        err->status = status;
    }
    return status;
}

void err_prefix(mote_error *err, const char *prefix)
{
    if (err == NULL)
        return;
    char old[sizeof err->text];
    memcpy(old, err->text, sizeof old);
    int at = snprintf(err->text, sizeof err->text, "%s: ", prefix);
    if (at > 0 && (size_t)at < sizeof err->text)
        snprintf(err->text + at, sizeof err->text - (size_t)at, "%s", old);
}

const char *mote_status_name(mote_status status)
{
    switch (status) {
    case MOTE_OK: return "ok";
    case MOTE_E_ARG: return "bad_argument";
    case MOTE_E_MEMORY: return "out_of_memory";
    case MOTE_E_IO: return "io_error";
    case MOTE_E_FORMAT: return "damaged_file";
    case MOTE_E_UNSUPPORTED: return "unsupported";
    case MOTE_E_FULL: return "context_full";
    case MOTE_E_CANCELED: return "canceled";
    case MOTE_E_MISMATCH: return "mismatch";
    }
    return "unknown";
}
