/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_split.h - divides a GGUF file into parts, as llama-gguf-split does, or cuts off its head. */
#ifndef MOTE_TESTS_SUPPORT_GGUF_SPLIT_H
#define MOTE_TESTS_SUPPORT_GGUF_SPLIT_H

#include <stdbool.h>
#include <stdint.h>

/* Writes STEM-00001-of-0000N.gguf and so on. The tensors keep their order. `empty_first`: the first
 * part has metadata only (--no-tensor-first-split). False: the source cannot be read, or a part
 * cannot be written. */
bool test_gguf_split(const char *source, const char *stem, uint32_t parts, bool empty_first);

/* Writes a model with an MTP head as two files, as llama.cpp's converter does: `body` without the
 * head, `head` with the head and the tensors that it shares with the model. */
bool test_gguf_split_head(const char *source, const char *body, const char *head);

#endif
