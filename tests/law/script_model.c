/* SPDX-License-Identifier: Apache-2.0 */
/* script_model.c - see script_model.h. */
#include "law/script_model.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 64 };

void script_note(script *s, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    size_t left = sizeof s->text - s->text_bytes;
    int n = vsnprintf(s->text + s->text_bytes, left, format, args);
    va_end(args);
    if (n > 0)
        s->text_bytes += (size_t)n < left ? (size_t)n : left - 1;
}

void script_broken(script *s, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    rig_fail("%s\n%s\nreplay: law_random --model %s --kv %s --drafts %s --length %u --seed %llu "
             "--case %llu",
             s->text, text, s->table->setup.name, rig_kv_name(s->table->setup.kv),
             s->table->setup.drafts ? "on" : "off", s->table->setup.length,
             (unsigned long long)s->random.seed, (unsigned long long)s->number);
}

/* ---- pages ---- */

static size_t n_pages(const script_live *live)
{
    return (size_t)((live->pos + PAGE - 1) / PAGE);
}

/* Does a session other than this one hold the page? */
static bool held_by_others(const script_live *all, const script_live *live, uint32_t page)
{
    for (size_t i = 0; i < SCRIPT_SESSIONS; i++) {
        const script_live *other = &all[i];
        if (other == live || other->session == NULL || other->engine != live->engine)
            continue;
        for (size_t j = 0; j < n_pages(other); j++)
            if (other->pages[j] == page)
                return true;
    }
    return false;
}

/* A page that others hold too is not written: the session gets its own. With drafts the last page
 * is always written. */
static void own_last_page(const script_live *all, script_live *live, bool drafts, uint32_t *names)
{
    size_t n = n_pages(live);
    bool writes = drafts ? live->pos > 0 : live->pos % PAGE != 0;
    if (writes && held_by_others(all, live, live->pages[n - 1]))
        live->pages[n - 1] = ++*names;
}

static void append(const script_live *all, script_live *live, uint64_t n, bool drafts,
                   uint32_t *names)
{
    size_t before = n_pages(live);
    if (n == 0) /* a step that was cancelled before it came to this session */
        return;
    own_last_page(all, live, drafts, names);
    live->pos += n;
    if (n_pages(live) > SCRIPT_PAGES)
        rig_fail("a session of a script has at most %d pages", SCRIPT_PAGES);
    for (size_t i = before; i < n_pages(live); i++)
        live->pages[i] = ++*names;
}

/* Different pages that the sessions of an engine hold. */
static uint64_t used_pages(const script_live *all, uint32_t engine)
{
    static uint32_t seen[SCRIPT_SESSIONS * SCRIPT_PAGES];
    size_t n = 0;
    for (size_t i = 0; i < SCRIPT_SESSIONS; i++) {
        const script_live *live = &all[i];
        for (size_t j = 0; live->session != NULL && live->engine == engine && j < n_pages(live);
             j++) {
            size_t k = 0;
            while (k < n && seen[k] != live->pages[j])
                k++;
            seen[k] = live->pages[j];
            n += k == n;
        }
    }
    return n;
}

static uint64_t total_pages(const script *s, uint32_t engine)
{
    mote_usage use;
    mote_engine_usage(s->engines[engine].engine, &use);
    return use.positions_total / PAGE;
}

void script_advance(script *s, script_live *live, uint64_t n)
{
    enum { RING = 3 + 16 }; /* the convolution's last inputs */
    append(s->live, live, n, s->table->setup.drafts, &s->n_pages);
    if (live->pos > RING && live->ring_from < live->pos - RING)
        live->ring_from = live->pos - RING;
}

bool script_fits(const script *s, uint32_t engine, script_live *const *live, const mote_work *work,
                 size_t n)
{
    script_live after[SCRIPT_SESSIONS];
    memcpy(after, s->live, sizeof after);
    uint32_t names = s->n_pages;
    for (size_t i = 0; i < n; i++)
        append(after, &after[live[i] - s->live], work[i].n, s->table->setup.drafts, &names);
    return used_pages(after, engine) <= total_pages(s, engine);
}

