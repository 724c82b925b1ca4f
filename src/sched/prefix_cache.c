/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prefix_cache.c - reuse of KV pages and recurrent states between jobs, and eviction.
 *
 * A new job starts from the session of its cache namespace, running or idle, that shares the
 * longest usable prefix with its tokens. Tokens are compared one by one; no hash is trusted. If
 * another job is prefilling the same prefix, the new job waits until that job reaches the position
 * where the two prompts differ, then forks there.
 *
 * Branches. A session can be forked at a chunk boundary, or near its end. If two jobs in a row leave
 * a cached session in the same chunk (equal instructions, other questions), the second one caches a
 * copy of its session at the first of both positions. Later jobs start there.
 *
 * Sessions of finished jobs become idle sessions in LRU order. Paused jobs (key_share.c) keep their
 * sessions; together with the idle ones there are at most options.idle_sessions. When KV pages run
 * out, memory is freed in this order: unpinned idle sessions; pinned ones, if a running job needs
 * the pages; sessions of paused jobs; then the youngest running job of the key that holds the most
 * KV positions is preempted. A job without a session may preempt jobs of other keys that hold more
 * than an equal part of the KV positions.
 *
 * All code here runs on the engine thread. prefix_table.c is what other threads see.
 */
#include "base/os.h"
#include "base/philox.h"
#include "sched/sched_int.h"

enum {
    MIN_WAIT_GAIN = 128,  /* tokens that waiting for another job's prefill must save */
    MIN_KEEP_TOKENS = 64, /* of an idle session; also between two kept states */
    MIN_BRANCH_GAIN = 8,  /* tokens that a branch must save */
    MIN_MISS_TOKENS = 64, /* prefill cost of a difference that is worth reporting */
    MAX_EDIT = 32,        /* tokens of a difference after which texts may be equal again */
    MIN_EQUAL_AGAIN = 8,
    GENERATION_PROMPT = 16,          /* tokens after the last message of a prompt, at most */
    RETRY_POSITIONS = 4 * SCHED_PAGE /* spare positions for a preempted job, so that it is not
                                        preempted again at once */
};

/* Number of equal tokens at the start of both. */
static size_t common_prefix(const mote_session *session, const mote_token *tokens, size_t n)
{
    const mote_token *held = mote_session_tokens(session);
    const size_t length = (size_t)mote_session_length(session);
    size_t same = 0;
    while (same < n && same < length && held[same] == tokens[same])
        same++;
    return same;
}

/* ---- idle sessions ---- */

/* Removes entry i without freeing its session. */
static void idle_remove(sched *s, uint32_t i)
{
    s->idle[i] = s->idle[--s->n_idle];
    s->idle_changed = true;
}

static void idle_free(sched *s, uint32_t i)
{
    mote_session_free(s->idle[i].session);
    idle_remove(s, i);
}

/* The least recently used entry that is pinned, or not, as `pinned` says; UINT32_MAX: none. */
static uint32_t idle_oldest(const sched *s, const mote_session *except, bool pinned)
{
    uint32_t found = UINT32_MAX;
    for (uint32_t i = 0; i < s->n_idle; i++)
        if (s->idle[i].session != except && s->idle[i].info.pinned == pinned &&
            (found == UINT32_MAX || s->idle[i].last_used < s->idle[found].last_used))
            found = i;
    return found;
}

/* Frees the least recently used entry; a pinned one only if `pinned_too` and no other is left.
 * Returns false if nothing can be evicted. */
static bool idle_evict(sched *s, const mote_session *except, bool pinned_too)
{
    uint32_t i = idle_oldest(s, except, false);
    if (i == UINT32_MAX && pinned_too)
        i = idle_oldest(s, except, true);
    if (i == UINT32_MAX)
        return false;
    idle_free(s, i);
    return true;
}

static void idle_touch(sched *s, idle_session *e)
{
    e->last_used = ++s->idle_clock;
    e->info.used = os_now();
    s->idle_changed = true;
}

/* Returns true if `more` can replace `less` as the start of a job. */
static bool session_covers(const mote_session *more, const mote_session *less)
{
    const size_t n = (size_t)mote_session_length(less);
    return common_prefix(more, mote_session_tokens(less), n) == n &&
           mote_session_rewind_target(more, n) + SCHED_REWIND_TOLERANCE >= n;
}

