/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fit.h - which models this machine can run, how fast, and which one to use.
 *
 * A row is one model in one quantisation. If it is installed, its memory and its work are those of
 * the file; otherwise those of a file with the same tensors (shape_file.h). The rule for the choice
 * is in fit.c.
 */
#ifndef MOTE_FIT_FIT_H
#define MOTE_FIT_FIT_H

#include "fit/machine_speed.h"
#include "store/store.h"

enum {
    FIT_CONTEXT = 8192,       /* tokens that a model must hold to fit */
    FIT_ROOMY_CONTEXT = 32768 /* tokens that a larger quantisation than the default must hold */
};

typedef struct fit_request {
    uint64_t budget;  /* bytes that a model may use */
    uint64_t context; /* tokens per session; 0: FIT_CONTEXT */
    uint32_t sessions;
    uint32_t threads; /* 0: one per core */
    mote_kv kv;
} fit_request;

typedef enum fit_verdict {
    FIT_NO,    /* the memory is not enough for the context */
    FIT_TIGHT, /* it is, but more than 7/8 of the budget is used */
    FIT_SLOW,  /* below FIT_FAST_ENOUGH tokens per second and session */
    FIT_COMFORTABLE,
    FIT_RECOMMENDED /* the choice of fit_choose for the whole table */
} fit_verdict;
const char *fit_verdict_name(fit_verdict verdict);

/* Decode speeds, tokens per second: of a usable model, and of one that can afford a larger
 * quantisation. People read about five tokens per second. */
#define FIT_FAST_ENOUGH 5.0
#define FIT_FAST        20.0

typedef struct fit_row {
    char name[KNOWN_FULL_NAME_BYTES]; /* "qwen3.5:4b-q8_0"; of a file "" */
    const known_model *known;         /* NULL: a file */
    char quant[KNOWN_QUANT_BYTES];
    const store_model *installed; /* NULL: not installed */
    mote_memory asked;            /* with the context of the request */
    mote_memory full;             /* with the trained context */
    uint64_t vision;              /* bytes of the vision encoder file; 0: none */
    uint64_t trained;             /* context */
    uint64_t context;             /* largest context that fits, at most the trained one; 0: none */
    model_work work;
    model_speed speed; /* zeros: unknown */
    fit_verdict verdict;
} fit_row;

typedef struct fit_table {
    fit_row *rows;
    uint32_t n, room;
} fit_table;

void fit_table_fini(fit_table *t);

/* Adds a model file. `mmproj` is its vision encoder, or NULL. */
mote_status fit_add_file(fit_table *t, const char *path, const char *mmproj, const fit_request *q,
                         mote_error *err);
/* Adds a known model: one quantisation, or all that mote knows the tensors of (quant NULL). */
mote_status fit_add_known(fit_table *t, store *s, const known_model *known, const char *quant,
                          const fit_request *q, mote_error *err);
/* Adds the installed models of a family, such as "qwen3.5", of every program. */
mote_status fit_add_installed(fit_table *t, store *s, const char *family, const fit_request *q,
                              mote_error *err);

/* Bit set of the weight formats of all rows, for machine_speed_measure. */
uint32_t fit_table_formats(const fit_table *t);
/* Fills in speeds and verdicts; `speed` NULL: unknown. */
void fit_table_judge(fit_table *t, const machine_speed *speed, const fit_request *q);

/* The quantisation of one model to use: the row of `known` that fit_choose prefers. */
const fit_row *fit_choose_quant(const fit_table *t, const known_model *known, bool installed);
/* The row to use; NULL: none fits. With `installed`, only of the models that are. */
const fit_row *fit_choose(const fit_table *t, bool installed);

#endif
