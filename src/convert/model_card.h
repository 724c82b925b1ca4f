/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_card.h - general.* metadata: name, size, licence, tags, base models and sampling presets,
 * from README.md, generation_config.json, config.json and the name of the directory.
 */
#ifndef MOTE_CONVERT_MODEL_CARD_H
#define MOTE_CONVERT_MODEL_CARD_H

#include "convert/checkpoint.h"
#include "gguf/gguf_writer.h"

/* `name` (NULL: derived) is general.name. `values` is the number of weights of the file. */
mote_status model_card_put(const checkpoint *c, const char *name, uint64_t values, gguf_writer *w,
                           mote_error *err);

#endif