/* Random ids: they do not reveal how many prefixes were cached. */
static uint64_t new_prefix_id(sched *s)
{
    const philox_block drawn = philox(s->options.salt, ++s->n_ids, 0);
    return (uint64_t)drawn.word[1] << 32 | drawn.word[0];
}

/* Pages and states of the session, counted as if none were shared. */
static uint64_t session_bytes(const sched *s, const mote_session *session)
{
    const mote_usage *u = &s->usage; /* the totals are constant, so no mutex is needed */
    const uint64_t pages = (mote_session_length(session) + SCHED_PAGE - 1) / SCHED_PAGE;
    const uint64_t states = 1 + mote_session_kept(session, NULL, 0);
    return pages * SCHED_PAGE * (s->memory.kv_cache / u->positions_total) +
           states * (s->memory.recurrent_state / (u->sessions_total + u->kept_states_total));
}

/* Idle sessions and those of paused jobs: options.idle_sessions together. */
static uint32_t parked_sessions(const sched *s)
{
    uint32_t n = s->n_idle;
    for (uint32_t i = 0; i < s->n_slots; i++)
        n += s->slots[i]->state == JOB_PAUSED && s->slots[i]->session != NULL;
    return n;
}

/* Adds a session of the job: that of the finished job, or a branch. Entries it covers are freed; if
 * an entry covers it, the session itself is freed. Branches stay: they save what others do not. */
static void idle_add(sched *s, const sched_job *job, mote_session *session, bool is_branch)
{
    for (uint32_t i = 0; i < s->n_idle && !is_branch; i++) {
        idle_session *e = &s->idle[i];
        if (e->info.ns != job->options.ns || e->is_branch)
            continue;
        if (!e->info.pinned && session_covers(session, e->session)) {
            idle_free(s, i--);
        } else if (session_covers(e->session, session)) {
            idle_touch(s, e);
            mote_session_free(session);
            return;
        }
    }
    if (parked_sessions(s) >= s->options.idle_sessions && !idle_evict(s, NULL, false)) {
        mote_session_free(session); /* all entries are pinned, or belong to paused jobs */
        return;
    }
    idle_session *e = &s->idle[s->n_idle++];
    *e =
        (idle_session){.session = session,
                       .n_prompt = is_branch ? (size_t)mote_session_length(session) : job->n_prompt,
                       .differs_at = job->differs_at,
                       .is_branch = is_branch};
    if (!is_branch)
        e->info = job->reused_from;
    if (e->info.id == 0)
        e->info.id = new_prefix_id(s);
    e->info.ns = job->options.ns;
    e->info.tokens = mote_session_length(session);
    e->info.bytes = session_bytes(s, session);
    idle_touch(s, e);
}

/* Frees the kept states of the least recently used unpinned session that has some. */
static bool idle_drop_states(sched *s)
{
    idle_session *found = NULL;
    uint64_t pos;
    for (uint32_t i = 0; i < s->n_idle; i++)
        if (!s->idle[i].info.pinned && mote_session_kept(s->idle[i].session, NULL, 0) > 0 &&
            (found == NULL || s->idle[i].last_used < found->last_used))
            found = &s->idle[i];
    if (found == NULL)
        return false;
    while (mote_session_kept(found->session, &pos, 1) > 0)
        mote_session_unkeep(found->session, pos);
    found->info.bytes = session_bytes(s, found->session);
    s->idle_changed = true;
    return true;
}

void prefix_cache_end(sched *s, sched_job *job)
{
    if (job->session == NULL)
        return;
    if (job->options.kind != SCHED_EMBED && mote_session_length(job->session) >= MIN_KEEP_TOKENS)
        idle_add(s, job, job->session, false);
    else
        mote_session_free(job->session);
    job->session = NULL;
}

void prefix_cache_free_all(sched *s)
{
    while (idle_evict(s, NULL, true)) {
    }
}

void prefix_cache_sweep(sched *s)
{
    for (uint32_t i = s->n_idle; i > 0 && s->idle_dropped; i--)
        if (s->idle[i - 1].dropped)
            idle_free(s, i - 1);
    s->idle_dropped = false;
}

