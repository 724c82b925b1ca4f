/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tokenizer_files.h - the tokenizer files of a checkpoint as tokenizer.* metadata.
 *
 * Reads tokenizer.json, or vocab.json and merges.txt without it; tokenizer_config.json;
 * chat_template.jinja or chat_template.json.
 */
#ifndef MOTE_CONVERT_TOKENIZER_FILES_H
#define MOTE_CONVERT_TOKENIZER_FILES_H

#include "convert/checkpoint.h"
#include "gguf/gguf_writer.h"

/* `n_vocab` is vocab_size of config.json; ids without a token become [PADi]. MOTE_E_UNSUPPORTED:
 * the tokenizer splits text by other rules than Qwen 3.5. */
mote_status tokenizer_files_put(const checkpoint *c, uint32_t n_vocab, gguf_writer *w,
                                mote_error *err);

#endif
