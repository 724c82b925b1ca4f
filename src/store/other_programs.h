/* SPDX-License-Identifier: Apache-2.0 */
/*
 * other_programs.h - models of other programs and of directories, used where they are.
 *
 *     Ollama       $OLLAMA_MODELS, else ~/.ollama/models and that of its Linux service:
 *                  manifests/HOST/NAMESPACE/MODEL/TAG is JSON that names blobs/sha256-HEX
 *     LM Studio    ~/.lmstudio/models/PUBLISHER/REPO/FILE.gguf, older ~/.cache/lm-studio/models, or
 *                  the one that ~/.lmstudio/settings.json names
 *     directories  $MOTE_MODELS, separated by ':'; else $XDG_DATA_HOME/mote/models
 *     llama.cpp    $LLAMA_CACHE, else ~/.cache/llama.cpp: owner_repo_FILE.gguf
 *
 * Ollama removes blobs that no manifest names when it starts, so a model may disappear.
 */
#ifndef MOTE_STORE_OTHER_PROGRAMS_H
#define MOTE_STORE_OTHER_PROGRAMS_H

#include "store/store.h"

/* Each adds its models to the list of a store. */
mote_status ollama_scan(store *s, mote_error *err);
mote_status lm_studio_scan(store *s, mote_error *err);
mote_status directories_scan(store *s, mote_error *err);
mote_status llama_cpp_scan(store *s, mote_error *err);

#endif