/* ---- the longest prefix ---- */

/* A session that a job may start from. */
typedef struct prefix_source {
    mote_session *session; /* NULL: none */
    size_t reach;          /* tokens of the job left after rewinding the session to it */
    size_t same;           /* tokens of the job that the session holds */
    bool is_idle;
    uint32_t compared;
    /* The session with the longest common prefix, usable or not: */
    const mote_session *nearest;
    size_t nearest_same, nearest_prompt; /* common tokens; length of its own prompt */
    size_t nearest_again;                /* tokens that are equal again after the difference */
} prefix_source;

/* Tokens that may come from a cached session: never the last one, and none that needs logits. */
static size_t reusable_tokens(const sched_job *job)
{
    if (job->options.no_reuse || job->sum != NULL)
        return 0;
    return job->options.kind == SCHED_SCORE ? job->options.score_from - 1 : job->n - 1;
}

/* Length of the first run of at least MIN_EQUAL_AGAIN equal tokens, after at most MAX_EDIT tokens
 * of either text are skipped; 0: none. */
static size_t tokens_equal_again(const mote_token *a, size_t n_a, const mote_token *b, size_t n_b)
{
    for (size_t skipped = 0; skipped <= 2 * MAX_EDIT; skipped++)
        for (size_t i = skipped > MAX_EDIT ? skipped - MAX_EDIT : 0; i <= skipped && i <= MAX_EDIT;
             i++) {
            const size_t k = skipped - i;
            size_t n = 0;
            while (i + n < n_a && k + n < n_b && a[i + n] == b[k + n])
                n++;
            if (n >= MIN_EQUAL_AGAIN)
                return n;
        }
    return 0;
}

/* Makes the session best->nearest if it is a better candidate for the miss report. */
static void source_consider_nearest(prefix_source *best, const mote_session *session, size_t same,
                                    size_t n_prompt, const sched_job *job)
{
    const size_t length = (size_t)mote_session_length(session);
    const size_t held = n_prompt < length ? n_prompt : length;
    if (best->nearest != NULL && same < best->nearest_same)
        return;
    const size_t again = same < held && same < job->n_prompt
                             ? tokens_equal_again(mote_session_tokens(session) + same, held - same,
                                                  job->tokens + same, job->n_prompt - same)
                             : 0;
    if (best->nearest != NULL && same == best->nearest_same &&
        (again < best->nearest_again ||
         (again == best->nearest_again && n_prompt <= best->nearest_prompt)))
        return;
    best->nearest = session;
    best->nearest_same = same;
    best->nearest_prompt = n_prompt;
    best->nearest_again = again;
}

/* Updates *best if the job can reuse more tokens of this session, and best->nearest. n_prompt:
 * prompt length of the session. */
static void source_consider(prefix_source *best, mote_session *session, size_t n_prompt,
                            bool is_idle, const sched_job *job)
{
    const size_t same = common_prefix(session, job->tokens, reusable_tokens(job));
    const size_t reach = same > best->reach ? (size_t)mote_session_rewind_target(session, same) : 0;
    if (reach > best->reach) {
        best->session = session;
        best->reach = reach;
        best->same = same;
        best->is_idle = is_idle;
    }
    best->compared++;
    if (!job->started)
        source_consider_nearest(best, session, same, n_prompt, job);
}

static prefix_source source_find(sched *s, const sched_job *job)
{
    prefix_source best = {0};
    for (uint32_t i = 0; i < s->n_idle; i++)
        if (s->idle[i].info.ns == job->options.ns)
            source_consider(&best, s->idle[i].session, s->idle[i].n_prompt, true, job);
    for (uint32_t i = 0; i < s->n_slots; i++)
        if (s->slots[i]->session != NULL && s->slots[i]->options.ns == job->options.ns)
            source_consider(&best, s->slots[i]->session, s->slots[i]->n_prompt, false, job);
    return best;
}

/* The last chunk boundary of the prefix that both jobs share. */
static size_t common_boundary(const sched_job *job, const sched_job *other)
{
    const size_t most = reusable_tokens(job) < other->n ? reusable_tokens(job) : other->n;
    size_t same = 0;
    while (same < most && job->tokens[same] == other->tokens[same])
        same++;
    return same / SCHED_CHUNK * SCHED_CHUNK;
}

