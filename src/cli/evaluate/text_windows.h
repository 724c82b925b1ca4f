/* SPDX-License-Identifier: Apache-2.0 */
/*
 * text_windows.h - a text in windows, with the logits of one or two models for the second half of
 * each.
 *
 * The convention of llama-perplexity: the whole text is tokenized without added tokens and cut into
 * windows of `size` tokens; the rest at the end is dropped. Each window starts with an empty
 * session. Its first half is context. The logits after the tokens size / 2 to size - 2 predict the
 * tokens after them, so a window has size - size / 2 - 1 predictions.
 *
 * Functions that return int return an exit code and have reported the error unless it is 0.
 */
#ifndef MOTE_CLI_EVALUATE_TEXT_WINDOWS_H
#define MOTE_CLI_EVALUATE_TEXT_WINDOWS_H

#include "cli/load/load.h"

enum { WINDOW_MIN = 4, WINDOW_MODELS = 2 };

/* The flags of a command that reads a text in windows, and their values. */
typedef struct window_options {
    uint64_t size;
    uint64_t limit; /* windows; 0: all */
    load_options load;
} window_options;

extern const cli_flag window_flags[];
enum { WINDOW_N_FLAGS = 2 };
#define WINDOW_FLAG_GROUP(base)                                                                    \
    {                                                                                              \
        "Windows", window_flags, WINDOW_N_FLAGS, base                                              \
    }
/* load_flags without --context, which is that of a window here. */
#define WINDOW_LOAD_FLAG_GROUP(base)                                                               \
    {                                                                                              \
        "Machine", load_flags + 1, LOAD_N_FLAGS - 1, base                                          \
    }

typedef struct text_windows {
    input_ids ids; /* of the whole text */
    size_t size;
    size_t n;
} text_windows;

/* Reads the file, or stdin if path is "-". A text shorter than a window is an error. */
int windows_read(text_windows *w, const mote_model *model, const char *path,
                 const window_options *options);
void windows_free(text_windows *w);
/* All predictions. */
size_t windows_scored(const text_windows *w);

/* An engine with a session for one window. */
int windows_engine(loaded *l, const window_options *options, mote_kv kv, const text_windows *w);

/* Prediction `index` of windows_scored: the logits of each model and the token that followed. Runs
 * on several threads at once; it writes only what belongs to `index`. */
typedef void window_row_fn(void *ctx, size_t index, const float *const *rows, mote_token token);

/* Runs all windows through n models with the same vocabulary, in the same steps, so that memory
 * does not grow with the text. Shows a progress line. */
int windows_run(const text_windows *w, const loaded *models, size_t n, window_row_fn *row,
                void *ctx);

#endif
