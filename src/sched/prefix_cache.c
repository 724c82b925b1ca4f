/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prefix_cache.c - sessions: from which one a job begins, where states are kept, and who gives way
 * when pages run out. Engine thread.
 *
 * A job begins from the session of its realm that can be brought furthest along its tokens; every
 * token is compared, nothing is taken for equal by a hash. If somebody is reading the same text
 * right now, the job waits until that reading comes to where the two part, and forks there.
 */
#include "base/os.h"
#include "sched/sched_int.h"

enum {
    WORTH_WAITING = 128,    /* tokens more than can be had at once */
    WORTH_KEEPING = 64,     /* tokens of a session on the shelf; between two kept states */
    WORTH_TELLING = 64,     /* tokens that a difference between two prompts costs */
    GENERATION_PROMPT = 16, /* tokens after the last message of a prompt, at most */
    RETURN_ROOM =
        4 * SCHED_PAGE /* for a job that was put back once, so that it is not again at once */
};

/* What a job may begin from. */
typedef struct source {
    mote_session *session; /* NULL: nothing */
    size_t reach;          /* tokens of the job it can be brought to */
    size_t same;           /* tokens of the job it holds */
    bool is_ended;
    /* of all that were looked at, the one with most in common, whether it can be used or not: */
    const mote_session *nearest;
    size_t nearest_same, nearest_prompt; /* tokens in common; of its own prompt */
} source;

size_t prefix_cache_common(const mote_session *session, const mote_token *tokens, size_t n)
{
    const mote_token *held = mote_session_tokens(session);
    const size_t length = (size_t)mote_session_length(session);
    size_t same = 0;
    while (same < n && same < length && held[same] == tokens[same])
        same++;
    return same;
}

void prefix_cache_end(sched *s, sched_job *job)
{
    if (job->session == NULL)
        return;
    if (job->options.kind != SCHED_EMBED && mote_session_length(job->session) >= WORTH_KEEPING)
        prefix_cache_put(s, job);
    else
        mote_session_free(job->session);
    job->session = NULL;
}

/* ---- where to begin ---- */

/* Tokens that may come from elsewhere: not the last, and none whose logits are wanted. */
static size_t usable(const sched_job *job)
{
    if (job->options.no_reuse || job->sum != NULL)
        return 0;
    return job->options.kind == SCHED_SCORE ? job->options.score_from - 1 : job->n - 1;
}

static void consider(source *best, mote_session *session, size_t n_prompt, bool is_ended,
                     const sched_job *job)
{
    const size_t same = prefix_cache_common(session, job->tokens, usable(job));
    const size_t reach = same > best->reach ? (size_t)mote_session_rewind_target(session, same) : 0;
    if (reach > best->reach) {
        best->session = session;
        best->reach = reach;
        best->same = same;
        best->is_ended = is_ended;
    }
    if (best->nearest == NULL || same > best->nearest_same) {
        best->nearest = session;
        best->nearest_same = same;
        best->nearest_prompt = n_prompt;
    }
}

static source best_source(sched *s, const sched_job *job)
{
    source best = {0};
    for (uint32_t i = 0; i < s->n_idle; i++)
        if (s->idle[i].is.ns == job->options.ns)
            consider(&best, s->idle[i].session, s->idle[i].n_prompt, true, job);
    for (uint32_t i = 0; i < s->n_slots; i++)
        if (s->slots[i]->session != NULL && s->slots[i]->options.ns == job->options.ns)
            consider(&best, s->slots[i]->session, s->slots[i]->n_prompt, false, job);
    return best;
}

static bool seated(const sched *s, const sched_job *job)
{
    for (uint32_t i = 0; i < s->n_slots; i++)
        if (s->slots[i] == job)
            return true;
    return false;
}

/* How far the reading of `other` will come along the tokens of this job, as a boundary. */
static size_t meeting(const sched_job *job, const sched_job *other)
{
    const size_t most = usable(job) < other->n ? usable(job) : other->n;
    size_t same = 0;
    while (same < most && job->tokens[same] == other->tokens[same])
        same++;
    return same / SCHED_CHUNK * SCHED_CHUNK;
}

/* Is somebody about to read what this job would read beyond `have`? */
static bool waits(sched *s, sched_job *job, size_t have)
{
    job->awaits = NULL;
    for (uint32_t i = 0; i < s->n_slots; i++) {
        const sched_job *other = s->slots[i];
        if (other->state != JOB_PREFILL || other->options.ns != job->options.ns)
            continue;
        const size_t meet = meeting(job, other);
        if (meet >= have + WORTH_WAITING && mote_session_length(other->session) < meet) {
            job->awaits = other;
            job->meet = meet;
            have = meet;
        }
    }
    return job->awaits != NULL;
}

