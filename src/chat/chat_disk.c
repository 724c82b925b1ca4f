/* SPDX-License-Identifier: Apache-2.0 */
/* chat_disk.c - see chat_disk.h. */
#include "chat/chat_disk.h"

#include "base/mem.h"
#include "chat/chat_int.h"
#include "disk_cache/disk_restore.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum {
    MAX_RESTORES = 3,   /* of an answer: after damaged records it starts without the disk */
    STATES_APART = 64,  /* tokens between two saved states */
    PROMPT_APART = 256, /* tokens between two states of CHAT_DISK_PROMPT: a shorter prefix is
                           computed faster than its state is written */
    PROBLEM_BYTES = 400
};

struct chat_disk {
    disk_cache *cache;
    disk_writer *writer;
    disk_part end; /* of the last prompt; data NULL: none. The writer may read it */
    char problem[PROBLEM_BYTES];
    atomic_bool has_problem; /* set when the text is complete */
};

/* disk_report_fn, on the writer's thread; called once. */
static void disk_on_report(void *with, const char *text)
{
    chat_disk *d = with;
    snprintf(d->problem, sizeof d->problem, "%s", text);
    atomic_store(&d->has_problem, true);
}

mote_status chat_disk_open(chat_disk **out, const char *directory, uint64_t bytes,
                           const disk_cipher *cipher, mote_error *err)
{
    *out = NULL;
    chat_disk *d = mem_new(1, sizeof *d);
    if (d == NULL)
        return chat_out_of_memory(err);
    const disk_writer_calls calls = {.report = disk_on_report, .with = d};
    mote_status status = disk_cache_open(&d->cache, directory, bytes, false, cipher, err);
    if (status == MOTE_OK)
        status = disk_writer_new(&d->writer, d->cache, &calls, err);
    if (status != MOTE_OK) {
        chat_disk_close(d);
        return status;
    }
    *out = d;
    return MOTE_OK;
}

void chat_disk_close(chat_disk *d)
{
    if (d == NULL)
        return;
    if (d->writer != NULL)
        disk_writer_release(d->writer);
    disk_writer_free(d->writer);
    mem_free(d->end.data);
    disk_cache_close(d->cache);
    mem_free(d);
}

void chat_set_disk(mote_chat *chat, chat_disk *d, chat_disk_extent extent)
{
    chat->disk = d;
    chat->disk_extent = extent;
}

bool chat_disk_flush(chat_disk *d, double seconds)
{
    bool failed;
    if (!disk_writer_is_idle(d->writer, &failed))
        disk_writer_wait(d->writer, seconds);
    return disk_writer_is_idle(d->writer, &failed);
}

uint64_t chat_disk_restored(const mote_chat *chat)
{
    return chat->disk_restored;
}

const char *chat_disk_problem(chat_disk *d)
{
    return d != NULL && atomic_exchange(&d->has_problem, false) ? d->problem : NULL;
}

/* ---- one answer ---- */

void chat_disk_release(chat_disk *d)
{
    disk_writer_release(d->writer);
}

/* The namespace is that of a server without API keys. */
static void disk_scope_of(const mote_engine *engine, const mote_session *session, disk_scope *scope)
{
    size_t n;
    const mote_lora_use *loras = mote_session_loras(session, &n);
    disk_scope_init(scope, engine, spec_draft_of(engine) != NULL, 0, disk_adapters(loras, n));
}

/* A save that was released ends with its next piece. */
static void disk_wait_idle(chat_disk *d)
{
    bool failed;
    while (!disk_writer_is_idle(d->writer, &failed))
        disk_writer_wait(d->writer, 1);
}

bool chat_disk_note_end(chat_disk *d, const mote_engine *engine, const mote_session *session)
{
    const size_t n = (size_t)mote_session_length(session);
    const size_t bytes = mote_session_end_bytes(session, n);
    disk_scope scope;
    mote_error ignored;
    disk_wait_idle(d);
    mem_free(d->end.data);
    d->end = (disk_part){0};
    disk_scope_of(engine, session, &scope);
    if (n < PROMPT_APART ||
        !disk_session_end_head(&d->end.head, &scope, mote_session_tokens(session), n, bytes) ||
        disk_cache_has(d->cache, d->end.head.key))
        return false;
    d->end.data = mem_new(1, bytes);
    if (d->end.data != NULL && mote_session_read_end(session, d->end.data, &ignored) != MOTE_OK) {
        mem_free(d->end.data);
        d->end.data = NULL;
    }
    return d->end.data != NULL;
}

size_t chat_disk_restore(chat_disk *d, mote_engine *engine, mote_session **session,
                         const chat_disk_prompt *prompt)
{
    const uint64_t context = mote_session_context(*session);
    mote_lora_use loras[MOTE_MAX_LORAS];
    size_t n_loras;
    const mote_lora_use *held = mote_session_loras(*session, &n_loras);
    memcpy(loras, held, n_loras * sizeof *loras); /* the session is freed */
    disk_scope scope;
    disk_prefix prefix = {.tokens = prompt->tokens,
                          .n = prompt->n,
                          .images = prompt->images,
                          .n_images = prompt->n_images,
                          .context = context,
                          .with_end = true,
                          .loras = loras,
                          .n_loras = n_loras};
    size_t have = prompt->have;
    mote_error ignored;
    disk_scope_of(engine, *session, &scope);
    disk_cache_refresh(d->cache, &ignored);
    for (unsigned i = 0; i < MAX_RESTORES; i++) {
        disk_restore *restore;
        prefix.position = disk_session_find_more(d->cache, &scope, prompt->tokens, prompt->n,
                                                 prompt->n - 1, have);
        if (prefix.position == 0)
            break;
        mote_session_free(*session); /* the engine may have no second one */
        *session = NULL;
        have = 0;
        if (disk_restore_new(&restore, d->cache, &scope, engine, &prefix, NULL, NULL, &ignored) ==
            MOTE_OK)
            *session = disk_restore_end(restore);
        if (*session != NULL)
            return (size_t)mote_session_length(*session);
    }
    if (*session == NULL)
        mote_session_new(
            session, engine,
            &(mote_session_options){.context = context, .loras = loras, .n_loras = n_loras},
            &ignored);
    return 0;
}

void chat_disk_save(chat_disk *d, const mote_engine *engine, const mote_session *session,
                    chat_disk_extent extent, size_t prompt_end)
{
    disk_scope scope;
    const bool all = extent == CHAT_DISK_ALL;
    disk_wait_idle(d);
    disk_scope_of(engine, session, &scope);
    const disk_extent what = {.states = {.apart = all ? STATES_APART : PROMPT_APART,
                                         .most = all ? UINT64_MAX : prompt_end},
                              .end = d->end.data != NULL ? &d->end : NULL};
    disk_writer_save(d->writer, &scope, engine, session, &what);
}