bool script_draft_fits(script *s, uint32_t engine, script_live *const *live, const uint64_t *end,
                       size_t n)
{
    script_live after[SCRIPT_SESSIONS];
    memcpy(after, s->live, sizeof after);
    uint32_t names = s->n_pages;
    for (size_t i = 0; i < n; i++) {
        script_live *one = &after[live[i] - s->live];
        if (end[i] > 0)
            own_last_page(after, one, true, &names);
        if (end[i] > one->pos)
            append(after, one, end[i] - one->pos, true, &names);
    }
    if (used_pages(after, engine) > total_pages(s, engine))
        return false;
    for (size_t i = 0; i < n; i++)
        if (end[i] > 0)
            own_last_page(s->live, live[i], true, &s->n_pages);
    return true;
}

bool script_load_fits(script *s, script_live *loaded)
{
    for (size_t i = 0; i < n_pages(loaded); i++)
        loaded->pages[i] = ++s->n_pages;
    return used_pages(s->live, loaded->engine) + n_pages(loaded) <= total_pages(s, loaded->engine);
}

/* ---- what must hold between any two acts ---- */

void script_check_standing(script *s, const script_live *live, const char *after)
{
    uint64_t length = mote_session_length(live->session);
    if (length != live->pos)
        script_broken(s, "after %s session %d stands at %llu, not at %llu", after,
                      (int)(live - s->live), (unsigned long long)length,
                      (unsigned long long)live->pos);
    const mote_token *tokens = mote_session_tokens(live->session);
    if (length > 0 &&
        memcmp(tokens, s->table->tokens[live->stream], length * sizeof(mote_token)) != 0)
        script_broken(s, "after %s session %d holds other tokens than it was given", after,
                      (int)(live - s->live));
}

static bool has_mark(const script_live *live, uint64_t pos)
{
    for (uint32_t i = 0; i < live->n_kept; i++)
        if (live->kept[i] == pos)
            return true;
    return false;
}

/* The script may have marked a boundary twice, and the beginning, which needs no mark. */
static void check_marks(script *s, const script_live *live)
{
    uint64_t kept[SCRIPT_MARKS];
    size_t n = mote_session_kept(live->session, kept, SCRIPT_MARKS), expected = 0;
    for (uint64_t pos = 32; pos <= live->pos; pos += 32)
        expected += has_mark(live, pos);
    bool right = n == expected;
    for (size_t i = 0; right && i < n; i++)
        right = has_mark(live, kept[i]) && (i == 0 || kept[i - 1] < kept[i]);
    if (!right)
        script_broken(s, "session %d has %zu marks, not those it was given", (int)(live - s->live),
                      n);
}

static void check_engine(script *s, uint32_t engine, uint32_t n_sessions)
{
    mote_usage use;
    mote_engine_usage(s->engines[engine].engine, &use);
    uint64_t used = use.positions_total - use.positions_free;
    uint64_t expected = used_pages(s->live, engine) * PAGE;
    if (used != expected ||
        mote_engine_positions_free(s->engines[engine].engine) != use.positions_free)
        script_broken(s, "%llu positions of engine %u are in use, not %llu",
                      (unsigned long long)used, engine, (unsigned long long)expected);
    if (use.sessions != n_sessions)
        script_broken(s, "engine %u has %u sessions, not %u", engine, use.sessions, n_sessions);
    if (use.kept_states > use.kept_states_total)
        script_broken(s, "engine %u keeps %u states", engine, use.kept_states);
}

void script_check_use(script *s)
{
    uint32_t n_sessions[SCRIPT_ENGINES] = {0};
    for (size_t i = 0; i < SCRIPT_SESSIONS; i++) {
        if (s->live[i].session == NULL)
            continue;
        n_sessions[s->live[i].engine]++;
        check_marks(s, &s->live[i]);
    }
    for (uint32_t i = 0; i < SCRIPT_ENGINES; i++)
        if (s->engines[i].engine != NULL)
            check_engine(s, i, n_sessions[i]);
}
