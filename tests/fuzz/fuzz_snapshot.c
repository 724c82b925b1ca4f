/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_snapshot.c - arbitrary bytes as a snapshot: an error, or a working session.
 *
 * A snapshot of even the smallest model has 100 KB of numbers, and nearly every random change
 * fails at the checksum. So an input is a list of changes to a valid snapshot:
 *
 *   byte 0     which valid snapshot (its length in tokens)
 *   byte 1     bit 0: recompute the checksum; bit 1: cut it off at bytes 2-5,
 *              bit 2: add a few bytes; bit 3: snapshot of an engine with drafts;
 *              bit 4: load it in such an engine
 *   bytes 2-5  where to cut
 *   then       5 bytes a change: offset (inside the header if its top bit is set), value
 *
 * A session that is loaded must run a step and sample a token, regardless of its numbers.
 */
#include "base/mem.h"
#include "engine/engine_int.h"
#include "fuzz/fuzz.h"
#include "law/rig.h"
#include "support/data.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER_BYTES = 64, RECORD_BYTES = 5, EXTRA_BYTES = 9 };
static const uint32_t lengths[] = {0, 1, 5, 32, 40};
enum { N_SOUND = sizeof lengths / sizeof *lengths };

/* [0]: without drafts, [1]: with drafts. */
static struct {
    mote_engine *engine[2];
    unsigned char *bytes[2][N_SOUND];
    size_t n[2][N_SOUND];
} world;

static void demand(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "fuzz_snapshot: %s\n", what);
    abort();
}

/* An engine and its valid snapshots. */
static void make_snapshots(const mote_model *model, size_t drafts)
{
    mote_engine *engine = rig_engine(
        model,
        &(mote_engine_options){
            .threads = 1, .sessions = 2, .positions = 256, .batch = 64, .drafts = drafts > 0});
    world.engine[drafts] = engine;
    static const mote_token tokens[64] = {1, 2, 3, 5, 8, 13, 21, 34, 55, 89};
    char file[128];
    rig_temp_path(file, sizeof file, "sound.snapshot");
    for (size_t i = 0; i < N_SOUND; i++) {
        mote_error err = {0};
        mote_session *session = rig_session(engine);
        if (lengths[i] > 0)
            rig_feed(engine, session, tokens, lengths[i], MOTE_LOGITS_NONE);
        MUST(mote_session_save(session, file, &err), &err);
        mote_session_free(session);
        world.bytes[drafts][i] = test_file_read(file, &world.n[drafts][i]);
        demand(world.bytes[drafts][i] != NULL, "a snapshot cannot be read again");
    }
}

/* The model and the valid snapshots, created once. */
static void make_world(void)
{
    const char *path = rig_model_path("r2-gqa4-kv2-tied-mtp");
    demand(path != NULL, "the model is missing");
    mote_model *model = rig_open(path, MOTE_ISA_BEST);
    make_snapshots(model, 0);
    make_snapshots(model, 1);
}

static uint32_t u32_at(const uint8_t *p)
{
    uint32_t value;
    memcpy(&value, p, sizeof value);
    return value;
}

/* Applies the input to a copy of a valid snapshot; *n is its new length. */
static unsigned char *changed(const uint8_t *data, size_t size, size_t *n)
{
    size_t which = data[0] % N_SOUND;
    unsigned flags = data[1], drafts = flags >> 3 & 1;
    const size_t bytes = world.n[drafts][which];
    unsigned char *copy = calloc(bytes + EXTRA_BYTES, 1);
    demand(copy != NULL, "no memory");
    memcpy(copy, world.bytes[drafts][which], bytes);
    *n = bytes + (flags & 4 ? EXTRA_BYTES : 0);
    for (size_t at = 6; at + RECORD_BYTES <= size; at += RECORD_BYTES) {
        uint32_t offset = u32_at(data + at);
        size_t reach = offset >> 31 ? HEADER_BYTES : *n;
        copy[(offset & 0x7fffffffu) % reach] = data[at + 4];
    }
    if (flags & 2)
        *n = u32_at(data + 2) % (*n + 1);
    if (flags & 1 && *n >= sizeof(uint64_t)) {
        uint64_t check = XXH3_64bits(copy, *n - sizeof check);
        memcpy(copy + *n - sizeof check, &check, sizeof check);
    }
    return copy;
}

static void go_on(mote_engine *engine, mote_session *session)
{
    mote_error err = {0};
    mote_choice choice;
    uint64_t length = mote_session_length(session);
    demand(length <= mote_session_context(session), "a session longer than its context");
    for (uint64_t i = 0; i < length; i++)
        demand(mote_session_tokens(session)[i] >= 0, "a token outside the vocabulary");
    static const mote_token next[] = {7, 7, 7};
    mote_draft_item draft = {.session = session, .next = 7, .n = 3};
    if (engine->options.drafts && length > 0)
        demand(mote_draft(engine, &draft, 1, &err) == MOTE_OK, "a loaded session cannot draft");
    mote_work work = {.session = session, .tokens = next, .n = 3};
    mote_status status = mote_step(engine, &work, 1, &err);
    demand(status == MOTE_OK || status == MOTE_E_FULL, "a loaded session cannot go on");
    if (status == MOTE_OK)
        (void)mote_sample(session, 0, NULL, &choice, &err);
    (void)mote_session_rewind(session, length / 2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (world.engine[0] == NULL)
        make_world();
    if (size < 6)
        return 0;
    size_t n;
    unsigned char *bytes = changed(data, size, &n);
    /* Flush against its end, so that a sanitizer sees a read beyond it. */
    unsigned char *exact = malloc(n > 0 ? n : 1);
    demand(exact != NULL, "no memory");
    memcpy(exact, bytes, n);
    free(bytes);
    const mem_stats before = mem_count();
    mote_error err = {0};
    mote_session *session;
    mote_engine *engine = world.engine[data[1] >> 4 & 1];
    mote_status status = snapshot_read(&session, engine, exact, n, NULL, &err);
    if (status == MOTE_OK) {
        go_on(engine, session);
        mote_session_free(session);
    } else {
        demand(session == NULL && err.status == status && err.text[0] != 0,
               "a failure without its error");
    }
    demand(mem_count().blocks == before.blocks, "memory is left behind");
    free(exact);
    return 0;
}
