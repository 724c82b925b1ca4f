/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mtp_file.h - the file with the MTP head (mtp-*.gguf) in the directory of the weights.
 *
 * For weights that are given as a path. hub_files.h has the rule if there are several.
 */
#ifndef MOTE_STORE_MTP_FILE_H
#define MOTE_STORE_MTP_FILE_H

enum { MTP_PATH_BYTES = 4096 };

/* `out` has MTP_PATH_BYTES; empty: none. */
void mtp_file_find(char *out, const char *weights);

#endif
