/* SPDX-License-Identifier: Apache-2.0 */
/* sample_options.h - what mote_sampling may hold; the ranges themselves are in the .c file. */
#ifndef MOTE_SAMPLE_SAMPLE_OPTIONS_H
#define MOTE_SAMPLE_SAMPLE_OPTIONS_H

#include "base/err.h"

/* MOTE_E_ARG names the first option that is out of range, with its value. */
mote_status sample_check_options(const mote_sampling *how, uint32_t n_tokens, mote_error *err);

#endif