/* Finds a job that will prefill at least MIN_WAIT_GAIN tokens of this one beyond `have`. */
static bool job_starts_waiting(sched *s, sched_job *job, size_t have)
{
    job->waits_for = NULL;
    for (uint32_t i = 0; i < s->n_slots; i++) {
        const sched_job *other = s->slots[i];
        if (other->state != JOB_PREFILL || other->options.ns != job->options.ns)
            continue;
        const size_t fork_at = common_boundary(job, other);
        if (fork_at >= have + MIN_WAIT_GAIN && mote_session_length(other->session) < fork_at) {
            job->waits_for = other;
            job->fork_at = fork_at;
            have = fork_at;
        }
    }
    return job->waits_for != NULL;
}

static bool job_still_waits(const sched *s, const sched_job *job)
{
    const sched_job *other = job->waits_for;
    bool running = false; /* `other` may have been freed: compare the pointer first */
    for (uint32_t i = 0; i < s->n_slots; i++)
        running |= s->slots[i] == other;
    return other != NULL && running && other->state == JOB_PREFILL &&
           mote_session_length(other->session) < job->fork_at;
}

/* ---- eviction and preemption ---- */

static bool running_job_has_session(const sched *s)
{
    for (uint32_t i = 0; i < s->n_slots; i++)
        if (s->slots[i]->session != NULL && s->slots[i]->state != JOB_PAUSED)
            return true;
    return false;
}

/* Frees the session of a job, which will be prefilled again. pages: they ran out. */
static void job_lose_session(sched *s, sched_job *job, bool pages)
{
    mote_session_free(job->session);
    job->session = NULL;
    if (job->state != JOB_PAUSED)
        job->state = JOB_WAITING;
    job->preempted_at = pages ? s->n_ended : UINT64_MAX;
    job->result.preempted++;
    s->stats_delta.preempted++;
}

/* Frees the session of the youngest paused job that has one. */
static bool parked_free(sched *s, const mote_session *except, bool pages)
{
    for (uint32_t i = s->n_slots; i > 0; i--) {
        sched_job *job = s->slots[i - 1];
        if (job->state != JOB_PAUSED || job->session == NULL || job->session == except)
            continue;
        job_lose_session(s, job, pages);
        return true;
    }
    return false;
}

bool prefix_cache_can_park(const sched *s)
{
    return parked_sessions(s) < s->options.idle_sessions ||
           idle_oldest(s, NULL, false) != UINT32_MAX;
}

void prefix_cache_limit_parked(sched *s)
{
    while (parked_sessions(s) > s->options.idle_sessions)
        if (!idle_evict(s, NULL, false) && !parked_free(s, NULL, false))
            return;
}

/* KV positions of all jobs of the key, counted as if no page were shared. */
static uint64_t key_positions(const sched *s, const sched_key *key)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < s->n_slots; i++)
        if (s->slots[i]->key == key && s->slots[i]->session != NULL)
            n += mote_session_length(s->slots[i]->session);
    return n;
}

/* The key other than `except` that holds the most KV positions; NULL: no other key holds any. */
static const sched_key *key_with_most(const sched *s, const sched_key *except, uint64_t *held)
{
    const sched_key *found = NULL;
    *held = 0;
    for (uint32_t i = 0; i < s->n_slots; i++) {
        const sched_key *key = s->slots[i]->key;
        const uint64_t n = key != except && key != found ? key_positions(s, key) : 0;
        if (n > *held) {
            found = key;
            *held = n;
        }
    }
    return found;
}

/* The youngest running job of the key that has a session; NULL: none. A job that was preempted
 * before must have done as much since then as it costs to prefill it again, unless `any`. */
static sched_job *key_victim(const sched *s, const sched_key *key, const mote_session *except,
                             bool any)
{
    for (uint32_t i = s->n_slots; i > 0; i--) {
        sched_job *job = s->slots[i - 1];
        if (job->key == key && job->session != NULL && job->session != except &&
            (any || job->result.preempted == 0 ||
             job->run_units >= (int64_t)mote_session_length(job->session)))
            return job;
    }
    return NULL;
}

