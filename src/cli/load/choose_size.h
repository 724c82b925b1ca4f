/* SPDX-License-Identifier: Apache-2.0 */
/*
 * choose_size.h - the model for a name without a size, such as "qwen3.5", and the speed of this
 * machine that the choice needs.
 *
 * The speed is measured once and stored in the cache directory. Functions that return int return an
 * exit code and have reported the error unless it is 0.
 */
#ifndef MOTE_CLI_LOAD_CHOOSE_SIZE_H
#define MOTE_CLI_LOAD_CHOOSE_SIZE_H

#include "fit/fit.h"

typedef enum speed_source {
    SPEED_STORED,             /* never measure */
    SPEED_STORED_OR_MEASURED, /* measure if nothing is stored */
    SPEED_MEASURED            /* always measure */
} speed_source;

/* *known is false if the speed is not stored and must not be measured. A measurement is stored. */
int machine_speed_find(machine_speed *out, bool *known, const speed_options *options,
                       speed_source source);

/* Bytes that a model may use: `memory`, or what is available if that is 0. *source: the name of the
 * limit. */
uint64_t machine_budget(uint64_t memory, char *source, size_t room);

enum { CHOSEN_NAME_BYTES = KNOWN_FULL_NAME_BYTES };

typedef enum size_choice_from {
    CHOOSE_INSTALLED, /* of the installed models; without one, of all */
    CHOOSE_ALL
} size_choice_from;

/* Writes the name of the model of a family that this machine should run, and prints one line about
 * it. `memory` is --memory, or 0. Exit code 4: none fits. */
int choose_size(char out[CHOSEN_NAME_BYTES], store *s, const char *family, size_choice_from from,
                uint64_t memory);

#endif
