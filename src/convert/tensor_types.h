/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tensor_types.h - formats that the user sets for single tensors, as `--tensor-type REGEX=TYPE`.
 *
 * The regular expression is an extended one of POSIX, in any case, and may match any part of the
 * name. The first one that matches counts, as in llama-quantize.
 */
#ifndef MOTE_CONVERT_TENSOR_TYPES_H
#define MOTE_CONVERT_TENSOR_TYPES_H

#include "base/err.h"
#include "quant/quant.h"

typedef struct tensor_types tensor_types;

/* `texts`: n times REGEX=TYPE; they must outlive the result. MOTE_E_ARG: malformed, an unknown type,
 * or one that mote does not write. */
mote_status tensor_types_new(tensor_types **out, const char *const *texts, size_t n,
                             mote_error *err);
/* NULL is allowed. */
void tensor_types_free(tensor_types *t);

/* False: no expression matches. With t NULL always. */
bool tensor_types_find(tensor_types *t, const char *tensor, quant_format *format);
/* The first text that tensor_types_find has never returned; NULL: none. */
const char *tensor_types_unused(const tensor_types *t);
/* Text i; NULL behind the last one. */
const char *tensor_types_text(const tensor_types *t, size_t i);

#endif