/* The youngest background job with a session; NULL: none. */
static sched_job *background_victim(const sched *s, const mote_session *except)
{
    for (uint32_t i = s->n_slots; i > 0; i--) {
        sched_job *job = s->slots[i - 1];
        if (job->key->background && job->session != NULL && job->session != except)
            return job;
    }
    return NULL;
}

/* A job without a session needs so many KV positions: preempts a job of the key that holds the
 * most. The job's own key must stay within an equal part, or be starved. */
static bool preempt_for(sched *s, const sched_job *job, uint64_t need, const mote_session *except)
{
    uint64_t held;
    const sched_key *most = key_with_most(s, job->key, &held);
    sched_job *background = job->key->background ? NULL : background_victim(s, except);
    uint32_t keys = 1;
    if (background != NULL) {
        job_lose_session(s, background, true);
        return true;
    }
    if (most != NULL && job->key->background && !most->background)
        return false;
    for (uint32_t i = 0; i < s->n_active; i++)
        keys += s->active[i] != job->key && s->active[i]->running > 0;
    const uint64_t part = s->usage.positions_total / keys;
    const bool is_entitled = key_positions(s, job->key) + need <= part && held > part;
    if (most == NULL || (!is_entitled && !share_is_starved(s, job->key)))
        return false;
    sched_job *victim = key_victim(s, most, except, false);
    if (victim != NULL)
        job_lose_session(s, victim, true);
    return victim != NULL;
}

/* Evicts idle sessions, and preempts jobs of other keys, until the job's prefill fits. A job
 * running alone always proceeds. A preempted job waits until another job ends, because the others
 * needed the pages it freed. */
static bool job_has_room(sched *s, const sched_job *job, const prefix_source *from)
{
    const uint64_t need = job->n - from->reach + SCHED_PAGE + (job->started ? RETRY_POSITIONS : 0);
    if (job->result.preempted > 0 && job->preempted_at == s->n_ended &&
        !share_is_starved(s, job->key) && running_job_has_session(s))
        return false;
    while (mote_engine_positions_free(s->engine) < need)
        if (!idle_evict(s, from->session, false) && !parked_free(s, from->session, true) &&
            !preempt_for(s, job, need, from->session))
            return !running_job_has_session(s);
    return true;
}

