/* SPDX-License-Identifier: Apache-2.0 */
/* model_name.h - what a model is called, and what else clients may call it. */
#ifndef MOTE_SERVER_MODELS_MODEL_NAME_H
#define MOTE_SERVER_MODELS_MODEL_NAME_H

#include "base/str.h"

enum { MODEL_NAME_BYTES = 128 };

/* "Qwen3.5-4B-Q4_K_M.gguf" is called "qwen3.5-4b-q4_k_m". */
void model_name_of_file(char out[MODEL_NAME_BYTES], const char *path);

/* Does somebody who asks for this mean it? Case does not count, nor do a publisher in front and
 * ":latest" behind; a colon or an underscore is as good as a dash. Unless `whole`, the beginning of
 * the name up to a dash will do. */
bool model_name_is(const char *name, str asked, bool whole);

#endif
