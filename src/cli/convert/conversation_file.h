/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conversation_file.h - one line of a file of conversations: a JSON object with `messages` and
 * `tools` in OpenAI's format, and `system`, a text. Other fields are ignored.
 *
 * A message can have images: parts {"type": "image_url", "image_url": {"url": PATH}}, where PATH is
 * a file, relative to the directory of the file of conversations. As in mote_chat_add_media they come
 * before the text of the message.
 */
#ifndef MOTE_CLI_CONVERT_CONVERSATION_FILE_H
#define MOTE_CLI_CONVERT_CONVERSATION_FILE_H

#include "cli/load/media_files.h"

/* Adds the conversation of a line to an empty chat; `path` is the file of conversations. Images are
 * added to `media` and must outlive the chat. *code: an exit code; not 0: an image cannot be used,
 * which is reported. */
mote_status conversation_read(mote_chat *chat, str line, const char *path, media_files *media,
                              const mote_model *model, uint32_t threads, int *code,
                              mote_error *err);

#endif
