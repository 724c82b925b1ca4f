/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load.h - from a file's name to an engine with one session: the flags about the
 * machine, and the steps every command that runs the model has in common.
 *
 * All functions return an exit code and have said what is wrong unless it is 0.
 */
#ifndef MOTE_CLI_LOAD_LOAD_H
#define MOTE_CLI_LOAD_LOAD_H

#include "cli/args/command.h"

#include <mote.h>

typedef struct load_options {
    uint64_t threads; /* 0: one per physical core */
    uint64_t isa;     /* mote_isa */
    uint64_t kv;      /* mote_kv */
    double yarn;      /* 0: as trained */
    uint64_t pin;     /* mote_pin */
    uint64_t context; /* 0: the command decides */
} load_options;

/* Of a flag for mote_kv, and the name of one. */
#define LOAD_KV_CHOICES "f16|f32|q8_0"
const char *load_kv_name(uint64_t kv);

/* For the `flags` of a flag_group whose base is a load_options. */
extern const cli_flag load_flags[];
enum { LOAD_N_FLAGS = 6 };
#define LOAD_FLAG_GROUP(base)                                                                      \
    {                                                                                              \
        "Machine", load_flags, LOAD_N_FLAGS, base                                                  \
    }

typedef struct loaded {
    mote_model *model;
    mote_engine *engine;
    mote_session *session;
} loaded;

/* Explains a file that is not there or may not be read; 0: it can be opened. */
int load_check_file(const char *path);

/* Says what is wrong with a file, and with which. */
int load_failed(const char *path, mote_error *err);

/* Opens the model, nothing more; `vision` is its picture tower, or NULL. */
int load_model(loaded *l, const char *path, const char *vision, mote_isa isa);
/* Brings the file into memory, with a progress line. Can be interrupted. */
int load_warm(const loaded *l);
/* Makes the engine for `context` positions and one session, which Ctrl-C cancels from now on. */
int load_engine(loaded *l, const load_options *options, uint64_t context, uint32_t logits_rows);
/* Undoes all of it. */
void load_close(loaded *l);

/* Context of a prompt when the user names none: `usual`, or what the prompt and `answer` tokens
 * need, up to what the model was trained for. */
uint64_t load_context(const loaded *l, const load_options *options, uint64_t prompt,
                      uint64_t answer);

#endif
