/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sched_prefix.c - sessions: from which one a job begins, what is kept of those that ended,
 * and who gives way when pages run out. Engine thread.
 *
 * Ended sessions stand on a shelf, the least recently used goes first. A job begins from the
 * session of its realm that can be brought furthest along its tokens; every token is compared,
 * nothing is taken for equal by a hash. If somebody is reading the same text right now,
 * the job waits until that reading comes to where the two part, and forks there.
 */
#include "base/os.h"
#include "serve/sched_int.h"

enum {
    WORTH_WAITING = 128,    /* tokens more than can be had at once */
    WORTH_KEEPING = 64,     /* tokens of a session on the shelf; between two kept states */
    LITTLE_LOST = 64,       /* tokens of an ended session that nobody will miss */
    GENERATION_PROMPT = 16, /* tokens after the last message of a prompt, at most */
    PAGE = 64,
    RETURN_ROOM = 4 * PAGE /* for a job that was put back once, so that it is not again at once */
};

/* What a job may begin from. */
typedef struct source {
    mote_session *session; /* NULL: nothing */
    size_t reach;          /* tokens of the job it can be brought to */
    size_t same;           /* tokens of the job it holds */
    bool is_ended;
} source;

/* ---- the shelf ---- */

static void take_off(sched *s, uint32_t i)
{
    s->shelf[i] = s->shelf[--s->n_shelf];
}

/* Frees the least recently used one, `but` excepted. */
static bool evict(sched *s, const mote_session *but)
{
    uint32_t oldest = UINT32_MAX;
    for (uint32_t i = 0; i < s->n_shelf; i++)
        if (s->shelf[i].session != but &&
            (oldest == UINT32_MAX || s->shelf[i].used < s->shelf[oldest].used))
            oldest = i;
    if (oldest == UINT32_MAX)
        return false;
    mote_session_free(s->shelf[oldest].session);
    take_off(s, oldest);
    return true;
}

static size_t common(const mote_session *session, const mote_token *tokens, size_t n)
{
    const mote_token *held = mote_session_tokens(session);
    const size_t length = (size_t)mote_session_length(session);
    size_t same = 0;
    while (same < n && same < length && held[same] == tokens[same])
        same++;
    return same;
}

/* Is all that matters of `less` also to be had from `more`? */
static bool covers(const mote_session *more, const mote_session *less)
{
    const size_t n = (size_t)mote_session_length(less);
    return common(more, mote_session_tokens(less), n) == n &&
           mote_session_reach(more, n) + LITTLE_LOST >= n;
}

static void put_on_shelf(sched *s, const sched_job *job)
{
    mote_session *session = job->session;
    for (uint32_t i = 0; i < s->n_shelf; i++) {
        ended *e = &s->shelf[i];
        if (e->realm != job->options.realm)
            continue;
        if (covers(session, e->session)) {
            mote_session_free(e->session);
            take_off(s, i--);
        } else if (covers(e->session, session)) {
            e->used = ++s->shelf_clock;
            mote_session_free(session);
            return;
        }
    }
    if (s->n_shelf == s->options.idle)
        evict(s, NULL);
    s->shelf[s->n_shelf++] = (ended){session, job->options.realm, job->n_prompt, ++s->shelf_clock};
}

void prefix_end(sched *s, sched_job *job)
{
    if (job->session == NULL)
        return;
    if (job->options.kind != SCHED_EMBED && mote_session_length(job->session) >= WORTH_KEEPING)
        put_on_shelf(s, job);
    else
        mote_session_free(job->session);
    job->session = NULL;
}

void prefix_free_all(sched *s)
{
    while (evict(s, NULL)) {
    }
}

/* ---- where to begin ---- */

/* Tokens that may come from elsewhere: not the last, and none whose logits are wanted. */
static size_t usable(const sched_job *job)
{
    if (job->options.no_reuse)
        return 0;
    return job->options.kind == SCHED_SCORE ? job->options.score_from - 1 : job->n - 1;
}

static void consider(source *best, mote_session *session, bool is_ended, const sched_job *job)
{
    const size_t same = common(session, job->tokens, usable(job));
    const size_t reach = same > best->reach ? (size_t)mote_session_reach(session, same) : 0;
    if (reach > best->reach)
        *best = (source){session, reach, same, is_ended};
}

static source best_source(sched *s, const sched_job *job)
{
    source best = {0};
    for (uint32_t i = 0; i < s->n_shelf; i++)
        if (s->shelf[i].realm == job->options.realm)
            consider(&best, s->shelf[i].session, true, job);
    for (uint32_t i = 0; i < s->n_seats; i++)
        if (s->seats[i]->session != NULL && s->seats[i]->options.realm == job->options.realm)
            consider(&best, s->seats[i]->session, false, job);
    return best;
}