static bool still_waits(const sched *s, const sched_job *job)
{
    return job->awaits != NULL && seated(s, job->awaits) && job->awaits->state == JOB_PREFILL &&
           mote_session_length(job->awaits->session) < job->meet;
}

/* ---- room ---- */

static bool anybody_else(const sched *s)
{
    for (uint32_t i = 0; i < s->n_slots; i++)
        if (s->slots[i]->session != NULL)
            return true;
    return false;
}

/* Are there pages for what it will read? Whoever is alone may try. Who was put back stays so
 * until somebody has left: what it freed is what the others lacked. */
static bool has_room(sched *s, const sched_job *job, const source *from)
{
    const uint64_t need = job->n - from->reach + SCHED_PAGE + (job->begun ? RETURN_ROOM : 0);
    if (job->result.preempted > 0 && job->preempted_at == s->n_left)
        return !anybody_else(s);
    while (mote_engine_positions_free(s->engine) < need)
        if (!prefix_cache_evict(s, from->session, false))
            return !anybody_else(s);
    return true;
}

bool prefix_cache_make_room(sched *s)
{
    if (prefix_cache_evict(s, NULL, true))
        return true;
    uint32_t n = 0, youngest = 0;
    for (uint32_t i = 0; i < s->n_slots; i++)
        if (s->slots[i]->session != NULL) {
            youngest = i;
            n++;
        }
    if (n < 2)
        return false;
    sched_job *job = s->slots[youngest];
    mote_session_free(job->session);
    job->session = NULL;
    job->state = JOB_WAITING;
    job->preempted_at = s->n_left;
    job->result.preempted++;
    s->since.preempted++;
    return true;
}

/* ---- kept states ---- */

static bool is_last_image(const sched_job_options *o, size_t i)
{
    for (size_t j = i + 1; j < o->n_marks; j++)
        if (o->marks[j].kind == CHAT_MARK_SHOWN)
            return false;
    return o->marks[i].kind == CHAT_MARK_SHOWN;
}

/* Is a state wanted at the mark? Of messages only at the end of all; of pictures behind the last,
 * because the next question about it is another one. */
static bool is_wanted(const sched_job *job, size_t i)
{
    const chat_mark_kind kind = job->options.marks[i].kind;
    return kind == CHAT_MARK_TOOLS || kind == CHAT_MARK_SYSTEM || kind == CHAT_MARK_PROMPT ||
           (kind == CHAT_MARK_MESSAGE && i + 1 == job->options.n_marks) ||
           is_last_image(&job->options, i);
}

static size_t boundary(size_t pos)
{
    return pos / SCHED_CHUNK * SCHED_CHUNK;
}

/* States that earlier turns kept and that this one has no mark at. Returns the last one left. */
static size_t forget_stale(sched_job *job)
{
    enum { MOST = 16 };
    uint64_t kept[MOST];
    size_t last = 0;
    const size_t n = mote_session_kept(job->session, kept, MOST);
    for (size_t i = 0; i < n && i < MOST; i++) {
        bool wanted = false;
        for (size_t j = 0; j < job->options.n_marks; j++)
            wanted |= is_wanted(job, j) && boundary(job->options.marks[j].position) == kept[i];
        if (wanted)
            last = (size_t)kept[i];
        else
            mote_session_unkeep(job->session, kept[i]);
    }
    return last;
}

/* A state at the mark, unless the last one is near or the session is beyond it. */
static void plan_keep(sched_job *job, size_t pos, size_t apart, size_t *last)
{
    const size_t at = boundary(pos);
    if (at < *last + apart || at < boundary((size_t)mote_session_length(job->session)) ||
        pos >= job->n || job->n_keeps == SCHED_MAX_KEEPS)
        return;
    job->keeps[job->n_keeps++] = *last = at;
}

static void plan_keeps(sched_job *job)
{
    const sched_job_options *o = &job->options;
    size_t last = forget_stale(job);
    job->n_keeps = 0;
    for (size_t i = 0; i < o->n_marks; i++)
        if (is_wanted(job, i))
            plan_keep(job, o->marks[i].position,
                      o->marks[i].kind == CHAT_MARK_PROMPT ? SCHED_CHUNK : WORTH_KEEPING, &last);
    if (o->n_marks == 0)
        plan_keep(job, job->n_prompt - 1, WORTH_KEEPING, &last);
}

void prefix_cache_keep(sched *s, sched_job *job)
{
    const size_t at = boundary((size_t)mote_session_length(job->session));
    for (size_t i = 0; i < job->n_keeps; i++)
        if (job->keeps[i] == at)
            while (mote_session_keep(job->session, NULL, NULL) == MOTE_E_FULL)
                if (!prefix_cache_drop_states(s))
                    return;
}

