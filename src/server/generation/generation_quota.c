/* SPDX-License-Identifier: Apache-2.0 */
/* generation_quota.c - what a request costs, when it comes and when it is over: its key tokens, its
 * model the time that it stays loaded. */
#include "base/os.h"
#include "server/generation/generation_int.h"
#include "server/auth/quota.h"

enum { LONGEST_WAIT = 24 * 3600 * 1000 }; /* milliseconds; nobody is told to wait for longer */

static uint64_t now_ms(void)
{
    return (uint64_t)(1000 * os_now());
}

bool generation_admitted(generation *w, http_error *error)
{
    static const char *const what[QUOTA_KINDS] = {"requests a minute", "tokens a minute",
                                                  "requests at once"};
    quota *q = exchange_request(w->x)->quota;
    quota_kind why;
    uint64_t wait;
    if (q == NULL || w->how->end == NULL) /* counting and rendering take none of the model's time */
        return true;
    if (quota_begin(q, now_ms(), &why, &wait)) {
        w->quota = q;
        return true;
    }
    api_error_set(error, API_E_RATE, "rate_limit_exceeded",
                  "this key has reached its limit of %u %s", q->most[why], what[why]);
    error->retry_ms = (unsigned)(wait < LONGEST_WAIT ? wait : LONGEST_WAIT);
    return false;
}

/* Tokens that were read for a choice and that it wrote, as far as it came. */
static uint64_t cost(const choice *c)
{
    sched_job_status where;
    if (!c->submitted || c->job == NULL)
        return 0;
    sched_job_get_status(served_model_sched(c->of->request.served), c->job, &where);
    return (where.done > where.reused ? where.done - where.reused : 0) + where.generated;
}

void generation_charge(generation *w)
{
    uint64_t tokens = 0;
    if (w->quota == NULL)
        return;
    for (size_t i = 0; i < w->n_choices; i++)
        tokens += cost(&w->choices[i]);
    quota_end(w->quota, now_ms(), tokens);
    w->quota = NULL;
}

void generation_takes_model(generation *w)
{
    w->counted = w->x != NULL;
    if (w->counted)
        served_model_begin(w->request.served);
}

void generation_leaves_model(generation *w)
{
    if (w->counted)
        served_model_end(w->request.served, w->request.has_keep ? &w->request.keep_alive : NULL);
}