static bool seated(const sched *s, const sched_job *job)
{
    for (uint32_t i = 0; i < s->n_seats; i++)
        if (s->seats[i] == job)
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
    for (uint32_t i = 0; i < s->n_seats; i++) {
        const sched_job *other = s->seats[i];
        if (other->state != JOB_READING || other->options.realm != job->options.realm)
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
    return job->awaits != NULL && seated(s, job->awaits) && job->awaits->state == JOB_READING &&
           mote_session_length(job->awaits->session) < job->meet;
}

/* ---- room ---- */

static bool anybody_else(const sched *s)
{
    for (uint32_t i = 0; i < s->n_seats; i++)
        if (s->seats[i]->session != NULL)
            return true;
    return false;
}

/* Are there pages for what it will read? Whoever is alone may try. Who was put back stays so
 * until somebody has left: what it freed is what the others lacked. */
static bool has_room(sched *s, const sched_job *job, const source *from)
{
    const uint64_t need = job->n - from->reach + PAGE + (job->begun ? RETURN_ROOM : 0);
    if (job->result.put_back > 0 && job->put_back_at == s->n_left)
        return !anybody_else(s);
    while (mote_engine_room(s->engine) < need)
        if (!evict(s, from->session))
            return !anybody_else(s);
    return true;
}

bool prefix_make_room(sched *s)
{
    if (evict(s, NULL))
        return true;
    uint32_t n = 0, youngest = 0;
    for (uint32_t i = 0; i < s->n_seats; i++)
        if (s->seats[i]->session != NULL) {
            youngest = i;
            n++;
        }
    if (n < 2)
        return false;
    sched_job *job = s->seats[youngest];
    mote_session_free(job->session);
    job->session = NULL;
    job->state = JOB_STANDING;
    job->put_back_at = s->n_left;
    job->result.put_back++;
    s->since.put_back++;
    return true;
}

/* ---- kept states ---- */

static bool is_last_picture(const sched_job_options *o, size_t i)
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
           is_last_picture(&job->options, i);
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

/* Takes its states from the ended session that was not wanted for longest. */
static bool thin_shelf(sched *s)
{
    ended *oldest = NULL;
    uint64_t pos;
    for (uint32_t i = 0; i < s->n_shelf; i++)
        if (mote_session_kept(s->shelf[i].session, NULL, 0) > 0 &&
            (oldest == NULL || s->shelf[i].used < oldest->used))
            oldest = &s->shelf[i];
    if (oldest == NULL)
        return false;
    while (mote_session_kept(oldest->session, &pos, 1) > 0)
        mote_session_unkeep(oldest->session, pos);
    return true;
}

void prefix_keep(sched *s, sched_job *job)
{
    const size_t at = boundary((size_t)mote_session_length(job->session));
    for (size_t i = 0; i < job->n_keeps; i++)
        if (job->keeps[i] == at)
            while (mote_session_keep(job->session, NULL, NULL) == MOTE_E_FULL)
                if (!thin_shelf(s))
                    return;
}

size_t prefix_cut(const sched *s, const sched_job *job)
{
    const size_t at = (size_t)mote_session_length(job->session);
    size_t cut = job->n;
    for (size_t i = 0; i < job->n_keeps; i++) /* anywhere before the next boundary will do */
        if (job->keeps[i] + SCHED_CHUNK - 1 > at && job->keeps[i] + SCHED_CHUNK - 1 < cut)
            cut = job->keeps[i] + SCHED_CHUNK - 1;
    for (uint32_t i = 0; i < s->n_seats; i++)
        if (s->seats[i]->state == JOB_STANDING && s->seats[i]->awaits == job &&
            s->seats[i]->meet > at && s->seats[i]->meet < cut)
            cut = s->seats[i]->meet;
    return cut;
}

/* ---- beginning ---- */

static uint32_t on_shelf(const sched *s, const mote_session *session)
{
    uint32_t i = 0;
    while (s->shelf[i].session != session)
        i++;
    return i;
}

/* The job goes on where that session stopped, or where the question it answered did: then
 * nobody will come back to what follows. */
static bool continues(const sched_job *job, const ended *e, const source *from)
{
    const size_t lost = (size_t)mote_session_length(e->session) - from->reach;
    return lost <= LITTLE_LOST ||
           (from->same + GENERATION_PROMPT >= e->n_prompt && job->n_prompt > e->n_prompt);
}

static mote_status make_session(sched *s, sched_job *job, const source *from, mote_error *err)
{
    if (from->session == NULL)
        return mote_session_new(&job->session, s->engine,
                                &(mote_session_options){.context = s->options.context}, err);
    const uint32_t shelf = from->is_ended ? on_shelf(s, from->session) : 0;
    if (from->is_ended && continues(job, &s->shelf[shelf], from)) {
        job->session = from->session;
        take_off(s, shelf);
    } else {
        TRY(mote_session_fork(&job->session, from->session, err));
        if (from->is_ended)
            s->shelf[shelf].used = ++s->shelf_clock;
    }
    mote_session_rewind(job->session, from->reach);
    return MOTE_OK;
}

static void note_reuse(sched *s, sched_job *job, const source *from)
{
    if (job->begun)
        return;
    job->begun = true;
    job->result.started = os_now() - job->submitted;
    job->result.reuse = from->session == NULL ? SCHED_REUSE_NONE
                        : from->is_ended      ? SCHED_REUSE_ENDED
                                              : SCHED_REUSE_LIVE;
    /* a form may have put tokens in behind the prompt */
    const size_t reused = from->reach < job->n_prompt ? from->reach : job->n_prompt;
    job->result.answer.reused_tokens = reused;
    *(from->is_ended ? &s->since.reused_ended_tokens : &s->since.reused_live_tokens) += reused;
}

bool prefix_begin(sched *s, sched_job *job)
{
    mote_error err;
    if (still_waits(s, job))
        return true;
    const source from = best_source(s, job);
    if (waits(s, job, from.reach))
        return true;
    if (!has_room(s, job, &from))
        return false;
    const mote_status status = make_session(s, job, &from, &err);
    if (status != MOTE_OK) {
        drive_finish(s, job, status, &err);
        return true;
    }
    note_reuse(s, job, &from);
    job->state = JOB_READING;
    plan_keeps(job);
    prefix_keep(s, job);
    return true;
}
