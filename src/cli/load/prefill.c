/* SPDX-License-Identifier: Apache-2.0 */
/* prefill.c - see feed.h. */
#include "cli/load/prefill.h"

#include "base/err.h"
#include "base/os.h"
#include "cli/term/interrupt.h"
#include "cli/term/progress.h"

enum { FIRST_SLICE = 32, SMALLEST_SLICE = 32, LARGEST_SLICE = 512 };

/* Long slices are what makes reading fast, short ones what makes Ctrl-C prompt. */
static const double slice_too_short = 0.15, slice_too_long = 0.6; /* seconds */

static size_t next_slice(size_t slice, size_t largest, double seconds)
{
    if (seconds < slice_too_short && slice < largest)
        return slice * 2 < largest ? slice * 2 : largest;
    if (seconds > slice_too_long && slice > SMALLEST_SLICE)
        return slice / 2;
    return slice;
}

static mote_status feed_slice(const feed_job *job, size_t at, size_t n, mote_error *err)
{
    bool last = at + n == job->n;
    mote_work work = {
        .session = job->session,
        .tokens = job->tokens + at,
        .n = n,
        .want = job->want == MOTE_LOGITS_LAST && !last ? MOTE_LOGITS_NONE : job->want,
    };
    TRY(mote_step(job->engine, &work, 1, err));
    size_t rows = work.want == MOTE_LOGITS_ALL ? n : work.want == MOTE_LOGITS_LAST ? 1 : 0;
    if (rows > 0 && job->rows != NULL && !job->rows(job->ctx, job->session, rows))
        return err_set(err, MOTE_E_IO, "the logits could not be written");
    return MOTE_OK;
}

mote_status feed_prompt(const feed_job *job, mote_error *err)
{
    size_t largest = job->slice_max != 0 ? job->slice_max : LARGEST_SLICE;
    size_t slice = job->slice != 0 ? job->slice : FIRST_SLICE < largest ? FIRST_SLICE : largest;
    progress p;
    progress_begin(&p, "reading", PROGRESS_TOKENS, job->n);
    mote_status status = MOTE_OK;
    for (size_t at = 0; at < job->n && status == MOTE_OK;) {
        size_t n = slice < job->n - at ? slice : job->n - at;
        double started = os_now();
        status = interrupt_came() ? err_set(err, MOTE_E_CANCELED, "interrupted")
                                  : feed_slice(job, at, n, err);
        at += n;
        if (job->slice == 0)
            slice = next_slice(slice, largest, os_now() - started);
        if (status == MOTE_OK)
            progress_at(&p, at);
    }
    progress_end(&p);
    return status;
}