size_t prefix_cache_limit(const sched *s, const sched_job *job)
{
    const size_t at = (size_t)mote_session_length(job->session);
    size_t cut = job->n;
    for (size_t i = 0; i < job->n_keeps; i++) /* anywhere before the next boundary will do */
        if (job->keeps[i] + SCHED_CHUNK - 1 > at && job->keeps[i] + SCHED_CHUNK - 1 < cut)
            cut = job->keeps[i] + SCHED_CHUNK - 1;
    for (uint32_t i = 0; i < s->n_slots; i++)
        if (s->slots[i]->state == JOB_WAITING && s->slots[i]->awaits == job &&
            s->slots[i]->meet > at && s->slots[i]->meet < cut)
            cut = s->slots[i]->meet;
    return cut;
}

/* ---- beginning ---- */

static uint32_t on_idle_list(const sched *s, const mote_session *session)
{
    uint32_t i = 0;
    while (s->idle[i].session != session)
        i++;
    return i;
}

/* The job goes on where that session stopped, or where the question it answered did: then
 * nobody will come back to what follows. */
static bool continues(const sched_job *job, const idle_session *e, const source *from)
{
    const size_t lost = (size_t)mote_session_length(e->session) - from->reach;
    return lost <= SCHED_LITTLE_LOST ||
           (from->same + GENERATION_PROMPT >= e->n_prompt && job->n_prompt > e->n_prompt);
}

static mote_status make_session(sched *s, sched_job *job, const source *from, mote_error *err)
{
    job->took = (sched_prefix){0};
    if (from->session == NULL)
        return mote_session_new(&job->session, s->engine,
                                &(mote_session_options){.context = s->options.context}, err);
    const uint32_t text_store = from->is_ended ? on_idle_list(s, from->session) : 0;
    idle_session *e = from->is_ended ? &s->idle[text_store] : NULL;
    if (e != NULL && !e->is.pinned && continues(job, e, from)) {
        job->session = from->session;
        job->took = e->is;
        job->took.hits++;
        prefix_cache_take(s, text_store);
    } else {
        TRY(mote_session_fork(&job->session, from->session, err));
        if (e != NULL) {
            e->is.hits++;
            prefix_cache_touch(s, e);
        }
    }
    mote_session_rewind(job->session, from->reach);
    return MOTE_OK;
}

/* Before anything is rewound or evicted: what the nearest one has in place of this prompt, if
 * both go on for long enough that the difference costs something. */
static void note_miss(sched_job *job, const source *from)
{
    const size_t at = from->nearest_same;
    if (job->begun || from->nearest == NULL || job->options.kind != SCHED_ANSWER ||
        job->options.no_reuse)
        return;
    const size_t length = (size_t)mote_session_length(from->nearest);
    const size_t prompt = from->nearest_prompt < length ? from->nearest_prompt : length;
    if (prompt < at + WORTH_TELLING || job->n_prompt < at + WORTH_TELLING)
        return;
    sched_miss *miss = &job->result.miss;
    miss->at = at;
    miss->n = prompt - at < SCHED_MISS_TOKENS ? prompt - at : SCHED_MISS_TOKENS;
    memcpy(miss->had, mote_session_tokens(from->nearest) + at, miss->n * sizeof *miss->had);
}

static void note_reuse(sched *s, sched_job *job, const source *from)
{
    if (job->begun)
        return;
    if (from->same > job->result.miss.at) /* it waited, and found a better one */
        job->result.miss.n = 0;
    job->begun = true;
    job->result.started = os_now() - job->submitted;
    job->result.reuse = from->session == NULL ? SCHED_REUSE_NONE
                        : from->is_ended      ? SCHED_REUSE_IDLE
                                              : SCHED_REUSE_LIVE;
    /* a form may have put tokens in behind the prompt */
    const size_t reused = from->reach < job->n_prompt ? from->reach : job->n_prompt;
    job->result.answer.reused_tokens = reused;
    *(from->is_ended ? &s->since.reused_idle_tokens : &s->since.reused_live_tokens) += reused;
}

bool prefix_cache_begin(sched *s, sched_job *job)
{
    mote_error err;
    if (still_waits(s, job))
        return true;
    const source from = best_source(s, job);
    if (waits(s, job, from.reach))
        return true;
    note_miss(job, &from);
    if (!has_room(s, job, &from))
        return false;
    const mote_status status = make_session(s, job, &from, &err);
    if (status != MOTE_OK) {
        job_finish(s, job, status, &err);
        return true;
    }
    note_reuse(s, job, &from);
    job->state = JOB_PREFILL;
    if (job->sum != NULL) /* it may have been put back half-way */
        memset(job->sum, 0, s->info.embedding * sizeof *job->sum);
    plan_keeps(job);
    prefix_cache_keep(s, job);
    return true;
}
