/* SPDX-License-Identifier: Apache-2.0 */
/*
 * err.h - the error convention: return mote_status and fill mote_error.
 *
 * The function that detects an error writes the message: what is wrong, with the value, and what to
 * do. Callers pass it on unchanged.
 */
#ifndef MOTE_BASE_ERR_H
#define MOTE_BASE_ERR_H

#include <mote.h>

/* Writes the error (err may be NULL) and returns `status`. Usage: return err_set(err, ...); */
mote_status err_set(mote_error *err, mote_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Prepends `prefix` and ": " to an existing message. */
void err_prefix(mote_error *err, const char *prefix);

/* Returns the failure of `call`. For functions that own nothing at this point. */
#define TRY(call)                                                                                  \
    do {                                                                                           \
        mote_status try_status_ = (call);                                                          \
        if (try_status_ != MOTE_OK)                                                                \
            return try_status_;                                                                    \
    } while (0)

#endif
