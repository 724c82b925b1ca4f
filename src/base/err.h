/* SPDX-License-Identifier: Apache-2.0 */
/*
 * err.h - the one way to fail: return mote_status, fill mote_error.
 *
 * The message is written where the facts are, once, for the person who can act
 * on it, and never re-worded on the way up.
 */
#ifndef MOTE_BASE_ERR_H
#define MOTE_BASE_ERR_H

#include <mote.h>

/* Writes the error (err may be NULL) and returns `status`, so that a failing
 * function ends with `return err_set(...)`. */
mote_status err_set(mote_error *err, mote_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts `prefix` and ": " before a message that is already there. */
void err_prefix(mote_error *err, const char *prefix);

/* For functions that own nothing: pass the failure of `call` on. */
#define TRY(call)                                                                                  \
    do {                                                                                           \
        mote_status try_status_ = (call);                                                          \
        if (try_status_ != MOTE_OK)                                                                \
            return try_status_;                                                                    \
    } while (0)

#endif
