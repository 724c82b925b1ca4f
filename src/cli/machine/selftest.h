/* SPDX-License-Identifier: Apache-2.0 */
/*
 * selftest.h - checks that this machine computes the defined results.
 *
 * The built-in models run on every instruction-set level of this CPU. Each level must give the
 * stored logits bit for bit, and the same bits for any number of threads, any split of the prompt,
 * and for a forked or rewound session. The stored logits are in selftest_stored.c; they come from
 * the reference kernels.
 *
 * With a model file there are no stored logits: all levels, threads and splits must agree with
 * the first run.
 */
#ifndef MOTE_CLI_MACHINE_SELFTEST_H
#define MOTE_CLI_MACHINE_SELFTEST_H

#include "base/cpu.h"
#include "cli/machine/selftest_model.h"

enum { SELFTEST_LEVELS = CPU_LEVELS, SELFTEST_LOGITS = 4, SELFTEST_MESSAGE_BYTES = 400 };

/* ---- cases: one built-in model each ---- */

typedef struct selftest_case {
    const char *name;    /* "Q4_K" */
    const char *kernels; /* those that no case before uses, for messages */
    selftest_shape shape;
    mote_kv kv;
    uint32_t tokens; /* length of the prompt */
    bool slow;       /* skipped on the reference kernels, which take seconds for it */
} selftest_case;

/* From simple to composed: the first case that fails names the wrong kernels. */
extern const selftest_case selftest_cases[];
extern const size_t selftest_n_cases;

typedef struct selftest_result {
    uint64_t all;                  /* hash of the logits of all tokens */
    uint64_t last;                 /* hash of those of the last token */
    float logits[SELFTEST_LOGITS]; /* the first ones of the last token */
} selftest_result;

/* [selftest_n_cases], for MOTE_NUMERICS 2. tests/cli/selftest_test.c compares it with the reference
 * kernels. */
extern const selftest_result selftest_stored[];

/* ---- checks ---- */

typedef enum selftest_check {
    SELFTEST_STORED,  /* the stored logits; with a model file: those of the first level */
    SELFTEST_THREADS, /* 2 threads, and one per core */
    SELFTEST_SPLIT,   /* the prompt in other steps */
    SELFTEST_CACHE,   /* a forked session, two sessions in a step, a rewound session */
    SELFTEST_N_CHECKS
} selftest_check;

/* "stored logits", "threads", "split prompt", "fork and rewind" */
const char *selftest_check_name(selftest_check check);

typedef struct selftest_level {
    mote_isa level;
    uint32_t runs[SELFTEST_N_CHECKS];
    uint32_t failed[SELFTEST_N_CHECKS];
    /* What differs in the first failure of a check: "Q4_K products: logit 0 is 1, expected 2". */
    char message[SELFTEST_N_CHECKS][SELFTEST_MESSAGE_BYTES];
    const char *kernels[SELFTEST_N_CHECKS]; /* selftest_case.kernels of that failure */
    double seconds;
} selftest_level;

typedef struct selftest {
    uint32_t threads; /* the largest number that is tested; 0: one per core */
    /* Called before every run; false ends the test with MOTE_E_CANCELED. May be NULL. */
    bool (*progress)(void *ctx, mote_isa level, const char *what);
    void *ctx;
} selftest;

/* Levels of this CPU, lowest first. Returns their number. */
size_t selftest_find_levels(mote_isa levels[SELFTEST_LEVELS]);

/* Runs one case as its stored result was made: 1 thread, all tokens but three in the first step,
 * then one token per step. */
mote_status selftest_run_case(const selftest_case *c, mote_isa level, selftest_result *out,
                              mote_error *err);

/* Runs the built-in models on one level, up to the first that differs. An error means that a run
 * was not possible; differences are in *out. */
mote_status selftest_run_level(const selftest *t, mote_isa level, selftest_level *out,
                               mote_error *err);

/* Runs a model file on one level with a prompt of n tokens. *first is the result that all runs must
 * have; the first call, with is_first, sets it. The reference kernels take a hundred times as long
 * as others: they run once, unless they are the first level. */
mote_status selftest_run_file(const selftest *t, const char *path, mote_isa level, size_t n,
                              selftest_result *first, bool is_first, selftest_level *out,
                              mote_error *err);

bool selftest_passed(const selftest_level *level);

#endif
