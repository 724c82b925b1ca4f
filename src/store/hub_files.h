/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hub_files.h - which files of a repository are a model: weights, all parts of split weights, the
 * vision encoder (mmproj) and the MTP head.
 *
 * The same rule chooses from the listing of a hub, from a snapshot in the cache and from a
 * directory. The result depends on the set of files only, never on their order.
 *
 * - Weights: *.gguf, but no mmproj, no imatrix, and no draft model (mtp-, eagle3-, dflash-,
 *   dspark- at the start of the name). Of split weights the first part, NAME-00001-of-0000N.gguf,
 *   stands for all.
 * - A quantisation matches as a whole word in any case: F16 never selects BF16. A match in the file
 *   name comes before one in a directory name; then the shorter path; then byte order.
 * - mmproj and MTP files belong to the weights if they are in the same directory or in one above
 * it; the nearest directory counts. mmproj.h chooses between several mmproj files. Of several MTP
 *   files, one with the quantisation of the weights comes first.
 */
#ifndef MOTE_STORE_HUB_FILES_H
#define MOTE_STORE_HUB_FILES_H

#include "base/err.h"
#include "base/str.h"
#include "store/known_models.h"

enum { HUB_MAX_PARTS = 999, HUB_NO_FILE = -1 };

typedef struct hub_file {
    const char *path; /* in the repository */
    uint64_t bytes;
} hub_file;

/* Indexes into the listing. */
typedef struct hub_choice {
    int32_t weights[HUB_MAX_PARTS]; /* [n_weights], in the order of the parts */
    uint32_t n_weights;
    int32_t mmproj; /* HUB_NO_FILE: none */
    int32_t mtp;
    uint64_t bytes; /* of all files together */
} hub_choice;

/*
 * Chooses the files for "hf:owner/repo:SELECTOR": a quantisation, a file name or a path in the
 * repository. Empty: Q4_K_M, else Q8_0, else the only model, else the first in byte order.
 *
 * MOTE_E_ARG: nothing matches; the text lists what there is. MOTE_E_FORMAT: a part of split weights
 * is missing.
 */
mote_status hub_choose_files(hub_choice *out, const hub_file *files, size_t n, const char *selector,
                             mote_error *err);

/* The same for a known model: the file names of its row if the listing has them, else the rule
 * above with the quantisation. */
mote_status hub_choose_known(hub_choice *out, const hub_file *files, size_t n,
                             const known_model *row, const char *quant, mote_error *err);

/* The index of the MTP file of weights with this path; HUB_NO_FILE: none. */
int32_t hub_choose_mtp(const hub_file *files, size_t n, const char *weights);

/* ---- names of files ---- */

/* NAME-00002-of-00003.gguf: *part is 2, *parts is 3, *stem the length of the path without
 * "-00002-of-00003.gguf". False: not a part. */
bool hub_split_name(const char *path, uint32_t *part, uint32_t *parts, size_t *stem);
/* The path is that of weights: of a single file or of any part. */
bool hub_is_weights(const char *path);
/* The same, and it is not a part after the first. */
bool hub_is_model(const char *path);

/* The path is that of a Safetensors file of a model, or of one that `mote convert` reads besides. */
bool hub_is_checkpoint(str path);

/* The path is that of an MTP head. */
bool hub_is_mtp(const char *path);

/* The quantisation in a file name, such as "Q4_K_M", "UD-Q4_K_XL" or "BF16"; "": none found. */
void hub_quant_of(const char *path, char out[KNOWN_QUANT_BYTES]);

#endif
