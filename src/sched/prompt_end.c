/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prompt_end.c - ends of prompts in memory: an equal prompt starts without a step.
 *
 * A session can return to a multiple of 32 tokens. The end of a prompt is what comes after the last
 * one, with the logits of the last token (mote_session_read_end). It is kept for every prompt that
 * has a state there. If the session with the state is evicted, the end is of no use until the
 * prompt is prefilled again. The least recently used end is evicted first. prefix_disk.c saves ends
 * with the sessions of their prompts.
 *
 * All code here runs on the engine thread.
 */
#include "base/mem.h"
#include "disk_cache/disk_session.h"
#include "sched/sched_int.h"

enum { MIN_TOKENS = 64 }; /* of a prompt */

bool prompt_end_wanted(const sched_job *job)
{
    return job->turn != NULL && job->result.prefilled <= 0;
}

/* Is the end of so many tokens possible? An end has 1 to 31 tokens, and none of an image. */
static bool end_is_possible(const mote_token *tokens, size_t n)
{
    bool text = n >= MIN_TOKENS && n % SCHED_CHUNK != 0;
    for (size_t i = sched_boundary(n); i < n && text; i++)
        text = tokens[i] >= 0;
    return text;
}

/* Memory of an end: its bytes and the tokens. */
static uint64_t end_memory(size_t n, size_t bytes)
{
    return bytes + n * sizeof(mote_token);
}

static void end_free(sched *s, uint32_t i)
{
    prompt_end *end = s->ends[i];
    prefix_disk_release_end(s, end);
    s->end_bytes -= end_memory(end->n, end->bytes);
    s->ends[i] = s->ends[--s->n_ends];
    mem_free(end->data);
    mem_free(end);
}

/* Frees the least recently used end. */
static void end_evict(sched *s)
{
    uint32_t least = 0;
    for (uint32_t i = 1; i < s->n_ends; i++)
        if (s->ends[i]->last_used < s->ends[least]->last_used)
            least = i;
    end_free(s, least);
}

static bool session_keeps(const mote_session *session, size_t at)
{
    return at == 0 || mote_session_rewind_target(session, at) == at;
}

static uint64_t job_adapters(const sched_job *job)
{
    return disk_adapters(job->options.loras, job->options.n_loras);
}

prompt_end *prompt_end_find(sched *s, const sched_job *job)
{
    const uint64_t adapters = job_adapters(job);
    for (uint32_t i = 0; i < s->n_ends; i++) {
        prompt_end *end = s->ends[i];
        if (end->ns == job->options.ns && end->adapters == adapters && end->n == job->n &&
            memcmp(end->tokens, job->tokens, end->n * sizeof *end->tokens) == 0)
            return end;
    }
    return NULL;
}

/* Copies the end of the session. NULL: no memory. */
static prompt_end *end_new(const sched_job *job, size_t bytes)
{
    mote_error ignored;
    prompt_end *end = mem_new(1, sizeof *end + job->n * sizeof *end->tokens);
    if (end == NULL)
        return NULL;
    *end = (prompt_end){
        .ns = job->options.ns, .adapters = job_adapters(job), .n = job->n, .bytes = bytes};
    memcpy(end->tokens, job->tokens, job->n * sizeof *end->tokens);
    end->data = mem_new(1, bytes);
    if (end->data != NULL && mote_session_read_end(job->session, end->data, &ignored) == MOTE_OK)
        return end;
    mem_free(end->data);
    mem_free(end);
    return NULL;
}

void prompt_end_note(sched *s, const sched_job *job)
{
    const size_t bytes = mote_session_end_bytes(job->session, job->n);
    const uint64_t memory = end_memory(job->n, bytes);
    prompt_end *end = prompt_end_find(s, job);
    if (end != NULL) {
        end->last_used = ++s->idle_clock;
        return;
    }
    if (!end_is_possible(job->tokens, job->n) || mote_session_length(job->session) != job->n ||
        !session_keeps(job->session, sched_boundary(job->n)) || memory > s->max_end_bytes)
        return;
    while (s->n_ends == SCHED_MAX_ENDS || s->end_bytes + memory > s->max_end_bytes)
        end_evict(s);
    end = end_new(job, bytes);
    if (end == NULL)
        return;
    end->last_used = ++s->idle_clock;
    s->end_bytes += memory;
    s->ends[s->n_ends++] = end;
}

bool prompt_end_use(sched *s, prompt_end *end, mote_session *session)
{
    mote_error ignored;
    const size_t at = sched_boundary(end->n);
    end->last_used = ++s->idle_clock;
    return mote_session_rewind(session, at) == at &&
           mote_session_write_end(session, end->tokens + at, end->n - at, end->data, &ignored) ==
               MOTE_OK;
}

static bool session_begins_with(const mote_session *session, uint64_t ns, const prompt_end *end)
{
    size_t n_loras;
    const mote_lora_use *loras = mote_session_loras(session, &n_loras);
    return end->ns == ns && end->adapters == disk_adapters(loras, n_loras) &&
           prefix_common(session, end->tokens, end->n) == end->n;
}

prompt_end *prompt_end_of(sched *s, uint64_t ns, const mote_session *session)
{
    prompt_end *found = NULL;
    for (uint32_t i = 0; i < s->n_ends; i++)
        if ((found == NULL || s->ends[i]->n > found->n) &&
            session_begins_with(session, ns, s->ends[i]))
            found = s->ends[i];
    return found;
}

void prompt_end_drop(sched *s, uint64_t ns, const mote_session *session)
{
    for (uint32_t i = s->n_ends; i > 0; i--)
        if (session_begins_with(session, ns, s->ends[i - 1]))
            end_free(s, i - 1);
}

void prompt_end_free_all(sched *s)
{
    while (s->n_ends > 0)
        end_free(s, s->n_ends - 1);
}