bool prefix_cache_make_room(sched *s)
{
    uint64_t held;
    uint32_t n = 0;
    if (idle_evict(s, NULL, true) || parked_free(s, NULL, true))
        return true;
    for (uint32_t i = 0; i < s->n_slots; i++)
        n += s->slots[i]->session != NULL;
    if (n < 2)
        return false;
    sched_job *victim = background_victim(s, NULL);
    if (victim == NULL)
        victim = key_victim(s, key_with_most(s, NULL, &held), NULL, true);
    job_lose_session(s, victim, true);
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

/* Returns true if a state is worth keeping at mark i. Of messages: only after the last one. Of
 * images: only after the last one, because the next question about it has another text. */
static bool mark_is_kept(const sched_job *job, size_t i)
{
    const chat_mark_kind kind = job->options.marks[i].kind;
    return kind == CHAT_MARK_TOOLS || kind == CHAT_MARK_SYSTEM || kind == CHAT_MARK_PROMPT ||
           (kind == CHAT_MARK_MESSAGE && i + 1 == job->options.n_marks) ||
           is_last_image(&job->options, i);
}

static size_t chunk_boundary(size_t pos)
{
    return pos / SCHED_CHUNK * SCHED_CHUNK;
}

/* Frees states of earlier turns at positions without a mark. Returns the last position that still
 * has a state. */
static size_t unkeep_stale_states(sched_job *job)
{
    enum { MAX_STATES = 16 };
    uint64_t kept[MAX_STATES];
    size_t last = 0;
    const size_t n = mote_session_kept(job->session, kept, MAX_STATES);
    for (size_t i = 0; i < n && i < MAX_STATES; i++) {
        bool wanted = false;
        for (size_t j = 0; j < job->options.n_marks; j++)
            wanted |=
                mark_is_kept(job, j) && chunk_boundary(job->options.marks[j].position) == kept[i];
        if (wanted)
            last = (size_t)kept[i];
        else
            mote_session_unkeep(job->session, kept[i]);
    }
    return last;
}

/* Plans a state at `pos`, unless one is less than `apart` tokens before it or the session is
 * already past it. */
static void plan_keep(sched_job *job, size_t pos, size_t apart, size_t *last)
{
    const size_t at = chunk_boundary(pos);
    if (at < *last + apart || at < chunk_boundary((size_t)mote_session_length(job->session)) ||
        pos >= job->n || job->n_keeps == SCHED_MAX_KEEPS)
        return;
    job->keeps[job->n_keeps++] = *last = at;
}

/* Fills job->keeps: the positions where prefix_cache_keep() keeps a recurrent state, so that later
 * jobs can fork there. Without marks: the last chunk boundary of the prompt. */
static void plan_keeps(sched_job *job)
{
    const sched_job_options *o = &job->options;
    size_t last = unkeep_stale_states(job);
    job->n_keeps = 0;
    for (size_t i = 0; i < o->n_marks; i++)
        if (mark_is_kept(job, i))
            plan_keep(job, o->marks[i].position,
                      o->marks[i].kind == CHAT_MARK_PROMPT ? SCHED_CHUNK : MIN_KEEP_TOKENS, &last);
    if (o->n_marks == 0)
        plan_keep(job, job->n_prompt - 1, MIN_KEEP_TOKENS, &last);
}

/* Caches a copy of the session at branch_at. Without room it is not cached. */
static void keep_branch(sched *s, sched_job *job)
{
    mote_session *copy;
    mote_error err;
    job->branch_at = 0;
    if (mote_session_fork(&copy, job->session, &err) == MOTE_OK)
        idle_add(s, job, copy, true);
}

void prefix_cache_keep(sched *s, sched_job *job)
{
    if (job->branch_at > 0 && mote_session_length(job->session) == job->branch_at)
        keep_branch(s, job);
    const size_t at = chunk_boundary((size_t)mote_session_length(job->session));
    size_t left = 0;
    for (size_t i = 0; i < job->n_keeps; i++) {
        if (job->keeps[i] != at) {
            job->keeps[left++] = job->keeps[i];
            continue;
        }
        while (mote_session_keep(job->session, NULL, NULL) == MOTE_E_FULL)
            if (!idle_drop_states(s))
                break;
    }
    job->n_keeps = left; /* prefill need not stop for this state again */
}

size_t prefix_cache_limit(const sched *s, const sched_job *job)
{
    const size_t at = (size_t)mote_session_length(job->session);
    size_t limit = job->n;
    for (size_t i = 0; i < job->n_keeps; i++) {
        /* A state can be kept until the next chunk boundary is crossed. */
        const size_t last = job->keeps[i] + SCHED_CHUNK - 1;
        if (last > at && last < limit)
            limit = last;
    }
    if (job->branch_at > at && job->branch_at < limit)
        limit = job->branch_at;
    for (uint32_t i = 0; i < s->n_slots; i++) {
        const sched_job *other = s->slots[i];
        if (other->state == JOB_WAITING && other->waits_for == job && other->fork_at > at &&
            other->fork_at < limit)
            limit = other->fork_at;
    }
    return limit;
}

/* ---- the start of a job ---- */

/* Returns true if the job continues the idle session's conversation: little of the session is
 * discarded, or the job repeats its whole prompt with something appended. */
static bool job_continues(const sched_job *job, const idle_session *e, const prefix_source *from)
{
    const size_t discarded = (size_t)mote_session_length(e->session) - from->reach;
    return discarded <= SCHED_REWIND_TOLERANCE ||
           (from->same + GENERATION_PROMPT >= e->n_prompt && job->n_prompt > e->n_prompt);
}

/* Plans a branch if the last job left the source in the same chunk, which the source can only be
 * rewound to the start of. Two places are needed: for the branch and for the session of a finished
 * job. */
static void plan_branch(const sched *s, sched_job *job, const prefix_source *from, idle_session *e)
{
    job->differs_at = from->same;
    if (e == NULL)
        return;
    const size_t at = e->differs_at < from->same ? e->differs_at : from->same;
    if (chunk_boundary(e->differs_at) == chunk_boundary(from->same) &&
        at >= from->reach + MIN_BRANCH_GAIN && s->options.idle_sessions >= 2)
        job->branch_at = at;
    e->differs_at = from->same;
}

/* Takes the source over if the job continues it, else forks it; without a source, a new one. */
static mote_status job_make_session(sched *s, sched_job *job, const prefix_source *from,
                                    mote_error *err)
{
    job->reused_from = (sched_prefix){0};
    job->differs_at = job->branch_at = 0;
    if (from->session == NULL)
        return mote_session_new(&job->session, s->engine,
                                &(mote_session_options){.context = s->options.context}, err);
    uint32_t i = 0;
    while (from->is_idle && s->idle[i].session != from->session)
        i++;
    idle_session *e = from->is_idle ? &s->idle[i] : NULL;
    plan_branch(s, job, from, e);
    if (e != NULL && !e->info.pinned && !e->is_branch && job_continues(job, e, from)) {
        job->session = from->session;
        job->reused_from = e->info;
        job->reused_from.hits++;
        idle_remove(s, i);
    } else {
        TRY(mote_session_fork(&job->session, from->session, err));
        if (e != NULL) {
            e->info.hits++;
            idle_touch(s, e);
        }
    }
    mote_session_rewind(job->session, from->reach);
    return MOTE_OK;
}

/* Reports where the prompt differs from the nearest session, if both continue long enough after
 * that position. Must run before sessions are rewound or evicted. */
static void job_note_miss(sched_job *job, const prefix_source *from)
{
    const size_t at = from->nearest_same;
    if (job->started || from->nearest == NULL || job->options.kind != SCHED_ANSWER ||
        job->options.no_reuse)
        return;
    const size_t length = (size_t)mote_session_length(from->nearest);
    const size_t prompt = from->nearest_prompt < length ? from->nearest_prompt : length;
    if (prompt < at + MIN_MISS_TOKENS || job->n_prompt < at + MIN_MISS_TOKENS)
        return;
    sched_miss *miss = &job->result.miss;
    miss->at = at;
    miss->n = prompt - at < SCHED_MISS_TOKENS ? prompt - at : SCHED_MISS_TOKENS;
    memcpy(miss->had, mote_session_tokens(from->nearest) + at, miss->n * sizeof *miss->had);
    miss->usable = (size_t)mote_session_rewind_target(from->nearest, at);
}

/* Records the source of the prefix when a job starts. A job that restarts after preemption keeps
 * its first record. */
static void job_note_reuse(sched *s, sched_job *job, const prefix_source *from)
{
    if (job->started)
        return;
    if (from->same > job->result.miss.at) /* it waited and found a longer prefix */
        job->result.miss.n = 0;
    job->started = true;
    job->result.started = os_now() - job->submitted;
    job->result.compared = from->compared;
    job->result.reuse = from->session == NULL ? SCHED_REUSE_NONE
                        : from->is_idle       ? SCHED_REUSE_IDLE
                                              : SCHED_REUSE_LIVE;
    /* A response format may have appended tokens to the prompt. */
    const size_t reused = from->reach < job->n_prompt ? from->reach : job->n_prompt;
    job->result.answer.reused_tokens = reused;
    *(from->is_idle ? &s->stats_delta.reused_idle_tokens : &s->stats_delta.reused_live_tokens) +=
        reused;
}

prefix_begin prefix_cache_begin(sched *s, sched_job *job, mote_error *err)
{
    if (job_still_waits(s, job))
        return PREFIX_WAITS;
    const prefix_source from = source_find(s, job);
    if (job_starts_waiting(s, job, from.reach))
        return PREFIX_WAITS;
    job_note_miss(job, &from);
    if (!job_has_room(s, job, &from))
        return PREFIX_NO_ROOM;
    if (job_make_session(s, job, &from, err) != MOTE_OK)
        return PREFIX_FAILED;
    job_note_reuse(s, job, &from);
    job->state = JOB_PREFILL;
    if (job->sum != NULL) /* a preempted job starts again */
        memset(job->sum, 0, s->info.embedding * sizeof *job->sum);
    plan_keeps(job);
    prefix_cache_keep(s, job);
    return PREFIX_BEGUN;
}
