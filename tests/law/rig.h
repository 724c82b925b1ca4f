/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rig.h - helpers for tests of the engine: open, run, compare.
 *
 * A call that must succeed ends the program with a message if it fails, so that tests read as the
 * sequence of calls they check.
 */
#ifndef MOTE_TESTS_LAW_RIG_H
#define MOTE_TESTS_LAW_RIG_H

#include "base/cpu.h"

#include <mote.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- outcome ---- */

/* Prints the message and exits with 1. */
void rig_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* `what` is the call as written; a status other than MOTE_OK ends the program. */
void rig_must(mote_status status, const mote_error *err, const char *what);
#define MUST(call, err) rig_must((call), (err), #call)

/* ---- random numbers: a counter, so that a case can be replayed alone ---- */

typedef struct rig_random {
    uint64_t seed, stream, n;
} rig_random;

/* Uniform below `below`, which is not 0. */
uint32_t rig_below(rig_random *r, uint32_t below);
/* True once in n times. */
bool rig_once_in(rig_random *r, uint32_t n);

/* ---- the machine ---- */

/* Levels this machine runs, the lowest first; returns how many. A short run leaves the references
 * out if there is anything else: they take a hundred times as long, and kernel_check has them. */
enum { RIG_MAX_LEVELS = CPU_LEVELS };
size_t rig_levels(mote_isa levels[RIG_MAX_LEVELS]);
/* The lowest of them. */
mote_isa rig_lowest(void);

/* A directory that ends with the process; in memory where the system has one, since
 * snapshots are synced. */
const char *rig_temp_dir(void);
/* rig_temp_dir()/name in a static buffer of the caller. */
void rig_temp_path(char *path, size_t bytes, const char *name);

/* ---- models and runs ---- */

/* Formats of keys and values by name: "f16", "f32", "q8_0", "q4_0". */
mote_kv rig_kv(const char *name);
const char *rig_kv_name(mote_kv kv);

/* Path of a data file: unpacked from tests/data, or in the directory MOTE_SHARED. NULL: in
 * neither. Valid until the next call. */
const char *rig_data(const char *name);

/* Path of one of the models the tests know by name ("mote-tiny-BF16", "r1-gqa4-tied" ...), NULL
 * if it is not there. A view like that of rig_data. */
const char *rig_model_path(const char *name);

mote_model *rig_open(const char *path, mote_isa isa);
mote_engine *rig_engine(const mote_model *model, const mote_engine_options *options);
mote_session *rig_session(mote_engine *engine);

/* Appends tokens[0 .. n) to one session. */
void rig_feed(mote_engine *engine, mote_session *session, const mote_token *tokens, size_t n,
              mote_logits want);

/* Index of the largest value, the first of equals. */
uint32_t rig_argmax(const float *row, size_t n);

/* Tokens below `vocabulary`, with repetitions: equal keys are the hard case of the
 * delta rule. */
void rig_random_tokens(rig_random *r, uint32_t vocabulary, mote_token *tokens, size_t n);

#endif
