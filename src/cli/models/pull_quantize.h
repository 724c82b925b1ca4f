/* SPDX-License-Identifier: Apache-2.0 */
/* pull_quantize.h - `mote pull --quantize`: a model of Safetensors files, quantised on this machine. */
#ifndef MOTE_CLI_MODELS_PULL_QUANTIZE_H
#define MOTE_CLI_MODELS_PULL_QUANTIZE_H

#include "cli/args/command.h"
#include "cli/load/pull_model.h"
#include "store/store.h"

/*
 * Downloads the Safetensors files of a repository, converts and quantises them to `type`. The model
 * is then REPO/REPO-TYPE.gguf in store_own_directory, with an mmproj file next to it. What is there
 * already is not made again, and an interrupted run continues.
 *
 * Returns an exit code; the error is reported unless it is 0.
 */
int pull_quantize(const cli_call *call, store *s, const model_name *name, const pull_options *o,
                  const char *type);

#endif
